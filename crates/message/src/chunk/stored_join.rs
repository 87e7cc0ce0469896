//! Short chunks that follow each other, stored as one: those that several publishers send at once, and those of a publisher that sends
//! one message at a time.

use super::joined::{SHORT_BYTES_MAX, has_messages_only, header_of_both};
use super::{CHECKSUM_BYTES, ChunkHeader, HEADER_BYTES, stored_head_of};

/// A chunk of more messages gets none with filter values that it doesn't have: readers get whole chunks, whatever they want of them.
pub const MIXED_MESSAGES_MAX: u32 = 32;

/// Joins a chunk, given by its [head](super::SharedChunk::stored_head) and its [rest](super::SharedChunk::rest), to the stored one that
/// `stored` ends with, from byte `at` on. Returns false, with nothing changed, if they don't become one: all messages of a chunk have
/// the same time, and it has the sequence of one publisher. The next one has no sub-batches: the caller knows that.
///
/// The joined chunk has no valid checksums before [`complete_joined`].
pub fn join_stored(stored: &mut Vec<u8>, at: usize, head: &[u8], rest: &[u8]) -> bool {
    let Some(header) = stored.get(at + CHECKSUM_BYTES..).and_then(|chunk| ChunkHeader::decode(chunk).ok()) else {
        return false;
    };
    let Some(next) = head.get(CHECKSUM_BYTES..).and_then(|chunk| ChunkHeader::decode(chunk).ok()) else {
        return false;
    };
    let Some(joined) = joined(&header, &next) else { return false };
    if !has_messages_only(&header, stored.get(at + CHECKSUM_BYTES + header.data_at())) {
        return false;
    }
    let (bloom, entries) = rest.split_at(usize::from(next.filter_length));
    let head = at + CHECKSUM_BYTES..at + CHECKSUM_BYTES + HEADER_BYTES;
    let has_all = || stored[head.end..].iter().zip(bloom).all(|(known, more)| known | more == *known);
    if joined.messages > MIXED_MESSAGES_MAX && !has_all() {
        return false;
    }
    for (known, more) in stored[head.end..].iter_mut().zip(bloom) {
        *known |= more;
    }
    stored[head].copy_from_slice(&joined.encode());
    stored.extend_from_slice(entries);
    true
}

/// The header of both, but for its checksum.
fn joined(header: &ChunkHeader, next: &ChunkHeader) -> Option<ChunkHeader> {
    let is_alike = next.filter_length == header.filter_length && next.timestamp_ms == header.timestamp_ms;
    let is_unnamed = next.trailer_length == 0 && header.trailer_length == 0;
    let is_short = next.data_length <= SHORT_BYTES_MAX;
    if is_alike && is_unnamed && is_short { header_of_both(header, next) } else { None }
}

/// Gives a stored chunk that others were joined to its checksums.
///
/// # Panics
/// If it isn't one.
pub fn complete_joined(stored: &mut [u8]) {
    let chunk = &stored[CHECKSUM_BYTES..];
    let mut header = ChunkHeader::decode(chunk).expect("it was joined");
    header.crc = crc32fast::hash(&chunk[header.data_at()..]);
    let head = stored_head_of(&header, &chunk[HEADER_BYTES..header.data_at()]);
    stored[..head.len()].copy_from_slice(&head);
}

#[cfg(test)]
mod tests {
    use super::super::{Chunk, ChunkBuilder, ChunkWriter, SubBatch, decode, of_stored, skim, stored_head};
    use super::*;

    /// A chunk of messages with these bodies and filter values, whose first offset is `first`.
    fn chunk(first: u64, messages: &[(&[u8], Option<&str>)], received_ms: u64) -> Chunk {
        let mut builder = ChunkBuilder::new(16);
        for (body, filter) in messages {
            let mut sections = Vec::new();
            leveret_amqp10::message::write_data(&mut sections, body);
            let filter = filter.map(str::as_bytes);
            builder.push_sections(&sections, filter, received_ms).expect("it is short");
        }
        let mut chunk = builder.finish();
        chunk.set_first(first);
        chunk
    }

    fn stored(chunk: &Chunk) -> Vec<u8> {
        [&stored_head(chunk)[..], chunk.rest()].concat()
    }

    fn join(to: &mut Vec<u8>, at: usize, next: &Chunk) -> bool {
        let before = to.clone();
        let is_joined = join_stored(to, at, &stored_head(next), next.rest());
        assert!(is_joined || *to == before, "a refused one changes nothing");
        is_joined
    }

    #[test]
    fn joined_chunks_are_as_if_published_at_once() {
        for filters in [[None; 4], [Some("a"), None, Some("c"), Some("d")]] {
            let [a, b, c, d] = filters;
            let one = chunk(7, &[(b"one", a), (b"two", b)], 9);
            let mut all = [b"before".to_vec(), stored(&one)].concat();
            assert!(
                join(&mut all, 6, &chunk(9, &[(b"three", c)], 9)) && join(&mut all, 6, &chunk(10, &[(b"four", d)], 9))
            );
            let joined = &mut all[6..];
            complete_joined(joined);
            assert_eq!(joined, stored(&chunk(7, &[(b"one", a), (b"two", b), (b"three", c), (b"four", d)], 9)));
            let (header, _) = skim(joined).expect("its checksum is right");
            let bytes = of_stored(joined.to_vec().into()).expect("it is long enough");
            assert_eq!(header.check(&bytes), Ok(()));
            assert_eq!(decode(&bytes, "s").expect("it is sound").len(), 4);
        }
    }

    #[test]
    fn chunks_that_differ_stay_alone() {
        let first = || stored(&chunk(7, &[(b"one", None)], 9));
        let with = |next: &Chunk| join(&mut first(), 0, next);
        assert!(with(&chunk(8, &[(b"two", None)], 9)));
        assert!(!with(&chunk(9, &[(b"two", None)], 9)), "an offset is missing");
        assert!(!with(&chunk(7, &[(b"two", None)], 9)), "it is no later one");
        assert!(!with(&chunk(8, &[(b"two", None)], 10)), "another time");
        assert!(!with(&chunk(8, &[(b"two", Some("value"))], 9)), "a filter");
        assert!(!with(&chunk(8, &[(&[0; SHORT_BYTES_MAX as usize], None)], 9)), "it is long");
        for messages in [1, 2] {
            let mut builder = ChunkBuilder::new(16);
            let sub_batch = SubBatch { compression: 1, messages, uncompressed_length: 9, bytes: b"zip" };
            builder.push_sub_batch(&sub_batch, None, 9).expect("it is short");
            let mut first = stored(&builder.finish());
            assert!(!join(&mut first, 0, &chunk(messages.into(), &[(b"two", None)], 9)), "a sub-batch");
        }
        let mut builder = ChunkBuilder::new(16);
        builder.push_sections(b"sections", None, 9).expect("it is short");
        let mut named = builder.finish_of(Some(&ChunkWriter { name: "writer", sequence: 5 }));
        named.set_first(8);
        assert!(!with(&named), "a publisher with a name");
        named.set_first(6);
        assert!(!join(&mut stored(&named), 0, &chunk(7, &[(b"two", None)], 9)), "the same before it");
    }

    #[test]
    fn a_joined_chunk_has_limits() {
        let body = [0; 1000];
        let mut all = stored(&chunk(0, &[(&body, None)], 9));
        let mut count = 1;
        while join(&mut all, 0, &chunk(count, &[(&body, None)], 9)) {
            count += 1;
        }
        complete_joined(&mut all);
        let (header, _) = skim(&all).expect("its checksum is right");
        assert_eq!((u64::from(header.messages), header.data_length / 1024), (count, 63));
        let most = vec![(&b""[..], None); 40_000];
        let mut full = stored(&chunk(0, &most, 9));
        assert!(!join(&mut full, 0, &chunk(40_000, &most[..200], 9)), "it has more bytes already");
    }

    #[test]
    fn other_bytes_are_left_alone() {
        let next = chunk(8, &[(b"two", None)], 9);
        for mut bytes in [Vec::new(), vec![0; 3], vec![0; 100]] {
            assert!(!join(&mut bytes, 0, &next));
        }
        let mut first = stored(&chunk(7, &[(b"one", None)], 9));
        assert!(!join_stored(&mut first, 0, &[0; 10], b""));
    }
}
