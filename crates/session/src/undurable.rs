//! What a connection published that isn't durable yet: runs that nobody can see before they are applied.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_log::Position;

use leveret_broker::allowance::Allowance;
use leveret_broker::awaited::{Awaited, Reached};
use leveret_broker::commit::Commit;
use leveret_broker::queue_handle::{Published, QueueRef};
use leveret_broker::turn_budget::{APPLY, TurnBudget};

/// How many times as much a message counts of what a connection may have on its way to the disk if the queue that it goes
/// to is behind. Between two syncs a publisher then sends an eighth of a megabyte to a quarter, more than messages of
/// usual sizes come to.
const BEHIND_WEIGHT: u64 = 16;

struct Unapplied {
    /// Of its first run.
    first: Position,
    /// Of its last run.
    position: Position,
    queue: QueueRef,
    bytes: u64,
}

/// Runs that wait for the same: that they are durable, or written. Positions never go back, so a queue of them is enough.
#[derive(Default)]
struct Runs(VecDeque<Unapplied>);

impl Runs {
    fn note(&mut self, position: Position, queue: &QueueRef, bytes: u64) {
        match self.0.back_mut() {
            Some(last) if Arc::ptr_eq(&last.queue, queue) && last.position + 64 > position && last.bytes < 4096 => {
                // Few small runs of the same queue: the first is answered with the last.
                last.position = position;
                last.bytes += bytes;
            }
            _ => self.0.push_back(Unapplied { first: position, position, queue: queue.clone(), bytes }),
        }
    }

    /// Applies what was reached, or as much of it as the turn may. Its bytes, and whether that was all.
    fn apply(&mut self, reached: Position, budget: &mut TurnBudget) -> (u64, bool) {
        let mut bytes = 0;
        let mut applied: Option<QueueRef> = None;
        while let Some(unapplied) = self.0.pop_front_if(|first| first.position <= reached) {
            bytes += unapplied.bytes;
            if !applied.as_ref().is_some_and(|last| Arc::ptr_eq(last, &unapplied.queue)) {
                if applied.is_some() && budget.is_spent() {
                    bytes -= unapplied.bytes;
                    self.0.push_front(unapplied);
                    return (bytes, false);
                }
                unapplied.queue.apply();
                budget.spend(APPLY);
                applied = Some(unapplied.queue);
            }
        }
        // Nothing is confirmed before it is in its queue, also when later runs of the entry aren't there yet.
        if let Some(unapplied) = self.0.front().filter(|unapplied| unapplied.first <= reached) {
            unapplied.queue.apply();
        }
        (bytes, true)
    }

    fn next_position(&self) -> Option<Position> {
        self.0.front().map(|first| first.position)
    }

    fn last_position(&self) -> Position {
        self.0.back().map_or(0, |last| last.position)
    }
}

/// See the module.
pub struct Undurable {
    synced: Runs,
    /// For queues whose durability is `os`.
    written: Runs,
    bytes: u64,
    allowance: Arc<Allowance>,
}

impl Drop for Undurable {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.allowance.leave();
        }
    }
}

impl Undurable {
    /// Nothing has been published; the limit is that of `allowance`.
    pub fn new(allowance: Arc<Allowance>) -> Self {
        Self { synced: Runs::default(), written: Runs::default(), bytes: 0, allowance }
    }

    /// A run of this connection, with so many bytes of memory, was published to `queue`. If that is behind, the run counts
    /// until it is durable, also in a queue whose durability is `os`: its confirms wait for the write alone, which holds
    /// nobody back.
    pub fn note_published(&mut self, published: Published, queue: &QueueRef, bytes: u64) {
        let Published { awaited, is_behind, .. } = published;
        match is_behind {
            false => self.note(awaited, queue, bytes),
            true => {
                if awaited.written {
                    self.note(awaited, queue, 0);
                }
                self.note(Awaited::durable(awaited.position), queue, bytes * BEHIND_WEIGHT);
            }
        }
    }

    /// A run of this connection that waits for this went to `queue`, with so many bytes of memory.
    pub fn note(&mut self, awaited: Awaited, queue: &QueueRef, bytes: u64) {
        if self.bytes == 0 && bytes > 0 {
            self.allowance.enter();
        }
        self.bytes += bytes;
        match awaited.written {
            true => self.written.note(awaited.position, queue, bytes),
            false => self.synced.note(awaited.position, queue, bytes),
        }
    }

    /// The confirm of what went to several queues, `queue` the last of them, waits for this: if one of them has to be durable,
    /// until all are, although a queue for which it is enough to be written doesn't wait for that itself.
    pub fn note_confirm(&mut self, awaited: Awaited, queue: &QueueRef) {
        if !awaited.written && awaited.position > self.synced.last_position() {
            self.synced.note(awaited.position, queue, 0);
        }
    }

    /// Applies what has come to it, or as much of it as the turn may. False when more is left: nothing that waits for `reached` is
    /// answered before all of it is in its queues.
    pub fn apply(&mut self, reached: Reached, budget: &mut TurnBudget) -> bool {
        let before = self.bytes;
        let (synced, all_synced) = self.synced.apply(reached.durable, budget);
        let (written, all_written) = self.written.apply(reached.written, budget);
        self.bytes -= synced + written;
        if before > 0 && self.bytes == 0 {
            self.allowance.leave();
        }
        all_synced && all_written
    }

    /// Whether all that was published is in its queues.
    pub fn is_empty(&self) -> bool {
        self.synced.0.is_empty() && self.written.0.is_empty()
    }

    /// What the oldest entry waits for that has to be durable.
    pub fn next_position(&self) -> Option<Position> {
        self.synced.next_position()
    }

    /// What the oldest entry waits for that has to be written.
    pub fn next_written(&self) -> Option<Position> {
        self.written.next_position()
    }

    /// True while the connection has enough on its way to the disk.
    pub fn is_full(&self) -> bool {
        self.allowance.is_exceeded_by(self.bytes)
    }

    /// The connection is gone: what isn't durable yet still has to be applied by somebody.
    pub fn hand_over(&mut self, commit: &Commit) {
        for unapplied in self.synced.0.drain(..).chain(self.written.0.drain(..)) {
            commit.apply_later(unapplied.position, unapplied.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::queue;

    #[test]
    fn what_goes_to_a_queue_that_is_behind_counts_more_and_until_it_is_durable() {
        let os = queue();
        let mut undurable = Undurable::new(Arc::default());
        let published = |position, is_behind| Published {
            accepted: 1,
            awaited: Awaited { position, written: true },
            is_behind,
            is_gone: false,
        };
        undurable.note_published(published(10, false), &os, 300 << 10);
        assert!(!undurable.is_full());
        assert!(undurable.apply(Reached { written: 10, durable: 0 }, &mut TurnBudget::unlimited()));
        assert!(undurable.is_empty(), "it has to be written only");
        undurable.note_published(published(11, true), &os, 300 << 10);
        assert!(undurable.is_full());
        assert_eq!((undurable.next_written(), undurable.next_position()), (Some(11), Some(11)));
        assert!(undurable.apply(Reached { written: 11, durable: 10 }, &mut TurnBudget::unlimited()));
        assert!(undurable.is_full(), "it is confirmed, and holds its publisher back");
        assert_eq!(undurable.next_written(), None);
        assert!(undurable.apply(Reached { written: 11, durable: 11 }, &mut TurnBudget::unlimited()));
        assert!(undurable.is_empty() && !undurable.is_full());
    }

    #[test]
    fn a_confirm_that_waits_for_the_sync_of_a_queue_that_does_not_is_told_of_it() {
        let (os, synced) = (queue(), queue());
        let awaited = [Awaited::durable(10), Awaited { position: 11, written: true }];
        let mut undurable = Undurable::new(Arc::default());
        undurable.note(awaited[0], &synced, 100);
        undurable.note(awaited[1], &os, 100);
        undurable.note_confirm(awaited[0].and(awaited[1]), &os);
        // The batch ended between the two.
        assert!(undurable.apply(Reached { written: 11, durable: 10 }, &mut TurnBudget::unlimited()));
        assert_eq!((undurable.next_position(), undurable.next_written()), (Some(11), None));
        assert!(undurable.apply(Reached { written: 11, durable: 11 }, &mut TurnBudget::unlimited()));
        assert!(undurable.is_empty());
        // Where the last one has to be durable itself, nothing is added.
        undurable.note(Awaited { position: 12, written: true }, &os, 100);
        undurable.note(Awaited::durable(13), &synced, 100);
        undurable.note_confirm(Awaited::durable(13), &synced);
        assert_eq!(undurable.synced.0.len(), 1);
        assert!(undurable.apply(Reached { written: 13, durable: 13 }, &mut TurnBudget::unlimited()));
        // Nor for those that only have to be written.
        undurable.note(Awaited { position: 14, written: true }, &os, 100);
        undurable.note_confirm(Awaited { position: 14, written: true }, &os);
        assert_eq!(undurable.next_position(), None);
    }
}
