//! The step that decides on a deletion: nothing comes in between the look at a queue and its end.

use crate::Nanos;
use crate::ledger_queue::ClassicQueue;

/// Conditions for deleting a queue. All that are set have to hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteIf {
    /// It has no consumers.
    pub unused: bool,
    /// It has no messages that are ready, or on their way to the disk: their publishers are told that they are in it.
    pub empty: bool,
    /// It has been unused for the time of its `x-expires`.
    pub expired: bool,
}

/// Why a queue stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotDeleted {
    /// It has consumers.
    InUse,
    /// It has messages.
    NotEmpty,
    /// It has been used meanwhile.
    Used,
}

impl DeleteIf {
    /// Whether anything has to hold.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

impl ClassicQueue {
    /// Closes the queue, if this holds: it takes neither messages nor consumers from here on. Its deletion is to be logged
    /// under the same lock.
    ///
    /// # Errors
    /// [`NotDeleted`], the first that doesn't hold; the queue stays as it is.
    pub fn close(&mut self, condition: DeleteIf, now: Nanos) -> Result<(), NotDeleted> {
        if condition.unused && self.consumers.len() > 0 {
            return Err(NotDeleted::InUse);
        }
        if condition.empty && self.ready.messages + self.pending_length.messages > 0 {
            return Err(NotDeleted::NotEmpty);
        }
        if condition.expired && self.unused_at().is_none_or(|at| at > now) {
            return Err(NotDeleted::Used);
        }
        self.is_closed = true;
        Ok(())
    }

    /// Whether it was closed, or is deleted.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }
}
