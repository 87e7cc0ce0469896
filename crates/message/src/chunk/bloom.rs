//! The Bloom filter of a chunk, by which readers with a filter skip it. Bit for bit as RabbitMQ's, so that its clients
//! and tools can read it.
//!
//! Bits are counted from the highest of the first byte. Bit 0 means that some message has no filter value. A value has
//! two other bits: its hash, and the hash of the list that holds only the value, both by Erlang's `phash2`. A chunk
//! whose messages all have no value has no filter.

use super::{ChunkError, ChunkHeader, HEADER_BYTES};

/// Size of a filter in bytes, unless the stream has another one (`x-stream-filter-size-bytes`).
pub const FILTER_BYTES_DEFAULT: u8 = 16;
/// Smallest size of a filter in bytes.
pub const FILTER_BYTES_MIN: u8 = 16;
/// Largest size of a filter in bytes.
pub const FILTER_BYTES_MAX: u8 = 255;
/// The bit of messages without a value.
const UNFILTERED: u32 = 0;

/// A filter that is being made.
#[derive(Debug, Clone)]
pub(super) struct Bloom {
    bits: [u8; FILTER_BYTES_MAX as usize],
    size: u8,
    has_values: bool,
}

impl Bloom {
    /// An empty filter of `size` bytes, 16 to 255; less counts as 16.
    pub(super) fn new(size: u8) -> Self {
        Self { bits: [0; FILTER_BYTES_MAX as usize], size: size.max(FILTER_BYTES_MIN), has_values: false }
    }

    /// Adds the value of a message; an empty one counts as none.
    pub(super) fn insert(&mut self, value: Option<&[u8]>) {
        match value.filter(|value| !value.is_empty()) {
            None => self.set(UNFILTERED),
            Some(value) => {
                self.has_values = true;
                bits_of(value, self.size).into_iter().for_each(|bit| self.set(bit));
            }
        }
    }

    /// Whether it has a value; an empty one stands for none.
    pub(super) fn has(&self, value: &[u8]) -> bool {
        has(&self.bits[..usize::from(self.size)], self.size, value)
    }

    fn set(&mut self, bit: u32) {
        self.bits[bit as usize / 8] |= mask(bit);
    }

    /// The filter; empty if no message had a value.
    pub(super) fn as_bytes(&self) -> &[u8] {
        if self.has_values { &self.bits[..usize::from(self.size)] } else { &[] }
    }

    /// Begins an empty filter of the same size.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.size);
    }
}

/// The filter of a chunk; empty if it has none.
///
/// # Errors
/// [`ChunkError`] if the header is damaged, or if the chunk ends before.
pub fn bloom(chunk: &[u8]) -> Result<&[u8], ChunkError> {
    let header = ChunkHeader::decode(chunk)?;
    chunk.get(HEADER_BYTES..header.data_at()).ok_or(ChunkError::Truncated {
        part: "Bloom filter",
        at: HEADER_BYTES as u64,
        need: header.filter_length.into(),
        have: (chunk.len() - HEADER_BYTES) as u64,
    })
}

/// Whether a message of the chunk with this [filter](bloom) may have one of the values, or none if `match_unfiltered` is
/// set. An empty value stands for none.
pub fn may_match<'v>(bloom: &[u8], mut values: impl Iterator<Item = &'v str>, match_unfiltered: bool) -> bool {
    // A chunk without filter has nothing but messages without a value.
    let Ok(size @ 1..) = u8::try_from(bloom.len()) else { return match_unfiltered || values.any(str::is_empty) };
    match_unfiltered && has(bloom, size, b"") || values.any(|value| has(bloom, size, value.as_bytes()))
}

/// Whether a filter of `size` bytes, which isn't 0, has a value; an empty one stands for none.
fn has(bloom: &[u8], size: u8, value: &[u8]) -> bool {
    let is_set = |bit: u32| bloom[bit as usize / 8] & mask(bit) != 0;
    if value.is_empty() { is_set(UNFILTERED) } else { bits_of(value, size).into_iter().all(is_set) }
}

fn mask(bit: u32) -> u8 {
    0x80 >> (bit % 8)
}

/// The bits of a value that isn't empty, in a filter of `size` bytes, which isn't 0.
fn bits_of(value: &[u8], size: u8) -> [u32; 2] {
    let others = u32::from(size) * 8 - 1;
    let hash = hash(value);
    [hash, hash_in_list(hash)].map(|hash| hash % others + 1)
}

/// The golden ratio, of which `phash2` uses multiples.
const GOLDEN: u32 = 0x9e37_79b9;
const OF_BINARIES: u32 = GOLDEN.wrapping_mul(13);
const OF_EMPTY_LISTS: u32 = GOLDEN.wrapping_mul(2);
/// The number by which Erlang knows the empty list.
const EMPTY_LIST: u32 = 2;

/// Erlang's hash of a binary that isn't empty: Jenkins' function of 1996 over blocks of 12 bytes.
fn hash(bytes: &[u8]) -> u32 {
    let (mut a, mut b, mut c) = (GOLDEN, GOLDEN, OF_BINARIES);
    let word = |bytes: &[u8]| {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        u32::from_le_bytes(word)
    };
    let mut blocks = bytes.chunks_exact(12);
    for block in &mut blocks {
        a = a.wrapping_add(word(&block[..4]));
        b = b.wrapping_add(word(&block[4..8]));
        c = c.wrapping_add(word(&block[8..]));
        (a, b, c) = mix(a, b, c);
    }
    let rest = blocks.remainder();
    let mut last = [0; 12];
    last[..rest.len()].copy_from_slice(rest);
    // The lowest byte of the last word is the length's.
    let [.., x, y, z, _] = last;
    a = a.wrapping_add(word(&last[..4]));
    b = b.wrapping_add(word(&last[4..8]));
    c = c.wrapping_add(bytes.len() as u32).wrapping_add(u32::from_le_bytes([0, x, y, z]));
    mix(a, b, c).2
}

/// Erlang's hash of a list with one item of this hash.
fn hash_in_list(hash: u32) -> u32 {
    mix(OF_EMPTY_LISTS.wrapping_add(EMPTY_LIST), OF_EMPTY_LISTS, hash).2
}

fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    for [x, y, z] in [[13, 8, 13], [12, 16, 5], [3, 10, 15]] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> x);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << y);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> z);
    }
    (a, b, c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(size: u8, values: &[&str]) -> Vec<u8> {
        let mut bloom = Bloom::new(size);
        values.iter().for_each(|value| bloom.insert(Some(value.as_bytes())));
        bloom.as_bytes().to_vec()
    }

    /// Recorded from Erlang's `phash2`, with the numbers of bits of the smallest and the largest filter.
    #[test]
    fn bits_are_those_of_rabbitmq() {
        let recorded: [(&[u8], [u32; 2], [u32; 2]); 8] = [
            (b"a", [101, 94], [856, 1028]),
            (b"invoices", [111, 40], [565, 1215]),
            (b"AMER", [126, 2], [1179, 1068]),
            (b"eleven-byte", [53, 51], [1609, 330]),
            (b"exactlytwelv", [119, 21], [1688, 1769]),
            (b"exactly twelv", [82, 53], [1071, 1767]),
            (b"a value of more than twenty-four bytes", [88, 68], [148, 838]),
            (b"\xc3\xa9\xff\0", [79, 55], [1589, 1579]),
        ];
        for (value, small, large) in recorded {
            assert_eq!((bits_of(value, 16), bits_of(value, 255)), (small, large), "{value:?}");
        }
    }

    #[test]
    fn a_filter_has_the_bits_of_its_values_and_of_no_value() {
        assert_eq!(filter(16, &["a"]), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 0, 0, 0]);
        assert_eq!(filter(16, &["a", "", "a"]), [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 0, 0, 0]);
        assert_eq!(filter(16, &["", ""]), []);
        assert_eq!((filter(0, &["a"]).len(), filter(255, &["a"]).len()), (16, 255));
        let mut bloom = Bloom::new(20);
        bloom.insert(Some(b"a"));
        bloom.clear();
        bloom.insert(None);
        assert_eq!(bloom.as_bytes(), []);
    }

    #[test]
    fn chunks_that_cannot_match_are_found() {
        let matches = |bloom: &[u8], values: &[&str], unfiltered| may_match(bloom, values.iter().copied(), unfiltered);
        for size in [16, 255] {
            let (some, mixed, none) = (filter(size, &["a", "b"]), filter(size, &["a", ""]), filter(size, &[]));
            assert!(matches(&some, &["a"], false) && matches(&some, &["c", "b"], false));
            assert!(!matches(&some, &["c"], false) && !matches(&some, &["c"], true) && !matches(&some, &[""], true));
            assert!(!matches(&some, &[], false) && !matches(&some, &[], true));
            assert!(matches(&mixed, &["c"], true) && matches(&mixed, &[""], false) && !matches(&mixed, &["c"], false));
            assert!(matches(&none, &["a"], true) && matches(&none, &[""], false) && !matches(&none, &["a"], false));
        }
    }

    #[test]
    fn the_filter_of_a_chunk_is_found_or_missing() {
        let mut chunk = ChunkHeader { filter_length: 16, ..ChunkHeader::default() }.encode().to_vec();
        assert!(matches!(bloom(&chunk), Err(ChunkError::Truncated { need: 16, have: 0, .. })));
        chunk.extend_from_slice(&[7; 20]);
        assert_eq!(bloom(&chunk), Ok(&[7; 16][..]));
        assert!(bloom(&chunk[1..]).is_err());
    }
}
