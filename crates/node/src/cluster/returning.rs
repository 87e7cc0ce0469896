//! Leaderships that go back to the members that are to have them.

use std::collections::BTreeMap;

use leveret_log::Nanos;
use leveret_model::{MemberNumber, PlacementNumber};

/// Entries that a member may lack that counts as one that has all: under load it lacks some at any time.
pub(super) const LACKS_MAX: u64 = 1000;

/// A placement that this member leads, and that another one is to lead and could.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Misplaced {
    pub number: PlacementNumber,
    /// The term in which this member leads.
    pub term: u64,
    /// The member that is to lead.
    pub preferred: MemberNumber,
}

/// The leaderships that another member is to have, with the time since when it could.
#[derive(Debug, Default)]
pub(super) struct Returning(BTreeMap<Misplaced, Nanos>);

impl Returning {
    /// The leadership that goes back now: one whose member could have had it for so long, without a break. One that isn't taken over is next
    /// after as long a time, since each try holds its queues up for a moment.
    pub(super) fn next(&mut self, misplaced: &[Misplaced], now: Nanos, after: Nanos) -> Option<Misplaced> {
        self.0.retain(|one, _| misplaced.contains(one));
        for one in misplaced {
            self.0.entry(*one).or_insert(now);
        }
        let (one, since) = self.0.iter_mut().min_by_key(|(_, since)| **since)?;
        if *since + after > now {
            return None;
        }
        *since = now;
        Some(*one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;
    const AFTER: Nanos = 30 * SECOND;

    fn misplaced(number: u32, term: u64) -> Misplaced {
        Misplaced { number: PlacementNumber(number), term, preferred: MemberNumber(1) }
    }

    /// The numbers that go back, with the seconds in which they do.
    fn returned(all: impl Fn(u64) -> Vec<Misplaced>) -> Vec<(u64, u32)> {
        let mut returning = Returning::default();
        let next = |second| {
            let next = returning.next(&all(second), second * SECOND, AFTER);
            next.map(|one| (second, one.number.0))
        };
        (0..80).filter_map(next).collect()
    }

    #[test]
    fn leaderships_go_back_one_at_a_time_and_are_tried_again() {
        let gone = returned(|second| match second {
            0..=31 => vec![misplaced(3, 5), misplaced(4, 7)],
            _ => vec![misplaced(4, 7)],
        });
        assert_eq!(gone, [(30, 3), (31, 4), (61, 4)], "the second one isn't taken over");
    }

    #[test]
    fn a_break_begins_the_time_anew() {
        let but_at_20 = |second| if second == 20 { Vec::new() } else { vec![misplaced(3, 5)] };
        assert_eq!(returned(but_at_20), [(51, 3)], "its member lacked entries");
        assert_eq!(returned(|second| vec![misplaced(3, 5 + second / 20)]), [(0, 0); 0], "other terms");
    }
}
