//! The index of a stream: its chunks in stretches, with their bytes and times. Retention drops whole stretches, and a reader that
//! begins at a time finds the stretch with it.

use std::collections::VecDeque;

/// Bytes of chunks in a stretch, if no limit asks for smaller ones.
const STRETCH_BYTES: u64 = 1 << 20;
/// A limit of bytes is kept to this part of itself.
const PARTS_OF_LIMIT: u64 = 64;
/// A stretch has at least this much, or one chunk.
const STRETCH_BYTES_MIN: u64 = 4 << 10;
/// Most stretches of a stream: beyond that neighbours are joined, so that the index stays below 3 MiB.
const STRETCHES_MAX: usize = 1 << 16;
/// Bytes of a stretch in a checkpoint.
const ENCODED_BYTES: usize = 32;

/// Consecutive chunks. It ends where the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    /// Offset of its first message.
    first: u64,
    /// Bytes of its chunks.
    bytes: u64,
    /// Time of its first chunk, in milliseconds since the Unix epoch.
    from_ms: u64,
    /// Time of its last chunk.
    to_ms: u64,
}

/// The stretches of a stream, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stretches {
    all: VecDeque<Stretch>,
    /// Offset of the first message of the last chunk.
    last_chunk: u64,
}

/// The sizes of new stretches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StretchSize {
    bytes_max: u64,
    span_ms_max: u64,
}

impl StretchSize {
    /// Sizes by which these limits can be kept: bytes to a 64th, and a time to a second or a 65,536th.
    pub(crate) fn of(max_bytes: Option<u64>, max_age_ms: Option<u64>) -> Self {
        let bytes_max =
            max_bytes.map_or(STRETCH_BYTES, |max| (max / PARTS_OF_LIMIT).clamp(STRETCH_BYTES_MIN, STRETCH_BYTES));
        let span_ms_max = max_age_ms.map_or(u64::MAX, |max| (max / STRETCHES_MAX as u64).max(500));
        Self { bytes_max, span_ms_max }
    }
}

impl Default for StretchSize {
    fn default() -> Self {
        Self::of(None, None)
    }
}

/// A stretch that left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub first: u64,
    /// Offset behind its last message.
    pub end: u64,
    pub bytes: u64,
}

impl Stretches {
    /// Adds a chunk behind all others: the offset of its first message, its bytes, and when it was published.
    pub(crate) fn add(&mut self, first: u64, bytes: u64, at_ms: u64, size: StretchSize) {
        self.last_chunk = first;
        if let Some(last) = self.all.back_mut()
            && last.bytes + bytes <= size.bytes_max
            && at_ms.saturating_sub(last.from_ms) <= size.span_ms_max
        {
            last.bytes += bytes;
            last.to_ms = last.to_ms.max(at_ms);
            return;
        }
        // Times that went back would make a search by time miss chunks.
        let at_ms = self.all.back().map_or(at_ms, |last| last.to_ms.max(at_ms));
        if self.all.len() >= STRETCHES_MAX {
            self.join();
        }
        self.all.push_back(Stretch { first, bytes, from_ms: at_ms, to_ms: at_ms });
    }

    /// The same for a chunk that a replay of the log found.
    pub fn replay(&mut self, first: u64, bytes: u64, at_ms: u64) {
        // Chunks that the checkpoint contains are replayed, too, if their settles aren't.
        if self.all.is_empty() || first > self.last_chunk {
            self.add(first, bytes, at_ms, StretchSize { bytes_max: STRETCH_BYTES_MIN, span_ms_max: 500 });
        }
    }

    /// Takes back a chunk that a replay found and that never was in the stream.
    pub fn withdraw(&mut self, first: u64, bytes: u64) {
        let Some(at) = self.all.partition_point(|stretch| stretch.first <= first).checked_sub(1) else { return };
        self.all[at].bytes = self.all[at].bytes.saturating_sub(bytes);
        if self.all[at].bytes == 0 {
            self.all.remove(at);
        }
        if self.last_chunk == first {
            // The chunk before it isn't known any more: its stretch begins with an earlier one.
            self.last_chunk = self.all.back().map_or(0, |stretch| stretch.first);
        }
    }

    /// Forgets the last of several stretches, which only a planted bug does.
    pub(crate) fn forget_last(&mut self) {
        self.all.truncate(self.all.len().saturating_sub(1).max(1));
    }

    /// Joins the older half of all stretches in pairs.
    fn join(&mut self) {
        let newer = self.all.split_off(self.all.len() / 2);
        let older = std::mem::take(&mut self.all);
        let mut older = older.into_iter();
        while let Some(mut stretch) = older.next() {
            if let Some(next) = older.next() {
                stretch.bytes += next.bytes;
                stretch.to_ms = next.to_ms;
            }
            self.all.push_back(stretch);
        }
        self.all.extend(newer);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Memory that it uses, in bytes.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> u64 {
        (self.all.capacity() * size_of::<Stretch>()) as u64
    }

    /// Offset of the first message of the last chunk; `None` if there is no chunk.
    pub(crate) fn last_chunk(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.last_chunk)
    }

    /// The time of the last chunk.
    pub(crate) fn newest_ms(&self) -> Option<u64> {
        self.all.back().map(|last| last.to_ms)
    }

    /// The time of the first chunk.
    pub(crate) fn oldest_ms(&self) -> Option<u64> {
        self.all.front().map(|first| first.from_ms)
    }

    /// The time of the last chunk in the first stretch: the first stretch leaves by its age then.
    pub(crate) fn first_ends_ms(&self) -> Option<u64> {
        self.all.front().map(|first| first.to_ms)
    }

    /// Offset at which a search for the first chunk of this time or later begins; `None` if all chunks are older.
    pub(crate) fn at_time(&self, at_ms: u64) -> Option<u64> {
        let at = self.all.partition_point(|stretch| stretch.to_ms < at_ms);
        self.all.get(at).map(|stretch| stretch.first)
    }

    /// Removes the first stretch. `next` is the offset behind the last message of the stream.
    pub(crate) fn pop(&mut self, next: u64) -> Option<Dropped> {
        let stretch = self.all.pop_front()?;
        let end = self.all.front().map_or(next, |following| following.first);
        Some(Dropped { first: stretch.first, end, bytes: stretch.bytes })
    }

    /// Removes messages with lower offsets than `low`, as after a replay: the others have `bytes`.
    pub(crate) fn trim(&mut self, (low, next): (u64, u64), bytes: u64) {
        while let Some(first) = self.all.front().map(|first| first.first)
            && first < low
        {
            let end = self.all.get(1).map_or(next, |following| following.first);
            if end > low {
                break;
            }
            self.all.pop_front();
        }
        let others: u64 = self.all.iter().skip(1).map(|stretch| stretch.bytes).sum();
        if let Some(first) = self.all.front_mut() {
            // Stretches of a replay end elsewhere than those that retention removed.
            (first.first, first.bytes) = (low, bytes.saturating_sub(others));
        }
        if let Some(last) = self.all.back() {
            // If the last chunk was withdrawn, it is the beginning of its stretch, which may have moved just now.
            self.last_chunk = self.last_chunk.max(last.first);
        }
    }

    /// Appends its form in a checkpoint: last chunk u64, number of stretches u32; of each first u64, bytes u64, from u64, to u64.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.last_chunk.to_le_bytes());
        out.extend_from_slice(&(self.all.len() as u32).to_le_bytes());
        for stretch in &self.all {
            for field in [stretch.first, stretch.bytes, stretch.from_ms, stretch.to_ms] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
    }

    /// The index that these bytes begin with, and the bytes behind it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (last_chunk, rest) = bytes.split_first_chunk::<8>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (stretches, rest) = rest.split_at_checked(count.checked_mul(ENCODED_BYTES)?)?;
        let field = |stretch: &[u8], at: usize| {
            u64::from_le_bytes(stretch[at * 8..at * 8 + 8].try_into().expect("eight bytes"))
        };
        let decode = |stretch: &[u8]| Stretch {
            first: field(stretch, 0),
            bytes: field(stretch, 1),
            from_ms: field(stretch, 2),
            to_ms: field(stretch, 3),
        };
        let all: VecDeque<_> = stretches.chunks_exact(ENCODED_BYTES).map(decode).collect();
        let last_chunk = u64::from_le_bytes(*last_chunk);
        let is_ascending = all.iter().zip(all.iter().skip(1)).all(|(one, next)| one.first < next.first);
        let fits = all.back().is_none_or(|last| last.first <= last_chunk);
        (is_ascending && fits).then_some((Self { all, last_chunk }, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(chunks: &[(u64, u64, u64)], size: StretchSize) -> Stretches {
        let mut stretches = Stretches::default();
        chunks.iter().for_each(|&(first, bytes, at_ms)| stretches.add(first, bytes, at_ms, size));
        stretches
    }

    #[test]
    fn a_stretch_ends_at_its_bytes_and_at_its_span() {
        let size = StretchSize { bytes_max: 100, span_ms_max: 10 };
        let mut stretches = of(&[(0, 60, 1), (5, 40, 2), (9, 1, 3), (12, 1, 14), (20, 500, 15)], size);
        assert_eq!(stretches.last_chunk(), Some(20));
        let mut popped = || stretches.pop(30).map(|dropped| (dropped.first, dropped.end, dropped.bytes));
        assert_eq!(popped(), Some((0, 9, 100)));
        assert_eq!(popped(), Some((9, 12, 1)));
        assert_eq!(popped(), Some((12, 20, 1)));
        assert_eq!(popped(), Some((20, 30, 500)));
        assert_eq!(popped(), None);
        assert_eq!(stretches.last_chunk(), None);
    }

    #[test]
    fn a_time_leads_to_the_stretch_with_the_first_chunk_from_it_on() {
        let size = StretchSize { bytes_max: 2, span_ms_max: 100 };
        let stretches = of(&[(0, 1, 10), (1, 1, 20), (2, 1, 30), (3, 1, 25), (4, 1, 40)], size);
        let at = [0, 10, 20, 21, 30, 31, 40, 41].map(|at_ms| stretches.at_time(at_ms));
        assert_eq!(at, [Some(0), Some(0), Some(0), Some(2), Some(2), Some(4), Some(4), None]);
    }

    #[test]
    fn limits_ask_for_small_stretches() {
        let bytes = |limit| StretchSize::of(limit, None).bytes_max;
        assert_eq!(
            [bytes(None), bytes(Some(1 << 40)), bytes(Some(6_400_000)), bytes(Some(1))],
            [1 << 20, 1 << 20, 100_000, 4096]
        );
        let span = |age| StretchSize::of(None, age).span_ms_max;
        assert_eq!([span(None), span(Some(1000)), span(Some(65_536_000))], [u64::MAX, 500, 1000]);
    }

    #[test]
    fn a_chunk_that_is_withdrawn_leaves_no_bytes() {
        let mut stretches = of(&[(0, 60, 1), (5, 40, 2), (9, 7, 3)], StretchSize { bytes_max: 100, span_ms_max: 10 });
        stretches.withdraw(9, 7);
        assert_eq!((stretches.len(), stretches.last_chunk()), (1, Some(0)));
        stretches.withdraw(5, 40);
        assert_eq!(stretches.pop(5).map(|dropped| dropped.bytes), Some(60));
    }

    #[test]
    fn an_index_without_its_first_and_last_chunks_comes_back() {
        let mut stretches = of(&[(0, 60, 1), (5, 40, 2), (9, 7, 3)], StretchSize { bytes_max: 200, span_ms_max: 10 });
        stretches.withdraw(0, 60);
        stretches.withdraw(9, 7);
        stretches.trim((5, 10), 40);
        assert_eq!(stretches.last_chunk(), Some(5));
        let mut bytes = Vec::new();
        stretches.encode(&mut bytes);
        assert_eq!(Stretches::decode(&bytes), Some((stretches, &[][..])));
    }

    #[test]
    fn a_very_long_stream_has_an_index_of_bounded_length() {
        let mut stretches = Stretches::default();
        let size = StretchSize { bytes_max: 1, span_ms_max: 0 };
        let chunks = 3 * STRETCHES_MAX as u64;
        (0..chunks).for_each(|at| stretches.add(at, 7, at, size));
        assert!(stretches.len() <= STRETCHES_MAX, "{}", stretches.len());
        let (mut end, mut bytes) = (0, 0);
        while let Some(dropped) = stretches.pop(chunks) {
            assert_eq!(dropped.first, end);
            (end, bytes) = (dropped.end, bytes + dropped.bytes);
        }
        assert_eq!((end, bytes), (chunks, 7 * chunks));
    }

    #[test]
    fn a_kept_index_comes_back_and_damage_is_found() {
        let stretches = of(&[(3, 60, 1), (5, 40, 700), (9, 1, 9000)], StretchSize { bytes_max: 50, span_ms_max: 1000 });
        let mut bytes = Vec::new();
        stretches.encode(&mut bytes);
        bytes.push(77);
        let (again, rest) = Stretches::decode(&bytes).expect("it is whole");
        assert_eq!((again, rest), (stretches, &[77][..]));
        for end in 0..bytes.len() - 1 {
            assert_eq!(Stretches::decode(&bytes[..end]), None);
        }
        bytes[0] = 1;
        assert_eq!(Stretches::decode(&bytes), None, "the last chunk is in the last stretch");
    }

    #[test]
    fn stretches_below_the_first_message_are_dropped() {
        let mut stretches = of(&[(0, 1, 1), (4, 1, 2), (8, 1, 3)], StretchSize { bytes_max: 1, span_ms_max: 0 });
        stretches.trim((4, 10), 2);
        assert_eq!(stretches.pop(10).map(|dropped| dropped.first), Some(4));
        stretches.trim((10, 10), 0);
        assert!(stretches.is_empty());
    }

    #[test]
    fn a_stretch_that_is_half_gone_begins_at_the_first_message() {
        let mut stretches = of(&[(0, 10, 1), (4, 20, 1), (8, 5, 3)], StretchSize { bytes_max: 30, span_ms_max: 0 });
        stretches.trim((4, 10), 25);
        assert_eq!(stretches.pop(10), Some(Dropped { first: 4, end: 8, bytes: 20 }));
        assert_eq!(stretches.pop(10), Some(Dropped { first: 8, end: 10, bytes: 5 }));
    }
}
