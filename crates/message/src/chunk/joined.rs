//! Short chunks that follow each other, sent as one. Clients grant credit in chunks: with a chunk for each message, one that is far away
//! would get as few messages in the time of a round trip as it has credit.

use std::sync::Arc;

use bytes::Bytes;

use super::{ChunkHeader, HEADER_BYTES, MESSAGES_MAX, SUB_BATCH, SharedChunk};

/// Most bytes of entries of chunks that are joined.
const ENTRIES_BYTES_MAX: u32 = 64 << 10;
/// Longer chunks aren't joined as they come: to copy them takes longer than to handle each.
pub(super) const SHORT_BYTES_MAX: u32 = 1 << 10;
/// Most milliseconds between the times of chunks that are joined: messages have no time but their chunk's. Long enough that a client
/// with a credit of one keeps up with any rate where a round trip takes no longer.
const SPAN_MS_MAX: u64 = 100;

/// Whether a chunk seems to have no sub-batches, by its header and the first byte of its entries. The client for JavaScript sees no more of
/// a chunk than its first one.
pub(super) fn has_messages_only(header: &ChunkHeader, first_entry: Option<&u8>) -> bool {
    u32::from(header.entries) == header.messages && first_entry < Some(&SUB_BATCH)
}

/// Whether a chunk can be joined with others: it is in memory, and has no sub-batches.
fn is_joinable(chunk: &SharedChunk) -> bool {
    chunk.is_in_memory() && has_messages_only(chunk.header(), chunk.entries().first())
}

/// The header of a chunk and the next one in one, without its checksum; `None` if the next one doesn't follow, or if the whole isn't
/// short. Its time is the earliest.
pub(super) fn header_of_both(header: &ChunkHeader, next: &ChunkHeader) -> Option<ChunkHeader> {
    if next.first != header.end() || next.epoch != header.epoch {
        return None;
    }
    let entries = header.entries.checked_add(next.entries)?;
    let data_length = header.data_length.checked_add(next.data_length).filter(|sum| *sum <= ENTRIES_BYTES_MAX)?;
    let messages = header.messages.checked_add(next.messages).filter(|sum| *sum <= MESSAGES_MAX)?;
    let timestamp_ms = header.timestamp_ms.min(next.timestamp_ms);
    Some(ChunkHeader { entries, messages, data_length, timestamp_ms, ..*header })
}

/// The header of chunks that are joined. Its time is the earliest: a client that begins again at the time of one of the messages gets
/// that one and all behind it.
#[derive(Debug, Clone, Copy)]
pub struct Joined {
    header: ChunkHeader,
    latest_ms: i64,
}

impl Joined {
    /// A first chunk whose first message has this offset; `None` if no other can be joined to it.
    pub fn new(first: u64, chunk: &SharedChunk) -> Option<Self> {
        let header = ChunkHeader { first, filter_length: 0, trailer_length: 0, ..*chunk.header() };
        let is_short = header.data_length < ENTRIES_BYTES_MAX;
        (is_short && is_joinable(chunk)).then_some(Self { header, latest_ms: header.timestamp_ms })
    }

    /// Joins a chunk whose first message has this offset, if it follows and the whole stays short. Returns whether it did.
    pub fn join(&mut self, first: u64, chunk: &SharedChunk) -> bool {
        let next = ChunkHeader { first, ..*chunk.header() };
        let Some(header) = header_of_both(&self.header, &next) else { return false };
        let latest_ms = self.latest_ms.max(next.timestamp_ms);
        if !is_joinable(chunk) || latest_ms.abs_diff(header.timestamp_ms) > SPAN_MS_MAX {
            return false;
        }
        self.header = header;
        self.latest_ms = latest_ms;
        true
    }

    /// Length of the chunk in bytes.
    pub fn chunk_bytes(&self) -> u64 {
        self.header.chunk_bytes()
    }

    /// The encoded header of the chunk with these entries, which are those of all that were joined, one after the other.
    pub fn head(&self, entries: &[u8]) -> [u8; HEADER_BYTES] {
        self.header_with(entries).encode()
    }

    /// The chunk with these entries.
    pub fn chunk(&self, entries: Bytes) -> SharedChunk {
        SharedChunk::in_memory(self.header_with(&entries), entries)
    }

    fn header_with(&self, entries: &[u8]) -> ChunkHeader {
        debug_assert_eq!(entries.len(), self.header.data_length as usize, "all entries");
        ChunkHeader { crc: crc32fast::hash(entries), ..self.header }
    }
}

/// Joins chunks that are very short as they come.
#[derive(Debug, Default)]
pub struct Joining(Option<Started>);

/// A chunk to which others may be joined.
#[derive(Debug)]
struct Started {
    joined: Joined,
    /// The chunk that it began with.
    chunk: SharedChunk,
    /// The entries of all; none if it is alone.
    entries: Vec<u8>,
}

impl Joining {
    /// Takes the next chunk, whose first message has this offset. Chunks that no others are joined to go to `out`.
    pub fn push(&mut self, first: u64, chunk: SharedChunk, out: &mut Vec<(u64, Arc<SharedChunk>)>) {
        let is_short = chunk.header().data_length <= SHORT_BYTES_MAX;
        if let Some(Started { joined, chunk: before, entries }) = &mut self.0
            && is_short
            && joined.join(first, &chunk)
        {
            if entries.is_empty() {
                entries.extend_from_slice(before.entries());
            }
            entries.extend_from_slice(chunk.entries());
            return;
        }
        self.finish(out);
        match Joined::new(first, &chunk).filter(|_| is_short) {
            Some(joined) => self.0 = Some(Started { joined, chunk, entries: Vec::new() }),
            None => out.push((first, Arc::new(chunk))),
        }
    }

    /// No further chunk comes.
    pub fn finish(&mut self, out: &mut Vec<(u64, Arc<SharedChunk>)>) {
        let Some(Started { joined, chunk, entries }) = self.0.take() else { return };
        let chunk = if entries.is_empty() { chunk } else { joined.chunk(entries.into()) };
        out.push((joined.header.first, Arc::new(chunk)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ChunkBuilder, SentEntries, SubBatch};
    use super::*;

    /// A chunk of messages with these bodies, received at this time.
    fn chunk(bodies: &[&[u8]], received_ms: u64) -> SharedChunk {
        let mut builder = ChunkBuilder::new(16);
        for body in bodies {
            builder.push_sections(body, Some(b"value"), received_ms).expect("it is short");
        }
        builder.finish().into()
    }

    #[test]
    fn joined_chunks_are_one_with_all_entries() {
        let chunks = [chunk(&[b"one", b"two"], 1_000), chunk(&[b"three"], 900), chunk(&[b"four"], 1_000)];
        let mut joined = Joined::new(7, &chunks[0]).expect("it is short");
        assert!(joined.join(9, &chunks[1]) && joined.join(10, &chunks[2]));
        let entries: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.entries().to_vec()).collect();
        let whole = joined.chunk(entries.into());
        let expected = chunk(&[b"one", b"two", b"three", b"four"], 900);
        let (head, entries) = whole.sent(7);
        assert_eq!(head, joined.head(whole.entries()));
        let SentEntries::Memory(entries) = entries else { panic!("it is in memory") };
        assert_eq!(entries, expected.entries());
        let header = ChunkHeader::decode(&head).expect("a header");
        assert_eq!(header, ChunkHeader { first: 7, filter_length: 0, ..*expected.header() });
        assert_eq!(header.check(&[&head[..], entries].concat()), Ok(()));
        assert_eq!((whole.len(), joined.chunk_bytes()), (4, whole.chunk_bytes()));
    }

    #[test]
    fn chunks_are_joined_as_they_come() {
        let (mut joining, mut out) = (Joining::default(), Vec::new());
        for (first, messages, ms) in [(0, 1, 0), (1, 2, 0), (3, 1, 200), (9, 1, 200), (10, 1, 200)] {
            joining.push(first, chunk(&vec![&b"body"[..]; messages], ms), &mut out);
        }
        joining.push(11, chunk(&[&[0; 1 << 10]], 200), &mut out);
        joining.push(12, chunk(&[b"last"], 200), &mut out);
        joining.finish(&mut out);
        joining.finish(&mut out);
        let shown: Vec<_> = out.iter().map(|(first, chunk)| (*first, chunk.len(), chunk.bloom().len())).collect();
        assert_eq!(shown, [(0, 3, 0), (3, 1, 16), (9, 2, 0), (11, 1, 16), (12, 1, 16)]);
        assert_eq!(out[0].1.entries(), chunk(&[b"body", b"body", b"body"], 0).entries());
    }

    #[test]
    fn chunks_with_sub_batches_stay_alone() {
        let with_sub_batch = |messages| {
            let mut builder = ChunkBuilder::new(16);
            let sub_batch = SubBatch { compression: 1, messages, uncompressed_length: 9, bytes: b"zip" };
            builder.push_sub_batch(&sub_batch, None, 1_000).expect("it is short");
            SharedChunk::from(builder.finish())
        };
        for messages in [1, 2] {
            assert!(Joined::new(7, &with_sub_batch(messages)).is_none());
            let mut joined = Joined::new(7, &chunk(&[b"first"], 1_000)).expect("it is short");
            assert!(!joined.join(8, &with_sub_batch(messages)));
        }
    }

    #[test]
    fn chunks_that_are_apart_or_long_stay_alone() {
        let (near, late) = (chunk(&[b"near"], 1_100), chunk(&[b"late"], 1_101));
        let joined = || Joined::new(7, &chunk(&[b"first"], 1_000)).expect("it is short");
        assert!(joined().join(8, &near));
        assert!(!joined().join(9, &near), "offset 8 is missing");
        assert!(!joined().join(7, &near), "it is no later one");
        assert!(!joined().join(8, &late), "its time is too far away");
        let half = vec![0; 32 << 10];
        let long = chunk(&[&half], 1_000);
        let mut two = joined();
        assert!(two.join(8, &long) && !two.join(9, &long));
        assert!(two.join(9, &near), "a refused one changes nothing");
        assert!(Joined::new(0, &chunk(&[&half, &half], 1_000)).is_none());
    }
}
