//! Large bodies in files of their own: on their way there in pieces, and the files that nobody needs any more. Jobs for a
//! disk thread, in order.

mod pin;
mod reader;
mod upload;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use leveret_log::{BodyFiles, Disk, DiskError};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use crate::outbox::{Event, Outbox, Wake};

pub(crate) use pin::BodyPin;
pub use reader::{BodyOwner, BodyRead};
pub use reader::{BodyReader, Pieces};
use upload::Upload;
pub use upload::{BodyFile, Unwritten};

/// See the module.
pub struct Bodies {
    files: BodyFiles,
    jobs: Mutex<VecDeque<Work>>,
    wake: RwLock<Option<Arc<dyn Wake>>>,
    next_id: AtomicU64,
    pins: Mutex<FxHashMap<u64, pin::Pinned>>,
    reads: reader::BodyReads,
}

enum Work {
    /// The next bytes of a body; with `last`, there are no more.
    Write {
        upload: Arc<Upload>,
        bytes: Bytes,
        last: bool,
        outbox: Arc<Outbox>,
    },
    Remove(u64),
}

/// One job, to be run on a disk thread.
pub struct BodyJob {
    work: Work,
    files: BodyFiles,
}

impl Bodies {
    /// Bodies in `files`; ids from `next_id` on were never used.
    pub fn new(files: BodyFiles, next_id: u64) -> Arc<Self> {
        Arc::new(Self {
            files,
            jobs: Mutex::default(),
            wake: RwLock::default(),
            next_id: AtomicU64::new(next_id),
            pins: Mutex::default(),
            reads: reader::BodyReads::default(),
        })
    }

    /// Sets who is woken for a job.
    pub fn set_wake(&self, wake: Arc<dyn Wake>) {
        *self.wake.write() = Some(wake);
    }

    /// Sets who is woken for a read.
    pub fn set_read_wake(&self, wake: Arc<dyn Wake>) {
        self.reads.set_wake(wake);
    }

    /// The next read to run.
    pub fn next_read(self: &Arc<Self>) -> Option<BodyRead> {
        self.reads.next(self)
    }

    /// Begins the file of a body that comes in pieces; `outbox` is told [`Event::Body`] of each that is written.
    pub fn begin(self: &Arc<Self>, unwritten: &Unwritten, outbox: &Arc<Outbox>) -> BodyFile {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        BodyFile::new(id, self.clone(), unwritten.clone(), outbox.clone())
    }

    /// Has a whole body written; `outbox` is told [`Event::Body`] when that is decided, at the latest.
    pub fn write(self: &Arc<Self>, body: &Bytes, outbox: &Arc<Outbox>) -> BodyFile {
        let mut file = self.begin(&Unwritten::default(), outbox);
        let mut at = 0;
        while at < body.len() {
            let end = body.len().min(at + self.files.piece_bytes);
            file.push(body.slice(at..end), end == body.len());
            at = end;
        }
        file
    }

    /// Has the file of a body removed that nothing on disk refers to, once nobody reads it any more.
    pub(crate) fn remove(&self, id: u64) {
        if let Some(pinned) = self.pins.lock().get_mut(&id) {
            pinned.doomed = true;
            return;
        }
        self.push(Work::Remove(id));
    }

    fn push(&self, work: Work) {
        self.jobs.lock().push_back(work);
        if let Some(wake) = &*self.wake.read() {
            wake.wake();
        }
    }

    /// The next job to run.
    pub fn next_job(&self) -> Option<BodyJob> {
        let work = self.jobs.lock().pop_front()?;
        Some(BodyJob { work, files: self.files })
    }
}

impl BodyJob {
    /// Does it, and tells who waits for it.
    ///
    /// # Errors
    /// The disk's: the node has to end. Without space a body is refused, and nothing else happens.
    pub fn run(self, disk: &dyn Disk) -> Result<(), DiskError> {
        match self.work {
            Work::Remove(id) => self.files.remove(disk, id),
            Work::Write { upload, bytes, last, outbox } => {
                match upload.write(self.files, disk, &bytes, last) {
                    Err(error) if error.error.kind() == io::ErrorKind::StorageFull => {
                        tracing::warn!(%error, "a large message is refused: the disk is full");
                        upload.refuse();
                        self.files.remove(disk, upload.id)?;
                    }
                    result => result?,
                }
                upload.written(bytes.len() as u64, last);
                outbox.send(Event::Body);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
