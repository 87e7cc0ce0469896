//! A batch's header and its run table.

use std::ops::RangeInclusive;

use super::record::{RECORD_HEADER_BYTES, RecordKind};
use super::{Identity, VERSION, is_zero, pad, put, u16_at, u32_at, u64_at};
use crate::types::{LogId, Position};

/// Bytes of a batch header.
pub const BATCH_HEADER_BYTES: usize = 96;
/// Bytes of a row of the run table.
pub const RUN_BYTES: usize = 32;
/// Flag of the last batch before a clean stop.
pub const FLAG_CLOSING: u16 = 1;
/// The first batch after a recovery.
pub const FLAG_RESTART: u16 = 2;

const MAGIC: &[u8; 4] = b"LVRB";
const FLAGS_KNOWN: u16 = FLAG_CLOSING | FLAG_RESTART;

/// The header of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Flags: closing, restart.
    pub flags: u16,
    /// Rows of the run table.
    pub runs: u32,
    /// Number of the batch in the WAL, counted over all files, or in the segment.
    pub sequence: u64,
    /// Position of the first record; 0 in segments.
    pub first_position: Position,
    /// Number of records.
    pub records: u32,
    /// Bytes of all records.
    pub record_bytes: u64,
    /// Batches right before this one that weren't durable when it was written: a power cut may have torn any of them.
    pub unsynced: u32,
    /// From this position on up to this batch there is no metadata record; 0 if it isn't known, and in segments. So it says whether
    /// a batch that can't be read had any.
    pub metadata_mark: Position,
}

impl BatchHeader {
    /// Sequence of the first batch that wasn't durable when this one was written; its own if all before it were.
    #[must_use]
    pub fn first_unsynced(&self) -> u64 {
        self.sequence - u64::from(self.unsynced)
    }

    /// Bytes from the header to the first record.
    #[must_use]
    pub fn prefix_bytes(&self) -> u64 {
        BATCH_HEADER_BYTES as u64 + self.runs as u64 * RUN_BYTES as u64
    }

    /// Bytes of the batch without its padding.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.prefix_bytes() + self.record_bytes
    }

    /// Bytes of the batch with its padding.
    #[must_use]
    pub fn padded_bytes(&self) -> u64 {
        pad(self.bytes())
    }

    /// Position of the last record.
    #[must_use]
    pub fn last_position(&self) -> Position {
        self.first_position + self.records as u64 - 1
    }

    pub(crate) fn encode(&self, identity: &Identity) -> [u8; BATCH_HEADER_BYTES] {
        let mut bytes = [0; BATCH_HEADER_BYTES];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 4, &VERSION.to_le_bytes());
        put(&mut bytes, 6, &self.flags.to_le_bytes());
        put(&mut bytes, 8, &identity.node_id.to_le_bytes());
        put(&mut bytes, 16, &identity.salt.to_le_bytes());
        put(&mut bytes, 24, &identity.wal_id.to_le_bytes());
        put(&mut bytes, 28, &self.runs.to_le_bytes());
        put(&mut bytes, 32, &self.sequence.to_le_bytes());
        put(&mut bytes, 40, &self.first_position.to_le_bytes());
        put(&mut bytes, 48, &self.records.to_le_bytes());
        put(&mut bytes, 52, &self.unsynced.to_le_bytes());
        put(&mut bytes, 56, &self.record_bytes.to_le_bytes());
        put(&mut bytes, 80, &self.metadata_mark.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..BATCH_HEADER_BYTES - 4]);
        put(&mut bytes, BATCH_HEADER_BYTES - 4, &crc.to_le_bytes());
        bytes
    }

    /// The header in these bytes, if it is valid, belongs to this use of this file, and its batch has at most `room`
    /// bytes.
    #[must_use]
    pub fn decode(bytes: &[u8], identity: &Identity, room: u64) -> Option<BatchHeader> {
        let bytes = bytes.get(..BATCH_HEADER_BYTES)?;
        let ours = &bytes[..4] == MAGIC
            && u32_at(bytes, BATCH_HEADER_BYTES - 4) == crc32c::crc32c(&bytes[..BATCH_HEADER_BYTES - 4])
            && u16_at(bytes, 4) == VERSION
            && u64_at(bytes, 8) == identity.node_id
            && u64_at(bytes, 16) == identity.salt
            && u16_at(bytes, 24) == identity.wal_id
            && u16_at(bytes, 26) == 0
            && is_zero(&bytes[64..80])
            && is_zero(&bytes[88..BATCH_HEADER_BYTES - 4]);
        if !ours {
            return None;
        }
        let header = BatchHeader {
            flags: u16_at(bytes, 6),
            runs: u32_at(bytes, 28),
            sequence: u64_at(bytes, 32),
            first_position: u64_at(bytes, 40),
            records: u32_at(bytes, 48),
            record_bytes: u64_at(bytes, 56),
            unsynced: u32_at(bytes, 52),
            metadata_mark: u64_at(bytes, 80),
        };
        let possible = header.flags & !FLAGS_KNOWN == 0
            && u64::from(header.unsynced) <= header.sequence
            && header.metadata_mark <= header.first_position
            && header.runs >= 1
            && header.records >= header.runs
            && header.record_bytes <= room
            && header.record_bytes >= header.records as u64 * RECORD_HEADER_BYTES as u64
            && header.padded_bytes() <= room
            // The rows may claim any number of records; there are fewer than bytes.
            && header.first_position.checked_add(header.record_bytes).is_some();
        possible.then_some(header)
    }

    /// Whether these bytes are a whole header that was written when the file had another salt.
    #[must_use]
    pub fn is_of_another_use(bytes: &[u8], identity: &Identity) -> bool {
        let Some(bytes) = bytes.get(..BATCH_HEADER_BYTES) else {
            return false;
        };
        let is_whole = &bytes[..4] == MAGIC
            && u32_at(bytes, BATCH_HEADER_BYTES - 4) == crc32c::crc32c(&bytes[..BATCH_HEADER_BYTES - 4]);
        is_whole && u64_at(bytes, 16) != identity.salt
    }

    /// Whether these bytes, which [`Self::decode`] refused, look like a damaged header of this file rather than like
    /// bytes of an earlier use: two of magic, salt and sequence match.
    #[must_use]
    pub fn resembles(bytes: &[u8], identity: &Identity, sequence: u64) -> bool {
        let Some(bytes) = bytes.get(..BATCH_HEADER_BYTES) else {
            return false;
        };
        let right = [&bytes[..4] == MAGIC, u64_at(bytes, 16) == identity.salt, u64_at(bytes, 32) == sequence];
        right.iter().filter(|right| **right).count() >= 2
    }
}

/// A row of the run table: consecutive records of one log and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRun {
    /// The log of the records.
    pub log: LogId,
    /// Number of the first message, 0 for kinds without numbers.
    pub first: u64,
    /// Offset of the run among the records of the batch.
    pub offset: u32,
    /// Its length in bytes.
    pub length: u32,
    /// Number of records; for references and chunks, which are a single record, of messages.
    pub count: u16,
    /// Their kind.
    pub kind: RecordKind,
}

impl RecordRun {
    /// Number of the last message.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.first + (self.count as u64 - 1)
    }

    /// Number of records in the run.
    #[must_use]
    pub fn records(&self) -> u64 {
        if self.kind.is_whole_run() { 1 } else { self.count as u64 }
    }

    /// The numbers of the messages in the run's record with this index.
    #[must_use]
    pub fn numbers_of(&self, index: u64) -> RangeInclusive<u64> {
        match self.kind.is_whole_run() {
            true => self.first..=self.last(),
            false => self.first + index..=self.first + index,
        }
    }

    pub(crate) fn encode(&self, seed: u32) -> [u8; RUN_BYTES] {
        let mut bytes = [0; RUN_BYTES];
        put(&mut bytes, 0, &self.log.0.to_le_bytes());
        put(&mut bytes, 8, &self.first.to_le_bytes());
        put(&mut bytes, 16, &self.offset.to_le_bytes());
        put(&mut bytes, 20, &self.length.to_le_bytes());
        put(&mut bytes, 24, &self.count.to_le_bytes());
        bytes[26] = self.kind as u8;
        let crc = crc32c::crc32c_append(seed, &bytes[..RUN_BYTES - 4]);
        put(&mut bytes, RUN_BYTES - 4, &crc.to_le_bytes());
        bytes
    }

    /// The row in these bytes, if it is valid and lies within a batch of `record_bytes`.
    #[must_use]
    pub fn decode(bytes: &[u8], seed: u32, record_bytes: u64) -> Option<RecordRun> {
        let bytes = bytes.get(..RUN_BYTES)?;
        if u32_at(bytes, RUN_BYTES - 4) != crc32c::crc32c_append(seed, &bytes[..RUN_BYTES - 4]) {
            return None;
        }
        let run = RecordRun {
            log: LogId(u64_at(bytes, 0)),
            first: u64_at(bytes, 8),
            offset: u32_at(bytes, 16),
            length: u32_at(bytes, 20),
            count: u16_at(bytes, 24),
            kind: RecordKind::from_code(bytes[26])?,
        };
        let possible = bytes[27] == 0
            && run.count >= 1
            && run.first.checked_add(run.count as u64).is_some()
            && run.length as u64 >= run.records() * RECORD_HEADER_BYTES as u64
            && run.offset as u64 + run.length as u64 <= record_bytes;
        possible.then_some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BatchHeader {
        let flags = FLAG_RESTART;
        BatchHeader {
            flags,
            runs: 2,
            sequence: 77,
            first_position: 1000,
            records: 5,
            record_bytes: 300,
            unsynced: 3,
            metadata_mark: 999,
        }
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_found() {
        let identity = Identity::wal(1, 2, 3);
        let bytes = header().encode(&identity);
        assert_eq!(BatchHeader::decode(&bytes, &identity, 512), Some(header()));
        assert_eq!(BatchHeader::decode(&bytes, &identity, 511), None);
        let later = BatchHeader { metadata_mark: 1001, ..header() };
        assert_eq!(
            BatchHeader::decode(&later.encode(&identity), &identity, 512),
            None,
            "it is about records before it"
        );
        let late = BatchHeader { first_position: u64::MAX - 299, ..header() };
        assert_eq!(
            BatchHeader::decode(&late.encode(&identity), &identity, 512),
            None,
            "its rows could say more than 5"
        );
        assert_eq!(BatchHeader::decode(&bytes, &Identity::wal(1, 2, 4), 512), None, "another use of the file");
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BatchHeader::decode(&bytes, &identity, 512), None);
            assert!(BatchHeader::resembles(&bytes, &identity, 77));
        }
        assert!(!BatchHeader::resembles(&[0; 96], &identity, 77));
        let other = Identity::wal(1, 2, 4);
        assert!(BatchHeader::is_of_another_use(&bytes, &other) && !BatchHeader::is_of_another_use(&bytes, &identity));
        let mut wrong = bytes;
        wrong[40] ^= 1;
        assert!(!BatchHeader::is_of_another_use(&wrong, &other));
    }

    #[test]
    fn sizes_add_up() {
        assert_eq!(header().prefix_bytes(), 96 + 64);
        assert_eq!(header().bytes(), 460);
        assert_eq!(header().padded_bytes(), 512);
        assert_eq!(header().last_position(), 1004);
        assert_eq!(header().first_unsynced(), 74);
    }

    #[test]
    fn a_chunk_is_one_record_with_all_numbers_of_its_run() {
        let run = |kind| RecordRun { log: LogId(9), first: 0, offset: 0, length: 40, count: 3, kind };
        let chunk = run(RecordKind::Chunk);
        assert_eq!((chunk.records(), chunk.numbers_of(0)), (1, 0..=2));
        let messages = run(RecordKind::Message);
        assert_eq!((messages.records(), messages.numbers_of(0), messages.numbers_of(2)), (3, 0..=0, 2..=2));
        // The record of a chunk of 65,535 messages may be shorter than as many headers.
        let most = RecordRun { count: u16::MAX, ..chunk };
        assert_eq!(RecordRun::decode(&most.encode(5), 5, 40), Some(most));
        assert_eq!(RecordRun::decode(&RecordRun { length: 11, ..chunk }.encode(5), 5, 40), None);
    }

    #[test]
    fn every_flipped_bit_of_a_run_is_found() {
        let run = RecordRun { log: LogId(9), first: 12, offset: 100, length: 200, count: 3, kind: RecordKind::Message };
        assert_eq!(run.last(), 14);
        let bytes = run.encode(5);
        assert_eq!(RecordRun::decode(&bytes, 5, 300), Some(run));
        assert_eq!(RecordRun::decode(&bytes, 5, 299), None);
        assert_eq!(RecordRun::decode(&bytes, 6, 300), None);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RecordRun::decode(&bytes, 5, 300), None);
        }
    }
}
