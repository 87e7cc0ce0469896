//! A queue whose messages only this node has is given other members: it becomes a queue of a placement, which begins with what this node
//! has of it.
//!
//! The metadata says so first. From then on the machine is over as after a failure: what was appended for it is still applied once it is
//! durable, and everything later goes to the placement. Nothing is copied here, since the log keeps records by queue: when all of the
//! queue is in it for good, the machine's state becomes this node's replica, with which the placement begins.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leveret_log::{Position, Wait};
use leveret_queue::{
    ConsumerId, ConsumerOptions, Control, DeleteIf, Effects, LedgerQueue, Place, QueueState, Replica, Watermarks,
};
use parking_lot::Mutex;

use super::QueueHandle;
use crate::placed::PlacedQueue;
use crate::ticket::Ticket;

/// The replicated queue that a queue was made.
pub(super) struct SpreadTo {
    queue: Arc<PlacedQueue>,
    /// The consumers that were cancelled here, until they go on there.
    consumers: Mutex<BTreeMap<ConsumerId, ConsumerOptions>>,
    /// Whether its log says that all of its messages may have been delivered.
    is_marked: AtomicBool,
}

impl QueueHandle {
    /// Has the queue store new messages in its own log alone, because a member elsewhere can't look them up in the one that this node's
    /// queues share. Returns whether it did not do so before: then its routes have to be found anew.
    pub(crate) fn share_nothing(&self) -> bool {
        let _queue = self.inner.lock();
        !self.shares_nothing.swap(true, Ordering::Relaxed)
    }

    /// Whether it can be spread: it has nothing in that log.
    pub(crate) fn is_ready_to_spread(&self) -> bool {
        let queue = self.inner.lock();
        *queue.state() == QueueState::Running && queue.ledger().is_some() && queue.references().is_empty()
    }

    /// The placement has the queue from now on. Its consumers are told that it is gone here: they [go on](Self::left_consumer) there, or their
    /// clients ask anew.
    pub(crate) fn spread(self: &Arc<Self>, to: &Arc<PlacedQueue>) {
        let mut effects = Effects::default();
        {
            let mut queue = self.inner.lock();
            let attempts = queue.ledger().map(LedgerQueue::logged_attempts).unwrap_or_default();
            self.log_attempts(&attempts);
            let mut watchers = self.watchers.lock();
            let consumers = queue.ledger().into_iter().flat_map(LedgerQueue::consumers);
            let consumers = consumers.map(|(id, options)| (id, options.clone())).collect();
            let spread_to = Box::new(SpreadTo {
                queue: to.clone(),
                consumers: Mutex::new(consumers),
                is_marked: AtomicBool::new(false),
            });
            if self.spread_to.set(spread_to).is_err() {
                return;
            }
            std::mem::take(&mut *watchers).into_iter().for_each(|(key, link)| to.away().watch(key, link));
            let _ = queue.close(DeleteIf::default(), 0);
            queue.fail("its messages have been given to several members".to_owned(), &mut effects);
        }
        effects.fire();
        if let Some(rare) = effects.take_rare() {
            // Very many consumers are told later.
            self.carry_out(*rare);
        }
        self.place.vacate();
        self.deferred.forget(self);
        self.reads.dead_letters_left();
        self.fail_moves();
    }

    /// The placement that has the queue by now.
    #[inline]
    pub(crate) fn spread_to(&self) -> Option<&Arc<PlacedQueue>> {
        self.spread_to.get().map(|spread| &spread.queue)
    }

    /// A consumer that was cancelled because the placement has the queue.
    pub(crate) fn left_consumer(&self, id: ConsumerId) -> Option<ConsumerOptions> {
        self.spread_to.get()?.consumers.lock().remove(&id)
    }

    /// The ticket of its last record.
    pub(crate) fn last_ticket(&self) -> Ticket {
        Ticket::new(self.stream.id(), self.last_record.get())
    }

    /// The state that it left to the placement, and the place of its last record, once that is durable.
    ///
    /// # Errors
    /// The text of a state that can't be read.
    pub(crate) fn left(self: &Arc<Self>, durable: Place) -> Option<Result<(Replica, Position), String>> {
        let last = self.last_record.get();
        if durable.is_before(last) {
            return None;
        }
        let mut queue = self.inner.lock();
        queue.apply(Watermarks::synced(durable), &mut Effects::default());
        if queue.ledger().is_some_and(|ledger| ledger.has_pending()) {
            return None;
        }
        let replica = Replica::restore(&queue.checkpoint()).map_err(|error| error.to_string());
        if let (Ok(replica), Some(spread)) = (&replica, self.spread_to.get())
            && !spread.is_marked.swap(true, Ordering::Relaxed)
        {
            // Its machine had no mark, which a start would have to know of.
            self.log_control(&Control::Mark(Cow::Owned(replica.ledger.next())), Wait::Lazy);
            return None;
        }
        Some(replica.map(|replica| (replica, last.number())))
    }
}
