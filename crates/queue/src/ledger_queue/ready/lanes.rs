//! The ready messages of a quorum queue that aren't simply next in the order of their numbers: those that came back, and those
//! of another priority than the default one.
//!
//! Messages that came back are delivered before all others, in the order in which they did and whatever their priority, as in
//! RabbitMQ 4.3. Then a message of a higher priority is delivered before all of a lower one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

use super::returns::Returns;
use crate::number_set::NumberSet;
use crate::planted::{Bug, is_planted};
use crate::priorities::{PRIORITY_DEFAULT, PRIORITY_MAX};

/// The numbers of one priority other than the default one.
#[derive(Debug, Default)]
struct Level {
    /// All live messages of this priority; of the default one those that came back.
    all: NumberSet,
    /// The ready ones among them that were never handed out, or have their old place.
    fresh: NumberSet,
}

/// The numbers that are ready out of order.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
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
    /// Messages of this priority that were never handed out.
    Fresh(u8),
}

impl LaneKind {
    /// Messages without a priority that were never handed out.
    pub(crate) const DEFAULT: Self = Self::Fresh(PRIORITY_DEFAULT);
}

impl Lanes {
    /// The lanes of a queue after a restart: all messages but those set aside are ready, and these have a priority of their own.
    pub(crate) fn recovered(priorities: BTreeMap<u8, NumberSet>, set_aside: impl Iterator<Item = u64>) -> Self {
        let mut lanes = Self::default();
        for (priority, numbers) in priorities {
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
        let default = Reverse(PRIORITY_DEFAULT);
        let higher = self.levels.range(..=default).map(|(_, level)| Lane::Fresh(&level.fresh));
        let lower = self.levels.range((Bound::Excluded(default), Bound::Unbounded));
        let lower = lower.map(|(_, level)| Lane::Fresh(&level.fresh));
        [Lane::Returned(&self.returned)].into_iter().chain(higher).chain([Lane::Default]).chain(lower)
    }

    /// The lane of a ready message.
    pub(crate) fn kind_of(&self, number: u64) -> LaneKind {
        if self.returned.contains(number) {
            return LaneKind::Returned;
        }
        let level = self.levels.iter().find(|(_, level)| level.fresh.contains(number));
        level.map_or(LaneKind::DEFAULT, |(priority, _)| match priority.0 {
            PRIORITY_DEFAULT => LaneKind::Returned,
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
        let priority = priority.min(PRIORITY_MAX);
        if priority != PRIORITY_DEFAULT {
            let level = self.levels.entry(Reverse(priority)).or_default();
            level.all.insert(number);
            level.fresh.insert(number);
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
        match self.levels.values_mut().find(|level| level.all.contains(number)) {
            Some(level) => _ = level.fresh.insert(number),
            // It was delayed from the beginning, and came due before others with lower numbers: it is one of those from the cursor on.
            None if self.aside.contains(number) => _ = self.aside.remove(number),
            None => {
                let level = self.levels.entry(Reverse(PRIORITY_DEFAULT)).or_default();
                level.all.insert(number);
                level.fresh.insert(number);
            }
        }
    }

    /// Messages that come back go to their old places from now on.
    pub(crate) fn keep_places(&mut self) {
        self.in_place = true;
    }

    /// A number of another lane than the default one isn't ready any more. Returns whether it was.
    pub(crate) fn take_out(&mut self, number: u64) -> bool {
        self.returned.remove(number) || self.levels.values_mut().any(|level| level.fresh.remove(number))
    }

    /// Messages left the queue.
    pub(crate) fn depart(&mut self, first: u64, last: u64) {
        self.levels.retain(|_, level| {
            level.all.remove_range(first, last);
            !level.all.is_empty()
        });
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
                next = fresh.next(end);
            }
        }
    }

    /// A message stays ready after all were cleared.
    pub(crate) fn stay(&mut self, number: u64, came_back: bool) {
        match came_back {
            true => self.returned.push(number),
            false => {
                let level = self.levels.values_mut().find(|level| level.all.contains(number));
                level.expect("it has a priority of its own").fresh.insert(number);
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
    pub(crate) fn priorities(&self) -> impl Iterator<Item = (u8, &NumberSet)> {
        let others = self.levels.iter().filter(|(priority, _)| priority.0 != PRIORITY_DEFAULT);
        others.map(|(priority, level)| (priority.0, &level.all))
    }
}
