//! A record: a header of twelve bytes, then the payload.

use super::{u16_at, u32_at, u64_at};
use crate::types::SettleRange;

/// Bytes before the payload.
pub const RECORD_HEADER_BYTES: usize = 12;
/// Bytes of one range in a settle record.
pub const SETTLE_RANGE_BYTES: usize = 24;

/// Flag of a record that only takes effect together with the rest of its group; the bits above it are the group's
/// slot.
const FLAG_GROUP: u16 = 1;

/// The kind of a record. Code 7 is reserved, see `docs/storage.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// A message.
    Message = 1,
    /// Messages left a log.
    Settle = 2,
    /// A record that belongs to the caller.
    Control = 3,
    /// The last record before a clean stop.
    Close = 4,
    /// A group is complete: its records take effect.
    GroupCommit = 5,
    /// References to messages whose bytes are in another log.
    References = 6,
    /// Several messages with consecutive numbers.
    Chunk = 8,
    /// Second copies of metadata records that earlier batches have.
    Copies = 9,
    /// Zeros between the two copies of metadata records, so that these lie in different blocks.
    Filler = 10,
}

impl RecordKind {
    /// The kind with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<RecordKind> {
        Some(match code {
            1 => RecordKind::Message,
            2 => RecordKind::Settle,
            3 => RecordKind::Control,
            4 => RecordKind::Close,
            5 => RecordKind::GroupCommit,
            6 => RecordKind::References,
            8 => RecordKind::Chunk,
            9 => RecordKind::Copies,
            10 => RecordKind::Filler,
            _ => return None,
        })
    }

    /// Whether its records have numbers of their log.
    #[must_use]
    pub fn is_numbered(self) -> bool {
        matches!(self, RecordKind::Message | RecordKind::References | RecordKind::Chunk)
    }

    /// Whether its records hold the bytes of messages, which can be read and are copied to segments.
    #[must_use]
    pub fn holds_messages(self) -> bool {
        matches!(self, RecordKind::Message | RecordKind::Chunk)
    }

    /// Whether each record is a run of its own, with all numbers of the run.
    #[must_use]
    pub fn is_whole_run(self) -> bool {
        matches!(self, RecordKind::References | RecordKind::Chunk)
    }
}

/// A record as found in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its kind.
    pub kind: RecordKind,
    /// Settle reason, or kind of the control record.
    pub detail: u8,
    /// Slot of the group that it belongs to, or that it closes.
    pub group: Option<u16>,
    /// Its payload.
    pub payload: &'a [u8],
}

/// The fields of a record's header, apart from its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub kind: RecordKind,
    pub detail: u8,
    pub group: Option<u16>,
}

impl Head {
    /// The head of a record that belongs to no group.
    pub(crate) fn alone(kind: RecordKind, detail: u8) -> Head {
        Head { kind, detail, group: None }
    }
}

/// Appends header and head of a payload. The checksum only covers the bytes present. Returns the record's offset.
#[inline]
pub(crate) fn append(bytes: &mut Vec<u8>, seed: u32, head: Head, parts: [&[u8]; 2]) -> usize {
    let at = bytes.len();
    let length = (parts[0].len() + parts[1].len()) as u32;
    let mut header = [0; RECORD_HEADER_BYTES];
    header[4..8].copy_from_slice(&length.to_le_bytes());
    header[8] = head.kind as u8;
    header[9] = head.detail;
    if let Some(slot) = head.group {
        header[10..].copy_from_slice(&(slot << 1 | FLAG_GROUP).to_le_bytes());
    }
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(parts[0]);
    bytes.extend_from_slice(parts[1]);
    let crc = crc32c::crc32c_append(seed, &bytes[at + 4..]);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    at
}

/// Gives a record whose payload has changed its length and its checksum.
pub(crate) fn complete(record: &mut [u8], seed: u32) {
    let length = (record.len() - RECORD_HEADER_BYTES) as u32;
    record[4..8].copy_from_slice(&length.to_le_bytes());
    let crc = crc32c::crc32c_append(seed, &record[4..]);
    record[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Whether the record at the start of `bytes`, which is whole, is part of a group.
pub(crate) fn is_in_group(bytes: &[u8]) -> bool {
    u16_at(bytes, 10) & FLAG_GROUP != 0
}

/// Gives the record at the start of `bytes`, which is valid, the checksum for another batch, and takes it out of its
/// group. Returns the bytes after it.
#[inline]
pub(crate) fn renew(bytes: &mut [u8], seed: u32) -> &mut [u8] {
    let length = claimed_bytes(bytes).expect("a record that is right lies within its run");
    let (record, rest) = bytes.split_at_mut(length);
    record[10..RECORD_HEADER_BYTES].fill(0);
    let crc = crc32c::crc32c_append(seed, &record[4..]);
    record[..4].copy_from_slice(&crc.to_le_bytes());
    rest
}

/// The record at the start of `bytes`, and the bytes after it.
///
/// # Errors
/// The problem with the record.
pub fn split(bytes: &[u8], seed: u32) -> Result<(Record<'_>, &[u8]), &'static str> {
    let (record, rest) = cut(bytes)?;
    if u32_at(record, 0) != crc32c::crc32c_append(seed, &record[4..]) {
        return Err("a record's checksum is wrong");
    }
    Ok((fields(record)?, rest))
}

/// As [`split`] for a record whose checksum was compared before.
///
/// # Errors
/// As [`split`].
pub(crate) fn split_checked(bytes: &[u8]) -> Result<(Record<'_>, &[u8]), &'static str> {
    let (record, rest) = cut(bytes)?;
    Ok((fields(record)?, rest))
}

/// The bytes of the record at the start of `bytes`, and those after it.
fn cut(bytes: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    if bytes.len() < RECORD_HEADER_BYTES {
        return Err("a record is cut off");
    }
    let length = u32_at(bytes, 4) as usize;
    if length > bytes.len() - RECORD_HEADER_BYTES {
        return Err("a record's length is wrong");
    }
    Ok(bytes.split_at(RECORD_HEADER_BYTES + length))
}

fn fields(record: &[u8]) -> Result<Record<'_>, &'static str> {
    let Some(kind) = RecordKind::from_code(record[8]) else {
        return Err("a record has a kind of a later version");
    };
    let flags = u16_at(record, 10);
    let group = (flags & FLAG_GROUP != 0).then_some(flags >> 1);
    let possible = match kind {
        RecordKind::Message | RecordKind::Chunk | RecordKind::Settle => flags == 0 || group.is_some(),
        RecordKind::Control | RecordKind::Close | RecordKind::References | RecordKind::Copies | RecordKind::Filler => {
            flags == 0
        }
        RecordKind::GroupCommit => group.is_some(),
    };
    if !possible {
        return Err("a record has flags of a later version");
    }
    Ok(Record { kind, detail: record[9], group, payload: &record[RECORD_HEADER_BYTES..] })
}

/// Bytes of the record at the start of `bytes` according to its own length, if it fits.
pub(crate) fn claimed_bytes(bytes: &[u8]) -> Option<usize> {
    let length = u32_at(bytes.get(..RECORD_HEADER_BYTES)?, 4) as usize;
    let length = length.checked_add(RECORD_HEADER_BYTES)?;
    (length <= bytes.len()).then_some(length)
}

/// Encodes a range of a settle record.
#[must_use]
pub(crate) fn encode_range(range: &SettleRange) -> [u8; SETTLE_RANGE_BYTES] {
    let mut bytes = [0; SETTLE_RANGE_BYTES];
    bytes[..8].copy_from_slice(&range.first.to_le_bytes());
    bytes[8..16].copy_from_slice(&range.last.to_le_bytes());
    bytes[16..].copy_from_slice(&range.bytes.to_le_bytes());
    bytes
}

/// The ranges in a settle record's payload; `None` if they are incomplete or not ascending.
#[must_use]
pub fn decode_ranges(payload: &[u8]) -> Option<Vec<SettleRange>> {
    if !payload.len().is_multiple_of(SETTLE_RANGE_BYTES) {
        return None;
    }
    payload
        .chunks_exact(SETTLE_RANGE_BYTES)
        .map(|bytes| {
            let range = SettleRange { first: u64_at(bytes, 0), last: u64_at(bytes, 8), bytes: u64_at(bytes, 16) };
            (range.first <= range.last).then_some(range)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_again_and_every_flipped_bit_too() {
        let mut bytes = Vec::new();
        append(&mut bytes, 7, Head::alone(RecordKind::Control, 42), [b"hello ", b"you"]);
        let whole = bytes.clone();
        bytes.push(1);
        let (record, rest) = split(&bytes, 7).unwrap();
        assert_eq!((record.kind, record.detail, record.payload), (RecordKind::Control, 42, &b"hello you"[..]));
        assert_eq!(rest, [1]);
        assert!(split(&bytes, 8).is_err(), "another batch's seed");
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(split(&bytes, 7).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_kind_is_found_by_its_code_and_others_are_unknown() {
        let known: Vec<u8> = (0..=u8::MAX).filter(|code| RecordKind::from_code(*code).is_some()).collect();
        assert_eq!(known, [1, 2, 3, 4, 5, 6, 8, 9, 10]);
        assert!(known.iter().all(|code| RecordKind::from_code(*code).is_some_and(|kind| kind as u8 == *code)));
    }

    #[test]
    fn only_some_kinds_belong_to_a_group() {
        let split_one = |kind, group| {
            let mut bytes = Vec::new();
            append(&mut bytes, 7, Head { kind, detail: 1, group }, [b"", b""]);
            split(&bytes, 7).map(|(record, _)| record.group)
        };
        for slot in [0, 1, 0x7fff] {
            for kind in [RecordKind::Message, RecordKind::Chunk, RecordKind::Settle, RecordKind::GroupCommit] {
                assert_eq!(split_one(kind, Some(slot)), Ok(Some(slot)));
            }
            use RecordKind::{Close, Control, Copies, Filler, References};
            for kind in [Control, Close, References, Copies, Filler] {
                assert!(split_one(kind, Some(slot)).is_err());
            }
        }
        assert_eq!(split_one(RecordKind::Settle, None), Ok(None));
        assert!(split_one(RecordKind::GroupCommit, None).is_err());
    }

    #[test]
    fn ranges_are_checked() {
        let range = SettleRange { first: 3, last: 9, bytes: 77 };
        let bytes = encode_range(&range);
        assert_eq!(decode_ranges(&bytes), Some(vec![range]));
        assert_eq!(decode_ranges(&bytes[..23]), None);
        let backwards = encode_range(&SettleRange { first: 10, ..range });
        assert_eq!(decode_ranges(&backwards), None);
    }
}
