//! The disk as a file system of the kernel's. Nothing is cached: every read and write comes here.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::consts::FOPEN_DIRECT_IO;
use fuser::{
    FileAttr, FileType, Filesystem, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
};
use libc::{EIO, ENOENT, EXDEV};

use crate::disk::Disk;

/// The kernel asks every time.
const NEVER: Duration = Duration::ZERO;

/// The mounted disk.
pub struct Mounted(pub Arc<Mutex<Disk>>);

/// The error of a failed operation: that of the device when the power is gone, otherwise a missing file.
fn error(disk: &Disk) -> i32 {
    if disk.is_dead { EIO } else { ENOENT }
}

fn attributes(disk: &Disk, node: u64) -> Option<FileAttr> {
    let is_directory = disk.is_directory(node);
    let size = if is_directory { 0 } else { disk.length(node)? as u64 };
    Some(FileAttr {
        ino: node,
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_directory { FileType::Directory } else { FileType::RegularFile },
        perm: 0o755,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

impl Mounted {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn answer(disk: &Disk, done: Option<()>, reply: ReplyEmpty) {
    match done {
        Some(()) => reply.ok(),
        None => reply.error(error(disk)),
    }
}

impl Filesystem for Mounted {
    fn lookup(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEntry) {
        let disk = self.disk();
        let found = disk.find(parent, &name.to_string_lossy());
        match found.and_then(|node| attributes(&disk, node)) {
            Some(attributes) => reply.entry(&NEVER, &attributes, 0),
            None => reply.error(ENOENT),
        }
    }

    fn getattr(&mut self, _: &Request<'_>, node: u64, _: Option<u64>, reply: ReplyAttr) {
        let disk = self.disk();
        match attributes(&disk, node) {
            Some(attributes) => reply.attr(&NEVER, &attributes),
            None => reply.error(ENOENT),
        }
    }

    fn setattr(
        &mut self,
        _: &Request<'_>,
        node: u64,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<u64>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<u32>,
        reply: ReplyAttr,
    ) {
        let mut disk = self.disk();
        let done = size.is_none_or(|size| disk.set_length(node, size as usize).is_some());
        match attributes(&disk, node).filter(|_| done) {
            Some(attributes) => reply.attr(&NEVER, &attributes),
            None => reply.error(error(&disk)),
        }
    }

    fn mkdir(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let mut disk = self.disk();
        let made = disk.make(parent, &name.to_string_lossy(), true);
        match made.and_then(|node| attributes(&disk, node)) {
            Some(attributes) => reply.entry(&NEVER, &attributes, 0),
            None => reply.error(error(&disk)),
        }
    }

    fn create(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let mut disk = self.disk();
        let made = disk.make(parent, &name.to_string_lossy(), false);
        match made.and_then(|node| attributes(&disk, node)) {
            Some(attributes) => reply.created(&NEVER, &attributes, 0, 0, FOPEN_DIRECT_IO),
            None => reply.error(error(&disk)),
        }
    }

    fn open(&mut self, _: &Request<'_>, _: u64, _: i32, reply: ReplyOpen) {
        reply.opened(0, FOPEN_DIRECT_IO);
    }

    fn read(
        &mut self,
        _: &Request<'_>,
        node: u64,
        _: u64,
        offset: i64,
        size: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyData,
    ) {
        let disk = self.disk();
        match disk.read(node, offset as usize, size as usize) {
            Some(bytes) => reply.data(bytes),
            None => reply.error(error(&disk)),
        }
    }

    fn write(
        &mut self,
        _: &Request<'_>,
        node: u64,
        _: u64,
        offset: i64,
        data: &[u8],
        _: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyWrite,
    ) {
        let mut disk = self.disk();
        match disk.write(node, offset as usize, data) {
            Some(()) => reply.written(data.len() as u32),
            None => reply.error(error(&disk)),
        }
    }

    fn fallocate(&mut self, _: &Request<'_>, node: u64, _: u64, offset: i64, length: i64, _: i32, reply: ReplyEmpty) {
        let mut disk = self.disk();
        let length = (offset + length) as usize;
        let is_longer = disk.length(node).is_some_and(|now| now >= length);
        let done = if is_longer { Some(()) } else { disk.set_length(node, length) };
        answer(&disk, done, reply);
    }

    fn unlink(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEmpty) {
        let mut disk = self.disk();
        let done = disk.remove(parent, &name.to_string_lossy());
        answer(&disk, done, reply);
    }

    fn rmdir(&mut self, request: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(request, parent, name, reply);
    }

    fn rename(
        &mut self,
        _: &Request<'_>,
        parent: u64,
        name: &OsStr,
        new_parent: u64,
        new_name: &OsStr,
        _: u32,
        reply: ReplyEmpty,
    ) {
        if parent != new_parent {
            return reply.error(EXDEV);
        }
        let mut disk = self.disk();
        let done = disk.rename(parent, &name.to_string_lossy(), &new_name.to_string_lossy());
        answer(&disk, done, reply);
    }

    fn flush(&mut self, _: &Request<'_>, _: u64, _: u64, _: u64, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&mut self, _: &Request<'_>, node: u64, _: u64, _: bool, reply: ReplyEmpty) {
        let mut disk = self.disk();
        let done = disk.sync(node);
        answer(&disk, done, reply);
    }

    fn fsyncdir(&mut self, request: &Request<'_>, node: u64, handle: u64, _: bool, reply: ReplyEmpty) {
        self.fsync(request, node, handle, false, reply);
    }

    fn readdir(&mut self, _: &Request<'_>, node: u64, _: u64, offset: i64, mut reply: ReplyDirectory) {
        let disk = self.disk();
        let Some(names) = disk.names(node) else { return reply.error(ENOENT) };
        for (at, (name, entry)) in names.iter().enumerate().skip(offset as usize) {
            let kind = if disk.is_directory(*entry) { FileType::Directory } else { FileType::RegularFile };
            if reply.add(*entry, at as i64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&mut self, _: &Request<'_>, _: u64, reply: ReplyStatfs) {
        // Never full: 1 TiB.
        let blocks = 1 << 28;
        reply.statfs(blocks, blocks, blocks, 1 << 20, 1 << 20, 4096, 255, 4096);
    }
}
