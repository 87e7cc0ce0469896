//! The log: appends enter here; everything else is done by jobs.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::builder::{Builder, Memory};
use crate::commit::Commit;
use crate::error::StorageError;
use crate::format::SECTOR;
use crate::format::batch::{FLAG_CLOSING, FLAG_RESTART, RUN_BYTES};
use crate::format::file_header::FILE_HEADER_BYTES;
use crate::format::record::{Head, RECORD_HEADER_BYTES, RecordKind, encode_range};
use crate::group::Groups;
use crate::job::{Done, Event, JobId, Lane, Next};
use crate::metadata::{Metadata, MetadataStart};
use crate::options::Options;
use crate::read::{ReadPlan, ReadSource};
use crate::retire::Retirement;
use crate::retire::gate::Gate;
use crate::space::Space;
use crate::statistics::Statistics;
use crate::store::Store;
use crate::survey::Survey;
use crate::types::{
    ChunkRecord, JoinChunks, JointRecord, LogId, Nanos, NewChunk, Payload, Position, SettleRange, SettleReason, Wait,
};
use crate::wal::WalFiles;

/// Most sealed batches that may wait. Callers check the room only before a publish, and one publish of a large body
/// to very many queues makes a batch for every few of them.
const CLOSED_BATCHES_MAX: usize = 1 << 16;

/// A write-ahead log with its message stores. Opened by [`crate::recover`].
///
/// Its owner puts it behind a short lock, and runs jobs and read plans outside of that.
#[derive(Debug)]
pub struct Log {
    pub(crate) options: Options,
    /// The batch that records are appended to.
    pub(crate) active: Builder,
    /// Batches that were full before a sync could start; empty unless the disk stalls.
    pub(crate) closed: VecDeque<Builder>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) next_sequence: u64,
    /// Position of the last record that the start found.
    pub(crate) started_at: Position,
    pub(crate) durable: Position,
    pub(crate) wal: WalFiles,
    pub(crate) store: Store,
    pub(crate) commit: Commit,
    pub(crate) retirement: Option<Retirement>,
    pub(crate) rewrite: Option<Retirement>,
    /// Whether live counts of segments changed since a rewrite was last considered.
    pub(crate) rewrite_due: bool,
    pub(crate) survey: Survey,
    pub(crate) gate: Gate,
    pub(crate) space: Space,
    /// Deleted logs, each with the position of its deletion.
    pub(crate) forgotten: FxHashMap<LogId, Position>,
    pub(crate) groups: Groups,
    /// Metadata records that have to be written once more.
    pub(crate) metadata: Metadata,
    pub(crate) next_job_id: u64,
    pub(crate) background: Option<(JobId, crate::background::Doing)>,
    pub(crate) had_room: bool,
    pub(crate) closing: bool,
    pub(crate) statistics: Statistics,
    /// The last batches written to the entry log, whose records its owner still has to find.
    pub(crate) placed: Vec<PlacedBatch>,
    /// Records of the oldest file of the entry log were appended again and aren't durable yet. Until then one file more is allowed.
    pub(crate) is_carrying: bool,
}

/// A batch that was written.
#[derive(Clone, Debug)]
pub(crate) struct PlacedBatch {
    pub sequence: u64,
    /// Sequence of its file.
    pub file: u64,
    /// Offset of its first record there.
    pub records_at: u64,
}

/// The place of a record in a batch that isn't written yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceInBatch {
    pub batch: u64,
    /// Offset of its payload, from the first record on.
    pub at: u64,
}

/// The state that a log starts from.
pub(crate) struct Start {
    pub wal: WalFiles,
    pub store: Store,
    pub durable: Position,
    pub batch: u64,
    pub space: Space,
    pub metadata: MetadataStart,
}

impl Log {
    pub(crate) fn open(options: Options, start: Start, now: Nanos) -> Log {
        let identity = start.wal.current.identity;
        let memory = Memory::with_capacity(options.buffer_bytes);
        let mut active = Builder::new(&identity, start.batch + 1, start.durable + 1, options.inline_below, memory);
        if !planted!(OmitRestart) {
            active.set_flag(FLAG_RESTART);
        }
        let is_out = start.space.is_out;
        let mut log = Log {
            active,
            closed: VecDeque::new(),
            memory: vec![Memory::with_capacity(options.buffer_bytes)],
            next_sequence: start.batch + 2,
            started_at: start.durable,
            durable: start.durable,
            commit: Commit::new(now.saturating_sub(options.sync_idle)),
            wal: start.wal,
            store: start.store,
            retirement: None,
            rewrite: None,
            rewrite_due: false,
            survey: Survey::default(),
            gate: Gate::default(),
            space: start.space,
            forgotten: FxHashMap::default(),
            groups: Groups::default(),
            metadata: Metadata::default(),
            next_job_id: 1,
            background: None,
            had_room: !is_out,
            closing: false,
            statistics: Statistics::default(),
            placed: Vec::new(),
            is_carrying: false,
            options,
        };
        log.continue_metadata(start.metadata, now);
        log
    }

    /// Closes the batch unless records with so many bytes fit into it: what is appended until the caller releases the log is then in one
    /// batch, which is durable as a whole or not at all. More than an empty batch takes isn't.
    pub fn keep_together(&mut self, records: usize, bytes: usize) {
        let bytes = bytes + records * (RECORD_HEADER_BYTES + RUN_BYTES);
        if !self.active.fits(bytes, self.batch_bytes_max()) && !self.active.is_empty() {
            self.close_batch();
        }
    }

    /// Appends messages of a log, numbered from `first` on. Returns the position of the last one.
    ///
    /// Numbers of a log only grow; gaps are allowed.
    ///
    /// # Panics
    /// If a payload is longer than [`Options::max_record_bytes`], after [`Log::close`], or if appends continue for
    /// very long while [`Log::room`] is false.
    pub fn append_messages<'a>(
        &mut self,
        log: LogId,
        first: u64,
        payloads: impl Iterator<Item = Payload<'a>>,
        wait: Wait,
        now: Nanos,
    ) -> Position {
        let count = self.put_messages(log, first, None, payloads);
        self.appended_records(count, wait, now)
    }

    /// Adds messages to the batch, and returns how many.
    #[inline]
    pub(crate) fn put_messages<'a>(
        &mut self,
        log: LogId,
        first: u64,
        group: Option<u16>,
        payloads: impl Iterator<Item = Payload<'a>>,
    ) -> u64 {
        let mut number = first;
        for payload in payloads {
            self.make_room(payload.len());
            self.active.message(log, number, group, &payload);
            number += 1;
        }
        number - first
    }

    /// Appends a chunk: it is one record, which is durable, read, kept and withdrawn as a whole. A log has messages or chunks, never
    /// both. Returns the record's position.
    ///
    /// # Panics
    /// As [`Log::append_messages`], and if it has no messages.
    pub fn append_chunk(&mut self, chunk: &NewChunk<'_>, wait: Wait, now: Nanos) -> Position {
        self.put_chunk(chunk, None);
        self.appended_records(1, wait, now)
    }

    /// As [`Log::append_chunk`], for a chunk that may become part of the record of the chunk before it, if that is the last record and
    /// waits to be written. Both have the same position then, and are durable, read, kept and withdrawn together.
    ///
    /// # Panics
    /// As [`Log::append_chunk`].
    pub fn append_joining_chunk(
        &mut self,
        chunk: &NewChunk<'_>,
        join: &'static dyn JoinChunks,
        wait: Wait,
        now: Nanos,
    ) -> ChunkRecord {
        let NewChunk { log, messages, ref payload, .. } = *chunk;
        assert!(messages > 0, "a chunk without a message");
        self.make_room(payload.len());
        let is_joined = self.active.joined_chunk(log, messages, payload, join);
        if !is_joined {
            self.active.chunk(chunk, None);
        }
        ChunkRecord { position: self.appended_records(1, wait, now), is_joined }
    }

    /// Adds a chunk to the batch.
    pub(crate) fn put_chunk(&mut self, chunk: &NewChunk<'_>, group: Option<u16>) {
        assert!(chunk.messages > 0, "a chunk without a message");
        self.make_room(chunk.payload.len());
        self.active.chunk(chunk, group);
    }

    /// Appends a record saying that a log has messages whose bytes are stored in another log. The owner keeps that place in the state of its checkpoints,
    /// as well as which of the messages are live; they can't be read here. Returns the record's position.
    ///
    /// # Panics
    /// As [`Log::append_messages`], and if there are none.
    pub fn append_references(&mut self, references: &JointRecord<'_>, wait: Wait, now: Nanos) -> Position {
        assert!(references.messages > 0, "references to no message");
        self.make_room(references.payload.len());
        self.active.references(*references);
        self.appended_records(1, wait, now)
    }

    /// Appends that messages left a log. Returns the record's position.
    ///
    /// # Panics
    /// As [`Log::append_messages`].
    pub fn append_settle(
        &mut self,
        log: LogId,
        reason: SettleReason,
        ranges: &[SettleRange],
        wait: Wait,
        now: Nanos,
    ) -> Position {
        self.append_settle_with(log, Head::alone(RecordKind::Settle, reason as u8), ranges, wait, now)
    }

    pub(crate) fn append_settle_with(
        &mut self,
        log: LogId,
        head: Head,
        ranges: &[SettleRange],
        wait: Wait,
        now: Nanos,
    ) -> Position {
        match ranges {
            [range] => self.append_record(log, head, &encode_range(range), wait, now),
            _ => {
                let payload: Vec<u8> = ranges.iter().flat_map(encode_range).collect();
                self.append_record(log, head, &payload, wait, now)
            }
        }
    }

    /// Appends a control record, which belongs to the caller. Returns its position.
    ///
    /// # Panics
    /// As [`Log::append_messages`].
    pub fn append_control(&mut self, log: LogId, kind: u8, payload: &[u8], wait: Wait, now: Nanos) -> Position {
        let position = self.append_record(log, Head::alone(RecordKind::Control, kind), payload, wait, now);
        if log == LogId::METADATA {
            self.note_metadata(kind, payload);
        }
        position
    }

    pub(crate) fn append_record(&mut self, log: LogId, head: Head, payload: &[u8], wait: Wait, now: Nanos) -> Position {
        self.make_room(payload.len());
        self.active.record(log, head, payload);
        self.appended_records(1, wait, now)
    }

    /// Appends a record of the entry log, whose body isn't copied if it is large. Returns its position and its place.
    pub(crate) fn append_to_ring(
        &mut self,
        log: LogId,
        detail: u8,
        payload: &Payload<'_>,
        wait: Wait,
        now: Nanos,
    ) -> (Position, PlaceInBatch) {
        self.make_room(payload.len());
        let at = self.active.record_bytes() + RECORD_HEADER_BYTES as u64;
        let place = PlaceInBatch { batch: self.active.sequence(), at };
        self.active.control(log, detail, payload);
        (self.appended_records(1, wait, now), place)
    }

    /// Closes the batch if the next record doesn't fit into it.
    #[inline]
    pub(crate) fn make_room(&mut self, payload: usize) {
        assert!(
            payload <= self.options.max_record_bytes,
            "a record of {payload} bytes, max_record_bytes is {}",
            self.options.max_record_bytes
        );
        if !self.active.fits(payload, self.batch_bytes_max()) && !self.active.is_empty() {
            self.close_batch();
        }
    }

    fn batch_bytes_max(&self) -> u64 {
        let file = self.options.file_bytes - FILE_HEADER_BYTES;
        (file / SECTOR * SECTOR).min(self.options.buffer_bytes as u64)
    }

    #[cold]
    pub(crate) fn close_batch(&mut self) {
        assert!(self.closed.len() < CLOSED_BATCHES_MAX, "appends went on although the log had no room");
        let next = self.next_builder();
        let full = std::mem::replace(&mut self.active, next);
        self.closed.push_back(full);
        self.commit.batch_closed();
    }

    pub(crate) fn next_builder(&mut self) -> Builder {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let mut builder = Builder::new(
            &self.wal.current.identity,
            sequence,
            self.appended() + 1,
            self.options.inline_below,
            self.memory.pop().unwrap_or_default(),
        );
        builder.set_metadata_mark(self.metadata.mark());
        builder
    }

    #[inline]
    pub(crate) fn appended_records(&mut self, count: u64, wait: Wait, now: Nanos) -> Position {
        assert!(!self.closing, "an append after the log was closed");
        self.commit.note_append(count, wait, now);
        self.had_room = self.had_room && self.room();
        self.appended()
    }

    /// Position of the last appended record.
    #[must_use]
    pub fn appended(&self) -> Position {
        self.active.next_position() - 1
    }

    /// Position up to which all records are durable.
    #[must_use]
    pub fn durable(&self) -> Position {
        #[cfg(feature = "planted-bugs")]
        if self.options.has_bug(crate::options::Bug::ConfirmAtAppend) {
            return self.appended();
        }
        self.durable
    }

    /// Whether publishes may be appended. If not, callers block them until [`Event::Room`]; settles and metadata may
    /// still be appended.
    #[must_use]
    pub fn room(&self) -> bool {
        let reserve = if planted!(SpendReserve) { 0 } else { self.options.reserve_bytes };
        let limit = self.options.buffer_bytes - reserve;
        self.closed.is_empty()
            && (!self.space.is_out || planted!(SpendReserve))
            && self.active.record_bytes() < limit as u64
            && (self.wal.wanted.is_none() || self.may_open_file())
    }

    /// Gives a lane its next job, if there is one.
    pub fn next_job(&mut self, lane: Lane, now: Nanos) -> Next {
        match lane {
            Lane::Commit => self.next_commit_job(now),
            Lane::Background => self.next_background_job(now),
        }
    }

    /// Takes the result of a job. Ask both lanes for their next job afterwards.
    ///
    /// # Errors
    /// The log can't continue: the process ends with this text.
    ///
    /// # Panics
    /// If the job wasn't handed out, or the result doesn't fit the job.
    pub fn complete(
        &mut self,
        id: JobId,
        result: Result<Done, crate::DiskError>,
        now: Nanos,
    ) -> Result<Vec<Event>, StorageError> {
        let done = match result {
            Ok(done) => done,
            Err(error) => {
                return Ok(self.undo(id, error, now)?.into_iter().collect());
            }
        };
        let mut events = Vec::new();
        if self.commit.outstanding == Some(id) {
            self.complete_commit(now, &mut events);
        } else {
            let (expected, doing) = self.background.take().expect("no job was handed out");
            assert_eq!(expected, id, "another job was handed out");
            self.complete_background(doing, done, now, &mut events);
        }
        if !self.had_room && self.room() {
            self.had_room = true;
            events.push(Event::Room);
        }
        Ok(events)
    }

    pub(crate) fn job_id(&mut self) -> JobId {
        self.next_job_id += 1;
        JobId(self.next_job_id)
    }

    /// A plan for reading the first stored message of a log with a number of at least `from` and those after it, up
    /// to about `max_bytes`. Of chunks, the first one is that which contains `from`, or the next one. `None` if no such
    /// message is durable.
    #[must_use]
    pub fn plan_read(&self, log: LogId, from: u64, max_bytes: usize) -> Option<ReadPlan> {
        self.read_source(log, from).map(|source| ReadPlan::new(log, from, max_bytes, &source))
    }

    /// Plans for reading the durable ones of these messages, runs of first and last number, in this order. Each reads up to about
    /// `max_bytes`.
    #[must_use]
    pub fn plan_reads_of(&self, log: LogId, numbers: &[(u64, u64)], max_bytes: usize) -> Vec<ReadPlan> {
        let mut plans: Vec<ReadPlan> = Vec::new();
        for &(mut first, last) in numbers {
            while first <= last
                && let Some(source) = self.read_source(log, first)
                && source.index.first <= last
            {
                let until = last.min(source.index.last);
                if plans.last().is_none_or(|plan| !plan.takes(first, &source)) {
                    plans.push(ReadPlan::only(log, first, max_bytes, &source));
                }
                if let Some(plan) = plans.last_mut() {
                    plan.add(first, until, source.index);
                }
                first = until + 1;
            }
        }
        plans
    }

    /// The file with the first durable message of a log with a number of at least `from`.
    fn read_source(&self, log: LogId, from: u64) -> Option<ReadSource<'_>> {
        if self.forgotten.contains_key(&log) {
            return None;
        }
        if let Some((segment, part)) = self.store.find(log, from) {
            return Some(ReadSource {
                name: &segment.name,
                pin: &segment.pin,
                identity: segment.identity,
                end: segment.end,
                index: &part.index,
                known: None,
            });
        }
        self.wal.full.iter().chain([&self.wal.current]).find_map(|file| {
            let index = file.index.log(log).filter(|index| index.messages > 0 && index.last >= from)?;
            Some(ReadSource {
                name: &file.name,
                pin: &file.pin,
                identity: file.identity,
                end: file.end,
                index,
                known: Some(&file.known),
            })
        })
    }

    /// Notes that a log was deleted, after the record of it was appended. Its messages can't be read any more; its
    /// bytes are removed once the record is durable and a checkpoint reflects it.
    pub fn forget(&mut self, log: LogId) {
        self.forgotten.insert(log, self.appended());
        if self.store.has_log(LogId::SHARED) {
            // The log may have had references.
            self.store.settled.insert(LogId::SHARED);
        }
    }

    /// Stops cleanly: appends the closing record. RecordRun the commit lane until it is idle, and append nothing
    /// afterwards.
    pub fn close(&mut self, now: Nanos) {
        if self.closing {
            return;
        }
        self.finish_metadata(now);
        let head = Head::alone(RecordKind::Close, 0);
        self.append_record(LogId::METADATA, head, &[], Wait::Confirm, now);
        self.active.set_flag(FLAG_CLOSING);
        self.closing = true;
    }

    /// The log's counters.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    pub(crate) fn refresh_statistics(&mut self) {
        let segments = &self.store.segments;
        self.statistics.segments = segments.len() as u64;
        self.statistics.segment_bytes = segments.values().map(|segment| segment.length).sum();
        self.statistics.unretired_files = self.wal.unretired() as u64;
    }
}
