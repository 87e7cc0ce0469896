//! The log's interface to threads: jobs out, results in, events back.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::builder::Sealed;
use crate::disk::{self, Disk};
use crate::entry_read::EntryRead;
use crate::error::{DiskError, ReadError};
use crate::format::Identity;
use crate::format::entry::Entry;
use crate::live_state::LiveState;
use crate::retire::worker::{Progress, Worker};
use crate::step::Step;
use crate::types::{LogId, Nanos, Position};

/// A lane. The two lanes run concurrently; the jobs of one lane run one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Writes and syncs that callers wait for.
    Commit,
    /// File preparation, retirement, checkpoints.
    Background,
}

/// Id of a job in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId(pub(crate) u64);

/// The next step of a lane.
#[derive(Debug)]
pub enum Next {
    /// RecordRun this, then call [`crate::Log::complete`].
    Run(JobId, Job),
    /// No job before this time, unless something is appended or completed first.
    At(Nanos),
    /// No job until something is appended or completed.
    Idle,
}

/// Work that runs outside the log's lock.
#[derive(Debug)]
pub enum Job {
    /// Write a batch.
    Write(WriteJob),
    /// Make a file durable.
    Sync {
        /// Its name.
        file: Arc<str>,
    },
    /// A few file operations, in order.
    Steps(Vec<Step>),
    /// A step of a retirement, of at most about 1 MiB.
    Retire(RetireJob),
    /// Read entries of the oldest file of the entry log, which are appended again.
    Carry(Vec<EntryRead>),
    /// Ask the owners of these logs for their states. [`Job::run`] can't; answer with [`Done::Live`].
    Live {
        /// The logs. A log that no longer exists, whose deletion was appended, is left out of the answer.
        logs: Vec<LogId>,
    },
}

/// A batch and the place it is written to.
#[derive(Debug)]
pub struct WriteJob {
    pub(crate) file: Arc<str>,
    pub(crate) offset: u64,
    pub(crate) identity: Identity,
    pub(crate) batch: Arc<Sealed>,
}

/// The retirement that a [`Job::Retire`] advances.
#[derive(Clone)]
pub struct RetireJob(pub(crate) Arc<Mutex<Worker>>);

impl fmt::Debug for RetireJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetireJob")
    }
}

/// Result of a job.
#[derive(Debug)]
pub enum Done {
    /// The job was done.
    Yes,
    /// Progress of a retirement.
    Retired(RetireProgress),
    /// The entries that [`Job::Carry`] read, in its order.
    Carried(Vec<Result<Entry, ReadError>>),
    /// The answer to [`Job::Live`].
    Live(Vec<LiveState>),
}

/// Progress of a retirement.
#[derive(Debug)]
pub struct RetireProgress(pub(crate) Progress);

impl Job {
    /// Runs the job.
    ///
    /// # Errors
    /// The disk operation that failed. The log can't continue then.
    ///
    /// # Panics
    /// On [`Job::Live`], which only the owners of the logs can answer.
    pub fn run(&self, disk: &dyn Disk) -> Result<Done, DiskError> {
        match self {
            Job::Write(write) => write.batch.write(disk, &write.file, write.offset, &write.identity)?,
            Job::Sync { file } => disk::sync(disk, file)?,
            Job::Steps(steps) => steps.iter().try_for_each(|step| step.run(disk))?,
            Job::Retire(RetireJob(worker)) => {
                let mut worker = worker.lock().unwrap_or_else(|error| error.into_inner());
                return Ok(Done::Retired(RetireProgress(worker.step(disk)?)));
            }
            Job::Carry(reads) => return Ok(Done::Carried(reads.iter().map(|read| read.run(disk)).collect())),
            Job::Live { .. } => panic!("Job::Live is answered by the owner of the logs"),
        }
        Ok(Done::Yes)
    }
}

/// A change that callers have to react to.
#[derive(Debug)]
pub enum Event {
    /// All records up to here are written: they survive a crash of the process, but not a power cut.
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
    /// A file couldn't be read because of an error of the device, while its messages were moved to another one. Nothing is lost:
    /// the file stays as it is.
    Unreadable(DiskError),
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
