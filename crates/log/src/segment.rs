//! Writing a segment, and reading its index back.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use roaring::RoaringTreemap;
use rustc_hash::FxHashMap;

use crate::builder::{Builder, Memory};
use crate::disk::{self, Disk};
use crate::error::DiskError;
use crate::format::Identity;
use crate::format::batch::RecordRun;
use crate::format::file_header::{FILE_HEADER_BYTES, FileHeader, FileKind};
use crate::format::segment_index::LogIndex;
use crate::format::segment_index::{self, FOOTER_BYTES, Footer};
use crate::index::{Breaks, FileIndex};
use crate::names::Name;
use crate::store::{IndexFile, NewSegment, Segment};
use crate::types::{LogId, NewChunk, Payload};

/// Bytes written between syncs, so that no single sync takes long.
const UNSYNCED_MAX: u64 = 4 << 20;

/// A segment being written.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    pub id: u64,
    pub name: Arc<str>,
    identity: Identity,
    inline_below: usize,
    builder: Builder,
    sequence: u64,
    index: FileIndex,
    end: u64,
    unsynced: u64,
    /// Messages in it that were dead when their chunks were copied.
    dead: FxHashMap<LogId, RoaringTreemap>,
}

impl SegmentWriter {
    /// Creates the file.
    pub(crate) fn create(
        disk: &dyn Disk,
        node_id: u64,
        wal_id: u16,
        id: u64,
        inline_below: usize,
        breaks: Breaks,
    ) -> Result<SegmentWriter, DiskError> {
        let name: Arc<str> = Name::Segment(id).text(wal_id).into();
        let identity = Identity::segment(node_id, wal_id, id);
        let header = FileHeader::new(FileKind::Segment, &identity, id, 0);
        disk::create(disk, &name, 0)?;
        disk::write(disk, &name, 0, &[&header.encode()])?;
        Ok(SegmentWriter {
            id,
            name,
            builder: new_builder(&identity, 1, inline_below, Memory::default()),
            identity,
            inline_below,
            sequence: 1,
            index: FileIndex::of_segment(breaks),
            end: FILE_HEADER_BYTES,
            unsynced: 0,
            dead: FxHashMap::default(),
        })
    }

    /// Adds a message; the batch is written when it has reached `batch_bytes`.
    pub(crate) fn push(
        &mut self,
        disk: &dyn Disk,
        log: LogId,
        number: u64,
        payload: &Bytes,
        batch_bytes: u64,
    ) -> Result<(), DiskError> {
        let payload = Payload { head: &[], body: Some(payload) };
        self.builder.message(log, number, None, &payload);
        self.flush_from(disk, batch_bytes)
    }

    /// As [`SegmentWriter::push`] for a chunk of messages.
    pub(crate) fn push_chunk(
        &mut self,
        disk: &dyn Disk,
        chunk: &NewChunk<'_>,
        batch_bytes: u64,
    ) -> Result<(), DiskError> {
        self.builder.chunk(chunk, None);
        self.flush_from(disk, batch_bytes)
    }

    /// Notes messages of a chunk that were dead when it was added.
    pub(crate) fn note_dead(&mut self, log: LogId, numbers: &RoaringTreemap) {
        *self.dead.entry(log).or_default() |= numbers;
    }

    /// As [`SegmentWriter::push`] for all messages of a run, whose records are right.
    pub(crate) fn push_run(
        &mut self,
        disk: &dyn Disk,
        run: &RecordRun,
        records: &[u8],
        batch_bytes: u64,
    ) -> Result<(), DiskError> {
        self.builder.copy_run(run, records);
        self.flush_from(disk, batch_bytes)
    }

    fn flush_from(&mut self, disk: &dyn Disk, batch_bytes: u64) -> Result<(), DiskError> {
        if self.builder.record_bytes() >= batch_bytes {
            self.flush(disk)?;
        }
        Ok(())
    }

    fn flush(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        if self.builder.is_empty() {
            return Ok(());
        }
        self.sequence += 1;
        let empty = new_builder(&self.identity, self.sequence, self.inline_below, Memory::default());
        let sealed = std::mem::replace(&mut self.builder, empty).seal(0);
        sealed.write(disk, &self.name, self.end, &self.identity)?;
        self.index.note(self.end, &sealed.header, &sealed.runs);
        let length = sealed.header.padded_bytes();
        self.end += length;
        self.unsynced += length;
        if self.unsynced >= UNSYNCED_MAX {
            disk::sync(disk, &self.name)?;
            self.unsynced = 0;
        }
        self.builder = new_builder(&self.identity, self.sequence, self.inline_below, sealed.into_memory(1 << 20));
        Ok(())
    }

    /// Writes the remaining messages, index and footer, and syncs the file. Its name isn't durable yet.
    pub(crate) fn finish(mut self, disk: &dyn Disk) -> Result<NewSegment, DiskError> {
        self.flush(disk)?;
        let parts = self.index.into_parts();
        let length = write_index(disk, &self.name, self.end, &self.identity, &parts)?;
        let segment = Segment::new(self.name, self.identity, self.end, length);
        Ok(NewSegment { id: self.id, segment, parts, dead: self.dead, gone: FxHashMap::default() })
    }
}

/// Writes index and footer at `offset`, where the file ends, and syncs it. Returns the length of the file.
fn write_index(
    disk: &dyn Disk,
    name: &str,
    offset: u64,
    identity: &Identity,
    parts: &[(LogId, LogIndex)],
) -> Result<u64, DiskError> {
    let index = segment_index::encode(parts);
    let footer = Footer {
        index_offset: offset,
        salt: identity.salt,
        parts: parts.len() as u32,
        index_crc: crc32c::crc32c(&index),
    };
    disk::write(disk, name, offset, &[&index, &footer.encode()])?;
    if !planted!(SkipSegmentSync) {
        disk::sync(disk, name)?;
    }
    Ok(offset + (index.len() + FOOTER_BYTES) as u64)
}

/// A WAL file that becomes a segment as it is.
#[derive(Debug)]
pub(crate) struct KeptFile {
    /// Its place among the WAL's files.
    pub sequence: u64,
    /// The segment without the file with its index. Who reads it by the pin of the WAL goes on reading it.
    pub segment: Segment,
    /// Of each log, how many of its messages in the file are dead.
    pub gone: FxHashMap<LogId, u64>,
}

impl KeptFile {
    /// Writes the file with the index of the segment `id`, whose parts these are. Its name isn't durable yet.
    pub(crate) fn finish(
        self,
        disk: &dyn Disk,
        id: u64,
        mut parts: Vec<(LogId, LogIndex)>,
    ) -> Result<NewSegment, DiskError> {
        parts.sort_unstable_by_key(|(log, _)| *log);
        let Identity { node_id, wal_id, .. } = self.segment.identity;
        let name: Arc<str> = Name::Segment(id).text(wal_id).into();
        let identity = Identity::segment(node_id, wal_id, id);
        let header = FileHeader::of_kept_file(&identity, id, self.sequence, self.segment.end);
        disk::create(disk, &name, 0)?;
        disk::write(disk, &name, 0, &[&header.encode()])?;
        let length = write_index(disk, &name, FILE_HEADER_BYTES, &identity, &parts)?;
        let segment = self.segment.of_kept_file(IndexFile { name, length });
        Ok(NewSegment { id, segment, parts, dead: FxHashMap::default(), gone: self.gone })
    }
}

fn new_builder(identity: &Identity, sequence: u64, inline_below: usize, memory: Memory) -> Builder {
    Builder::new(identity, sequence, 0, inline_below, memory)
}

/// The reason why a segment can't be used.
#[derive(Debug)]
pub(crate) enum LoadError {
    Disk(DiskError),
    /// Range of the wrong bytes, and what is wrong.
    Damaged(Range<u64>, String),
}

impl From<DiskError> for LoadError {
    fn from(error: DiskError) -> LoadError {
        match error.is_unreadable() {
            true => LoadError::Damaged(error.offset..error.offset, error.to_string()),
            false => LoadError::Disk(error),
        }
    }
}

/// Reads header, footer and index of a segment that has `length` bytes according to the checkpoint.
pub(crate) fn load(disk: &dyn Disk, node_id: u64, wal_id: u16, id: u64, length: u64) -> Result<NewSegment, LoadError> {
    let damaged = |range, reason: &str| LoadError::Damaged(range, reason.to_owned());
    let name: Arc<str> = Name::Segment(id).text(wal_id).into();
    let identity = Identity::segment(node_id, wal_id, id);
    let found = disk::length(disk, &name)?;
    if found != length || length < FILE_HEADER_BYTES + FOOTER_BYTES as u64 {
        let reason = format!("the file has {found} bytes, the checkpoint says {length}");
        return Err(LoadError::Damaged(found.min(length)..found.max(length), reason));
    }
    let header = FileHeader::decode(&disk::read(disk, &name, 0, FILE_HEADER_BYTES as usize)?);
    let kept = header.filter(|header| header.batches_in > 0);
    let expected = match &kept {
        Some(kept) => FileHeader::of_kept_file(&identity, id, kept.batches_in, kept.length),
        None => FileHeader::new(FileKind::Segment, &identity, id, 0),
    };
    if header != Some(expected) {
        return Err(damaged(0..FILE_HEADER_BYTES, "the file header is wrong"));
    }
    let footer_at = length - FOOTER_BYTES as u64;
    let footer = Footer::decode(&disk::read(disk, &name, footer_at, FOOTER_BYTES)?)
        .filter(|footer| footer.salt == identity.salt && (FILE_HEADER_BYTES..=footer_at).contains(&footer.index_offset))
        .ok_or_else(|| damaged(footer_at..length, "the footer is wrong"))?;
    let index_length = (footer_at - footer.index_offset) as usize;
    let index = disk::read(disk, &name, footer.index_offset, index_length)?;
    let parts = segment_index::decode(&index, &footer)
        .ok_or_else(|| damaged(footer.index_offset..footer_at, "the index is wrong"))?;
    let segment = match kept {
        Some(header) => load_kept(disk, &header, IndexFile { name, length })?,
        None => Segment::new(name, identity, footer.index_offset, length),
    };
    Ok(NewSegment { id, segment, parts, dead: FxHashMap::default(), gone: FxHashMap::default() })
}

/// Looks at the WAL file that has the batches of the segment with this header. Each batch says by itself that it belongs to that
/// file, so that its own header isn't needed.
fn load_kept(disk: &dyn Disk, header: &FileHeader, index_file: IndexFile) -> Result<Segment, LoadError> {
    let identity = Identity::wal(header.node_id, header.wal_id, header.batches_in);
    let name: Arc<str> = Name::Wal(header.batches_in).text(header.wal_id).into();
    let length = disk::length(disk, &name)?;
    if length < header.length {
        let reason = format!("{name}, which has its batches, ends at {length} instead of {}", header.length);
        return Err(LoadError::Damaged(length..header.length, reason));
    }
    Ok(Segment::new(name, identity, header.length, length).of_kept_file(index_file))
}

/// End of a segment's batches according to its footer; without a valid footer, the end of the file.
pub(crate) fn batches_end(disk: &dyn Disk, name: &str, length: u64) -> Result<u64, DiskError> {
    let Some(footer_at) = length.checked_sub(FOOTER_BYTES as u64) else { return Ok(length) };
    let footer = Footer::decode(&disk::read(disk, name, footer_at, FOOTER_BYTES)?);
    Ok(footer.map_or(length, |footer| footer.index_offset.min(length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_disk::MemoryDisk;
    use crate::read::{ReadPlan, ReadSource, Skim};

    fn write(disk: &MemoryDisk) -> NewSegment {
        let mut writer = SegmentWriter::create(disk, 5, 0, 3, 4096, Breaks::default()).unwrap();
        for number in 1..=500u64 {
            let log = LogId(1 + number % 2);
            let payload = Bytes::from(vec![number as u8; (number * 7 % 9000) as usize]);
            writer.push(disk, log, number, &payload, 64 << 10).unwrap();
        }
        writer.finish(disk).unwrap()
    }

    #[test]
    fn a_written_segment_is_loaded_and_read() {
        let disk = MemoryDisk::new();
        let NewSegment { id, segment, parts, .. } = write(&disk);
        let loaded = load(&disk, 5, 0, id, segment.length).unwrap();
        assert_eq!(loaded.parts, parts);
        let loaded = loaded.segment;
        assert_eq!(loaded.end, segment.end);
        let mut from = 1;
        let mut numbers = Vec::new();
        while numbers.len() < 250 {
            let source = ReadSource {
                name: &loaded.name,
                pin: &loaded.pin,
                identity: loaded.identity,
                end: loaded.end,
                index: &parts[0].1,
                known: None,
            };
            let plan = ReadPlan::new(LogId(1), from, 100_000, &source);
            for message in plan.run(&disk).unwrap() {
                let number = message.number;
                assert_eq!(message.payload, vec![number as u8; (number * 7 % 9000) as usize]);
                numbers.push(number);
            }
            from = numbers.last().unwrap() + 1;
        }
        let even: Vec<u64> = (1..=250).map(|n| n * 2).collect();
        assert_eq!(numbers, even);
    }

    #[test]
    fn a_file_may_be_written_again_if_the_disk_lends_nothing() {
        let disk = MemoryDisk::new();
        let mut writer = SegmentWriter::create(&disk, 5, 0, 3, 4096, Breaks::default()).unwrap();
        writer
            .push_chunk(
                &disk,
                &NewChunk {
                    log: LogId(1),
                    first: 0,
                    messages: 10,
                    payload: Payload { head: &[], body: Some(&Bytes::from(vec![7; 9000])) },
                },
                64 << 10,
            )
            .unwrap();
        let NewSegment { segment, parts, .. } = writer.finish(&disk).unwrap();
        let source = ReadSource {
            name: &segment.name,
            pin: &segment.pin,
            identity: segment.identity,
            end: segment.end,
            index: &parts[0].1,
            known: None,
        };
        let (found, _) = ReadPlan::new(LogId(1), 0, 100_000, &source).skim(&disk, 20, |_| Skim::Lend).unwrap();
        assert!(found.len() == 1 && found[0].lent.is_none(), "{found:?}");
        assert!(segment.pin.may_be_written());
    }

    #[test]
    fn damage_is_found() {
        let disk = MemoryDisk::new();
        let NewSegment { id, segment, .. } = write(&disk);
        let bytes = disk.content(&segment.name).unwrap();
        assert!(load(&disk, 5, 0, id, segment.length + 1).is_err());
        assert!(load(&disk, 6, 0, id, segment.length).is_err());
        for at in (0..512).chain(segment.end as usize..bytes.len()) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 4;
            disk.put(&segment.name, bytes);
            assert!(load(&disk, 5, 0, id, segment.length).is_err(), "byte {at}");
        }
    }
}
