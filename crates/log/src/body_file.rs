//! Body files: each holds one large body, written and synced before a record refers to it, so that it doesn't delay
//! other writes to the WAL.
//!
//! The owner reports when no durable record refers to a body any more; only then is its file removed.

use bytes::Bytes;

use crate::disk::{self, Disk};
use crate::error::{DiskError, ReadError};
use crate::format::body::{self, PIECE_BYTES, Pieces};
use crate::format::file_header::{FILE_HEADER_BYTES, FileHeader, FileKind};
use crate::format::{Identity, VERSION};
use crate::recover::{Damage, Hit};
use crate::types::LogId;

/// Pieces written between syncs, so that a concurrent sync never has to flush more than this.
const SYNC_PIECES: usize = 4;

/// The body files of a WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyFiles {
    /// Id of the node.
    pub node_id: u64,
    /// Id of the WAL.
    pub wal_id: u16,
    /// Bytes of a body that are written, checked and read together: [`BODY_PIECE_BYTES`](crate::BODY_PIECE_BYTES),
    /// except in a simulation.
    pub piece_bytes: usize,
}

/// A body that is being written, piece by piece.
#[derive(Debug)]
pub struct BodyWrite {
    files: BodyFiles,
    id: u64,
    length: u64,
    table: Vec<u8>,
    unsynced: usize,
}

/// A body whose pieces can be read.
#[derive(Debug)]
pub struct BodyRead {
    files: BodyFiles,
    id: u64,
    length: u64,
    table: Vec<u8>,
}

impl BodyWrite {
    /// Writes the next piece; every piece but the last has [`BodyFiles::piece_bytes`].
    ///
    /// # Errors
    /// The disk's. The file has to be removed then.
    ///
    /// # Panics
    /// If an earlier piece was shorter, or this one is longer.
    pub fn write(&mut self, disk: &dyn Disk, piece: &[u8]) -> Result<(), DiskError> {
        let most = self.files.piece_bytes;
        let place = self.length / most as u64;
        let is_next = self.length.is_multiple_of(most as u64) && piece.len() <= most;
        assert!(is_next, "a body file's pieces have one length");
        if self.unsynced >= SYNC_PIECES {
            disk::sync(disk, &self.name())?;
            self.unsynced = 0;
        }
        disk::write(disk, &self.name(), FILE_HEADER_BYTES + self.length, &[piece])?;
        self.table.extend_from_slice(&body::checksum(piece, place as usize, self.seed()).to_le_bytes());
        self.length += piece.len() as u64;
        self.unsynced += 1;
        Ok(())
    }

    /// Writes header and checksums, and makes the file durable, including its name.
    ///
    /// # Errors
    /// The disk's. The file has to be removed then.
    pub fn finish(mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        let name = self.name();
        let BodyFiles { node_id, wal_id, .. } = self.files;
        let identity = Identity::body(node_id, wal_id, self.id);
        body::close_table(&mut self.table, identity.seed);
        let header = FileHeader::new(FileKind::Body, &identity, self.id, self.length);
        disk::write(disk, &name, FILE_HEADER_BYTES + self.length, &[&self.table])?;
        disk::write(disk, &name, 0, &[&header.encode()])?;
        disk::sync(disk, &name)?;
        disk::sync_directory(disk)
    }

    fn name(&self) -> String {
        self.files.name(self.id)
    }

    fn seed(&self) -> u32 {
        Identity::body(self.files.node_id, self.files.wal_id, self.id).seed
    }
}

impl BodyRead {
    /// Reads the piece with this index, counted from 0. `log` is named in the error.
    ///
    /// # Errors
    /// The bytes aren't those written, or the disk can't read them.
    pub fn piece(&self, disk: &dyn Disk, place: u64, log: LogId) -> Result<Bytes, ReadError> {
        disk::repeat(disk, |disk| self.read_piece(disk, place, log))
    }

    fn read_piece(&self, disk: &dyn Disk, place: u64, log: LogId) -> Result<Bytes, ReadError> {
        let name = self.files.name(self.id);
        let start = place * self.files.piece_bytes as u64;
        let end = (start + self.files.piece_bytes as u64).min(self.length);
        let range = FILE_HEADER_BYTES + start..FILE_HEADER_BYTES + end;
        let length = end.saturating_sub(start) as usize;
        let piece = disk::read(disk, &name, range.start, length).map_err(|error| ReadError::from_disk(error, log))?;
        let seed = Identity::body(self.files.node_id, self.files.wal_id, self.id).seed;
        if piece.len() == length && body::is_piece(&self.table, &piece, place as usize, seed) {
            return Ok(piece.into());
        }
        Err(ReadError { file: name, range, log, reason: "a piece of a body has a wrong checksum".to_owned() })
    }
}

impl BodyFiles {
    /// The body files of this WAL.
    #[must_use]
    pub const fn new(node_id: u64, wal_id: u16) -> Self {
        Self { node_id, wal_id, piece_bytes: PIECE_BYTES }
    }

    /// The name of a body's file.
    #[must_use]
    pub fn name(&self, id: u64) -> String {
        format!("body-{:04x}-{id:016x}", self.wal_id)
    }

    /// The body whose file has this name.
    #[must_use]
    pub fn parse(&self, name: &str) -> Option<u64> {
        let id = name.strip_prefix(&format!("body-{:04x}-", self.wal_id))?;
        (id.len() == 16).then(|| u64::from_str_radix(id, 16).ok()).flatten()
    }

    /// The bodies that have a file, whole or not.
    ///
    /// # Errors
    /// The disk's.
    pub fn list(&self, disk: &dyn Disk) -> Result<Vec<u64>, DiskError> {
        let mut ids: Vec<u64> = disk::list(disk)?.iter().filter_map(|name| self.parse(name)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Begins the file of a body whose length isn't known yet. Blocks are allocated as bytes arrive, never by a
    /// length that a client announced.
    ///
    /// # Errors
    /// The disk's. The file may exist then and has to be removed.
    pub fn begin(&self, disk: &dyn Disk, id: u64) -> Result<BodyWrite, DiskError> {
        disk::create(disk, &self.name(id), 0)?;
        Ok(BodyWrite { files: *self, id, length: 0, table: Vec::new(), unsynced: 0 })
    }

    /// Makes a body durable, including the file's name.
    ///
    /// # Errors
    /// The disk's. The file may exist then and has to be removed.
    pub fn write(&self, disk: &dyn Disk, id: u64, body: &[u8]) -> Result<(), DiskError> {
        let mut write = self.begin(disk, id)?;
        body.chunks(self.piece_bytes).try_for_each(|piece| write.write(disk, piece))?;
        write.finish(disk)
    }

    /// Opens a body of `length` bytes in order to read its pieces. `log` is named in the error.
    ///
    /// # Errors
    /// Header or checksums aren't those written, or the disk can't read them.
    pub fn open(&self, disk: &dyn Disk, id: u64, length: u64, log: LogId) -> Result<BodyRead, ReadError> {
        disk::repeat(disk, |disk| self.open_once(disk, id, length, log))
    }

    fn open_once(&self, disk: &dyn Disk, id: u64, length: u64, log: LogId) -> Result<BodyRead, ReadError> {
        let name = self.name(id);
        let identity = Identity::body(self.node_id, self.wal_id, id);
        let wrong = |range, reason: &str| ReadError { file: name.clone(), range, log, reason: reason.to_owned() };
        let fetch = |at, bytes| disk::read(disk, &name, at, bytes).map_err(|error| ReadError::from_disk(error, log));
        let header = FileHeader::decode(&fetch(0, FILE_HEADER_BYTES as usize)?);
        let expected = FileHeader::new(FileKind::Body, &identity, id, length);
        if header != Some(expected) {
            let reason = match header {
                None => format!("the file header isn't one of version {VERSION}"),
                Some(_) => "the file header is another file's".to_owned(),
            };
            return Err(wrong(0..FILE_HEADER_BYTES, &reason));
        }
        let end = FILE_HEADER_BYTES + length;
        let table = fetch(end, body::table_bytes(length, self.piece_bytes))?;
        if table.len() != body::table_bytes(length, self.piece_bytes) || Pieces::new(&table, identity.seed).is_none() {
            return Err(wrong(end..end + table.len() as u64, "the checksums are damaged"));
        }
        Ok(BodyRead { files: *self, id, length, table })
    }

    /// Reads a whole body of `length` bytes. `log` is named in the error.
    ///
    /// # Errors
    /// The bytes aren't those written, or the disk can't read them.
    pub fn read(&self, disk: &dyn Disk, id: u64, length: u64, log: LogId) -> Result<Bytes, ReadError> {
        let opened = self.open(disk, id, length, log)?;
        let mut body = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        for place in 0..length.div_ceil(self.piece_bytes as u64) {
            body.extend_from_slice(&opened.piece(disk, place, log)?);
        }
        Ok(body.into())
    }

    /// Checks a body's file piece by piece. Returns its length in bytes.
    ///
    /// # Errors
    /// The damaged or unreadable bytes, and why.
    pub fn verify(&self, disk: &dyn Disk, id: u64) -> Result<u64, Damage> {
        let name = self.name(id);
        let identity = Identity::body(self.node_id, self.wal_id, id);
        let nobody = || Hit::Logs(Vec::new());
        let wrong = |range, reason: &str| Damage::new(&name, range, nobody(), reason);
        let unread = |error: DiskError| Damage::new(&name, error.offset..error.offset, nobody(), error.to_string());
        let length =
            disk::length(disk, &name).map_err(|_| wrong(0..0, "the file is missing (a message refers to it)"))?;
        let fetch = |at, bytes| disk::read(disk, &name, at, bytes).map_err(unread);
        let header = FileHeader::decode(&fetch(0, FILE_HEADER_BYTES as usize)?);
        let Some(header) =
            header.filter(|header| *header == FileHeader::new(FileKind::Body, &identity, id, header.length))
        else {
            return Err(wrong(0..FILE_HEADER_BYTES, "the file header is wrong"));
        };
        let end = FILE_HEADER_BYTES + header.length;
        if length != end + body::table_bytes(header.length, self.piece_bytes) as u64 {
            return Err(wrong(0..length, "the file is longer or shorter than its header says"));
        }
        let table = fetch(end, body::table_bytes(header.length, self.piece_bytes))?;
        let mut pieces =
            Pieces::new(&table, identity.seed).ok_or_else(|| wrong(end..length, "the checksums are damaged"))?;
        let mut at = FILE_HEADER_BYTES;
        while at < end {
            let piece_end = (at + self.piece_bytes as u64).min(end);
            if !pieces.is_next(&fetch(at, (piece_end - at) as usize)?) {
                return Err(wrong(at..piece_end, "a piece of a body has a wrong checksum"));
            }
            at = piece_end;
        }
        Ok(length)
    }

    /// Copies the file of a sound body.
    ///
    /// # Errors
    /// One of the disks'.
    pub fn copy(&self, from: &dyn Disk, to: &dyn Disk, id: u64) -> Result<(), DiskError> {
        let name = self.name(id);
        let length = disk::length(from, &name)?;
        disk::create(to, &name, length)?;
        let mut at = 0;
        while at < length {
            let piece = disk::read(from, &name, at, self.piece_bytes)?;
            disk::write(to, &name, at, &[&piece])?;
            at += self.piece_bytes as u64;
        }
        disk::sync(to, &name)?;
        disk::sync_directory(to)
    }

    /// Unlinks the file of an unreferenced body. A missing file is no error.
    ///
    /// # Errors
    /// The disk's.
    pub fn remove(&self, disk: &dyn Disk, id: u64) -> Result<(), DiskError> {
        match disk::remove(disk, &self.name(id)) {
            Err(error) if error.error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_disk::MemoryDisk;

    const FILES: BodyFiles = BodyFiles::new(7, 3);

    fn body(length: usize) -> Bytes {
        (0..length).map(|at| (at * 31 % 251) as u8).collect::<Vec<u8>>().into()
    }

    #[test]
    fn a_check_finds_every_flipped_bit_and_sound_bodies_are_copied() {
        let disk = MemoryDisk::new();
        FILES.write(&disk, 3, &body(40)).unwrap();
        let name = FILES.name(3);
        let content = disk.content(&name).unwrap();
        assert_eq!(FILES.verify(&disk, 3).unwrap(), content.len() as u64);
        for bit in 0..content.len() * 8 {
            let mut flipped = content.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            disk.put(&name, flipped);
            let damage = FILES.verify(&disk, 3).unwrap_err();
            assert!(damage.range.contains(&(bit as u64 / 8)), "bit {bit}: {damage}");
        }
        disk.put(&name, content[..content.len() - 1].to_vec());
        assert!(FILES.verify(&disk, 3).is_err());
        assert!(FILES.verify(&disk, 4).unwrap_err().reason.contains("missing"));
        FILES.write(&disk, 5, &body(PIECE_BYTES * 2 + 5)).unwrap();
        let copy = MemoryDisk::new();
        FILES.copy(&disk, &copy, 5).unwrap();
        assert_eq!(copy.content(&FILES.name(5)), disk.content(&FILES.name(5)));
        FILES.verify(&copy, 5).unwrap();
        let mut swapped = copy.content(&FILES.name(5)).unwrap();
        let (first, second) = swapped[FILE_HEADER_BYTES as usize..].split_at_mut(PIECE_BYTES);
        first.swap_with_slice(&mut second[..PIECE_BYTES]);
        copy.put(&FILES.name(5), swapped);
        assert!(FILES.verify(&copy, 5).is_err());
    }

    #[test]
    fn written_bodies_are_read_back_and_listed() {
        let disk = MemoryDisk::new();
        for (id, length) in
            [(1, 0), (2, 1), (9, PIECE_BYTES), (10, PIECE_BYTES * 2 + 5), (0xabc, SYNC_PIECES * PIECE_BYTES + 1)]
        {
            FILES.write(&disk, id, &body(length)).unwrap();
            assert_eq!(FILES.read(&disk, id, length as u64, LogId(1)).unwrap(), body(length));
            assert!(FILES.read(&disk, id, length as u64 + 1, LogId(1)).is_err());
        }
        assert_eq!(FILES.list(&disk).unwrap(), [1, 2, 9, 10, 0xabc]);
        assert_eq!(BodyFiles { wal_id: 4, ..FILES }.list(&disk).unwrap(), Vec::<u64>::new());
        FILES.remove(&disk, 9).unwrap();
        FILES.remove(&disk, 9).unwrap();
        assert_eq!(FILES.list(&disk).unwrap(), [1, 2, 10, 0xabc]);
    }

    #[test]
    fn every_flipped_bit_is_found_and_where() {
        let disk = MemoryDisk::new();
        let whole = body(1_000);
        FILES.write(&disk, 5, &whole).unwrap();
        let bytes = disk.content(&FILES.name(5)).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            disk.put(&FILES.name(5), flipped);
            let error = FILES.read(&disk, 5, 1_000, LogId(1)).unwrap_err();
            assert!(error.range.contains(&(bit as u64 / 8)), "bit {bit}: {error}");
        }
        disk.put(&FILES.name(5), bytes[..bytes.len() - 1].to_vec());
        assert!(FILES.read(&disk, 5, 1_000, LogId(1)).is_err(), "cut off");
        // A body under another body's name.
        disk.put(&FILES.name(6), bytes);
        assert!(FILES.read(&disk, 6, 1_000, LogId(1)).is_err());
    }
}
