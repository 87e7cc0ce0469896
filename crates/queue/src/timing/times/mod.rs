//! Messages with a time each, in chunks with a known soonest time: four bytes each plus their sizes, and two more where numbers
//! are missing between theirs.
//!
//! Times are exact to the millisecond: a chunk has times within 49 days, and messages of other times have chunks of their own, a
//! [`Level`] for each such span. Only behind the last of [`EXACT_MAX`] levels, at least two years after the soonest time, are times
//! rounded up, by at most 65.6 seconds.

mod chunk;
mod level;
mod scale;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use self::chunk::Chunk;
use self::level::Level;
pub(crate) use self::scale::Scale;

/// The latest time, as in the stored form of messages: 48 bits. Later ones count as this.
const TIME_MS_MAX: u64 = (1 << 48) - 1;
/// The most by which times that aren't exact are rounded up.
const ROUNDED_BY_MS_MAX: u64 = 1 << 16;
/// Most levels with exact times. Looking for a number looks into each.
const EXACT_MAX: usize = 64;

/// Messages by number, each with a time in milliseconds since the Unix epoch, and its body bytes.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// By the time of their tick 0.
    exact: BTreeMap<u64, Level>,
    /// Messages whose times are behind those of all exact levels that there may be.
    far: Level,
}

impl Times {
    fn levels(&self) -> impl Iterator<Item = &Level> {
        self.exact.values().chain([&self.far])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.far.is_empty()
    }

    /// Number of messages.
    pub(crate) fn len(&self) -> u64 {
        self.levels().map(Level::len).sum()
    }

    /// Adds a message, or replaces its time.
    pub(crate) fn insert(&mut self, number: u64, time_ms: u64, bytes: u32) {
        self.remove(number);
        self.level_for(time_ms).insert(number, time_ms, bytes);
    }

    fn level_for(&mut self, time_ms: u64) -> &mut Level {
        let near = self.exact.range(..=time_ms).next_back().map(|(zero_ms, _)| *zero_ms);
        if let Some(zero_ms) = near.filter(|zero_ms| Scale::exact_from(*zero_ms).covers(time_ms)) {
            return self.exact.get_mut(&zero_ms).expect("found above");
        }
        if self.exact.len() >= EXACT_MAX
            && let Some(last) = self.exact.last_entry()
        {
            if time_ms > *last.key() {
                return &mut self.far;
            }
            for (number, time_ms, bytes) in last.remove().iter() {
                self.far.insert(number, time_ms, bytes);
            }
        }
        let scale = Scale::about(time_ms, time_ms);
        self.exact.entry(scale.time_ms(0)).or_insert_with(|| Level::exact(scale))
    }

    /// The soonest time of all.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.levels().filter_map(Level::next_ms).min()
    }

    /// The level with this soonest time, and of several the one with the lowest number: its key, none for the far one.
    fn level_with(&self, soonest_ms: u64) -> Option<Option<u64>> {
        let levels = self.exact.iter().map(|(zero_ms, level)| (Some(*zero_ms), level)).chain([(None, &self.far)]);
        let mut equals = levels.filter(|(_, level)| level.next_ms() == Some(soonest_ms));
        let first = equals.next()?;
        // A number is looked for in all messages of a chunk, so only if it decides.
        match equals.next() {
            None => Some(first.0),
            Some(second) => {
                let all = [first, second].into_iter().chain(equals);
                all.min_by_key(|(_, level)| level.soonest()).map(|(zero_ms, _)| zero_ms)
            }
        }
    }

    /// Removes and returns a message that is due at `now_ms`: number and body bytes. The soonest comes first, and of several with
    /// the same time the one with the lowest number.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<(u64, u32)> {
        let soonest_ms = self.next_ms().filter(|time_ms| *time_ms <= now_ms)?;
        let zero_ms = self.level_with(soonest_ms)?;
        let Some(zero_ms) = zero_ms else { return self.far.pop_due(now_ms) };
        let level = self.exact.get_mut(&zero_ms)?;
        let due = level.pop_due(now_ms);
        if level.is_empty() {
            self.exact.remove(&zero_ms);
        }
        due
    }

    /// Removes a message. Returns its time and body bytes, if it was there.
    pub(crate) fn remove(&mut self, number: u64) -> Option<(u64, u32)> {
        let found = self.exact.iter_mut().find_map(|(zero_ms, level)| {
            let removed = level.remove(number)?;
            Some((removed, level.is_empty().then_some(*zero_ms)))
        });
        let Some((removed, emptied)) = found else { return self.far.remove(number) };
        emptied.map(|zero_ms| self.exact.remove(&zero_ms));
        Some(removed)
    }

    /// Time and body bytes of a message.
    pub(crate) fn get(&self, number: u64) -> Option<(u64, u32)> {
        self.levels().find_map(|level| level.get(number))
    }

    /// Whether a message has this time, or this time rounded up.
    pub(crate) fn is_until(&self, number: u64, time_ms: u64) -> bool {
        let time_ms = time_ms.min(TIME_MS_MAX);
        let is_exact = |level: &Level| level.get(number).map(|(exact_ms, _)| exact_ms == time_ms);
        let rounded = || {
            self.far.get(number).is_some_and(|(far_ms, _)| (time_ms..=time_ms + ROUNDED_BY_MS_MAX).contains(&far_ms))
        };
        self.exact.values().find_map(is_exact).unwrap_or_else(rounded)
    }

    /// The messages of this range, by number.
    pub(crate) fn range(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = (u64, u64, u32)> {
        let levels = self.levels().filter(|level| !level.is_empty());
        let mut levels: Vec<_> = levels.map(|level| level.range(range.clone()).peekable()).collect();
        std::iter::from_fn(move || {
            let heads = levels.iter_mut().enumerate().filter_map(|(at, level)| Some((level.peek()?.0, at)));
            let (_, at) = heads.min()?;
            levels[at].next()
        })
    }

    /// Forgets departed messages: numbers below `low` at once, others once they are the majority of the entries.
    pub(crate) fn prune(&mut self, live: u64, low: u64, is_live: impl Fn(u64) -> bool) {
        self.exact.values_mut().chain([&mut self.far]).for_each(|level| level.forget_below(low));
        self.exact.retain(|_, level| !level.is_empty());
        if self.len() > 2 * live + 4 * Chunk::LEN_MAX as u64 {
            self.keep(is_live);
        }
    }

    /// Keeps these messages only.
    pub(crate) fn keep(&mut self, is_live: impl Fn(u64) -> bool) {
        let old = std::mem::take(self);
        for (number, time_ms, bytes) in old.levels().flat_map(Level::iter).filter(|entry| is_live(entry.0)) {
            self.insert(number, time_ms, bytes);
        }
    }

    /// Number of chunks, and of bytes that [`Times::encode`] writes.
    pub(crate) fn encoded(&self) -> (u32, usize) {
        let encoded = self.levels().map(Level::encoded);
        encoded.fold((0, 0), |sums, (chunks, bytes)| (sums.0 + chunks, sums.1 + bytes))
    }

    /// Appends all chunks.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.levels().for_each(|level| level.encode(out));
    }

    /// Decodes as many chunks, from the front of `bytes`. With `older`, they are of a form without a scale of their own.
    pub(crate) fn decode(chunks: usize, bytes: &mut &[u8], older: Option<Scale>) -> Result<Self, &'static str> {
        let (mut times, mut count) = (Self::default(), 0);
        for _ in 0..chunks {
            let chunk = Chunk::decode(bytes, older).ok_or("a chunk of times is wrong")?;
            count += chunk.len() as u64;
            // Each is looked for a level: chunks that were written before there were levels have scales of their own.
            chunk.iter().for_each(|(number, time_ms, bytes)| times.insert(number, time_ms, bytes));
        }
        if times.len() == count { Ok(times) } else { Err("two chunks have the same number") }
    }

    /// Approximate memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.levels().map(Level::memory).sum()
    }
}

#[cfg(test)]
mod tests;
