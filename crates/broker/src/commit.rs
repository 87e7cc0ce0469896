//! The node's commit stream: the log behind its lock, and who waits for which position.
//!
//! Lock order is queue, then log. Nobody holds the log's lock across a disk operation: disk threads ask
//! for a job, run it, and report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leveret_log::{DiskError, Done, Event as LogEvent, JobId, Lane, Log, Next, Position, StorageError};
use parking_lot::{Mutex, RwLock};

use crate::outbox::{Event, Outbox, Wake};
use crate::time::Nanos;

/// See the module.
pub struct Commit {
    log: Mutex<Log>,
    durable: AtomicU64,
    /// The time of the latest call that brought one, for appends in between.
    clock: AtomicU64,
    room: AtomicBool,
    waiters: Mutex<Vec<(Position, Arc<Outbox>)>>,
    /// Something was appended that the commit lane hasn't been told of.
    unannounced: AtomicBool,
    writer: RwLock<Option<Arc<dyn Wake>>>,
    background: RwLock<Option<Arc<dyn Wake>>>,
}

impl Commit {
    /// A commit stream over a recovered log.
    pub fn new(log: Log) -> Self {
        Self {
            durable: AtomicU64::new(log.durable()),
            clock: AtomicU64::new(0),
            room: AtomicBool::new(true),
            log: Mutex::new(log),
            waiters: Mutex::new(Vec::new()),
            unannounced: AtomicBool::new(false),
            writer: RwLock::new(None),
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

    /// Everything up to here is durable.
    pub fn durable(&self) -> Position {
        self.durable.load(Ordering::Acquire)
    }

    /// False while publishes have to be held back, since the log's buffer is full.
    pub fn has_room(&self) -> bool {
        self.room.load(Ordering::Relaxed)
    }

    /// Appends. The caller may hold one queue's lock; it calls [`Commit::announce`] after releasing it.
    pub fn append<R>(&self, call: impl FnOnce(&mut Log, Nanos) -> R) -> R {
        let now = self.clock.load(Ordering::Relaxed);
        let mut log = self.log.lock();
        let result = call(&mut log, now);
        if !log.room() {
            self.room.store(false, Ordering::Relaxed);
        }
        drop(log);
        self.unannounced.store(true, Ordering::Release);
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
        if self.unannounced.load(Ordering::Relaxed)
            && self.unannounced.swap(false, Ordering::AcqRel)
            && let Some(wake) = &*self.writer.read()
        {
            wake.wake();
        }
    }

    /// Leaves word that `outbox` wants to know when `position` is durable.
    pub fn notify(&self, position: Position, outbox: &Arc<Outbox>) {
        self.waiters.lock().push((position, outbox.clone()));
        // It may have become durable between the caller's look and the push.
        if self.durable() >= position {
            self.wake_waiters();
        }
    }

    fn wake_waiters(&self) {
        let durable = self.durable();
        let due: Vec<_> = {
            let mut waiters = self.waiters.lock();
            waiters.extract_if(.., |(position, _)| *position <= durable).collect()
        };
        for (_, outbox) in due {
            outbox.send(Event::Durable);
        }
    }

    /// The next thing a disk thread is to do.
    pub fn next_job(&self, lane: Lane, now: Nanos) -> Next {
        self.log.lock().next_job(lane, now)
    }

    /// A job is done.
    ///
    /// # Errors
    /// [`StorageError`] when the node cannot go on without breaking its promise.
    pub fn complete(&self, id: JobId, result: Result<Done, DiskError>, now: Nanos) -> Result<(), StorageError> {
        let mut log = self.log.lock();
        let events = log.complete(id, result, now)?;
        let room = log.room();
        let commit_waiting = log.commit_waiting();
        drop(log);
        let had_room = self.room.swap(room, Ordering::Relaxed);
        let mut durable = None;
        let mut wake_background = false;
        for event in &events {
            match event {
                LogEvent::Durable(position) => durable = Some(*position),
                _ => wake_background = true,
            }
        }
        if let Some(position) = durable {
            self.durable.fetch_max(position, Ordering::AcqRel);
            self.wake_waiters();
        }
        if room && !had_room {
            // Those held back wait for the position after the last one that they saw.
            let all: Vec<_> = std::mem::take(&mut *self.waiters.lock());
            for (_, outbox) in all {
                outbox.send(Event::Durable);
            }
        }
        let _ = wake_background;
        if let Some(wake) = &*self.background.read() {
            wake.wake();
        }
        if commit_waiting && let Some(wake) = &*self.writer.read() {
            wake.wake();
        }
        Ok(())
    }
}
