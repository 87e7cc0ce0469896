//! The numbers that are ready, in the order in which they are delivered, and by themselves.

use super::lanes::{Lane, Lanes};
use crate::ledger::Ledger;
use crate::number_set::NumberSet;

/// The numbers that are ready.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) returned: &'a NumberSet,
    pub(super) cursor: u64,
    /// Numbers from the cursor on that aren't next in the order of numbers: see [`Lanes::aside`] and [`super::ReadyMessages::ahead`].
    pub(super) aside: &'a NumberSet,
    pub(super) lanes: Option<&'a Lanes>,
}

/// The next message, and those that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its number.
    pub(crate) number: u64,
    /// The numbers up to here follow it directly. Of messages that came back and have places, each has to be checked.
    pub(crate) last: u64,
    /// Whether they came back from a consumer.
    pub(crate) came_back: bool,
}

impl Numbers<'_> {
    /// The number that is delivered next.
    pub(crate) fn first(self) -> Option<u64> {
        self.head().map(|head| head.number)
    }

    /// The number that is delivered next, and its run.
    #[inline]
    pub(crate) fn head(self) -> Option<Head> {
        if let Some(lanes) = self.lanes.filter(|lanes| !lanes.is_empty()) {
            return lanes.in_order().find_map(|lane| self.head_of(lane));
        }
        let Some(number) = self.returned.first() else { return self.head_of(Lane::Default) };
        // One that was taken from behind others has its place among those that were never handed out.
        let before = match number < self.cursor {
            true => None,
            false => self.head_of(Lane::Default).filter(|head| head.number < number),
        };
        before.or(Some(Head { number, last: u64::MAX, came_back: true }))
    }

    fn head_of(self, lane: Lane<'_>) -> Option<Head> {
        let (run, came_back) = match lane {
            Lane::Returned(returns) => (returns.first_run(), true),
            Lane::Fresh(numbers) => {
                (numbers.first().map(|first| (first, numbers.first_absent(first, u64::MAX) - 1)), false)
            }
            Lane::Default => (self.default_run(self.cursor), false),
        };
        run.map(|(number, last)| Head { number, last, came_back })
    }

    /// A ready number, with the numbers that follow it directly.
    pub(crate) fn head_at(self, number: u64) -> Head {
        if let Some(lanes) = self.lanes {
            let found = lanes.in_order().find_map(|lane| match lane {
                Lane::Returned(returns) => returns.run_from(number).map(|(_, last)| (last, true)),
                Lane::Fresh(numbers) => {
                    numbers.contains(number).then(|| (numbers.first_absent(number, u64::MAX) - 1, false))
                }
                Lane::Default => None,
            });
            if let Some((last, came_back)) = found {
                return Head { number, last, came_back };
            }
        }
        match self.is_default(number) {
            true => Head { number, last: self.default_run(number).map_or(number, |(_, last)| last), came_back: false },
            false => Head { number, last: u64::MAX, came_back: true },
        }
    }

    /// Whether a live number was never handed out and wasn't set aside.
    fn is_default(self, number: u64) -> bool {
        number >= self.cursor && !self.aside.contains(number)
    }

    /// The first run from `from` on of messages that were never handed out and weren't set aside.
    pub(super) fn default_run(self, from: u64) -> Option<(u64, u64)> {
        let mut from = from.max(self.cursor);
        loop {
            let (first, last) = self.ledger.live_run(from)?;
            if self.aside.is_empty() {
                return Some((first, last));
            }
            let first = self.aside.first_absent(first, last + 1);
            if first <= last {
                return Some((first, self.aside.next(first).map_or(last, |next| last.min(next - 1))));
            }
            from = first;
        }
    }

    /// The first number from `from` on that was never handed out and wasn't set aside.
    pub(crate) fn next_default(self, from: u64) -> Option<u64> {
        self.default_run(from).map(|(first, _)| first)
    }

    /// Whether any of `first..=last` was never handed out and wasn't set aside. Looks at no number behind these.
    fn any_default(self, first: u64, last: u64) -> bool {
        let mut from = first.max(self.cursor);
        while let Some((start, end)) = self.ledger.live_run(from).filter(|(start, _)| *start <= last) {
            let end = end.min(last);
            if self.aside.first_absent(start, end + 1) <= end {
                return true;
            }
            from = end + 1;
        }
        false
    }

    /// The lowest number at or after `from`, in the order of numbers.
    pub(crate) fn next(self, from: u64) -> Option<u64> {
        if let Some(lanes) = self.lanes {
            return lanes.next(from).into_iter().chain(self.default_run(from).map(|(first, _)| first)).min();
        }
        let returned = if self.returned.is_empty() { None } else { self.returned.next(from) };
        match returned {
            Some(number) if number < self.cursor => Some(number),
            returned => returned.into_iter().chain(self.next_default(from)).min(),
        }
    }

    /// The number that is delivered after a ready one.
    pub(crate) fn behind(self, number: u64) -> Option<u64> {
        let Some(lanes) = self.lanes else { return self.next(number + 1) };
        let mut lanes = lanes.in_order();
        let behind = lanes.find_map(|lane| match lane {
            Lane::Returned(returns) => returns.contains(number).then(|| returns.behind(number)),
            Lane::Fresh(numbers) => numbers.contains(number).then(|| numbers.next(number + 1)),
            Lane::Default => self.is_default(number).then(|| self.default_run(number + 1).map(|(first, _)| first)),
        });
        behind?.or_else(|| lanes.find_map(|lane| self.head_of(lane)).map(|head| head.number))
    }

    /// The number that has `before` others before it.
    pub(crate) fn nth(self, before: u64) -> Option<u64> {
        let Some(lanes) = self.lanes.filter(|lanes| !lanes.is_empty()) else {
            if !self.aside.is_empty() && self.lanes.is_none() {
                return self.nth_in_place(before);
            }
            return match before.checked_sub(self.returned.len()) {
                None => self.returned.nth(before),
                Some(before) => self.ledger.nth_live(self.cursor, before),
            };
        };
        let mut left = before;
        for lane in lanes.in_order() {
            let length = match lane {
                Lane::Returned(returns) => returns.len(),
                Lane::Fresh(numbers) => numbers.len(),
                Lane::Default => {
                    let mut next = self.default_run(self.cursor);
                    while let Some((first, last)) = next {
                        match left.checked_sub(last - first + 1) {
                            None => return Some(first + left),
                            Some(rest) => left = rest,
                        }
                        next = self.default_run(last + 1);
                    }
                    continue;
                }
            };
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => {
                    return match lane {
                        Lane::Returned(returns) => returns.nth(left),
                        Lane::Fresh(numbers) => numbers.nth(left),
                        Lane::Default => None,
                    };
                }
            }
        }
        None
    }

    /// As [`Numbers::nth`], with messages that came back among those that were never handed out.
    fn nth_in_place(self, before: u64) -> Option<u64> {
        let (mut left, mut next) = (before, self.first());
        while let Some(number) = next {
            let last = match self.is_default(number) {
                true => self.default_run(number)?.1,
                false => number,
            };
            match left.checked_sub(last - number + 1) {
                None => return Some(number + left),
                Some(rest) => left = rest,
            }
            next = self.next(last + 1);
        }
        None
    }

    /// Number of ready messages with the number `from` or a higher one.
    pub(crate) fn count(self, from: u64) -> u64 {
        let lanes = self.lanes.filter(|lanes| !lanes.is_empty());
        if lanes.is_none() && self.aside.is_empty() {
            return self.returned.count_from(from) + self.ledger.live_count(from.max(self.cursor));
        }
        let mut count = lanes.map_or_else(|| self.returned.count_from(from), |lanes| lanes.count_from(from));
        let mut next = self.default_run(from);
        while let Some((first, last)) = next {
            count += last - first + 1;
            next = self.default_run(last + 1);
        }
        count
    }

    /// Whether a live number is ready.
    pub(crate) fn has(self, number: u64) -> bool {
        self.is_default(number) || self.lanes.map_or_else(|| self.returned.contains(number), |lanes| lanes.has(number))
    }

    /// Whether any of `first..=last` is ready.
    pub(crate) fn any_of(self, first: u64, last: u64) -> bool {
        let is_in = |number: u64| number <= last;
        let elsewhere = || self.lanes.map_or_else(|| self.returned.next(first), |lanes| lanes.next(first));
        last >= self.cursor && self.any_default(first, last) || elsewhere().is_some_and(is_in)
    }
}
