//! Copies the sound part of a data directory to another one.
//!
//! The copy has one checkpoint and the segments with all sound live messages; its WAL is a new one, with positions and
//! file numbers after the old ones.

use std::collections::{BTreeMap, BTreeSet};

use roaring::RoaringTreemap;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::checkpoint::{CheckpointWriter, Plan};
use crate::disk::{self, Disk};
use crate::dump;
use crate::error::StorageError;
use crate::format::Identity;
use crate::format::batch::RecordRun;
use crate::format::batch_check::Batch;
use crate::format::checkpoint::Header;
use crate::format::record::RecordKind;
use crate::format::segment_index::LogIndex;
use crate::index::{Breaks, FileIndex};
use crate::live_state::LiveState;
use crate::names::Name;
use crate::options::Options;
use crate::recover::Numbers;
use crate::segment::{self, SegmentWriter};
use crate::types::{JointRecord, LogId, NewChunk, Payload};
use crate::verify::{Verified, aside};
use crate::walk::{Piece, Walk};

/// Length at which a segment of the copy is finished.
const SEGMENT_BYTES_MAX: u64 = 256 << 20;
/// Bytes of the records in a batch.
const BATCH_BYTES: u64 = 256 << 10;

/// Decides which messages are copied.
pub trait Survivors {
    /// Whether this message is live.
    fn is_alive(&self, log: LogId, number: u64) -> bool;
    /// Notes that the message was copied.
    fn copied(&mut self, log: LogId, number: u64, payload: &[u8]);
    /// Notes that a chunk was copied, at least one of whose messages is live.
    fn copied_chunk(&mut self, record: JointRecord<'_>);
    /// The states of all logs. Their live messages are those copied, without the dead ones in chunks.
    fn states(&mut self) -> Vec<LiveState>;
}

/// Copies to the empty directory `to`. `verified` is what [`crate::verify()`] found in `from`.
///
/// # Errors
/// A disk fails, or `from` can't be opened, so that there is no telling which messages are live.
pub fn repair(
    from: &dyn Disk,
    to: &dyn Disk,
    options: &Options,
    verified: &Verified,
    survivors: &mut dyn Survivors,
) -> Result<(), StorageError> {
    let files = dump::files(from, options)?;
    let used = files.iter().filter(|file| !verified.unused.contains(file));
    let sources: Vec<Source<'_>> = used.filter_map(|file| Source::of(file, options, verified)).collect();
    let from_aside: Vec<Numbers> = verified.missing.iter().chain(&verified.untaken).copied().collect();
    let breaks = breaks(from, options, &sources, &from_aside)?;
    let mut copy = Copy {
        to,
        options,
        breaks,
        writer: None,
        next_id: 1,
        length: 0,
        segments: Vec::new(),
        copied: FxHashMap::default(),
    };
    for source in &sources {
        let mut walk = source.walk(from)?;
        while let Some(piece) = walk.next()? {
            if let Piece::Batch { batch, bytes, .. } = piece {
                copy.batch(&batch, &bytes, survivors, |_, _| true)?;
            }
        }
    }
    // Missing messages may be left in files that were put aside.
    for aside in &verified.set_aside {
        let Some(mut walk) = aside::walk(from, options, &aside.file)? else { continue };
        while let Some(piece) = walk.next()? {
            if let Piece::Batch { batch, bytes, .. } = piece {
                copy.batch(&batch, &bytes, survivors, |log, number| verified.wants_aside(log, number))?;
            }
        }
    }
    let sequences = files.iter().filter_map(|file| match Name::parse(file, options.wal_id) {
        Some(Name::Wal(sequence)) => Some(sequence),
        _ => None,
    });
    let next_file = sequences.max().map_or(1, |last| last + 1);
    copy.finish_segment()?;
    let states: BTreeMap<LogId, LiveState> = survivors.states().into_iter().map(|state| (state.log, state)).collect();
    let header = Header {
        sequence: 1,
        floor: next_file,
        position: verified.position,
        batch: verified.batch,
        next_file,
        next_segment: copy.next_id,
        segments: 0,
        logs: 0,
        length: 0,
        rows_crc: 0,
        metadata: 0,
    };
    let plan = Plan {
        header,
        node_id: options.node_id,
        wal_id: options.wal_id,
        segments: copy.segments,
        old: None,
        removed: Vec::new(),
        frozen: FxHashSet::default(),
    };
    let second = CheckpointWriter::second_metadata(&plan, &states);
    for mut writer in second.into_iter().chain([CheckpointWriter::new(plan, &states)]) {
        while writer.step(to, &states)?.is_none() {}
    }
    Ok(())
}

/// A file to copy messages from.
struct Source<'a> {
    file: &'a str,
    identity: Identity,
    kind: SourceKind,
}

enum SourceKind {
    /// A segment; of one whose batches are in a WAL file, that file is a source, too.
    Segment(u64),
    /// A WAL file that a start would replay, and where its batches end. Behind it there may be whole batches that a power
    /// cut left beside a torn one.
    Replayed(u64),
    /// A WAL file that became a segment.
    Kept,
}

impl<'a> Source<'a> {
    fn of(file: &'a str, options: &Options, verified: &Verified) -> Option<Source<'a>> {
        let (identity, kind) = match Name::parse(file, options.wal_id)? {
            Name::Segment(id) => (Identity::segment(options.node_id, options.wal_id, id), SourceKind::Segment(id)),
            Name::Wal(sequence) => {
                let kind = verified.ends.get(file).map_or(SourceKind::Kept, |end| SourceKind::Replayed(*end));
                (Identity::wal(options.node_id, options.wal_id, sequence), kind)
            }
            Name::Checkpoint(_) | Name::Metadata(_) | Name::Entries(_) => return None,
        };
        Some(Source { file, identity, kind })
    }

    fn walk(&self, from: &'a dyn Disk) -> Result<Walk<'a>, StorageError> {
        let length = disk::length(from, self.file)?;
        let end = match self.kind {
            SourceKind::Segment(_) => segment::batches_end(from, self.file, length)?,
            SourceKind::Replayed(end) => end,
            SourceKind::Kept => length,
        };
        Ok(Walk::new(from, self.file, self.identity, end))
    }

    /// The parts of a segment, and of the file of one; none of a file that would be replayed.
    fn parts(&self, from: &'a dyn Disk, options: &Options) -> Result<Vec<(LogId, LogIndex)>, StorageError> {
        match self.kind {
            SourceKind::Replayed(_) => return Ok(Vec::new()),
            SourceKind::Kept => {}
            SourceKind::Segment(id) => {
                let length = disk::length(from, self.file)?;
                match segment::load(from, options.node_id, options.wal_id, id, length) {
                    Ok(loaded) if loaded.segment.is_kept_file() => return Ok(Vec::new()),
                    Ok(loaded) => return Ok(loaded.parts),
                    Err(segment::LoadError::Disk(error)) => return Err(error.into()),
                    Err(segment::LoadError::Damaged(..)) => {}
                }
            }
        }
        let mut index = FileIndex::of_segment(Breaks::default());
        let mut walk = self.walk(from)?;
        while let Some(piece) = walk.next()? {
            if let Piece::Batch { offset, batch, .. } = piece {
                let records_at = offset + batch.header.prefix_bytes();
                batch.runs.iter().for_each(|run| index.note_run(offset, records_at, 0, run));
            }
        }
        Ok(index.into_parts())
    }
}

/// The numbers at which parts begin in the existing segments, those after the last number of each log, and both ends of the runs of
/// `missing` messages, which are copied last: the messages are copied in this order, whatever their numbers.
fn breaks(
    from: &dyn Disk,
    options: &Options,
    sources: &[Source<'_>],
    missing: &[Numbers],
) -> Result<Breaks, StorageError> {
    let mut numbers: BTreeSet<(LogId, u64)> = BTreeSet::new();
    let mut ends: BTreeMap<LogId, u64> = BTreeMap::new();
    for source in sources {
        for (log, index) in source.parts(from, options)? {
            numbers.insert((log, index.first));
            let end = ends.entry(log).or_default();
            *end = (*end).max(index.last.saturating_add(1));
        }
    }
    numbers.extend(ends);
    numbers.extend(missing.iter().flat_map(|run| [(run.log, run.first), (run.log, run.last.saturating_add(1))]));
    let mut breaks = Breaks::default();
    numbers.into_iter().for_each(|(log, number)| breaks.add(log, number));
    Ok(breaks)
}

struct Copy<'a> {
    to: &'a dyn Disk,
    options: &'a Options,
    breaks: Breaks,
    writer: Option<SegmentWriter>,
    next_id: u64,
    /// Length of the segment being written.
    length: u64,
    segments: Vec<(u64, u64)>,
    /// Messages copied so far. One may be in two files: without a checkpoint there is no telling which of them a start would remove.
    copied: FxHashMap<LogId, RoaringTreemap>,
}

impl Copy<'_> {
    fn batch(
        &mut self,
        batch: &Batch,
        bytes: &bytes::Bytes,
        survivors: &mut dyn Survivors,
        is_chosen: impl Fn(LogId, u64) -> bool,
    ) -> Result<(), StorageError> {
        for run in batch.message_runs() {
            for (index, record) in (0..).zip(batch.records_left(run, bytes)) {
                let mut numbers = run.numbers_of(index);
                let number = *numbers.start();
                let is_wanted = numbers.any(|number| is_chosen(run.log, number) && survivors.is_alive(run.log, number));
                let Some(record) = record.filter(|_| is_wanted) else { continue };
                if !self.copied.entry(run.log).or_default().insert(number) {
                    continue;
                }
                let payload = bytes.slice_ref(record.payload);
                self.push(run, number, &payload)?;
                match run.kind {
                    RecordKind::Chunk => survivors.copied_chunk(JointRecord {
                        log: run.log,
                        first: number,
                        messages: run.count,
                        payload: &payload,
                    }),
                    _ => survivors.copied(run.log, number, &payload),
                }
            }
        }
        Ok(())
    }

    /// Copies a record of a run, whose first message has this number.
    fn push(&mut self, run: &RecordRun, number: u64, payload: &bytes::Bytes) -> Result<(), StorageError> {
        let options = self.options;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let id = self.next_id;
                self.next_id += 1;
                self.length = 0;
                self.writer.insert(SegmentWriter::create(
                    self.to,
                    options.node_id,
                    options.wal_id,
                    id,
                    options.inline_below,
                    self.breaks.clone(),
                )?)
            }
        };
        match run.kind {
            RecordKind::Chunk => writer.push_chunk(
                self.to,
                &NewChunk {
                    log: run.log,
                    first: number,
                    messages: run.count,
                    payload: Payload { head: &[], body: Some(payload) },
                },
                BATCH_BYTES,
            )?,
            _ => writer.push(self.to, run.log, number, payload, BATCH_BYTES)?,
        }
        self.length += payload.len() as u64;
        if self.length >= SEGMENT_BYTES_MAX {
            self.finish_segment()?;
        }
        Ok(())
    }

    fn finish_segment(&mut self) -> Result<(), StorageError> {
        if let Some(writer) = self.writer.take() {
            let written = writer.finish(self.to)?;
            self.segments.push((written.id, written.segment.length));
        }
        disk::sync_directory(self.to)?;
        Ok(())
    }
}
