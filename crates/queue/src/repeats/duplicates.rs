//! The ids of the last messages of a queue that drops duplicates: a message with the id of one of them is another copy.
//!
//! A message's id is stored with it (`leveret_message::stored::compared_by`), so that both are there after a crash or neither is. The
//! ids of messages that have left are in the checkpoint. Times are those at which messages were received, so that replay decides
//! nothing anew.

use std::collections::VecDeque;

use leveret_message::ComparedBy;
use leveret_model::Deduplication;
use rustc_hash::FxHashMap;

use super::compared::{Compared, Comparison, RecoveredCompared};
use super::offered::Offered;

/// Comparison by the ids of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ById;

/// Ids as recovery finds them.
pub type RecoveredIds = RecoveredCompared<ById>;

impl Comparison for ById {
    fn shorten(entries: &mut VecDeque<Compared>) {
        if entries.len() > Deduplication::SIZE_MAX as usize {
            entries.pop_front();
        }
    }
}

/// The ids of the last messages of a queue.
#[derive(Debug)]
pub(crate) struct Duplicates {
    size: usize,
    ttl_ms: Option<u64>,
    /// In the order of the messages.
    entries: VecDeque<Compared>,
    /// Number and time of the last message with an id.
    latest: FxHashMap<u128, (u64, u64)>,
    dropped: u64,
}

impl Duplicates {
    pub(crate) fn new(options: &Deduplication, recovered: RecoveredIds, next: u64) -> Self {
        let (size, ttl_ms) = (options.size as usize, options.ttl_ms);
        let mut duplicates = Self { size, ttl_ms, entries: VecDeque::new(), latest: FxHashMap::default(), dropped: 0 };
        recovered.into_iter().for_each(|entry| duplicates.push(entry));
        duplicates.trim(next);
        duplicates
    }

    /// Number of messages that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The places of the messages that aren't duplicates, of each other either, and counts the others. Messages from number `next` on
    /// aren't applied.
    pub(crate) fn fresh(&mut self, offered: &[Option<Offered>], next: u64) -> Vec<u32> {
        self.trim(next);
        let mut here: FxHashMap<u128, u64> = FxHashMap::default();
        let mut fresh = Vec::with_capacity(offered.len());
        for (place, offered) in (0..).zip(offered) {
            if let Some(Offered { by: ComparedBy { id, .. }, at_ms, is_compared }) = *offered {
                let known = here.get(&id).copied().or_else(|| self.latest.get(&id).map(|(_, at_ms)| *at_ms));
                if is_compared && known.is_some_and(|known_ms| self.is_young(known_ms, at_ms)) {
                    self.dropped += 1;
                    continue;
                }
                here.insert(id, at_ms);
            }
            fresh.push(place);
        }
        fresh
    }

    fn is_young(&self, known_ms: u64, at_ms: u64) -> bool {
        self.ttl_ms.is_none_or(|ttl_ms| at_ms.saturating_sub(known_ms) < ttl_ms)
    }

    /// Notes the id of a message that was submitted. Messages from number `next` on aren't applied.
    pub(crate) fn note(&mut self, number: u64, offered: Offered, durable: bool, next: u64) {
        self.push(Compared { id: offered.by.id, number, value: offered.at_ms, durable });
        self.trim(next);
    }

    fn push(&mut self, entry: Compared) {
        self.latest.insert(entry.id, (entry.number, entry.value));
        self.entries.push_back(entry);
    }

    /// Forgets the oldest ids. Those of messages that aren't applied push none out: they may never be.
    fn trim(&mut self, next: u64) {
        let mut applied = self.entries.partition_point(|entry| entry.number < next);
        while applied > self.size {
            self.forget_first();
            applied -= 1;
        }
    }

    fn forget_first(&mut self) {
        let Some(entry) = self.entries.pop_front() else { return };
        if self.latest.get(&entry.id).is_some_and(|(number, _)| *number == entry.number) {
            self.latest.remove(&entry.id);
        }
    }

    /// Messages from this number on were submitted and never become part of the queue.
    pub(crate) fn withdraw(&mut self, from: u64) {
        let kept = self.entries.partition_point(|entry| entry.number < from);
        if kept < self.entries.len() {
            self.entries.truncate(kept);
            self.latest.clear();
            self.latest.extend(self.entries.iter().map(|entry| (entry.id, (entry.number, entry.value))));
        }
    }

    /// The ids of messages below `next` that survive a restart.
    pub(crate) fn durable(&self, next: u64) -> RecoveredIds {
        let durable = self.entries.iter().filter(|entry| entry.durable && entry.number < next);
        durable.copied().collect::<VecDeque<_>>().into()
    }

    /// All ids, for a machine that goes on with the queue.
    pub(crate) fn all(&self) -> RecoveredIds {
        self.entries.clone().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE_PENDING: u64 = u64::MAX;
    const NONE: [u32; 0] = [];

    fn duplicates(size: u32, ttl_ms: Option<u64>) -> Duplicates {
        let options = Deduplication { size, ttl_ms, header: "h".into() };
        Duplicates::new(&options, RecoveredIds::default(), 0)
    }

    fn offered(id: u128, at_ms: u64) -> Offered {
        Offered { by: ComparedBy { id, sequence: None }, at_ms, is_compared: true }
    }

    /// Offers these ids at a time and notes those that are fresh from `number` on. Returns their places.
    fn offer(duplicates: &mut Duplicates, number: u64, ids: &[u128], at_ms: u64) -> Vec<u32> {
        let all: Vec<_> = ids.iter().map(|id| Some(offered(*id, at_ms))).collect();
        let fresh = duplicates.fresh(&all, NONE_PENDING);
        for (number, place) in (number..).zip(&fresh) {
            duplicates.note(number, all[*place as usize].expect("it has an id"), true, NONE_PENDING);
        }
        fresh
    }

    #[test]
    fn a_second_message_with_an_id_is_a_duplicate() {
        let mut known = duplicates(3, None);
        assert_eq!(offer(&mut known, 0, &[1, 2, 1, 2, 2], 0), [0, 1]);
        assert_eq!(offer(&mut known, 2, &[2, 3], 0), [1]);
        assert_eq!(known.dropped(), 4);
        assert_eq!(known.fresh(&[None, None], NONE_PENDING), [0, 1], "without an id it is none");
        let comes_back = Offered { is_compared: false, ..offered(1, 0) };
        assert_eq!(known.fresh(&[Some(comes_back)], NONE_PENDING), [0]);
    }

    #[test]
    fn the_oldest_ids_are_forgotten() {
        let mut known = duplicates(3, None);
        offer(&mut known, 0, &[1, 2, 3, 4], 0);
        assert_eq!(offer(&mut known, 4, &[2, 3, 4], 0), NONE, "three are known");
        assert_eq!(offer(&mut known, 4, &[1], 0), [0]);
        assert_eq!(offer(&mut known, 5, &[2], 0), [0], "the first one went when another one came");
    }

    #[test]
    fn an_id_is_forgotten_after_its_time() {
        let mut known = duplicates(3, Some(100));
        offer(&mut known, 0, &[1], 1000);
        assert_eq!(offer(&mut known, 1, &[1], 1099), NONE);
        assert_eq!(offer(&mut known, 1, &[1], 900), NONE, "a clock that went back");
        assert_eq!(offer(&mut known, 1, &[1], 1100), [0]);
        assert_eq!(offer(&mut known, 2, &[1], 1150), NONE, "its time began anew");
        offer(&mut known, 2, &[2, 3, 4], 1150);
        assert_eq!(known.entries.len(), 3);
        assert_eq!(offer(&mut known, 5, &[1], 1150), [0], "both of its entries are gone");
    }

    #[test]
    fn messages_that_are_withdrawn_may_come_again() {
        let mut known = duplicates(2, None);
        offer(&mut known, 0, &[1, 2], 0);
        // Not applied: they push none out.
        for (number, id) in [(2, 3), (3, 4)] {
            known.note(number, offered(id, 0), true, 2);
        }
        assert_eq!(known.fresh(&[1, 2, 3, 4].map(|id| Some(offered(id, 0))), 2), NONE);
        known.withdraw(2);
        assert_eq!(known.fresh(&[1, 2, 3, 4].map(|id| Some(offered(id, 0))), 2), [2, 3]);
    }

    #[test]
    fn a_checkpoint_has_the_ids_of_what_survives() {
        let mut known = duplicates(9, None);
        for (number, durable) in [(0, true), (1, false), (2, true), (3, true)] {
            known.note(number, offered(number.into(), 7), durable, 3);
        }
        let mut bytes = Vec::new();
        known.durable(3).encode(&mut bytes);
        bytes.push(5);
        let (mut ids, rest) = RecoveredIds::decode(&bytes).expect("it was encoded");
        assert_eq!((rest, ids.len()), (&[5][..], 2));
        for end in 0..bytes.len() - 1 {
            assert_eq!(RecoveredIds::decode(&bytes[..end]), None);
        }
        // Replayed from before the checkpoint, and from behind it.
        ids.replay(2, 2, 7);
        ids.replay(3, 3, 7);
        ids.replay(4, 4, 7);
        ids.withdraw(4);
        let options = Deduplication { size: 9, ttl_ms: None, header: "h".into() };
        let mut again = Duplicates::new(&options, ids, 4);
        assert_eq!(again.fresh(&[0, 1, 2, 3, 4].map(|id| Some(offered(id, 7))), 4), [1, 4]);
    }
}
