//! A batch being filled, and a sealed batch that is ready to be written.

use bytes::Bytes;

use crate::disk::{self, Disk};
use crate::error::DiskError;
use crate::format::batch::{BATCH_HEADER_BYTES, BatchHeader, RUN_BYTES, RecordRun};
use crate::format::record::{self, Head, RECORD_HEADER_BYTES, RecordKind};
use crate::format::{Identity, RUN_BYTES_MAX, SECTOR, pad};
use crate::types::{JoinChunks, JointRecord, LogId, NewChunk, Payload, Position};

/// A large body that isn't copied: it belongs after `body_at` bytes of the buffer. Its record's checksum is computed
/// when the batch is written, outside the log's lock.
#[derive(Debug)]
struct Reference {
    record_at: usize,
    body_at: usize,
    body: Bytes,
}

/// A chunk that others were joined to.
#[derive(Debug)]
struct JoinedChunk {
    /// Where its record begins in the buffer.
    record_at: usize,
    /// Index of its run.
    run: usize,
    join: &'static dyn JoinChunks,
}

/// A batch that records are appended to.
#[derive(Debug)]
pub(crate) struct Builder {
    header: BatchHeader,
    seed: u32,
    inline_below: usize,
    data: Vec<u8>,
    runs: Vec<RecordRun>,
    references: Vec<Reference>,
    /// Where the record of the last chunk begins in the buffer.
    last_chunk: usize,
    /// Chunks that others were joined to: they have no checksums yet.
    joined: Vec<JoinedChunk>,
}

/// Buffers to reuse.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    data: Vec<u8>,
    runs: Vec<RecordRun>,
}

impl Memory {
    pub(crate) fn with_capacity(bytes: usize) -> Memory {
        Memory { data: Vec::with_capacity(bytes), runs: Vec::new() }
    }
}

impl Builder {
    pub(crate) fn new(
        identity: &Identity,
        sequence: u64,
        first_position: Position,
        inline_below: usize,
        memory: Memory,
    ) -> Builder {
        debug_assert!(memory.data.is_empty() && memory.runs.is_empty());
        Builder {
            header: BatchHeader {
                flags: 0,
                runs: 0,
                sequence,
                first_position,
                records: 0,
                record_bytes: 0,
                unsynced: 0,
                metadata_mark: 0,
            },
            seed: identity.batch_seed(sequence),
            inline_below,
            data: memory.data,
            runs: memory.runs,
            references: Vec::new(),
            last_chunk: 0,
            joined: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.header.records == 0
    }

    /// Position of the record that is appended next.
    #[inline]
    pub(crate) fn next_position(&self) -> Position {
        self.header.first_position + self.header.records as u64
    }

    pub(crate) fn record_bytes(&self) -> u64 {
        self.header.record_bytes
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.header.sequence
    }

    /// Says that from this position on there is no metadata record before this batch.
    pub(crate) fn set_metadata_mark(&mut self, position: Position) {
        self.header.metadata_mark = position;
    }

    pub(crate) fn set_flag(&mut self, flag: u16) {
        self.header.flags |= flag;
    }

    /// Bytes that the batch takes in a file.
    pub(crate) fn padded_bytes(&self) -> u64 {
        pad(self.bytes_with(0, 0))
    }

    /// Whether a record with this payload fits a file with `capacity` bytes for batches.
    #[inline]
    pub(crate) fn fits(&self, payload: usize, capacity: u64) -> bool {
        // No rounding up: a file's capacity is a multiple of a sector, or rounded down to one.
        self.bytes_with(1, RECORD_HEADER_BYTES + payload) + SECTOR <= capacity
    }

    /// Bytes of the batch, without its padding, with one more record of a run of its own, apart from that record's payload.
    pub(crate) fn bytes_with_record(&self) -> u64 {
        self.bytes_with(1, RECORD_HEADER_BYTES)
    }

    fn bytes_with(&self, runs: usize, bytes: usize) -> u64 {
        (BATCH_HEADER_BYTES + (self.runs.len() + runs) * RUN_BYTES + bytes) as u64 + self.header.record_bytes
    }

    #[inline]
    pub(crate) fn message(&mut self, log: LogId, number: u64, group: Option<u16>, payload: &Payload<'_>) {
        let head = Head { kind: RecordKind::Message, detail: 0, group };
        let length = self.record_with_body(head, payload);
        self.count(log, RecordKind::Message, number, 1, length);
    }

    /// Appends the messages of a chunk.
    pub(crate) fn chunk(&mut self, chunk: &NewChunk<'_>, group: Option<u16>) {
        let NewChunk { log, first, messages, ref payload } = *chunk;
        let head = Head { kind: RecordKind::Chunk, detail: 0, group };
        self.last_chunk = self.data.len();
        let length = self.record_with_body(head, payload);
        self.count(log, RecordKind::Chunk, first, messages, length);
    }

    /// Joins a chunk to the one before it. False, with nothing changed, if the batch doesn't end with a chunk of this log, or if it is
    /// no part of the other.
    pub(crate) fn joined_chunk(
        &mut self,
        log: LogId,
        messages: u16,
        payload: &Payload<'_>,
        join: &'static dyn JoinChunks,
    ) -> bool {
        let Some(run) = self.runs.last_mut().filter(|run| run.kind == RecordKind::Chunk && run.log == log) else {
            return false;
        };
        let (record_at, before) = (self.last_chunk, self.data.len());
        // No other record follows it, and its body was copied.
        let is_last = record_at + run.length as usize == before;
        let Some(count) = run.count.checked_add(messages).filter(|_| is_last) else { return false };
        if record::is_in_group(&self.data[record_at..])
            || !join.join(&mut self.data, record_at + RECORD_HEADER_BYTES, payload)
        {
            return false;
        }
        let more = (self.data.len() - before) as u32;
        (run.count, run.length) = (count, run.length + more);
        self.header.record_bytes += u64::from(more);
        if self.joined.last().is_none_or(|last| last.record_at != record_at) {
            self.joined.push(JoinedChunk { record_at, run: self.runs.len() - 1, join });
        }
        true
    }

    /// Completes chunks that others were joined to, and their records.
    fn complete_joined(&mut self) {
        for JoinedChunk { record_at, run, join } in std::mem::take(&mut self.joined) {
            let record = &mut self.data[record_at..record_at + self.runs[run].length as usize];
            join.complete(&mut record[RECORD_HEADER_BYTES..]);
            record::complete(record, self.seed);
        }
    }

    /// Appends a record whose body isn't copied if it is large. Returns the length of the record.
    // On the way of each message. With further callers it would be a call, of 25 instructions a message.
    #[inline(always)]
    fn record_with_body(&mut self, head: Head, payload: &Payload<'_>) -> usize {
        let inline: &[u8] = match payload.body {
            Some(body) if body.len() >= self.inline_below => {
                return self.record_with_reference(head, payload.head, body.clone());
            }
            Some(body) => body,
            None => &[],
        };
        record::append(&mut self.data, self.seed, head, [payload.head, inline]);
        RECORD_HEADER_BYTES + payload.head.len() + inline.len()
    }

    /// Appends the records of a run of another batch, which are valid; they leave their groups.
    pub(crate) fn copy_run(&mut self, run: &RecordRun, records: &[u8]) {
        let at = self.data.len();
        self.data.extend_from_slice(records);
        let mut rest = &mut self.data[at..];
        for _ in 0..run.records() {
            rest = record::renew(rest, self.seed);
        }
        assert!(rest.is_empty(), "a run is as long as its records");
        self.count(run.log, run.kind, run.first, run.count, records.len());
    }

    fn record_with_reference(&mut self, head: Head, before: &[u8], body: Bytes) -> usize {
        let length = before.len() + body.len();
        let record_at = record::append(&mut self.data, self.seed, head, [before, &[]]);
        self.data[record_at + 4..record_at + 8].copy_from_slice(&(length as u32).to_le_bytes());
        self.references.push(Reference { record_at, body_at: self.data.len(), body });
        RECORD_HEADER_BYTES + length
    }

    /// Appends a control record whose body isn't copied if it is large.
    pub(crate) fn control(&mut self, log: LogId, detail: u8, payload: &Payload<'_>) {
        let length = self.record_with_body(Head::alone(RecordKind::Control, detail), payload);
        self.count(log, RecordKind::Control, 0, 1, length);
    }

    /// Appends a record of another kind.
    pub(crate) fn record(&mut self, log: LogId, head: Head, payload: &[u8]) {
        record::append(&mut self.data, self.seed, head, [payload, &[]]);
        self.count(log, head.kind, 0, 1, RECORD_HEADER_BYTES + payload.len());
    }

    /// Appends references to `messages` messages of a log, numbered from `first` on, whose bytes are stored in
    /// another log.
    pub(crate) fn references(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, payload } = record;
        let kind = RecordKind::References;
        record::append(&mut self.data, self.seed, Head::alone(kind, 0), [payload, &[]]);
        self.count(log, kind, first, messages, RECORD_HEADER_BYTES + payload.len());
    }

    /// Enters records of `length` bytes in all into the run table; extends the last run if they continue it. `count` is
    /// that of the run: of records, or of the messages in a single one.
    // As above.
    #[inline(always)]
    fn count(&mut self, log: LogId, kind: RecordKind, number: u64, count: u16, length: usize) {
        let offset = self.header.record_bytes;
        let is_whole_run = kind.is_whole_run();
        self.header.records += if is_whole_run { 1 } else { u32::from(count) };
        self.header.record_bytes += length as u64;
        if let Some(run) = self.runs.last_mut().filter(|_| !is_whole_run) {
            let goes_on = run.log == log
                && run.kind == kind
                && (kind != RecordKind::Message || run.first + run.count as u64 == number)
                && run.length as usize + length <= RUN_BYTES_MAX
                && run.count <= u16::MAX - count;
            if goes_on {
                run.length += length as u32;
                run.count += count;
                return;
            }
        }
        self.runs.push(RecordRun {
            log,
            first: number,
            offset: u32::try_from(offset).expect("batches are below 4 GiB"),
            length: u32::try_from(length).expect("records are below 4 GiB"),
            count,
            kind,
        });
    }

    /// Closes the batch. The `unsynced` batches right before it aren't durable yet.
    pub(crate) fn seal(mut self, unsynced: u32) -> Sealed {
        assert!(self.header.records > 0, "a batch without a record");
        self.complete_joined();
        self.header.runs = self.runs.len() as u32;
        self.header.unsynced = unsynced;
        Sealed { header: self.header, seed: self.seed, data: self.data, runs: self.runs, references: self.references }
    }
}

/// A batch that is complete.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub header: BatchHeader,
    pub runs: Vec<RecordRun>,
    seed: u32,
    data: Vec<u8>,
    references: Vec<Reference>,
}

impl Sealed {
    /// Writes the batch, from header to padding.
    pub(crate) fn write(&self, disk: &dyn Disk, file: &str, offset: u64, identity: &Identity) -> Result<(), DiskError> {
        let mut prefix = Vec::with_capacity(self.header.prefix_bytes() as usize);
        prefix.extend_from_slice(&self.header.encode(identity));
        for run in &self.runs {
            prefix.extend_from_slice(&run.encode(self.seed));
        }
        let checksums: Vec<[u8; 4]> =
            self.references.iter().map(|reference| self.checksum(reference).to_le_bytes()).collect();
        let zeros = [0; SECTOR as usize];
        let padding = (self.header.padded_bytes() - self.header.bytes()) as usize;

        let mut slices: Vec<&[u8]> = Vec::with_capacity(3 + self.references.len() * 4);
        slices.push(&prefix);
        let mut at = 0;
        for (reference, checksum) in self.references.iter().zip(&checksums) {
            slices.push(&self.data[at..reference.record_at]);
            slices.push(checksum);
            slices.push(&self.data[reference.record_at + 4..reference.body_at]);
            slices.push(&reference.body);
            at = reference.body_at;
        }
        slices.push(&self.data[at..]);
        slices.push(&zeros[..padding]);
        slices.retain(|slice| !slice.is_empty());
        disk::write(disk, file, offset, &slices)
    }

    fn checksum(&self, reference: &Reference) -> u32 {
        let head = &self.data[reference.record_at + 4..reference.body_at];
        crc32c::crc32c_append(crc32c::crc32c_append(self.seed, head), &reference.body)
    }

    /// Returns the buffers for reuse, unless they grew far beyond the size of a usual batch.
    pub(crate) fn into_memory(mut self, capacity_max: usize) -> Memory {
        if self.data.capacity() > capacity_max {
            return Memory::default();
        }
        self.data.clear();
        self.runs.clear();
        Memory { data: self.data, runs: self.runs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::batch_check;
    use crate::memory_disk::MemoryDisk;

    fn builder() -> (Builder, Identity) {
        let identity = Identity::wal(1, 0, 1);
        let builder = Builder::new(&identity, 5, 100, 16, Memory::default());
        (builder, identity)
    }

    fn written(builder: Builder, identity: &Identity) -> Vec<u8> {
        let disk = MemoryDisk::new();
        disk.create("f", 0).unwrap();
        let padded = builder.padded_bytes();
        builder.seal(0).write(&disk, "f", 0, identity).unwrap();
        let bytes = disk.content("f").unwrap();
        assert_eq!(bytes.len() as u64, padded);
        bytes
    }

    #[test]
    fn consecutive_messages_share_a_run_and_bodies_come_in_place() {
        let (mut builder, identity) = builder();
        let large = Bytes::from(vec![7; 5000]);
        let small = Bytes::from_static(b"small");
        for (number, body) in [(1, &small), (2, &large), (3, &small)] {
            let payload = Payload { head: b"head", body: Some(body) };
            builder.message(LogId(3), number, (number == 2).then_some(5), &payload);
        }
        builder.message(LogId(3), 9, None, &Payload { head: b"gap", body: None });
        builder.record(LogId(3), Head::alone(RecordKind::Settle, 1), &[]);
        let bytes = written(builder, &identity);
        let batch = batch_check::check(&bytes, &identity).unwrap();
        assert!(batch.faults.is_empty(), "{:?}", batch.faults);
        let runs: Vec<_> = batch.runs.iter().map(|run| (run.first, run.count, run.kind)).collect();
        assert_eq!(runs, [(1, 3, RecordKind::Message), (9, 1, RecordKind::Message), (0, 1, RecordKind::Settle)]);
        let payloads: Vec<_> = batch.records(&bytes).map(|record| record.payload.to_vec()).collect();
        assert_eq!(payloads[0], b"headsmall");
        assert_eq!(payloads[1].len(), 5004);
        assert_eq!(payloads[1][4..], large[..]);
        assert_eq!(payloads[3], b"gap");
        let groups: Vec<_> = batch.records(&bytes).map(|record| record.group).collect();
        assert_eq!(groups, [None, Some(5), None, None, None]);
    }

    #[test]
    fn a_chunk_is_one_record_and_a_run_of_its_own() {
        let (mut builder, identity) = builder();
        let large = Bytes::from(vec![7; 5000]);
        let small = Bytes::from_static(b"small");
        for (first, messages, body) in [(0, 3, &small), (3, u16::MAX, &large), (65_538, 1, &small)] {
            let payload = Payload { head: b"head", body: Some(body) };
            builder.chunk(&NewChunk { log: LogId(3), first, messages, payload }, (first == 3).then_some(5));
        }
        assert_eq!(builder.next_position(), 103);
        let bytes = written(builder, &identity);
        let batch = batch_check::check(&bytes, &identity).unwrap();
        assert!(batch.faults.is_empty(), "{:?}", batch.faults);
        let runs: Vec<_> = batch.runs.iter().map(|run| (run.first, run.last(), run.kind)).collect();
        let kind = RecordKind::Chunk;
        assert_eq!(runs, [(0, 2, kind), (3, 65_537, kind), (65_538, 65_538, kind)]);
        assert_eq!(batch.positions, [100, 101, 102]);
        let found: Vec<_> = batch.records(&bytes).map(|record| (record.payload.len(), record.group)).collect();
        assert_eq!(found, [(9, None), (5004, Some(5)), (9, None)]);
    }

    #[test]
    fn a_run_ends_at_64_kib() {
        let (mut builder, _) = builder();
        for number in 1..=100 {
            let payload = Payload { head: &[0; 4084], body: None };
            builder.message(LogId(1), number, None, &payload);
        }
        let sealed = builder.seal(0);
        assert_eq!(sealed.runs.len(), 7);
        assert!(sealed.runs.iter().all(|run| run.length as usize <= RUN_BYTES_MAX));
    }

    #[test]
    fn a_copied_run_is_as_if_its_messages_came_one_by_one() {
        let payloads: Vec<Vec<u8>> = (1..=40u8).map(|n| vec![n; n as usize * 40]).collect();
        let messages = |builder: &mut Builder, numbers: std::ops::Range<u64>, group| {
            for number in numbers {
                let payload = Payload { head: &payloads[number as usize - 1], body: None };
                builder.message(LogId(3), number, group, &payload);
            }
        };
        // In a batch with another seed; half of the messages belong to a group.
        let (_, identity) = builder();
        let mut origin = Builder::new(&identity, 9, 700, 16, Memory::default());
        messages(&mut origin, 5..20, Some(7));
        messages(&mut origin, 20..41, None);
        let origin = origin.seal(0);
        assert_eq!(origin.runs.len(), 1);
        let [mut copied, mut expected] = [builder().0, builder().0];
        for builder in [&mut copied, &mut expected] {
            messages(builder, 1..5, None);
        }
        copied.copy_run(&origin.runs[0], &origin.data);
        messages(&mut expected, 5..41, None);
        assert_eq!(written(copied, &identity), written(expected, &identity));
    }

    #[test]
    fn a_copied_chunk_is_as_written_and_leaves_its_group() {
        let payload = Payload { head: &[9; 500], body: None };
        let (_, identity) = builder();
        let mut origin = Builder::new(&identity, 9, 700, 16, Memory::default());
        origin.chunk(&NewChunk { log: LogId(3), first: 40, messages: 300, payload }, Some(7));
        let origin = origin.seal(0);
        let [mut copied, mut expected] = [builder().0, builder().0];
        copied.copy_run(&origin.runs[0], &origin.data);
        expected.chunk(&NewChunk { log: LogId(3), first: 40, messages: 300, payload }, None);
        assert_eq!(written(copied, &identity), written(expected, &identity));
    }

    #[test]
    fn a_copied_run_that_would_be_too_long_begins_anew() {
        let run_of = |first, count| {
            let (mut builder, _) = builder();
            for number in first..first + count {
                builder.message(LogId(1), number, None, &Payload { head: &[0; 4084], body: None });
            }
            builder.seal(0)
        };
        let (mut copied, _) = builder();
        for origin in [run_of(1, 9), run_of(10, 8), run_of(18, 8), run_of(27, 2)] {
            copied.copy_run(&origin.runs[0], &origin.data);
        }
        let runs: Vec<_> = copied.seal(0).runs.iter().map(|run| (run.first, run.count, run.length)).collect();
        assert_eq!(runs, [(1, 9, 9 << 12), (10, 16, 16 << 12), (27, 2, 2 << 12)]);
    }

    #[test]
    fn whether_a_record_fits_is_known_before_it_is_appended() {
        let (mut builder, _) = builder();
        assert!(builder.fits(100, 1024));
        builder.record(LogId(1), Head::alone(RecordKind::Control, 0), &[0; 800]);
        assert!(!builder.fits(100, 1024));
        assert_eq!(builder.padded_bytes(), 1024);
    }
}
