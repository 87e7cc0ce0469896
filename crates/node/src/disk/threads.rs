use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leveret_broker::streams::StoreId;
use leveret_broker::{Broker, Wake};
use leveret_log::{Disk, Job, Lane, Next};

use super::signal::Signal;
use super::small_writes::SmallWrites;
use crate::clock::Clock;

/// Interval at which a lane that waits for another one at the end checks again.
const DRAIN_STEP: Duration = Duration::from_millis(10);

/// The function that is called, on a disk thread, with the text of an error that ends the node. It must not return to
/// normal work: nothing after the error may be confirmed.
pub(crate) type Fatal = Arc<dyn Fn(&str) + Send + Sync>;

/// The threads that do the disk's work: commit (write and sync), background (retirement, checkpoints), reads, and large
/// bodies with files of their own.
#[derive(Debug)]
pub(crate) struct DiskThreads {
    commit: Worker,
    background: Worker,
    read: Worker,
    bodies: Worker,
}

#[derive(Debug)]
struct Worker {
    signal: Arc<Signal>,
    draining: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DiskThreads {
    /// Starts the threads. `sync_delay` is slept after each sync of the commit lane, before its end is reported: a slow
    /// disk, for tests that show that nothing is confirmed before its sync.
    pub(crate) fn start(
        broker: &Arc<Broker>,
        disk: &Arc<dyn Disk>,
        clock: &Clock,
        sync_delay: Duration,
        fatal: &Fatal,
    ) -> io::Result<Self> {
        let lane = |lane: Lane, sync_delay: Duration| {
            let (broker, disk, clock, fatal) = (broker.clone(), disk.clone(), clock.clone(), fatal.clone());
            move |signal: &Signal, draining: &AtomicBool| {
                Jobs { broker, disk, clock, lane, sync_delay }.run(signal, draining, &fatal);
            }
        };
        let commit = Worker::start("leveret-commit", fatal, lane(Lane::Commit, sync_delay))?;
        broker.set_lane_wake(Lane::Commit, commit.signal.clone());
        broker.set_small_write_wake(Arc::new(SmallWrites::new(
            broker,
            disk,
            clock.clone(),
            commit.signal.clone(),
            fatal,
        )));
        let background = Worker::start("leveret-retire", fatal, lane(Lane::Background, Duration::ZERO))?;
        broker.set_lane_wake(Lane::Background, background.signal.clone());
        let (writing, body_disk, ends) = (broker.clone(), disk.clone(), fatal.clone());
        let bodies = Worker::start("leveret-bodies", fatal, move |signal, draining| {
            while !draining.load(Ordering::Acquire) {
                while let Some(job) = writing.next_body_job() {
                    if let Err(error) = job.run(&*body_disk) {
                        return ends(&leveret_log::StorageError::Disk(error).to_string());
                    }
                }
                signal.wait(None);
            }
        })?;
        broker.set_body_wake(bodies.signal.clone());
        let (reading, disk, clock) = (broker.clone(), disk.clone(), clock.clone());
        let read = Worker::start("leveret-read", fatal, move |signal, draining| {
            while !draining.load(Ordering::Acquire) {
                while let Some(job) = reading.next_read() {
                    job.run(&*disk, clock.now());
                }
                signal.wait(None);
            }
        })?;
        broker.set_read_wake(read.signal.clone());
        // Work may have come before the wake-ups were registered.
        [&commit, &background, &read, &bodies].into_iter().for_each(|worker| worker.signal.wake());
        Ok(Self { commit, background, read, bodies })
    }

    /// Lets each lane finish its work and ends the threads. The broker has stopped, so no new work comes.
    pub(crate) fn drain(&mut self) {
        self.read.join();
        self.bodies.join();
        // The commit lane may need a file that the background lane prepares.
        self.commit.join();
        self.background.join();
    }
}

impl Worker {
    /// Starts a thread. If it panics, the node stops: nothing would be written, and nobody would notice.
    fn start(
        name: &'static str,
        fatal: &Fatal,
        work: impl FnOnce(&Signal, &AtomicBool) + Send + 'static,
    ) -> io::Result<Self> {
        let (signal, draining) = (Arc::new(Signal::default()), Arc::new(AtomicBool::new(false)));
        let (waiting, ending, fatal) = (signal.clone(), draining.clone(), fatal.clone());
        let whole = move || {
            let work = AssertUnwindSafe(|| work(&waiting, &ending));
            if catch_unwind(work).is_err() {
                fatal(&format!("the thread {name} panicked (see the lines before); the node stops"));
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(whole)?;
        Ok(Self { signal, draining, thread: Some(thread) })
    }

    fn join(&mut self) {
        self.draining.store(true, Ordering::Release);
        self.signal.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The jobs of one of the log's lanes, in order.
struct Jobs {
    broker: Arc<Broker>,
    disk: Arc<dyn Disk>,
    clock: Clock,
    lane: Lane,
    sync_delay: Duration,
}

impl Jobs {
    fn run(&self, signal: &Signal, draining: &AtomicBool, fatal: &Fatal) {
        let ended = loop {
            match self.broker.next_job(StoreId::FIRST, self.lane, self.clock.now()) {
                Ok(Next::Run(id, job)) => {
                    let result = job.run(&*self.disk);
                    if matches!(job, Job::Sync { .. }) && !self.sync_delay.is_zero() {
                        thread::sleep(self.sync_delay);
                    }
                    // The log reuses the memory of written data.
                    drop(job);
                    if let Err(error) = self.broker.complete(StoreId::FIRST, id, result, self.clock.now()) {
                        break error;
                    }
                }
                Ok(Next::At(when)) => signal.wait(Some(self.clock.instant(when))),
                Ok(Next::Idle) if !draining.load(Ordering::Acquire) => signal.wait(None),
                Ok(Next::Idle) if self.is_drained() => return,
                // The lane waits for a file that the background lane prepares.
                Ok(Next::Idle) => signal.wait(Some(Instant::now() + DRAIN_STEP)),
                Err(error) => break error,
            }
        };
        fatal(&ended.to_string());
    }

    /// Whether this lane has nothing left to do before the node may end. The background lane's work can be interrupted
    /// anywhere: recovery continues it.
    fn is_drained(&self) -> bool {
        self.lane == Lane::Background || self.broker.commit.inspect(|log| log.durable() >= log.appended())
    }
}
