//! A whole batch in memory, checked: what recovery replays and the fuzzer throws bytes at.

use std::ops::Range;

use super::batch::{BATCH_HEADER_BYTES, BatchHeader, RUN_BYTES, Run};
use super::record::{self, Record};
use super::{Identity, is_zero};
use crate::types::{LogId, Position};

/// Bytes of a batch that aren't what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, from the start of the batch.
    pub range: Range<u64>,
    /// Whose records these are; `None` if that can't be told.
    pub log: Option<LogId>,
    /// What is wrong.
    pub reason: &'static str,
}

/// A batch whose header is right.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The header.
    pub header: BatchHeader,
    /// The runs in which every record is right.
    pub runs: Vec<Run>,
    /// For each of them its row in the table.
    pub rows: Vec<u32>,
    /// For each of them the position of its first record.
    pub positions: Vec<Position>,
    /// Everything else.
    pub faults: Vec<Fault>,
    seed: u32,
}

impl Batch {
    /// The records of the good runs in order. `bytes` are those that were checked.
    pub fn records<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = Record<'a>> {
        self.runs.iter().flat_map(move |run| self.records_of(run, bytes))
    }

    /// The records of one good run.
    pub fn records_of<'a>(&self, run: &Run, bytes: &'a [u8]) -> impl Iterator<Item = Record<'a>> + use<'a> {
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

fn run_range(header: &BatchHeader, run: &Run) -> Range<usize> {
    let start = header.prefix_bytes() as usize + run.offset as usize;
    start..start + run.length as usize
}

/// Checks the batch at the start of `bytes`. `None` if there is no header of this file.
#[must_use]
pub fn check(bytes: &[u8], identity: &Identity) -> Option<Batch> {
    let header = BatchHeader::decode(bytes, identity, bytes.len() as u64)?;
    let seed = identity.batch_seed(header.sequence);
    let mut batch =
        Batch { header, runs: Vec::new(), rows: Vec::new(), positions: Vec::new(), faults: Vec::new(), seed };
    let mut end = 0;
    let mut records = 0;
    let mut gap = false;
    for row in 0..header.runs as usize {
        let at = BATCH_HEADER_BYTES + row * RUN_BYTES;
        let decoded = Run::decode(&bytes[at..], seed, header.record_bytes);
        let Some(run) = decoded.filter(|run| run.offset as u64 == end || gap && run.offset as u64 > end) else {
            gap = true;
            batch.faults.push(Fault {
                range: at as u64..(at + RUN_BYTES) as u64,
                log: None,
                reason: "a row of the run table is wrong",
            });
            continue;
        };
        end = run.offset as u64 + run.length as u64;
        // Behind a bad row the count is unknown; the highest possible position makes sure that it is replayed.
        let position = if gap { header.last_position() } else { header.first_position + records };
        records += run.records();
        match check_run(&bytes[run_range(&header, &run)], &run, seed) {
            Ok(()) => {
                batch.runs.push(run);
                batch.rows.push(row as u32);
                batch.positions.push(position);
            }
            Err(reason) => {
                let range = run_range(&header, &run);
                batch.faults.push(Fault { range: range.start as u64..range.end as u64, log: Some(run.log), reason });
            }
        }
    }
    if !gap && (end != header.record_bytes || records != header.records as u64) {
        batch.faults.push(Fault { range: 0..header.bytes(), log: None, reason: "the run table doesn't add up" });
    }
    let padding = header.bytes() as usize..header.padded_bytes() as usize;
    if !is_zero(&bytes[padding.clone()]) {
        batch.faults.push(Fault {
            range: padding.start as u64..padding.end as u64,
            log: None,
            reason: "the padding isn't zero",
        });
    }
    Some(batch)
}

fn check_run(mut bytes: &[u8], run: &Run, seed: u32) -> Result<(), &'static str> {
    for _ in 0..run.records() {
        let (record, rest) = record::split(bytes, seed)?;
        if record.kind != run.kind {
            return Err("a record's kind isn't its run's");
        }
        bytes = rest;
    }
    if bytes.is_empty() { Ok(()) } else { Err("a run is longer than its records") }
}

/// The logs in the run table of a batch whose header can't be read, as far as its rows are right. `whole` if they
/// follow each other without gap and end at most a sector before `length`.
pub(crate) fn logs_behind_bad_header(bytes: &[u8], identity: &Identity, sequence: u64) -> (Vec<LogId>, bool) {
    let seed = identity.batch_seed(sequence);
    let mut logs = Vec::new();
    let mut end = 0;
    let mut rows = 0;
    while let Some(run) =
        bytes.get(BATCH_HEADER_BYTES + rows * RUN_BYTES..).and_then(|row| Run::decode(row, seed, bytes.len() as u64))
    {
        if run.offset as u64 != end {
            return (logs, false);
        }
        end += run.length as u64;
        rows += 1;
        logs.push(run.log);
    }
    logs.sort_unstable();
    logs.dedup();
    let padded = super::pad((BATCH_HEADER_BYTES + rows * RUN_BYTES) as u64 + end);
    (logs, padded == bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::builder::{Builder, Memory};
    use crate::disk::Disk;
    use crate::format::record::{Head, RecordKind};
    use crate::memory_disk::MemoryDisk;
    use crate::types::Payload;

    #[derive(Clone, Debug)]
    enum Append {
        Messages(u64, u64, Vec<(Vec<u8>, usize)>),
        Other(u64, u8, Vec<u8>),
    }

    fn appends() -> impl Strategy<Value = Vec<Append>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..80);
        let append = prop_oneof![
            (0..4u64, 1..1000u64, proptest::collection::vec((bytes(), 0..6000usize), 1..5))
                .prop_map(|(log, first, bodies)| Append::Messages(log, first, bodies)),
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
                Append::Other(log, detail, payload) => {
                    builder.record(LogId(*log), Head::alone(RecordKind::Control, *detail), payload);
                    expected.push((RecordKind::Control, payload.clone()));
                }
            }
        }
        let disk = MemoryDisk::new();
        disk.create("f", 0).unwrap();
        builder.seal().write(&disk, "f", 0, identity).unwrap();
        (disk.content("f").unwrap(), expected)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_built_is_found(appends in appends(), bit in any::<prop::sample::Index>()) {
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
            // Behind a header that is right.
            let header = BatchHeader {
                flags: 0,
                runs: rows,
                sequence: 1,
                first_position: 1,
                records: rows,
                record_bytes: rows as u64 * 12,
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
        let (logs, whole) = logs_behind_bad_header(&bytes, &identity, 9);
        assert_eq!(logs, [LogId(1), LogId(2), LogId(3)]);
        assert!(whole);
    }

    #[test]
    fn records_of_an_earlier_use_of_the_file_are_not_taken_for_new_ones() {
        // The first sector holds header, table and one record; the others hold a record each. In both uses of the file
        // the batch has the same place and layout.
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
            builder.seal().write(&disk, "f", 0, &identity).unwrap();
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
