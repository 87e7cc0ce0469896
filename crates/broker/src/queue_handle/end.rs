//! The end of a queue: it is deleted, or fails.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leveret_queue::{DeleteIf, NotDeleted, Place};

use super::QueueHandle;
use crate::ticket::Ticket;
use crate::time::Nanos;

impl QueueHandle {
    /// Closes the queue for good if `condition` holds; `log` appends the record of its deletion under the lock, and returns its
    /// ticket.
    pub(crate) fn close(
        &self,
        condition: DeleteIf,
        now: Nanos,
        log: impl FnOnce() -> Ticket,
    ) -> Result<Ticket, NotDeleted> {
        let mut queue = self.inner.lock();
        queue.close(condition, now)?;
        let ticket = log();
        *self.closed_at.lock() = ticket;
        Ok(ticket)
    }

    /// Takes back [`close`](Self::close): the record of the deletion is withdrawn.
    pub(crate) fn reopen(&self) {
        self.inner.lock().reopen();
        *self.closed_at.lock() = Ticket::default();
    }

    /// Fails the queue.
    pub(crate) fn fail(self: &Arc<Self>, reason: String) {
        self.with_newest(|_, queue, effects| queue.fail(reason, effects));
    }

    /// Dead letters stay in the queue until a restart, so answers must not claim that they have moved.
    pub(super) fn fail_moves(&self) {
        let reason = self.failure();
        self.moves.all().into_iter().for_each(|waiting| waiting.fail(&reason));
    }

    pub(super) fn failure(&self) -> Arc<str> {
        let name = &self.info.name;
        format!(
            "queue '{name}', or one that its dead letters go to, failed before a rejection of a transaction was on disk"
        )
        .into()
    }

    /// Its deletion is durable: notifies consumers, and frees its memory and its log.
    pub(crate) fn delete(self: &Arc<Self>) {
        let deleted = self.with(|queue, effects| {
            queue.references_mut().release(0, u64::MAX, |first, last| self.shared.release(first, last));
            queue.delete(effects)
        });
        let count = deleted.unwrap_or(0);
        self.place.vacate();
        self.deleted_messages.store(count, Ordering::Relaxed);
        self.deferred.forget(self);
        self.reads.dead_letters_left();
        // Dead letters in flight are gone with the queue, which is durable.
        self.moves.all().into_iter().for_each(|waiting| waiting.moved(Place::NOTHING, &*self.stream));
        self.tell_watchers();
        if self.info.is_logged() {
            self.store.forget(self.log_id);
        }
    }

    /// Number of messages that were deleted with the queue: the ready ones and, of a quorum queue, all.
    pub(crate) fn deleted_messages(&self) -> u64 {
        self.deleted_messages.load(Ordering::Relaxed)
    }
}
