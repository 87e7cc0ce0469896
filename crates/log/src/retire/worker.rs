//! The part of a retirement that touches files: copying what is alive, writing the checkpoint. It runs outside the
//! log's lock, a step at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashSet;

use crate::checkpoint::{CheckpointWriter, Plan};
use crate::disk::{self, Disk};
use crate::error::{DiskError, ReadError};
use crate::format::Identity;
use crate::format::batch::{BATCH_HEADER_BYTES, BatchHeader, RUN_BYTES, Run};
use crate::format::file_header::FILE_HEADER_BYTES;
use crate::format::record::{self, RECORD_HEADER_BYTES, RecordKind};
use crate::index::LogIndex;
use crate::job::LiveState;
use crate::scan::Window;
use crate::segment::SegmentWriter;
use crate::store::{CheckpointFile, Segment};
use crate::types::LogId;
use crate::wal::Known;

/// Bytes that a step reads.
const STEP_BYTES: usize = 1 << 20;
/// Bytes of a segment's batch.
const BATCH_BYTES: u64 = 256 << 10;
/// Bytes of all batches being filled at a time.
const BATCHES_BYTES: u64 = 4 << 20;

/// How far it came.
#[derive(Debug)]
pub(crate) enum Progress {
    More,
    Copied(Copied),
    Checkpoint(CheckpointFile),
}

/// What was copied.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    pub segments: Vec<(u64, Segment, BTreeMap<LogId, LogIndex>)>,
    pub next_segment: u64,
    pub messages: u64,
    pub bytes: u64,
    pub damaged: Vec<ReadError>,
}

/// The WAL file that is retired.
#[derive(Debug)]
pub(crate) struct Origin {
    pub name: Arc<str>,
    pub identity: Identity,
    pub end: u64,
    pub known: Known,
}

/// Limits of the copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub node_id: u64,
    pub wal_id: u16,
    pub inline_below: usize,
    pub mixed_below: u64,
}

/// A retirement at work.
#[derive(Debug)]
pub(crate) struct Worker {
    /// What the owners of the logs answered.
    pub states: BTreeMap<LogId, LiveState>,
    limits: Limits,
    origin: Option<Origin>,
    /// Of the logs in the WAL file; taken when their live bytes were estimated.
    touched: Vec<(LogId, LogIndex)>,
    own: FxHashSet<LogId>,
    /// By log; the mixed one has none.
    writers: BTreeMap<Option<LogId>, SegmentWriter>,
    copied: Copied,
    offset: u64,
    batch: Option<Batch>,
    tables: Window,
    records: Window,
    /// The checkpoint to be written; sorting its entries is nothing to do under the log's lock.
    plan: Option<Plan>,
    checkpoint: Option<CheckpointWriter>,
}

#[derive(Debug)]
struct Batch {
    header: BatchHeader,
    seed: u32,
    table: Bytes,
    row: u32,
}

impl Worker {
    pub(crate) fn new(
        limits: Limits,
        origin: Option<Origin>,
        touched: Vec<(LogId, LogIndex)>,
        next_segment: u64,
    ) -> Worker {
        Worker {
            states: BTreeMap::new(),
            limits,
            origin,
            touched,
            own: FxHashSet::default(),
            writers: BTreeMap::new(),
            copied: Copied { next_segment, ..Copied::default() },
            offset: FILE_HEADER_BYTES,
            batch: None,
            tables: Window::default(),
            records: Window::default(),
            plan: None,
            checkpoint: None,
        }
    }

    pub(crate) fn begin_checkpoint(&mut self, plan: Plan) {
        self.plan = Some(plan);
    }

    /// Goes on for about [`STEP_BYTES`].
    pub(crate) fn step(&mut self, disk: &dyn Disk) -> Result<Progress, DiskError> {
        if let Some(plan) = self.plan.take() {
            self.checkpoint = Some(CheckpointWriter::new(plan, &self.states));
        }
        if let Some(checkpoint) = &mut self.checkpoint {
            let done = checkpoint.step(disk, &self.states)?;
            return Ok(done.map_or(Progress::More, Progress::Checkpoint));
        }
        self.choose_own();
        if !self.copy(disk)? {
            return Ok(Progress::More);
        }
        if let Some((_, writer)) = self.writers.pop_first() {
            self.copied.segments.push(writer.finish(disk)?);
            return Ok(Progress::More);
        }
        if !self.copied.segments.is_empty() {
            disk::sync_directory(disk)?;
        }
        self.copied.segments.sort_by_key(|(id, ..)| *id);
        Ok(Progress::Copied(std::mem::take(&mut self.copied)))
    }

    /// Which logs get a segment of their own.
    fn choose_own(&mut self) {
        for (log, index) in std::mem::take(&mut self.touched) {
            let Some(state) = self.states.get(&log).filter(|_| index.messages > 0) else {
                continue;
            };
            let below = index.first.checked_sub(1).map_or(0, |n| state.live.rank(n));
            let live = state.live.rank(index.last) - below;
            let bytes = u128::from(index.bytes) * u128::from(live) / u128::from(index.messages);
            if bytes >= u128::from(self.limits.mixed_below) {
                self.own.insert(log);
            }
        }
    }

    /// Copies on. Returns whether the file is through.
    fn copy(&mut self, disk: &dyn Disk) -> Result<bool, DiskError> {
        self.tables.taken = 0;
        self.records.taken = 0;
        while let Some(mut batch) = self.next_batch(disk)? {
            while batch.row < batch.header.runs {
                if self.tables.taken + self.records.taken >= STEP_BYTES {
                    self.batch = Some(batch);
                    return Ok(false);
                }
                self.copy_row(disk, &batch)?;
                batch.row += 1;
            }
            self.offset += batch.header.padded_bytes();
        }
        Ok(true)
    }

    fn next_batch(&mut self, disk: &dyn Disk) -> Result<Option<Batch>, DiskError> {
        if let Some(batch) = self.batch.take() {
            return Ok(Some(batch));
        }
        let Some(origin) = &self.origin else {
            return Ok(None);
        };
        let known = origin.known.skip(self.offset).map(|end| (self.offset, end));
        if let Some((start, end)) = known {
            self.damage(start..end, LogId::METADATA, "a batch header is wrong");
            self.offset = end;
            return self.next_batch(disk);
        }
        if self.offset >= origin.end {
            return Ok(None);
        }
        let at = self.offset;
        let tables = &mut self.tables;
        let mut fetch = |at, length| tables.fetch(disk, &origin.name, at, length, 16 << 10, origin.end);
        let bytes = fetch(at, BATCH_HEADER_BYTES)?;
        let room = origin.end - at;
        let Some(header) = BatchHeader::decode(&bytes, &origin.identity, room) else {
            // Without its header nothing behind it can be found; recovery has had a look already, or this file was
            // written by this process: it went bad since.
            let end = origin.end;
            self.damage(at..end, LogId::METADATA, "a batch header is wrong");
            self.offset = end;
            return Ok(None);
        };
        let table = fetch(at + BATCH_HEADER_BYTES as u64, header.runs as usize * RUN_BYTES)?;
        Ok(Some(Batch { header, seed: origin.identity.batch_seed(header.sequence), table, row: 0 }))
    }

    fn damage(&mut self, range: std::ops::Range<u64>, log: LogId, reason: &str) {
        let file = self.origin.as_ref().map_or("", |origin| &origin.name);
        self.copied.damaged.push(ReadError { file: file.to_owned(), range, log, reason: reason.to_owned() });
    }

    fn copy_row(&mut self, disk: &dyn Disk, batch: &Batch) -> Result<(), DiskError> {
        let row = &batch.table[batch.row as usize * RUN_BYTES..];
        let Some(run) = Run::decode(row, batch.seed, batch.header.record_bytes) else {
            let at = self.offset + BATCH_HEADER_BYTES as u64 + batch.row as u64 * RUN_BYTES as u64;
            let range = at..at + RUN_BYTES as u64;
            self.damage(range, LogId::METADATA, "a row of a run table is wrong");
            return Ok(());
        };
        let Some(state) = self.states.get(&run.log) else {
            return Ok(());
        };
        let is_wanted =
            run.kind == RecordKind::Message && (run.first..=run.last()).any(|number| state.live.contains(number));
        if !is_wanted {
            return Ok(());
        }
        let origin = self.origin.as_ref().expect("its batch was read");
        let at = self.offset + batch.header.prefix_bytes() + run.offset as u64;
        let length = run.length as usize;
        let bytes = self.records.fetch(disk, &origin.name, at, length, STEP_BYTES, origin.end)?;
        let mut start = 0;
        for number in run.first..=run.last() {
            let record = match record::split(&bytes[start..], batch.seed) {
                Ok((record, _)) => record,
                Err(reason) => {
                    let range = at + start as u64..at + run.length as u64;
                    self.damage(range, run.log, reason);
                    return Ok(());
                }
            };
            let payload = start + RECORD_HEADER_BYTES;
            start = payload + record.payload.len();
            if self.states[&run.log].live.contains(number) {
                let payload = bytes.slice(payload..start);
                self.keep(disk, run.log, number, &payload)?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, disk: &dyn Disk, log: LogId, number: u64, payload: &Bytes) -> Result<(), DiskError> {
        let key = self.own.contains(&log).then_some(log);
        if !self.writers.contains_key(&key) {
            let id = self.copied.next_segment;
            self.copied.next_segment += 1;
            let limits = self.limits;
            let writer = SegmentWriter::create(disk, limits.node_id, limits.wal_id, id, limits.inline_below)?;
            self.writers.insert(key, writer);
        }
        let batch_bytes = BATCH_BYTES.min(BATCHES_BYTES / self.writers.len() as u64);
        let writer = self.writers.get_mut(&key).expect("it was just made");
        self.copied.messages += 1;
        self.copied.bytes += payload.len() as u64;
        writer.push(disk, log, number, payload, batch_bytes)
    }
}
