//! Lists the contents of a file, record by record, without judging them.

use std::ops::{ControlFlow, Range};

use crate::checkpoint;
use crate::disk::{self, Disk};
use crate::error::StorageError;
use crate::format::batch::{BatchHeader, RecordRun};
use crate::format::batch_check::Batch;
use crate::format::file_header::{FILE_HEADER_BYTES, FileHeader, FileKind};
use crate::format::record::{RECORD_HEADER_BYTES, Record};
use crate::format::version;
use crate::format::{Identity, is_zero};
use crate::names::Name;
use crate::options::Options;
use crate::segment;
use crate::types::{LogId, Position};
use crate::walk::{Piece, Walk};

/// An item of a file.
#[derive(Debug)]
pub enum Dumped<'a> {
    /// The header of a WAL file or segment.
    File(FileHeader),
    /// A batch.
    Batch {
        /// Its offset in the file.
        offset: u64,
        /// Its header.
        header: BatchHeader,
    },
    /// A record.
    Record {
        /// Its offset in the file.
        offset: u64,
        /// Its position, if the file belongs to the WAL and no earlier row is damaged.
        position: Option<Position>,
        /// The log it belongs to.
        log: LogId,
        /// The number of the message, or of the first message of a chunk or of references.
        number: Option<u64>,
        /// Number of messages that a chunk holds or a reference record stands for; 1 otherwise.
        messages: u16,
        /// The record.
        record: Record<'a>,
    },
    /// The header of a checkpoint.
    Checkpoint {
        /// Its sequence.
        sequence: u64,
        /// Sequence of the first WAL file that isn't retired.
        floor: u64,
        /// Position of the last retired record.
        position: Position,
        /// Id and length of each segment.
        segments: Vec<(u64, u64)>,
    },
    /// A log's entry in a checkpoint.
    State {
        /// The log.
        log: LogId,
        /// Number of the next message; `None` if the log is deleted.
        next: Option<u64>,
        /// Position up to which settles and control records are in it.
        position: Position,
        /// Number of live messages.
        live: u64,
        /// Sum of their body bytes.
        bytes: u64,
        /// The caller's state.
        state: Vec<u8>,
    },
    /// Bytes that aren't those written, or that a power cut tore.
    Damaged {
        /// Their range in the file.
        range: Range<u64>,
        /// The reason.
        reason: String,
    },
}

/// The files of the log, in the order in which a start reads them: checkpoints, segments, WAL files, then those of the entry log.
///
/// # Errors
/// The disk fails.
pub fn files(disk: &dyn Disk, options: &Options) -> Result<Vec<String>, StorageError> {
    let rank = |name: &Name| match name {
        Name::Checkpoint(sequence) => (0, *sequence),
        Name::Metadata(sequence) => (1, *sequence),
        Name::Segment(id) => (2, *id),
        Name::Wal(sequence) => (3, *sequence),
        Name::Entries(sequence) => (4, *sequence),
    };
    let names = disk::list(disk)?;
    let mut names: Vec<Name> = names.iter().filter_map(|text| Name::parse(text, options.wal_id)).collect();
    names.sort_unstable_by_key(rank);
    Ok(names.into_iter().map(|name| name.text(options.wal_id)).collect())
}

/// Passes the items of a file to `visit` until it breaks.
///
/// # Errors
/// The disk fails, or the file doesn't belong to the log, or has another version.
pub fn dump(
    disk: &dyn Disk,
    options: &Options,
    file: &str,
    visit: &mut dyn FnMut(Dumped<'_>) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    let head = disk::read(disk, file, 0, FILE_HEADER_BYTES as usize)?;
    if let Some(found) = version::other_version(&head) {
        return Err(StorageError::Version { file: file.to_owned(), found });
    }
    let (kind, identity) = match Name::parse(file, options.wal_id) {
        Some(name @ (Name::Checkpoint(_) | Name::Metadata(_))) => return dump_checkpoint(disk, options, name, visit),
        Some(Name::Wal(sequence)) => (FileKind::Wal, Identity::wal(options.node_id, options.wal_id, sequence)),
        Some(Name::Entries(sequence)) => {
            (FileKind::Entries, Identity::entries(options.node_id, options.wal_id, sequence))
        }
        Some(Name::Segment(id)) => (FileKind::Segment, Identity::segment(options.node_id, options.wal_id, id)),
        None => {
            let reason = "it isn't a file of the log";
            return Err(StorageError::Missing { file: file.to_owned(), reason: reason.into(), others: Vec::new() });
        }
    };
    let length = disk::length(disk, file)?;
    let shown = match FileHeader::decode(&head) {
        Some(header) => visit(Dumped::File(header)),
        None if is_zero(&head) => ControlFlow::Continue(()),
        None => visit(Dumped::Damaged { range: 0..FILE_HEADER_BYTES, reason: "the file header is wrong".into() }),
    };
    if shown.is_break() {
        return Ok(());
    }
    let end = match kind {
        FileKind::Wal | FileKind::Entries | FileKind::Body => length,
        FileKind::Segment => segment::batches_end(disk, file, length)?,
    };
    let mut walk = Walk::new(disk, file, identity, end);
    while let Some(piece) = walk.next()? {
        let shown = match &piece {
            Piece::Batch { offset, batch, bytes } => dump_batch(kind, *offset, batch, bytes, visit),
            Piece::Bad(range) => {
                visit(Dumped::Damaged { range: range.clone(), reason: "a batch header is wrong".into() })
            }
            Piece::Rest(range) => {
                let head = disk::read(disk, file, range.start, FILE_HEADER_BYTES as usize)?;
                match BatchHeader::resembles(&head, &identity, walk.sequence() + 1) {
                    true => visit(Dumped::Damaged { range: range.clone(), reason: "a batch header is wrong".into() }),
                    false => ControlFlow::Continue(()),
                }
            }
        };
        if shown.is_break() {
            break;
        }
    }
    Ok(())
}

fn dump_batch(
    kind: FileKind,
    offset: u64,
    batch: &Batch,
    bytes: &[u8],
    visit: &mut dyn FnMut(Dumped<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    visit(Dumped::Batch { offset, header: batch.header })?;
    let whole = batch.runs.iter().zip(batch.positions.iter().copied());
    let mut runs: Vec<(&RecordRun, Position)> =
        whole.chain(batch.faulty.iter().map(|(run, first)| (run, *first))).collect();
    runs.sort_unstable_by_key(|(run, _)| run.offset);
    let table_is_whole = batch.faults.iter().all(|fault| fault.log.is_some() || fault.unknown == 0);
    for (run, first) in runs {
        let mut at = offset + batch.header.prefix_bytes() + run.offset as u64;
        for (i, record) in (0..).zip(batch.records_left(run, bytes)) {
            let Some(record) = record else { break };
            let number = run.kind.is_numbered().then(|| *run.numbers_of(i).start());
            let position = (kind != FileKind::Segment && table_is_whole).then_some(first + i);
            let messages = if run.kind.is_whole_run() { run.count } else { 1 };
            visit(Dumped::Record { offset: at, position, log: run.log, number, messages, record })?;
            at += (RECORD_HEADER_BYTES + record.payload.len()) as u64;
        }
    }
    for fault in &batch.faults {
        let range = offset + fault.range.start..offset + fault.range.end;
        visit(Dumped::Damaged { range, reason: fault.reason.into() })?;
    }
    ControlFlow::Continue(())
}

fn dump_checkpoint(
    disk: &dyn Disk,
    options: &Options,
    name: Name,
    visit: &mut dyn FnMut(Dumped<'_>) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    let mut shown = ControlFlow::Continue(());
    // The loader delivers the header last, so it is loaded once beforehand to be shown first.
    let header = checkpoint::load_file(disk, options.wal_id, name, |_, _| ())?;
    let loaded = match header {
        Ok(loaded) => loaded,
        Err(found) => {
            let _ = visit(Dumped::Damaged { range: found.range, reason: found.reason });
            return Ok(());
        }
    };
    let header = loaded.header;
    let (sequence, floor, position) = (header.sequence, header.floor, header.position);
    if visit(Dumped::Checkpoint { sequence, floor, position, segments: loaded.segments }).is_break() {
        return Ok(());
    }
    let _ = checkpoint::load_file(disk, options.wal_id, name, |state, deleted| {
        if shown.is_continue() {
            shown = visit(Dumped::State {
                log: state.log,
                next: (!deleted).then_some(state.next),
                position: state.position,
                live: state.live.len(),
                bytes: state.bytes,
                state: state.state,
            });
        }
    })?;
    for range in loaded.mended {
        if shown.is_continue() {
            shown = visit(Dumped::Damaged { range, reason: "one byte of the head of an entry is wrong".into() });
        }
    }
    for lost in loaded.lost {
        if shown.is_continue() {
            shown = visit(Dumped::Damaged { range: lost.range, reason: "the head of an entry is wrong".into() });
        }
    }
    for place in loaded.damaged {
        let range = place.offset..place.offset + place.length;
        if shown.is_continue() {
            shown = visit(Dumped::Damaged { range, reason: format!("the state of log {} is wrong", place.log) });
        }
    }
    Ok(())
}
