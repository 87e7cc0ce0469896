//! Large bodies on their way to files of their own, and the files that nobody needs any more: jobs for a disk thread, in
//! order.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use bytes::Bytes;
use leveret_log::{BodyFiles, Disk, DiskError};
use parking_lot::{Mutex, RwLock};

use crate::outbox::{Event, Outbox, Wake};

const PENDING: u8 = 0;
const WRITTEN: u8 = 1;
const REFUSED: u8 = 2;

/// See the module.
pub struct Bodies {
    files: BodyFiles,
    jobs: Mutex<VecDeque<Work>>,
    wake: RwLock<Option<Arc<dyn Wake>>>,
    next_id: AtomicU64,
}

enum Work {
    Write { id: u64, body: Bytes, state: Arc<AtomicU8>, outbox: Arc<Outbox> },
    Remove(u64),
}

/// One job, to be run on a disk thread.
pub struct BodyJob {
    work: Work,
    files: BodyFiles,
}

/// A body that is being written, or was; its file goes with this, unless [`BodyFile::keep`] was called.
pub(crate) struct BodyFile {
    id: u64,
    state: Arc<AtomicU8>,
    bodies: Arc<Bodies>,
    is_kept: bool,
}

impl Bodies {
    /// Bodies in `files`; ids from `next_id` on were never used.
    pub fn new(files: BodyFiles, next_id: u64) -> Arc<Self> {
        Arc::new(Self { files, jobs: Mutex::default(), wake: RwLock::default(), next_id: AtomicU64::new(next_id) })
    }

    /// Where they are.
    pub(crate) fn files(&self) -> BodyFiles {
        self.files
    }

    /// Sets who is woken for a job.
    pub fn set_wake(&self, wake: Arc<dyn Wake>) {
        *self.wake.write() = Some(wake);
    }

    /// Has a body written; `outbox` is told [`Event::Durable`] when that is decided.
    pub(crate) fn write(self: &Arc<Self>, body: Bytes, outbox: &Arc<Outbox>) -> BodyFile {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(AtomicU8::new(PENDING));
        self.push(Work::Write { id, body, state: state.clone(), outbox: outbox.clone() });
        BodyFile { id, state, bodies: self.clone(), is_kept: false }
    }

    /// Has the file of a body removed, which nothing on disk refers to.
    pub(crate) fn remove(&self, id: u64) {
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
            Work::Write { id, body, state, outbox } => {
                let result = self.files.write(disk, id, &body);
                let decided = match &result {
                    Ok(()) => WRITTEN,
                    Err(error) if error.error.kind() == io::ErrorKind::StorageFull => {
                        tracing::warn!(%error, bytes = body.len(), "a large message is refused: the disk is full");
                        self.files.remove(disk, id)?;
                        REFUSED
                    }
                    Err(_) => return result,
                };
                state.store(decided, Ordering::Release);
                outbox.send(Event::Durable);
                Ok(())
            }
        }
    }
}

impl BodyFile {
    /// Whether it isn't decided yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.state.load(Ordering::Acquire) == PENDING
    }

    /// Whether the disk has it.
    pub(crate) fn is_written(&self) -> bool {
        self.state.load(Ordering::Acquire) == WRITTEN
    }

    /// Something on disk will refer to it: whoever calls this removes the file. Its id.
    pub(crate) fn keep(mut self) -> u64 {
        self.is_kept = true;
        self.id
    }
}

impl Drop for BodyFile {
    fn drop(&mut self) {
        if !self.is_kept {
            self.bodies.remove(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_log::MemoryDisk;

    use super::*;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    const FILES: BodyFiles = BodyFiles { node_id: 1, wal_id: 0 };

    fn run_all(bodies: &Bodies, disk: &MemoryDisk) {
        while let Some(job) = bodies.next_job() {
            job.run(disk).expect("a working disk");
        }
    }

    #[test]
    fn a_file_goes_with_whoever_gave_it_up() {
        let disk = MemoryDisk::new();
        let bodies = Bodies::new(FILES, 5);
        let outbox = Arc::new(Outbox::new(Arc::new(Nobody)));
        let kept = bodies.write(Bytes::from_static(b"kept"), &outbox);
        let given_up = bodies.write(Bytes::from_static(b"given up"), &outbox);
        assert!(kept.is_pending());
        drop(given_up);
        run_all(&bodies, &disk);
        assert!(kept.is_written());
        let mut events = Vec::new();
        outbox.drain(&mut events);
        assert_eq!(events, [Event::Durable, Event::Durable]);
        assert_eq!(kept.keep(), 5);
        run_all(&bodies, &disk);
        assert_eq!(FILES.list(&disk).expect("a working disk"), [5]);
    }
}
