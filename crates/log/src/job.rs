//! What the log asks of others: jobs out, results in, events back.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use roaring::RoaringTreemap;

use crate::builder::Sealed;
use crate::disk::{self, Disk};
use crate::error::{DiskError, ReadError};
use crate::format::Identity;
use crate::retire::worker::{Progress, Worker};
use crate::types::{LogId, Nanos, Position};

/// Jobs of the two lanes run beside each other, those of one lane one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Writes and syncs that somebody waits for.
    Commit,
    /// File preparation, retirement, checkpoints.
    Background,
}

/// A job that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId(pub(crate) u64);

/// What a lane has to do.
#[derive(Debug)]
pub enum Next {
    /// Run this, then call [`crate::Log::complete`].
    Run(JobId, Job),
    /// Nothing before this time, unless something is appended or completed first.
    At(Nanos),
    /// Nothing until something is appended or completed.
    Idle,
}

/// Something to be done outside the log's lock.
#[derive(Debug)]
pub enum Job {
    /// Write a batch.
    Write(WriteJob),
    /// Make a file durable.
    Sync {
        /// Its name.
        file: Arc<str>,
    },
    /// A few operations on files, in order.
    Steps(Vec<Step>),
    /// A piece of a retirement, at most about 1 MiB.
    Retire(RetireJob),
    /// Ask the owners of these logs for their state. [`Job::run`] can't: answer with [`Done::Live`].
    Live {
        /// The logs. One that no longer exists, its deletion appended, is left out of the answer.
        logs: Vec<LogId>,
    },
}

/// A batch and its place.
#[derive(Debug)]
pub struct WriteJob {
    pub(crate) file: Arc<str>,
    pub(crate) offset: u64,
    pub(crate) identity: Identity,
    pub(crate) batch: Arc<Sealed>,
}

/// The retirement that a [`Job::Retire`] moves on.
#[derive(Clone)]
pub struct RetireJob(pub(crate) Arc<Mutex<Worker>>);

impl fmt::Debug for RetireJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetireJob")
    }
}

/// One operation on files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a file of this length.
    Create(Arc<str>, u64),
    /// Rename a file.
    Rename(Arc<str>, Arc<str>),
    /// Write to the start of a file.
    WriteStart(Arc<str>, Vec<u8>),
    /// Write zeros to these bytes of a file.
    WriteZeros(Arc<str>, Range<u64>),
    /// Make a file durable.
    Sync(Arc<str>),
    /// Make the names durable.
    SyncDirectory,
    /// Unlink a file.
    Remove(Arc<str>),
    /// Unlink a file that may not be there.
    Discard(Arc<str>),
}

impl Step {
    pub(crate) fn run(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        match self {
            Step::Create(name, length) => disk::create(disk, name, *length),
            Step::Rename(from, to) => disk::rename(disk, from, to),
            Step::WriteStart(name, bytes) => disk::write(disk, name, 0, &[bytes]),
            Step::WriteZeros(name, range) => write_zeros(disk, name, range.clone()),
            Step::Sync(name) => disk::sync(disk, name),
            Step::SyncDirectory => disk::sync_directory(disk),
            Step::Remove(name) => disk::remove(disk, name),
            Step::Discard(name) => match disk::remove(disk, name) {
                Err(error) if error.error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                other => other,
            },
        }
    }
}

fn write_zeros(disk: &dyn Disk, name: &str, range: Range<u64>) -> Result<(), DiskError> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let count = range.end - range.start;
    let whole = (count / ZEROS.len() as u64) as usize;
    let rest = (count % ZEROS.len() as u64) as usize;
    let mut slices = vec![&ZEROS[..]; whole];
    slices.push(&ZEROS[..rest]);
    disk::write(disk, name, range.start, &slices)
}

/// Result of a job.
#[derive(Debug)]
pub enum Done {
    /// It was done.
    Yes,
    /// A retirement came this far.
    Retired(RetireProgress),
    /// The answer to [`Job::Live`].
    Live(Vec<LiveState>),
}

/// How far a retirement came.
#[derive(Debug)]
pub struct RetireProgress(pub(crate) Progress);

/// What is alive in a log, and what its owner needs to go on from here.
///
/// The state must reflect every settle and control record of the log up to `position` and none after it, and every
/// message below `next` (alive, if it is in `live`) and none from `next` on. What is appended but not durable yet may
/// be in it or not. Taken under the lock that the log's appends are made under.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveState {
    /// Whose state.
    pub log: LogId,
    /// Number of the next message: above every message that is durable.
    pub next: u64,
    /// Position of the last record of the log that is reflected: what the last append returned.
    pub position: Position,
    /// Numbers of the live messages, all below `next`.
    pub live: RoaringTreemap,
    /// Sum of their body sizes.
    pub bytes: u64,
    /// Numbers of messages whose bytes stand in another log, alive or not; checkpoints don't keep them.
    pub elsewhere: RoaringTreemap,
    /// The rest of the ledger; for [`LogId::METADATA`] the encoded model.
    pub state: Vec<u8>,
}

impl Default for LogId {
    fn default() -> LogId {
        LogId::METADATA
    }
}

impl Job {
    /// Does it.
    ///
    /// # Errors
    /// The operation that the disk refused. The log can't go on then.
    ///
    /// # Panics
    /// With [`Job::Live`], which only the owner of the logs can answer.
    pub fn run(&self, disk: &dyn Disk) -> Result<Done, DiskError> {
        match self {
            Job::Write(write) => write.batch.write(disk, &write.file, write.offset, &write.identity)?,
            Job::Sync { file } => disk::sync(disk, file)?,
            Job::Steps(steps) => steps.iter().try_for_each(|step| step.run(disk))?,
            Job::Retire(RetireJob(worker)) => {
                let mut worker = worker.lock().unwrap_or_else(|error| error.into_inner());
                return Ok(Done::Retired(RetireProgress(worker.step(disk)?)));
            }
            Job::Live { .. } => panic!("Job::Live is answered by the owner of the logs"),
        }
        Ok(Done::Yes)
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// All records up to here are written: they survive the process, but not yet a power cut.
    Written(Position),
    /// All records up to here are durable.
    Durable(Position),
    /// [`crate::Log::room`] is true again.
    Room,
    /// A WAL file was retired.
    Retired {
        /// Its name.
        file: String,
        /// Messages copied to segments.
        messages: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// Stored messages couldn't be read back while their WAL file was retired. They are lost; the file is kept under
    /// a name that begins with `damaged-`.
    Damaged(ReadError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Operation;
    use crate::memory_disk::MemoryDisk;

    #[test]
    fn steps_end_at_the_first_that_fails() {
        let disk = MemoryDisk::new();
        let name: Arc<str> = "a".into();
        let job = Job::Steps(vec![
            Step::Create(name.clone(), 4),
            Step::WriteStart(name.clone(), vec![1, 2]),
            Step::Sync(name.clone()),
            Step::Rename(name.clone(), "b".into()),
            Step::Remove(name),
            Step::SyncDirectory,
        ]);
        let error = job.run(&disk).unwrap_err();
        assert_eq!(error.operation, Operation::Remove);
        assert_eq!(disk.content("b").unwrap(), [1, 2, 0, 0]);
    }
}
