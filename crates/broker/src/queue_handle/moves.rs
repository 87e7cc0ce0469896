//! Whoever rejected messages and waits until they are where dead letters go.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leveret_log::Position;
use leveret_queue::GroupPosition;
use parking_lot::Mutex;

use crate::commit::Commit;
use crate::outbox::{Event, Outbox};
use crate::ticket::Ticket;

/// Why somebody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// To say that these deliveries are settled, on a link that goes with the queue.
    Settlement,
    /// To say that a transaction is done.
    Transaction,
}

/// Somebody who waits.
pub struct Waiting {
    /// How many of the queue's dead letters will have been moved then.
    through: u64,
    group: Arc<GroupPosition>,
    outbox: Arc<Outbox>,
    reason: Reason,
}

impl Waiting {
    /// The groups of the moves are written up to `position`.
    pub(crate) fn moved(self, position: Position, commit: &Commit) {
        self.group.close(position);
        commit.notify(position, &self.outbox);
    }

    /// It won't be. What the rest of a transaction became can't be said in a word, so its connection is closed.
    pub(crate) fn fail(self, text: &Arc<str>) {
        if self.reason == Reason::Transaction {
            self.outbox.send(Event::Close(text.clone()));
        }
    }
}

/// For `outbox`, which rejected messages of a queue that had failed: they won't be moved.
pub(super) fn never(outbox: &Arc<Outbox>, reason: Reason, text: &Arc<str>) -> Ticket {
    let group = Arc::new(GroupPosition::default());
    Waiting { through: 0, group: group.clone(), outbox: outbox.clone(), reason }.fail(text);
    Ticket::moved(group)
}

/// See the module; of one queue, in the order in which messages died. Locked after the queue.
#[derive(Default)]
pub(super) struct Moves {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Where the last group of a move ends that wrote anything.
    position: AtomicU64,
}

impl Moves {
    /// `outbox` waits until those that wait now, after so many before them, have been moved.
    pub(super) fn wait(&self, moved: u64, moving: u64, outbox: &Arc<Outbox>, reason: Reason) -> Ticket {
        if moving == 0 {
            // They were more than may wait, and dropped.
            return Ticket::default();
        }
        let through = moved + moving;
        let group = Arc::new(GroupPosition::default());
        let waiting = Waiting { through, group: group.clone(), outbox: outbox.clone(), reason };
        self.waiting.lock().push_back(waiting);
        Ticket::moved(group)
    }

    /// So many have been moved: whoever waited for that.
    pub(super) fn through(&self, moved: u64) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock();
        let count = waiting.partition_point(|waiting| waiting.through <= moved);
        waiting.drain(..count).collect()
    }

    /// A group of a move is written up to `position`, 0 if there was nothing to write. Returns what those wait for whom
    /// it was the last of: one that moves volatile messages only comes after others that may not be durable yet.
    pub(super) fn written(&self, position: Position) -> Position {
        self.position.fetch_max(position, Ordering::AcqRel).max(position)
    }

    /// Everybody.
    pub(super) fn all(&self) -> VecDeque<Waiting> {
        std::mem::take(&mut *self.waiting.lock())
    }
}
