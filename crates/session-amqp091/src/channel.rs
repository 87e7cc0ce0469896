//! One channel: what it was asked for, what it delivered, what it has to answer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use leveret_metrics::Counters;
use leveret_queue::{ConsumerId, Run, Taken, push_run};
use rustc_hash::FxHashMap;

use super::content::Incoming;
use super::reply_to::ReplyConsumer;
use super::sources::{Source, Sources};
use super::transaction::Tx;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::quota::Account;
use leveret_broker::stats::{Stat, Stats};
use leveret_broker::time::Nanos;
use leveret_broker::turn_budget::{CONSUMER, DELIVERY, TurnBudget};
use leveret_session::confirms::Confirms;

/// Below so many entries it isn't worth to close gaps.
const GAPS_MIN: usize = 1024;

/// A delivery that its client hasn't settled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivery {
    tag: u64,
    number: u64,
    bytes: u32,
    pub source: u32,
    durable: bool,
    settled: bool,
}

/// Deliveries of one source that leave together.
pub(crate) struct Settled {
    pub source: u32,
    pub runs: Vec<Run>,
}

#[derive(Default)]
pub(crate) struct Channel {
    /// We sent `channel.close` and ignore everything until its answer.
    pub closing: bool,
    pub incoming: Incoming,
    pub confirms: Option<Confirms>,
    /// It stands in the session's list of channels with confirms to come.
    pub is_confirming: bool,
    /// What waits for `tx.commit`, after `tx.select`.
    pub tx: Option<Tx>,
    /// For consumers that follow.
    pub prefetch: u16,
    pub last_queue: Option<Arc<str>>,
    /// Its consumer of direct reply-to.
    pub reply: Option<ReplyConsumer>,
    next_tag: u64,
    deliveries: VecDeque<Delivery>,
    /// Deliveries that aren't settled.
    open: usize,
    /// Those that are settled in the open transaction: `tx.rollback` brings them back.
    pub in_transaction: usize,
    /// What the account counts of both.
    reported: u64,
    /// Consumers that wait until the client settles something.
    pub parked: VecDeque<u64>,
    /// How many of these are woken next.
    pub wake_next: usize,
    /// Keys of its consumers by their tags. No hash map, which would look at all tags at once when it grows.
    pub consumers: BTreeMap<Arc<[u8]>, u64>,
    sources: Sources,
    /// What it counts.
    pub stats: Stats,
}

impl Channel {
    /// A channel that only waits for `channel.close-ok`.
    pub(crate) fn closing() -> Self {
        Self { closing: true, ..Self::default() }
    }

    /// Counts messages that were published here.
    pub(crate) fn count_publishes(&mut self, count: u64, counters: &Counters, now: Nanos) {
        if !self.has_published() {
            counters.publishers_opened.increment();
        }
        self.stats.count(Stat::Publish, count, now);
    }

    /// Whether it was ever published to: such a channel counts as a publisher.
    pub(crate) fn has_published(&self) -> bool {
        self.stats.total(Stat::Publish) > 0
    }

    /// The tag that the next delivery gets.
    pub(crate) fn next_tag(&mut self) -> u64 {
        self.next_tag += 1;
        self.next_tag
    }

    /// The index of a new consumer's source.
    pub(crate) fn consumer_source(&mut self, queue: &QueueRef, id: ConsumerId) -> u32 {
        self.sweep_sources();
        self.sources.add_consumer(queue, id)
    }

    /// The index of a queue that is asked for messages, added when it is new.
    pub(crate) fn get_source(&mut self, queue: &QueueRef) -> u32 {
        self.sweep_sources();
        self.sources.queue(queue)
    }

    /// The source with this index.
    pub(crate) fn source(&self, index: u32) -> &Source {
        self.sources.get(index)
    }

    /// A consumer has ended: its source goes when nothing that it delivered is left.
    pub(super) fn end_source(&mut self, index: u32) {
        self.sources.end(index, self.open + self.in_transaction > 0);
    }

    /// Forgets sources that no delivery is left of, once there are many.
    fn sweep_sources(&mut self) {
        // What a transaction holds isn't among the deliveries.
        if self.in_transaction == 0 && self.sources.want_sweep() {
            self.sources.sweep(self.deliveries.iter().map(|delivery| delivery.source));
        }
    }

    /// Notes message `at` of `taken` as delivered under `tag`.
    pub(crate) fn delivered(&mut self, tag: u64, source: u32, taken: &Taken, at: u32) {
        self.deliveries.push_back(Delivery {
            tag,
            number: taken.first + u64::from(at),
            bytes: taken.batch.body_length((taken.index + at) as usize),
            source,
            durable: taken.durable,
            settled: false,
        });
        self.open += 1;
    }

    /// Deliveries that aren't settled.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.open
    }

    /// How many deliveries may be unsettled beside those that are, of `max`.
    pub(crate) fn room(&self, max: u32, account: &Account) -> u32 {
        let have = u32::try_from(self.open + self.in_transaction).unwrap_or(u32::MAX);
        account.unsettled_allowed(max).saturating_sub(have)
    }

    /// Has the account count what is unsettled.
    pub(crate) fn report(&mut self, account: &mut Account) {
        self.reported = account.report_unsettled(self.reported, (self.open + self.in_transaction) as u64);
    }

    /// Takes out the delivery with this tag, or of all up to it (all there are for tag 0) those that the turn may settle; if
    /// some are left, the last tag is returned, too, for [`Channel::settle_part`]. None when there is no such delivery.
    pub(crate) fn settle(
        &mut self,
        tag: u64,
        multiple: bool,
        budget: &mut TurnBudget,
    ) -> Option<(Vec<Settled>, Option<u64>)> {
        if !multiple {
            return self.take(tag, false).map(|deliveries| (by_source(&deliveries), None));
        }
        let up_to = match tag {
            0 => self.deliveries.back().map_or(0, |last| last.tag),
            tag => {
                let at = self.deliveries.binary_search_by_key(&tag, |delivery| delivery.tag).ok()?;
                (!self.deliveries[at].settled).then_some(tag)?
            }
        };
        let (settled, is_done) = self.settle_part(up_to, budget);
        Some((settled, Some(up_to).filter(|_| !is_done)))
    }

    /// Takes out deliveries up to this tag, as many as the turn may settle; and whether these were all.
    pub(super) fn settle_part(&mut self, up_to: u64, budget: &mut TurnBudget) -> (Vec<Settled>, bool) {
        let mut out = BySource::default();
        while let Some(delivery) = self.deliveries.pop_front_if(|first| first.settled || first.tag <= up_to) {
            let is_new = !delivery.settled && {
                self.open -= 1;
                out.add(&delivery)
            };
            budget.spend(if is_new { CONSUMER } else { DELIVERY });
            if budget.is_spent() {
                break;
            }
        }
        let is_done = self.deliveries.front().is_none_or(|first| first.tag > up_to);
        (out.settled, is_done)
    }

    /// As [`Channel::settle`], one by one and all of them.
    pub(super) fn take(&mut self, tag: u64, multiple: bool) -> Option<Vec<Delivery>> {
        if !multiple {
            let at = self.deliveries.binary_search_by_key(&tag, |delivery| delivery.tag).ok()?;
            let delivery = &mut self.deliveries[at];
            let taken = *delivery;
            if std::mem::replace(&mut delivery.settled, true) {
                return None;
            }
            self.open -= 1;
            while self.deliveries.pop_front_if(|first| first.settled).is_some() {}
            // One delivery that stays open must not keep the place of all that came after it.
            if self.deliveries.len() > GAPS_MIN.max(2 * self.open) {
                self.deliveries.retain(|delivery| !delivery.settled);
                self.deliveries.shrink_to(2 * GAPS_MIN.max(self.open));
            }
            return Some(vec![taken]);
        }
        if tag == 0 {
            self.open = 0;
            return Some(self.deliveries.drain(..).filter(|delivery| !delivery.settled).collect());
        }
        let end = self.deliveries.binary_search_by_key(&tag, |delivery| delivery.tag).ok()?;
        if self.deliveries[end].settled {
            return None;
        }
        let taken: Vec<Delivery> = self.deliveries.drain(..=end).filter(|delivery| !delivery.settled).collect();
        self.open -= taken.len();
        while self.deliveries.pop_front_if(|first| first.settled).is_some() {}
        Some(taken)
    }

    /// Deliveries that were taken out are unsettled after all.
    pub(super) fn restore(&mut self, deliveries: impl Iterator<Item = Delivery>) {
        self.deliveries.retain(|delivery| !delivery.settled);
        self.deliveries.extend(deliveries);
        self.open = self.deliveries.len();
        self.deliveries.make_contiguous().sort_unstable_by_key(|delivery| delivery.tag);
    }
}

/// Puts deliveries together that go to the same queue.
pub(super) fn by_source(deliveries: &[Delivery]) -> Vec<Settled> {
    let mut out = BySource::default();
    deliveries.iter().for_each(|delivery| {
        out.add(delivery);
    });
    out.settled
}

#[derive(Default)]
struct BySource {
    settled: Vec<Settled>,
    /// Where each source is, once there are two: most channels have one.
    places: FxHashMap<u32, usize>,
}

impl BySource {
    /// Returns whether its source is one more.
    fn add(&mut self, delivery: &Delivery) -> bool {
        let out = &mut self.settled;
        let run = Run {
            first: delivery.number,
            last: delivery.number,
            bytes: u64::from(delivery.bytes),
            durable: delivery.durable,
        };
        let found = match out.last() {
            Some(last) if last.source == delivery.source => Some(out.len() - 1),
            _ if out.len() > 1 => self.places.get(&delivery.source).copied(),
            _ => None,
        };
        match found {
            Some(at) => push_run(&mut out[at].runs, run),
            None => {
                self.places.insert(delivery.source, out.len());
                out.push(Settled { source: delivery.source, runs: vec![run] });
            }
        }
        found.is_none() && out.len() > 1
    }
}

/// Settled deliveries of one queue, grouped by the consumer that had them.
pub(crate) struct OfQueue {
    pub queue: QueueRef,
    pub settled: Vec<(Option<ConsumerId>, Vec<Run>)>,
    /// Consumers of the channel that end.
    pub ended: Vec<ConsumerId>,
}

/// Puts what goes to the same queue together, so that its lock is taken once.
#[derive(Default)]
pub(crate) struct ByQueue {
    queues: Vec<OfQueue>,
    /// By the address of the queue that is kept.
    places: FxHashMap<usize, usize>,
}

impl ByQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// The entry of this queue, which is added if it is missing.
    pub(super) fn of(&mut self, queue: &QueueRef) -> &mut OfQueue {
        let queues = &mut self.queues;
        let at = *self.places.entry(Arc::as_ptr(queue).addr()).or_insert_with(|| {
            queues.push(OfQueue { queue: queue.clone(), settled: Vec::new(), ended: Vec::new() });
            queues.len() - 1
        });
        &mut self.queues[at]
    }

    pub(super) fn add(&mut self, source: &Source, runs: Vec<Run>) {
        let settled = &mut self.of(&source.queue).settled;
        match settled.last_mut() {
            Some((consumer, last)) if *consumer == source.consumer => {
                runs.into_iter().for_each(|run| push_run(last, run));
            }
            _ => settled.push((source.consumer, runs)),
        }
    }

    /// All, in the order in which their first came.
    pub(super) fn take(&mut self) -> Vec<OfQueue> {
        self.places.clear();
        std::mem::take(&mut self.queues)
    }
}
