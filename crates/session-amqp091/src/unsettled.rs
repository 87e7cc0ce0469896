//! Deliveries of a channel that its client hasn't settled, and the consumers and queues that they came from.

use std::collections::VecDeque;

use leveret_model::QueueType;
use leveret_queue::{ConsumerId, Run, Taken, push_sized};
use rustc_hash::FxHashMap;

use super::parked::Parked;
use super::shared_prefetch::SharedPrefetch;
use super::sources::{Source, Sources};
use leveret_broker::consumer_timeout::ConsumerTimeout;
use leveret_broker::log_lines::overdue::OverdueLines;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::quota::Account;
use leveret_broker::time::Nanos;
use leveret_broker::turn_budget::{CONSUMER, DELIVERY, TurnBudget};
use leveret_session::overdue::{Age, Looks, NextLook};

/// Below this number of entries, gaps aren't closed: it wouldn't pay.
const GAPS_MIN: usize = 1024;

/// A delivery that the client hasn't settled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivery {
    tag: u64,
    number: u64,
    bytes: u32,
    source: u32,
    /// Time when it was sent, see [`sent_units`].
    sent: u32,
    durable: bool,
    settled: bool,
    /// Its queue took the message back: settling it has no effect.
    taken_back: bool,
    /// It counts against the prefetch that the channel's consumers share.
    is_limited: bool,
}

/// Bits of a time in nanoseconds that a delivery doesn't keep: a unit is 17 ms, and 32 bits of units are over two years. A
/// timeout of more than half of that never ends.
const SENT_BITS: u32 = 24;

/// A time in units, rounded up: no delivery is taken back too early.
fn sent_units(now: Nanos) -> u32 {
    ((now + (1 << SENT_BITS) - 1) >> SENT_BITS) as u32
}

impl Delivery {
    /// Whether the client has its message.
    fn is_held(&self) -> bool {
        !self.settled && !self.taken_back
    }

    /// Time when it was sent.
    fn sent(&self, now: Nanos) -> Nanos {
        let now = now >> SENT_BITS;
        let elapsed = i64::from((now as u32).wrapping_sub(self.sent).cast_signed());
        now.saturating_add_signed(-elapsed) << SENT_BITS
    }
}

/// The result of a look at a channel's oldest deliveries.
#[derive(Default)]
pub(super) struct Found {
    /// Deliveries that are taken back.
    pub taken_back: Vec<Settled>,
    /// Sources with a delivery at half of its timeout, and its age.
    pub late: Vec<(u32, Nanos)>,
}

/// Deliveries of one source that are settled together.
pub(crate) struct Settled {
    pub source: u32,
    pub runs: Vec<Run>,
}

/// The unsettled deliveries of a channel, in the order of their tags.
#[derive(Default)]
pub(crate) struct Unsettled {
    next_tag: u64,
    deliveries: VecDeque<Delivery>,
    /// Number of deliveries that aren't settled.
    open: usize,
    /// Number of deliveries settled in the open transaction: `tx.rollback` makes them unsettled again.
    in_transaction: usize,
    /// The part of `open` and `in_transaction` that the account counts already.
    reported: u64,
    sources: Sources,
    /// The prefetch that the channel's consumers of classic queues share, if there is one.
    shared: Option<Box<SharedPrefetch>>,
    next_look: Option<Box<NextLook>>,
}

impl Unsettled {
    /// The tag that the next delivery gets.
    pub(crate) fn next_tag(&mut self) -> u64 {
        self.next_tag += 1;
        self.next_tag
    }

    /// The index of a new consumer's source.
    pub(crate) fn consumer_source(
        &mut self,
        queue: &QueueRef,
        id: ConsumerId,
        timeout: Option<ConsumerTimeout>,
    ) -> u32 {
        self.sweep_sources();
        self.sources.add_consumer(queue, id, timeout)
    }

    /// The index of a queue that `basic.get` reads from; it is added if it is new.
    pub(crate) fn get_source(&mut self, queue: &QueueRef) -> u32 {
        self.sweep_sources();
        self.sources.queue(queue)
    }

    /// The source with this index.
    pub(crate) fn source(&self, index: u32) -> &Source {
        self.sources.get(index)
    }

    /// The log lines about the source with this index.
    pub(super) fn lines(&mut self, index: u32) -> &mut OverdueLines {
        self.sources.lines(index)
    }

    /// Ends a consumer's source. The source is removed when none of its deliveries is left.
    pub(super) fn end_source(&mut self, index: u32) {
        self.sources.end(index, self.open + self.in_transaction > 0);
    }

    /// Removes ended sources without deliveries, once there are many.
    fn sweep_sources(&mut self) {
        // Deliveries held by a transaction aren't in the list of deliveries.
        if self.in_transaction == 0 && self.sources.want_sweep() {
            self.sources.sweep(self.deliveries.iter().map(|delivery| delivery.source));
        }
    }

    /// Records message `at` of `taken` as delivered under `tag`.
    pub(crate) fn delivered(&mut self, tag: u64, source: u32, taken: &Taken, at: u32, now: Nanos) {
        self.deliveries.push_back(Delivery {
            tag,
            number: taken.first + u64::from(at),
            bytes: taken.batch.body_length((taken.index + at) as usize),
            source,
            sent: sent_units(now),
            durable: taken.durable,
            settled: false,
            taken_back: false,
            is_limited: false,
        });
        self.open += 1;
    }

    /// Counts the last deliveries, which are these many, against the prefetch that the consumers share.
    pub(super) fn delivered_limited(&mut self, count: usize) {
        if let Some(shared) = &mut self.shared {
            shared.delivered(count);
            self.deliveries.iter_mut().rev().take(count).for_each(|delivery| delivery.is_limited = true);
        }
    }

    /// The prefetch that consumers of classic queues share, if there is one.
    pub(super) fn shared(&self) -> Option<&SharedPrefetch> {
        self.shared.as_deref()
    }

    /// The prefetch that consumers of classic queues share, if there is one.
    pub(super) fn shared_mut(&mut self) -> Option<&mut SharedPrefetch> {
        self.shared.as_deref_mut()
    }

    /// Sets the prefetch that consumers of classic queues share; deliveries that they have count, those of the open transaction
    /// included. If 0 ends it, the consumers that waited for it are returned.
    pub(super) fn share_prefetch<'a>(
        &'a mut self,
        limit: u16,
        in_transaction: impl Iterator<Item = &'a mut Delivery>,
    ) -> Option<Parked> {
        let before = self.shared.take();
        let parked = before.map(|before| before.into_parked()).unwrap_or_default();
        if limit == 0 {
            return Some(parked);
        }
        let mut held = 0;
        for delivery in self.deliveries.iter_mut().filter(|delivery| !delivery.settled).chain(in_transaction) {
            let source = self.sources.get(delivery.source);
            delivery.is_limited = source.consumer.is_some() && is_limited(&source.queue);
            held += usize::from(delivery.is_limited);
        }
        self.shared = Some(Box::new(SharedPrefetch::new(limit, held, parked)));
        None
    }
    /// A delivery isn't with the client any more.
    #[inline]
    fn left(&mut self, delivery: Delivery) {
        if delivery.is_limited
            && let Some(shared) = &mut self.shared
        {
            shared.left();
        }
    }

    /// Deliveries that were taken out are settled for good.
    pub(super) fn have_left(&mut self, deliveries: &[Delivery]) {
        deliveries.iter().for_each(|delivery| self.left(*delivery));
    }

    /// Notes the timeout of deliveries of a source that are sent now.
    #[inline]
    pub(crate) fn watch(
        &mut self,
        timeout: Option<ConsumerTimeout>,
        node_ms: u64,
        now: Nanos,
        number: u16,
        looks: &mut Looks,
    ) {
        if let Some(timeout) = timeout {
            self.next_look.get_or_insert_default().sent(timeout.nanos(node_ms), now, number, looks);
        }
    }

    /// Notes that deliveries came back from a transaction.
    pub(crate) fn watch_restored(&mut self, number: u16, looks: &mut Looks) {
        if let Some(next_look) = &mut self.next_look {
            next_look.look_soon(number, looks);
        }
    }

    /// A look that was popped has to wait.
    pub(super) fn watch_later(&mut self, number: u16, now: Nanos, looks: &mut Looks) {
        if let Some(next_look) = &mut self.next_look {
            next_look.put_off(now, number, looks);
        }
    }

    /// The channel ends: no look at its deliveries is left.
    pub(super) fn watch_no_more(&mut self, number: u16, looks: &mut Looks) {
        if let Some(mut next_look) = self.next_look.take() {
            next_look.forget(number, looks);
        }
    }

    /// Takes back deliveries that are unsettled for too long, as far as the turn allows: the rest in the next turn.
    pub(super) fn look(
        &mut self,
        number: u16,
        node_ms: u64,
        now: Nanos,
        looks: &mut Looks,
        budget: &mut TurnBudget,
    ) -> Found {
        let (mut out, mut late, mut rest) = (BySource::default(), Vec::new(), None);
        let Some(next_look) = &mut self.next_look else { return Found::default() };
        let from = next_look.begin();
        let start = self.deliveries.partition_point(|delivery| delivery.tag < from);
        for delivery in self.deliveries.range_mut(start..) {
            if budget.is_spent() {
                rest = Some(delivery.tag);
                break;
            }
            budget.spend(DELIVERY);
            let sent = delivery.sent(now);
            if next_look.are_young(sent, now) {
                break;
            }
            // The source of one that was settled may be gone.
            if !delivery.is_held() {
                continue;
            }
            let Some(timeout) = self.sources.get(delivery.source).timeout else { continue };
            match Age::of(sent, timeout.nanos(node_ms), now) {
                Age::Young(half) => next_look.want(half),
                Age::Half(end) => {
                    next_look.want(end);
                    if self.sources.warn_of(delivery.source, delivery.tag, self.next_tag) {
                        late.push((delivery.source, now - sent));
                    }
                }
                Age::Over => {
                    out.add(delivery);
                    delivery.taken_back = true;
                }
            }
        }
        next_look.end(rest, now, number, looks);
        Found { taken_back: out.settled, late }
    }

    /// Number of deliveries that aren't settled.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.open
    }

    /// Number of further deliveries that may be unsettled, out of `max`.
    pub(crate) fn room(&self, max: u32, account: &Account) -> u32 {
        let have = u32::try_from(self.open + self.in_transaction).unwrap_or(u32::MAX);
        account.unsettled_allowed(max).saturating_sub(have)
    }

    /// Updates the account's count of unsettled deliveries.
    pub(crate) fn report(&mut self, account: &mut Account) {
        self.reported = account.report_unsettled(self.reported, (self.open + self.in_transaction) as u64);
    }

    /// Takes out the delivery with this tag, or all deliveries up to it (all there are for tag 0) that the turn may
    /// settle. If some are left, the last tag is returned, too, for [`Unsettled::settle_part`]. None if there is no such
    /// delivery.
    pub(crate) fn settle(
        &mut self,
        tag: u64,
        multiple: bool,
        budget: &mut TurnBudget,
    ) -> Option<(Vec<Settled>, Option<u64>)> {
        if !multiple {
            let deliveries = self.take(tag, false)?;
            self.have_left(&deliveries);
            return Some((by_source(&deliveries), None));
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

    /// Takes out deliveries up to this tag, as many as the turn may settle. Also returns whether these were all.
    pub(super) fn settle_part(&mut self, up_to: u64, budget: &mut TurnBudget) -> (Vec<Settled>, bool) {
        let mut out = BySource::default();
        while let Some(delivery) = self.deliveries.pop_front_if(|first| first.settled || first.tag <= up_to) {
            let is_new = !delivery.settled && {
                self.open -= 1;
                self.left(delivery);
                out.add(&delivery)
            };
            budget.spend(if is_new { CONSUMER } else { DELIVERY });
            if budget.is_spent() {
                break;
            }
        }
        // Settled ones aren't left at the front, whose source may end: none of them is unsettled any more.
        while self.deliveries.pop_front_if(|first| first.settled).is_some() {}
        let is_done = self.deliveries.front().is_none_or(|first| first.tag > up_to);
        (out.settled, is_done)
    }

    /// Like [`Unsettled::settle`], but ungrouped and without a limit.
    fn take(&mut self, tag: u64, multiple: bool) -> Option<Vec<Delivery>> {
        if !multiple {
            let at = self.deliveries.binary_search_by_key(&tag, |delivery| delivery.tag).ok()?;
            let delivery = &mut self.deliveries[at];
            let taken = *delivery;
            if std::mem::replace(&mut delivery.settled, true) {
                return None;
            }
            self.open -= 1;
            while self.deliveries.pop_front_if(|first| first.settled).is_some() {}
            // A single delivery that stays open must not keep the memory of all that came after it.
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

    /// Makes deliveries that were taken out unsettled again.
    fn restore(&mut self, deliveries: impl Iterator<Item = Delivery>) {
        self.deliveries.retain(|delivery| !delivery.settled);
        self.deliveries.extend(deliveries);
        self.open = self.deliveries.len();
        self.deliveries.make_contiguous().sort_unstable_by_key(|delivery| delivery.tag);
    }

    /// Takes a delivery, or all up to it, into the open transaction. `None` if there is no such delivery.
    pub(super) fn take_into_transaction(&mut self, tag: u64, multiple: bool) -> Option<Vec<Delivery>> {
        let taken = self.take(tag, multiple)?;
        self.in_transaction += taken.len();
        Some(taken)
    }

    /// The open transaction was committed: what it settled is gone.
    pub(super) fn transaction_committed(&mut self) {
        self.in_transaction = 0;
    }

    /// The open transaction was dropped: the deliveries that it settled are unsettled again.
    pub(super) fn transaction_dropped(&mut self, deliveries: impl Iterator<Item = Delivery>) {
        self.in_transaction = 0;
        self.restore(deliveries);
    }
}

/// Whether consumers of this queue share the prefetch of their channel.
pub(super) fn is_limited(queue: &QueueRef) -> bool {
    queue.info().queue_type() == QueueType::Classic
}

/// Groups deliveries by their source.
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
    /// Index of each source's group, used once there are two: most channels have one.
    places: FxHashMap<u32, usize>,
}

impl BySource {
    /// Adds a delivery, unless its queue took it back. Returns whether its source is a new one.
    fn add(&mut self, delivery: &Delivery) -> bool {
        if delivery.taken_back {
            return false;
        }
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
            Some(at) => push_sized(&mut out[at].runs, run),
            None => {
                self.places.insert(delivery.source, out.len());
                out.push(Settled { source: delivery.source, runs: vec![run] });
            }
        }
        found.is_none() && out.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deliveries of these tags, of which those in `settled` were settled, from a source that is gone.
    fn unsettled(tags: std::ops::RangeInclusive<u64>, settled: &[u64]) -> Unsettled {
        let delivery = |tag| Delivery {
            tag,
            number: tag,
            bytes: 1,
            source: 0,
            sent: 0,
            durable: true,
            settled: settled.contains(&tag),
            taken_back: false,
            is_limited: false,
        };
        let deliveries: VecDeque<Delivery> = tags.map(delivery).collect();
        let open = deliveries.len() - settled.len();
        Unsettled { deliveries, open, ..Unsettled::default() }
    }

    #[test]
    fn no_settled_delivery_is_left_after_the_last_part() {
        let mut budget = TurnBudget::new(0);
        let mut unsettled = unsettled(1..=u64::from(budget.share()) + 1, &[u64::from(budget.share()) + 1]);
        let (_, left) = unsettled.settle(u64::from(budget.share()), true, &mut budget).expect("it is there");
        assert!(budget.is_spent(), "by the last one");
        assert_eq!((left, unsettled.open, unsettled.deliveries.len()), (None, 0, 0));
    }

    #[test]
    fn deliveries_settled_together_keep_their_sizes() {
        let mut unsettled = unsettled(1..=5, &[]);
        for (delivery, bytes) in unsettled.deliveries.iter_mut().zip([7, 7, 100, 100, 3]) {
            delivery.bytes = bytes;
        }
        let (settled, _) = unsettled.settle(0, true, &mut TurnBudget::unlimited()).expect("they are there");
        let runs = settled[0].runs.iter().map(|run| (run.first, run.last, run.bytes));
        assert_eq!(runs.collect::<Vec<_>>(), [(1, 2, 14), (3, 4, 200), (5, 5, 3)]);
    }

    #[test]
    fn a_look_passes_over_a_settled_delivery_without_source() {
        let (mut unsettled, mut looks) = (unsettled(1..=2, &[1, 2]), Looks::default());
        unsettled.next_look.get_or_insert_default().sent(1, 0, 1, &mut looks);
        assert_eq!(looks.pop_due(1), Some(1));
        let found = unsettled.look(1, 1, 1 << 40, &mut looks, &mut TurnBudget::unlimited());
        assert!(found.taken_back.is_empty() && found.late.is_empty());
    }
}
