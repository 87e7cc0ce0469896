//! Messages with expiry times of their own: four bytes each plus their sizes, in chunks with a known soonest time.

use std::collections::{BTreeSet, VecDeque};

use super::chunk::Chunk;

/// Times are kept in ticks of this many milliseconds, rounded up.
const TICK_MS: u64 = 500;
/// Tick 0: the beginning of 2020 in milliseconds since the Unix epoch. The last tick is in 2088; later times are
/// reduced to it.
const TICK_ZERO_MS: u64 = 1_577_836_800_000;

#[derive(Debug, Default)]
pub(super) struct Times {
    chunks: VecDeque<Chunk>,
    /// Number of removed chunks: the index of `chunks[0]`.
    gone: u64,
    /// Soonest tick and index of every non-empty chunk.
    soonest: BTreeSet<(u32, u64)>,
    count: u64,
}

fn tick(time_ms: u64) -> u32 {
    u32::try_from(time_ms.saturating_sub(TICK_ZERO_MS).div_ceil(TICK_MS)).unwrap_or(u32::MAX)
}

fn time_ms(tick: u32) -> u64 {
    TICK_ZERO_MS + u64::from(tick) * TICK_MS
}

impl Times {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a message. Numbers ascend.
    pub(super) fn push(&mut self, number: u64, time_ms: u64, bytes: u32) {
        self.push_tick(number, tick(time_ms), bytes);
    }

    pub(super) fn push_tick(&mut self, number: u64, tick: u32, bytes: u32) {
        if !self.chunks.back().is_some_and(|chunk| chunk.takes(number)) {
            self.chunks.push_back(Chunk::new(number));
        }
        let index = self.gone + self.chunks.len() as u64 - 1;
        let chunk = self.chunks.back_mut().expect("pushed above");
        let before = chunk.soonest();
        chunk.push(number, tick, bytes);
        if before.is_none_or(|before| tick < before) {
            if let Some(before) = before {
                self.soonest.remove(&(before, index));
            }
            self.soonest.insert((tick, index));
        }
        self.count += 1;
    }

    /// Adds a chunk of messages with higher numbers than all present ones.
    pub(super) fn push_chunk(&mut self, chunk: Chunk) {
        if let Some(soonest) = chunk.soonest() {
            self.soonest.insert((soonest, self.gone + self.chunks.len() as u64));
            self.count += chunk.len() as u64;
            self.chunks.push_back(chunk);
        }
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.soonest.first().map(|(tick, _)| time_ms(*tick))
    }

    /// Removes and returns a message that is due at `now_ms`: number and body bytes.
    pub(super) fn pop_due(&mut self, now_ms: u64) -> Option<(u64, u32)> {
        let &(_, index) = self.soonest.first().filter(|(tick, _)| time_ms(*tick) <= now_ms)?;
        self.soonest.pop_first();
        let chunk = &mut self.chunks[(index - self.gone) as usize];
        let due = chunk.pop_soonest();
        self.count -= 1;
        match chunk.soonest() {
            Some(soonest) => {
                self.soonest.insert((soonest, index));
            }
            None => self.pop_empty(),
        }
        Some(due)
    }

    fn pop_empty(&mut self) {
        while self.chunks.pop_front_if(|chunk| chunk.len() == 0).is_some() {
            self.gone += 1;
        }
    }

    /// Forgets departed messages: numbers below `low` at once, others once they are the majority of the entries.
    pub(super) fn prune(&mut self, live: u64, low: u64, is_live: impl Fn(u64) -> bool) {
        while let Some(chunk) = self.chunks.pop_front_if(|chunk| chunk.last().is_none_or(|last| last < low)) {
            if let Some(soonest) = chunk.soonest() {
                self.soonest.remove(&(soonest, self.gone));
            }
            self.count -= chunk.len() as u64;
            self.gone += 1;
        }
        if self.count > 2 * live + 4 * Chunk::LEN_MAX as u64 {
            let old = std::mem::take(self);
            for (number, tick, bytes) in old.chunks.iter().flat_map(Chunk::iter).filter(|entry| is_live(entry.0)) {
                self.push_tick(number, tick, bytes);
            }
        }
    }

    /// These messages merged with others (number, time and body bytes), in the order of their numbers.
    pub(super) fn merged_with(&self, others: &[(u64, u64, u32)]) -> Self {
        let mut merged = Self::default();
        let mut others = others.iter().peekable();
        for (number, tick, bytes) in self.chunks.iter().flat_map(Chunk::iter) {
            while let Some((other, time_ms, bytes)) = others.next_if(|(other, ..)| *other < number) {
                merged.push(*other, *time_ms, *bytes);
            }
            merged.push_tick(number, tick, bytes);
        }
        others.for_each(|(other, time_ms, bytes)| merged.push(*other, *time_ms, *bytes));
        merged
    }

    /// All non-empty chunks, by number.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter().filter(|chunk| chunk.len() > 0)
    }

    pub(super) fn memory(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.memory() + 24).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = TICK_ZERO_MS + 123;

    #[test]
    fn a_message_is_due_within_half_a_second_and_never_early() {
        let mut times = Times::default();
        for (number, ttl) in [(0, 5_000), (1, 1), (7, 700), (8, 5_000)] {
            times.push(number, START + ttl, number as u32);
        }
        let mut left = vec![];
        for now in (START..START + 6_000).step_by(10) {
            while let Some((number, bytes)) = times.pop_due(now) {
                assert_eq!(u64::from(bytes), number);
                left.push((number, now - START));
            }
        }
        assert!(times.is_empty() && times.chunks.is_empty());
        for (number, ttl) in [(0, 5_000), (1, 1), (7, 700), (8, 5_000)] {
            let (_, at) = left.iter().find(|(other, _)| *other == number).expect("it left");
            assert!((ttl..ttl + 510).contains(at), "{number} left after {at}");
        }
    }

    #[test]
    fn a_million_random_times_take_under_8_megabytes() {
        let mut times = Times::default();
        let mut random = 1u64;
        for number in 0..1_000_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            times.push(number, START + random % 86_400_000, (random >> 40) as u32 % 60_000);
        }
        assert!(times.memory() < 8_000_000, "{}", times.memory());
    }

    #[test]
    fn departed_messages_are_forgotten() {
        let mut times = Times::default();
        for number in 0..100_000 {
            times.push(number, START + 1_000_000, 0);
            times.prune(10, number.saturating_sub(10), |other| other + 10 > number);
        }
        assert!(times.memory() < 100_000);
        let mut times = Times::default();
        for number in 0..100_000 {
            times.push(number, START + 1_000_000, 0);
            // A message that stays keeps the low mark down.
            times.prune(2, 0, |other| other == 0 || other == number);
        }
        assert!(times.memory() < 200_000, "{}", times.memory());
        assert_eq!(times.pop_due(START + 2_000_000), Some((0, 0)));
    }
}
