//! Chunks as received, and the entries of a publish.

use std::io::Write as _;

use leveret_message::chunk::{ChunkHeader, Entries, Entry, HEADER_BYTES};

/// A compression of sub-batches, by its number.
pub use leveret_message::chunk::Compression;

/// A chunk whose checksum, lengths and counts are right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedChunk {
    /// Offset of its first message.
    pub first: u64,
    /// When it was written, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Its messages in AMQP 1.0; those of a compressed sub-batch aren't here.
    pub messages: Vec<Vec<u8>>,
    /// Its sub-batches: compression, number of messages, and the bytes as received.
    pub sub_batches: Vec<(u8, u16, Vec<u8>)>,
    /// Number of messages.
    pub count: u64,
    /// The offset up to which the stream is committed, which version 2 of a delivery has.
    pub committed: Option<u64>,
}

impl ReceivedChunk {
    /// Checks the bytes of a chunk.
    ///
    /// # Panics
    /// If something of it is wrong.
    pub fn checked(chunk: &[u8], committed: Option<u64>) -> Self {
        let header = ChunkHeader::decode(chunk).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(header.trailer_length, 0, "the trailer isn't sent: {header:?}");
        // The Bloom filter isn't either, but the header says its length.
        ChunkHeader { filter_length: 0, ..header }.check(chunk).unwrap_or_else(|error| panic!("{error}"));
        let mut entries = Entries::within(&chunk[HEADER_BYTES..], header.entries);
        assert!(
            committed.is_none_or(|committed| committed >= header.first),
            "{header:?} isn't committed: {committed:?}"
        );
        let (mut messages, mut sub_batches, mut count) = (Vec::new(), Vec::new(), 0);
        for _ in 0..header.entries {
            match entries.next_entry().expect("an entry").expect("as many as the header says") {
                Entry::Message(message) => {
                    messages.push(message.to_vec());
                    count += 1;
                }
                Entry::SubBatch(batch) => {
                    count += u64::from(batch.messages);
                    sub_batches.push((batch.compression, batch.messages, batch.bytes.to_vec()));
                }
            }
        }
        assert_eq!(entries.next_entry().expect("the end"), None, "more entries than the header says");
        assert_eq!(count, u64::from(header.messages), "{header:?}");
        let ChunkHeader { first, timestamp_ms, .. } = header;
        Self { first, timestamp_ms, messages, sub_batches, count, committed }
    }

    /// The bodies of its messages.
    pub fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        self.messages.iter().map(|message| body_of(message))
    }
}

/// A message of AMQP 1.0 with one section of data.
pub fn data(body: &[u8]) -> Vec<u8> {
    let mut message = vec![0x00, 0x53, 0x75];
    match u8::try_from(body.len()) {
        Ok(length) => message.extend_from_slice(&[0xA0, length]),
        Err(_) => {
            message.push(0xB0);
            message.extend_from_slice(&u32::try_from(body.len()).expect("shorter than 4 GiB").to_be_bytes());
        }
    }
    message.extend_from_slice(body);
    message
}

/// The body of a message of [`data`].
///
/// # Panics
/// If it is another message.
pub fn body_of(message: &[u8]) -> &[u8] {
    match message {
        [0x00, 0x53, 0x75, 0xA0, length, body @ ..] if body.len() == usize::from(*length) => body,
        [0x00, 0x53, 0x75, 0xB0, _, _, _, _, body @ ..] => body,
        other => panic!("a section of data expected: {other:?}"),
    }
}

/// A message as an entry.
///
/// # Panics
/// If it has 4 GiB or more.
pub fn entry_of(message: &[u8]) -> Vec<u8> {
    [&u32::try_from(message.len()).expect("shorter than 4 GiB").to_be_bytes()[..], message].concat()
}

/// Messages as the content of a sub-batch: their length, and their compressed bytes.
///
/// # Panics
/// If they are too many, or can't be compressed.
pub fn sub_batch(compression: Compression, messages: &[Vec<u8>]) -> (u32, Vec<u8>) {
    let plain: Vec<u8> = messages.iter().flat_map(|message| entry_of(message)).collect();
    let length = u32::try_from(plain.len()).expect("shorter than 4 GiB");
    (length, compressed(compression, &plain))
}

fn compressed(compression: Compression, plain: &[u8]) -> Vec<u8> {
    match compression {
        Compression::None => plain.to_vec(),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(plain).expect("compressed");
            encoder.finish().expect("compressed")
        }
        Compression::Snappy => {
            let mut encoder = snap::write::FrameEncoder::new(Vec::new());
            encoder.write_all(plain).expect("compressed");
            encoder.into_inner().expect("compressed")
        }
        Compression::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(plain).expect("compressed");
            encoder.finish().expect("compressed")
        }
        Compression::Zstd => ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest),
    }
}
