//! A commit stream of the node itself: a log behind its lock, and the waiters for its places.
//!
//! Lock order is queue, then log. The log's lock is never held during a disk operation: disk threads request a job, run it, and
//! report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use leveret_log::{
    ChunkRecord, DiskError, Done, Event as LogEvent, GroupId, Job, JobId, JoinChunks, JointRecord, Lane, Log, LogId,
    NewChunk, Next, Position, ReadError, ReadPlan, StorageError, Wait,
};
use leveret_queue::{LatestPlace, Place, WaitReason, Watermarks};
use parking_lot::{Mutex, RwLock};

use super::{CommitStream, ControlRecord, Record, Store, StoreId, Waiter};
use crate::allowance::Allowance;
use crate::outbox::{Event, Wake};
use crate::planted::{Bug, is_planted};
use crate::stopping_panic::whole;
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::time::Nanos;

const NOTHING: u8 = 0;
/// A write that [`Log::next_small_write`] returns.
const SMALL_WRITE: u8 = 1;
/// Work for the commit lane.
const WORK: u8 = 2;

/// A log as a commit stream, and as the store of its queues' messages.
pub struct LocalStream {
    store: StoreId,
    log: Mutex<Log>,
    /// Everything up to here is durable. Queues apply their messages up to here.
    synced: LatestPlace,
    /// The announced watermark: `synced`, or the place before the oldest group that isn't durable as a whole.
    durable: LatestPlace,
    /// The written watermark; never less than the durable one.
    written: LatestPlace,
    /// The time of the latest call with a time, for appends in between.
    clock: AtomicU64,
    room: AtomicBool,
    /// A thread panicked while it changed what the node depends on: nothing is written any more.
    broken: AtomicBool,
    disk_full: AtomicBool,
    /// See [`CommitStream::leave`].
    has_left: AtomicBool,
    /// Smoothed duration of a sync.
    sync_time: AtomicU64,
    /// Whether some queue's messages only have to be written: records may then be written long before they are synced.
    defers_syncs: AtomicBool,
    allowance: Arc<Allowance>,
    waiters: Mutex<Vec<(Awaited, Waiter)>>,
    /// Waiters for a write without its sync.
    writing: Mutex<Vec<(Awaited, Waiter)>>,
    /// Appended work that wasn't announced yet: [`NOTHING`], [`SMALL_WRITE`] or [`WORK`].
    unannounced: AtomicU8,
    writer: RwLock<Option<Arc<dyn Wake>>>,
    small_writer: RwLock<Option<Arc<dyn Wake>>>,
    background: RwLock<Option<Arc<dyn Wake>>>,
}

impl LocalStream {
    /// A commit stream over a recovered log. The ids of both have the same number.
    pub fn new(store: StoreId, log: Log) -> Self {
        let durable = Place::new(log.durable());
        Self {
            store,
            synced: LatestPlace::new(durable),
            durable: LatestPlace::new(durable),
            written: LatestPlace::new(durable),
            clock: AtomicU64::new(0),
            room: AtomicBool::new(log.room()),
            broken: AtomicBool::new(false),
            disk_full: AtomicBool::new(log.is_out_of_space()),
            has_left: AtomicBool::new(false),
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

    /// Its id as a store.
    pub fn store_id(&self) -> StoreId {
        self.store
    }

    /// Sets the wake-up of a lane.
    pub fn set_wake(&self, lane: Lane, wake: Arc<dyn Wake>) {
        match lane {
            Lane::Commit => *self.writer.write() = Some(wake),
            Lane::Background => *self.background.write() = Some(wake),
        }
    }

    /// Sets the wake-up for small writes, used instead of the commit lane's.
    pub fn set_small_write_wake(&self, wake: Arc<dyn Wake>) {
        *self.small_writer.write() = Some(wake);
    }

    /// Duration of a sync, smoothed over the last few.
    pub fn sync_time(&self) -> Nanos {
        self.sync_time.load(Ordering::Relaxed)
    }

    /// The limit of bytes that publishers may have in flight to the disk.
    pub fn allowance(&self) -> &Arc<Allowance> {
        &self.allowance
    }

    /// Whether the log failed to create a file because the disk is full, and hasn't succeeded since.
    pub fn is_disk_full(&self) -> bool {
        self.disk_full.load(Ordering::Relaxed)
    }

    /// Whether the node has to stop, see [`CommitStream::give_up`].
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Calls the log under its lock.
    ///
    /// # Panics
    /// If the node is about to stop after a panic, since the log may be half changed.
    fn with_log<R>(&self, call: impl FnOnce(&mut Log, Nanos) -> R) -> R {
        let now = self.clock.load(Ordering::Relaxed);
        let mut log = self.log.lock();
        assert!(!self.is_broken(), "the node stops after a panic");
        let result = whole(|| self.give_up(), || call(&mut log, now));
        if !log.room() {
            self.room.store(false, Ordering::Relaxed);
        }
        // Settles may wait for the next batch: the lane is only woken for records that are due before it runs anyway.
        let work = waiting(&log, now);
        // Written under the lock: other threads only reset it, and the ones that they wake see this value, too.
        if self.unannounced.load(Ordering::Relaxed) < work {
            self.unannounced.store(work, Ordering::Release);
        }
        result
    }

    fn ticket(&self, position: Position) -> Ticket {
        Ticket::new(CommitStream::id(self), Place::new(position))
    }

    /// Closes the log for a clean stop.
    pub fn close(&self) {
        self.with_log(|log, now| log.close(now));
    }

    /// Sets the time; it never goes back.
    pub fn set_time(&self, now: Nanos) {
        self.clock.fetch_max(now, Ordering::Relaxed);
    }

    /// Reads the log.
    pub fn inspect<R>(&self, call: impl FnOnce(&Log) -> R) -> R {
        call(&self.log.lock())
    }

    /// Appends records with so many bytes that become durable together, if they fit into a batch. Nobody waits for them.
    pub(crate) fn append_together(
        &self,
        records: usize,
        bytes: usize,
        append: impl FnOnce(&mut Log, Nanos) -> Position,
    ) -> Ticket {
        self.ticket(self.with_log(|log, now| {
            log.keep_together(records, bytes);
            append(log, now)
        }))
    }

    /// As [`CommitStream::notify`], for a place that nobody waited for when it was appended.
    pub(crate) fn notify_soon(&self, awaited: Awaited, waiter: Waiter) {
        CommitStream::notify(self, awaited, waiter);
        if !awaited.is_reached(self.watermarks()) {
            self.hurry(awaited.place());
        }
    }

    /// Has the log synced up to `place`, which may have been appended only to be written.
    pub(crate) fn hurry(&self, place: Place) {
        let mut log = self.log.lock();
        log.hurry(place.number());
        let is_due = log.commit_waiting();
        drop(log);
        if is_due {
            self.wake_writer();
        }
    }

    /// Wakes the thread for this kind of work.
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

    /// Wakes the commit lane.
    fn wake_writer(&self) {
        if let Some(wake) = &*self.writer.read() {
            wake.wake();
        }
    }

    /// Wakes the background lane, because a log was forgotten.
    pub fn wake_background(&self) {
        if let Some(wake) = &*self.background.read() {
            wake.wake();
        }
    }

    fn wake_all(&self, waiters: &Mutex<Vec<(Awaited, Waiter)>>) {
        let reached = self.watermarks();
        let has_left = self.has_left.load(Ordering::Acquire);
        let due: Vec<_> =
            waiters.lock().extract_if(.., |(awaited, _)| has_left || awaited.is_reached(reached)).collect();
        due.into_iter().for_each(|(awaited, waiter)| waiter.notify(awaited));
    }

    /// The next job for a disk thread.
    pub fn next_job(&self, lane: Lane, now: Nanos) -> Next {
        let mut log = self.log.lock();
        let next = log.next_job(lane, now);
        // The commit lane may have found that it needs a file that the other lane creates. A retirement that begins to wait for
        // records allows the commit lane to continue in one more file.
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

    /// The next small write, for the thread that was woken for it, if it still exists.
    pub fn next_small_write(&self, now: Nanos) -> Option<(JobId, Job)> {
        let mut log = self.log.lock();
        whole(|| self.give_up(), || log.next_small_write(now))
    }

    /// A job is done. Returns its messages that couldn't be read back: they are lost, and their queue has to fail.
    ///
    /// # Errors
    /// [`StorageError`] when the node can't continue without breaking its promise.
    pub fn complete(
        &self,
        id: JobId,
        result: Result<Done, DiskError>,
        now: Nanos,
    ) -> Result<Vec<ReadError>, StorageError> {
        let mut log = self.log.lock();
        let events = whole(|| self.give_up(), || log.complete(id, result, now))?;
        let room = log.room();
        // Under the lock, like appends: if two lanes report at once, the later check of the log decides.
        let had_room = self.room.swap(room, Ordering::Relaxed);
        self.disk_full.store(log.is_out_of_space(), Ordering::Relaxed);
        self.sync_time.store(log.statistics().sync_smoothed, Ordering::Relaxed);
        let work = waiting(&log, now);
        let background_waiting = log.background_waiting();
        let whole = log.durable_as_a_whole();
        drop(log);
        let (mut written, mut durable) = (None, None);
        let mut damaged = Vec::new();
        for event in events {
            match event {
                LogEvent::Written(position) => written = Some(position),
                LogEvent::Durable(position) => durable = Some(position),
                LogEvent::Damaged(error) => damaged.push(error),
                LogEvent::Unreadable(error) => {
                    tracing::error!(reason = %error, "a file can't be read; its messages stay in it, and nothing is lost");
                }
                LogEvent::Room | LogEvent::Retired { .. } => {}
            }
        }
        if let Some(position) = written {
            self.written.advance(Place::new(position));
            self.wake_all(&self.writing);
        }
        if let Some(position) = durable {
            self.allowance.synced(self.sync_time());
            self.synced.advance(Place::new(position));
            // A group in between would be announced in part: see `CommitStream::watermarks`.
            let announced = if is_planted(Bug::ConfirmBehindGroup) { position } else { whole };
            self.durable.advance(Place::new(announced));
            self.wake_all(&self.waiters);
        }
        if room && !had_room {
            // Publishers that are held back wait for the place after the last one that they saw. A full log always holds something that
            // becomes durable later; this wakes them sooner.
            let connection = |(_, waiter): &mut (Awaited, Waiter)| matches!(waiter, Waiter::Connection(_));
            let all: Vec<_> = self.waiters.lock().extract_if(.., connection).collect();
            for (awaited, waiter) in all {
                waiter.notify(awaited);
            }
        }
        if background_waiting {
            self.wake_background();
        }
        self.wake_for(work);
        Ok(damaged)
    }
}

/// Appended work that needs a wake-up, and its kind.
fn waiting(log: &Log, now: Nanos) -> u8 {
    match log.commit_waiting() {
        false => NOTHING,
        true if log.small_write_waiting(now) => SMALL_WRITE,
        true => WORK,
    }
}

/// Records. The caller may hold one queue's lock; it calls [`CommitStream::announce`] after releasing it.
impl LocalStream {
    /// Appends a record.
    pub fn append(&self, record: Record<'_>, wait: Wait) -> Ticket {
        self.ticket(self.with_log(|log, now| record.append_to(log, wait, now)))
    }

    /// Appends a control record.
    pub fn append_control(&self, record: ControlRecord<'_>, wait: Wait) -> Ticket {
        let ControlRecord { log, kind, payload } = record;
        self.ticket(self.with_log(|to, now| to.append_control(log, kind, payload, wait, now)))
    }

    /// Appends messages of a log whose bytes are in another log; see [`leveret_queue::shared`].
    pub(crate) fn append_references(&self, references: &JointRecord<'_>, wait: Wait) -> Ticket {
        self.ticket(self.with_log(|log, now| log.append_references(references, wait, now)))
    }

    /// Appends several messages of a log as one record, as streams have them.
    pub(crate) fn append_chunk(&self, chunk: &NewChunk<'_>, wait: Wait) -> Ticket {
        self.ticket(self.with_log(|log, now| log.append_chunk(chunk, wait, now)))
    }

    /// Appends a chunk, which may become part of the record of the one before it, as `join` knows. Returns whether it did: both have
    /// the same ticket then.
    pub(crate) fn append_joining(
        &self,
        chunk: &NewChunk<'_>,
        join: &'static dyn JoinChunks,
        wait: Wait,
    ) -> (Ticket, bool) {
        let ChunkRecord { position, is_joined } =
            self.with_log(|log, now| log.append_joining_chunk(chunk, join, wait, now));
        (self.ticket(position), is_joined)
    }

    /// Appends a record as part of a group, which the first one begins.
    pub(crate) fn append_in(&self, group: &mut Option<GroupId>, record: Record<'_>) -> Ticket {
        self.in_group(group, |group, log, now| record.append_in(group, log, now))
    }

    /// Appends a chunk as part of a group.
    pub(crate) fn append_chunk_in(&self, group: &mut Option<GroupId>, chunk: &NewChunk<'_>) -> Ticket {
        self.in_group(group, |group, log, now| log.append_chunk_in(group, chunk, now))
    }

    fn in_group(
        &self,
        group: &mut Option<GroupId>,
        append: impl FnOnce(GroupId, &mut Log, Nanos) -> Position,
    ) -> Ticket {
        let position = self.with_log(|log, now| {
            let group = *group.get_or_insert_with(|| log.begin_group());
            append(group, log, now)
        });
        self.ticket(position)
    }

    /// Closes a group: all of it takes effect once the ticket is durable. `None` if the group is empty.
    ///
    /// # Panics
    /// If it isn't open, which stops the node.
    pub fn commit_group(&self, group: GroupId, wait: Wait) -> Option<Ticket> {
        self.with_log(|log, now| log.commit_group(group, wait, now)).map(|position| self.ticket(position))
    }
}

impl CommitStream for LocalStream {
    #[inline]
    fn id(&self) -> StreamId {
        StreamId(u32::from(self.store.0))
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.room.load(Ordering::Relaxed)
    }

    #[inline]
    fn watermarks(&self) -> Watermarks {
        // In this order, because everything durable is written.
        let durable = self.durable.get();
        Watermarks { written: self.written.get().or_later(durable), durable }
    }

    #[inline]
    fn progress(&self) -> Watermarks {
        let durable = self.synced.get();
        Watermarks { written: self.written.get().or_later(durable), durable }
    }

    fn appended(&self) -> Place {
        Place::new(self.log.lock().appended())
    }

    fn notify(&self, awaited: Awaited, waiter: Waiter) {
        let waiters = if awaited.is_written() { &self.writing } else { &self.waiters };
        waiters.lock().push((awaited, waiter));
        // The place may have been reached between the caller's check and the push.
        if awaited.is_reached(self.watermarks()) || self.has_left.load(Ordering::Acquire) {
            if awaited.is_written() || !is_planted(Bug::LoseWaiter) {
                self.wake_all(waiters);
            }
        } else if !awaited.is_written() && self.defers_syncs.load(Ordering::Acquire) {
            self.hurry(awaited.place());
        }
    }

    fn notify_later(&self, awaited: Awaited, waiter: Waiter) {
        self.waiters.lock().push((awaited, waiter));
    }

    fn give_up(&self) {
        self.broken.store(true, Ordering::Relaxed);
        // Its thread sees that, and ends the process.
        self.wake_writer();
    }

    fn announce(&self) {
        if self.unannounced.load(Ordering::Relaxed) != NOTHING {
            self.wake_for(self.unannounced.swap(NOTHING, Ordering::AcqRel));
        }
    }

    fn defer_syncs(&self) {
        self.defers_syncs.store(true, Ordering::Release);
    }

    fn publish_wait(&self) -> WaitReason {
        if self.is_disk_full() { WaitReason::DiskFull } else { WaitReason::LogFull }
    }

    fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
        self.wake_all(&self.writing);
        self.wake_all(&self.waiters);
    }
}

impl Store for LocalStream {
    fn id(&self) -> StoreId {
        self.store
    }

    fn plan_read(&self, log: LogId, from: u64, bytes: usize) -> Option<ReadPlan> {
        self.log.lock().plan_read(log, from, bytes)
    }

    fn plan_reads_of(&self, log: LogId, numbers: &[(u64, u64)], bytes: usize) -> Vec<ReadPlan> {
        self.log.lock().plan_reads_of(log, numbers, bytes)
    }

    fn forget(&self, log: LogId) {
        self.with_log(|all, _| all.forget(log));
        self.wake_background();
    }
}

impl Waiter {
    /// Notifies it that this place is reached, or that its stream has left.
    pub(crate) fn notify(self, awaited: Awaited) {
        match self {
            Self::Connection(outbox) if awaited.is_written() => outbox.send(Event::Written(awaited.stream())),
            Self::Connection(outbox) => outbox.send(Event::Durable(awaited.stream())),
            Self::Queue(queue) => queue.apply(),
            Self::Call(call) => call(),
        }
    }
}
