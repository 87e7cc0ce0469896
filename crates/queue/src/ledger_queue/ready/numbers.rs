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
        match self.returned.first() {
            Some(number) => Some(Head { number, last: u64::MAX, came_back: true }),
            None => self.head_of(Lane::Default),
        }
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
        match number >= self.cursor {
            true => Head { number, last: self.default_run(number).map_or(number, |(_, last)| last), came_back: false },
            false => Head { number, last: u64::MAX, came_back: true },
        }
    }

    /// The first run from `from` on of messages that were never handed out and weren't set aside.
    pub(super) fn default_run(self, from: u64) -> Option<(u64, u64)> {
        let mut from = from.max(self.cursor);
        loop {
            let (first, last) = self.ledger.live_run(from)?;
            let Some(aside) = self.lanes.map(Lanes::aside).filter(|aside| !aside.is_empty()) else {
                return Some((first, last));
            };
            let first = aside.first_absent(first, last + 1);
            if first <= last {
                return Some((first, aside.next(first).map_or(last, |next| last.min(next - 1))));
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
            if self.lanes.is_none_or(|lanes| lanes.aside().first_absent(start, end + 1) <= end) {
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
        if from < self.cursor
            && let Some(number) = self.returned.next(from)
        {
            return Some(number);
        }
        self.ledger.live_run(from.max(self.cursor)).map(|(first, _)| first)
    }

    /// The number that is delivered after a ready one.
    pub(crate) fn behind(self, number: u64) -> Option<u64> {
        let Some(lanes) = self.lanes else { return self.next(number + 1) };
        let mut lanes = lanes.in_order();
        let behind = lanes.find_map(|lane| match lane {
            Lane::Returned(returns) => returns.contains(number).then(|| returns.behind(number)),
            Lane::Fresh(numbers) => numbers.contains(number).then(|| numbers.next(number + 1)),
            Lane::Default => {
                let is_in = number >= self.cursor && !self.lanes.is_some_and(|lanes| lanes.aside().contains(number));
                is_in.then(|| self.default_run(number + 1).map(|(first, _)| first))
            }
        });
        behind?.or_else(|| lanes.find_map(|lane| self.head_of(lane)).map(|head| head.number))
    }

    /// The number that has `before` others before it.
    pub(crate) fn nth(self, before: u64) -> Option<u64> {
        let Some(lanes) = self.lanes.filter(|lanes| !lanes.is_empty()) else {
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

    /// Number of ready messages with the number `from` or a higher one.
    pub(crate) fn count(self, from: u64) -> u64 {
        let Some(lanes) = self.lanes.filter(|lanes| !lanes.is_empty()) else {
            return self.returned.count_from(from) + self.ledger.live_count(from.max(self.cursor));
        };
        let mut count = lanes.count_from(from);
        let mut next = self.default_run(from);
        while let Some((first, last)) = next {
            count += last - first + 1;
            next = self.default_run(last + 1);
        }
        count
    }

    /// Whether a live number is ready.
    pub(crate) fn has(self, number: u64) -> bool {
        match self.lanes {
            None => number >= self.cursor || self.returned.contains(number),
            Some(lanes) => number >= self.cursor && !lanes.aside().contains(number) || lanes.has(number),
        }
    }

    /// Whether any of `first..=last` is ready.
    pub(crate) fn any_of(self, first: u64, last: u64) -> bool {
        let is_in = |number: u64| number <= last;
        match self.lanes {
            None => {
                last >= self.cursor && self.ledger.live_run(first.max(self.cursor)).is_some_and(|(new, _)| is_in(new))
                    || self.returned.next(first).is_some_and(is_in)
            }
            Some(lanes) => last >= self.cursor && self.any_default(first, last) || lanes.next(first).is_some_and(is_in),
        }
    }
}
