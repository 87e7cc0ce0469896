//! How often each message was handed out before, and how often that failed.
//!
//! A classic queue counts failures only, in memory and in its checkpoints, as RabbitMQ's does in memory: a restart may forget them,
//! except for those that a dead letter brought along, which stand in its record. With
//! priorities it counts returns too, because the place of a message doesn't say then whether it was delivered; a clean stop
//! records these. A quorum queue counts both and logs them: a message that no consumer can process comes to its delivery limit, however often the
//! node restarts.

mod tally;

use std::collections::BTreeSet;

use roaring::RoaringTreemap;

use self::tally::Tally;
use crate::planted::{Bug, is_planted};
use crate::records::{AttemptCounts, AttemptRun, push_attempts};

/// Counts of the live messages that have one. Most queues have none at all.
#[derive(Debug, Default)]
pub struct Attempts(Option<Box<Tallies>>);

#[derive(Debug, Default)]
struct Tallies {
    acquired: Tally,
    failed: Tally,
}

impl Attempts {
    /// The counts of a message.
    pub fn of(&self, number: u64) -> AttemptCounts {
        self.0.as_ref().map_or_else(AttemptCounts::default, |tallies| AttemptCounts {
            acquired: tallies.acquired.of(number),
            failed: tallies.failed.of(number),
        })
    }

    fn tallies(&mut self) -> &mut Tallies {
        self.0.get_or_insert_default()
    }

    /// A delivery of the message failed.
    pub(crate) fn fail(&mut self, number: u64) {
        self.tallies().failed.add(number);
    }

    /// A new message's delivery failed so often in the queues in which it died.
    pub fn begin_at(&mut self, number: u64, failed: u32) {
        self.tallies().failed.set(number, failed);
    }

    /// The first message from `number` on that has a count.
    pub(crate) fn next(&self, number: u64) -> Option<u64> {
        let tallies = self.0.as_ref()?;
        tallies.acquired.next(number).into_iter().chain(tallies.failed.next(number)).min()
    }

    /// How often the deliveries of those among these messages failed.
    pub(crate) fn failures_among(&self, live: &RoaringTreemap) -> Self {
        let mut among = Self::default();
        for run in self.all() {
            for number in (run.first..=run.last).filter(|number| live.contains(*number)) {
                among.begin_at(number, run.counts.failed);
            }
        }
        among
    }

    /// The message came back from a consumer. Returns its new counts.
    pub(crate) fn come_back(&mut self, number: u64, failed: bool) -> AttemptCounts {
        let Tallies { acquired, failed: failures } = self.tallies();
        let acquired = match is_planted(Bug::ForgetAttempt) {
            false => acquired.add(number),
            true => acquired.of(number),
        };
        AttemptCounts { acquired, failed: if failed { failures.add(number) } else { failures.of(number) } }
    }

    /// All counts, the lowest number first.
    pub(crate) fn all(&self) -> Vec<AttemptRun> {
        let mut runs = Vec::new();
        let numbers = self.0.iter().flat_map(|tallies| tallies.acquired.numbers().chain(tallies.failed.numbers()));
        for number in numbers.collect::<BTreeSet<_>>() {
            push_attempts(&mut runs, number, self.of(number));
        }
        runs
    }

    /// Replaces the counts of these messages by those of a record.
    pub fn replay(&mut self, run: &AttemptRun) {
        let tallies = self.tallies();
        for number in run.first..=run.last {
            tallies.acquired.set(number, run.counts.acquired);
            tallies.failed.set(number, run.counts.failed);
        }
    }

    /// Messages left the queue.
    #[inline]
    pub(crate) fn forget(&mut self, first: u64, last: u64) {
        if let Some(tallies) = &mut self.0 {
            tallies.acquired.forget(first, last);
            tallies.failed.forget(first, last);
            self.free_if_empty();
        }
    }

    /// Keeps the counts of these messages only.
    pub fn keep(&mut self, live: impl Fn(u64) -> bool) {
        if let Some(tallies) = &mut self.0 {
            tallies.acquired.keep(&live);
            tallies.failed.keep(&live);
            self.free_if_empty();
        }
    }

    fn free_if_empty(&mut self) {
        self.0.take_if(|tallies| tallies.acquired.is_empty() && tallies.failed.is_empty());
    }

    /// Whether no message has been counted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let none = Tallies::default();
        let tallies = self.0.as_deref().unwrap_or(&none);
        tallies.acquired.encode(out);
        tallies.failed.encode(out);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (acquired, bytes) = Tally::decode(bytes)?;
        let (failed, bytes) = Tally::decode(bytes)?;
        let mut attempts = Self(Some(Box::new(Tallies { acquired, failed })));
        attempts.free_if_empty();
        Some((attempts, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn counts(acquired: u32, failed: u32) -> AttemptCounts {
        AttemptCounts { acquired, failed }
    }

    #[test]
    fn returns_are_counted_until_the_message_leaves() {
        let mut attempts = Attempts::default();
        assert_eq!(attempts.come_back(7, false), counts(1, 0));
        assert_eq!(attempts.come_back(7, true), counts(2, 1));
        assert_eq!(attempts.come_back(7, true), counts(3, 2));
        assert_eq!((attempts.of(7), attempts.of(8)), (counts(3, 2), counts(0, 0)));
        attempts.forget(0, 9);
        assert!(attempts.is_empty());
    }

    #[test]
    fn counts_survive_a_record_and_a_checkpoint() {
        let mut runs = Vec::new();
        for (number, counts) in [(3, counts(1, 1)), (4, counts(1, 1)), (5, counts(2, 1)), (9, counts(70_000, 3))] {
            push_attempts(&mut runs, number, counts);
        }
        assert_eq!(runs.len(), 3, "equal neighbours share a run");
        let payload = AttemptRun::encode(&runs);
        assert_eq!(AttemptRun::decode(&payload).as_ref(), Some(&runs));
        assert_eq!(AttemptRun::decode(&payload[1..]), None);
        let mut attempts = Attempts::default();
        // Twice, as after a checkpoint that has them already.
        runs.iter().chain(&runs).for_each(|run| attempts.replay(run));
        let mut bytes = Vec::new();
        attempts.encode(&mut bytes);
        for end in 0..bytes.len() {
            assert!(Attempts::decode(&bytes[..end]).is_none(), "cut at {end}");
        }
        bytes.push(77);
        let (mut again, rest) = Attempts::decode(&bytes).expect("it is one");
        assert_eq!(rest, [77]);
        for number in 0..12 {
            assert_eq!(again.of(number), attempts.of(number));
        }
        again.keep(|number| number == 9);
        assert_eq!((again.of(5), again.of(9)), (counts(0, 0), counts(70_000, 3)));
    }
}
