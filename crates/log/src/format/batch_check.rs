//! Checks a whole batch in memory. Used by recovery and by the fuzzer.

use std::ops::Range;

use super::batch::{BATCH_HEADER_BYTES, BatchHeader, RUN_BYTES, RecordRun};
use super::record::{self, RECORD_HEADER_BYTES, Record, RecordKind};
use super::{Identity, is_zero};
use crate::types::{LogId, Position};

/// Bytes of a batch that aren't those written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Their range, from the start of the batch.
    pub range: Range<u64>,
    /// The log of the records; `None` if it can't be told.
    pub log: Option<LogId>,
    /// The first and last number of the messages in them, if these are messages.
    pub numbers: Option<(u64, u64)>,
    /// Records in them whose log and numbers can't be told.
    pub unknown: u64,
    /// The problem.
    pub reason: &'static str,
}

/// A batch with a valid header.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The header.
    pub header: BatchHeader,
    /// The runs in which every record is valid.
    pub runs: Vec<RecordRun>,
    /// The row in the table of each of these runs.
    pub rows: Vec<u32>,
    /// The position of the first record of each of these runs.
    pub positions: Vec<Position>,
    /// The runs with an invalid record, each with the position of its first record.
    pub faulty: Vec<(RecordRun, Position)>,
    /// All damage found.
    pub faults: Vec<Fault>,
    seed: u32,
}

impl Batch {
    /// All runs of messages, those with an invalid record, too.
    pub fn message_runs(&self) -> impl Iterator<Item = &RecordRun> {
        let runs = self.runs.iter().chain(self.faulty.iter().map(|(run, _)| run));
        runs.filter(|run| run.kind.holds_messages())
    }

    /// The records of the valid runs, in order. `bytes` are those that were checked.
    pub fn records<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = Record<'a>> {
        self.runs.iter().flat_map(move |run| self.records_of(run, bytes))
    }

    /// The records of one valid run.
    pub fn records_of<'a>(&self, run: &RecordRun, bytes: &'a [u8]) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let seed = self.seed;
        let mut rest = &bytes[run_range(&self.header, run)];
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (record, after) = record::split(rest, seed).ok()?;
            rest = after;
            Some(record)
        })
    }
}

impl Batch {
    /// The records of a faulty run, `None` for each invalid one.
    pub(crate) fn records_left<'a>(
        &self,
        run: &RecordRun,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = Option<Record<'a>>> {
        let (seed, kind) = (self.seed, run.kind);
        let mut rest = &bytes[run_range(&self.header, run)];
        (0..run.records()).map(move |_| match record::split(rest, seed) {
            Ok((record, after)) => {
                rest = after;
                (record.kind == kind).then_some(record)
            }
            Err(_) => {
                rest = &rest[record::claimed_bytes(rest).unwrap_or(rest.len())..];
                None
            }
        })
    }
}

fn run_range(header: &BatchHeader, run: &RecordRun) -> Range<usize> {
    let start = header.prefix_bytes() as usize + run.offset as usize;
    start..start + run.length as usize
}

/// Checks the batch at the start of `bytes`. `None` if there is no header of this file.
#[must_use]
pub fn check(bytes: &[u8], identity: &Identity) -> Option<Batch> {
    let header = BatchHeader::decode(bytes, identity, bytes.len() as u64)?;
    let seed = identity.batch_seed(header.sequence);
    let mut batch = Batch {
        header,
        runs: Vec::new(),
        rows: Vec::new(),
        positions: Vec::new(),
        faulty: Vec::new(),
        faults: Vec::new(),
        seed,
    };
    let mut end = 0;
    let mut records = 0;
    let mut gap = false;
    for row in 0..header.runs as usize {
        let at = BATCH_HEADER_BYTES + row * RUN_BYTES;
        let decoded = RecordRun::decode(&bytes[at..], seed, header.record_bytes);
        let Some(run) = decoded.filter(|run| run.offset as u64 == end || gap && run.offset as u64 > end) else {
            gap = true;
            let reason = "a row of the run table is wrong";
            batch.faults.push(Fault::without_log(at as u64..(at + RUN_BYTES) as u64, reason));
            continue;
        };
        end = run.offset as u64 + run.length as u64;
        // After a bad row the count is unknown; the highest possible position makes sure that the record is replayed.
        let position = if gap { header.last_position() } else { header.first_position + records };
        records += run.records();
        match check_run(&bytes[run_range(&header, &run)], &run, seed) {
            Ok(()) => {
                batch.runs.push(run);
                batch.rows.push(row as u32);
                batch.positions.push(position);
            }
            Err(bad) => {
                batch.faulty.push((run, position));
                let start = run_range(&header, &run).start as u64;
                let numbers = match run.kind {
                    RecordKind::Message => Some((run.first + bad.first, run.first + bad.last)),
                    RecordKind::References | RecordKind::Chunk => Some((run.first, run.last())),
                    _ => None,
                };
                batch.faults.push(Fault {
                    range: start + bad.bytes.start as u64..start + bad.bytes.end as u64,
                    log: Some(run.log),
                    numbers,
                    unknown: 0,
                    reason: bad.reason,
                });
            }
        }
    }
    if !gap && (end != header.record_bytes || records != header.records as u64) {
        batch.faults.push(Fault::without_log(0..header.bytes(), "the run table doesn't add up"));
    }
    if let Some(fault) = batch.faults.iter_mut().find(|fault| fault.log.is_none()) {
        fault.unknown = (header.records as u64).saturating_sub(records);
    }
    let padding = header.bytes() as usize..header.padded_bytes() as usize;
    if !is_zero(&bytes[padding.clone()]) {
        let range = padding.start as u64..padding.end as u64;
        batch.faults.push(Fault::without_log(range, "the padding isn't zero"));
    }
    Some(batch)
}

impl Fault {
    fn without_log(range: Range<u64>, reason: &'static str) -> Fault {
        Fault { range, log: None, numbers: None, unknown: 0, reason }
    }
}

/// The invalid records of a run.
struct BadRecords {
    /// Their bytes, from the start of the run.
    bytes: Range<usize>,
    /// The first and last of them, counted in the run.
    first: u64,
    last: u64,
    reason: &'static str,
}

/// Finds the invalid records: if the lengths still lead through the run, these are those with wrong checksums;
/// otherwise all from the first on.
fn check_run(bytes: &[u8], run: &RecordRun, seed: u32) -> Result<(), BadRecords> {
    let mut bad: Option<BadRecords> = None;
    let mut at = 0;
    for i in 0..run.records() {
        let (reason, length) = match record::split(&bytes[at..], seed) {
            Ok((record, _)) if record.kind == run.kind => {
                at += RECORD_HEADER_BYTES + record.payload.len();
                continue;
            }
            Ok((record, _)) => ("a record's kind isn't its run's", Some(RECORD_HEADER_BYTES + record.payload.len())),
            Err(reason) => (reason, record::claimed_bytes(&bytes[at..])),
        };
        let begin = at;
        at += length.unwrap_or(bytes.len() - at);
        let bad = bad.get_or_insert(BadRecords { bytes: begin..at, first: i, last: i, reason });
        bad.bytes.end = at;
        bad.last = i;
        if length.is_none() {
            bad.last = run.records() - 1;
            break;
        }
    }
    match bad {
        Some(bad) if at != bytes.len() => {
            Err(BadRecords { bytes: bad.bytes.start..bytes.len(), last: run.records() - 1, ..bad })
        }
        Some(bad) => Err(bad),
        None if at == bytes.len() => Ok(()),
        None => {
            let reason = "a run is longer than its records";
            Err(BadRecords { bytes: at..bytes.len(), first: 0, last: run.records() - 1, reason })
        }
    }
}

/// The valid rows of the run table of a batch whose header can't be read. The flag is true if they follow each other
/// without a gap and lead to the end of `bytes`.
pub(crate) fn runs_behind_bad_header(bytes: &[u8], identity: &Identity, sequence: u64) -> (Vec<RecordRun>, bool) {
    let seed = identity.batch_seed(sequence);
    let mut runs: Vec<RecordRun> = Vec::new();
    let mut end = 0;
    while let Some(run) = bytes
        .get(BATCH_HEADER_BYTES + runs.len() * RUN_BYTES..)
        .and_then(|row| RecordRun::decode(row, seed, bytes.len() as u64))
    {
        if run.offset as u64 != end {
            return (runs, false);
        }
        end += run.length as u64;
        runs.push(run);
    }
    let padded = super::pad((BATCH_HEADER_BYTES + runs.len() * RUN_BYTES) as u64 + end);
    // No batch is without a row.
    let is_whole = padded == bytes.len() as u64 && !runs.is_empty();
    (runs, is_whole)
}

#[cfg(test)]
mod tests {
    use crate::types::NewChunk;
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::builder::{Builder, Memory};
    use crate::disk::Disk;
    use crate::format::record::Head;
    use crate::memory_disk::MemoryDisk;
    use crate::types::Payload;

    #[derive(Clone, Debug)]
    enum Append {
        Messages(u64, u64, Vec<(Vec<u8>, usize)>),
        Chunk(u64, u64, u16, usize),
        Other(u64, u8, Vec<u8>),
    }

    fn appends() -> impl Strategy<Value = Vec<Append>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..80);
        let append = prop_oneof![
            (0..4u64, 1..1000u64, proptest::collection::vec((bytes(), 0..6000usize), 1..5))
                .prop_map(|(log, first, bodies)| Append::Messages(log, first, bodies)),
            (0..4u64, 0..1000u64, 1..=u16::MAX, 0..9000usize)
                .prop_map(|(log, first, messages, body)| Append::Chunk(log, first, messages, body)),
            (0..4u64, any::<u8>(), bytes()).prop_map(|(log, detail, payload)| Append::Other(log, detail, payload)),
        ];
        proptest::collection::vec(append, 1..20)
    }

    fn build(appends: &[Append], identity: &Identity) -> (Vec<u8>, Vec<(RecordKind, Vec<u8>)>) {
        let mut builder = Builder::new(identity, 9, 50, 4096, Memory::default());
        let mut expected = Vec::new();
        for append in appends {
            match append {
                Append::Messages(log, first, bodies) => {
                    for (i, (head, body)) in bodies.iter().enumerate() {
                        let body = Bytes::from(vec![i as u8; *body]);
                        let payload = Payload { head, body: Some(&body) };
                        builder.message(LogId(*log), first + i as u64, None, &payload);
                        expected.push((RecordKind::Message, [&head[..], &body].concat()));
                    }
                }
                Append::Chunk(log, first, messages, body) => {
                    let body = Bytes::from(vec![7; *body]);
                    let payload = Payload { head: b"chunk", body: Some(&body) };
                    builder.chunk(&NewChunk { log: LogId(*log), first: *first, messages: *messages, payload }, Some(3));
                    expected.push((RecordKind::Chunk, [b"chunk", &body[..]].concat()));
                }
                Append::Other(log, detail, payload) => {
                    builder.record(LogId(*log), Head::alone(RecordKind::Control, *detail), payload);
                    expected.push((RecordKind::Control, payload.clone()));
                }
            }
        }
        let disk = MemoryDisk::new();
        disk.create("f", 0).unwrap();
        builder.seal(0).write(&disk, "f", 0, identity).unwrap();
        (disk.content("f").unwrap(), expected)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_built_batch_is_found_again(appends in appends(), bit in any::<prop::sample::Index>()) {
            let identity = Identity::wal(4, 0, 2);
            let (mut bytes, expected) = build(&appends, &identity);
            let batch = check(&bytes, &identity).unwrap();
            prop_assert_eq!(&batch.faults, &[]);
            let found: Vec<_> = batch
                .records(&bytes)
                .map(|record| (record.kind, record.payload.to_vec()))
                .collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(batch.positions[0], 50);

            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(check(&bytes, &identity).is_none_or(|batch| !batch.faults.is_empty()));
        }

        #[test]
        fn any_bytes_are_taken(mut bytes in proptest::collection::vec(any::<u8>(), 0..2000), rows in 1..40u32) {
            let identity = Identity::wal(4, 0, 2);
            let _ = check(&bytes, &identity);
            // Random bytes after a valid header.
            let header = BatchHeader {
                flags: 0,
                runs: rows,
                sequence: 1,
                first_position: 1,
                records: rows,
                record_bytes: rows as u64 * 12,
                unsynced: 0,
                metadata_mark: 0,
            };
            if bytes.len() >= BATCH_HEADER_BYTES {
                bytes[..BATCH_HEADER_BYTES].copy_from_slice(&header.encode(&identity));
                let _ = check(&bytes, &identity);
            }
        }
    }

    #[test]
    fn a_bad_record_names_its_log_and_spares_the_others() {
        let identity = Identity::wal(1, 0, 1);
        let appends =
            [Append::Other(1, 0, vec![1; 10]), Append::Other(2, 0, vec![2; 10]), Append::Other(3, 0, vec![3; 10])];
        let (mut bytes, _) = build(&appends, &identity);
        bytes[96 + 3 * 32 + 22 + 15] ^= 1;
        let batch = check(&bytes, &identity).unwrap();
        assert_eq!(batch.runs.len(), 2);
        assert_eq!(batch.faults.len(), 1);
        assert_eq!(batch.faults[0].log, Some(LogId(2)));
        assert_eq!(batch.positions, [50, 52]);
        assert_eq!(batch.rows, [0, 2]);

        bytes[0] ^= 1;
        assert!(check(&bytes, &identity).is_none());
        let (runs, whole) = runs_behind_bad_header(&bytes, &identity, 9);
        let logs: Vec<LogId> = runs.iter().map(|run| run.log).collect();
        assert_eq!(logs, [LogId(1), LogId(2), LogId(3)]);
        assert!(whole);
        assert_eq!(runs_behind_bad_header(&[0xff; 512], &identity, 9), (Vec::new(), false), "its logs aren't known");
    }

    #[test]
    fn a_bad_chunk_names_all_its_numbers() {
        let identity = Identity::wal(1, 0, 1);
        let (mut bytes, _) = build(&[Append::Chunk(2, 5, 300, 40)], &identity);
        bytes[96 + 32 + 12 + 20] ^= 1;
        let batch = check(&bytes, &identity).unwrap();
        assert_eq!((batch.runs.len(), batch.faulty.len()), (0, 1));
        assert_eq!((batch.faults[0].log, batch.faults[0].numbers), (Some(LogId(2)), Some((5, 304))));
        assert_eq!(batch.records_left(&batch.faulty[0].0, &bytes).count(), 1, "it is a single record");
    }

    #[test]
    fn records_of_an_earlier_use_of_the_file_are_refused() {
        // The first sector holds header, table and one record; each other sector holds a record. The batch has the
        // same place and layout in both uses of the file.
        let write = |sequence: u64, file: u64, byte: u8| {
            let identity = Identity::wal(1, 0, file);
            let mut builder = Builder::new(&identity, sequence, 1, 4096, Memory::default());
            for number in 1..=4 {
                let length = if number == 1 { 512 - 96 - 32 } else { 512 };
                let payload = vec![byte; length - 12];
                builder.message(LogId(1), number, None, &Payload { head: &payload, body: None });
            }
            let disk = MemoryDisk::new();
            disk.create("f", 0).unwrap();
            builder.seal(0).write(&disk, "f", 0, &identity).unwrap();
            (disk.content("f").unwrap(), identity)
        };
        let (old, _) = write(3, 1, 7);
        let (new, identity) = write(90, 5, 8);
        assert_eq!(check(&new, &identity).unwrap().faults, []);
        for lost in 1..4 {
            let mut torn = new.clone();
            let sector = lost * 512..(lost + 1) * 512;
            torn[sector.clone()].copy_from_slice(&old[sector]);
            assert_eq!(check(&torn, &identity).unwrap().faults.len(), 1);
        }
    }
}
