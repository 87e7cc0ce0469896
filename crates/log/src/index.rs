//! The logs that a file holds, and a sparse index into it: one point per log and 64 KiB, none per message.

use std::mem;

use rustc_hash::FxHashMap;

use crate::format::RUN_BYTES_MAX;
use crate::format::batch::{BatchHeader, RUN_BYTES, RecordRun};
use crate::format::record::RECORD_HEADER_BYTES;
use crate::format::segment_index::{LogIndex, Point};
use crate::types::LogId;

#[derive(Clone, Debug, Default)]
struct Growing {
    index: LogIndex,
    /// Highest number in the file, of messages, chunks and references.
    reached: Option<u64>,
    /// Offset in the file of the run that the last point refers to.
    point_at: u64,
    /// Bytes of the records of its messages.
    length: u64,
}

/// Numbers at which a log's next part begins in a segment, because another file holds messages in between.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breaks(FxHashMap<LogId, Vec<u64>>);

impl Breaks {
    /// The breaks of a segment with this index.
    pub(crate) fn of(parts: &[(LogId, LogIndex)]) -> Breaks {
        let mut breaks = Breaks::default();
        parts.iter().for_each(|(log, index)| breaks.add(*log, index.first));
        breaks
    }

    /// Notes that a part of this log begins at `number`, which is larger than all before.
    pub(crate) fn add(&mut self, log: LogId, number: u64) {
        self.0.entry(log).or_default().push(number);
    }

    /// Whether a part begins after `last` and not after `number`.
    fn is_between(&self, log: LogId, last: u64, number: u64) -> bool {
        let breaks = self.0.get(&log).map_or(&[][..], Vec::as_slice);
        breaks.get(breaks.partition_point(|at| *at <= last)).is_some_and(|at| *at <= number)
    }
}

/// The index of a file that is being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileIndex {
    logs: FxHashMap<LogId, Growing>,
    /// Of a segment: where parts begin, and the complete parts. In a WAL file each log is one part.
    breaks: Option<Breaks>,
    complete: Vec<(LogId, LogIndex)>,
}

impl FileIndex {
    /// The index of a segment, in which a log has several parts if its messages aren't consecutive.
    pub(crate) fn of_segment(breaks: Breaks) -> FileIndex {
        FileIndex { breaks: Some(breaks), ..FileIndex::default() }
    }

    /// Adds a batch that is in the file at `offset`.
    pub(crate) fn note(&mut self, offset: u64, header: &BatchHeader, runs: &[RecordRun]) {
        let records_at = offset + header.prefix_bytes();
        debug_assert_eq!(
            header.prefix_bytes() as usize,
            crate::format::batch::BATCH_HEADER_BYTES + runs.len() * RUN_BYTES
        );
        for (row, run) in runs.iter().enumerate() {
            self.note_run(offset, records_at, row, run);
        }
    }

    pub(crate) fn note_run(&mut self, batch: u64, records_at: u64, row: usize, run: &RecordRun) {
        let log = self.logs.entry(run.log).or_default();
        if run.kind.is_numbered() {
            log.reached = log.reached.max(Some(run.last()));
        }
        if !run.kind.holds_messages() {
            return;
        }
        let at = records_at + run.offset as u64;
        if let Some(breaks) = &self.breaks
            && log.index.messages > 0
            && (run.first <= log.index.last || breaks.is_between(run.log, log.index.last, run.first))
        {
            self.complete.push((run.log, mem::take(&mut log.index)));
        }
        let index = &mut log.index;
        if index.messages == 0 {
            index.first = run.first;
        }
        if index.points.is_empty() || at >= log.point_at + RUN_BYTES_MAX as u64 {
            index.points.push(Point {
                number: run.first,
                batch: u32::try_from(batch).expect("files are below 4 GiB"),
                run: row as u32,
            });
            log.point_at = at;
        }
        index.last = index.last.max(run.last());
        index.messages += run.count as u64;
        index.bytes += run.length as u64 - run.records() * RECORD_HEADER_BYTES as u64;
        log.length += u64::from(run.length);
    }

    pub(crate) fn log(&self, log: LogId) -> Option<&LogIndex> {
        self.logs.get(&log).map(|log| &log.index)
    }

    /// Highest number in the file of a message of this log, including references.
    pub(crate) fn reached(&self, log: LogId) -> Option<u64> {
        self.logs.get(&log)?.reached
    }

    /// Every log with records in the file.
    pub(crate) fn logs(&self) -> impl Iterator<Item = (LogId, &LogIndex)> {
        self.logs.iter().map(|(log, growing)| (*log, &growing.index))
    }

    /// Every log with messages in the file, and the bytes of their records.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (LogId, &LogIndex, u64)> {
        let logs = self.logs.iter().map(|(log, growing)| (*log, &growing.index, growing.length));
        logs.filter(|(_, index, _)| index.messages > 0)
    }

    /// The parts, in order of logs and numbers.
    pub(crate) fn into_parts(self) -> Vec<(LogId, LogIndex)> {
        let mut parts = self.complete;
        parts.extend(self.logs.into_iter().map(|(log, growing)| (log, growing.index)));
        parts.sort_unstable_by_key(|(log, index)| (*log, index.first));
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::RecordKind;

    #[test]
    fn a_point_per_64_kib_and_log() {
        let mut index = FileIndex::default();
        let log = LogId(7);
        for row in 0..100 {
            let run = RecordRun {
                log,
                first: row * 10 + 1,
                offset: row as u32 * 16_384,
                length: 16_384,
                count: 10,
                kind: RecordKind::Message,
            };
            index.note_run(512, 1000, row as usize, &run);
        }
        let found = index.log(log).unwrap();
        assert_eq!((found.first, found.last, found.messages), (1, 1000, 1000));
        assert_eq!(found.points.len(), 25);
        assert_eq!(found.points[1].run, 4);
        assert_eq!(found.points_from(1, 2).len(), 2);
        assert_eq!(found.points_from(0, 100).len(), 25);
        assert_eq!(found.points_from(41, 1)[0].run, 4);
        assert_eq!(found.points_from(40, 1)[0].run, 0);
        assert_eq!(found.points_from(5000, 9).len(), 1);
    }

    #[test]
    fn a_part_ends_at_a_break_and_where_numbers_go_back() {
        let mut breaks = Breaks::default();
        breaks.add(LogId(1), 20);
        // Out of order, parts are split at every break.
        [1, 5, 8].into_iter().for_each(|number| breaks.add(LogId(2), number));
        let mut index = FileIndex::of_segment(breaks);
        for (row, (log, first)) in [(1, 1), (2, 5), (1, 11), (1, 25), (2, 1), (1, 31), (2, 8)].into_iter().enumerate() {
            let run = RecordRun {
                log: LogId(log),
                first,
                offset: row as u32 * 100,
                length: 100,
                count: 3,
                kind: RecordKind::Message,
            };
            index.note_run(512, 1000, row, &run);
        }
        let parts = index.into_parts();
        let found: Vec<_> = parts.iter().map(|(log, part)| (log.0, part.first, part.last, part.messages)).collect();
        assert_eq!(found, [(1, 1, 13, 6), (1, 25, 33, 6), (2, 1, 3, 3), (2, 5, 7, 3), (2, 8, 10, 3)]);
        let rows: Vec<u32> = parts.iter().map(|(_, part)| part.points[0].run).collect();
        assert_eq!(rows, [0, 3, 4, 1, 6], "each can be found");
    }

    #[test]
    fn references_reach_a_number_and_are_no_messages() {
        let mut index = FileIndex::default();
        let log = LogId(1);
        let run = RecordRun { log, first: 7, offset: 0, length: 36, count: 50, kind: RecordKind::References };
        index.note_run(512, 1000, 0, &run);
        assert_eq!(index.reached(log), Some(56));
        assert_eq!(index.log(log).unwrap(), &LogIndex::default());
    }

    #[test]
    fn a_chunk_counts_with_all_its_numbers() {
        let mut index = FileIndex::default();
        let log = LogId(1);
        for (row, (first, count)) in [(0, 50), (50, 1), (51, 200)].into_iter().enumerate() {
            let offset = row as u32 * 70_000;
            let run = RecordRun { log, first, offset, length: 70_000, count, kind: RecordKind::Chunk };
            index.note_run(512, 1000, row, &run);
        }
        assert_eq!(index.reached(log), Some(250));
        let found = index.log(log).unwrap();
        assert_eq!((found.first, found.last, found.messages, found.bytes), (0, 250, 251, 3 * (70_000 - 12)));
        // The chunk that contains the number begins before it.
        let rows: Vec<u32> = [0, 49, 50, 51, 250].iter().map(|from| found.points_from(*from, 1)[0].run).collect();
        assert_eq!(rows, [0, 0, 1, 2, 2]);
    }

    #[test]
    fn settles_touch_a_log_without_messages() {
        let mut index = FileIndex::default();
        let run = RecordRun { log: LogId(1), first: 0, offset: 0, length: 36, count: 1, kind: RecordKind::Settle };
        index.note_run(512, 1000, 0, &run);
        assert_eq!(index.log(LogId(1)).unwrap().messages, 0);
        assert!(index.log(LogId(2)).is_none());
    }
}
