//! The step that decides on a deletion: nothing can arrive between the check of a queue and its end.

use crate::answers::{DeleteIf, NotDeleted, QueueState};
use crate::ledger_queue::LedgerQueue;
use crate::nanos::Nanos;

impl LedgerQueue {
    /// Closes the queue if the condition holds: it accepts neither messages nor consumers from then on. The caller has to log
    /// the deletion under the same lock.
    ///
    /// # Errors
    /// [`NotDeleted`], the first condition that doesn't hold; the queue stays as it is.
    pub fn close(&mut self, condition: DeleteIf, now: Nanos) -> Result<(), NotDeleted> {
        if condition.unused && self.consumers.len() > 0 {
            return Err(NotDeleted::InUse);
        }
        let messages = self.ready.messages() + self.pending.length().messages + self.parked.len() + self.delayed.len();
        let messages = messages + self.kept_dead_letters().messages;
        if condition.empty && messages > 0 {
            return Err(NotDeleted::NotEmpty);
        }
        if condition.expired && self.unused_at().is_none_or(|at| at > now) {
            return Err(NotDeleted::Used);
        }
        self.is_closed = true;
        Ok(())
    }

    /// Takes back a close whose deletion never takes effect. A deleted queue stays deleted.
    pub fn reopen(&mut self) {
        self.is_closed = self.state == QueueState::Deleted;
    }

    /// Whether it is closed or deleted.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }
}
