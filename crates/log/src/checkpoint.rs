//! Writing a checkpoint in pieces, and loading one.
//!
//! The entry of the metadata stands once more in a file of its own, which has the form of a checkpoint with that entry alone. It
//! is written before the first checkpoint with this entry, and stays as long as checkpoints have it.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use roaring::RoaringTreemap;
use rustc_hash::FxHashSet;

use crate::disk::{self, Disk, READS_MAX, Repeated};
use crate::error::{DiskError, Operation};
use crate::format::checkpoint::{
    ENTRY_BYTES, Entry, FOOTER_BYTES, HEADER_BYTES, Header, NEXT_DELETED, SEGMENT_ROW_BYTES,
};
use crate::format::u64_at;
use crate::live_state::LiveState;
use crate::names::Name;
use crate::scan::{Wanted, Window};
use crate::store::{CheckpointFile, EntryPlace};
use crate::types::{LogId, Position};

/// Bytes written by one step.
const PIECE_BYTES: usize = 1 << 20;
/// Size of the chunks in which entries of the old checkpoint are read.
const CHUNK_BYTES: usize = 64 << 10;

/// The content of a checkpoint, apart from the states.
#[derive(Debug)]
pub(crate) struct Plan {
    pub header: Header,
    pub node_id: u64,
    pub wal_id: u16,
    /// Id and length of each segment.
    pub segments: Vec<(u64, u64)>,
    /// The previous checkpoint, which provides the states of logs that weren't asked.
    pub old: Option<CheckpointFile>,
    /// Deleted logs, each with the position up to which its records are void.
    pub removed: Vec<(LogId, Position)>,
    /// Logs whose entries in the previous checkpoint are damaged.
    pub frozen: FxHashSet<LogId>,
}

#[derive(Debug)]
enum Origin {
    Asked(LogId),
    Deleted(LogId, Position),
    Old(EntryPlace),
    /// A log whose entry in the previous checkpoint has a wrong head.
    Lost(LogId),
}

impl EntryPlace {
    fn of(entry: &Entry, offset: u64, length: u64) -> Self {
        let deleted = (entry.next == NEXT_DELETED).then_some(entry.position);
        EntryPlace { log: entry.log, offset, length, deleted }
    }
}

/// A checkpoint being written.
#[derive(Debug)]
pub(crate) struct CheckpointWriter {
    name: Arc<str>,
    old: Option<Arc<str>>,
    header: Header,
    origins: std::vec::IntoIter<Origin>,
    entries: Vec<EntryPlace>,
    /// Logs whose old entries are damaged: they are copied as they are, so that each start finds that.
    frozen: FxHashSet<LogId>,
    /// Bytes not written yet, and their offset in the file.
    buffer: Vec<u8>,
    written: u64,
    window: Window,
    created: bool,
}

impl CheckpointWriter {
    pub(crate) fn new(mut plan: Plan, states: &BTreeMap<LogId, LiveState>) -> CheckpointWriter {
        plan.removed.sort_unstable();
        let is_removed = |log: &LogId| plan.removed.binary_search_by_key(log, |(log, _)| *log).is_ok();
        let retired = plan.header.position;
        let old_entries = plan.old.iter().flat_map(|old| old.entries.iter());
        // A deletion has to stay in the checkpoint until the last record of the log is retired.
        let is_over = |deleted: Option<Position>| deleted.is_some_and(|position| position <= retired);
        let mut origins: Vec<(LogId, Origin)> = old_entries
            .filter(|entry| !states.contains_key(&entry.log) && !is_removed(&entry.log))
            .filter(|entry| !is_over(entry.deleted))
            .map(|entry| match entry.deleted {
                Some(position) => (entry.log, Origin::Deleted(entry.log, position)),
                None if entry.length == 0 => (entry.log, Origin::Lost(entry.log)),
                None => (entry.log, Origin::Old(*entry)),
            })
            .chain(states.keys().filter(|log| !is_removed(log)).map(|log| (*log, Origin::Asked(*log))))
            .collect();
        let deleted = plan.removed.iter().filter(|(_, position)| !is_over(Some(*position)));
        origins.extend(deleted.map(|(log, position)| (*log, Origin::Deleted(*log, *position))));
        origins.sort_unstable_by_key(|(log, _)| *log);
        let origins: Vec<Origin> = origins.into_iter().map(|(_, origin)| origin).collect();
        let metadata = match states.contains_key(&LogId::METADATA) {
            true => plan.header.sequence,
            false => plan.old.as_ref().map_or(0, |old| old.metadata),
        };
        let header = Header { metadata, ..plan.header };
        let name = Name::Checkpoint(header.sequence);
        Self::begin(name, plan, header, origins, states)
    }

    /// The second copy of the metadata, if this checkpoint has new metadata.
    pub(crate) fn second_metadata(plan: &Plan, states: &BTreeMap<LogId, LiveState>) -> Option<CheckpointWriter> {
        let origins = vec![Origin::Asked(states.get(&LogId::METADATA)?.log)];
        let frozen = FxHashSet::default();
        let plan = Plan { segments: Vec::new(), old: None, removed: Vec::new(), frozen, ..*plan };
        let name = Name::Metadata(plan.header.sequence);
        let header = plan.header;
        Some(Self::begin(name, plan, header, origins, states))
    }

    fn begin(
        name: Name,
        plan: Plan,
        header: Header,
        origins: Vec<Origin>,
        states: &BTreeMap<LogId, LiveState>,
    ) -> CheckpointWriter {
        let rows: Vec<u8> =
            plan.segments.iter().flat_map(|(id, length)| [id.to_le_bytes(), length.to_le_bytes()].concat()).collect();
        let contents: u64 = origins
            .iter()
            .map(|origin| match origin {
                Origin::Asked(log) => entry(&states[log]).length().expect("fits memory"),
                Origin::Deleted(..) | Origin::Lost(_) => ENTRY_BYTES as u64,
                Origin::Old(place) => place.length,
            })
            .sum();
        let header = Header {
            segments: plan.segments.len() as u32,
            logs: origins.len() as u32,
            length: (HEADER_BYTES + rows.len() + FOOTER_BYTES) as u64 + contents,
            rows_crc: crc32c::crc32c(&rows),
            ..header
        };
        let mut buffer = header.encode(plan.node_id, plan.wal_id).to_vec();
        buffer.extend_from_slice(&rows);
        CheckpointWriter {
            name: name.text(plan.wal_id).into(),
            old: plan.old.map(|old| old.name),
            header,
            origins: origins.into_iter(),
            entries: Vec::new(),
            frozen: plan.frozen,
            buffer,
            written: 0,
            window: Window::default(),
            created: false,
        }
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// Writes a piece. Returns the checkpoint once it is durable.
    pub(crate) fn step(
        &mut self,
        disk: &dyn Disk,
        states: &BTreeMap<LogId, LiveState>,
    ) -> Result<Option<CheckpointFile>, DiskError> {
        if !self.created {
            disk::create(disk, &self.name, self.header.length)?;
            self.created = true;
        }
        while self.buffer.len() < PIECE_BYTES {
            let Some(origin) = self.origins.next() else {
                return self.finish(disk).map(Some);
            };
            self.add(disk, &origin, states)?;
        }
        disk::write(disk, &self.name, self.written, &[&self.buffer])?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(None)
    }

    fn add(&mut self, disk: &dyn Disk, origin: &Origin, states: &BTreeMap<LogId, LiveState>) -> Result<(), DiskError> {
        let offset = self.written + self.buffer.len() as u64;
        let (log, length, deleted) = match origin {
            Origin::Deleted(log, position) => {
                let entry = Entry {
                    log: *log,
                    next: NEXT_DELETED,
                    position: *position,
                    bytes: 0,
                    live_length: 0,
                    state_length: 0,
                };
                self.buffer.extend_from_slice(&entry.encode(&[], &[]));
                (*log, ENTRY_BYTES as u64, Some(*position))
            }
            Origin::Lost(log) => {
                self.buffer.extend_from_slice(&Entry::encode_lost(*log));
                (*log, ENTRY_BYTES as u64, None)
            }
            Origin::Asked(log) => {
                let state = &states[log];
                let entry = entry(state);
                let mut live = Vec::with_capacity(entry.live_length as usize);
                state.live.serialize_into(&mut live).expect("memory takes it");
                self.buffer.extend_from_slice(&entry.encode(&live, &state.state));
                self.buffer.extend_from_slice(&live);
                self.append_state(disk, &state.state)?;
                (*log, entry.length().expect("fits memory"), None)
            }
            Origin::Old(place) => {
                let old = self.old.as_ref().expect("it has entries");
                let end = place.offset + place.length.max(CHUNK_BYTES as u64);
                for reads in 1..=READS_MAX {
                    let disk = Repeated { disk, before: reads - 1 };
                    let bytes = self.window.fetch(
                        &disk,
                        Wanted {
                            file: old,
                            end,
                            offset: place.offset,
                            length: place.length as usize,
                            chunk: CHUNK_BYTES,
                        },
                    )?;
                    let is_right = Entry::decode(&bytes).is_some() && Entry::content_is_whole(&bytes);
                    if is_right || self.frozen.contains(&place.log) {
                        self.buffer.extend_from_slice(&bytes);
                        break;
                    }
                    if reads == READS_MAX {
                        // It went bad since the start. The owner has the state in memory.
                        let error = io::Error::new(io::ErrorKind::InvalidData, "a state has wrong bytes");
                        return Err(DiskError::new(Operation::Read, old, place.offset, error));
                    }
                    self.window.forget();
                }
                (place.log, place.length, place.deleted)
            }
        };
        self.entries.push(EntryPlace { log, offset, length, deleted });
        Ok(())
    }

    /// Appends a log's state. A large one, of a queue with millions of expiry times, isn't copied once more.
    fn append_state(&mut self, disk: &dyn Disk, state: &[u8]) -> Result<(), DiskError> {
        if state.len() < PIECE_BYTES {
            self.buffer.extend_from_slice(state);
            return Ok(());
        }
        disk::write(disk, &self.name, self.written, &[&self.buffer, state])?;
        self.written += (self.buffer.len() + state.len()) as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(&mut self, disk: &dyn Disk) -> Result<CheckpointFile, DiskError> {
        self.buffer.extend_from_slice(&self.header.footer());
        let length = self.written + self.buffer.len() as u64;
        assert_eq!(length, self.header.length, "the checkpoint is as long as planned");
        disk::write(disk, &self.name, self.written, &[&self.buffer])?;
        if !planted!(SkipCheckpointSync) {
            disk::sync(disk, &self.name)?;
        }
        disk::sync_directory(disk)?;
        let entries = Arc::new(std::mem::take(&mut self.entries));
        Ok(CheckpointFile { name: self.name.clone(), entries, metadata: self.header.metadata })
    }
}

fn entry(state: &LiveState) -> Entry {
    Entry {
        log: state.log,
        next: state.next,
        position: state.position,
        bytes: state.bytes,
        live_length: state.live.serialized_size() as u64,
        state_length: state.state.len() as u64,
    }
}

/// A checkpoint that was read.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub header: Header,
    pub node_id: u64,
    pub segments: Vec<(u64, u64)>,
    pub file: CheckpointFile,
    /// Entries with wrong content; that of the metadata also with a wrong head.
    pub damaged: Vec<EntryPlace>,
    /// Places of entries with a wrong head, apart from that of the metadata.
    pub lost: Vec<LostEntries>,
    /// Number of entries in these.
    pub missing: u64,
    /// Places of entries of whose heads one byte is wrong, and known.
    pub mended: Vec<Range<u64>>,
}

impl Loaded {
    /// Whether every entry is as written.
    pub(crate) fn is_whole(&self) -> bool {
        self.damaged.is_empty() && self.lost.is_empty() && self.mended.is_empty()
    }
}

/// Bytes between two entries that had one or more entries, whose logs aren't known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostEntries {
    pub range: Range<u64>,
    /// The logs that they may be of: entries are in order of logs.
    pub first: LogId,
    pub last: LogId,
}

impl LostEntries {
    /// The only entry in these bytes and its state, if one byte of its head is wrong. That of the metadata isn't mended: its second
    /// copy makes it whole again.
    fn mend(&self, bytes: &[u8]) -> Option<(EntryPlace, LiveState)> {
        let entry = Entry::mend(bytes)?;
        let is_of_owner = entry.log != LogId::METADATA && (self.first..=self.last).contains(&entry.log);
        let state = if is_of_owner { decode_content(&entry, bytes)? } else { return None };
        Some((EntryPlace::of(&entry, self.range.start, bytes.len() as u64), state))
    }
}

/// The reason why a checkpoint can't be used at all.
#[derive(Debug)]
pub(crate) struct Unusable {
    /// The wrong bytes.
    pub range: Range<u64>,
    pub reason: String,
}

/// Reads a checkpoint and passes on each state and whether the log was deleted. If the file can't be used at all,
/// returns the reason.
pub(crate) fn load(
    disk: &dyn Disk,
    wal_id: u16,
    sequence: u64,
    restore: impl FnMut(LiveState, bool),
) -> Result<Result<Loaded, Unusable>, DiskError> {
    load_file(disk, wal_id, Name::Checkpoint(sequence), restore)
}

/// Reads the file with the second copy of the metadata. If it can't be used, returns the wrong bytes and the reason.
pub(crate) fn load_second_metadata(
    disk: &dyn Disk,
    wal_id: u16,
    sequence: u64,
) -> Result<Result<LiveState, Unusable>, DiskError> {
    let mut found = None;
    let loaded = load_file(disk, wal_id, Name::Metadata(sequence), |state, _| found = Some(state))?;
    Ok(loaded.and_then(|loaded| {
        let reason = || match loaded.damaged.first() {
            Some(place) => (place.offset..place.offset + place.length, "the entry is wrong"),
            None => (0..loaded.header.length, "there is no metadata"),
        };
        found.filter(|state| state.log == LogId::METADATA).ok_or_else(|| {
            let (range, reason) = reason();
            Unusable { range, reason: reason.into() }
        })
    }))
}

/// As [`load`], for a checkpoint or the second copy of one's metadata.
///
/// # Panics
/// With the name of another file.
pub(crate) fn load_file(
    disk: &dyn Disk,
    wal_id: u16,
    name: Name,
    mut restore: impl FnMut(LiveState, bool),
) -> Result<Result<Loaded, Unusable>, DiskError> {
    let unusable = |range, reason: String| Ok(Err(Unusable { range, reason }));
    let head_range = 0..HEADER_BYTES as u64;
    let (Name::Checkpoint(sequence) | Name::Metadata(sequence)) = name else { panic!("{name:?} is no checkpoint") };
    let name: Arc<str> = name.text(wal_id).into();
    let length = disk::length(disk, &name)?;
    let head = disk::read(disk, &name, 0, HEADER_BYTES)?;
    let Some((header, node_id)) = Header::decode(&head, wal_id) else {
        return unusable(head_range, "the header is wrong".into());
    };
    if header.sequence != sequence || header.length != length {
        let reason = match header.sequence == sequence {
            true => format!("the file has {length} bytes, its header says {}", header.length),
            false => format!("it is checkpoint {}, whatever its name says", header.sequence),
        };
        return unusable(0..length, reason);
    }
    let rows_length = header.segments as u64 * SEGMENT_ROW_BYTES as u64;
    let Some(footer_at) = length.checked_sub(FOOTER_BYTES as u64).filter(|at| HEADER_BYTES as u64 + rows_length <= *at)
    else {
        return unusable(head_range, "the header doesn't add up".into());
    };
    let rows = disk::read(disk, &name, HEADER_BYTES as u64, rows_length as usize)?;
    let footer = disk::read(disk, &name, footer_at, FOOTER_BYTES)?;
    if crc32c::crc32c(&rows) != header.rows_crc {
        return unusable(head_range.end..head_range.end + rows_length, "the list of segments is wrong".into());
    }
    if footer != header.footer() {
        return unusable(footer_at..length, "the footer is wrong".into());
    }
    let from = HEADER_BYTES as u64 + rows_length;
    let Entries { entries, mut damaged, mut lost, mended } = read_entries(disk, &name, from..footer_at, &mut restore)?;
    let found = (entries.len() + lost.len()) as u64;
    let logs = u64::from(header.logs);
    if let Some(wrong) = lost.first().filter(|_| found > logs) {
        return unusable(wrong.range.clone(), format!("the entry at byte {} is wrong", wrong.range.start));
    }
    if found > logs || found < logs && lost.is_empty() {
        return unusable(0..length, format!("the file has {found} entries, its header says {logs}"));
    }
    let mut missing = logs - entries.len() as u64;
    // The metadata comes first.
    if let Some(first) = lost.first().filter(|first| first.first == LogId::METADATA) {
        let Range { start, end } = first.range;
        damaged.push(EntryPlace { log: LogId::METADATA, offset: start, length: end - start, deleted: None });
        match missing == lost.len() as u64 {
            true => drop(lost.remove(0)),
            false => lost[0].first = LogId(LogId::METADATA.0 + 1),
        }
        missing -= 1;
    }
    Ok(Ok(Loaded {
        header,
        node_id,
        segments: rows.chunks_exact(SEGMENT_ROW_BYTES).map(|row| (u64_at(row, 0), u64_at(row, 8))).collect(),
        file: CheckpointFile { name, entries: Arc::new(entries), metadata: header.metadata },
        damaged,
        lost,
        missing,
        mended,
    }))
}

/// The entries of a checkpoint.
struct Entries {
    entries: Vec<EntryPlace>,
    damaged: Vec<EntryPlace>,
    lost: Vec<LostEntries>,
    /// Places of entries of whose heads one byte is wrong, and known.
    mended: Vec<Range<u64>>,
}

/// Reads the entries in a range of a checkpoint's file, and passes their states to `restore`.
fn read_entries(
    disk: &dyn Disk,
    name: &Arc<str>,
    range: Range<u64>,
    restore: &mut impl FnMut(LiveState, bool),
) -> Result<Entries, DiskError> {
    let mut window = Window::default();
    let mut entries = Vec::new();
    let mut damaged = Vec::new();
    let mut lost: Vec<LostEntries> = Vec::new();
    let mut mended = Vec::new();
    let (mut offset, footer_at) = (range.start, range.end);
    while offset < footer_at {
        let last: Option<LogId> = entries.last().map(|place: &EntryPlace| place.log);
        let Some((entry, length)) = entry_at(disk, name, &mut window, offset, footer_at)? else {
            let next = next_entry(disk, name, &mut window, offset + ENTRY_BYTES as u64, footer_at, last)?;
            let (end, before) = next.map_or((footer_at, None), |(at, log)| (at, Some(log)));
            let bytes = window.fetch(
                disk,
                Wanted { file: name, end: footer_at, offset, length: (end - offset) as usize, chunk: CHUNK_BYTES },
            )?;
            let lost_here = LostEntries {
                range: offset..end,
                first: last.map_or(LogId(0), |last| LogId(last.0.saturating_add(1))),
                last: before.map_or(LogId(u64::MAX), |log| LogId(log.0.saturating_sub(1))),
            };
            match lost_here.mend(&bytes) {
                Some((place, state)) => {
                    restore(state, place.deleted.is_some());
                    entries.push(place);
                    mended.push(offset..end);
                }
                None => lost.push(lost_here),
            }
            offset = end;
            continue;
        };
        let place = EntryPlace::of(&entry, offset, length);
        // A read with wrong bytes may succeed the next time, and the caller may be past the point where it could begin anew.
        let state = disk::repeat(disk, |disk| {
            let bytes = window
                .fetch(disk, Wanted { file: name, end: footer_at, offset, length: length as usize, chunk: CHUNK_BYTES })
                .map_err(Some)?;
            decode_state(&entry, &bytes).ok_or_else(|| {
                window.forget();
                None
            })
        });
        let state = match state {
            Err(Some(error)) => return Err(error),
            state => state.ok(),
        };
        match state {
            Some(state) => restore(state, place.deleted.is_some()),
            None => damaged.push(place),
        }
        entries.push(place);
        offset += length;
    }
    Ok(Entries { entries, damaged, lost, mended })
}

/// The head that these bytes begin with and the length of its entry, if the head is right and the entry at `at` ends before `end`.
fn head(bytes: &[u8], at: u64, end: u64) -> Option<(Entry, u64)> {
    let entry = Entry::decode(bytes)?;
    let length = entry.length()?;
    at.checked_add(length).is_some_and(|behind| behind <= end).then_some((entry, length))
}

/// The head of the entry at this place, and the length of the entry, if the head is right.
fn entry_at(
    disk: &dyn Disk,
    name: &str,
    window: &mut Window,
    offset: u64,
    end: u64,
) -> Result<Option<(Entry, u64)>, DiskError> {
    // A read with wrong bytes may succeed the next time.
    let found = disk::repeat(disk, |disk| {
        let bytes = window
            .fetch(disk, Wanted { file: name, end, offset, length: ENTRY_BYTES, chunk: CHUNK_BYTES })
            .map_err(Some)?;
        head(&bytes, offset, end).ok_or_else(|| {
            window.forget();
            None
        })
    });
    match found {
        Err(Some(error)) => Err(error),
        found => Ok(found.ok()),
    }
}

/// The next whole entry of a log behind `last`, from this place on: its offset and its log. The sums of an entry are its own, but its
/// content may have bytes of clients, so the caller has to count the entries.
fn next_entry(
    disk: &dyn Disk,
    name: &str,
    window: &mut Window,
    from: u64,
    end: u64,
    last: Option<LogId>,
) -> Result<Option<(u64, LogId)>, DiskError> {
    for at in from..=end.saturating_sub(ENTRY_BYTES as u64) {
        let bytes =
            window.fetch(disk, Wanted { file: name, end, offset: at, length: ENTRY_BYTES, chunk: CHUNK_BYTES })?;
        let found = head(&bytes, at, end).filter(|(entry, _)| last.is_none_or(|last| last < entry.log));
        let Some((entry, length)) = found else { continue };
        let bytes =
            window.fetch(disk, Wanted { file: name, end, offset: at, length: length as usize, chunk: CHUNK_BYTES })?;
        if Entry::content_is_whole(&bytes) {
            return Ok(Some((at, entry.log)));
        }
    }
    Ok(None)
}

/// Passes on all whole states of logs in a checkpoint that can't be used otherwise, wherever they are in the file.
pub(crate) fn scan(
    disk: &dyn Disk,
    wal_id: u16,
    sequence: u64,
    mut restore: impl FnMut(LiveState),
) -> Result<(), DiskError> {
    let name = Name::Checkpoint(sequence).text(wal_id);
    let length = disk::length(disk, &name)? as usize;
    let (bytes, _) = disk::read_around(disk, &name, 0, length)?;
    let mut at = HEADER_BYTES;
    let mut last = None;
    while at + ENTRY_BYTES <= bytes.len() {
        let found = head(&bytes[at..], at as u64, bytes.len() as u64);
        let Some((entry, length)) = found.filter(|(entry, _)| last.is_none_or(|last| last < entry.log)) else {
            at += 1;
            continue;
        };
        let end = at + length as usize;
        last = Some(entry.log);
        if entry.next != NEXT_DELETED
            && let Some(state) = decode_state(&entry, &bytes[at..end])
        {
            restore(state);
        }
        at = end;
    }
    Ok(())
}

fn decode_state(entry: &Entry, bytes: &[u8]) -> Option<LiveState> {
    if !Entry::content_is_whole(bytes) {
        return None;
    }
    decode_content(entry, bytes)
}

/// The state in the entry in `bytes`, whose sums were compared.
fn decode_content(entry: &Entry, bytes: &[u8]) -> Option<LiveState> {
    let (live, state) = bytes[ENTRY_BYTES..].split_at(entry.live_length as usize);
    let live = match entry.next {
        NEXT_DELETED => RoaringTreemap::new(),
        _ => RoaringTreemap::deserialize_from(live).ok()?,
    };
    Some(LiveState {
        log: entry.log,
        next: entry.next,
        position: entry.position,
        live,
        bytes: entry.bytes,
        state: state.to_vec(),
        ..LiveState::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_disk::MemoryDisk;

    fn state(log: u64, live: std::ops::Range<u64>) -> LiveState {
        LiveState {
            log: LogId(log),
            next: live.end,
            position: log * 10,
            bytes: 100 + log,
            live: live.collect(),
            state: vec![log as u8; log as usize],
            ..LiveState::default()
        }
    }

    fn write(
        disk: &MemoryDisk,
        sequence: u64,
        states: Vec<LiveState>,
        old: Option<CheckpointFile>,
        removed: Vec<(LogId, Position)>,
    ) -> CheckpointFile {
        let states = states.into_iter().map(|state| (state.log, state)).collect();
        let plan = Plan {
            header: Header {
                sequence,
                floor: 2,
                position: 77,
                batch: 5,
                next_file: 3,
                next_segment: 9,
                segments: 0,
                logs: 0,
                length: 0,
                rows_crc: 0,
                metadata: 0,
            },
            node_id: 4,
            wal_id: 0,
            segments: vec![(7, 4096), (8, 8192)],
            old,
            removed,
            frozen: FxHashSet::default(),
        };
        let mut writer = CheckpointWriter::new(plan, &states);
        loop {
            if let Some(file) = writer.step(disk, &states).unwrap() {
                return file;
            }
        }
    }

    fn read(disk: &MemoryDisk, sequence: u64) -> (Result<Loaded, Unusable>, Vec<LiveState>) {
        let mut states = Vec::new();
        let loaded = load(disk, 0, sequence, |state, deleted| states.extend((!deleted).then_some(state))).unwrap();
        (loaded, states)
    }

    #[test]
    fn old_entries_are_carried_on() {
        let disk = MemoryDisk::new();
        let first = vec![state(0, 0..0), state(1, 1..5000), state(2, 5..6)];
        let old = write(&disk, 1, first, None, vec![]);
        let second = vec![state(2, 9..30), state(5, 1..2)];
        let new = write(&disk, 2, second, Some(old), vec![(LogId(1), 100)]);
        let (loaded, states) = read(&disk, 2);
        let loaded = loaded.unwrap();
        assert_eq!(states, [state(0, 0..0), state(2, 9..30), state(5, 1..2)]);
        assert_eq!(loaded.file.entries, new.entries);
        assert_eq!(loaded.segments, [(7, 4096), (8, 8192)]);
        assert_eq!(loaded.node_id, 4);
        assert!(loaded.damaged.is_empty());
        // All up to position 77 is retired: a deletion at 100 is still in the WAL, one at 60 isn't.
        assert_eq!(new.entries[1].deleted, Some(100));
        let newest = write(&disk, 3, vec![], Some(new), vec![(LogId(2), 60)]);
        let logs: Vec<u64> = newest.entries.iter().map(|entry| entry.log.0).collect();
        assert_eq!(logs, [0, 1, 5]);
    }

    #[test]
    fn a_bit_that_is_read_wrong_once_is_not_carried_on() {
        let disk = MemoryDisk::new();
        let old = write(&disk, 1, vec![state(0, 0..0), state(1, 1..5000)], None, vec![]);
        disk.misread(0);
        let new = write(&disk, 2, vec![state(2, 9..30)], Some(old), vec![]);
        assert!(!disk.misreads());
        let (loaded, states) = read(&disk, 2);
        assert!(loaded.unwrap().damaged.is_empty());
        assert_eq!(states, [state(0, 0..0), state(1, 1..5000), state(2, 9..30)]);
        assert_eq!(new.entries.len(), 3);
    }

    #[test]
    fn a_large_one_is_written_in_pieces() {
        let disk = MemoryDisk::new();
        let mut states: Vec<_> =
            (0..2000).map(|log| LiveState { state: vec![log as u8; 2000], ..state(log, 1..2) }).collect();
        // One state is larger than a piece.
        states[900].state = vec![9; PIECE_BYTES + 100_000];
        write(&disk, 1, states.clone(), None, vec![]);
        assert_eq!(read(&disk, 1).1, states);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let disk = MemoryDisk::new();
        let file = write(&disk, 1, vec![state(0, 0..0), state(3, 1..9)], None, vec![]);
        let bytes = disk.content(&file.name).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            disk.put(&file.name, bytes);
            let found = read(&disk, 1).0;
            assert!(found.is_err() || !found.unwrap().is_whole(), "bit {bit}");
        }
        disk.put(&file.name, bytes[..bytes.len() - 1].to_vec());
        assert!(read(&disk, 1).0.is_err());
    }

    /// A checkpoint whose entries of these logs have wrong heads, each with a byte of its own.
    fn with_wrong_heads(wrong: &[u64]) -> (MemoryDisk, CheckpointFile) {
        let disk = MemoryDisk::new();
        let states = [0, 3, 4, 9, 12].map(|log| state(log, 1..9)).to_vec();
        let file = write(&disk, 1, states, None, vec![]);
        let mut bytes = disk.content(&file.name).unwrap();
        for place in file.entries.iter().filter(|place| wrong.contains(&place.log.0)) {
            bytes[place.offset as usize + 33 + place.log.0 as usize] ^= 4;
            bytes[place.offset as usize + 16] ^= 1;
        }
        disk.put(&file.name, bytes);
        (disk, file)
    }

    #[test]
    fn an_entry_with_a_wrong_head_is_passed_over() {
        for (wrong, first, last) in [(3, 1, 3), (4, 4, 8), (9, 5, 11), (12, 10, u64::MAX)] {
            let (disk, file) = with_wrong_heads(&[wrong]);
            let (loaded, states) = read(&disk, 1);
            let loaded = loaded.unwrap();
            let place = file.entries.iter().find(|place| place.log.0 == wrong).unwrap();
            let range = place.offset..place.offset + place.length;
            assert_eq!(loaded.lost, [LostEntries { range, first: LogId(first), last: LogId(last) }]);
            assert_eq!((loaded.missing, loaded.damaged.len(), states.len()), (1, 0, 4), "log {wrong}");
        }
        let (disk, _) = with_wrong_heads(&[3, 4, 12]);
        let (loaded, states) = read(&disk, 1);
        let loaded = loaded.unwrap();
        let ranges: Vec<_> = loaded.lost.iter().map(|lost| (lost.first.0, lost.last.0)).collect();
        assert_eq!((ranges, loaded.missing, states.len()), (vec![(1, 8), (10, u64::MAX)], 3, 2));
    }

    #[test]
    fn a_wrong_head_of_the_metadata_is_a_damaged_entry() {
        let (disk, file) = with_wrong_heads(&[0]);
        let loaded = read(&disk, 1).0.unwrap();
        assert_eq!((&loaded.damaged[..], loaded.lost.len(), loaded.missing), (&file.entries[..1], 0, 0));
        let (disk, file) = with_wrong_heads(&[0, 3]);
        let loaded = read(&disk, 1).0.unwrap();
        assert_eq!((loaded.damaged[0].log, loaded.lost.len(), loaded.missing), (LogId::METADATA, 1, 1));
        assert_eq!(loaded.lost[0].range.end, file.entries[2].offset);
        assert_eq!((loaded.lost[0].first, loaded.lost[0].last), (LogId(1), LogId(3)));
    }

    #[test]
    fn an_entry_of_whose_head_one_byte_is_wrong_is_whole() {
        let disk = MemoryDisk::new();
        let all = [0, 3, 12].map(|log| state(log, 1..9)).to_vec();
        let file = write(&disk, 1, all.clone(), None, vec![]);
        let content = disk.content(&file.name).unwrap();
        for place in &file.entries[1..] {
            for at in 0..ENTRY_BYTES {
                let mut bytes = content.clone();
                bytes[place.offset as usize + at] ^= 0x5a;
                disk.put(&file.name, bytes);
                let (loaded, states) = read(&disk, 1);
                let loaded = loaded.unwrap();
                let mended = place.offset..place.offset + place.length;
                assert!(loaded.mended.len() == 1 && loaded.mended[0] == mended, "{:?}", loaded.mended);
                assert_eq!((states, loaded.file.entries), (all.clone(), file.entries.clone()));
            }
        }
    }

    #[test]
    fn an_entry_within_the_content_of_another_is_not_taken() {
        let disk = MemoryDisk::new();
        let inner = Entry { live_length: 0, state_length: 0, ..entry(&state(5, 0..0)) }.encode(&[], &[]);
        let hides = LiveState { state: inner.to_vec(), live: RoaringTreemap::new(), ..state(3, 0..0) };
        let file = write(&disk, 1, vec![state(0, 0..0), hides, state(9, 1..3)], None, vec![]);
        let mut bytes = disk.content(&file.name).unwrap();
        bytes[file.entries[1].offset as usize..][..2].fill(9);
        disk.put(&file.name, bytes);
        assert!(read(&disk, 1).0.is_err(), "there would be more entries than the header says");
    }

    #[test]
    fn a_log_whose_entry_had_a_wrong_head_stays_damaged() {
        let (disk, file) = with_wrong_heads(&[4]);
        let mut loaded = read(&disk, 1).0.unwrap().file;
        let mut entries = loaded.entries.to_vec();
        entries.insert(2, EntryPlace { length: 0, ..file.entries[2] });
        loaded.entries = Arc::new(entries);
        write(&disk, 2, vec![state(9, 1..2)], Some(loaded), vec![]);
        let (loaded, states) = read(&disk, 2);
        let loaded = loaded.unwrap();
        assert_eq!(loaded.damaged.iter().map(|place| place.log.0).collect::<Vec<_>>(), [4]);
        assert_eq!((states.len(), loaded.lost.len()), (4, 0));
    }
}
