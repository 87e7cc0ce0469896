//! Opening a data directory: loads the checkpoint, replays the WAL, and begins a fresh WAL file.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use roaring::RoaringTreemap;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::checkpoint::{self, LostEntries, Unusable};
use crate::disk::{self, Disk};
use crate::error::{DiskError, StorageError};
use crate::format::closed::{CLOSED_BYTES, Closed};
use crate::format::version;
use crate::live_state::LiveState;
use crate::log::{Log, Start};
use crate::names::{self, Name};
use crate::options::Options;
use crate::ring::Ring;
use crate::segment;
use crate::space::Space;
use crate::step::Step;
use crate::store::{CheckpointFile, EntryPlace, Store};
use crate::types::{JointRecord, LogId, Nanos, Position, SettleRange, SettleReason};
use crate::wal::{WalFile, WalFiles};

/// Minimum length of the fresh WAL file on a full disk. If there isn't that much space, the error asks for it.
const FRESH_BYTES_MIN: u64 = 16 << 10;

/// Error text for a segment whose file is missing.
const MISSING: &str = "the file is missing";

mod attentive;
mod certain;
mod fault_list;
mod faults;
mod groups;
mod lost;
mod metadata;
mod replay;
mod ring;

pub use crate::damage::{Damage, Hit, Numbers};
use attentive::AttentiveDisk;
use faults::Faults;
use lost::LostSegments;
use replay::{Replayed, Replaying};
pub(crate) use ring::{look_through_ring, recover_ring};

/// Receives the results of recovery in this order: the states in the checkpoint (metadata first), then later records in
/// order of position. An implementation ignores records of logs that aren't in the metadata any more.
pub trait Replay {
    /// The state of a log at the checkpoint.
    fn restore(&mut self, state: LiveState);
    /// The records that come next are in this file, from this byte on.
    fn run(&mut self, _file: u64, _offset: u64) {}
    /// A message. Its number is at least `next` of the restored state.
    fn message(&mut self, log: LogId, number: u64, payload: &[u8]);
    /// Messages in the WAL, including those that a restored state reflects and that aren't replayed. A check looks for
    /// missing messages with it.
    fn stands(&mut self, _log: LogId, _first: u64, _last: u64) {}
    /// Messages whose bytes are stored in another log. The first number is at least `next` of the restored state.
    fn references(&mut self, record: JointRecord<'_>);
    /// A chunk. The first number is at least `next` of the restored state.
    fn chunk(&mut self, record: JointRecord<'_>);
    /// Withdraws a replayed message whose group was never committed. Its number stays used, but the message was never
    /// in the log.
    fn withdraw(&mut self, log: LogId, number: u64, payload: &[u8]);
    /// As [`Replay::withdraw`] for a replayed chunk.
    fn withdraw_chunk(&mut self, record: JointRecord<'_>);
    /// Messages left a log.
    fn settle(&mut self, log: LogId, reason: SettleReason, ranges: &[SettleRange]);
    /// A control record, which belongs to the caller.
    fn control(&mut self, log: LogId, kind: u8, payload: &[u8]);
    /// The logs among these that have an owner by what was restored so far.
    fn owned(&self, first: LogId, last: LogId) -> Vec<LogId> {
        let _ = (first, last);
        Vec::new()
    }
    /// The numbers among these of `log` that are live after the whole replay, and whose bytes are stored in this log. Recovery
    /// calls this for messages that it finds in no file.
    fn wanted(&self, log: LogId, numbers: &RoaringTreemap) -> RoaringTreemap {
        let _ = log;
        numbers.clone()
    }
}

/// The findings of a recovery.
#[derive(Debug, Default)]
pub struct Report {
    /// Whether a clean stop closed the log, and no damage was found.
    pub clean: bool,
    /// Whether a clean stop closed the log, whatever was damaged since.
    pub closed: bool,
    /// The end of the WAL, if a power cut tore it.
    pub cut: Option<Cut>,
    /// Other damage.
    pub damaged: Vec<Damage>,
    /// Position of the last record.
    pub position: Position,
    /// Records replayed.
    pub replayed: u64,
    /// Records of groups that were never committed, left out.
    pub withdrawn: u64,
    /// Metadata records that were taken from their second copy, because the first one is damaged.
    pub metadata_mended: usize,
    /// Logs restored from the checkpoint.
    pub restored: u64,
    /// Names of removed files: leftovers of interrupted steps.
    pub removed: Vec<String>,
}

/// A batch that a power cut tore, and the batches after it, all of which were written before it was durable. Nothing in
/// them was confirmed except records that only had to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The WAL file.
    pub file: String,
    /// The range of its bytes.
    pub range: Range<u64>,
    /// Name of the `cut-` file that keeps these bytes.
    pub kept: String,
}

/// Opens a data directory and replays it; an empty directory becomes a new log.
///
/// Can be interrupted at any operation and called again. Leaves the directory as it is, apart from leftovers of
/// interrupted steps, the `cut-` file of an invalid last batch, and a fresh WAL file.
///
/// # Errors
/// The disk fails or is full, the files are of another version or node, or damage leaves open which state is right. If
/// something can't be read, nothing was changed.
pub fn recover(
    disk: &dyn Disk,
    options: Options,
    replay: &mut dyn Replay,
    now: Nanos,
) -> Result<(Log, Report), StorageError> {
    options.check().map_err(StorageError::Options)?;
    attentively(disk, |disk| recover_from(disk, options, replay, now))
}

/// Opens files of a directory. An error names what couldn't be read, if anything couldn't: another one may be a consequence of that.
fn attentively<T>(
    disk: &dyn Disk,
    open: impl FnOnce(&AttentiveDisk<'_>) -> Result<T, StorageError>,
) -> Result<T, StorageError> {
    let attentive = AttentiveDisk::new(disk);
    let opened = open(&attentive);
    if opened.is_err() {
        attentive.check()?;
    }
    opened
}

fn recover_from(
    disk: &AttentiveDisk<'_>,
    options: Options,
    replay: &mut dyn Replay,
    now: Nanos,
) -> Result<(Log, Report), StorageError> {
    let mut recovery = Recovery::new(disk, options);
    recovery.attentive = Some(disk);
    recovery.list()?;
    recovery.load_checkpoint(replay)?;
    let Replayed { files: full, position, batch, metadata } = recovery.replay_wal(replay)?;
    // Later than the replay, because it changes the directory, and before anything is retired.
    recovery.faults.store(disk, &recovery.options, &recovery.report.damaged)?;
    recovery.report_lost_segments(&full, replay);
    recovery.remove_leftovers(&full)?;
    let last = full.back().filter(|file| file.last_batch > 0).map_or(0, |file| file.sequence);
    let fresh = recovery.open_fresh_file(last)?;
    let has_reserve = recovery.find_reserve()?;
    let mut report = recovery.report;
    report.position = position;
    report.clean &= report.cut.is_none() && report.damaged.is_empty();
    let space = Space::new(&recovery.options, has_reserve, recovery.out_of_space);
    let wal = WalFiles::new(&recovery.options, full, fresh);
    let start = Start { wal, store: recovery.store, durable: position, batch, space, metadata };
    let mut log = Log::open(recovery.options, start, now);
    log.refresh_statistics();
    Ok((log, report))
}

/// Removes the reserve, because the start needs its space. Returns whether there was a reserve.
fn give_up_reserve(disk: &dyn Disk, options: &Options) -> Result<bool, DiskError> {
    let reserve = options.reserve_file();
    let is_there = disk::list(disk)?.contains(&reserve);
    if is_there {
        disk::remove(disk, &reserve)?;
        disk::sync_directory(disk)?;
    }
    Ok(is_there)
}

/// Writes a whole new file and syncs it. On a full disk it gets the space of the reserve.
fn write_file(disk: &dyn Disk, options: &Options, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
    let write = || {
        disk::create(disk, name, bytes.len() as u64)?;
        disk::write(disk, name, 0, &[bytes])?;
        disk::sync(disk, name)
    };
    match write() {
        Err(error) if error.is_out_of_space() && give_up_reserve(disk, options)? => write(),
        done => done,
    }
}

/// The part of a log's records that the checkpoint reflects: messages below `next`, other records up to `position`.
#[derive(Clone, Copy, Debug, Default)]
struct Covered {
    next: u64,
    position: Position,
}

/// The files of the directory.
#[derive(Debug, Default)]
struct Found {
    wal: Vec<u64>,
    segments: Vec<u64>,
    checkpoints: Vec<u64>,
    /// Second copies of the metadata in checkpoints.
    metadata: Vec<u64>,
    /// First WAL file that the checkpoint doesn't cover.
    floor: u64,
    next_file: u64,
}

impl Found {
    /// The WAL files from `floor` on, each with its successor.
    fn wal_files(&self, floor: u64) -> impl Iterator<Item = (u64, Option<u64>)> {
        let from = self.wal.partition_point(|sequence| *sequence < floor);
        let files = &self.wal[from..];
        files.iter().enumerate().map(|(at, sequence)| (*sequence, files.get(at + 1).copied()))
    }
}

pub(crate) struct Recovery<'a> {
    disk: &'a dyn Disk,
    options: Options,
    report: Report,
    found: Found,
    pub(crate) store: Store,
    /// Ids of the segments in the checkpoint's list.
    named: Vec<u64>,
    covered: FxHashMap<LogId, Covered>,
    out_of_space: bool,
    lost: LostSegments,
    /// A segment's file can't be loaded, or is missing.
    has_damaged_segment: bool,
    /// If no checkpoint can be read: sequence of the newest one, and the reason.
    bad_checkpoint: Option<(u64, Unusable)>,
    /// Damage that earlier starts found.
    faults: Faults,
    /// Content of the `closed-` file of the last clean stop.
    closed: Option<Closed>,
    /// Set to save what can be saved of a directory that a start refuses: what is contradictory or missing is passed over.
    pub(crate) salvages: bool,
    /// The same disk, at a start.
    attentive: Option<&'a AttentiveDisk<'a>>,
    /// Set for an offline check: it looks at the segments' versions too, reports lost segments at once instead of after
    /// the replay, and replays what readers can't reach.
    pub(crate) is_check: bool,
}

/// The findings of a check in checkpoint and WAL.
pub(crate) struct Looked {
    pub damaged: Vec<Damage>,
    /// Damage that an earlier start found in files that were retired since.
    pub retired: Vec<Damage>,
    pub torn: Option<Damage>,
    pub closed: bool,
    /// The WAL files in use.
    pub files: VecDeque<WalFile>,
    /// Position of the last record.
    pub position: Position,
    /// Sequence of the last batch.
    pub batch: u64,
}

/// The result of `load`, which is tried again as [`disk::repeat`] does. What can't be read each time can't be used either.
fn load_again<T>(
    disk: &dyn Disk,
    load: impl Fn(&dyn Disk) -> Result<Result<T, Unusable>, DiskError>,
) -> Result<Result<T, Unusable>, DiskError> {
    let loaded = disk::repeat(disk, |disk| match load(disk) {
        Ok(loaded) => loaded.map_err(Ok),
        Err(error) => Err(Err(error)),
    });
    match loaded {
        Ok(loaded) => Ok(Ok(loaded)),
        Err(Ok(unusable)) => Ok(Err(unusable)),
        Err(Err(error)) if error.is_unreadable() => Ok(Err(Unusable { range: 0..0, reason: error.to_string() })),
        Err(Err(error)) => Err(error),
    }
}

/// Ignores everything that is replayed.
struct Nowhere;

impl Replay for Nowhere {
    fn restore(&mut self, _: LiveState) {}
    fn message(&mut self, _: LogId, _: u64, _: &[u8]) {}
    fn references(&mut self, _: JointRecord<'_>) {}
    fn chunk(&mut self, _: JointRecord<'_>) {}
    fn withdraw(&mut self, _: LogId, _: u64, _: &[u8]) {}
    fn withdraw_chunk(&mut self, _: JointRecord<'_>) {}
    fn settle(&mut self, _: LogId, _: SettleReason, _: &[SettleRange]) {}
    fn control(&mut self, _: LogId, _: u8, _: &[u8]) {}
}

impl<'a> Recovery<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, options: Options) -> Recovery<'a> {
        Recovery {
            disk,
            options,
            report: Report::default(),
            found: Found::default(),
            store: Store::new(),
            named: Vec::new(),
            covered: FxHashMap::default(),
            bad_checkpoint: None,
            out_of_space: false,
            lost: LostSegments::default(),
            has_damaged_segment: false,
            faults: Faults::default(),
            closed: None,
            salvages: false,
            attentive: None,
            is_check: false,
        }
    }

    pub(crate) fn list(&mut self) -> Result<(), StorageError> {
        for text in disk::list(self.disk)? {
            let Options { ring, wal_id, .. } = self.options;
            let is_of_store = ring == Ring::Store;
            match Name::parse(&text, wal_id) {
                Some(name) if ring.sequence_of(name).is_some() => self.found.wal.extend(ring.sequence_of(name)),
                Some(Name::Segment(id)) if is_of_store => self.found.segments.push(id),
                Some(Name::Checkpoint(sequence)) if is_of_store => self.found.checkpoints.push(sequence),
                Some(Name::Metadata(sequence)) if is_of_store => self.found.metadata.push(sequence),
                Some(_) => {}
                None if text == ring.closed(wal_id) => self.read_closed(&text)?,
                None if text == names::faults(wal_id) && is_of_store => {
                    self.faults.load(self.disk, &self.options, &text)?;
                }
                None => {}
            }
        }
        let found = &mut self.found;
        found.wal.sort_unstable();
        found.segments.sort_unstable();
        found.checkpoints.sort_unstable();
        found.next_file = found.wal.last().map_or(1, |last| last + 1);
        let next_segment = found.segments.last().map_or(1, |last| last + 1);
        self.store.next_segment = Arc::new(AtomicU64::new(next_segment));
        self.store.next_checkpoint = found.checkpoints.last().map_or(1, |last| last + 1);
        self.check_versions()
    }

    fn read_closed(&mut self, name: &str) -> Result<(), StorageError> {
        let bytes = disk::read(self.disk, name, 0, CLOSED_BYTES + 1)?;
        self.closed = Closed::decode(&bytes, self.options.node_id, self.options.wal_id);
        if self.closed.is_none() {
            let range = 0..disk::length(self.disk, name)?;
            let nobody = Hit::Logs(Vec::new());
            self.report.damaged.push(Damage::new(name, range, nobody, "the record of the last clean stop isn't whole"));
        }
        Ok(())
    }

    /// Refuses files of another version before anything is read from them or removed.
    fn check_versions(&self) -> Result<(), StorageError> {
        let found = &self.found;
        let wal = found.wal.iter().map(|sequence| self.options.ring.file(*sequence));
        let segments = found.segments.iter().map(|id| Name::Segment(*id)).filter(|_| self.is_check);
        let checkpoints = found.checkpoints.iter().map(|sequence| Name::Checkpoint(*sequence));
        for name in wal.chain(segments).chain(checkpoints) {
            let file = name.text(self.options.wal_id);
            let bytes = disk::read(self.disk, &file, 0, version::PROBE_BYTES)?;
            if let Some(found) = version::other_version(&bytes) {
                return Err(StorageError::Version { file, found });
            }
        }
        Ok(())
    }

    /// Loads the newest checkpoint without damage. If there is none, the newest one with damaged entries is used,
    /// unless the WAL is complete without it. The log of each damaged entry is reported.
    pub(crate) fn load_checkpoint(&mut self, replay: &mut dyn Replay) -> Result<(), StorageError> {
        let wal_id = self.options.wal_id;
        let mut reasons = Vec::new();
        let mut with_damage = None;
        for sequence in self.found.checkpoints.iter().rev() {
            match load_again(self.disk, |disk| checkpoint::load(disk, wal_id, *sequence, |_, _| ()))? {
                Ok(loaded) if loaded.is_whole() => return self.take_checkpoint(loaded, replay),
                Ok(loaded) => with_damage = with_damage.or(Some(loaded)),
                Err(reason) => reasons.push((*sequence, reason)),
            }
        }
        if let Some(loaded) = with_damage
            && (self.salvages || !self.wal_is_complete(loaded.header.batch)?)
        {
            return self.take_checkpoint(loaded, replay);
        }
        if self.salvages {
            return self.scan_checkpoint(replay);
        }
        // The newest one may be torn by a power cut. The replay of the WAL shows whether it is needed.
        self.bad_checkpoint = reasons.into_iter().next();
        Ok(())
    }

    /// Takes the whole states out of the newest checkpoint, none of which can be used as a whole.
    fn scan_checkpoint(&mut self, replay: &mut dyn Replay) -> Result<(), StorageError> {
        let wal_id = self.options.wal_id;
        let (found, mut states) = (&self.found, Vec::new());
        if let Some(sequence) = found.checkpoints.last() {
            checkpoint::scan(self.disk, wal_id, *sequence, |state| states.push(state))?;
        }
        if states.iter().all(|state| state.log != LogId::METADATA) {
            let second = found.metadata.iter().rev();
            let mut second = second.filter_map(|sequence| {
                checkpoint::load_second_metadata(self.disk, wal_id, *sequence).ok().and_then(Result::ok)
            });
            states.extend(second.next());
        }
        // The metadata has the owners of all others.
        states.sort_by_key(|state| state.log);
        for state in states {
            self.covered.insert(state.log, Covered { next: state.next, position: state.position });
            replay.restore(state);
        }
        self.named.clone_from(&self.found.segments);
        Ok(())
    }

    /// Whether the WAL holds every batch from the first up to this one. Then no WAL file was retired yet, so recovery
    /// doesn't need the checkpoint, and its damage may come from a power cut while it was written.
    fn wal_is_complete(&self, batch: u64) -> Result<bool, StorageError> {
        let covered = FxHashMap::default();
        let mut report = Report::default();
        let mut replaying = Replaying::new(self.disk, &self.options, &covered, 0, 0);
        replaying.note_restarts(self.found.wal_files(0).map(|(sequence, _)| sequence))?;
        for (sequence, next) in self.found.wal_files(0) {
            replaying.file(sequence, next, &mut report, &mut Nowhere)?;
        }
        Ok(replaying.first_found == Some(1) && report.damaged.is_empty() && replaying.sequence() >= batch)
    }

    /// Restores the states of a checkpoint that was looked at.
    fn take_checkpoint(&mut self, loaded: checkpoint::Loaded, replay: &mut dyn Replay) -> Result<(), StorageError> {
        let (wal_id, sequence, name) = (self.options.wal_id, loaded.header.sequence, loaded.file.name.to_string());
        if loaded.node_id != self.options.node_id {
            return Err(StorageError::WrongNode { found: loaded.node_id, expected: self.options.node_id });
        }
        let named: BTreeMap<u64, u64> = loaded.segments.iter().copied().collect();
        for (id, length) in named {
            self.named.push(id);
            self.load_segment(id, length)?;
        }
        self.restore_second_metadata(&name, &loaded, replay)?;
        let is_from_second = loaded.damaged.iter().any(|place| place.log == LogId::METADATA);
        // The second pass handles one state after the other, because all together they could be larger than memory.
        let (covered, store, lost) = (&mut self.covered, &mut self.store, &mut self.lost);
        let loaded = checkpoint::load(self.disk, wal_id, sequence, |state, deleted| {
            let cover = Covered { next: state.next, position: state.position };
            covered.insert(state.log, cover);
            store.count_live(state.log, &state.live);
            lost.note(&state, store);
            if !deleted {
                replay.restore(state);
            }
        })?;
        let unreadable = |range, reason: String| StorageError::Checkpoint {
            place: Box::new(Damage::new(&name, range, Hit::Any, reason)),
            others: Vec::new(),
        };
        let mut loaded = loaded.map_err(|found| unreadable(found.range, found.reason))?;
        self.take_lost_entries(&mut loaded, replay);
        // The first pass chose the copy of the metadata that was restored.
        if loaded.damaged.iter().any(|place| place.log == LogId::METADATA) && !is_from_second && !self.salvages {
            return Err(unreadable(0..0, "its metadata was whole at first and then no more".into()));
        }
        // A deleted log has no entry, or one that marks it as deleted.
        let entries = &loaded.file.entries;
        let is_there = |log: LogId| {
            let found = entries.binary_search_by_key(&log, |entry| entry.log);
            found.is_ok_and(|at| entries[at].deleted.is_none())
        };
        self.store.retain_logs(is_there);
        self.store.settled = self.store.logs().collect();
        for place in loaded.damaged.iter().filter(|place| place.log != LogId::METADATA) {
            self.store.frozen.insert(place.log);
            let range = place.offset..place.offset + place.length;
            let logs = Hit::Logs(vec![place.log]);
            self.report.damaged.push(Damage::new(&loaded.file.name, range, logs, "the state of a log is wrong"));
        }
        self.report.restored = self.covered.len() as u64;
        let header = loaded.header;
        if let Some(closed) = self.closed.filter(|closed| closed.checkpoint > sequence) {
            let reason = format!("it is an older checkpoint: the last clean stop left {}", closed.checkpoint);
            self.report.damaged.push(Damage::new(&name, 0..header.length, Hit::Any, reason));
        }
        self.found.floor = header.floor;
        self.found.next_file = self.found.next_file.max(header.next_file);
        self.store.next_segment.fetch_max(header.next_segment, Ordering::Relaxed);
        self.store.retired_position = header.position;
        self.store.retired_batch = header.batch;
        let metadata = if self.store.metadata_is_single { 0 } else { header.metadata };
        self.store.checkpoint = Some(CheckpointFile { metadata, ..loaded.file });
        Ok(())
    }

    /// Reports the logs that entries with a wrong head may be of, and treats them as logs whose entries have wrong content. These are
    /// logs without another entry that have an owner by the checkpoint's metadata, or messages in segments. Some of them may never
    /// have had one.
    fn take_lost_entries(&mut self, loaded: &mut checkpoint::Loaded, replay: &dyn Replay) {
        for range in &loaded.mended {
            let reason =
                "one byte of the head of an entry is wrong; the sums of the entry give the right one, which was used";
            let nobody = Hit::Logs(Vec::new());
            self.report.damaged.push(Damage::new(&loaded.file.name, range.clone(), nobody, reason));
        }
        let mut entries: Vec<EntryPlace> = loaded.file.entries.to_vec();
        let candidates = |lost: &LostEntries| {
            let stored = self.store.logs().filter(|log| (lost.first..=lost.last).contains(log));
            let mut logs: Vec<LogId> = stored.chain(replay.owned(lost.first, lost.last)).collect();
            logs.sort_unstable();
            logs.dedup();
            logs.retain(|log| loaded.file.entries.binary_search_by_key(log, |place| place.log).is_err());
            logs
        };
        let mut found: Vec<Vec<LogId>> = loaded.lost.iter().map(candidates).collect();
        let count: usize = found.iter().map(Vec::len).sum();
        if let Some((lost, logs)) = loaded.lost.last().zip(found.last_mut())
            && count as u64 != loaded.missing
            && lost.last == LogId::SHARED
            && !logs.contains(&LogId::SHARED)
        {
            // All of its messages may be in the WAL, and it has no owner in the metadata.
            logs.push(LogId::SHARED);
        }
        for (lost, logs) in loaded.lost.iter().zip(found) {
            let offset = lost.range.start;
            entries.extend(logs.iter().map(|log| EntryPlace { log: *log, offset, length: 0, deleted: None }));
            self.store.frozen.extend(&logs);
            let reason = match &logs[..] {
                [] => "the head of an entry is wrong, which was of no log that has an owner or messages",
                [_] => "the head of an entry is wrong, and the state of its log is lost",
                _ => "the heads of entries are wrong; it can't be told of which of these logs the state is lost",
            };
            self.report.damaged.push(Damage::new(&loaded.file.name, lost.range.clone(), Hit::Logs(logs), reason));
        }
        entries.sort_unstable_by_key(|place| place.log);
        loaded.file.entries = Arc::new(entries);
    }

    /// Looks at the second copy of the checkpoint's metadata, and restores it if the first one is damaged. The metadata comes
    /// first: it has the owners of all other logs.
    fn restore_second_metadata(
        &mut self,
        checkpoint: &str,
        loaded: &checkpoint::Loaded,
        replay: &mut dyn Replay,
    ) -> Result<(), StorageError> {
        let wal_id = self.options.wal_id;
        let place_of = |place: &EntryPlace| place.offset..place.offset + place.length;
        let damaged = loaded.damaged.iter().find(|place| place.log == LogId::METADATA).map(place_of);
        if damaged.is_none() && loaded.file.entries.iter().all(|place| place.log != LogId::METADATA) {
            return Ok(());
        }
        let sequence = loaded.header.metadata;
        let file = Name::Metadata(sequence).text(wal_id);
        let second = match sequence {
            0 => Err(Unusable { range: 0..0, reason: "an earlier version wrote only one copy".into() }),
            _ => load_again(self.disk, |disk| checkpoint::load_second_metadata(disk, wal_id, sequence))?,
        };
        match (damaged, second) {
            (None, Ok(_)) => {}
            (None, Err(Unusable { range, reason })) => {
                self.store.metadata_is_single = true;
                if sequence > 0 {
                    let reason = format!("the second copy of the metadata is wrong ({reason}); the first one is whole");
                    self.report.damaged.push(Damage::new(&file, range, Hit::Logs(Vec::new()), reason));
                }
            }
            (Some(range), Ok(state)) => {
                self.store.metadata_is_single = true;
                self.report.metadata_mended += 1;
                let reason = format!("the metadata is wrong; its second copy in {file} is whole and was used");
                self.report.damaged.push(Damage::new(checkpoint, range, Hit::Logs(Vec::new()), reason));
                self.covered.insert(LogId::METADATA, Covered { next: state.next, position: state.position });
                replay.restore(state);
            }
            (Some(_), Err(_)) if self.salvages => {}
            (Some(range), Err(second)) => {
                let wrong = "the entry is wrong";
                let places = match sequence {
                    0 => vec![Damage::of_metadata(checkpoint, range, format!("{wrong} ({})", second.reason))],
                    _ => vec![
                        Damage::of_metadata(checkpoint, range, wrong),
                        Damage::of_metadata(&file, second.range, second.reason),
                    ],
                };
                return Err(StorageError::Metadata { places });
            }
        }
        Ok(())
    }

    fn load_segment(&mut self, id: u64, length: u64) -> Result<(), StorageError> {
        let (node_id, wal_id) = (self.options.node_id, self.options.wal_id);
        let name = Name::Segment(id).text(wal_id);
        if self.found.segments.binary_search(&id).is_err() {
            // Its batches may be in a WAL file, which only the index names.
            self.has_damaged_segment = true;
            let reason = "the checkpoint names it";
            if self.is_check {
                let damage = Damage::new(&name, 0..length, Hit::Any, format!("the file is missing ({reason})"));
                self.report.damaged.push(damage);
            } else {
                self.lost.add(id, length, MISSING.into());
            }
            return Ok(());
        }
        // A read with wrong bytes may succeed the next time. Only a segment that fails three times is put aside.
        match disk::repeat(self.disk, |disk| segment::load(disk, node_id, wal_id, id, length)) {
            Ok(segment) => self.store.add(segment),
            Err(segment::LoadError::Disk(error)) => return Err(error.into()),
            Err(segment::LoadError::Damaged(range, reason)) => {
                self.has_damaged_segment = true;
                match self.is_check {
                    true => self.report.damaged.push(Damage::new(&name, range, Hit::Any, reason)),
                    false => self.lost.add(id, length, reason),
                }
            }
        }
        Ok(())
    }

    fn replay_wal(&mut self, replay: &mut dyn Replay) -> Result<Replayed, StorageError> {
        let mut report = std::mem::take(&mut self.report);
        let attentive = self.attentive;
        let replayed = self.replay_files(&mut report, replay)?;
        // Everything was read, and nothing changed so far.
        attentive.map_or(Ok(()), AttentiveDisk::check)?;
        let result = replayed.finish(&mut report, replay);
        report.damaged.extend(self.faults.retired(&self.options, self.found.floor));
        self.report = report;
        result
    }

    /// Replays the WAL for a check. Returns the damage in checkpoint and WAL, and the end of the log.
    pub(crate) fn look_through_wal(&mut self, replay: &mut dyn Replay) -> Result<Looked, StorageError> {
        let mut report = std::mem::take(&mut self.report);
        let replaying = self.replay_files(&mut report, replay)?;
        let (position, batch) = (replaying.position(), replaying.sequence());
        let (torn, files, closed) = replaying.into_doubt(&mut report, replay)?;
        let retired = self.faults.retired(&self.options, self.found.floor);
        Ok(Looked { damaged: report.damaged, retired, torn, closed, files, position, batch })
    }

    /// Ids of the segments that are in the checkpoint's list and have a file.
    pub(crate) fn named_segments(&self) -> Vec<u64> {
        self.named.iter().copied().filter(|id| self.found.segments.binary_search(id).is_ok()).collect()
    }

    /// Name of the checkpoint in force.
    pub(crate) fn checkpoint_name(&self) -> String {
        self.store.checkpoint.as_ref().map(|file| file.name.to_string()).unwrap_or_default()
    }

    /// The damage behind an error that refuses a start.
    pub(crate) fn refused_by(&mut self, error: &StorageError) -> Vec<Damage> {
        let mut damaged = std::mem::take(&mut self.report.damaged);
        match error {
            StorageError::Checkpoint { place, others } => {
                damaged.push(Damage::clone(place));
                damaged.extend_from_slice(others);
            }
            StorageError::Missing { file, reason, others } => {
                damaged.push(Damage::new(file, 0..0, Hit::Any, format!("the file is missing ({reason})")));
                damaged.extend_from_slice(others);
            }
            StorageError::Metadata { places } => damaged.extend_from_slice(places),
            StorageError::Order { file, found, last } => {
                let reason = format!("it begins with batch {found}, although batch {last} comes before it");
                damaged.push(Damage::new(file, 0..0, Hit::Any, reason));
            }
            _ => {}
        }
        damaged
    }

    fn replay_files(&mut self, report: &mut Report, replay: &mut dyn Replay) -> Result<Replaying<'_>, StorageError> {
        let mut replaying = Replaying::new(
            self.disk,
            &self.options,
            &self.covered,
            self.store.retired_position,
            self.store.retired_batch,
        );
        replaying.takes_rest = self.is_check;
        replaying.salvages = self.salvages;
        // The last batch that a clean stop recorded was durable, and so were all batches before it.
        replaying.last_closed = self.closed.as_ref().map_or((0, 0), |closed| (closed.batch, closed.file));
        replaying.note_restarts(self.found.wal_files(self.found.floor).map(|(sequence, _)| sequence))?;
        if self.options.ring == Ring::Entries {
            replaying.find_beginning(&self.found.wal)?;
        }
        for (sequence, next) in self.found.wal_files(self.found.floor) {
            replaying.file(sequence, next, report, replay)?;
        }
        self.must_have_begun(&mut replaying, report, replay)?;
        match &self.closed {
            Some(closed) => replaying.must_reach(closed, report, replay),
            // A start can do without it. Only it tells whether the log went further.
            None if self.is_check && replaying.has_closed => {
                let name = self.options.ring.closed(self.options.wal_id);
                let reason = "the record of the last clean stop is missing";
                report.damaged.push(Damage::new(&name, 0..0, Hit::Logs(Vec::new()), reason));
            }
            None => {}
        }
        replaying.must_reach_states(report, replay);
        // The entry log begins with any batch: its first files are used again.
        if self.salvages || self.options.ring == Ring::Entries {
            return Ok(replaying);
        }
        // Without a checkpoint the WAL has to begin with batch 1, or with damaged bytes of the file that had it. That isn't enough if
        // batches are missing later on: batch 1 may be in a leftover file, while the files after it were retired under the checkpoint
        // that can't be read.
        let has_beginning = replaying.first_found == Some(1) || replaying.is_first_file;
        let is_retired = self.bad_checkpoint.is_some() && replaying.has_gap;
        let begins = self.store.checkpoint.is_some() || has_beginning && !is_retired;
        if let Some((sequence, found)) = self.bad_checkpoint.as_ref().filter(|_| !begins) {
            let name = Name::Checkpoint(*sequence).text(self.options.wal_id);
            let place = Box::new(Damage::new(&name, found.range.clone(), Hit::Any, found.reason.clone()));
            return Err(StorageError::Checkpoint { place, others: replaying.damage_behind_first(report) });
        }
        match replaying.first_found.filter(|_| !begins) {
            Some(first) => Err(StorageError::Missing {
                file: "the checkpoint".into(),
                reason: format!("the log begins with batch {first}"),
                others: replaying.damage_behind_first(report),
            }),
            None => Ok(replaying),
        }
    }

    /// The header of a file says in which one the log was when it was prepared: that one has to be there, with a batch.
    fn must_have_begun(
        &self,
        replaying: &mut Replaying<'_>,
        report: &mut Report,
        replay: &mut dyn Replay,
    ) -> Result<(), StorageError> {
        let floor = self.lowest_file();
        let Some((sequence, by)) = replaying.named_by.clone().filter(|(sequence, _)| *sequence >= floor) else {
            return Ok(());
        };
        replaying.was_begun(sequence, report, replay);
        if replaying.is_in_use(sequence) || self.salvages {
            return Ok(());
        }
        let problem = match self.found.wal.binary_search(&sequence) {
            Ok(_) => "has no batch any more",
            Err(_) => "isn't there",
        };
        let file = self.options.ring.file(sequence).text(self.options.wal_id);
        let reason = format!(
            "it {problem}, although the log had durable batches in it, behind batch {}, when {by} was prepared",
            replaying.sequence()
        );
        match self.options.ring {
            Ring::Store => Err(StorageError::Missing { file, reason, others: report.damaged.clone() }),
            Ring::Entries => {
                report.damaged.push(Damage::new(&file, 0..0, Hit::Any, reason));
                Ok(())
            }
        }
    }

    /// Sequence of the first file that has to be there, if it was ever begun.
    fn lowest_file(&self) -> u64 {
        match self.options.ring {
            Ring::Store => self.found.floor,
            // All before it were used again.
            Ring::Entries => self.found.wal.first().copied().unwrap_or(0),
        }
    }

    /// Removes leftovers of interrupted steps. If anything is damaged, segments and copies of metadata stay, because they may
    /// have the only copy of something. A file that can't be used stays where it is: once its bytes are right again, it is used
    /// again.
    fn remove_leftovers(&mut self, full: &VecDeque<WalFile>) -> Result<(), StorageError> {
        let wal_id = self.options.wal_id;
        let mut names = self.leftovers(full);
        if planted!(DeleteNamedSegment) {
            names.extend(self.found.segments.last().map(|id| Name::Segment(*id)));
        }
        if !self.report.damaged.is_empty() {
            names.retain(|name| !matches!(name, Name::Segment(_) | Name::Metadata(_)));
        }
        // After a kill, the checkpoint in force may be in the page cache only. It has to be durable before the files
        // that it replaces are removed.
        if !names.is_empty() {
            let is_replaced = |name: &Name| match name {
                Name::Checkpoint(_) => true,
                Name::Wal(sequence) => *sequence < self.found.floor,
                Name::Segment(_) | Name::Metadata(_) | Name::Entries(_) => false,
            };
            let is_doubtful = names.iter().any(is_replaced) && !planted!(TrustCheckpoint);
            match &self.store.checkpoint {
                Some(file) if is_doubtful && self.report.damaged.is_empty() => {
                    certain::write_again(self.disk, &file.name)?;
                }
                Some(file) => disk::sync(self.disk, &file.name)?,
                None => {}
            }
            disk::sync_directory(self.disk)?;
        }
        names.retain(|name| !self.may_be_kept(*name));
        for name in names {
            let text = name.text(wal_id);
            disk::remove(self.disk, &text)?;
            self.report.removed.push(text);
        }
        Ok(())
    }

    /// Whether this file may have the batches of a segment whose index can't be read.
    pub(crate) fn may_be_kept(&self, name: Name) -> bool {
        self.has_damaged_segment && matches!(name, Name::Wal(sequence) if sequence < self.found.floor)
    }

    /// Files that no start needs: WAL files below the floor or without a batch, all checkpoints but the one in force,
    /// segments that it doesn't list, and second copies of metadata that aren't its own.
    pub(crate) fn leftovers(&self, full: &VecDeque<WalFile>) -> Vec<Name> {
        let is_kept = |sequence: &u64| full.iter().any(|file| file.sequence == *sequence);
        let current = self.store.checkpoint.as_ref().and_then(|file| Name::parse(&file.name, self.options.wal_id));
        let checkpoints = self.found.checkpoints.iter().map(|sequence| Name::Checkpoint(*sequence));
        let segments: FxHashSet<Name> =
            self.store.kept_files().filter_map(|name| Name::parse(name, self.options.wal_id)).collect();
        let is_segment = |name: &Name| segments.contains(name) && !planted!(RemoveKeptFile);
        let second = self.store.checkpoint.as_ref().map_or(0, |file| file.metadata);
        let metadata = self.found.metadata.iter().filter(|sequence| **sequence != second);
        let metadata = metadata.map(|sequence| Name::Metadata(*sequence));
        let wal = self.found.wal.iter().filter(|sequence| !is_kept(sequence));
        let orphans = self.found.segments.iter().filter(|id| self.named.binary_search(id).is_err());
        checkpoints
            .filter(|name| Some(*name) != current)
            .chain(wal.map(|sequence| self.options.ring.file(*sequence)).filter(|name| !is_segment(name)))
            .chain(orphans.map(|id| Name::Segment(*id)))
            .chain(metadata)
            .collect()
    }

    /// Creates the fresh WAL file, behind the last one with a batch. On a full disk, removes the reserve first, and then tries shorter files.
    fn open_fresh_file(&mut self, last: u64) -> Result<WalFile, StorageError> {
        let mut length = self.options.file_bytes;
        loop {
            match self.make_fresh_file(length, last) {
                Err(error) if error.is_out_of_space() => {
                    self.out_of_space = true;
                    let name = self.options.ring.file(self.found.next_file).text(self.options.wal_id);
                    Step::Discard(name.as_str().into()).run(self.disk)?;
                    if give_up_reserve(self.disk, &self.options)? {
                        continue;
                    }
                    if length / 2 >= FRESH_BYTES_MIN {
                        length /= 2;
                    } else {
                        return Err(StorageError::NoSpace { file: name, needed: FRESH_BYTES_MIN, error });
                    }
                }
                done => return Ok(done?),
            }
        }
    }

    /// Whether the reserve exists and has its full length.
    fn find_reserve(&self) -> Result<bool, DiskError> {
        let reserve = self.options.reserve_file();
        let is_there = disk::list(self.disk)?.contains(&reserve);
        Ok(is_there && disk::length(self.disk, &reserve)? == self.options.disk_reserve())
    }

    fn make_fresh_file(&mut self, length: u64, last: u64) -> Result<WalFile, DiskError> {
        let file = WalFile { after: last, ..WalFile::new(&self.options, self.found.next_file, length) };
        disk::create(self.disk, &file.name, length)?;
        disk::write(self.disk, &file.name, 0, &[&file.header().encode()])?;
        disk::sync(self.disk, &file.name)?;
        disk::sync_directory(self.disk)?;
        Ok(file)
    }
}
