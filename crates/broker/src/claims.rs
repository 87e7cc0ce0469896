//! Messages that somebody says he holds, each with the time at which it was handed out to him.
//!
//! A client whose link has broken may not know yet that the leader has given its messages to others. After a change of the leader both say
//! that they hold them, and the one is right to whom they were handed out last.

use std::cmp::Reverse;

use leveret_model::MemberNumber;
use leveret_queue::{HeldSet, Run, Taken};
use smallvec::SmallVec;

/// When a message was handed out, or kept for its holder by a new leader. The later one is the greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HandedOut {
    /// The term of the leader.
    pub term: u64,
    /// How often the message had come back before, as that leader knew; 0 if it was kept.
    pub returns: u32,
}

/// Messages with the times at which they were handed out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    runs: Vec<Run>,
    /// For runs in a row, how many these are. Nearly always there is one time.
    times: SmallVec<[(HandedOut, usize); 1]>,
}

impl Claims {
    /// Messages that were handed out just now by the leader of a term.
    pub(crate) fn taken(term: u64, taken: &[Taken]) -> Self {
        let runs = |one: &Taken| {
            let at = HandedOut { term, returns: one.attempts.acquired };
            one.runs().into_iter().map(move |run| (at, run))
        };
        taken.iter().flat_map(runs).collect()
    }

    /// The messages.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// All runs with their times.
    pub fn iter(&self) -> impl Iterator<Item = (HandedOut, Run)> {
        let times = self.times.iter().flat_map(|(at, count)| std::iter::repeat_n(*at, *count));
        times.zip(self.runs.iter().copied())
    }

    /// The messages that aren't in a set.
    pub(crate) fn without(&self, set: &HeldSet) -> Self {
        self.iter().flat_map(|(at, run)| set.without(run).into_iter().map(move |run| (at, run))).collect()
    }

    /// At most so many runs, the first ones.
    pub(crate) fn first(&self, most: usize) -> Self {
        self.iter().take(most).collect()
    }
}

impl Extend<(HandedOut, Run)> for Claims {
    fn extend<T: IntoIterator<Item = (HandedOut, Run)>>(&mut self, claims: T) {
        for (at, run) in claims {
            match self.times.last_mut().filter(|(last, _)| *last == at) {
                Some((_, count)) => *count += 1,
                None => self.times.push((at, 1)),
            }
            self.runs.push(run);
        }
    }
}

impl FromIterator<(HandedOut, Run)> for Claims {
    fn from_iter<T: IntoIterator<Item = (HandedOut, Run)>>(claims: T) -> Self {
        let mut all = Self::default();
        all.extend(claims);
        all
    }
}

/// The claims of members' clients, those first that were handed out last: of two who claim a message, the first one here has it.
pub(crate) fn latest_first(held: &[(MemberNumber, Claims)]) -> Vec<(MemberNumber, Vec<Run>)> {
    let claims = held.iter().flat_map(|(member, claims)| claims.iter().map(|(at, run)| (Reverse(at), *member, run)));
    let mut claims: Vec<_> = claims.collect();
    claims.sort_by_key(|(at, ..)| *at);
    let of_one = claims.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1));
    of_one.map(|of_one| (of_one[0].1, of_one.iter().map(|(.., run)| *run).collect())).collect()
}

/// The messages that somebody holds, by the times at which they were handed out.
#[derive(Debug, Default)]
pub(crate) struct HeldByTime(SmallVec<[(HandedOut, HeldSet); 1]>);

impl HeldByTime {
    pub(crate) fn add(&mut self, claims: &Claims) {
        for (at, run) in claims.iter() {
            // It may hold it since an earlier time.
            for (_, set) in self.0.iter_mut().filter(|(of, _)| *of != at) {
                drop(set.remove(&[run]));
            }
            match self.0.iter_mut().find(|(of, _)| *of == at) {
                Some((_, set)) => set.add(vec![run]),
                None => {
                    self.0.retain(|(_, set)| !set.is_empty());
                    self.0.push((at, HeldSet::of(&[run])));
                }
            }
        }
    }

    /// Removes those of these messages that are held, and returns them.
    pub(crate) fn remove(&mut self, runs: &[Run]) -> Claims {
        let removed = |(at, set): &mut (HandedOut, HeldSet)| {
            let at = *at;
            set.remove(runs).into_iter().map(move |run| (at, run))
        };
        self.0.iter_mut().flat_map(removed).collect()
    }

    /// Removes messages that were handed out then.
    pub(crate) fn remove_of(&mut self, at: HandedOut, runs: &[Run]) {
        for (_, set) in self.0.iter_mut().filter(|(of, _)| *of == at) {
            drop(set.remove(runs));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, set)| set.is_empty())
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (HandedOut, Run)> {
        self.0.iter().flat_map(|(at, set)| set.runs().map(move |run| (*at, run)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(term: u64, returns: u32) -> HandedOut {
        HandedOut { term, returns }
    }

    fn run(first: u64, last: u64) -> Run {
        Run { first, last, bytes: 10 * (last - first + 1), durable: true }
    }

    fn ends(claims: &Claims) -> Vec<(HandedOut, u64, u64)> {
        claims.iter().map(|(at, run)| (at, run.first, run.last)).collect()
    }

    #[test]
    fn messages_keep_the_time_at_which_they_were_handed_out() {
        let mut held = HeldByTime::default();
        held.add(&[(at(3, 0), run(1, 4)), (at(3, 0), run(6, 9)), (at(3, 1), run(5, 5))].into_iter().collect());
        let removed = held.remove(&[run(4, 6)]);
        assert_eq!(ends(&removed), [(at(3, 0), 4, 4), (at(3, 0), 6, 6), (at(3, 1), 5, 5)]);
        let mut set = HeldSet::default();
        set.add(vec![run(6, 6)]);
        assert_eq!(ends(&removed.without(&set)), [(at(3, 0), 4, 4), (at(3, 1), 5, 5)]);
        assert_eq!(ends(&removed.first(1)), [(at(3, 0), 4, 4)]);
        assert!(!held.is_empty());
        drop(held.remove(&[run(1, 9)]));
        assert!(held.is_empty());
        held.add(&[(at(4, 0), run(1, 4))].into_iter().collect());
        assert_eq!(held.0.len(), 1, "times without messages are forgotten");
        held.add(&[(at(4, 1), run(2, 2))].into_iter().collect());
        let again = held.remove(&[run(1, 3)]);
        assert_eq!(ends(&again), [(at(4, 0), 1, 1), (at(4, 0), 3, 3), (at(4, 1), 2, 2)], "each is held once");
    }

    #[test]
    fn the_one_has_a_message_to_whom_it_was_handed_out_last() {
        let one = |claims: &[(HandedOut, Run)]| claims.iter().copied().collect::<Claims>();
        let (a, b) = (MemberNumber(0), MemberNumber(1));
        let held = [
            (a, one(&[(at(3, 9), run(1, 1)), (at(4, 0), run(2, 3))])),
            (b, one(&[(at(4, 1), run(3, 3)), (at(4, 0), run(1, 1))])),
        ];
        let order = [(b, vec![run(3, 3)]), (a, vec![run(2, 3)]), (b, vec![run(1, 1)]), (a, vec![run(1, 1)])];
        assert_eq!(latest_first(&held), order, "the later leader counts, and then the later delivery");
    }
}
