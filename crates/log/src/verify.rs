//! Checking every byte of a data directory without changing one.

use crate::disk::{self, Disk};
use crate::error::{DiskError, StorageError};
use crate::format::batch_check;
use crate::format::file_header::FILE_HEADER_BYTES;
use crate::index::{Breaks, FileIndex};
use crate::names::Name;
use crate::options::Options;
use crate::recover::{Damage, Hit, Recovery, Replay};
use crate::segment::{self, NewSegment};
use crate::types::{LogId, SettleRange, SettleReason};

/// Reads everything in a data directory that a start would use, and says what is wrong with it. An invalid last batch
/// counts: only a start decides that a power cut tore it.
///
/// # Errors
/// The disk fails, or the directory can't be opened at all.
pub fn verify(disk: &dyn Disk, options: &Options) -> Result<Vec<Damage>, StorageError> {
    options.check().map_err(StorageError::Options)?;
    let mut recovery = Recovery::new(disk, options.clone());
    recovery.list()?;
    recovery.load_checkpoint(&mut Nobody)?;
    let mut damaged = recovery.look_through_wal(&mut Nobody)?;
    let segments: Vec<u64> = recovery.store.segments.keys().copied().collect();
    for id in segments {
        verify_segment(disk, options, id, &mut damaged)?;
    }
    Ok(damaged)
}

fn verify_segment(disk: &dyn Disk, options: &Options, id: u64, damaged: &mut Vec<Damage>) -> Result<(), DiskError> {
    let name = Name::Segment(id).text(options.wal_id);
    let length = disk::length(disk, &name)?;
    let mut report = |range, logs, reason: String| damaged.push(Damage { file: name.clone(), range, logs, reason });
    let NewSegment { segment, parts, .. } = match segment::load(disk, options.node_id, options.wal_id, id, length) {
        Ok(loaded) => loaded,
        Err(segment::LoadError::Disk(error)) => return Err(error),
        Err(segment::LoadError::Damaged(reason)) => {
            report(0..length, Hit::Any, reason);
            return Ok(());
        }
    };
    let mut index = FileIndex::of_segment(Breaks::of(&parts));
    let mut offset = FILE_HEADER_BYTES;
    while offset < segment.end {
        let bytes = disk::read(disk, &name, offset, batch_bytes(disk, &segment, offset)?)?;
        let Some(batch) = batch_check::check(&bytes, &segment.identity) else {
            report(offset..segment.end, Hit::Any, "a batch header is wrong".into());
            return Ok(());
        };
        for fault in &batch.faults {
            let hit = fault.log.map_or(Hit::Any, |log| Hit::Logs(vec![log]));
            report(offset + fault.range.start..offset + fault.range.end, hit, fault.reason.into());
        }
        if batch.faults.is_empty() {
            index.note(offset, &batch.header, &batch.runs);
        }
        offset += batch.header.padded_bytes();
    }
    if damaged.is_empty() && parts != index.into_parts() {
        damaged.push(Damage {
            file: name,
            range: segment.end..length,
            logs: Hit::Logs(parts.into_iter().map(|(log, _)| log).collect()),
            reason: "the index isn't that of the messages".into(),
        });
    }
    Ok(())
}

/// Bytes of the batch at `offset`, or of its header if that is wrong.
fn batch_bytes(disk: &dyn Disk, segment: &crate::store::Segment, offset: u64) -> Result<usize, DiskError> {
    use crate::format::batch::{BATCH_HEADER_BYTES, BatchHeader};
    let head = disk::read(disk, &segment.name, offset, BATCH_HEADER_BYTES)?;
    let header = BatchHeader::decode(&head, &segment.identity, segment.end - offset);
    Ok(header.map_or(BATCH_HEADER_BYTES, |header| header.padded_bytes() as usize))
}

/// Takes what is replayed for nobody.
struct Nobody;

impl Replay for Nobody {
    fn restore(&mut self, _: crate::LiveState) {}
    fn message(&mut self, _: LogId, _: u64, _: &[u8]) {}
    fn references(&mut self, _: LogId, _: u64, _: u16, _: &[u8]) {}
    fn withdraw(&mut self, _: LogId, _: u64, _: &[u8]) {}
    fn settle(&mut self, _: LogId, _: SettleReason, _: &[SettleRange]) {}
    fn control(&mut self, _: LogId, _: u8, _: &[u8]) {}
}
