//! Checks segments batch by batch, and their index.

use super::alive::AliveLogs;
use crate::disk::{self, Disk};
use crate::error::DiskError;
use crate::format::batch_check::Batch;
use crate::format::file_header::{FILE_HEADER_BYTES, FileHeader};
use crate::format::{Identity, is_zero};
use crate::index::{Breaks, FileIndex};
use crate::names::Name;
use crate::options::Options;
use crate::recover::{Damage, Hit, Replay};
use crate::segment;
use crate::types::LogId;
use crate::walk::{Piece, Walk};

/// Checks a segment that the checkpoint names and whose file exists.
pub(super) fn verify(
    disk: &dyn Disk,
    options: &Options,
    id: u64,
    alive: &mut AliveLogs<'_>,
    damaged: &mut Vec<Damage>,
) -> Result<(), DiskError> {
    let own = Name::Segment(id).text(options.wal_id);
    let length = disk::length(disk, &own)?;
    // A wrong index was reported with the checkpoint; then the batches themselves say where they end.
    let loaded = segment::load(disk, options.node_id, options.wal_id, id, length);
    let (name, identity, end, index) = match loaded {
        Ok(loaded) => {
            let segment = loaded.segment;
            if segment.is_kept_file() {
                verify_header(disk, &segment.name, damaged)?;
            }
            (segment.name.to_string(), segment.identity, segment.end, Some(loaded.parts))
        }
        Err(segment::LoadError::Disk(error)) => return Err(error),
        Err(segment::LoadError::Damaged(..)) => {
            (own.clone(), Identity::segment(options.node_id, options.wal_id, id), length, None)
        }
    };
    let before = damaged.len();
    let mut rebuilt = FileIndex::of_segment(index.as_deref().map(Breaks::of).unwrap_or_default());
    let mut walk = Walk::new(disk, &name, identity, end);
    while let Some(piece) = walk.next()? {
        match piece {
            Piece::Batch { offset, batch, .. } => {
                for fault in &batch.faults {
                    damaged.push(Damage::of_fault(&name, offset, batch.header.bytes(), fault));
                }
                found(&batch, alive);
                if batch.faults.is_empty() {
                    rebuilt.note(offset, &batch.header, &batch.runs);
                }
            }
            Piece::Rest(_) if index.is_none() => {}
            Piece::Bad(range) | Piece::Rest(range) => {
                damaged.push(Damage::new(&name, range, Hit::Any, "a batch header is wrong"));
            }
        }
    }
    let mut rebuilt = rebuilt.into_parts();
    if let Some(parts) = index.filter(|_| damaged.len() == before) {
        // The index of a WAL file that was kept leaves out logs without a live message.
        let mut logs: Vec<LogId> = parts.iter().map(|(log, _)| *log).collect();
        logs.dedup();
        rebuilt.retain(|(log, _)| logs.binary_search(log).is_ok());
        if parts != rebuilt {
            let index_at = if name == own { end } else { FILE_HEADER_BYTES };
            let reason = "the index isn't that of the messages";
            damaged.push(Damage::new(&own, index_at..length, Hit::Logs(logs), reason));
        }
    }
    Ok(())
}

/// Notes the messages found in a batch; its faults report the others.
fn found(batch: &Batch, alive: &mut AliveLogs<'_>) {
    for run in batch.runs.iter().chain(batch.faulty.iter().map(|(run, _)| run)) {
        alive.stands(run.log, run.first, run.last());
    }
}

/// Checks the header of a file, without which its batches can be read all the same.
fn verify_header(disk: &dyn Disk, name: &str, damaged: &mut Vec<Damage>) -> Result<(), DiskError> {
    let header = disk::read(disk, name, 0, FILE_HEADER_BYTES as usize)?;
    if FileHeader::decode(&header).is_none() && !is_zero(&header) {
        let nobody = Hit::Logs(Vec::new());
        damaged.push(Damage::new(name, 0..FILE_HEADER_BYTES, nobody, "the file header is wrong"));
    }
    Ok(())
}

/// Checks header and batches of a file by themselves.
pub(super) fn verify_alone(
    disk: &dyn Disk,
    name: &str,
    identity: Identity,
    damaged: &mut Vec<Damage>,
) -> Result<(), DiskError> {
    verify_header(disk, name, damaged)?;
    let length = disk::length(disk, name)?;
    let mut walk = Walk::new(disk, name, identity, length);
    while let Some(piece) = walk.next()? {
        match piece {
            Piece::Batch { offset, batch, .. } => {
                let faults = batch.faults.iter();
                damaged.extend(faults.map(|fault| Damage::of_fault(name, offset, batch.header.bytes(), fault)));
            }
            Piece::Bad(range) => damaged.push(Damage::new(name, range, Hit::Any, "a batch header is wrong")),
            Piece::Rest(_) => {}
        }
    }
    Ok(())
}
