//! A chunk as it is stored: behind a checksum of its header and its Bloom filter, by which a search can skip a chunk
//! without reading the rest.

use bytes::{Buf, Bytes};

use super::{Chunk, ChunkError, ChunkHeader, FILTER_BYTES_MAX, HEADER_BYTES};

/// Length of the checksum before a stored chunk, in bytes: a CRC-32 (IEEE), big endian.
pub const CHECKSUM_BYTES: usize = 4;

/// The bytes of a stored chunk that [`skim`] needs at most.
pub const SKIM_BYTES: usize = CHECKSUM_BYTES + HEADER_BYTES + FILTER_BYTES_MAX as usize;

/// The first bytes of a chunk as it is stored, up to its [`Chunk::rest`].
pub fn stored_head(chunk: &Chunk) -> [u8; CHECKSUM_BYTES + HEADER_BYTES] {
    stored_head_of(chunk.header(), &chunk.rest()[..usize::from(chunk.header().filter_length)])
}

/// The same for a header and a Bloom filter.
pub(super) fn stored_head_of(header: &ChunkHeader, bloom: &[u8]) -> [u8; CHECKSUM_BYTES + HEADER_BYTES] {
    let encoded = header.encode();
    let mut head = [0; CHECKSUM_BYTES + HEADER_BYTES];
    head[CHECKSUM_BYTES..].copy_from_slice(&encoded);
    head[..CHECKSUM_BYTES].copy_from_slice(&checksum(&encoded, bloom));
    head
}

/// The header and the Bloom filter at the beginning of a stored chunk, of which these are the first bytes. `None` if they are
/// damaged, or too few: then the whole chunk has to be read.
pub fn skim(stored: &[u8]) -> Option<(ChunkHeader, &[u8])> {
    let (expected, chunk) = stored.split_first_chunk::<CHECKSUM_BYTES>()?;
    let header = ChunkHeader::decode(chunk).ok()?;
    let (head, bloom) = chunk.get(..header.data_at())?.split_at(HEADER_BYTES);
    (checksum(head, bloom) == *expected).then_some((header, bloom))
}

/// The chunk in a stored one.
///
/// # Errors
/// [`ChunkError::Truncated`] if there are too few bytes. Nothing else is checked.
pub fn of_stored(mut stored: Bytes) -> Result<Bytes, ChunkError> {
    within_stored(&stored)?;
    stored.advance(CHECKSUM_BYTES);
    Ok(stored)
}

/// As [`of_stored`], of borrowed bytes.
///
/// # Errors
/// The same.
pub fn within_stored(stored: &[u8]) -> Result<&[u8], ChunkError> {
    let (need, have) = (CHECKSUM_BYTES as u64, stored.len() as u64);
    stored.get(CHECKSUM_BYTES..).ok_or(ChunkError::Truncated { part: "checksum", at: 0, need, have })
}

fn checksum(head: &[u8], bloom: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(head);
    crc.update(bloom);
    crc.finalize().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::ChunkBuilder;
    use super::*;
    use crate::chunk::bloom;

    #[test]
    fn damage_to_header_or_filter_is_seen_without_the_rest() {
        let mut chunk = ChunkBuilder::new(16).finish();
        chunk.set_first(77);
        let stored = [&stored_head(&chunk)[..], chunk.rest(), b"more"].concat();
        let (header, found) = skim(&stored).expect("it is sound");
        assert_eq!((header.first, found), (77, bloom(&chunk.to_bytes()).expect("a filter")));
        assert_eq!(of_stored(Bytes::from(stored.clone())).expect("a chunk"), [&chunk.to_bytes()[..], b"more"].concat());
        let covered = CHECKSUM_BYTES + header.data_at();
        for bit in 0..8 * stored.len() {
            let mut damaged = stored.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(skim(&damaged).is_some(), bit / 8 >= covered, "bit {bit}");
        }
        for length in 0..covered {
            assert!(skim(&stored[..length]).is_none());
        }
        assert!(within_stored(&stored[..3]).is_err());
    }
}
