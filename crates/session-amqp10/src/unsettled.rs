//! Deliveries to the client that it hasn't settled, by delivery-id.

use std::collections::VecDeque;

use leveret_amqp10::Serial;
use leveret_queue::{Run, push_sized};
use rustc_hash::FxHashMap;

use leveret_broker::quota::Account;
use leveret_broker::time::Nanos;
use leveret_broker::turn_budget::{CONSUMER, DELIVERY, TurnBudget};
use leveret_session::overdue::{Age, Looks, NextLook};

/// Largest span of open delivery-ids. They are compared as serial numbers, so those of a session that are open must lie
/// within half of the number space (RFC 1982). Otherwise an old one would compare as newer.
const SPAN_MAX: u32 = (1 << 31) - 1;
/// Below this number of entries, gaps aren't closed: it wouldn't pay.
const GAPS_MIN: usize = 1024;
/// Below this number of ranges of a link, none is checked before the link ends.
const RANGES_MIN: usize = 32;

/// A delivery that is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub id: Serial,
    pub handle: u32,
    /// The message's number in its queue.
    pub number: u64,
    pub bytes: u32,
    pub durable: bool,
}

#[derive(Debug, Clone, Copy)]
struct Delivery {
    id: Serial,
    handle: u32,
    number: u64,
    bytes: u32,
    durable: bool,
    /// While it is open: [`OPEN`], the time when it was sent, and [`TAKEN_BACK`] if so. Once it is settled: where to look for
    /// the next open one, counted like [`Unsettled::base`]. With it, a client that settles the same range again and again is
    /// answered without a scan of each delivery.
    state: u64,
}

const OPEN: u64 = 1 << 63;
/// Its queue took the message back: settling it has no effect.
const TAKEN_BACK: u64 = 1 << 62;

impl Delivery {
    /// Where to look for the next open one; 0 while it is open itself.
    fn settled_to(&self) -> u64 {
        if self.state & OPEN == 0 { self.state } else { 0 }
    }

    fn is_taken_back(&self) -> bool {
        self.state & (OPEN | TAKEN_BACK) == OPEN | TAKEN_BACK
    }

    /// Time when it was sent, while it is open.
    fn sent(&self) -> Nanos {
        self.state & !(OPEN | TAKEN_BACK)
    }
}

/// Deliveries of one link that are settled together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub handle: u32,
    pub runs: Vec<Run>,
    /// Their delivery-ids: first and last of each run.
    pub ids: Vec<(Serial, Serial)>,
    /// The same of those that their queue had taken back, which are in no run.
    pub taken_back: Vec<(Serial, Serial)>,
}

/// A link whose oldest delivery is late.
pub(crate) struct Late {
    pub handle: u32,
    /// Time since it was sent.
    pub age: Nanos,
    /// The delivery, and the last one that the session sent, as [`Unsettled::sequence`] counts.
    pub sequence: (u64, u64),
}

/// The deliveries of a link that may be unsettled, so that the link's end only checks its own deliveries, however many
/// its session has. Each range has the first and last of consecutive deliveries, as [`Unsettled::sequence`] counts.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    ranges: VecDeque<(u64, u64)>,
    /// Number of ranges that were left when settled ones were last removed.
    kept: usize,
}

impl Delivered {
    /// Notes the last `count` deliveries that were added to the session's list; their ids are consecutive.
    pub(crate) fn note(&mut self, count: usize, unsettled: &Unsettled) {
        let last = unsettled.sequence;
        let Some(first) = (last + 1).checked_sub(count as u64).filter(|first| *first <= last) else { return };
        match self.ranges.back_mut() {
            Some((_, before)) if *before + 1 == first => *before = last,
            _ => self.push((first, last), unsettled),
        }
    }

    fn push(&mut self, range: (u64, u64), unsettled: &Unsettled) {
        if self.ranges.len() > RANGES_MIN.max(2 * self.kept) {
            let oldest = unsettled.oldest();
            self.ranges.drain(..self.ranges.partition_point(|(_, last)| *last < oldest));
            let mut place = 0;
            self.ranges.retain(|(first, last)| unsettled.has_open(*first, *last, &mut place));
            self.kept = self.ranges.len();
        }
        self.ranges.push_back(range);
    }
}

/// The unsettled deliveries of a session. Its delivery-ids increase (2.7.5), so a queue of them is sorted.
#[derive(Debug)]
pub(crate) struct Unsettled {
    deliveries: VecDeque<Delivery>,
    /// The position of the first entry among all that ever existed, counted from 1.
    base: u64,
    /// The last delivery-id, counted on beyond 2^32: its lower half is the id.
    sequence: u64,
    /// Number of open entries.
    open: u32,
    /// The number of them that the account counts already.
    reported: u32,
    next_look: Option<Box<NextLook>>,
}

impl Default for Unsettled {
    fn default() -> Self {
        Self { deliveries: VecDeque::new(), base: 1, sequence: 0, open: 0, reported: 0, next_look: None }
    }
}

impl Unsettled {
    /// Number of open deliveries.
    pub(crate) fn len(&self) -> usize {
        self.open as usize
    }

    /// Notes a delivery that is sent now; its id comes after all known ones.
    #[inline]
    pub(crate) fn add(&mut self, sent: Sent, now: Nanos) {
        let Sent { id, handle, number, bytes, durable } = sent;
        self.deliveries.push_back(Delivery { id, handle, number, bytes, durable, state: OPEN | now });
        self.sequence += u64::from(id.since(self.last()));
        self.open += 1;
    }

    /// Notes the timeout of deliveries that are sent now.
    #[inline]
    pub(crate) fn watch(&mut self, timeout: Nanos, now: Nanos, channel: u16, looks: &mut Looks) {
        self.next_look.get_or_insert_default().sent(timeout, now, channel, looks);
    }

    /// The session ends: no look at its deliveries is left.
    pub(crate) fn watch_no_more(&mut self, channel: u16, looks: &mut Looks) {
        if let Some(mut next_look) = self.next_look.take() {
            next_look.forget(channel, looks);
        }
    }

    /// Takes back deliveries that are open for too long, as far as the turn allows: the rest in the next turn. `timeout_of` is the
    /// timeout of a link. Late ones are added to `late`.
    pub(crate) fn look(
        &mut self,
        timeout_of: impl Fn(u32) -> Option<Nanos>,
        now: Nanos,
        (channel, looks): (u16, &mut Looks),
        late: &mut Vec<Late>,
        budget: &mut TurnBudget,
    ) -> Vec<Settled> {
        let Some(next_look) = &mut self.next_look else { return Vec::new() };
        let (mut out, mut rest) = (ByLink::default(), None);
        let (last, from) = (Serial(self.sequence as u32), next_look.begin());
        let start =
            self.deliveries.partition_point(|delivery| self.sequence - u64::from(last.since(delivery.id)) < from);
        for delivery in self.deliveries.range_mut(start..) {
            let sequence = self.sequence - u64::from(last.since(delivery.id));
            if budget.is_spent() {
                rest = Some(sequence);
                break;
            }
            budget.spend(DELIVERY);
            if delivery.settled_to() > 0 || delivery.is_taken_back() {
                continue;
            }
            let sent = delivery.sent();
            if next_look.are_young(sent, now) {
                break;
            }
            let Some(timeout) = timeout_of(delivery.handle) else { continue };
            match Age::of(sent, timeout, now) {
                Age::Young(half) => next_look.want(half),
                Age::Half(end) => {
                    next_look.want(end);
                    if late.last().is_none_or(|late| late.handle != delivery.handle) {
                        late.push(Late {
                            handle: delivery.handle,
                            age: now - sent,
                            sequence: (sequence, self.sequence),
                        });
                    }
                }
                Age::Over => {
                    out.add(delivery);
                    delivery.state |= TAKEN_BACK;
                }
            }
        }
        next_look.end(rest, now, channel, looks);
        out.links
    }

    /// Number of further deliveries that may be open, out of `max` and from `next` on.
    pub(crate) fn room(&self, next: Serial, max: u32) -> u32 {
        let left = max.saturating_sub(self.open);
        let span = self.deliveries.front().map_or(0, |oldest| next.since(oldest.id));
        left.min(SPAN_MAX.saturating_sub(span))
    }

    /// Updates the account's count of open deliveries.
    pub(crate) fn report(&mut self, account: &mut Account) {
        // No more than half of the number space is ever open.
        self.reported = account.report_unsettled(u64::from(self.reported), u64::from(self.open)) as u32;
    }

    /// The indexes of the deliveries `first..=last`; all of them lie at `after` or behind it.
    fn places(&self, first: Serial, last: Serial, after: usize) -> (usize, usize) {
        let start = self.place_from(after, first);
        (start, self.place_from(start, last.next()))
    }

    /// The first index from `start` on with `id` or a newer one. The nearer it is, the faster it is found.
    fn place_from(&self, mut start: usize, id: Serial) -> usize {
        let is_older = |at: usize| self.deliveries.get(at).is_some_and(|delivery| delivery.id < id);
        let mut step = 1;
        while is_older(start + step - 1) {
            start += step;
            step *= 2;
        }
        // A binary search within the last step.
        while step > 1 {
            step /= 2;
            if is_older(start + step - 1) {
                start += step;
            }
        }
        start
    }

    /// The indexes of deliveries from the `first` to the `last` of the sequence; all of them lie at `after` or behind it.
    fn places_of(&self, first: u64, last: u64, after: usize) -> (usize, usize) {
        // No open id is older.
        let first = first.max(self.sequence.saturating_sub(u64::from(SPAN_MAX)));
        if first > last {
            return (0, 0);
        }
        self.places(Serial(first as u32), Serial(last as u32), after)
    }

    /// The last delivery-id.
    fn last(&self) -> Serial {
        Serial(self.sequence as u32)
    }

    /// The oldest one that may be open.
    fn oldest(&self) -> u64 {
        let span = self.deliveries.front().map_or(0, |oldest| self.last().since(oldest.id));
        self.sequence - u64::from(span)
    }

    /// Whether any of these is open. They lie at `place` or behind it, which becomes the index after them.
    fn has_open(&self, first: u64, last: u64, place: &mut usize) -> bool {
        let (mut at, end) = self.places_of(first, last, *place);
        *place = end;
        while at < end {
            match self.deliveries[at].settled_to() {
                0 => return true,
                settled_to => at = (settled_to - self.base) as usize,
            }
        }
        false
    }

    /// Takes out the deliveries `first..=last` (2.7.6), as many as the turn may settle, and returns whether these were
    /// all. Missing ids were settled before.
    pub(crate) fn settle(&mut self, first: Serial, last: Serial, budget: &mut TurnBudget) -> (Vec<Settled>, bool) {
        let (start, end) = self.places(first, last, 0);
        if start >= end {
            return (Vec::new(), true);
        }
        let part = self.affordable(start, end, budget);
        (self.settle_places(start, part), part == end)
    }

    /// The index at which a turn that settles `start..end` has to stop.
    fn affordable(&self, start: usize, end: usize, budget: &mut TurnBudget) -> usize {
        let mut at = start;
        let mut handle = self.deliveries.get(start).map(|delivery| delivery.handle);
        while at < end && !budget.is_spent() {
            let delivery = &self.deliveries[at];
            let mut is_new = false;
            if delivery.settled_to() == 0 {
                is_new = handle.replace(delivery.handle) != Some(delivery.handle);
                at += 1;
            } else {
                at = (delivery.settled_to() - self.base) as usize;
            }
            budget.spend(if is_new { CONSUMER } else { DELIVERY });
        }
        at.min(end)
    }

    fn settle_places(&mut self, start: usize, end: usize) -> Vec<Settled> {
        let mut out = ByLink::default();
        if start == 0 {
            for delivery in self.deliveries.drain(..end).filter(|delivery| delivery.settled_to() == 0) {
                out.add(&delivery);
                self.open -= 1;
            }
            self.base += end as u64;
        } else {
            self.settle_within(start, end, &mut out);
        }
        self.close_gaps();
        out.links
    }

    fn close_gaps(&mut self) {
        while self.deliveries.pop_front_if(|first| first.settled_to() > 0).is_some() {
            self.base += 1;
        }
        while self.deliveries.pop_back_if(|last| last.settled_to() > 0).is_some() {}
        // A single delivery that stays open must not keep the memory of all that came after it.
        if self.deliveries.len() > GAPS_MIN.max(2 * self.len()) {
            self.deliveries.retain(|delivery| delivery.settled_to() == 0);
            self.deliveries.shrink_to(2 * GAPS_MIN.max(self.len()));
        }
    }

    /// Settles everything in `start..end`. Afterwards each entry in it points to the end.
    fn settle_within(&mut self, start: usize, end: usize, out: &mut ByLink) {
        let past = self.base + end as u64;
        let mut at = start;
        while at < end {
            let delivery = &mut self.deliveries[at];
            if delivery.settled_to() == 0 {
                out.add(delivery);
                self.open -= 1;
                at += 1;
            } else {
                at = (delivery.settled_to() - self.base) as usize;
            }
            delivery.state = delivery.settled_to().max(past);
        }
    }

    /// Takes out the deliveries of a link, as many as the turn may settle, and returns whether these were all.
    pub(crate) fn settle_link(&mut self, delivered: &mut Delivered, budget: &mut TurnBudget) -> (Vec<Run>, bool) {
        let mut out = ByLink::default();
        let mut place = 0;
        while let Some((first, last)) = delivered.ranges.front_mut() {
            let (start, end) = self.places_of(*first, *last, place);
            place = end;
            let part = if start < end { self.affordable(start, end, budget) } else { end };
            self.settle_within(start, part, &mut out);
            budget.spend(DELIVERY);
            if part < end {
                let left = self.deliveries[part].id;
                *first = self.sequence - u64::from(self.last().since(left));
                break;
            }
            delivered.ranges.pop_front();
            if budget.is_spent() {
                break;
            }
        }
        self.close_gaps();
        (out.links.pop().map_or_else(Vec::new, |settled| settled.runs), delivered.ranges.is_empty())
    }

    /// Takes out the oldest deliveries, as many as the turn may settle, by link, and returns whether these were all.
    pub(crate) fn settle_oldest(&mut self, budget: &mut TurnBudget) -> (Vec<Settled>, bool) {
        let part = self.affordable(0, self.deliveries.len(), budget);
        (self.settle_places(0, part), self.deliveries.is_empty())
    }
}

/// Settled deliveries by link, ordered by the first one of each link.
#[derive(Default)]
struct ByLink {
    links: Vec<Settled>,
    /// Index of each link's entry, used once there are two: most sessions have one.
    places: FxHashMap<u32, usize>,
}

impl ByLink {
    fn add(&mut self, delivery: &Delivery) {
        let Delivery { id, handle, .. } = *delivery;
        let run = Run {
            first: delivery.number,
            last: delivery.number,
            bytes: u64::from(delivery.bytes),
            durable: delivery.durable,
        };
        let found = match self.links.last() {
            Some(last) if last.handle == handle => Some(self.links.len() - 1),
            _ => self.places.get(&handle).copied(),
        };
        let at = found.unwrap_or_else(|| {
            self.places.insert(handle, self.links.len());
            self.links.push(Settled { handle, runs: Vec::new(), ids: Vec::new(), taken_back: Vec::new() });
            self.links.len() - 1
        });
        let settled = &mut self.links[at];
        let ids = match delivery.is_taken_back() {
            true => &mut settled.taken_back,
            false => {
                push_sized(&mut settled.runs, run);
                &mut settled.ids
            }
        };
        match ids.last_mut().filter(|(_, last)| last.next() == id) {
            Some((_, last)) => *last = id,
            None => ids.push((id, id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Alternate deliveries of two links.
    fn filled(from: u32, count: u32) -> Unsettled {
        filled_by_link(from, count).0
    }

    fn filled_by_link(from: u32, count: u32) -> (Unsettled, [Delivered; 2]) {
        let (mut unsettled, mut delivered) = (Unsettled::default(), <[Delivered; 2]>::default());
        for at in 0..count {
            unsettled.add(
                Sent {
                    id: Serial(from.wrapping_add(at)),
                    handle: at % 2,
                    number: u64::from(at / 2),
                    bytes: 1,
                    durable: true,
                },
                0,
            );
            delivered[at as usize % 2].note(1, &unsettled);
        }
        (unsettled, delivered)
    }

    /// Settles all of them in one turn.
    fn settle(unsettled: &mut Unsettled, first: Serial, last: Serial) -> Vec<Settled> {
        let (settled, is_done) = unsettled.settle(first, last, &mut TurnBudget::new(u32::MAX));
        assert!(is_done);
        settled
    }

    /// Takes out all deliveries of a link in one turn.
    fn settle_link(unsettled: &mut Unsettled, delivered: &mut Delivered) -> Vec<Run> {
        unsettled.settle_link(delivered, &mut TurnBudget::new(u32::MAX)).0
    }

    fn numbers(settled: &[Settled]) -> Vec<(u32, u64, u64)> {
        settled.iter().flat_map(|link| link.runs.iter().map(|run| (link.handle, run.first, run.last))).collect()
    }

    #[test]
    fn a_range_settles_each_delivery_once() {
        let mut unsettled = filled(u32::MAX - 3, 10);
        let (first, last) = (Serial(u32::MAX - 1), Serial(1));
        assert_eq!(numbers(&settle(&mut unsettled, first, last)), [(0, 1, 2), (1, 1, 2)]);
        assert!(settle(&mut unsettled, first, last).is_empty());
        assert_eq!(
            numbers(&settle(&mut unsettled, Serial(u32::MAX - 3), Serial(5))),
            [(0, 0, 0), (0, 3, 4), (1, 0, 0), (1, 3, 4)]
        );
        assert!(unsettled.deliveries.is_empty());
    }

    #[test]
    fn ending_a_link_takes_out_only_its_deliveries() {
        let (mut unsettled, [mut delivered, _]) = filled_by_link(0, 10);
        settle(&mut unsettled, Serial(2), Serial(2));
        let runs = settle_link(&mut unsettled, &mut delivered);
        assert_eq!(runs.iter().map(|run| (run.first, run.last)).collect::<Vec<_>>(), [(0, 0), (2, 4)]);
        assert!(settle_link(&mut unsettled, &mut delivered).is_empty());
        assert_eq!(numbers(&settle(&mut unsettled, Serial(0), Serial(9))), [(1, 0, 4)]);
    }

    #[test]
    fn a_range_that_is_settled_again_costs_nothing() {
        // Both ends stay open, so that nothing in between can be dropped at once.
        const COUNT: u32 = 1000;
        let mut unsettled = filled(7, COUNT);
        for at in 1..COUNT - 1 {
            assert_eq!(settle(&mut unsettled, Serial(7 + at), Serial(7 + at)).len(), 1);
        }
        assert!(settle(&mut unsettled, Serial(8), Serial(7 + COUNT - 2)).is_empty());
        let settled_to = unsettled.deliveries[1].settled_to();
        assert_eq!(settled_to, unsettled.base + u64::from(COUNT) - 1, "one step leads over all of them");
        assert_eq!(unsettled.open, 2);
        assert_eq!(numbers(&settle(&mut unsettled, Serial(0), Serial(5000))).len(), 2);
        assert_eq!((unsettled.open, unsettled.deliveries.len()), (0, 0));
    }

    #[test]
    fn deliveries_settled_together_keep_their_sizes() {
        let mut unsettled = Unsettled::default();
        for (id, bytes) in (0..).zip([7, 7, 100, 100, 3]) {
            unsettled.add(Sent { id: Serial(id), handle: 0, number: u64::from(id), bytes, durable: true }, 0);
        }
        let settled = settle(&mut unsettled, Serial(0), Serial(4));
        let runs = settled[0].runs.iter().map(|run| (run.first, run.last, run.bytes));
        assert_eq!(runs.collect::<Vec<_>>(), [(0, 1, 14), (2, 3, 200), (4, 4, 3)]);
    }

    #[test]
    fn one_open_delivery_keeps_no_memory_of_later_ones() {
        let mut unsettled = Unsettled::default();
        let (mut delivered, mut others) = (Delivered::default(), Delivered::default());
        unsettled.add(Sent { id: Serial(0), handle: 9, number: 0, bytes: 1, durable: true }, 0);
        delivered.note(1, &unsettled);
        for id in 1..1_000_000 {
            unsettled.add(Sent { id: Serial(id), handle: id % 2, number: u64::from(id), bytes: 1, durable: true }, 0);
            if id % 2 == 0 {
                others.note(1, &unsettled);
            }
            if id % 10 == 0 {
                let runs = numbers(&settle(&mut unsettled, Serial(id - 9), Serial(id - 1)));
                assert_eq!(runs.len(), 9);
                assert_eq!(settle(&mut unsettled, Serial(id), Serial(id)).len(), 1);
            }
            assert!(unsettled.deliveries.len() <= GAPS_MIN + 10);
        }
        assert!(unsettled.deliveries.capacity() < 8 * GAPS_MIN);
        assert!(
            others.ranges.len() <= 2 * GAPS_MIN,
            "{} ranges of a link whose deliveries are settled",
            others.ranges.len()
        );
        assert_eq!(settle_link(&mut unsettled, &mut delivered).len(), 1);
    }

    #[test]
    fn room_ends_at_the_limit_and_at_half_of_the_number_space() {
        let mut unsettled = filled(u32::MAX - 1, 4);
        assert_eq!(unsettled.room(Serial(2), 10), 6);
        assert_eq!(unsettled.room(Serial(2), 3), 0);
        settle(&mut unsettled, Serial(u32::MAX), Serial(1));
        assert_eq!(unsettled.room(Serial(2), 10), 9);
        assert_eq!(unsettled.room(Serial(u32::MAX - 1).add(SPAN_MAX - 2), 10), 2);
        assert_eq!(unsettled.room(Serial(u32::MAX - 1).add(SPAN_MAX), 10), 0);
    }

    /// Compares with a simple model, a map.
    #[test]
    fn any_order_of_settling_is_the_same_as_a_map() {
        let mut random = 0x9e37_79b9_u32;
        let mut next = |bound: u32| {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            random % bound
        };
        let mut unsettled = Unsettled::default();
        let mut open = std::collections::BTreeMap::new();
        let mut id = 0;
        for _ in 0..20_000 {
            for _ in 0..next(4) {
                unsettled
                    .add(Sent { id: Serial(id), handle: id % 3, number: u64::from(id), bytes: 1, durable: true }, 0);
                open.insert(id, id % 3);
                id += 1;
            }
            let first = id.saturating_sub(next(3000));
            let last = first + next(if id % 5 == 0 { 1500 } else { 6 });
            let mut expected: Vec<_> = open.range(first..=last).map(|(id, handle)| (*id, *handle)).collect();
            open.retain(|id, _| !(first..=last).contains(id));
            let mut got = Vec::new();
            for settled in settle(&mut unsettled, Serial(first), Serial(last)) {
                got.extend(
                    settled.runs.iter().flat_map(|run| run.first..=run.last).map(|id| (id as u32, settled.handle)),
                );
            }
            got.sort_unstable();
            expected.sort_unstable();
            assert_eq!(got, expected);
            assert_eq!(unsettled.len(), open.len());
        }
    }

    #[test]
    fn a_link_is_settled_in_parts() {
        let (mut unsettled, [_, mut delivered]) = filled_by_link(u32::MAX - 100, 1000);
        let mut taken = Vec::new();
        let mut parts = 0;
        let mut is_done = false;
        while !is_done {
            let (runs, all) = unsettled.settle_link(&mut delivered, &mut TurnBudget::new(100));
            taken.extend(runs.iter().map(Run::count));
            (parts, is_done) = (parts + 1, all);
        }
        assert_eq!((taken.iter().sum::<u64>(), unsettled.len()), (500, 500));
        assert!(parts >= 5, "{parts} parts");
    }

    #[test]
    fn a_link_spares_deliveries_with_its_ids_after_a_wraparound() {
        let mut unsettled = Unsettled::default();
        let mut delivered = Delivered::default();
        unsettled.add(Sent { id: Serial(5), handle: 0, number: 1, bytes: 1, durable: true }, 0);
        delivered.note(1, &unsettled);
        settle(&mut unsettled, Serial(5), Serial(5));
        // This is the only place where the ids of a session advance by more than one.
        for id in [SPAN_MAX, 2 * SPAN_MAX, 5] {
            unsettled.add(Sent { id: Serial(id), handle: 1, number: 2, bytes: 1, durable: true }, 0);
            if id != 5 {
                settle(&mut unsettled, Serial(id), Serial(id));
            }
        }
        assert!(settle_link(&mut unsettled, &mut delivered).is_empty(), "it is another link's");
        unsettled.add(Sent { id: Serial(6), handle: 0, number: 3, bytes: 1, durable: true }, 0);
        delivered.note(1, &unsettled);
        assert_eq!(settle_link(&mut unsettled, &mut delivered).len(), 1);
        assert_eq!(unsettled.len(), 1);
    }

    /// A link with a delivery that stays open is still counted right.
    #[test]
    fn a_link_takes_its_last_delivery_after_half_of_the_numbers() {
        let (mut unsettled, mut delivered) = (Unsettled::default(), Delivered::default());
        for id in [1, 2] {
            unsettled.add(Sent { id: Serial(id), handle: 0, number: 1, bytes: 1, durable: true }, 0);
            delivered.note(1, &unsettled);
            settle(&mut unsettled, Serial(id), Serial(id));
        }
        delivered.ranges = [(1, u64::from(SPAN_MAX) + 10)].into();
        unsettled.sequence = u64::from(SPAN_MAX) + 9;
        unsettled.add(Sent { id: Serial(SPAN_MAX + 10), handle: 0, number: 7, bytes: 1, durable: true }, 0);
        delivered.note(1, &unsettled);
        assert_eq!(settle_link(&mut unsettled, &mut delivered).len(), 1);
    }
}
