//! Switches for planted bugs: tests show that the tests see them. Without the feature `planted-bugs` none of them has
//! an effect.

use std::cell::Cell;

/// A bug of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A fan-out over AMQP 0-9-1 is confirmed when the first of its queues has it.
    FirstQueueConfirms,
    /// Acknowledgements aren't logged.
    ForgetSettles,
    /// What became durable between a look and the wait for it wakes nobody.
    LoseWaiter,
    /// A message that is given back isn't ready again.
    LoseRequeued,
    /// Messages are in their queue, and delivered, before they are durable.
    ApplyBeforeDurable,
    /// A confirm of AMQP 0-9-1 waits for the write only.
    ConfirmWhenWritten,
    /// An outcome of AMQP 1.0 waits for the write only.
    AcceptWhenWritten,
    /// The end of a transaction of AMQP 1.0 is answered when it is appended.
    DischargeEarly,
    /// Nobody is told that the log has room again.
    LoseRoom,
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
