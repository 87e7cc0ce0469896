//! A group: settles and messages of several queues of one commit stream that take effect together or not at all, even after a
//! crash.
//!
//! The queues are visited one after the other, each under its own lock. In memory every settle takes effect at once, and
//! messages wait in their queues until the commit record is durable. There is no rollback: everything that could refuse has to
//! be checked before the first step.

use std::sync::Arc;

use leveret_log::{GroupId, LogId, Wait};
use leveret_queue::{GroupPlace, Place};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::queue_handle::{LocalQueue, QueueRef, Waiting};
use crate::shared_messages::SharedMessages;
use crate::streams::{Record, StreamRef};
use crate::ticket::Ticket;

/// From this number of queues on, a set is used to look up known queues.
const SEARCHED_MAX: usize = 16;

/// An open group. It is open within one call only, whose caller has checked that the stream has room.
pub struct Group {
    stream: StreamRef,
    /// Its id; `None` before the first record.
    id: Option<GroupId>,
    place: Arc<GroupPlace>,
    /// Queues that got messages in it.
    queues: SmallVec<[LocalQueue; 4]>,
    /// The same queues by their logs, once there are many.
    touched: FxHashSet<LogId>,
    /// Queues whose dead letters it moves, with the answers that wait until it is durable.
    moving: Vec<(LocalQueue, Vec<Waiting>)>,
    /// Ranges of the shared log that a queue releases when the group takes effect.
    released: Vec<(Arc<SharedMessages>, u64, u64)>,
}

impl Group {
    /// An empty group of this stream.
    pub fn new(stream: &StreamRef) -> Self {
        Self {
            stream: stream.clone(),
            id: None,
            place: Arc::default(),
            queues: SmallVec::new(),
            touched: FxHashSet::default(),
            moving: Vec::new(),
            released: Vec::new(),
        }
    }

    /// The stream that it belongs to.
    pub fn stream(&self) -> &StreamRef {
        &self.stream
    }

    /// Appends a record as part of it.
    pub(crate) fn append(&mut self, record: Record<'_>) -> Ticket {
        self.stream.append_in(&mut self.id, record)
    }

    pub(crate) fn place(&self) -> &Arc<GroupPlace> {
        &self.place
    }

    /// Notes that `queue` got messages.
    pub(crate) fn touch(&mut self, queue: &LocalQueue) {
        let is_new = match self.queues.len() < SEARCHED_MAX {
            true => !self.queues.iter().any(|other| Arc::ptr_eq(other, queue)),
            false => {
                if self.touched.is_empty() {
                    self.touched.extend(self.queues.iter().map(|other| other.log_id()));
                }
                self.touched.insert(queue.log_id())
            }
        };
        if is_new {
            self.queues.push(queue.clone());
        }
    }

    /// Releases a range of the shared log for a queue once the group is written; before that, a crash brings it back.
    pub(crate) fn release(&mut self, shared: &Arc<SharedMessages>, first: u64, last: u64) {
        self.released.push((shared.clone(), first, last));
    }

    /// Notes that it moves dead letters of `queue`; `waiting` waits for it and for earlier moves.
    pub(crate) fn moves(&mut self, queue: &LocalQueue, waiting: Vec<Waiting>) {
        self.moving.push((queue.clone(), waiting));
    }

    /// Closes it. Returns the ticket of its answer, and the queues that have to be applied when that is reached.
    pub fn close(mut self, wait: Wait) -> (Ticket, SmallVec<[QueueRef; 4]>) {
        let ticket = self.commit_records(wait);
        (ticket, std::mem::take(&mut self.queues).into_iter().map(QueueRef::from).collect())
    }

    fn commit_records(&mut self, wait: Wait) -> Ticket {
        let ticket = self.id.take().and_then(|id| self.stream.commit_group(id, wait));
        let ticket = ticket.unwrap_or(Ticket::new(self.stream.id(), Place::NOTHING));
        self.place.close(ticket.place());
        for (shared, first, last) in std::mem::take(&mut self.released) {
            shared.release(first, last);
        }
        for (queue, waiting) in std::mem::take(&mut self.moving) {
            queue.moved_in(ticket.place(), waiting);
        }
        ticket
    }
}

impl Drop for Group {
    /// The caller panicked. Its steps took effect in memory and can't be taken back, so they are logged, too.
    fn drop(&mut self) {
        if self.id.is_some() || !self.moving.is_empty() {
            let ticket = self.commit_records(Wait::Lazy);
            for queue in std::mem::take(&mut self.queues) {
                self.stream.notify(ticket.into(), QueueRef::from(queue).waiter());
            }
        }
    }
}
