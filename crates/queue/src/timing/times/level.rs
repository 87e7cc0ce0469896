//! Messages whose times are ticks of one scale, or of a scale for each chunk, in chunks with a known soonest time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::timing::times::chunk::Chunk;
use crate::timing::times::scale::Scale;

/// Messages by number, each with a time in milliseconds since the Unix epoch, and its body bytes. With a scale, that of all chunks, it
/// covers all times. Without one, each chunk has its own, which becomes coarser with times that are far apart.
#[derive(Debug, Default)]
pub(super) struct Level {
    /// By a number that isn't above any of the chunk, and above all of the one before it.
    pub(super) chunks: BTreeMap<u64, Chunk>,
    /// Soonest time and key of every chunk.
    pub(super) soonest: BTreeSet<(u64, u64)>,
    count: u64,
    scale: Option<Scale>,
}

impl Level {
    /// A level whose times this scale covers.
    pub(super) fn exact(scale: Scale) -> Self {
        Self { scale: Some(scale), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of messages.
    pub(super) fn len(&self) -> u64 {
        self.count
    }

    /// Adds a message that it doesn't have.
    pub(super) fn insert(&mut self, number: u64, time_ms: u64, bytes: u32) {
        let key = self.room_for(number, time_ms);
        let chunk = self.chunks.get_mut(&key).expect("it has room");
        let before = chunk.soonest_ms();
        chunk.insert(number, time_ms, bytes);
        self.count += 1;
        self.note_soonest(key, before);
    }

    /// The key of a chunk that takes this number.
    fn room_for(&mut self, number: u64, time_ms: u64) -> u64 {
        while let Some((&key, chunk)) = self.chunks.range_mut(..=number).next_back() {
            if chunk.takes(number) {
                return key;
            }
            if chunk.len() == Chunk::LEN_MAX && chunk.last().is_some_and(|last| number < last) {
                let before = chunk.soonest_ms();
                let upper = chunk.split();
                self.count -= upper.len() as u64;
                self.note_soonest(key, before);
                self.push_chunk(upper);
            } else if chunk.first().is_some_and(|first| number < first) {
                // Its lowest numbers left.
                let before = chunk.soonest_ms();
                let chunk = self.chunks.remove(&key).expect("found above");
                before.map(|before| self.soonest.remove(&(before, key)));
                self.count -= chunk.len() as u64;
                self.push_chunk(chunk);
            } else {
                break;
            }
        }
        let scale = self.scale.unwrap_or_else(|| Scale::about(time_ms, time_ms));
        self.chunks.insert(number, Chunk::new(number, scale));
        number
    }

    /// Adds a chunk whose numbers are between those of others.
    fn push_chunk(&mut self, chunk: Chunk) {
        if let (Some(first), Some(soonest)) = (chunk.first(), chunk.soonest_ms()) {
            self.soonest.insert((soonest, first));
            self.count += chunk.len() as u64;
            self.chunks.insert(first, chunk);
        }
    }

    /// Notes the soonest time of a chunk that changed, or removes the chunk if it is empty. `before`: what it was.
    fn note_soonest(&mut self, key: u64, before: Option<u64>) {
        let after = self.chunks[&key].soonest_ms();
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.soonest.remove(&(before, key));
        }
        match after {
            Some(after) => _ = self.soonest.insert((after, key)),
            None => _ = self.chunks.remove(&key),
        }
    }

    /// The soonest time, and the lowest number with it.
    pub(super) fn soonest(&self) -> Option<(u64, u64)> {
        let (time_ms, key) = self.soonest.first()?;
        Some((*time_ms, self.chunks[key].soonest_number()?))
    }

    /// The soonest time of all.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.soonest.first().map(|(time_ms, _)| *time_ms)
    }

    /// Removes and returns a message that is due at `now_ms`: number and body bytes. The soonest comes first, and of several with
    /// the same time the one with the lowest number.
    pub(super) fn pop_due(&mut self, now_ms: u64) -> Option<(u64, u32)> {
        let &(before, key) = self.soonest.first().filter(|(time_ms, _)| *time_ms <= now_ms)?;
        let due = self.chunks.get_mut(&key).expect("every soonest time is that of a chunk").pop_soonest();
        self.count -= 1;
        self.note_soonest(key, Some(before));
        Some(due)
    }

    /// Removes a message. Returns its time and body bytes, if it was there.
    pub(super) fn remove(&mut self, number: u64) -> Option<(u64, u32)> {
        let (&key, chunk) = self.chunks.range_mut(..=number).next_back()?;
        let before = chunk.soonest_ms();
        let removed = chunk.remove(number)?;
        self.count -= 1;
        self.note_soonest(key, before);
        Some(removed)
    }

    /// Time and body bytes of a message.
    pub(super) fn get(&self, number: u64) -> Option<(u64, u32)> {
        self.chunks.range(..=number).next_back()?.1.get(number)
    }

    /// The messages of this range, by number.
    pub(super) fn range(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = (u64, u64, u32)> {
        let from = self.chunks.range(..=*range.start()).next_back().map_or(*range.start(), |(key, _)| *key);
        let chunks = self.chunks.range(from.min(*range.end())..=*range.end());
        chunks.flat_map(|(_, chunk)| chunk.iter()).filter(move |(number, ..)| range.contains(number))
    }

    /// Forgets numbers below `low`, as far as whole chunks are below.
    pub(super) fn forget_below(&mut self, low: u64) {
        while let Some(first) = self.chunks.first_entry().filter(|first| first.get().last() < Some(low)) {
            let (key, chunk) = first.remove_entry();
            chunk.soonest_ms().map(|soonest| self.soonest.remove(&(soonest, key)));
            self.count -= chunk.len() as u64;
        }
    }

    /// All messages, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64, u32)> {
        self.chunks.values().flat_map(Chunk::iter)
    }

    /// Number of chunks, and of bytes that [`Times::encode`] writes.
    pub(super) fn encoded(&self) -> (u32, usize) {
        (self.chunks.len() as u32, self.chunks.values().map(Chunk::encoded_bytes).sum())
    }

    /// Appends all chunks.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.chunks.values().for_each(|chunk| chunk.encode(out));
    }

    /// Approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.chunks.values().map(|chunk| chunk.memory() + 40).sum()
    }
}
