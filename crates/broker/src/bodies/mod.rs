//! Large bodies in files of their own: files being written in pieces, and files to be removed. These are jobs for a disk
//! thread, in order.

mod pin;
mod reader;
mod upload;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use leveret_log::{BodyFiles, Disk, DiskError};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use crate::outbox::{Event, Outbox, Wake};

pub(crate) use pin::BodyPin;
pub use reader::{BodyOwner, BodyRead};
pub use reader::{BodyReader, Pieces, WholeBody};
use upload::Upload;
pub use upload::{BodyFile, Unwritten};

/// The body files of a node, and the jobs that write and remove them.
pub struct Bodies {
    files: BodyFiles,
    jobs: Mutex<VecDeque<Work>>,
    wake: RwLock<Option<Arc<dyn Wake>>>,
    next_id: AtomicU64,
    pins: Mutex<FxHashMap<u64, pin::Pinned>>,
    reads: reader::BodyReads,
}

enum Work {
    /// Writes the next bytes of a body; `last` if no more follow.
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
    /// Manages bodies in `files`; ids from `next_id` on were never used.
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

    /// Sets the wake-up for new jobs.
    pub fn set_wake(&self, wake: Arc<dyn Wake>) {
        *self.wake.write() = Some(wake);
    }

    /// Sets the wake-up for new reads.
    pub fn set_read_wake(&self, wake: Arc<dyn Wake>) {
        self.reads.set_wake(wake);
    }

    /// The next read to run.
    pub fn next_read(self: &Arc<Self>) -> Option<BodyRead> {
        self.reads.next(self)
    }

    /// Begins the file of a body that arrives in pieces; `outbox` gets [`Event::Body`] for each piece that is written.
    pub fn begin(self: &Arc<Self>, unwritten: &Unwritten, outbox: &Arc<Outbox>) -> BodyFile {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        BodyFile::new(id, self.clone(), unwritten.clone(), outbox.clone())
    }

    /// Writes a whole body; `outbox` gets [`Event::Body`] at the latest when the result is known.
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

    /// Removes the file of a body that nothing on disk refers to, once all reads of it have ended.
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
    /// Runs the job, and notifies those that wait for it.
    ///
    /// # Errors
    /// Errors of the disk: the node has to stop. If space is lacking, only the body is refused.
    pub fn run(self, disk: &dyn Disk) -> Result<(), DiskError> {
        match self.work {
            Work::Remove(id) => self.files.remove(disk, id),
            Work::Write { upload, bytes, last, outbox } => {
                match upload.write(self.files, disk, &bytes, last) {
                    Err(error) if error.has_no_space() => {
                        tracing::warn!(%error, "a large message is refused: the disk or a quota is full");
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
