//! Messages of a quorum queue that came to their delivery limit and have no dead-letter exchange: they are set aside, so that
//! none is lost in silence. They stay live in the ledger, and in the log.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::limits::Length;
use crate::records::{Run, push_run};

/// Bytes of an encoded message: its number, then the length of its body.
const ENTRY_BYTES: usize = 12;

/// The parked messages of a queue. Most queues have none.
#[derive(Debug, Default)]
pub struct Parked(Option<Box<Messages>>);

#[derive(Debug, Default)]
struct Messages {
    /// Length of each body, by number.
    sizes: BTreeMap<u64, u32>,
    /// Messages that are being moved, in the same form: nothing else removes them meanwhile.
    moving: BTreeMap<u64, u32>,
    bytes: u64,
}

impl Parked {
    /// Number of messages.
    pub fn len(&self) -> u64 {
        self.0.as_ref().map_or(0, |messages| (messages.sizes.len() + messages.moving.len()) as u64)
    }

    /// Number of messages that aren't being moved.
    pub(crate) fn staying(&self) -> u64 {
        self.0.as_ref().map_or(0, |messages| messages.sizes.len() as u64)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Body bytes of all, including those that are being moved.
    pub fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |messages| messages.bytes)
    }

    pub(crate) fn length(&self) -> Length {
        Length { messages: self.len(), bytes: self.bytes() }
    }

    /// The lowest number of those that aren't being moved.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.0.as_ref()?.sizes.first_key_value().map(|(number, _)| *number)
    }

    /// Whether this message is parked.
    pub fn contains(&self, number: u64) -> bool {
        self.0
            .as_ref()
            .is_some_and(|messages| messages.sizes.contains_key(&number) || messages.moving.contains_key(&number))
    }

    /// The lowest and the highest number among these.
    pub(crate) fn ends(&self, range: RangeInclusive<u64>) -> Option<(u64, u64)> {
        let mut numbers = self.0.as_ref()?.sizes.range(range).map(|(number, _)| *number);
        let lowest = numbers.next()?;
        Some((lowest, numbers.next_back().unwrap_or(lowest)))
    }

    /// Begins to move a message. False if it isn't parked, or is being moved already.
    pub(crate) fn claim(&mut self, number: u64) -> bool {
        let Some(messages) = &mut self.0 else { return false };
        let size = messages.sizes.remove(&number);
        size.is_some_and(|size| messages.moving.insert(number, size).is_none())
    }

    /// Ends all moves: removes the messages with these numbers, in ascending order, and returns their runs. The others stay.
    pub(crate) fn end_moves(&mut self, moved: &[u64]) -> Vec<Run> {
        let mut runs = Vec::new();
        let Some(messages) = &mut self.0 else { return runs };
        for (number, size) in std::mem::take(&mut messages.moving) {
            if moved.binary_search(&number).is_ok() {
                messages.bytes -= u64::from(size);
                push_run(&mut runs, Run { first: number, last: number, bytes: u64::from(size), durable: true });
            } else {
                messages.sizes.insert(number, size);
            }
        }
        self.free_if_empty();
        runs
    }

    /// The numbers of those that aren't being moved, the lowest first.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|messages| messages.sizes.keys().copied())
    }

    /// Adds the messages of a run. Where their sizes aren't known one by one, as in records of older versions, each counts with the
    /// average.
    pub fn add(&mut self, run: &Run) {
        for one in run.singly() {
            self.insert(one.first, u32::try_from(one.bytes).unwrap_or(u32::MAX));
        }
    }

    fn insert(&mut self, number: u64, size: u32) {
        let messages = self.0.get_or_insert_default();
        let before = messages.sizes.insert(number, size);
        messages.bytes += u64::from(size);
        messages.bytes -= u64::from(before.unwrap_or(0));
    }

    /// Removes the ones among these. Returns their runs.
    pub fn remove(&mut self, range: RangeInclusive<u64>) -> Vec<Run> {
        let mut runs = Vec::new();
        let Some(messages) = &mut self.0 else { return runs };
        for (number, size) in messages.sizes.extract_if(range, |_, _| true) {
            messages.bytes -= u64::from(size);
            push_run(&mut runs, Run { first: number, last: number, bytes: u64::from(size), durable: true });
        }
        self.free_if_empty();
        runs
    }

    /// Keeps these messages only.
    pub fn keep(&mut self, live: impl Fn(u64) -> bool) {
        if let Some(messages) = &mut self.0 {
            messages.sizes.retain(|number, _| live(*number));
            messages.bytes = messages.sizes.values().map(|size| u64::from(*size)).sum();
            self.free_if_empty();
        }
    }

    fn free_if_empty(&mut self) {
        self.0.take_if(|messages| messages.sizes.is_empty() && messages.moving.is_empty());
    }

    /// Appends to `out`: 4 bytes number of messages, and for each 8 bytes number and 4 bytes length of its body.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.len() as u32).to_le_bytes());
        for (number, size) in self.0.iter().flat_map(|messages| messages.sizes.iter().chain(&messages.moving)) {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&size.to_le_bytes());
        }
    }

    /// Decodes parked messages at the beginning of `bytes`, and returns them with the rest. `None` if they aren't whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (count, bytes) = bytes.split_first_chunk()?;
        let length = (u32::from_le_bytes(*count) as usize).checked_mul(ENTRY_BYTES)?;
        let (entries, rest) = bytes.split_at_checked(length)?;
        let mut parked = Self::default();
        for entry in entries.as_chunks::<ENTRY_BYTES>().0 {
            let (number, size) = entry.split_at(8);
            let number = u64::from_le_bytes(number.try_into().expect("8 bytes"));
            parked.insert(number, u32::from_le_bytes(size.try_into().expect("4 bytes")));
        }
        Some((parked, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_add_up_and_survive_a_checkpoint() {
        let mut parked = Parked::default();
        parked.add(&Run { first: 5, last: 7, bytes: 100, durable: true });
        parked.add(&Run { first: 9, last: 9, bytes: 3, durable: true });
        assert_eq!((parked.len(), parked.bytes()), (4, 103));
        let mut bytes = Vec::new();
        parked.encode(&mut bytes);
        for end in 0..bytes.len() {
            assert!(Parked::decode(&bytes[..end]).is_none());
        }
        let (mut again, rest) = Parked::decode(&bytes).expect("it is whole");
        assert_eq!((again.bytes(), rest.len()), (103, 0));
        let runs = again.remove(6..=9);
        assert_eq!(runs.iter().map(Run::count).sum::<u64>(), 3);
        let left = 103 - runs.iter().map(|run| run.bytes).sum::<u64>();
        assert_eq!((again.numbers().collect::<Vec<_>>(), again.bytes()), (vec![5], left));
        parked.keep(|number| number == 9);
        assert_eq!(parked.bytes(), 3);
    }

    #[test]
    fn messages_that_are_being_moved_stay_until_that_has_ended() {
        let mut parked = Parked::default();
        parked.add(&Run { first: 5, last: 8, bytes: 40, durable: true });
        assert_eq!((parked.ends(6..=7), parked.ends(8..=90), parked.ends(9..=90)), (Some((6, 7)), Some((8, 8)), None));
        assert!(parked.claim(5) && parked.claim(7) && parked.claim(8));
        assert!(!parked.claim(5) && !parked.claim(4), "it is being moved, or isn't there");
        assert_eq!((parked.len(), parked.bytes(), parked.oldest(), parked.contains(5)), (4, 40, Some(6), true));
        assert_eq!(parked.remove(0..=6).len(), 1, "only the one that isn't being moved is deleted");
        let mut bytes = Vec::new();
        parked.encode(&mut bytes);
        let (again, _) = Parked::decode(&bytes).expect("it is whole");
        assert_eq!(again.numbers().collect::<Vec<_>>(), [5, 7, 8], "a checkpoint has them");
        let runs = parked.end_moves(&[5, 7]);
        assert_eq!(runs.iter().map(|run| (run.first, run.last)).collect::<Vec<_>>(), [(5, 5), (7, 7)]);
        assert_eq!((parked.numbers().collect::<Vec<_>>(), parked.bytes()), (vec![8], 10));
        assert!(parked.claim(8));
        parked.end_moves(&[8]);
        assert!(parked.is_empty());
    }
}
