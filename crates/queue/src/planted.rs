//! Switches for planted bugs: tests show that the tests see them. Without the feature `planted-bugs` none of them has
//! an effect.

use std::cell::Cell;

/// A bug of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Of what became durable, the latest is applied first.
    ApplyOutOfOrder,
    /// Acknowledged messages take one byte too few with them.
    DriftBytes,
    /// A state for a checkpoint leaves out the last message of a queue.
    OmitLastLive,
    /// A queue that is restored gives numbers again that it has used.
    ReuseNumber,
    /// A message for several queues is counted for one fewer.
    CountSharedShort,
    /// A consumer's window grows by one with each acknowledgement.
    WidenWindow,
    /// An acknowledgement is carried out twice.
    SettleTwice,
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
