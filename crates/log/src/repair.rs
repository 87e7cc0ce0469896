//! Copies the sound part of a data directory to another one.
//!
//! The copy has one checkpoint and the segments with all sound live messages; its WAL is a new one, with positions and
//! file numbers after the old ones.

use std::collections::BTreeMap;

use crate::checkpoint::{CheckpointWriter, Plan};
use crate::disk::{self, Disk};
use crate::dump;
use crate::error::StorageError;
use crate::format::Identity;
use crate::format::batch::RecordRun;
use crate::format::batch_check::Batch;
use crate::format::checkpoint::Header;
use crate::format::file_header::FILE_HEADER_BYTES;
use crate::format::record::RecordKind;
use crate::index::{Breaks, FileIndex};
use crate::live_state::LiveState;
use crate::names::Name;
use crate::options::Options;
use crate::segment::{self, SegmentWriter};
use crate::types::LogId;
use crate::verify::Verified;
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
    fn copied_chunk(&mut self, log: LogId, first: u64, messages: u16, payload: &[u8]);
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
    let breaks = breaks(from, options, &files)?;
    let mut copy = Copy { to, options, breaks, writer: None, next_id: 1, length: 0, segments: Vec::new() };
    let mut next_file = 1;
    for file in files.iter().filter(|file| !verified.unused.contains(file)) {
        let length = disk::length(from, file)?;
        let (identity, end) = match Name::parse(file, options.wal_id) {
            Some(Name::Segment(id)) => {
                (Identity::segment(options.node_id, options.wal_id, id), segment::batches_end(from, file, length)?)
            }
            Some(Name::Wal(sequence)) => {
                // After it there may be whole batches that a power cut left beside a torn one.
                let end = verified.ends.get(file).copied().unwrap_or(FILE_HEADER_BYTES);
                (Identity::wal(options.node_id, options.wal_id, sequence), end)
            }
            _ => continue,
        };
        let mut walk = Walk::new(from, file, identity, end);
        while let Some(piece) = walk.next()? {
            if let Piece::Batch { batch, bytes, .. } = piece {
                copy.batch(&batch, &bytes, survivors)?;
            }
        }
    }
    for file in &files {
        if let Some(Name::Wal(sequence)) = Name::parse(file, options.wal_id) {
            next_file = next_file.max(sequence + 1);
        }
    }
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
    };
    let plan = Plan {
        header,
        node_id: options.node_id,
        wal_id: options.wal_id,
        segments: copy.segments,
        old: None,
        removed: Vec::new(),
    };
    let mut writer = CheckpointWriter::new(plan, &states);
    while writer.step(to, &states)?.is_none() {}
    Ok(())
}

/// The numbers at which parts begin in the existing segments, and those after the last number of each log: the
/// messages are copied in this order, whatever their numbers.
fn breaks(from: &dyn Disk, options: &Options, files: &[String]) -> Result<Breaks, StorageError> {
    let mut parts: Vec<(LogId, u64, u64)> = Vec::new();
    for file in files {
        let Some(Name::Segment(id)) = Name::parse(file, options.wal_id) else { continue };
        let length = disk::length(from, file)?;
        let loaded = match segment::load(from, options.node_id, options.wal_id, id, length) {
            Ok(loaded) => loaded.parts,
            Err(segment::LoadError::Disk(error)) => return Err(error.into()),
            Err(segment::LoadError::Damaged(..)) => {
                let mut index = FileIndex::of_segment(Breaks::default());
                let identity = Identity::segment(options.node_id, options.wal_id, id);
                let mut walk = Walk::new(from, file, identity, segment::batches_end(from, file, length)?);
                while let Some(piece) = walk.next()? {
                    if let Piece::Batch { offset, batch, .. } = piece {
                        let records_at = offset + batch.header.prefix_bytes();
                        batch.runs.iter().for_each(|run| index.note_run(offset, records_at, 0, run));
                    }
                }
                index.into_parts()
            }
        };
        parts.extend(loaded.iter().map(|(log, index)| (*log, index.first, index.last)));
    }
    parts.sort_unstable();
    let mut breaks = Breaks::default();
    for (at, (log, first, last)) in parts.iter().enumerate() {
        breaks.add(*log, *first);
        if parts.get(at + 1).is_none_or(|(next, ..)| next != log) {
            breaks.add(*log, last.saturating_add(1));
        }
    }
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
}

impl Copy<'_> {
    fn batch(
        &mut self,
        batch: &Batch,
        bytes: &bytes::Bytes,
        survivors: &mut dyn Survivors,
    ) -> Result<(), StorageError> {
        let runs = batch.runs.iter().chain(batch.faulty.iter().map(|(run, _)| run));
        for run in runs.filter(|run| run.kind.holds_messages()) {
            for (index, record) in (0..).zip(batch.records_left(run, bytes)) {
                let mut numbers = run.numbers_of(index);
                let number = *numbers.start();
                let is_wanted = numbers.any(|number| survivors.is_alive(run.log, number));
                let Some(record) = record.filter(|_| is_wanted) else { continue };
                let payload = bytes.slice_ref(record.payload);
                self.push(run, number, &payload)?;
                match run.kind {
                    RecordKind::Chunk => survivors.copied_chunk(run.log, number, run.count, &payload),
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
            RecordKind::Chunk => writer.push_chunk(self.to, run.log, number, run.count, payload, BATCH_BYTES)?,
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
