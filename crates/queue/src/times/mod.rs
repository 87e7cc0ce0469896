//! Messages with a time each, in chunks with a known soonest time: four bytes each plus their sizes, and two more where numbers
//! are missing between theirs.

mod chunk;
mod scale;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

pub(crate) use self::chunk::Chunk;
pub(crate) use self::scale::Scale;

/// The latest time, as in the stored form of messages: 48 bits. Later ones count as this.
const TIME_MS_MAX: u64 = (1 << 48) - 1;

/// Messages by number, each with a time in milliseconds since the Unix epoch, and its body bytes.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// By a number that isn't above any of the chunk, and above all of the one before it.
    chunks: BTreeMap<u64, Chunk>,
    /// Soonest time and key of every chunk.
    soonest: BTreeSet<(u64, u64)>,
    count: u64,
}

impl Times {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of messages.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// Adds a message, or replaces its time.
    pub(crate) fn insert(&mut self, number: u64, time_ms: u64, bytes: u32) {
        self.remove(number);
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
        self.chunks.insert(number, Chunk::new(number, time_ms));
        number
    }

    /// Adds a chunk whose numbers are between those of others.
    pub(crate) fn push_chunk(&mut self, chunk: Chunk) {
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

    /// The soonest time of all.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.soonest.first().map(|(time_ms, _)| *time_ms)
    }

    /// Removes and returns a message that is due at `now_ms`: number and body bytes. The soonest comes first, and of several with
    /// the same time the one with the lowest number.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<(u64, u32)> {
        let &(before, key) = self.soonest.first().filter(|(time_ms, _)| *time_ms <= now_ms)?;
        let due = self.chunks.get_mut(&key).expect("every soonest time is that of a chunk").pop_soonest();
        self.count -= 1;
        self.note_soonest(key, Some(before));
        Some(due)
    }

    /// Removes a message. Returns its time and body bytes, if it was there.
    pub(crate) fn remove(&mut self, number: u64) -> Option<(u64, u32)> {
        let (&key, chunk) = self.chunks.range_mut(..=number).next_back()?;
        let before = chunk.soonest_ms();
        let removed = chunk.remove(number)?;
        self.count -= 1;
        self.note_soonest(key, before);
        Some(removed)
    }

    /// Time and body bytes of a message.
    pub(crate) fn get(&self, number: u64) -> Option<(u64, u32)> {
        self.chunks.range(..=number).next_back()?.1.get(number)
    }

    /// The messages of this range, by number.
    pub(crate) fn range(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = (u64, u64, u32)> {
        let from = self.chunks.range(..=*range.start()).next_back().map_or(*range.start(), |(key, _)| *key);
        let chunks = self.chunks.range(from.min(*range.end())..=*range.end());
        chunks.flat_map(|(_, chunk)| chunk.iter()).filter(move |(number, ..)| range.contains(number))
    }

    /// Forgets departed messages: numbers below `low` at once, others once they are the majority of the entries.
    pub(crate) fn prune(&mut self, live: u64, low: u64, is_live: impl Fn(u64) -> bool) {
        while let Some(first) = self.chunks.first_entry().filter(|first| first.get().last() < Some(low)) {
            let (key, chunk) = first.remove_entry();
            chunk.soonest_ms().map(|soonest| self.soonest.remove(&(soonest, key)));
            self.count -= chunk.len() as u64;
        }
        if self.count > 2 * live + 4 * Chunk::LEN_MAX as u64 {
            self.keep(is_live);
        }
    }

    /// Keeps these messages only.
    pub(crate) fn keep(&mut self, is_live: impl Fn(u64) -> bool) {
        let old = std::mem::take(self);
        for (number, time_ms, bytes) in old.chunks.values().flat_map(Chunk::iter).filter(|entry| is_live(entry.0)) {
            self.insert(number, time_ms, bytes);
        }
    }

    /// Number of chunks, and of bytes that [`Times::encode`] writes.
    pub(crate) fn encoded(&self) -> (u32, usize) {
        (self.chunks.len() as u32, self.chunks.values().map(Chunk::encoded_bytes).sum())
    }

    /// Appends all chunks.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.chunks.values().for_each(|chunk| chunk.encode(out));
    }

    /// Decodes as many chunks, from the front of `bytes`. With `older`, they are of a form without a scale of their own.
    pub(crate) fn decode(chunks: usize, bytes: &mut &[u8], older: Option<Scale>) -> Result<Self, &'static str> {
        let mut times = Self::default();
        let mut next = 0;
        for _ in 0..chunks {
            let chunk = Chunk::decode(bytes, older).ok_or("a chunk of times is wrong")?;
            let (first, last) = (chunk.first(), chunk.last());
            if first.is_some_and(|first| first < next) {
                return Err("the numbers of two chunks overlap");
            }
            next = last.map_or(next, |last| last.saturating_add(1));
            times.push_chunk(chunk);
        }
        Ok(times)
    }

    /// Approximate memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.chunks.values().map(|chunk| chunk.memory() + 40).sum()
    }
}

#[cfg(test)]
mod tests;
