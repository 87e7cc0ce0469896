//! The part of a move that touches files: copies live messages, and writes the checkpoint. It runs outside the log's
//! lock, a step at a time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use roaring::RoaringTreemap;
use rustc_hash::FxHashSet;

use crate::checkpoint::{CheckpointWriter, Plan};
use crate::disk::{self, Disk, READS_MAX, Repeated};
use crate::error::{DiskError, Operation, ReadError};
use crate::format::batch::{BATCH_HEADER_BYTES, BatchHeader, RUN_BYTES, RecordRun};
use crate::format::file_header::FILE_HEADER_BYTES;
use crate::format::record::{self, RECORD_HEADER_BYTES, RecordKind};
use crate::format::segment_index::LogIndex;
use crate::format::{Identity, RUN_BYTES_MAX, SECTOR};
use crate::index::Breaks;
use crate::live_state::LiveState;
use crate::names::Name;
use crate::pin::Pin;
use crate::retire::keep::Keep;
use crate::retire::lost::Losses;
use crate::scan::{Wanted, Window, find_batch};
use crate::segment::SegmentWriter;
use crate::store::CheckpointFile;
use crate::store::NewSegment;
use crate::types::{LogId, NewChunk, Payload};
use crate::wal::Known;

/// Bytes that a step reads.
const STEP_BYTES: usize = 1 << 20;
/// Bytes of a batch in a segment.
const BATCH_BYTES: u64 = 256 << 10;
/// Bytes of all batches being filled at the same time.
const BATCHES_BYTES: u64 = 4 << 20;

/// The progress of a worker.
#[derive(Debug)]
pub(crate) enum Progress {
    More(CopiedPart),
    Copied(Copied),
    Checkpoint(CheckpointFile),
}

/// How much of the first file to copy from has been copied, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopiedPart {
    pub copied: u64,
    pub of: u64,
}

/// The result of copying.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    pub segments: Vec<NewSegment>,
    pub messages: u64,
    pub bytes: u64,
    /// Lost messages, by log; damage that hit no live message counts for the metadata.
    pub damaged: Vec<ReadError>,
}

impl Copied {
    /// Whether bytes of this file are wrong.
    pub(crate) fn has_damage_in(&self, file: &str) -> bool {
        self.damaged.iter().any(|error| error.file == file)
    }
}

/// A file to copy from: the WAL file that is retired, or a segment.
#[derive(Debug)]
pub(crate) struct Origin {
    pub name: Arc<str>,
    pub identity: Identity,
    pub end: u64,
    pub known: Known,
    /// Keeps a segment, which another move's checkpoint may take out of use meanwhile.
    pub _pin: Option<Pin>,
}

/// Options of the copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub node_id: u64,
    pub wal_id: u16,
    pub inline_below: usize,
    pub mixed_below: u64,
}

/// The file work of a retirement or rewrite.
#[derive(Debug)]
pub(crate) struct Worker {
    /// The answers of the logs' owners.
    pub states: BTreeMap<LogId, LiveState>,
    /// The numbers at which the parts of logs begin in the new segments.
    pub breaks: Breaks,
    /// The WAL file to retire, if it may become a segment as it is.
    pub keep: Option<Keep>,
    limits: Limits,
    /// Files to copy from; the first one is being copied.
    origins: VecDeque<Origin>,
    /// The logs and messages in the origins.
    touched: Vec<(LogId, LogIndex)>,
    has_chosen: bool,
    own: FxHashSet<LogId>,
    /// By log; the mixed segment's key is `None`.
    writers: BTreeMap<Option<LogId>, SegmentWriter>,
    next_segment: Arc<AtomicU64>,
    /// The file that was created or finished last.
    begun: Option<Arc<str>>,
    copied: Copied,
    losses: Losses,
    offset: u64,
    batch: Option<Batch>,
    tables: Window,
    records: Window,
    /// The checkpoint to write; its entries are sorted here, outside the log's lock.
    plan: Option<Plan>,
    /// The second copy of its metadata, which is written before it.
    second_metadata: Option<CheckpointWriter>,
    /// That file, as long as the checkpoint isn't complete.
    second_name: Option<Arc<str>>,
    checkpoint: Option<CheckpointWriter>,
}

/// The records of a run.
#[derive(Debug)]
struct Records {
    bytes: Bytes,
    are_right: bool,
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
        origins: VecDeque<Origin>,
        touched: Vec<(LogId, LogIndex)>,
        next_segment: Arc<AtomicU64>,
    ) -> Worker {
        Worker {
            states: BTreeMap::new(),
            breaks: Breaks::default(),
            keep: None,
            limits,
            origins,
            touched,
            has_chosen: false,
            own: FxHashSet::default(),
            writers: BTreeMap::new(),
            next_segment,
            begun: None,
            copied: Copied::default(),
            losses: Losses::default(),
            offset: FILE_HEADER_BYTES,
            batch: None,
            tables: Window::default(),
            records: Window::default(),
            plan: None,
            second_metadata: None,
            second_name: None,
            checkpoint: None,
        }
    }

    /// Drops the states: a rewrite doesn't put them into its checkpoint, since the entries in force may be newer.
    pub(crate) fn forget_states(&mut self) {
        self.states.clear();
    }

    pub(crate) fn begin_checkpoint(&mut self, plan: Plan) {
        self.plan = Some(plan);
    }

    /// Gives up all files being written. Returns their names.
    pub(crate) fn abandon(&mut self) -> Vec<Arc<str>> {
        self.second_metadata = None;
        if let Some(checkpoint) = self.checkpoint.take() {
            return std::iter::once(checkpoint.name()).chain(self.second_name.take()).collect();
        }
        let (node, writers) = (self.copied.segments.drain(..), std::mem::take(&mut self.writers));
        let mut names: Vec<Arc<str>> = node.map(|written| written.segment.named_file().0.clone()).collect();
        names.extend(writers.into_values().map(|writer| writer.name));
        names.extend(self.begun.take());
        names
    }

    /// Works on about [`STEP_BYTES`].
    pub(crate) fn step(&mut self, disk: &dyn Disk) -> Result<Progress, DiskError> {
        if let Some(plan) = self.plan.take() {
            self.second_metadata = CheckpointWriter::second_metadata(&plan, &self.states);
            self.second_name = self.second_metadata.as_ref().map(CheckpointWriter::name);
            self.checkpoint = Some(CheckpointWriter::new(plan, &self.states));
        }
        if let Some(second) = &mut self.second_metadata {
            if second.step(disk, &self.states)?.is_some() {
                self.second_metadata = None;
            }
            return Ok(Progress::More(self.part()));
        }
        if let Some(checkpoint) = &mut self.checkpoint {
            let done = checkpoint.step(disk, &self.states)?;
            return Ok(done.map_or(Progress::More(self.part()), Progress::Checkpoint));
        }
        if let Some(keep) = self.keep.take()
            && let Some((file, parts)) = keep.decide(&self.states)
        {
            self.origins.clear();
            let id = self.next_segment.fetch_add(1, Ordering::Relaxed);
            self.begun = Some(Name::Segment(id).text(self.limits.wal_id).into());
            self.copied.segments.push(file.finish(disk, id, parts)?);
        }
        self.choose_own();
        if !self.copy(disk)? {
            return Ok(Progress::More(self.part()));
        }
        if let Some((_, writer)) = self.writers.pop_first() {
            self.begun = Some(writer.name.clone());
            self.copied.segments.push(writer.finish(disk)?);
            return Ok(Progress::More(self.part()));
        }
        if !self.copied.segments.is_empty() && !planted!(SkipSegmentDirectorySync) {
            disk::sync_directory(disk)?;
        }
        self.copied.segments.sort_by_key(|segment| segment.id);
        self.copied.damaged = std::mem::take(&mut self.losses).report(&self.touched, &self.states);
        Ok(Progress::Copied(std::mem::take(&mut self.copied)))
    }

    fn part(&self) -> CopiedPart {
        self.origins
            .front()
            .map_or(CopiedPart { copied: 1, of: 1 }, |origin| CopiedPart { copied: self.offset, of: origin.end })
    }

    /// Chooses the logs that get a segment of their own.
    fn choose_own(&mut self) {
        if std::mem::replace(&mut self.has_chosen, true) {
            return;
        }
        for (log, index) in &self.touched {
            let Some(state) = self.states.get(log).filter(|_| index.messages > 0) else {
                continue;
            };
            let below = index.first.checked_sub(1).map_or(0, |n| state.live.rank(n));
            let live = state.live.rank(index.last) - below;
            let bytes = u128::from(index.bytes) * u128::from(live) / u128::from(index.messages);
            if bytes >= u128::from(self.limits.mixed_below) {
                self.own.insert(*log);
            }
        }
    }

    /// Continues copying. Returns whether all files are done.
    fn copy(&mut self, disk: &dyn Disk) -> Result<bool, DiskError> {
        self.tables.taken = 0;
        self.records.taken = 0;
        while !self.origins.is_empty() {
            let Some(mut batch) = self.next_batch(disk)? else {
                self.origins.pop_front();
                self.offset = FILE_HEADER_BYTES;
                self.tables.forget();
                self.records.forget();
                continue;
            };
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

    /// The next batch of the first file, if there is one.
    fn next_batch(&mut self, disk: &dyn Disk) -> Result<Option<Batch>, DiskError> {
        if let Some(batch) = self.batch.take() {
            return Ok(Some(batch));
        }
        let mut reads = 1;
        loop {
            let origin = &self.origins[0];
            if let Some(end) = origin.known.skip(self.offset) {
                self.damage(self.offset..end, None, "a batch header is wrong");
                self.offset = end;
                continue;
            }
            if self.offset >= origin.end {
                return Ok(None);
            }
            let (at, end, identity) = (self.offset, origin.end, origin.identity);
            if reads < READS_MAX {
                if let Some(batch) = self.whole_batch(&Repeated { disk, before: reads - 1 }, at)? {
                    return Ok(Some(batch));
                }
                reads += 1;
                self.tables.forget();
                continue;
            }
            let disk = &Repeated { disk, before: reads - 1 };
            let Some(bytes) = self.table(disk, at, BATCH_HEADER_BYTES)? else {
                // Without its header nothing after it can be found. Recovery has already read this file, or this
                // process wrote it: the damage is newer.
                self.damage(at..end, None, "a batch header can't be read");
                return Ok(None);
            };
            let Some(header) = BatchHeader::decode(&bytes, &identity, end - at) else {
                let later = find_batch(disk, &self.origins[0].name, &identity, at + SECTOR, end, 0)?;
                let later = later.map_or(end, |(later, _)| later);
                self.damage(at..later, None, "a batch header is wrong");
                self.offset = later;
                self.tables.forget();
                reads = 1;
                continue;
            };
            let (table_at, length) = (at + BATCH_HEADER_BYTES as u64, header.runs as usize * RUN_BYTES);
            match self.table(disk, table_at, length)? {
                Some(table) => {
                    return Ok(Some(Batch { header, seed: identity.batch_seed(header.sequence), table, row: 0 }));
                }
                None => {
                    self.damage(at..at + header.padded_bytes(), None, "a run table can't be read");
                    self.offset = at + header.padded_bytes();
                    reads = 1;
                }
            }
        }
    }

    /// The batch at `at`, if its header and all rows are readable and valid. The caller gets the very bytes that were
    /// checked, not those of another read.
    fn whole_batch(&mut self, disk: &dyn Disk, at: u64) -> Result<Option<Batch>, DiskError> {
        let (end, identity) = (self.origins[0].end, self.origins[0].identity);
        let header = self.table(disk, at, BATCH_HEADER_BYTES)?;
        let Some(header) = header.and_then(|bytes| BatchHeader::decode(&bytes, &identity, end - at)) else {
            return Ok(None);
        };
        let length = header.runs as usize * RUN_BYTES;
        let Some(table) = self.table(disk, at + BATCH_HEADER_BYTES as u64, length)? else { return Ok(None) };
        let seed = identity.batch_seed(header.sequence);
        let is_right =
            table.chunks_exact(RUN_BYTES).all(|row| RecordRun::decode(row, seed, header.record_bytes).is_some());
        Ok(is_right.then_some(Batch { header, seed, table, row: 0 }))
    }

    /// Bytes of headers and tables; `None` if the file ends before them.
    fn table(&mut self, disk: &dyn Disk, at: u64, length: usize) -> Result<Option<Bytes>, DiskError> {
        let origin = &self.origins[0];
        fetch(&mut self.tables, disk, origin, at, length, 16 << 10)
    }

    fn damage(&mut self, range: Range<u64>, log: Option<LogId>, reason: &str) {
        self.losses.damage(&self.origins[0].name, range, log, reason);
    }

    fn copy_row(&mut self, disk: &dyn Disk, batch: &Batch) -> Result<(), DiskError> {
        let row = &batch.table[batch.row as usize * RUN_BYTES..];
        let Some(run) = RecordRun::decode(row, batch.seed, batch.header.record_bytes) else {
            let at = self.offset + BATCH_HEADER_BYTES as u64 + batch.row as u64 * RUN_BYTES as u64;
            self.damage(at..at + RUN_BYTES as u64, None, "a row of a run table is wrong");
            return Ok(());
        };
        let Some(state) = self.states.get(&run.log) else {
            return Ok(());
        };
        let is_wanted = run.kind.holds_messages() && has_live(&state.live, run.kind, run.first..=run.last());
        if !is_wanted {
            return Ok(());
        }
        let at = self.offset + batch.header.prefix_bytes() + run.offset as u64;
        let Some(Records { bytes, are_right }) = self.records(disk, at, &run, batch.seed)? else {
            self.damage(at..at + run.length as u64, Some(run.log), "the bytes can't be read");
            return Ok(());
        };
        if are_right && run.length as usize <= RUN_BYTES_MAX && self.keeps_all_of(&run) {
            return self.keep_run(disk, &run, &bytes);
        }
        let mut start = 0;
        for index in 0..run.records() {
            let split = match are_right {
                true => record::split_checked(&bytes[start..]),
                false => record::split(&bytes[start..], batch.seed),
            };
            let record = match split {
                Ok((record, _)) => record,
                Err(reason) => {
                    let range = at + start as u64..at + run.length as u64;
                    self.damage(range, Some(run.log), reason);
                    return Ok(());
                }
            };
            let payload = start + RECORD_HEADER_BYTES;
            start = payload + record.payload.len();
            let numbers = run.numbers_of(index);
            if self.is_lost(&run, *numbers.end()) {
                continue;
            }
            // A chunk with a dead message is copied as a whole.
            if has_live(&self.states[&run.log].live, run.kind, numbers.clone()) {
                let payload = bytes.slice(payload..start);
                self.keep(disk, &run, numbers, &payload)?;
            }
        }
        Ok(())
    }

    /// Whether every message of a run is live, as in a queue without consumers.
    fn keeps_all_of(&self, run: &RecordRun) -> bool {
        let mut numbers = run.first..=run.last();
        self.states[&run.log].live.contains_range(numbers.clone()) && !numbers.any(|number| self.is_lost(run, number))
    }

    /// Whether a planted fault loses this message.
    fn is_lost(&self, run: &RecordRun, number: u64) -> bool {
        let is_last = number == run.last();
        if planted!(RetireOneTooFew) && is_last && number > run.first {
            return true;
        }
        if planted!(LoseContainerEdge) && number % 65_536 == 65_535 {
            return true;
        }
        planted!(DropLiveByRewrite) && self.limits.mixed_below == u64::MAX && is_last
    }

    /// The records of a run, valid if some read returns them so; `None` if the file ends before them.
    fn records(&mut self, disk: &dyn Disk, at: u64, run: &RecordRun, seed: u32) -> Result<Option<Records>, DiskError> {
        let length = run.length as usize;
        let mut best = None;
        for before in 0..READS_MAX {
            let (origin, disk) = (&self.origins[0], &Repeated { disk, before });
            if let Some(bytes) = fetch(&mut self.records, disk, origin, at, length, STEP_BYTES)? {
                let are_right = are_right(&bytes, run.records(), seed);
                best = Some(Records { bytes, are_right });
                if are_right {
                    break;
                }
            }
            self.records.forget();
        }
        Ok(best)
    }

    /// Copies a record of a run, which has the messages with these numbers.
    fn keep(
        &mut self,
        disk: &dyn Disk,
        run: &RecordRun,
        numbers: RangeInclusive<u64>,
        payload: &Bytes,
    ) -> Result<(), DiskError> {
        let first = *numbers.start();
        let mut dead = RoaringTreemap::new();
        if run.kind == RecordKind::Chunk {
            dead.insert_range(numbers.clone());
            dead -= &self.states[&run.log].live;
        }
        self.copied.messages += *numbers.end() - first + 1;
        self.copied.bytes += payload.len() as u64;
        self.losses.kept(run.log, numbers);
        let (writer, batch_bytes) = self.writer(disk, run.log)?;
        match run.kind {
            RecordKind::Chunk => {
                if !dead.is_empty() {
                    writer.note_dead(run.log, &dead);
                }
                writer.push_chunk(
                    disk,
                    &NewChunk {
                        log: run.log,
                        first,
                        messages: run.count,
                        payload: Payload { head: &[], body: Some(payload) },
                    },
                    batch_bytes,
                )
            }
            _ => writer.push(disk, run.log, first, payload, batch_bytes),
        }
    }

    /// As [`Worker::keep`] for all messages of a run, without a look-up for each.
    fn keep_run(&mut self, disk: &dyn Disk, run: &RecordRun, records: &[u8]) -> Result<(), DiskError> {
        self.copied.messages += u64::from(run.count);
        self.copied.bytes += records.len() as u64 - run.records() * RECORD_HEADER_BYTES as u64;
        self.losses.kept(run.log, run.first..=run.last());
        let (writer, batch_bytes) = self.writer(disk, run.log)?;
        writer.push_run(disk, run, records, batch_bytes)
    }

    /// The writer for messages of a log, and the size of its batches in bytes.
    fn writer(&mut self, disk: &dyn Disk, log: LogId) -> Result<(&mut SegmentWriter, u64), DiskError> {
        let key = self.own.contains(&log).then_some(log);
        if !self.writers.contains_key(&key) {
            let id = self.next_segment.fetch_add(1, Ordering::Relaxed);
            let limits = self.limits;
            let breaks = std::mem::take(&mut self.breaks);
            self.begun = Some(Name::Segment(id).text(limits.wal_id).into());
            let writer = SegmentWriter::create(disk, limits.node_id, limits.wal_id, id, limits.inline_below, breaks)?;
            self.writers.insert(key, writer);
        }
        let batch_bytes = BATCH_BYTES.min(BATCHES_BYTES / self.writers.len() as u64);
        Ok((self.writers.get_mut(&key).expect("it was just made"), batch_bytes))
    }
}

/// Whether one of the messages with these numbers is live.
fn has_live(live: &RoaringTreemap, kind: RecordKind, numbers: RangeInclusive<u64>) -> bool {
    if kind == RecordKind::Chunk && planted!(DropChunkByFirst) {
        return live.contains(*numbers.start());
    }
    live.contains(*numbers.start()) || numbers.start() < numbers.end() && live.range_cardinality(numbers) > 0
}

/// Whether all records of a run are valid.
fn are_right(bytes: &[u8], records: u64, seed: u32) -> bool {
    let mut start = 0;
    let each_is_right = (0..records).all(|_| match record::split(&bytes[start..], seed) {
        Ok((record, _)) => {
            start += RECORD_HEADER_BYTES + record.payload.len();
            true
        }
        Err(_) => false,
    });
    each_is_right && start == bytes.len()
}

/// The bytes, or `None` if the file ends before their end. An error of the device says nothing about the bytes: if it comes each
/// time, the file isn't copied.
fn fetch(
    window: &mut Window,
    disk: &dyn Disk,
    origin: &Origin,
    at: u64,
    length: usize,
    chunk: usize,
) -> Result<Option<Bytes>, DiskError> {
    let mut reads = 1;
    loop {
        let disk = &Repeated { disk, before: reads - 1 };
        match window.fetch(disk, Wanted { file: &origin.name, end: origin.end, offset: at, length, chunk }) {
            Err(error) if error.operation == Operation::Read && reads < READS_MAX => {
                window.forget();
                reads += 1;
            }
            fetched => return fetched.map(|bytes| (bytes.len() == length).then_some(bytes)),
        }
    }
}
