//! A small number for each of many messages, most of them 1.

use std::collections::BTreeMap;

use roaring::RoaringTreemap;

use crate::number_set::NumberSet;

/// Numbers of messages that have been counted, with their counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Messages counted once, which includes all that a lost connection gave back.
    once: NumberSet,
    /// Messages counted more often.
    more: BTreeMap<u64, u32>,
}

impl Tally {
    pub(crate) fn of(&self, number: u64) -> u32 {
        if self.once.contains(number) {
            return 1;
        }
        if self.more.is_empty() { 0 } else { self.more.get(&number).copied().unwrap_or(0) }
    }

    /// Counts one more. Returns the new count.
    pub(crate) fn add(&mut self, number: u64) -> u32 {
        if let Some(count) = self.more.get_mut(&number) {
            *count = count.saturating_add(1);
            *count
        } else if self.once.remove(number) {
            self.more.insert(number, 2);
            2
        } else {
            self.once.insert(number);
            1
        }
    }

    /// Replaces the count of a message.
    pub(crate) fn set(&mut self, number: u64, count: u32) {
        self.once.remove(number);
        self.more.remove(&number);
        match count {
            0 => {}
            1 => _ = self.once.insert(number),
            count => _ = self.more.insert(number, count),
        }
    }

    /// Messages left the queue.
    pub(crate) fn forget(&mut self, first: u64, last: u64) {
        if !self.once.is_empty() {
            self.once.remove_range(first, last);
        }
        if !self.more.is_empty() {
            self.more.extract_if(first..=last, |_, _| true).for_each(drop);
        }
    }

    /// Keeps the counts of these messages only.
    pub(crate) fn keep(&mut self, live: impl Fn(u64) -> bool) {
        self.once.keep(&live);
        self.more.retain(|number, _| live(*number));
    }

    /// The first number from `number` on that was counted.
    pub(crate) fn next(&self, number: u64) -> Option<u64> {
        let more = self.more.range(number..).next().map(|(number, _)| *number);
        self.once.next(number).into_iter().chain(more).min()
    }

    /// All numbers that were counted, the lowest first.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        let (mut once, mut more) = (self.once.iter().peekable(), self.more.keys().copied().peekable());
        std::iter::from_fn(move || match (once.peek(), more.peek()) {
            (Some(one), Some(other)) if other < one => more.next(),
            (Some(_), _) => once.next(),
            (None, _) => more.next(),
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.once.is_empty() && self.more.is_empty()
    }

    /// Appends it to `out`: 4 bytes length of the set, the set of messages counted once, 4 bytes number of others, and for each
    /// of these 8 bytes number and 4 bytes count.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut set = Vec::new();
        self.once.write(&mut set);
        out.extend_from_slice(&(set.len() as u32).to_le_bytes());
        out.extend_from_slice(&set);
        out.extend_from_slice(&(self.more.len() as u32).to_le_bytes());
        for (number, count) in &self.more {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&count.to_le_bytes());
        }
    }

    /// Decodes a tally at the beginning of `bytes`, and returns it with the rest. `None` if it isn't one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (length, bytes) = bytes.split_first_chunk().map(|(length, rest)| (u32::from_le_bytes(*length), rest))?;
        let (set, bytes) = bytes.split_at_checked(length as usize)?;
        let once = NumberSet::from(RoaringTreemap::deserialize_from(set).ok()?);
        let (count, mut bytes) = bytes.split_first_chunk().map(|(count, rest)| (u32::from_le_bytes(*count), rest))?;
        let mut more = BTreeMap::new();
        for _ in 0..count {
            let (number, rest) = bytes.split_first_chunk()?;
            let (times, rest) = rest.split_first_chunk()?;
            more.insert(u64::from_le_bytes(*number), u32::from_le_bytes(*times));
            bytes = rest;
        }
        Some((Self { once, more }, bytes))
    }
}
