//! Switches for planted bugs: tests prove that other tests detect them. Without the feature `planted-bugs` none of them has an
//! effect.

use std::cell::Cell;

/// A bug of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A fan-out over AMQP 0-9-1 is confirmed when the first of its queues has it.
    FirstQueueConfirms,
    /// Acknowledgements aren't logged.
    ForgetSettles,
    /// A place that becomes durable between the check and the registration wakes nothing.
    LoseWaiter,
    /// A requeued message isn't ready again.
    LoseRequeued,
    /// Messages are in their queue, and delivered, before they are durable.
    ApplyBeforeDurable,
    /// A confirm of AMQP 0-9-1 only waits for the write.
    ConfirmWhenWritten,
    /// An outcome of AMQP 1.0 only waits for the write.
    AcceptWhenWritten,
    /// A chunk of a stream is confirmed when it is written.
    ConfirmChunkEarly,
    /// A chunk that becomes part of the one before it is left out.
    LoseJoined,
    /// Messages that a named publisher sends again are confirmed at once.
    ConfirmRepeatEarly,
    /// Messages that a named publisher sends again are stored again.
    StoreRepeats,
    /// The end of a transaction of AMQP 1.0 is answered when it is appended.
    DischargeEarly,
    /// A message is confirmed that is in its queue behind one of a group that isn't durable yet.
    ConfirmBehindGroup,
    /// Messages that a stream left with count as durable.
    ConfirmGone,
    /// A publish that a queue refused is confirmed, if the queue answers later.
    ConfirmRefused,
    /// The answer to a get whose asker is gone is kept: its message doesn't return to the queue.
    KeepAnswer,
    /// The log doesn't say that messages left for another queue.
    ForgetMoved,
    /// The log doesn't say that dead letters, or messages of a delayed exchange that came due, left for their targets.
    RepeatLetters,
    /// A binding of a recent history exchange is answered before the last messages are safe in the queue.
    BindBeforeHistory,
    /// A new binding only gets those of the last messages that are in memory.
    SkipStoredHistory,
    /// The log doesn't say that a queue was converted.
    ForgetConversion,
    /// A new leader's queues hand out what clients of other members hold.
    IgnoreHeld,
    /// Decisions about messages aren't sent to the next leader.
    ForgetDecisions,
    /// An entry is carried out although one before it is missing, or another leadership decided on it.
    TakeAnyEntry,
    /// The mark of a placement doesn't say which publishes were carried out.
    OmitWriters,
    /// The mark of a placement is appended before the records of its entry, and not together with them.
    MarkBeforeRecords,
    /// A member that gets the state of another one leaves out the last message.
    ShortDifference,
    /// The leader of a cluster's metadata doesn't judge again whether an asker may have a change.
    TrustPermits,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug in this thread, or none.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether this bug is planted in this thread.
#[inline]
pub fn is_planted(bug: Bug) -> bool {
    cfg!(feature = "planted-bugs") && PLANTED.get() == Some(bug)
}
