//! What a connection published that isn't durable yet: runs that nobody can see before they are applied.

use std::sync::Arc;

use leveret_queue::Watermarks;

use leveret_broker::allowance::Allowance;
use leveret_broker::queue_handle::{Published, QueueHandle, QueueRef};
use leveret_broker::streams::waits::RunsByStream;
use leveret_broker::streams::{Streams, Waiter};
use leveret_broker::ticket::{Awaited, StreamId};
use leveret_broker::turn_budget::TurnBudget;
use leveret_broker::wait_for::WaitFor;

/// How many times as much a message counts of what a connection may have on its way to the disk if the queue that it goes
/// to is behind. Between two syncs a publisher then sends an eighth of a megabyte to a quarter, more than messages of
/// usual sizes come to.
const BEHIND_WEIGHT: u64 = 16;

/// See the module.
pub struct Undurable {
    runs: RunsByStream<QueueHandle>,
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
        Self { runs: RunsByStream::default(), bytes: 0, allowance }
    }

    /// A run of this connection, with so many bytes of memory, was published to `queue`. If that is behind, the run counts
    /// until it is durable, also in a queue whose durability is `os`: its confirms wait for the write alone, which holds
    /// nobody back.
    pub fn note_published(&mut self, published: Published, queue: &QueueRef, bytes: u64) {
        let Published { awaited, is_behind, .. } = published;
        match is_behind {
            false => self.note(awaited, queue, bytes),
            true => {
                if awaited.is_written() {
                    self.note(awaited, queue, 0);
                }
                self.note(awaited.synced(), queue, bytes * BEHIND_WEIGHT);
            }
        }
    }

    /// A run of this connection that waits for this went to `queue`, with so many bytes of memory.
    pub fn note(&mut self, awaited: Awaited, queue: &QueueRef, bytes: u64) {
        if self.bytes == 0 && bytes > 0 {
            self.allowance.enter();
        }
        self.bytes += bytes;
        self.runs.note(awaited, queue, bytes);
    }

    /// The confirm of what went to several queues, `queue` the last of them, waits for this: if one of them has to be durable,
    /// until all are, although a queue for which it is enough to be written doesn't wait for that itself.
    pub fn note_confirm(&mut self, wait: &WaitFor, queue: &QueueRef) {
        for awaited in wait.parts().filter(|awaited| !awaited.is_written() && !awaited.is_nothing()) {
            self.runs.of(awaited.stream()).synced.note_later(awaited.place(), queue);
        }
    }

    /// Applies what has come to it, or as much of it as the turn may. False when more is left: nothing that waits for that is
    /// answered before all of it is in its queues.
    pub fn apply(&mut self, reached: &impl Fn(StreamId) -> Watermarks, budget: &mut TurnBudget) -> bool {
        let before = self.bytes;
        let (bytes, is_all) = self.runs.apply(reached, budget);
        self.bytes -= bytes;
        if before > 0 && self.bytes == 0 {
            self.allowance.leave();
        }
        is_all
    }

    /// Whether all that was published is in its queues.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The places that the oldest entries of each stream wait for.
    pub fn awaited(&self) -> impl Iterator<Item = Awaited> {
        self.runs.awaited()
    }

    /// The streams that the connection has published to: the node's own log before it has.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> {
        let none = self.runs.streams().next().is_none();
        self.runs.streams().chain(none.then_some(StreamId::LOCAL))
    }

    /// True while the connection has enough on its way to the disk.
    pub fn is_full(&self) -> bool {
        self.allowance.is_exceeded_by(self.bytes)
    }

    /// The connection is gone: what isn't durable yet still has to be applied by somebody.
    pub fn hand_over(&mut self, streams: &Streams) {
        for (ticket, queue) in self.runs.drain() {
            streams.notify(ticket.into(), Waiter::Queue(queue));
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_queue::Place;

    use super::*;
    use crate::fixture::queue;
    use leveret_broker::ticket::Ticket;

    fn written(number: u64) -> Awaited {
        Awaited::written(Ticket::new(StreamId::LOCAL, Place::new(number)))
    }

    fn durable(number: u64) -> Awaited {
        written(number).synced()
    }

    fn reached(written: u64, durable: u64) -> impl Fn(StreamId) -> Watermarks {
        move |_| Watermarks { written: Place::new(written), durable: Place::new(durable) }
    }

    /// The next places that have to be written, and durable.
    fn next(undurable: &Undurable) -> (Option<u64>, Option<u64>) {
        let next = |written| {
            let mut awaited = undurable.awaited().filter(|awaited| awaited.is_written() == written);
            awaited.next().map(|awaited| awaited.place().number())
        };
        (next(true), next(false))
    }

    #[test]
    fn what_goes_to_a_queue_that_is_behind_counts_more_and_until_it_is_durable() {
        let os = queue();
        let mut undurable = Undurable::new(Arc::default());
        let published =
            |position, is_behind| Published { accepted: 1, awaited: written(position), is_behind, is_gone: false };
        undurable.note_published(published(10, false), &os, 300 << 10);
        assert!(!undurable.is_full());
        assert!(undurable.apply(&reached(10, 0), &mut TurnBudget::unlimited()));
        assert!(undurable.is_empty(), "it has to be written only");
        undurable.note_published(published(11, true), &os, 300 << 10);
        assert!(undurable.is_full());
        assert_eq!(next(&undurable), (Some(11), Some(11)));
        assert!(undurable.apply(&reached(11, 10), &mut TurnBudget::unlimited()));
        assert!(undurable.is_full(), "it is confirmed, and holds its publisher back");
        assert_eq!(next(&undurable).0, None);
        assert!(undurable.apply(&reached(11, 11), &mut TurnBudget::unlimited()));
        assert!(undurable.is_empty() && !undurable.is_full());
    }

    #[test]
    fn a_confirm_that_waits_for_the_sync_of_a_queue_that_does_not_is_told_of_it() {
        let (os, synced) = (queue(), queue());
        let awaited = [durable(10), written(11)];
        let mut undurable = Undurable::new(Arc::default());
        undurable.note(awaited[0], &synced, 100);
        undurable.note(awaited[1], &os, 100);
        undurable.note_confirm(&awaited[0].and(awaited[1]).into(), &os);
        // The batch ended between the two.
        assert!(undurable.apply(&reached(11, 10), &mut TurnBudget::unlimited()));
        assert_eq!(next(&undurable), (None, Some(11)));
        assert!(undurable.apply(&reached(11, 11), &mut TurnBudget::unlimited()));
        assert!(undurable.is_empty());
        // Where the last one has to be durable itself, nothing is added.
        undurable.note(written(12), &os, 100);
        undurable.note(durable(13), &synced, 100);
        undurable.note_confirm(&durable(13).into(), &synced);
        assert_eq!(undurable.runs.of(StreamId::LOCAL).synced.len(), 1);
        assert!(undurable.apply(&reached(13, 13), &mut TurnBudget::unlimited()));
        // Nor for those that only have to be written.
        undurable.note(written(14), &os, 100);
        undurable.note_confirm(&written(14).into(), &os);
        assert_eq!(next(&undurable).1, None);
    }
}
