//! Messages with times of their own: twelve bytes each, in chunks that know their soonest.

use std::collections::{BTreeSet, VecDeque};

/// Times are kept in ticks of this many milliseconds, rounded up.
const TICK_MS: u64 = 500;
/// Tick 0: the beginning of 2020 in milliseconds since the Unix epoch. The last tick is in 2088; what expires later
/// expires then.
const TICK_ZERO_MS: u64 = 1_577_836_800_000;
/// Messages of a chunk. Looking through one takes under a microsecond.
const CHUNK: usize = 1024;

#[derive(Debug)]
struct Chunk {
    first: u64,
    /// Number of each, from the first.
    offsets: Vec<u32>,
    ticks: Vec<u32>,
    bytes: Vec<u32>,
    soonest: u32,
}

#[derive(Debug, Default)]
pub(super) struct Times {
    chunks: VecDeque<Chunk>,
    /// How many chunks are gone: the index of `chunks[0]`.
    gone: u64,
    /// Soonest tick and index of every chunk that holds something.
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

    pub(super) fn push(&mut self, number: u64, time_ms: u64, bytes: u32) {
        let tick = tick(time_ms);
        let fits = |chunk: &Chunk| chunk.offsets.len() < CHUNK && u32::try_from(number - chunk.first).is_ok();
        if !self.chunks.back().is_some_and(fits) {
            let (offsets, ticks, bytes) = (Vec::new(), Vec::new(), Vec::new());
            self.chunks.push_back(Chunk { first: number, offsets, ticks, bytes, soonest: u32::MAX });
        }
        let index = self.gone + self.chunks.len() as u64 - 1;
        let chunk = self.chunks.back_mut().expect("pushed above");
        if chunk.offsets.is_empty() || tick < chunk.soonest {
            self.soonest.remove(&(chunk.soonest, index));
            chunk.soonest = tick;
            self.soonest.insert((tick, index));
        }
        chunk.offsets.push((number - chunk.first) as u32);
        chunk.ticks.push(tick);
        chunk.bytes.push(bytes);
        self.count += 1;
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.soonest.first().map(|(tick, _)| time_ms(*tick))
    }

    /// Takes out one that is due at `now_ms`: number and body bytes.
    pub(super) fn pop_due(&mut self, now_ms: u64) -> Option<(u64, u32)> {
        let &(tick, index) = self.soonest.first().filter(|(tick, _)| time_ms(*tick) <= now_ms)?;
        self.soonest.pop_first();
        let chunk = &mut self.chunks[(index - self.gone) as usize];
        let at = chunk.ticks.iter().position(|other| *other == tick).expect("the soonest is there");
        let number = chunk.first + u64::from(chunk.offsets.remove(at));
        let bytes = chunk.bytes.remove(at);
        chunk.ticks.remove(at);
        self.count -= 1;
        match chunk.ticks.iter().min() {
            Some(soonest) => {
                chunk.soonest = *soonest;
                self.soonest.insert((*soonest, index));
            }
            None => self.pop_empty(),
        }
        Some((number, bytes))
    }

    fn pop_empty(&mut self) {
        while self.chunks.pop_front_if(|chunk| chunk.offsets.is_empty()).is_some() {
            self.gone += 1;
        }
    }

    /// Forgets messages that are gone: those below `low` at once, others when they are most of what is kept.
    pub(super) fn prune(&mut self, live: u64, low: u64, is_live: impl Fn(u64) -> bool) {
        while let Some(chunk) = self.chunks.front() {
            let last = chunk.offsets.last().map_or(0, |offset| chunk.first + u64::from(*offset));
            if last >= low {
                break;
            }
            self.soonest.remove(&(chunk.soonest, self.gone));
            self.count -= chunk.offsets.len() as u64;
            self.chunks.pop_front();
            self.gone += 1;
        }
        if self.count > 2 * live + 4 * CHUNK as u64 {
            let old = std::mem::take(self);
            for (number, time_ms, bytes) in old.iter().filter(|(number, ..)| is_live(*number)) {
                self.push(number, time_ms, bytes);
            }
        }
    }

    /// Number, time and body bytes of each, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64, u32)> {
        self.chunks.iter().flat_map(|chunk| {
            (0..chunk.offsets.len())
                .map(|at| (chunk.first + u64::from(chunk.offsets[at]), time_ms(chunk.ticks[at]), chunk.bytes[at]))
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.count
    }

    pub(super) fn memory(&self) -> usize {
        let chunk = |chunk: &Chunk| {
            4 * (chunk.offsets.capacity() + chunk.ticks.capacity() + chunk.bytes.capacity()) + size_of::<Chunk>() + 24
        };
        self.chunks.iter().map(chunk).sum()
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
    fn a_million_random_times_take_under_16_megabytes() {
        let mut times = Times::default();
        let mut random = 1u64;
        for number in 0..1_000_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            times.push(number, START + random % 86_400_000, 12);
        }
        assert!(times.memory() < 16_000_000, "{}", times.memory());
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut times = Times::default();
        for number in 0..100_000 {
            times.push(number, START + 1_000_000, 0);
            times.prune(10, number.saturating_sub(10), |other| other + 10 > number);
        }
        assert!(times.memory() < 100_000);
        let mut times = Times::default();
        for number in 0..100_000 {
            times.push(number, START + 1_000_000, 0);
            // One that stays keeps the low mark down.
            times.prune(2, 0, |other| other == 0 || other == number);
        }
        assert!(times.memory() < 200_000, "{}", times.memory());
        assert_eq!(times.pop_due(START + 2_000_000), Some((0, 0)));
    }
}
