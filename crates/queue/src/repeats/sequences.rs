//! The publishers of a queue whose messages are numbered (`x-publisher-deduplication`): of each, the number of its last message. A
//! message whose number isn't higher is one that is sent again.
//!
//! A message's publisher and number are stored with it (`leveret_message::stored::compared_by`), so that both are there after a crash or
//! neither is. Those of messages that have left are in the checkpoint.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::compared::{Compared, Comparison, RecoveredCompared};
use super::offered::Offered;
use crate::planted::{Bug, is_planted};

/// Most publishers of a queue. The one whose last message is the oldest is forgotten for a new one.
pub(crate) const PUBLISHERS_MAX: usize = 1_000;
/// Number of entries from which on recovery merges those of a publisher.
const MERGED_FROM: usize = 200_000;

/// Comparison by the numbers of publishers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BySequence;

/// Numbered messages as recovery finds them.
pub type RecoveredSequences = RecoveredCompared<BySequence>;

impl Comparison for BySequence {
    /// Of the older half, keeps the last message of each publisher.
    fn shorten(entries: &mut VecDeque<Compared>) {
        if entries.len() < MERGED_FROM {
            return;
        }
        let newer = entries.split_off(entries.len() / 2);
        let mut last: BTreeMap<u128, Compared> = BTreeMap::new();
        for entry in std::mem::take(entries) {
            let highest = last.get(&entry.id).map_or(0, |last| last.value);
            last.insert(entry.id, Compared { value: entry.value.max(highest), ..entry });
        }
        let mut kept: Vec<Compared> = last.into_values().collect();
        kept.sort_unstable_by_key(|entry| entry.number);
        entries.extend(kept);
        entries.extend(newer);
    }
}

/// A publisher that has messages in the queue, or had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Publisher {
    /// The highest number of its messages.
    sequence: u64,
    /// The number of its last message in the queue.
    number: u64,
    /// Both, of those that survive a restart.
    durable: Option<(u64, u64)>,
}

/// The publishers of a queue.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    /// Messages that aren't known to be applied, in order.
    pending: VecDeque<Compared>,
    /// The highest numbers among these.
    submitted: FxHashMap<u128, u64>,
    publishers: FxHashMap<u128, Publisher>,
    /// The publishers by the number of their last message in the queue.
    by_number: BTreeMap<u64, u128>,
    dropped: u64,
}

impl Sequences {
    pub(crate) fn new(recovered: RecoveredSequences, next: u64) -> Self {
        let mut sequences = Self::default();
        recovered.into_iter().for_each(|entry| sequences.push(entry));
        sequences.settle(next);
        sequences
    }

    /// Number of messages that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The places of the messages that aren't sent again, and counts the others. Messages from number `next` on aren't applied.
    pub(crate) fn fresh(&mut self, offered: &[Option<Offered>], next: u64) -> Vec<u32> {
        self.settle(next);
        let mut here: FxHashMap<u128, u64> = FxHashMap::default();
        let mut fresh = Vec::with_capacity(offered.len());
        for (place, offered) in (0..).zip(offered) {
            if let Some((offered, sequence)) =
                offered.as_ref().and_then(|offered| Some((offered, offered.by.sequence?)))
            {
                let publisher = offered.by.id;
                let highest = here.get(&publisher).copied().or_else(|| self.highest(publisher));
                if offered.is_compared && highest.is_some_and(|highest| sequence <= highest) {
                    self.dropped += 1;
                    continue;
                }
                here.insert(publisher, highest.map_or(sequence, |highest| highest.max(sequence)));
            }
            fresh.push(place);
        }
        fresh
    }

    /// The highest number of a publisher that was submitted.
    fn highest(&self, publisher: u128) -> Option<u64> {
        let applied = self.publishers.get(&publisher).map(|publisher| publisher.sequence);
        applied.max(self.submitted.get(&publisher).copied())
    }

    /// Notes a message that was submitted. Messages from number `next` on aren't applied.
    pub(crate) fn note(&mut self, number: u64, offered: Offered, durable: bool, next: u64) {
        if let Some(sequence) = offered.by.sequence {
            self.push(Compared { id: offered.by.id, number, value: sequence, durable });
            self.settle(next);
        }
    }

    fn push(&mut self, entry: Compared) {
        let highest = self.submitted.entry(entry.id).or_default();
        *highest = entry.value.max(*highest);
        self.pending.push_back(entry);
    }

    /// Messages below `next` are applied. Only these push publishers out: others may never be.
    fn settle(&mut self, next: u64) {
        while let Some(entry) = self.pending.pop_front_if(|entry| entry.number < next) {
            self.apply(entry);
        }
        while self.publishers.len() > PUBLISHERS_MAX
            && let Some((_, oldest)) = self.by_number.pop_first()
        {
            self.publishers.remove(&oldest);
        }
    }

    fn apply(&mut self, entry: Compared) {
        let Compared { id: publisher, value: sequence, number, durable } = entry;
        let before = self.publishers.get(&publisher).copied();
        before.iter().for_each(|before| _ = self.by_number.remove(&before.number));
        let highest = before.map_or(sequence, |before| before.sequence.max(sequence));
        let durable = match before.and_then(|before| before.durable) {
            before if !durable => before,
            before => Some((before.map_or(sequence, |(before, _)| before.max(sequence)), number)),
        };
        self.by_number.insert(number, publisher);
        self.publishers.insert(publisher, Publisher { sequence: highest, number, durable });
        if self.submitted.get(&publisher).is_some_and(|submitted| *submitted <= highest) {
            self.submitted.remove(&publisher);
        }
    }

    /// Messages from this number on were submitted and never become part of the queue.
    pub(crate) fn withdraw(&mut self, from: u64) {
        self.pending.truncate(self.pending.partition_point(|entry| entry.number < from));
        self.submitted.clear();
        for entry in std::mem::take(&mut self.pending) {
            self.push(entry);
        }
    }

    /// The publishers of messages below `next` that survive a restart.
    pub(crate) fn durable(&self, next: u64) -> RecoveredSequences {
        let mut applied = Self { publishers: self.publishers.clone(), ..Self::default() };
        self.pending.iter().filter(|entry| entry.number < next).for_each(|entry| applied.apply(*entry));
        if is_planted(Bug::ForgetPublishers) {
            return RecoveredSequences::default();
        }
        applied.entries(|publisher| publisher.durable.into_iter().map(|of| (of, true)).collect()).into()
    }

    /// All of them, for a machine that goes on with the queue.
    pub(crate) fn all(&self) -> RecoveredSequences {
        let mut all = self.entries(|publisher| {
            let last = (publisher.sequence, publisher.number);
            let volatile = (publisher.durable != Some(last)).then_some((last, false));
            publisher.durable.map(|of| (of, true)).into_iter().chain(volatile).collect()
        });
        all.extend(&self.pending);
        all.into()
    }

    fn entries(&self, of: impl Fn(&Publisher) -> Vec<((u64, u64), bool)>) -> VecDeque<Compared> {
        let mut entries: Vec<Compared> = Vec::with_capacity(self.publishers.len());
        for (publisher, known) in &self.publishers {
            let entry = |((sequence, number), durable)| Compared { id: *publisher, number, value: sequence, durable };
            entries.extend(of(known).into_iter().map(entry));
        }
        entries.sort_unstable_by_key(|entry| entry.number);
        entries.into()
    }
}

#[cfg(test)]
mod tests {
    use leveret_message::ComparedBy;

    use super::*;

    const NONE: [u32; 0] = [];

    fn offered(publisher: u128, sequence: u64) -> Option<Offered> {
        Some(Offered { by: ComparedBy { id: publisher, sequence: Some(sequence) }, at_ms: 0, is_compared: true })
    }

    /// Offers these messages at a time, and notes the fresh ones from `number` on. Returns their places.
    fn offer(known: &mut Sequences, number: u64, all: &[(u128, u64)], next: u64) -> Vec<u32> {
        let all: Vec<_> = all.iter().map(|(publisher, sequence)| offered(*publisher, *sequence)).collect();
        let fresh = known.fresh(&all, next);
        for (number, place) in (number..).zip(&fresh) {
            known.note(number, all[*place as usize].expect("it is numbered"), true, next);
        }
        fresh
    }

    #[test]
    fn only_higher_numbers_are_taken() {
        let mut known = Sequences::default();
        assert_eq!(offer(&mut known, 0, &[(1, 5), (2, 5), (1, 5), (1, 4), (1, 9)], 0), [0, 1, 4]);
        assert_eq!(offer(&mut known, 3, &[(1, 9), (2, 6), (1, 10)], u64::MAX), [1, 2]);
        assert_eq!(offer(&mut known, 5, &[(1, 10), (2, 0)], u64::MAX), NONE);
        assert_eq!(known.dropped(), 5);
        assert_eq!(known.fresh(&[None, None], u64::MAX), [0, 1], "others are none");
        let comes_back = offered(1, 3).map(|offered| Offered { is_compared: false, ..offered });
        assert_eq!(known.fresh(&[comes_back, offered(1, 10)], u64::MAX), [0], "and lowers nothing");
    }

    #[test]
    fn withdrawn_messages_may_come_again() {
        let mut known = Sequences::default();
        offer(&mut known, 0, &[(1, 1), (1, 2)], 2);
        offer(&mut known, 2, &[(1, 3), (2, 1)], 2);
        known.withdraw(2);
        assert_eq!(offer(&mut known, 2, &[(1, 2), (1, 3), (2, 1)], 2), [1, 2]);
    }

    #[test]
    fn the_publisher_that_was_silent_longest_is_forgotten() {
        let mut known = Sequences::default();
        let count = PUBLISHERS_MAX as u64;
        (0..count).for_each(|at| _ = offer(&mut known, at, &[(at.into(), 7)], u64::MAX));
        offer(&mut known, count, &[(0, 8)], u64::MAX);
        // Messages that aren't applied push none out.
        offer(&mut known, count + 1, &[(u128::MAX, 1)], count + 1);
        assert_eq!(offer(&mut known, count + 2, &[(1, 7)], count + 1), NONE);
        assert_eq!(offer(&mut known, count + 2, &[(1, 7), (0, 8)], count + 2), [0]);
    }

    #[test]
    fn a_checkpoint_has_the_numbers_of_what_survives() {
        let mut known = Sequences::default();
        for (number, publisher, sequence, durable) in
            [(0, 1, 4, true), (1, 1, 5, false), (2, 2, 6, true), (3, 2, 7, true)]
        {
            known.note(number, offered(publisher, sequence).expect("it is numbered"), durable, 2);
        }
        let mut bytes = Vec::new();
        known.durable(3).encode(&mut bytes);
        let (mut again, rest) = RecoveredSequences::decode(&bytes).expect("it was encoded");
        assert!(rest.is_empty());
        for end in 0..bytes.len() {
            assert_eq!(RecoveredSequences::decode(&bytes[..end]), None);
        }
        // Replayed from before the checkpoint, and from behind it.
        again.replay(2, 2, 6);
        again.replay(3, 2, 7);
        again.replay(4, 2, 8);
        again.withdraw(4);
        let mut again = Sequences::new(again, 4);
        assert_eq!(offer(&mut again, 4, &[(1, 4), (1, 5), (2, 7), (2, 8)], 4), [1, 3]);
        let mut converted = Sequences::new(known.all(), 2);
        assert_eq!(offer(&mut converted, 4, &[(1, 5), (2, 7), (2, 8)], 4), [2], "in memory it goes on");
        assert_eq!(converted.durable(4).len(), 2);
    }

    #[test]
    fn recovery_merges_what_is_old() {
        let mut all = RecoveredSequences::default();
        (0..MERGED_FROM as u64).for_each(|number| all.replay(number, (number % 3).into(), number));
        assert_eq!(all.len(), MERGED_FROM / 2 + 3);
        let mut known = Sequences::new(all, u64::MAX);
        let last = MERGED_FROM as u64 - 1;
        assert_eq!(
            offer(&mut known, last + 1, &[((last % 3).into(), last), ((last % 3).into(), last + 1)], u64::MAX),
            [1]
        );
    }
}
