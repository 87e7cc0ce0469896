//! A connection's uncommitted publishes: runs stay invisible until they are applied.

use std::sync::Arc;

use leveret_broker::allowance::Allowance;
use leveret_broker::queue_handle::{Published, QueueRef};
use leveret_broker::streams::Streams;
use leveret_broker::streams::waits::RunsByStream;
use leveret_broker::ticket::{Awaited, StreamId};
use leveret_broker::turn_budget::TurnBudget;
use leveret_broker::wait_for::{Reached, WaitFor};
use smallvec::SmallVec;

/// The weight of a message to a queue that is behind, within the limit on a connection's bytes on their way to the
/// disk. At this weight a publisher sends between an eighth and a quarter of a megabyte between two syncs, which is
/// more than messages of usual sizes add up to.
const BEHIND_WEIGHT: u64 = 16;

/// Most streams of links that are remembered.
const LINKS_MAX: usize = 8;

/// The publishes of one connection that aren't durable yet.
pub struct Undurable {
    runs: RunsByStream<QueueRef>,
    bytes: u64,
    allowance: Arc<Allowance>,
    /// Streams of links that it published to lately: the nodes behind them may hold publishers back, also those with nothing on its way.
    links: SmallVec<[StreamId; 2]>,
}

impl Drop for Undurable {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.allowance.leave();
        }
    }
}

impl Undurable {
    /// An empty list; `allowance` sets the limit.
    pub fn new(allowance: Arc<Allowance>) -> Self {
        Self { runs: RunsByStream::default(), bytes: 0, allowance, links: SmallVec::new() }
    }

    /// Notes a run of this connection, with this many bytes of memory, that was published to `queue`. If the queue is
    /// behind, the run counts until it is durable. This holds even if the queue's durability is `os`: its confirms only
    /// wait for the write, which would slow down no publisher.
    pub fn note_published(&mut self, published: &Published, queue: &QueueRef, bytes: u64) {
        let &Published { awaited, is_behind, .. } = published;
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

    /// Notes a run of this connection for `queue` that waits for `awaited`, with this many bytes of memory.
    pub fn note(&mut self, awaited: Awaited, queue: &QueueRef, bytes: u64) {
        if self.bytes == 0 && bytes > 0 {
            self.allowance.enter();
        }
        self.bytes += bytes;
        if awaited.stream().is_of_link() {
            self.note_link(awaited.stream());
        }
        self.runs.note(awaited, queue, bytes);
    }

    /// Notes the position that the confirm of a run to several queues waits for; `queue` is the last of them. If one of
    /// the queues needs a sync, the confirm waits until all are durable, even though a queue that only needs the write
    /// doesn't wait for that itself.
    pub fn note_confirm(&mut self, wait: &WaitFor, queue: &QueueRef) {
        for awaited in wait.parts().filter(|awaited| !awaited.is_written() && !awaited.is_nothing()) {
            self.runs.of(awaited.stream()).synced.note_later(awaited.place(), queue);
        }
    }

    /// Applies the runs whose position has been reached, or as many as the turn allows. False if more are left: no
    /// answer that waits for them is sent before all are in their queues.
    pub fn apply(&mut self, reached: &impl Reached, budget: &mut TurnBudget) -> bool {
        let before = self.bytes;
        let (bytes, is_all) = self.runs.apply(reached, budget);
        self.bytes -= bytes;
        if before > 0 && self.bytes == 0 {
            self.allowance.leave();
        }
        is_all
    }

    /// Whether all publishes are in their queues.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The positions that the oldest entries of each stream wait for.
    pub fn awaited(&self) -> impl Iterator<Item = Awaited> {
        self.runs.awaited()
    }

    /// The streams that the connection publishes to; only the node's own log if it doesn't publish.
    #[inline]
    pub fn streams(&self) -> impl Iterator<Item = StreamId> {
        let none = self.runs.streams().next().is_none();
        self.runs.streams().chain(none.then_some(StreamId::LOCAL))
    }

    fn note_link(&mut self, stream: StreamId) {
        if !self.links.contains(&stream) {
            if self.links.len() == LINKS_MAX {
                self.links.remove(0);
            }
            self.links.push(stream);
        }
    }

    /// The streams that may hold this connection's publishes back: those that it publishes to, and of links also those that it published
    /// to lately.
    #[inline]
    pub fn holding(&self) -> impl Iterator<Item = StreamId> {
        self.streams().chain(self.links.iter().copied())
    }

    /// Whether [`holding`](Self::holding) is only the node's own log.
    #[inline]
    pub fn holds_only_local(&self) -> bool {
        self.links.is_empty() && self.runs.streams().all(|stream| stream == StreamId::LOCAL)
    }

    /// True while the connection has used up its share of bytes on their way to the disk.
    pub fn is_full(&self) -> bool {
        self.allowance.is_exceeded_by(self.bytes)
    }

    /// Hands the entries to their commit streams when the connection is closed, since they still have to be applied.
    pub fn hand_over(&mut self, streams: &Streams) {
        for (ticket, queue) in self.runs.drain() {
            streams.notify(ticket.into(), queue.waiter());
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_queue::{Place, PublishSlot, Watermarks};

    use super::*;
    use crate::fixture::queue;
    use leveret_broker::queue_handle::Acceptance;
    use leveret_broker::ticket::Ticket;

    fn written(number: u64) -> Awaited {
        Awaited::written(Ticket::new(StreamId::LOCAL, Place::new(number)))
    }

    fn durable(number: u64) -> Awaited {
        written(number).synced()
    }

    fn reached(written: u64, durable: u64) -> impl Reached {
        move |_| Some(Watermarks { written: Place::new(written), durable: Place::new(durable) })
    }

    /// The next positions that have to be written, and durable.
    fn next(undurable: &Undurable) -> (Option<u64>, Option<u64>) {
        let next = |written| {
            let mut awaited = undurable.awaited().filter(|awaited| awaited.is_written() == written);
            awaited.next().map(|awaited| awaited.place().number())
        };
        (next(true), next(false))
    }

    #[test]
    fn publishes_to_a_queue_that_is_behind_weigh_more_until_durable() {
        let os = queue();
        let mut undurable = Undurable::new(Arc::default());
        let published = |position, is_behind| Published {
            acceptance: Acceptance::Known(1),
            awaited: written(position),
            is_behind,
            is_gone: false,
            slot: PublishSlot::default(),
        };
        undurable.note_published(&published(10, false), &os, 300 << 10);
        assert!(!undurable.is_full());
        assert!(undurable.apply(&reached(10, 0), &mut TurnBudget::unlimited()));
        assert!(undurable.is_empty(), "it has to be written only");
        undurable.note_published(&published(11, true), &os, 300 << 10);
        assert!(undurable.is_full());
        assert_eq!(next(&undurable), (Some(11), Some(11)));
        assert!(undurable.apply(&reached(11, 10), &mut TurnBudget::unlimited()));
        assert!(undurable.is_full(), "it is confirmed, and holds its publisher back");
        assert_eq!(next(&undurable).0, None);
        assert!(undurable.apply(&reached(11, 11), &mut TurnBudget::unlimited()));
        assert!(undurable.is_empty() && !undurable.is_full());
    }

    #[test]
    fn a_confirm_is_notified_of_a_sync_its_last_queue_does_not_need() {
        let (os, synced) = (queue(), queue());
        let awaited = [durable(10), written(11)];
        let mut undurable = Undurable::new(Arc::default());
        undurable.note(awaited[0], &synced, 100);
        undurable.note(awaited[1], &os, 100);
        undurable.note_confirm(&awaited[0].and(awaited[1]).into(), &os);
        // The batch ended between the two runs.
        assert!(undurable.apply(&reached(11, 10), &mut TurnBudget::unlimited()));
        assert_eq!(next(&undurable), (None, Some(11)));
        assert!(undurable.apply(&reached(11, 11), &mut TurnBudget::unlimited()));
        assert!(undurable.is_empty());
        // If the last queue has to be durable itself, nothing is added.
        undurable.note(written(12), &os, 100);
        undurable.note(durable(13), &synced, 100);
        undurable.note_confirm(&durable(13).into(), &synced);
        let runs = &mut undurable.runs.of(StreamId::LOCAL).synced;
        let synced_runs: Vec<_> = runs.drain().collect();
        assert_eq!(synced_runs.len(), 1);
        synced_runs.iter().for_each(|(place, queue)| runs.note(*place, queue, 100));
        assert!(undurable.apply(&reached(13, 13), &mut TurnBudget::unlimited()));
        // Nor is anything added if all queues only have to be written.
        undurable.note(written(14), &os, 100);
        undurable.note_confirm(&written(14).into(), &os);
        assert_eq!(next(&undurable).1, None);
    }
}
