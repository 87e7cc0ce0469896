//! The ready messages of a queue with priorities that aren't simply next in the order of their numbers: those that came back, and
//! those of another priority than the default one.
//!
//! A message of a higher priority is delivered before all of a lower one. In quorum queues, messages that came back are delivered
//! before all others, in the order in which they did and whatever their priority, as in RabbitMQ 4.3.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

use super::returns::Returns;
use crate::number_set::NumberSet;
use crate::planted::{Bug, is_planted};
use crate::priorities::PriorityLevels;

/// Fewer numbers than this are looked for one by one, each up to the priority that it has.
const FEW: u64 = 8;

/// The live numbers of one priority; of the default one those that came back. Each is in one of the two sets.
#[derive(Debug, Default)]
struct Level {
    /// The ready ones that were never handed out, or have their old place.
    fresh: NumberSet,
    /// The others: consumers have them, or they came back and are delivered first, or they wait for something.
    other: NumberSet,
}

impl Level {
    /// A ready number isn't ready any more. Returns whether it was.
    fn take_out(&mut self, number: u64) -> bool {
        let was_ready = self.fresh.remove(number);
        if was_ready {
            self.other.insert(number);
        }
        was_ready
    }

    /// A number that isn't ready has its old place again. Returns whether it is of this priority.
    fn put_in_place(&mut self, number: u64) -> bool {
        let is_here = self.other.remove(number);
        if is_here {
            self.fresh.insert(number);
        }
        is_here
    }

    /// Returns whether the number was of this priority.
    fn remove(&mut self, number: u64) -> bool {
        self.other.remove(number) || self.fresh.remove(number)
    }

    fn remove_range(&mut self, first: u64, last: u64) {
        self.fresh.remove_range(first, last);
        self.other.remove_range(first, last);
    }

    fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.other.is_empty()
    }
}

/// The numbers that are ready out of order.
#[derive(Debug)]
pub(crate) struct Lanes {
    priorities: PriorityLevels,
    returned: Returns,
    /// The highest priority first.
    levels: BTreeMap<Reverse<u8>, Level>,
    /// Numbers from the cursor on that aren't of the default priority, ready or not.
    aside: NumberSet,
    /// Whether messages that come back go to their old places. Those of the default priority below the cursor then have a level, which
    /// is delivered right before the others of that priority: these have higher numbers.
    in_place: bool,
}

/// Numbers that are delivered one after the other.
#[derive(Clone, Copy)]
pub(crate) enum Lane<'a> {
    /// Messages that came back.
    Returned(&'a Returns),
    /// Messages of another priority than the default one that were never handed out.
    Fresh(&'a NumberSet),
    /// Messages of the default priority that were never handed out: those from the cursor on that weren't set aside.
    Default,
}

/// Which lane it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneKind {
    Returned,
    /// Messages of this priority that were never handed out, or have their old place.
    Fresh(u8),
    /// Messages of the default priority that were never handed out.
    Default,
}

impl Lanes {
    /// The lanes of a queue after a restart: all messages but those set aside are ready, and these have a priority of their own.
    pub(crate) fn recovered(
        priorities: PriorityLevels,
        given: BTreeMap<u8, NumberSet>,
        set_aside: impl Iterator<Item = u64>,
    ) -> Self {
        let mut lanes = Self {
            priorities,
            returned: Returns::default(),
            levels: BTreeMap::new(),
            aside: NumberSet::default(),
            in_place: false,
        };
        for (priority, numbers) in given {
            for number in numbers.iter() {
                lanes.admit(number, priority);
            }
        }
        set_aside.for_each(|number| lanes.set_aside(number));
        lanes
    }

    /// A message that was never handed out isn't ready for now.
    pub(crate) fn set_aside(&mut self, number: u64) {
        self.take_out(number);
        self.aside.insert(number);
    }

    /// Whether everything that is ready is of the default priority and was never handed out.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty() && self.returned.is_empty() && self.aside.is_empty()
    }

    pub(crate) fn aside(&self) -> &NumberSet {
        &self.aside
    }

    /// All lanes, in the order of their delivery.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = Lane<'_>> {
        let default = Reverse(self.priorities.default);
        let higher = self.levels.range(..=default).map(|(_, level)| Lane::Fresh(&level.fresh));
        let lower = self.levels.range((Bound::Excluded(default), Bound::Unbounded));
        let lower = lower.map(|(_, level)| Lane::Fresh(&level.fresh));
        [Lane::Returned(&self.returned)].into_iter().chain(higher).chain([Lane::Default]).chain(lower)
    }

    /// The runs that came back and are delivered in the order in which they did, from this number on; none if it isn't one of these.
    pub(crate) fn returned_from(&self, number: u64) -> impl Iterator<Item = (u64, u64)> {
        self.returned.runs_from(number)
    }

    /// The lane of a ready message.
    pub(crate) fn kind_of(&self, number: u64) -> LaneKind {
        if self.returned.contains(number) {
            return LaneKind::Returned;
        }
        let level = self.levels.iter().find(|(_, level)| level.fresh.contains(number));
        level.map_or(LaneKind::Default, |(priority, _)| match priority.0 {
            priority if priority == self.priorities.default => LaneKind::Returned,
            priority => LaneKind::Fresh(priority),
        })
    }

    /// Whether a number of another lane than the default one is ready.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.returned.contains(number) || self.levels.values().any(|level| level.fresh.contains(number))
    }

    /// The lowest number from `from` on, in order of numbers, that is in a lane other than the default one.
    pub(crate) fn next(&self, from: u64) -> Option<u64> {
        let fresh = self.levels.values().filter_map(|level| level.fresh.next(from));
        fresh.chain(self.returned.next(from)).min()
    }

    /// How many numbers from `from` on are in other lanes than the default one.
    pub(crate) fn count_from(&self, from: u64) -> u64 {
        let fresh: u64 = self.levels.values().map(|level| level.fresh.count_from(from)).sum();
        fresh + self.returned.count_from(from)
    }

    /// A new message.
    pub(crate) fn admit(&mut self, number: u64, priority: u8) {
        let priority = priority.min(self.priorities.max);
        if priority != self.priorities.default {
            self.levels.entry(Reverse(priority)).or_default().fresh.insert(number);
            self.aside.insert(number);
        }
    }

    /// A message that was set aside is due. It is delivered before all others, wherever messages that come back go.
    pub(crate) fn come_due(&mut self, number: u64) {
        self.returned.push(number);
    }

    /// A message came back.
    pub(crate) fn put_back(&mut self, number: u64) {
        if self.in_place || is_planted(Bug::MisorderReturns) {
            return self.put_in_place(number);
        }
        self.returned.push(number);
    }

    fn put_in_place(&mut self, number: u64) {
        if self.levels.values_mut().any(|level| level.put_in_place(number)) {
            return;
        }
        // One that is set aside was delayed from the beginning, or taken from behind others: it is one of those from the cursor on.
        if !self.aside.remove(number) {
            self.levels.entry(Reverse(self.priorities.default)).or_default().fresh.insert(number);
        }
    }

    /// Messages that come back go to their old places from now on.
    pub(crate) fn keep_places(&mut self) {
        self.in_place = true;
    }

    /// A number of another lane than the default one isn't ready any more. Returns whether it was.
    pub(crate) fn take_out(&mut self, number: u64) -> bool {
        self.returned.remove(number) || self.levels.values_mut().any(|level| level.take_out(number))
    }

    /// Messages left the queue.
    pub(crate) fn depart(&mut self, first: u64, last: u64) {
        if last - first < FEW {
            return (first..=last).for_each(|number| self.depart_one(number));
        }
        self.levels.retain(|_, level| {
            level.remove_range(first, last);
            !level.is_empty()
        });
    }

    fn depart_one(&mut self, number: u64) {
        let found =
            self.levels.iter_mut().find_map(|(priority, level)| level.remove(number).then_some((*priority, level)));
        if let Some((priority, level)) = found
            && level.is_empty()
        {
            self.levels.remove(&priority);
        }
    }

    /// The cursor moved to `cursor`.
    pub(crate) fn passed(&mut self, cursor: u64) {
        if !self.aside.is_empty() && cursor > 0 {
            self.aside.remove_range(0, cursor - 1);
        }
    }

    /// Everything that is ready in other lanes than the default one leaves. Calls `gone` for each run.
    pub(crate) fn clear(&mut self, mut gone: impl FnMut(u64, u64)) {
        for (first, last) in std::mem::take(&mut self.returned).runs() {
            gone(first, last);
        }
        for level in self.levels.values_mut() {
            let fresh = std::mem::take(&mut level.fresh);
            let mut next = fresh.first();
            while let Some(first) = next {
                let end = fresh.first_absent(first, u64::MAX);
                gone(first, end - 1);
                level.other.insert_range(first, end - 1);
                next = fresh.next(end);
            }
        }
    }

    /// A message stays ready after all were cleared.
    pub(crate) fn stay(&mut self, number: u64, came_back: bool) {
        match came_back {
            true => self.returned.push(number),
            false => {
                let is_in_place = self.levels.values_mut().any(|level| level.put_in_place(number));
                assert!(is_in_place, "it has a priority of its own");
            }
        }
    }

    /// Number of messages that came back, and of those that never did or have their old place, by priority. Of the default priority
    /// only those that have their old place are counted.
    pub(crate) fn sizes(&self) -> (u64, BTreeMap<u8, u64>) {
        let fresh = self.levels.iter().map(|(priority, level)| (priority.0, level.fresh.len()));
        (self.returned.len(), fresh.filter(|(_, count)| *count > 0).collect())
    }

    /// The live messages of another priority than the default one.
    pub(crate) fn priorities(&self) -> impl Iterator<Item = (u8, NumberSet)> {
        let others = self.levels.iter().filter(|(priority, _)| priority.0 != self.priorities.default);
        others.map(|(priority, level)| (priority.0, level.fresh.union(&level.other)))
    }

    /// The priority of a message without one.
    pub(crate) fn default_priority(&self) -> u8 {
        self.priorities.default
    }
}
