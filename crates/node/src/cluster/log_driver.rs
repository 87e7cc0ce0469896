//! The node's entry log and the threads that do its disk work.

use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use leveret_cluster::NodeLog;
use leveret_log::{
    Disk, DiskError, Done, Entry, EntryOptions, EntryRead, EntryReport, Event, Job, Lane, Next, StorageError,
    recover_entries,
};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use super::thread::spawn;
use crate::clock::Clock;
use crate::disk::Fatal;

/// A step of a disk thread.
type Order = Box<dyn FnOnce() + Send>;

/// A thread that does one thing after the other.
#[derive(Debug)]
struct DiskThread {
    orders: RefCell<Option<Sender<Order>>>,
    thread: RefCell<Option<JoinHandle<()>>>,
}

impl DiskThread {
    fn start(name: &'static str, fatal: &Fatal) -> io::Result<DiskThread> {
        let (orders, next) = channel::<Order>();
        let fatal = fatal.clone();
        let whole = move || {
            let work = AssertUnwindSafe(|| next.into_iter().for_each(|order| order()));
            if catch_unwind(work).is_err() {
                fatal(&format!("the thread {name} panicked (see the lines before); the node stops"));
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(whole)?;
        Ok(DiskThread { orders: RefCell::new(Some(orders)), thread: RefCell::new(Some(thread)) })
    }

    /// Does this there. Nothing comes back if the thread has ended, or panicked, which ends the node.
    fn ask<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
        let (done, result) = oneshot::channel();
        let order: Order = Box::new(move || {
            // The asker may be gone.
            let _ = done.send(work());
        });
        if let Some(orders) = &*self.orders.borrow() {
            let _ = orders.send(order);
        }
        result
    }

    /// Ends the thread once it has done what it was asked for.
    fn end(&self) {
        self.orders.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for DiskThread {
    fn drop(&mut self) {
        self.end();
    }
}

/// The syncs of the entry log, readable from any thread. Nanoseconds by the node's clock.
#[derive(Debug, Default)]
pub(crate) struct EntrySyncs {
    /// Number of syncs.
    pub count: AtomicU64,
    /// Time of all of them together.
    pub total: AtomicU64,
    /// Time of the last one.
    pub last: AtomicU64,
    /// The time at which the one that runs began; 0 if none runs.
    pub began: AtomicU64,
}

struct Inner {
    log: NodeLog,
    clock: Clock,
    disk: Arc<dyn Disk>,
    fatal: Fatal,
    syncs: Arc<EntrySyncs>,
    commit: DiskThread,
    background: DiskThread,
    reads: DiskThread,
    /// The commit lane and the background lane may have jobs.
    wakes: [Notify; 2],
    /// A job was completed.
    completed: Notify,
    /// Whether the commit lane waits for something to be appended.
    is_idle: Cell<bool>,
    lanes: RefCell<Vec<AbortHandle>>,
}

/// The entry log with its threads. Clones share it.
#[derive(Clone)]
pub(crate) struct LogDriver(Rc<Inner>);

/// The reason why there is no entry log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// Its files can't be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The system provides no threads.
    #[error("cannot start threads: {0}")]
    Threads(#[from] io::Error),
}

impl LogDriver {
    /// Opens the entry log in the directory of `disk`, and starts its threads. Called in the cluster's thread, which waits for it.
    ///
    /// # Errors
    /// The disk fails or is full, its files are of another node or version, or there are no threads.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        options: &EntryOptions,
        clock: &Clock,
        fatal: &Fatal,
    ) -> Result<(LogDriver, EntryReport), OpenError> {
        let (log, report) = recover_entries(&*disk, options, clock.monotonic())?;
        let inner = Inner {
            log: NodeLog::new(log),
            clock: clock.clone(),
            disk,
            fatal: fatal.clone(),
            syncs: Arc::default(),
            commit: DiskThread::start("leveret-raft", fatal)?,
            background: DiskThread::start("leveret-raft-bg", fatal)?,
            reads: DiskThread::start("leveret-raft-rd", fatal)?,
            wakes: Default::default(),
            completed: Notify::new(),
            is_idle: Cell::new(false),
            lanes: RefCell::default(),
        };
        let this = LogDriver(Rc::new(inner));
        for lane in [Lane::Commit, Lane::Background] {
            let task = spawn(run_lane(this.0.clone(), lane));
            this.0.lanes.borrow_mut().push(task.abort_handle());
        }
        Ok((this, report))
    }

    /// The log, as placements share it.
    pub(crate) fn log(&self) -> &NodeLog {
        &self.0.log
    }

    /// Times of syncs.
    pub(crate) fn syncs(&self) -> &Arc<EntrySyncs> {
        &self.0.syncs
    }

    /// The node's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Something was appended, or was said that makes work for a lane.
    pub(crate) fn wake(&self) {
        let [commit, background] = self.0.log.with(|log| [log.commit_waiting(), log.background_waiting()]);
        for (is_due, lane) in [(commit, Lane::Commit), (background, Lane::Background)] {
            if is_due {
                self.0.wakes[index(lane)].notify_one();
            }
        }
    }

    /// Reads entries, in this order.
    ///
    /// # Errors
    /// One can't be read.
    pub(crate) async fn read(&self, reads: Vec<EntryRead>) -> Result<Vec<Entry>, String> {
        let disk = self.0.disk.clone();
        let read = move || -> Result<Vec<Entry>, String> {
            reads.iter().map(|read| read.run(&*disk).map_err(|error| error.to_string())).collect()
        };
        self.0.reads.ask(read).await.unwrap_or_else(|_| Err("the node stops".to_owned()))
    }

    /// Whether entries may be appended.
    pub(crate) fn has_room(&self) -> bool {
        self.0.log.with(|log| log.room())
    }

    /// Writes everything and a closing record, and ends the threads: afterwards nothing of it touches the disk, whoever still shares it.
    /// Nothing may be appended any more.
    pub(crate) async fn close(&self) {
        let inner = &self.0;
        inner.log.with(|log| log.close(inner.clock.monotonic()));
        inner.is_idle.set(false);
        inner.wakes[index(Lane::Commit)].notify_one();
        while !(inner.is_idle.get() && inner.log.with(|log| log.durable() >= log.appended())) {
            inner.completed.notified().await;
        }
        inner.lanes.take().iter().for_each(AbortHandle::abort);
        [&inner.commit, &inner.background, &inner.reads].into_iter().for_each(DiskThread::end);
    }
}

fn index(lane: Lane) -> usize {
    usize::from(lane == Lane::Background)
}

/// Hands the jobs of a lane to its thread, one after the other.
async fn run_lane(inner: Rc<Inner>, lane: Lane) {
    let thread = if lane == Lane::Commit { &inner.commit } else { &inner.background };
    let wake = &inner.wakes[index(lane)];
    loop {
        match inner.log.with(|log| log.next_job(lane, inner.clock.monotonic())) {
            Next::Run(id, job) => {
                let (disk, clock, syncs) = (inner.disk.clone(), inner.clock.clone(), inner.syncs.clone());
                let Ok(result) = thread.ask(move || run_job(job, &*disk, &clock, &syncs)).await else { return };
                let completed = inner.log.with(|log| log.complete(id, result, inner.clock.monotonic()));
                match completed {
                    Ok(events) => events.iter().for_each(tell),
                    Err(error) => {
                        inner.log.fail(&error.to_string());
                        (inner.fatal)(&error.to_string());
                        return;
                    }
                }
                inner.log.report();
                inner.wakes[index(Lane::Commit)].notify_one();
                inner.wakes[index(Lane::Background)].notify_one();
            }
            Next::At(time) => {
                // The deadline may pass unseen: the lane looks again then.
                let _ = tokio::time::timeout_at(inner.clock.instant(time).into(), wake.notified()).await;
            }
            Next::Idle => {
                if lane == Lane::Commit {
                    inner.is_idle.set(true);
                    inner.completed.notify_one();
                }
                wake.notified().await;
                if lane == Lane::Commit {
                    inner.is_idle.set(false);
                }
            }
        }
    }
}

/// Runs a job on a disk thread. The job is dropped with it: the log uses the memory of written data again.
fn run_job(job: Job, disk: &dyn Disk, clock: &Clock, syncs: &EntrySyncs) -> Result<Done, DiskError> {
    if !matches!(job, Job::Sync { .. }) {
        return job.run(disk);
    }
    let began = clock.monotonic();
    syncs.began.store(began.max(1), Ordering::Relaxed);
    let result = job.run(disk);
    let took = clock.monotonic().saturating_sub(began);
    syncs.began.store(0, Ordering::Relaxed);
    syncs.last.store(took, Ordering::Relaxed);
    syncs.total.fetch_add(took, Ordering::Relaxed);
    syncs.count.fetch_add(1, Ordering::Relaxed);
    result
}

fn tell(event: &Event) {
    if let Event::Unreadable(error) = event {
        tracing::error!("the entry log keeps a file that it can't read: {error}");
    }
}
