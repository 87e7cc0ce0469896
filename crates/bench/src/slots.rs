//! A number for each message of a publisher, in memory that grows with the messages sent.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// Numbers allocated at once: 32 KiB.
const CHUNK: usize = 4096;

/// A fixed count of numbers, initially 0, which any thread may change. Chunks are allocated on first use, because the
/// number of messages isn't known in advance if publishers stop by the clock.
pub(crate) struct Slots {
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl Slots {
    /// The first chunk is allocated at once, so that hundreds of threads don't allocate while time is measured.
    pub(crate) fn new(count: u64) -> Self {
        let mut chunks: Box<[_]> = (0..count.div_ceil(CHUNK as u64)).map(|_| OnceLock::new()).collect();
        if let Some(first) = chunks.first_mut() {
            *first = OnceLock::from(zeros(CHUNK.min(count as usize)));
        }
        Self { chunks }
    }

    /// The number at `index`.
    ///
    /// # Panics
    /// If it is beyond the count.
    #[inline]
    pub(crate) fn at(&self, index: u64) -> &AtomicU64 {
        let index = index as usize;
        &self.chunks[index / CHUNK].get_or_init(|| zeros(CHUNK))[index % CHUNK]
    }
}

fn zeros(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn each_number_is_its_own_and_memory_comes_with_use() {
        let slots = Slots::new(3 * CHUNK as u64);
        for index in [CHUNK as u64 - 1, 2 * CHUNK as u64] {
            slots.at(index).fetch_add(index + 1, Ordering::Relaxed);
        }
        assert_eq!(slots.at(CHUNK as u64 - 1).load(Ordering::Relaxed), CHUNK as u64);
        assert_eq!(slots.at(2 * CHUNK as u64).load(Ordering::Relaxed), 2 * CHUNK as u64 + 1);
        assert_eq!(slots.chunks.iter().map(|chunk| chunk.get().is_some()).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn few_numbers_take_little_and_are_there_at_once() {
        let slots = Slots::new(20);
        assert_eq!(slots.chunks.len(), 1);
        assert_eq!(slots.chunks[0].get().map(|chunk| chunk.len()), Some(20));
        assert!(Slots::new(0).chunks.is_empty());
    }
}
