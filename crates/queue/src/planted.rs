//! Switches for planted bugs: tests prove that other tests detect them. Without the feature `planted-bugs` none of them has an
//! effect.

use std::cell::Cell;

/// A bug of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The latest durable messages are applied first.
    ApplyOutOfOrder,
    /// Acknowledged messages subtract one byte too few.
    DriftBytes,
    /// A checkpoint omits the last live message of a queue.
    OmitLastLive,
    /// A restored queue reuses numbers.
    ReuseNumber,
    /// A message for several queues is counted for one fewer.
    CountSharedShort,
    /// A consumer's window grows by one with each acknowledgement.
    WidenWindow,
    /// An acknowledgement is carried out twice.
    SettleTwice,
    /// A delivery that came back isn't counted.
    ForgetAttempt,
    /// A consumer that isn't the single active one gets messages.
    ServeWaiting,
    /// Neither the log nor a checkpoint says that messages are delayed.
    LoseTimers,
    /// A message that has to be parked is dropped.
    LoseParked,
    /// Messages that came back are in their old places.
    MisorderReturns,
    /// Neither the log nor a checkpoint says that dead letters are kept.
    ForgetDying,
    /// Retention of a stream removes one stretch too many.
    DropTooMuch,
    /// A stream's reader begins one message late.
    OffByOne,
    /// A chunk that became part of the one before it is counted with a header of its own.
    CountJoinedTwice,
    /// A stream that comes back leaves out an offset.
    SkipOffset,
    /// A checkpoint omits the last stretch of a stream's index.
    ForgetLastStretch,
    /// A checkpoint omits the named publishers of a stream.
    ForgetWriters,
    /// A replay doesn't look for the numbers of publishers, named or not.
    ForgetSequences,
    /// A checkpoint omits the numbers of a queue's publishers.
    ForgetPublishers,
    /// A consumer with a filter gets every message.
    IgnoreFilter,
    /// A consumer with a filter doesn't look at messages that came back.
    MissComebacks,
    /// The leader of a replicated queue hands out messages that its mark doesn't cover.
    DeliverUnmarked,
    /// A replicated queue has another active consumer while the one that its records name may be served elsewhere.
    ElectAtOnce,
    /// A stream's filter skips a message that it matches.
    SkipMatch,
    /// Messages that are on their way to disk don't come along when their queue is converted.
    LeavePending,
    /// Messages that consumers have when their queue is converted come back as if they hadn't been delivered.
    ForgetHeld,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug in this thread, or none.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

pub(crate) fn is_planted(bug: Bug) -> bool {
    cfg!(feature = "planted-bugs") && PLANTED.get() == Some(bug)
}
