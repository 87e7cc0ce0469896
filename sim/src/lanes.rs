//! Disk lanes, which work one step at a time: request a job, run it, report it. Between two steps anything else may
//! happen.

use std::sync::Arc;

use leveret_broker::streams::StoreId;
use leveret_broker::{BodyJob, Broker, Nanos, ReadJob};
use leveret_log::{Disk, DiskError, Done, Job, JobId, Lane, Log, Next, Operation};

use crate::clock::Clock;
use crate::cores::LaneWake;
use crate::failure::{Check, Failure};
use crate::random::Random;

/// The state of a lane.
#[derive(Debug, Default)]
enum Doing {
    #[default]
    Nothing,
    /// A job that isn't begun.
    Job(JobId, Job),
    /// A job whose result is reported at this time.
    Result(JobId, Result<Done, DiskError>, Nanos),
}

/// The source of a lane's jobs.
#[derive(Debug)]
enum Source {
    Lane(Lane),
    /// Small writes of the commit lane, run by a core. The core now and then has no time, and wakes the lane.
    SmallWrites {
        lane: Arc<LaneWake>,
    },
}

/// The commit or the background lane, or the core that writes instead of the commit lane.
#[derive(Debug)]
pub struct DiskLane {
    source: Source,
    /// The wake-up that the broker sets.
    pub wake: Arc<LaneWake>,
    at: Option<Nanos>,
    doing: Doing,
    /// Factor by which it is slower than a good disk.
    slowness: u64,
    /// The duration of a sync, if it is a constant.
    sync: Option<Nanos>,
    /// The log that the jobs belong to.
    store: StoreId,
}

impl DiskLane {
    /// A lane that requests work at once. Its disk is slower than a good one by this factor.
    #[must_use]
    pub fn new(store: StoreId, lane: Lane, slowness: u64) -> Self {
        let source = Source::Lane(lane);
        Self { source, wake: Arc::default(), at: Some(0), doing: Doing::Nothing, slowness, sync: None, store }
    }

    /// The lane for small writes of `commit`.
    #[must_use]
    pub fn small_writes(commit: &Self) -> Self {
        let source = Source::SmallWrites { lane: commit.wake.clone() };
        let (slowness, store) = (commit.slowness, commit.store);
        Self { source, wake: Arc::default(), at: None, doing: Doing::Nothing, slowness, sync: None, store }
    }

    /// From now on syncs take this time, and other jobs at most as long.
    pub fn quicken(&mut self, sync: Nanos) {
        self.sync = Some(sync);
    }

    /// The time of its next step; none before it is woken.
    #[must_use]
    pub fn due(&self) -> Option<Nanos> {
        match &self.doing {
            Doing::Nothing if self.wake.is_set() => Some(0),
            Doing::Nothing => self.at,
            Doing::Job(..) => Some(0),
            Doing::Result(_, _, at) => Some(*at),
        }
    }

    /// Makes a step. Returns the reason if the node has to stop.
    ///
    /// # Errors
    /// The broker says that the node has to stop although the disk works, or continues although the disk doesn't work.
    pub fn step(
        &mut self,
        broker: &Broker,
        disk: &dyn Disk,
        clock: &Clock,
        random: &mut Random,
    ) -> Result<Option<String>, Failure> {
        let stops = |error: leveret_log::StorageError| Failure::new(Check::Runs, error.to_string());
        match std::mem::take(&mut self.doing) {
            Doing::Nothing => {
                let _ = self.wake.take();
                self.at = None;
                match &self.source {
                    Source::Lane(lane) => match broker.next_job(self.store, *lane, clock.now()).map_err(stops)? {
                        Next::Run(id, job) => self.doing = Doing::Job(id, job),
                        Next::At(at) => self.at = Some(at),
                        Next::Idle => {}
                    },
                    Source::SmallWrites { lane } if random.below(8) == 0 => lane.wake_again(),
                    Source::SmallWrites { lane } => match broker.next_small_write(self.store, clock.now()) {
                        Some((id, job)) => self.doing = Doing::Job(id, job),
                        None => lane.wake_again(),
                    },
                }
            }
            Doing::Job(id, job) => {
                let result = job.run(disk);
                let took = match self.sync {
                    Some(sync) if matches!(job, Job::Sync { .. }) => sync,
                    Some(sync) => duration(&job, random).min(sync),
                    None => duration(&job, random) * self.slowness,
                };
                self.doing = Doing::Result(id, result, clock.nanos() + took);
            }
            Doing::Result(id, result, _) => {
                let lane = self.lane();
                let refused = result.as_ref().err().map(|error| (ends_the_node(lane, error), error.to_string()));
                let went_on = broker.complete(self.store, id, result, clock.now());
                match (refused, went_on) {
                    (None, went_on) => went_on.map_err(stops)?,
                    (Some((true, _)), Err(error)) => return Ok(Some(error.to_string())),
                    (Some((false, _)), Ok(())) => {}
                    (Some((_, refused)), went_on) => {
                        return Err(Failure::new(Check::DiskErrors, format!("{refused}: then {went_on:?}")));
                    }
                }
                // Like a thread, it requests work again before it sleeps.
                self.at = matches!(self.source, Source::Lane(_)).then_some(0);
            }
        }
        Ok(None)
    }

    /// Whether it has a job that isn't begun.
    #[must_use]
    pub fn has_job(&self) -> bool {
        matches!(self.doing, Doing::Job(..))
    }

    fn lane(&self) -> Lane {
        match self.source {
            Source::Lane(lane) => lane,
            Source::SmallWrites { .. } => Lane::Commit,
        }
    }
}

/// The next job for a lane of a log without a broker. Half the time a core does the job, if it may.
#[must_use]
pub fn next_job_of(log: &mut Log, lane: Lane, now: Nanos, random: &mut Random) -> Next {
    let small = match lane {
        Lane::Commit if random.below(2) == 0 => log.next_small_write(now),
        _ => None,
    };
    small.map_or_else(|| log.next_job(lane, now), |(id, job)| Next::Run(id, job))
}

/// Whether the node has to stop if the disk refuses an operation of one of its lanes. A queue's read doesn't stop the
/// node. Without space everything waits, except a batch that is being written, which has its space already.
fn ends_the_node(lane: Lane, error: &DiskError) -> bool {
    let is_full = error.error.kind() == std::io::ErrorKind::StorageFull;
    !is_full || lane == Lane::Commit && error.operation == Operation::Write
}

/// The duration of a job: writes are fast, syncs are sometimes slow.
fn duration(job: &Job, random: &mut Random) -> Nanos {
    match job {
        Job::Write(_) => 5_000 + random.below(50_000),
        _ if random.below(10) == 0 => 1_000_000 + random.below(20_000_000),
        _ => 50_000 + random.below(1_000_000),
    }
}

/// The lane of body files.
#[derive(Default)]
pub struct BodyLane {
    /// The wake-up that the broker sets.
    pub wake: Arc<LaneWake>,
    job: Option<BodyJob>,
}

impl BodyLane {
    /// Whether it can make a step.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.job.is_some() || self.wake.is_set()
    }

    /// Makes a step. Returns whether that wrote or removed a file.
    ///
    /// # Errors
    /// The disk refused, so the node has to stop.
    pub fn step(&mut self, broker: &Broker, disk: &dyn Disk) -> Result<bool, DiskError> {
        if let Some(job) = self.job.take() {
            job.run(disk)?;
            self.wake.wake_again();
            return Ok(true);
        }
        let _ = self.wake.take();
        self.job = broker.next_body_job();
        Ok(false)
    }
}

/// The lane of reads.
#[derive(Default)]
pub struct ReadLane {
    /// The wake-up that the broker sets.
    pub wake: Arc<LaneWake>,
    job: Option<ReadJob>,
}

impl ReadLane {
    /// Whether it can make a step.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.job.is_some() || self.wake.is_set()
    }

    /// Makes a step; true if that was a read.
    pub fn step(&mut self, broker: &Broker, disk: &dyn Disk, clock: &Clock) -> bool {
        if let Some(job) = self.job.take() {
            job.run(disk, clock.now());
            self.wake.wake_again();
            return true;
        }
        let _ = self.wake.take();
        self.job = broker.next_read();
        false
    }
}
