//! Reading stored messages back, outside the log's lock.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::disk::{self, Disk};
use crate::error::{DiskError, Operation, ReadError};
use crate::format::batch::{BATCH_HEADER_BYTES, BatchHeader, RUN_BYTES, RecordRun};
use crate::format::record::{self, RECORD_HEADER_BYTES};
use crate::format::segment_index::{LogIndex, Point};
use crate::format::{Identity, RUN_BYTES_MAX};
use crate::pin::Pin;
use crate::scan::{Wanted, Window};
use crate::types::LogId;
use crate::wal::Known;

/// Most points in one plan; each covers at least 64 KiB of the file.
const POINTS_MAX: usize = 64;
/// Size of the chunks in which headers and run tables are read.
const TABLE_CHUNK: usize = 16 << 10;
/// The same where only some messages, or the beginnings of chunks, are read: most of what follows isn't wanted.
const SKIMMED_TABLE_CHUNK: usize = 4 << 10;
/// The same behind a chunk that was lent, which is so long that little of what follows is with it.
const LENT_TABLE_CHUNK: usize = 1 << 10;
/// Number of bytes that stay in their file and count as one that is read: nobody has to have memory for them.
const LENT_BYTES_PER_BYTE: u64 = 4;
/// Largest chunk in which records are read; the payloads share a chunk's memory.
const RECORD_CHUNK_MAX: usize = 256 << 10;

/// A payload that was left in its file.
#[derive(Clone, Debug)]
pub struct Lent {
    /// The file, as [`Disk::lend`] lends it.
    pub file: Arc<dyn Any + Send + Sync>,
    /// The position of the payload.
    pub at: u64,
    /// Its length in bytes.
    pub length: u64,
}

impl PartialEq for Lent {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && (self.at, self.length) == (other.at, other.length)
    }
}

impl Eq for Lent {}

/// A message or a chunk of messages, as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// The number of the message, or of the chunk's first one.
    pub number: u64,
    /// Number of messages in the payload: 1, except for a chunk.
    pub messages: u16,
    /// Head and body in one; of a payload that was left in its file only the beginning.
    pub payload: Bytes,
    /// The whole payload, if it was left in its file.
    pub lent: Option<Lent>,
}

impl StoredMessage {
    /// The number of the message, or of the chunk's last one.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.number + (u64::from(self.messages) - 1)
    }

    /// Length of the whole payload in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lent.as_ref().map_or(self.payload.len(), |lent| lent.length as usize)
    }

    /// The bytes that it counts as where a read is to be short: of those that were left in their file a part.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.lent.as_ref().map_or(self.payload.len(), |lent| (lent.length / LENT_BYTES_PER_BYTE) as usize)
    }
}

/// The beginning of a chunk, for a decision whether to read the rest.
#[derive(Clone, Copy, Debug)]
pub struct Skimmed<'a> {
    /// The number of the chunk's first message.
    pub number: u64,
    /// The first bytes of the payload, as many as were asked for if it has so many. They aren't checked yet.
    pub bytes: &'a [u8],
}

/// The decision about a chunk, by its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skim {
    /// Reads and returns it.
    Take,
    /// Leaves it in its file, if the disk lends that; takes it otherwise. Nothing else is written there afterwards.
    Lend,
    /// Goes on with the next one.
    Skip,
    /// Ends before it.
    Stop,
}

/// Messages to read from one file. The file is neither recycled nor removed while the plan lives.
#[derive(Debug)]
pub struct ReadPlan {
    log: LogId,
    from: u64,
    max_bytes: usize,
    name: Arc<str>,
    pin: Pin,
    identity: Identity,
    end: u64,
    last: u64,
    points: Vec<Point>,
    /// The numbers to read, in ascending runs of first and last; empty if all from `from` on are read.
    only: Vec<(u64, u64)>,
    known: Known,
}

/// A file to read from.
pub(crate) struct ReadSource<'a> {
    pub name: &'a Arc<str>,
    pub pin: &'a Pin,
    pub identity: Identity,
    pub end: u64,
    pub index: &'a LogIndex,
    /// Of a WAL file only.
    pub known: Option<&'a Known>,
}

impl ReadPlan {
    pub(crate) fn new(log: LogId, from: u64, max_bytes: usize, source: &ReadSource<'_>) -> ReadPlan {
        ReadPlan {
            log,
            from,
            max_bytes,
            name: source.name.clone(),
            pin: source.pin.clone(),
            identity: source.identity,
            end: source.end,
            last: source.index.last,
            points: source.index.points_from(from, POINTS_MAX).to_vec(),
            only: Vec::new(),
            known: source.known.cloned().unwrap_or_default(),
        }
    }

    /// A plan that reads some numbers only: none until [`ReadPlan::add`].
    pub(crate) fn only(log: LogId, from: u64, max_bytes: usize, source: &ReadSource<'_>) -> ReadPlan {
        let last = u64::MAX;
        let known = source.known.cloned().unwrap_or_default();
        let (name, pin) = (source.name.clone(), source.pin.clone());
        let (points, only) = (Vec::new(), Vec::new());
        ReadPlan {
            log,
            from,
            max_bytes,
            name,
            pin,
            identity: source.identity,
            end: source.end,
            last,
            points,
            only,
            known,
        }
    }

    /// Whether numbers from `first` on can be added to the plan, which then stays in ascending order.
    pub(crate) fn takes(&self, first: u64, source: &ReadSource<'_>) -> bool {
        *self.name == **source.name && self.only.last().is_none_or(|(_, last)| *last < first)
    }

    /// Adds numbers that are in the plan's file.
    pub(crate) fn add(&mut self, first: u64, last: u64, index: &LogIndex) {
        let points = index.points_from(first, usize::MAX).iter().enumerate();
        for (_, point) in points.take_while(|(at, point)| *at == 0 || point.number <= last) {
            if self.points.last() != Some(point) {
                self.points.push(*point);
            }
        }
        self.only.push((first, last));
        self.last = last;
    }

    /// Reads at least one message or chunk, in order of numbers, and not beyond the plan's file: ask for the next plan
    /// with the last one's [`StoredMessage::last`] plus one. The first chunk may begin before the requested number.
    ///
    /// # Errors
    /// The bytes aren't those written, or the disk can't read them, before a first message was found.
    pub fn run(&self, disk: &dyn Disk) -> Result<Vec<StoredMessage>, ReadError> {
        self.skim(disk, 0, |_| Skim::Take).map(|(found, _)| found)
    }

    /// Reads as [`ReadPlan::run`] does, of a log of chunks, but asks for each chunk first whether to read it, by its first
    /// `head_bytes` bytes. It may ask again for the first one, if that couldn't be read. Returns the chunks that it read, and the
    /// number behind the last one that it has seen: this plan's first number if it has seen none, which then is the end of what is
    /// readable.
    ///
    /// # Errors
    /// As [`ReadPlan::run`]; before a first chunk was seen.
    pub fn skim(
        &self,
        disk: &dyn Disk,
        head_bytes: usize,
        mut decide: impl FnMut(Skimmed<'_>) -> Skim,
    ) -> Result<(Vec<StoredMessage>, u64), ReadError> {
        disk::repeat(disk, |disk| self.skim_once(disk, head_bytes, &mut decide))
    }

    fn skim_once(
        &self,
        disk: &dyn Disk,
        head_bytes: usize,
        decide: impl FnMut(Skimmed<'_>) -> Skim,
    ) -> Result<(Vec<StoredMessage>, u64), ReadError> {
        let mut reading = Reading {
            plan: self,
            disk,
            head_bytes,
            decide,
            windows: Windows::default(),
            found: Vec::new(),
            bytes: 0,
            seen: self.from,
            next: 0,
            lent: None,
        };
        for (at, point) in self.points.iter().enumerate() {
            match reading.window(point, self.points.get(at + 1)) {
                Ok(true) => {}
                Ok(false) => break,
                // The messages found are good; the next plan will begin with the error.
                Err(_) if reading.seen > self.from => break,
                Err(error) => return Err(error),
            }
        }
        Ok((reading.found, reading.seen))
    }

    fn error(&self, offset: u64, length: u64, reason: &str) -> ReadError {
        ReadError {
            file: self.name.to_string(),
            range: offset..offset + length,
            log: self.log,
            reason: reason.to_owned(),
        }
    }
}

struct Reading<'a, D> {
    plan: &'a ReadPlan,
    disk: &'a dyn Disk,
    /// Bytes of a chunk that `decide` gets; 0 if it isn't asked.
    head_bytes: usize,
    decide: D,
    windows: Windows,
    found: Vec<StoredMessage>,
    bytes: usize,
    /// The number behind the last message that was read or skipped.
    seen: u64,
    /// Index of the first run of [`ReadPlan::only`] that isn't behind the reading.
    next: usize,
    /// The bytes lent last, of the plan's file.
    lent: Option<LentRange>,
}

/// The parts of the file that were read last.
#[derive(Default)]
struct Windows {
    tables: Window,
    heads: Window,
    records: Window,
}

impl Windows {
    /// Where the beginning of a chunk is: often among the bytes of the run table before it, or among those that were read with the
    /// chunk before it.
    fn of_head(&mut self, at: u64, length: usize) -> &mut Window {
        match (self.tables.holds(at, length), self.records.holds(at, length)) {
            (true, _) => &mut self.tables,
            (_, true) => &mut self.records,
            _ => &mut self.heads,
        }
    }
}

/// Bytes of a file that are lent.
struct LentRange {
    file: Arc<dyn Any + Send + Sync>,
    range: Range<u64>,
}

impl<D: FnMut(Skimmed<'_>) -> Skim> Reading<'_, D> {
    /// Reads the runs from a point to the next one of the file, or of the plan. Returns whether more messages are wanted.
    fn window(&mut self, point: &Point, following: Option<&Point>) -> Result<bool, ReadError> {
        let plan = self.plan;
        // Numbers of one log may go back in a segment, where another of its parts begins.
        self.next = plan.only.partition_point(|(_, last)| *last < point.number);
        let stop = following.filter(|_| !plan.only.is_empty()).map_or(u64::MAX, |following| following.number);
        let mut batch = point.batch as u64;
        let mut row = point.run;
        let mut limit = None;
        while batch < plan.end {
            if let Some(next) = plan.known.skip(batch) {
                batch = next;
                row = 0;
                continue;
            }
            let bytes = self.table(batch, BATCH_HEADER_BYTES)?;
            let header = BatchHeader::decode(bytes, &plan.identity, plan.end - batch)
                .ok_or_else(|| plan.error(batch, BATCH_HEADER_BYTES as u64, "a batch header is wrong"))?;
            let seed = plan.identity.batch_seed(header.sequence);
            while row < header.runs {
                let at = batch + BATCH_HEADER_BYTES as u64 + row as u64 * RUN_BYTES as u64;
                let bytes = self.table(at, RUN_BYTES)?;
                let Some(run) = RecordRun::decode(bytes, seed, header.record_bytes) else {
                    if plan.known.is_faulty(batch) {
                        row += 1;
                        continue;
                    }
                    return Err(plan.error(at, RUN_BYTES as u64, "a row of a run table is wrong"));
                };
                let records_at = batch + header.prefix_bytes() + run.offset as u64;
                if records_at >= *limit.get_or_insert(records_at + RUN_BYTES_MAX as u64) {
                    return Ok(true);
                }
                if run.log == plan.log && run.kind.holds_messages() {
                    if run.first >= stop {
                        return Ok(true);
                    }
                    if self.wants(run.first, run.last()) && !self.run(&run, records_at, seed)? {
                        return Ok(false);
                    }
                    if !plan.only.is_empty() {
                        self.pass(run.last() + 1);
                        match plan.only.get(self.next) {
                            None => return Ok(false),
                            Some((first, _)) if *first >= stop => return Ok(true),
                            Some(_) => {}
                        }
                    }
                }
                row += 1;
            }
            batch += header.padded_bytes();
            row = 0;
        }
        Ok(true)
    }

    /// Whether any of these numbers is to be read. None below `first` is asked for later in this window.
    fn wants(&mut self, first: u64, last: u64) -> bool {
        if self.plan.only.is_empty() {
            return last >= self.plan.from;
        }
        self.pass(first);
        self.plan.only.get(self.next).is_some_and(|run| run.0 <= last)
    }

    /// Forgets the numbers to read that are below this one.
    fn pass(&mut self, number: u64) {
        let only = &self.plan.only;
        while only.get(self.next).is_some_and(|run| run.1 < number) {
            self.next += 1;
        }
    }

    /// Takes the messages of a run. Returns whether more messages are wanted.
    fn run(&mut self, run: &RecordRun, at: u64, seed: u32) -> Result<bool, ReadError> {
        let plan = self.plan;
        if self.head_bytes > 0 && run.kind.is_whole_run() {
            match self.decide(run, at)? {
                Skim::Take => {}
                Skim::Lend => {
                    if let Some(lent) = self.lend(run, at)? {
                        let head = self.head(run, at)?;
                        let (number, messages) = (run.first, run.count);
                        let found = StoredMessage { number, messages, payload: head, lent: Some(lent) };
                        (self.seen, self.bytes) = (run.last() + 1, self.bytes + found.weight());
                        self.found.push(found);
                        return Ok(self.bytes < plan.max_bytes && run.last() < plan.last);
                    }
                }
                Skim::Skip => {
                    self.lent = None;
                    self.seen = run.last() + 1;
                    self.bytes += self.head_bytes;
                    return Ok(self.bytes < plan.max_bytes && run.last() != plan.last);
                }
                Skim::Stop => return Ok(false),
            }
        }
        let (mut length, chunk) = self.lengths(run);
        let mut bytes = self.records(at, length, chunk)?;
        let mut start = 0;
        let messages = if run.kind.is_whole_run() { run.count } else { 1 };
        for index in 0..run.records() {
            let (number, last) = run.numbers_of(index).into_inner();
            if !plan.only.is_empty() && !self.wants(number, run.last()) {
                break;
            }
            let mut split = record::split(&bytes[start..], seed);
            if split.is_err() && length < run.length as usize {
                length = run.length as usize;
                bytes = self.records(at, length, chunk)?;
                split = record::split(&bytes[start..], seed);
            }
            let (record, _) = match split {
                Ok(split) => split,
                Err(reason) => match behind(&bytes, start, run).filter(|_| !self.wants(number, last)) {
                    Some(next) => {
                        start = next;
                        continue;
                    }
                    None => return Err(plan.error(at + start as u64, run.length as u64, reason)),
                },
            };
            let payload = start + RECORD_HEADER_BYTES;
            start = payload + record.payload.len();
            if self.wants(number, last) {
                self.bytes += record.payload.len();
                self.seen = last + 1;
                let payload = match plan.only.is_empty() {
                    true if index + 1 == run.records() => part_of(std::mem::take(&mut bytes), payload..start),
                    true => bytes.slice(payload..start),
                    // The others that were read with it aren't kept in memory.
                    false => Bytes::copy_from_slice(record.payload),
                };
                self.found.push(StoredMessage { number, messages, payload, lent: None });
                if self.bytes >= plan.max_bytes || last >= plan.last {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Bytes of a run that are read, and how many are read with them if they are consecutive.
    fn lengths(&self, run: &RecordRun) -> (usize, usize) {
        let plan = self.plan;
        let length = run.length as usize;
        let chunk = plan.max_bytes.clamp(TABLE_CHUNK, RECORD_CHUNK_MAX);
        let within = plan.only.partition_point(|(first, _)| *first <= run.last());
        let Some((_, last)) = within.checked_sub(1).map(|at| plan.only[at]) else { return (length, chunk) };
        if last >= run.last() || run.kind.is_whole_run() {
            return (length, if last > run.last() { chunk } else { 0 });
        }
        // Messages of a run are often of one size. If those up to the last wanted one are longer, the rest is read then.
        let records = (last - run.first + 1) as usize;
        let estimate = (length / usize::from(run.count) + 1) * records;
        (length.min(estimate + estimate / 16), 0)
    }

    fn records(&mut self, at: u64, length: usize, chunk: usize) -> Result<Bytes, ReadError> {
        let plan = self.plan;
        let bytes = self
            .windows
            .records
            .fetch(self.disk, Wanted { file: &plan.name, end: plan.end, offset: at, length, chunk });
        bytes.map_err(|error| ReadError::from_disk(error, plan.log))
    }

    /// Whether to read a chunk.
    fn decide(&mut self, run: &RecordRun, at: u64) -> Result<Skim, ReadError> {
        let (plan, (at, length)) = (self.plan, self.place_of_head(run, at));
        let window = self.windows.of_head(at, length);
        let bytes =
            window.view(self.disk, Wanted { file: &plan.name, end: plan.end, offset: at, length, chunk: length });
        let bytes = bytes.map_err(|error| ReadError::from_disk(error, plan.log))?;
        Ok((self.decide)(Skimmed { number: run.first, bytes }))
    }

    /// The beginning of a chunk.
    fn head(&mut self, run: &RecordRun, at: u64) -> Result<Bytes, ReadError> {
        let (plan, (at, length)) = (self.plan, self.place_of_head(run, at));
        let window = self.windows.of_head(at, length);
        let bytes =
            window.fetch(self.disk, Wanted { file: &plan.name, end: plan.end, offset: at, length, chunk: length });
        bytes.map_err(|error| ReadError::from_disk(error, plan.log))
    }

    fn place_of_head(&self, run: &RecordRun, at: u64) -> (u64, usize) {
        let length = self.head_bytes.min((run.length as usize).saturating_sub(RECORD_HEADER_BYTES));
        (at + RECORD_HEADER_BYTES as u64, length)
    }

    /// The payload of a run that is one record, in its file.
    fn lend(&mut self, run: &RecordRun, at: u64) -> Result<Option<Lent>, ReadError> {
        let (plan, at) = (self.plan, at + RECORD_HEADER_BYTES as u64);
        let length = u64::from(run.length).saturating_sub(RECORD_HEADER_BYTES as u64);
        let is_there = |lent: &LentRange| lent.range.contains(&at) && at + length <= lent.range.end;
        if !self.lent.as_ref().is_some_and(is_there) {
            // One call for all that is wanted costs less than one for each chunk, once it is clear that chunks follow each other.
            let left = plan.max_bytes.saturating_sub(self.bytes) as u64 * LENT_BYTES_PER_BYTE;
            let wanted = if self.lent.is_some() { left } else { 0 };
            let end = (at + wanted).min(plan.end).max(at + length);
            let lent = self.disk.lend(&plan.name, at, end - at).map_err(|error| {
                ReadError::from_disk(DiskError::new(Operation::Read, &plan.name, at, error), plan.log)
            })?;
            self.lent = lent.map(|file| {
                plan.pin.note_lent();
                LentRange { file, range: at..end }
            });
        }
        Ok(self.lent.as_ref().map(|lent| Lent { file: lent.file.clone(), at, length }))
    }

    fn table(&mut self, at: u64, length: usize) -> Result<&[u8], ReadError> {
        let plan = self.plan;
        let is_sparse = self.head_bytes > 0 || !plan.only.is_empty();
        let chunk = match is_sparse {
            true if self.lent.is_some() => LENT_TABLE_CHUNK,
            true => SKIMMED_TABLE_CHUNK,
            false => TABLE_CHUNK,
        };
        self.windows
            .tables
            .view(self.disk, Wanted { file: &plan.name, end: plan.end, offset: at, length, chunk })
            .map_err(|error| ReadError::from_disk(error, plan.log))
    }
}

/// Where the record after a wrong one begins, if all records of the run are where their lengths say: otherwise a wrong length could
/// give messages the numbers of others.
fn behind(bytes: &[u8], start: usize, run: &RecordRun) -> Option<usize> {
    let mut at = 0;
    for _ in 0..run.records() {
        at += record::claimed_bytes(bytes.get(at..)?)?;
    }
    let adds_up = at == bytes.len() && at == run.length as usize;
    record::claimed_bytes(&bytes[start..]).filter(|_| adds_up).map(|length| start + length)
}

/// A part of `bytes`, the owner of which it becomes.
fn part_of(mut bytes: Bytes, range: Range<usize>) -> Bytes {
    bytes.truncate(range.end);
    bytes.advance(range.start);
    bytes
}
