//! Removals of messages that somebody asks for.

use leveret_queue::SetAside;

use super::LocalQueue;
use crate::remote::HomeQuestion;
use crate::ticket::Ticket;
use crate::time::Nanos;

/// The number of messages that were removed, and the ticket that its publication waits for. `None` if the queue is gone, or its home or
/// leader can't be reached: then they may have been removed or not.
pub type Removed = Option<(u64, Ticket)>;

/// A removal of messages.
#[derive(Clone, Copy)]
pub(crate) enum Removal {
    /// Of all that are ready.
    Purge,
    /// Of those with these numbers that were set aside in this way.
    SetAside { which: SetAside, first: u64, last: u64 },
}

impl Removal {
    /// Removes them at the queue's home.
    pub(crate) fn carry_out(self, queue: &LocalQueue, now: Nanos) -> (u64, Ticket) {
        match self {
            Self::Purge => queue.purge(now),
            Self::SetAside { which, first, last } => queue.drop_set_aside(which, first, last),
        }
    }

    /// It as a question to the queue's home.
    pub(crate) fn question(self) -> HomeQuestion {
        match self {
            Self::Purge => HomeQuestion::Purge,
            Self::SetAside { which, first, last } => HomeQuestion::DropSetAside { which, first, last },
        }
    }
}
