//! The index at the end of a segment, and the footer that locates it.

use super::{put, u32_at, u64_at};
use crate::types::LogId;

/// Bytes of the footer.
pub(crate) const FOOTER_BYTES: usize = 32;

const MAGIC: &[u8; 4] = b"LVRX";
const PART_BYTES: usize = 48;
const POINT_BYTES: usize = 16;

/// The place of a run of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// Its first message.
    pub number: u64,
    /// Offset of its batch in the file.
    pub batch: u32,
    /// Its row in that batch's table.
    pub run: u32,
}

/// The messages of one log in one file. Without messages the file only has settles or control records of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogIndex {
    pub first: u64,
    pub last: u64,
    pub messages: u64,
    /// Bytes of the payloads.
    pub bytes: u64,
    pub points: Vec<Point>,
}

impl LogIndex {
    /// At most `count` points, from which all messages numbered `from` and higher can be reached.
    pub(crate) fn points_from(&self, from: u64, count: usize) -> &[Point] {
        let after = self.points.partition_point(|point| point.number <= from);
        let start = after.saturating_sub(1);
        &self.points[start..self.points.len().min(start.saturating_add(count))]
    }
}

/// The last bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub index_offset: u64,
    pub salt: u64,
    pub parts: u32,
    pub index_crc: u32,
}

impl Footer {
    pub(crate) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        put(&mut bytes, 0, &self.index_offset.to_le_bytes());
        put(&mut bytes, 8, &self.salt.to_le_bytes());
        put(&mut bytes, 16, &self.parts.to_le_bytes());
        put(&mut bytes, 20, &self.index_crc.to_le_bytes());
        put(&mut bytes, 24, MAGIC);
        let crc = crc32c::crc32c(&bytes[..28]);
        put(&mut bytes, 28, &crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Footer> {
        let bytes = bytes.get(..FOOTER_BYTES)?;
        let whole = &bytes[24..28] == MAGIC && u32_at(bytes, 28) == crc32c::crc32c(&bytes[..28]);
        whole.then(|| Footer {
            index_offset: u64_at(bytes, 0),
            salt: u64_at(bytes, 8),
            parts: u32_at(bytes, 16),
            index_crc: u32_at(bytes, 20),
        })
    }
}

/// Encodes the parts, which are in order of logs and numbers.
pub(crate) fn encode(parts: &[(LogId, LogIndex)]) -> Vec<u8> {
    let points: usize = parts.iter().map(|(_, part)| part.points.len()).sum();
    let mut bytes = Vec::with_capacity(parts.len() * PART_BYTES + points * POINT_BYTES);
    for (log, index) in parts {
        bytes.extend_from_slice(&log.0.to_le_bytes());
        bytes.extend_from_slice(&index.first.to_le_bytes());
        bytes.extend_from_slice(&index.last.to_le_bytes());
        bytes.extend_from_slice(&index.messages.to_le_bytes());
        bytes.extend_from_slice(&index.bytes.to_le_bytes());
        bytes.extend_from_slice(&(index.points.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for point in &index.points {
            bytes.extend_from_slice(&point.number.to_le_bytes());
            bytes.extend_from_slice(&point.batch.to_le_bytes());
            bytes.extend_from_slice(&point.run.to_le_bytes());
        }
    }
    bytes
}

/// The index in these bytes, which the footer describes; `None` if they aren't as written.
pub(crate) fn decode(bytes: &[u8], footer: &Footer) -> Option<Vec<(LogId, LogIndex)>> {
    if crc32c::crc32c(bytes) != footer.index_crc {
        return None;
    }
    let mut parts: Vec<(LogId, LogIndex)> = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let head = rest.get(..PART_BYTES)?;
        let count = u32_at(head, 40) as usize;
        let points = rest.get(PART_BYTES..PART_BYTES.checked_add(count.checked_mul(POINT_BYTES)?)?)?;
        let index = LogIndex {
            first: u64_at(head, 8),
            last: u64_at(head, 16),
            messages: u64_at(head, 24),
            bytes: u64_at(head, 32),
            points: points
                .chunks_exact(POINT_BYTES)
                .map(|point| Point { number: u64_at(point, 0), batch: u32_at(point, 8), run: u32_at(point, 12) })
                .collect(),
        };
        if index.messages == 0 || index.points.is_empty() || index.first > index.last {
            return None;
        }
        let log = LogId(u64_at(head, 0));
        if parts.last().is_some_and(|(before, part)| (*before, part.last) >= (log, index.first)) {
            return None;
        }
        parts.push((log, index));
        rest = &rest[PART_BYTES + points.len()..];
    }
    (parts.len() == footer.parts as usize).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_footer_are_found_again_and_every_flipped_bit_too() {
        let index = |first| LogIndex {
            first,
            last: first + 9,
            messages: 5,
            bytes: 60,
            points: vec![Point { number: first, batch: 512, run: 0 }, Point { number: first + 4, batch: 1024, run: 7 }],
        };
        let parts = vec![(LogId(3), index(1)), (LogId(3), index(30)), (LogId(4), index(20))];
        let bytes = encode(&parts);
        let footer = Footer { index_offset: 4096, salt: 99, parts: 3, index_crc: crc32c::crc32c(&bytes) };
        assert_eq!(decode(&bytes, &footer), Some(parts));
        assert_eq!(decode(&bytes[..bytes.len() - 1], &footer), None);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes, &footer), None);
        }
        let overlapping = encode(&[(LogId(3), index(1)), (LogId(3), index(10))]);
        let of = |bytes: &[u8]| Footer { parts: 2, index_crc: crc32c::crc32c(bytes), ..footer };
        assert_eq!(decode(&overlapping, &of(&overlapping)), None);
        let encoded = footer.encode();
        assert_eq!(Footer::decode(&encoded), Some(footer));
        for bit in 0..encoded.len() * 8 {
            let mut encoded = encoded;
            encoded[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Footer::decode(&encoded), None);
        }
    }
}
