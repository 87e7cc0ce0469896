//! The node's commit stream: the log behind its lock, and who waits for which position.
//!
//! Lock order is queue, then log. Nobody holds the log's lock across a disk operation: disk threads ask
//! for a job, run it, and report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use leveret_log::{DiskError, Done, Event as LogEvent, Job, JobId, Lane, Log, Next, Position, ReadError, StorageError};
use leveret_queue::WaitReason;
use parking_lot::{Mutex, RwLock};

use crate::allowance::Allowance;
use crate::awaited::Reached;
use crate::outbox::{Event, Outbox, Wake};
use crate::planted::{Bug, is_planted};
use crate::time::Nanos;

/// A queue as the commit stream knows it: something to be applied once a position is durable.
pub trait Apply: Send + Sync {
    /// Applies everything that is durable by now, or written if that is enough here.
    fn apply(self: Arc<Self>);
}

/// Who is told that a position is durable.
enum Waiter {
    /// A connection, which then does its work itself.
    Connection(Arc<Outbox>),
    /// A connection that waits until a position is written.
    Writing(Arc<Outbox>),
    /// A queue whose publisher is gone.
    Queue(Arc<dyn Apply>),
    /// Somebody outside the cores.
    Call(Box<dyn FnOnce() + Send>),
}

impl Waiter {
    fn tell(self) {
        match self {
            Self::Connection(outbox) => outbox.send(Event::Durable),
            Self::Writing(outbox) => outbox.send(Event::Written),
            Self::Queue(queue) => queue.apply(),
            Self::Call(call) => call(),
        }
    }
}

const NOTHING: u8 = 0;
/// What [`Log::next_small_write`] gives.
const SMALL_WRITE: u8 = 1;
/// Something for the commit lane.
const WORK: u8 = 2;

/// See the module.
pub struct Commit {
    log: Mutex<Log>,
    durable: AtomicU64,
    /// At least as far as what is durable.
    written: AtomicU64,
    /// The time of the latest call that brought one, for appends in between.
    clock: AtomicU64,
    room: AtomicBool,
    disk_full: AtomicBool,
    /// How long a sync takes, smoothed.
    sync_time: AtomicU64,
    /// There is a queue whose messages only have to be written: then something may be written long before it is synced.
    defers_syncs: AtomicBool,
    allowance: Arc<Allowance>,
    waiters: Mutex<Vec<(Position, Waiter)>>,
    /// Those who wait for a write and not for its sync.
    writing: Mutex<Vec<(Position, Waiter)>>,
    /// What was appended that nobody was told of yet: [`NOTHING`], [`SMALL_WRITE`] or [`WORK`].
    unannounced: AtomicU8,
    writer: RwLock<Option<Arc<dyn Wake>>>,
    small_writer: RwLock<Option<Arc<dyn Wake>>>,
    background: RwLock<Option<Arc<dyn Wake>>>,
}

impl Commit {
    /// A commit stream over a recovered log.
    pub fn new(log: Log) -> Self {
        Self {
            durable: AtomicU64::new(log.durable()),
            written: AtomicU64::new(log.durable()),
            clock: AtomicU64::new(0),
            room: AtomicBool::new(log.room()),
            disk_full: AtomicBool::new(log.is_out_of_space()),
            sync_time: AtomicU64::new(0),
            defers_syncs: AtomicBool::new(false),
            allowance: Arc::default(),
            log: Mutex::new(log),
            waiters: Mutex::new(Vec::new()),
            writing: Mutex::new(Vec::new()),
            unannounced: AtomicU8::new(NOTHING),
            writer: RwLock::new(None),
            small_writer: RwLock::new(None),
            background: RwLock::new(None),
        }
    }

    /// Sets who is woken for each lane.
    pub fn set_wake(&self, lane: Lane, wake: Arc<dyn Wake>) {
        match lane {
            Lane::Commit => *self.writer.write() = Some(wake),
            Lane::Background => *self.background.write() = Some(wake),
        }
    }

    /// Sets who is woken for small writes instead of the commit lane.
    pub fn set_small_write_wake(&self, wake: Arc<dyn Wake>) {
        *self.small_writer.write() = Some(wake);
    }

    /// Everything up to here is durable.
    pub fn durable(&self) -> Position {
        self.durable.load(Ordering::Acquire)
    }

    /// How far it has got.
    pub fn reached(&self) -> Reached {
        // In this order: what is durable is written.
        let durable = self.durable();
        Reached { written: self.written.load(Ordering::Acquire).max(durable), durable }
    }

    /// How long a sync takes, smoothed over the last few.
    pub fn sync_time(&self) -> Nanos {
        self.sync_time.load(Ordering::Relaxed)
    }

    /// From now on something may be appended that only has to be written.
    pub(crate) fn defer_syncs(&self) {
        self.defers_syncs.store(true, Ordering::Release);
    }

    /// What publishers may have on its way to the disk.
    pub fn allowance(&self) -> &Arc<Allowance> {
        &self.allowance
    }

    /// False while publishes have to be held back, since the log's buffer is full.
    pub fn has_room(&self) -> bool {
        self.room.load(Ordering::Relaxed)
    }

    /// Whether the log could not make a file for want of space on the disk, and there is none yet.
    pub fn is_disk_full(&self) -> bool {
        self.disk_full.load(Ordering::Relaxed)
    }

    /// Why a publish waits while there is no room.
    pub fn publish_wait(&self) -> WaitReason {
        if self.is_disk_full() { WaitReason::DiskFull } else { WaitReason::LogFull }
    }

    /// Appends. The caller may hold one queue's lock; it calls [`Commit::announce`] after releasing it.
    pub fn append<R>(&self, call: impl FnOnce(&mut Log, Nanos) -> R) -> R {
        let now = self.clock.load(Ordering::Relaxed);
        let mut log = self.log.lock();
        let result = call(&mut log, now);
        if !log.room() {
            self.room.store(false, Ordering::Relaxed);
        }
        // Settles may wait for the next batch: the lane is told only of what is due before it comes anyway.
        let work = waiting(&log, now);
        // Under the lock: others only take it away, and those whom they wake for it see this too.
        if self.unannounced.load(Ordering::Relaxed) < work {
            self.unannounced.store(work, Ordering::Release);
        }
        result
    }

    /// Tells the time; it never goes back.
    pub fn set_time(&self, now: Nanos) {
        self.clock.fetch_max(now, Ordering::Relaxed);
    }

    /// Looks at the log.
    pub fn inspect<R>(&self, call: impl FnOnce(&Log) -> R) -> R {
        call(&self.log.lock())
    }

    /// Wakes the commit lane when something was appended since the last time.
    pub fn announce(&self) {
        if self.unannounced.load(Ordering::Relaxed) != NOTHING {
            self.wake_for(self.unannounced.swap(NOTHING, Ordering::AcqRel));
        }
    }

    /// Leaves word that `outbox` wants to know when `position` is durable.
    pub fn notify(&self, position: Position, outbox: &Arc<Outbox>) {
        self.wait(position, Waiter::Connection(outbox.clone()));
    }

    /// Leaves word that `outbox` wants to know when `position` is written.
    pub fn notify_written(&self, position: Position, outbox: &Arc<Outbox>) {
        self.writing.lock().push((position, Waiter::Writing(outbox.clone())));
        if self.reached().written >= position {
            self.wake_writing();
        }
    }

    /// Has `queue` applied when `position` is durable: its publisher doesn't live to do it.
    pub fn apply_later(&self, position: Position, queue: Arc<dyn Apply>) {
        self.wait(position, Waiter::Queue(queue));
    }

    /// Calls `call` once `position` is durable, at once if it is; for callers that are no connection, such
    /// as the HTTP API. It runs on a disk thread and must only pass the word on.
    pub fn when_durable(&self, position: Position, call: Box<dyn FnOnce() + Send>) {
        self.wait(position, Waiter::Call(call));
    }

    /// As [`Commit::when_durable`] for callers under a queue's lock: nobody is told in this call. If `position` is durable
    /// already, it comes with the next that is.
    pub(crate) fn after_durable(&self, position: Position, call: Box<dyn FnOnce() + Send>) {
        self.waiters.lock().push((position, Waiter::Call(call)));
    }

    fn wait(&self, position: Position, waiter: Waiter) {
        self.waiters.lock().push((position, waiter));
        // It may have become durable between the caller's look and the push.
        if self.durable() >= position && !is_planted(Bug::LoseWaiter) {
            self.wake_waiters();
        } else if self.defers_syncs.load(Ordering::Acquire) {
            self.hurry(position);
        }
    }

    /// Has the log synced up to `position`, which may have been appended only to be written.
    fn hurry(&self, position: Position) {
        let mut log = self.log.lock();
        log.hurry(position);
        let is_due = log.commit_waiting();
        drop(log);
        if is_due {
            self.wake_writer();
        }
    }

    /// Somebody has this to do.
    fn wake_for(&self, work: u8) {
        match work {
            NOTHING => {}
            SMALL_WRITE => match &*self.small_writer.read() {
                Some(wake) => wake.wake(),
                None => self.wake_writer(),
            },
            _ => self.wake_writer(),
        }
    }

    /// The commit lane has something to do.
    fn wake_writer(&self) {
        if let Some(wake) = &*self.writer.read() {
            wake.wake();
        }
    }

    /// The background lane has something to do: a log was forgotten.
    pub fn wake_background(&self) {
        if let Some(wake) = &*self.background.read() {
            wake.wake();
        }
    }

    fn wake_waiters(&self) {
        tell_up_to(&self.waiters, self.durable());
    }

    fn wake_writing(&self) {
        tell_up_to(&self.writing, self.reached().written);
    }

    /// The next thing a disk thread is to do.
    pub fn next_job(&self, lane: Lane, now: Nanos) -> Next {
        let mut log = self.log.lock();
        let next = log.next_job(lane, now);
        // The commit lane may have found that it needs a file which the other lane makes ready; a retirement
        // that begins to wait for records lets the commit lane go on in one more file.
        let other = match lane {
            Lane::Commit if log.background_waiting() => &self.background,
            Lane::Background if log.commit_waiting() => &self.writer,
            _ => return next,
        };
        drop(log);
        if let Some(wake) = &*other.read() {
            wake.wake();
        }
        next
    }

    /// What whoever is woken for a small write is to do, if it is one still.
    pub fn next_small_write(&self, now: Nanos) -> Option<(JobId, Job)> {
        self.log.lock().next_small_write(now)
    }

    /// A job is done. Returns what of it could not be read back: those messages are lost, and their queue has
    /// to stop.
    ///
    /// # Errors
    /// [`StorageError`] when the node cannot go on without breaking its promise.
    pub fn complete(
        &self,
        id: JobId,
        result: Result<Done, DiskError>,
        now: Nanos,
    ) -> Result<Vec<ReadError>, StorageError> {
        let mut log = self.log.lock();
        let events = log.complete(id, result, now)?;
        let room = log.room();
        // Under the lock, as appends do: of two lanes that report at once, the one that looked last has the say.
        let had_room = self.room.swap(room, Ordering::Relaxed);
        self.disk_full.store(log.is_out_of_space(), Ordering::Relaxed);
        self.sync_time.store(log.statistics().sync_smoothed, Ordering::Relaxed);
        let work = waiting(&log, now);
        let background_waiting = log.background_waiting();
        drop(log);
        let (mut written, mut durable) = (None, None);
        let mut damaged = Vec::new();
        for event in events {
            match event {
                LogEvent::Written(position) => written = Some(position),
                LogEvent::Durable(position) => durable = Some(position),
                LogEvent::Damaged(error) => damaged.push(error),
                LogEvent::Room | LogEvent::Retired { .. } => {}
            }
        }
        if let Some(position) = written {
            self.written.fetch_max(position, Ordering::AcqRel);
            self.wake_writing();
        }
        if let Some(position) = durable {
            self.allowance.synced(self.sync_time());
            self.durable.fetch_max(position, Ordering::AcqRel);
            self.wake_waiters();
        }
        if room && !had_room && !is_planted(Bug::LoseRoom) {
            // Those held back wait for the position after the last one that they saw.
            let connection = |(_, waiter): &mut (Position, Waiter)| matches!(waiter, Waiter::Connection(_));
            let all: Vec<_> = self.waiters.lock().extract_if(.., connection).collect();
            for (_, waiter) in all {
                waiter.tell();
            }
        }
        if background_waiting {
            self.wake_background();
        }
        self.wake_for(work);
        Ok(damaged)
    }
}

/// What waits that somebody has to be told of, and for whom it is.
fn waiting(log: &Log, now: Nanos) -> u8 {
    match log.commit_waiting() {
        false => NOTHING,
        true if log.small_write_waiting(now) => SMALL_WRITE,
        true => WORK,
    }
}

fn tell_up_to(waiters: &Mutex<Vec<(Position, Waiter)>>, reached: Position) {
    let due: Vec<_> = waiters.lock().extract_if(.., |(position, _)| *position <= reached).collect();
    for (_, waiter) in due {
        waiter.tell();
    }
}
