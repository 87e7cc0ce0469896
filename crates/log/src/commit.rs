//! The commit lane: decides when a batch is closed, written and synced.
//!
//! Batches are synced one by one if a caller waits until they are durable. Batches that only have to be written share
//! a sync, at the latest when the next file begins. Each batch records how many batches before it aren't durable yet,
//! so that recovery can tell bytes torn by a power cut from later corruption.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::builder::Sealed;
use crate::format::batch::FLAG_CLOSING;
use crate::format::closed::Closed;
use crate::format::record::RecordKind;
use crate::job::{Event, Job, JobId, Next, WriteJob};
use crate::log::{Log, PlacedBatch};
use crate::names::Name;
use crate::options::Options;
use crate::retire::Retirement;
use crate::ring::Ring;
use crate::step::Step;
use crate::types::{LogId, Nanos, Position, Wait};
use crate::wal::WalFile;

/// State of the commit lane.
#[derive(Debug)]
pub(crate) struct Commit {
    pub outstanding: Option<JobId>,
    /// The batch that is being written.
    flying: Option<Flying>,
    /// A sync of the written batches is in flight.
    syncing: bool,
    unsynced: Option<Unsynced>,
    /// A caller waits until the active batch is durable.
    is_sync_wanted: bool,
    /// The job in flight prepares the next file, because the background lane wasn't in time.
    preparing: bool,
    closing: Closing,
    /// Time at which the last round ended: its records were written, or synced.
    ended: Nanos,
    /// Duration of the last round's sync, or of its write if it needed no sync.
    took: Nanos,
    job_started: Nanos,
    /// Records in the active batch that a caller waits for.
    waiting: u64,
    /// Expected arrivals: waiting records of the last round plus those since. Publishers with full windows will send
    /// that many again; waiting for them avoids splitting one window over two alternating syncs.
    expected: u64,
    first_waiting: Nanos,
    /// Time at which the oldest record was appended that no caller waits for until it is durable.
    first_lazy: Option<Nanos>,
    /// Time at which the lane will ask for a job by itself.
    told: Nanos,
}

/// The last steps of a clean stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    /// The closing batch is durable; the `closed-` file is next.
    Due,
    Writing,
}

/// The batch being written.
#[derive(Debug)]
struct Flying {
    batch: Arc<Sealed>,
    /// Records in it that a caller waits for.
    waiting: u64,
    /// A caller waits until it is durable.
    is_sync_wanted: bool,
    /// Deadline for making it durable.
    due: Nanos,
}

/// Batches at the end of the current file that are written and not synced.
#[derive(Debug, Default)]
struct Unsynced {
    batches: u32,
    bytes: u64,
    /// Position of the last record.
    last: Position,
    /// A caller waits until they are durable.
    is_sync_wanted: bool,
    /// Deadline for making them durable.
    due: Nanos,
    /// Records in the last one that a caller waits for until they are durable.
    waiting: u64,
    /// Some waiters were already notified when the batches were written.
    is_told: bool,
    is_closing: bool,
    /// Logs with settles in these batches.
    settled: FxHashSet<LogId>,
}

impl Commit {
    pub(crate) fn new(ended: Nanos) -> Commit {
        Commit {
            outstanding: None,
            flying: None,
            syncing: false,
            unsynced: None,
            is_sync_wanted: false,
            preparing: false,
            closing: Closing::No,
            ended,
            took: 0,
            job_started: 0,
            waiting: 0,
            expected: 0,
            first_waiting: 0,
            first_lazy: None,
            told: Nanos::MAX,
        }
    }

    /// Reacts to the failure of the job in flight. Returns whether it was the last one of a clean stop.
    pub(crate) fn undo_closing(&mut self) -> bool {
        let was_closing = self.closing == Closing::Writing;
        if was_closing {
            self.closing = Closing::No;
            self.outstanding = None;
        }
        was_closing
    }

    /// Reacts to the failure of the job in flight. Returns whether it only prepared the next file.
    pub(crate) fn undo_prepare(&mut self) -> bool {
        let was_preparing = std::mem::take(&mut self.preparing);
        if was_preparing {
            self.outstanding = None;
        }
        was_preparing
    }

    #[inline]
    pub(crate) fn note_append(&mut self, count: u64, wait: Wait, now: Nanos) {
        if wait != Wait::Lazy {
            if self.waiting == 0 {
                self.first_waiting = now;
            }
            self.waiting += count;
        }
        match wait {
            Wait::Confirm => self.is_sync_wanted = true,
            Wait::Written | Wait::Lazy => {
                self.first_lazy.get_or_insert(now);
            }
        }
    }

    /// The active batch is full and is due at once; later appends go to a new one.
    pub(crate) fn batch_closed(&mut self) {
        self.waiting = 0;
        self.is_sync_wanted = false;
        self.first_lazy = None;
    }

    /// Time at which the active batch, which holds records, has to be closed.
    fn active_due(&self, options: &Options) -> Nanos {
        let lazy = self.first_lazy.map_or(Nanos::MAX, |first| first.saturating_add(options.lazy_flush));
        if self.waiting == 0 {
            return lazy;
        }
        if self.waiting >= self.expected {
            return 0;
        }
        // Counted from the end of the last round: nothing could be written earlier, so no record is delayed for
        // longer than this.
        let delay = options.confirm_delay_max.min(self.took);
        let company = self.first_waiting.max(self.ended).saturating_add(delay);
        let idle = self.ended.saturating_add(options.sync_idle);
        company.min(idle).min(lazy)
    }

    /// Ends a round with `waiting` records whose waiters are notified.
    fn end_round(&mut self, waiting: u64, now: Nanos) {
        self.ended = now;
        self.took = now.saturating_sub(self.job_started);
        self.expected = waiting + self.waiting;
    }
}

impl Log {
    /// Whether the commit lane has to be woken for new work, because something is due before the lane would ask by
    /// itself.
    #[must_use]
    pub fn commit_waiting(&self) -> bool {
        self.commit.outstanding.is_none() && self.due().is_some_and(|due| due < self.commit.told)
    }

    fn due(&self) -> Option<Nanos> {
        self.sync_due().into_iter().chain(self.write_due()).min()
    }

    /// Whether a small write without a sync is due, which takes the appending thread no longer than waking the commit
    /// lane would: see [`Log::next_small_write`].
    #[must_use]
    pub fn small_write_waiting(&self, now: Nanos) -> bool {
        let commit = &self.commit;
        let is_waited_for = commit.outstanding.is_none() && commit.waiting > 0 && self.closed.is_empty();
        let is_sync_wanted = commit.is_sync_wanted || self.sync_due().is_some_and(|due| due <= now);
        if !is_waited_for || is_sync_wanted || self.is_blocked() {
            return false;
        }
        let batch = self.active.padded_bytes();
        batch <= self.options.small_write_bytes_max
            && batch <= self.wal.current.room()
            && !self.goes_to_next_file(batch)
    }

    /// The job announced by [`Log::small_write_waiting`], which any thread may run instead of the commit lane. The
    /// commit lane gets no job until it is complete.
    pub fn next_small_write(&mut self, now: Nanos) -> Option<(JobId, Job)> {
        if !self.small_write_waiting(now) {
            return None;
        }
        // The lane still sleeps until this time.
        let told = self.commit.told;
        let Next::Run(id, job) = self.write_job(now) else { unreachable!("a batch is there") };
        self.commit.told = told;
        Some((id, job))
    }

    /// Asks for a sync of this position, which may have been appended with [`Wait::Written`] only.
    pub fn hurry(&mut self, position: Position) {
        let commit = &mut self.commit;
        let is_in = |last: Position| position <= last;
        match (&mut commit.unsynced, &mut commit.flying) {
            _ if position <= self.durable => {}
            (Some(unsynced), _) if is_in(unsynced.last) => unsynced.is_sync_wanted = true,
            (_, Some(flying)) if is_in(flying.batch.header.last_position()) => flying.is_sync_wanted = true,
            _ => commit.is_sync_wanted = true,
        }
    }

    /// Time at which the written batches have to be synced.
    fn sync_due(&self) -> Option<Nanos> {
        let unsynced = self.commit.unsynced.as_ref()?;
        let is_much = unsynced.bytes >= self.options.unsynced_max;
        Some(if is_much || unsynced.is_sync_wanted { 0 } else { unsynced.due })
    }

    /// Time at which a batch has to be written.
    fn write_due(&self) -> Option<Nanos> {
        if self.commit.closing == Closing::Due {
            return Some(0);
        }
        if self.is_blocked() {
            return None;
        }
        if !self.closed.is_empty() || self.closing && !self.active.is_empty() {
            return Some(0);
        }
        let copies = if self.closing { None } else { self.copies_due() };
        if self.active.is_empty() {
            return copies;
        }
        if self.active.record_bytes() >= self.options.buffer_bytes as u64 / 2 {
            return Some(0);
        }
        copies.into_iter().chain([self.commit.active_due(&self.options)]).min()
    }

    /// Whether the next batch needs a file that only the background lane can provide.
    fn is_blocked(&self) -> bool {
        let is_full = self.space.is_out && self.wal.spare.is_none();
        let needs_file = self.wal.wanted.is_some() && (is_full || !self.may_open_file() || self.wal.is_preparing());
        needs_file || self.is_ahead_of_retirement()
    }

    /// Whether the next batch waits although the current file has room: no file can follow this one before the oldest is retired, and
    /// if it were filled much faster than that one is copied, all publishers would then stop for as long as the rest takes. So it is
    /// filled in step with the copy. A sixteenth of the file is free for bursts, and the last quarter for the end of the retirement.
    fn is_ahead_of_retirement(&self) -> bool {
        let Some((part, began_at)) = self.retirement.as_ref().and_then(Retirement::part) else { return false };
        let is_elsewhere =
            self.closing || self.space.is_out || self.rewrite.as_ref().is_some_and(Retirement::is_ending);
        if is_elsewhere || self.may_open_file() {
            return false;
        }
        let WalFile { length, end, .. } = self.wal.current;
        let batch = self.closed.front().unwrap_or(&self.active).padded_bytes();
        let from = began_at + length / 16;
        let in_step = u128::from((length / 4 * 3).saturating_sub(from)) * u128::from(part.copied) / u128::from(part.of);
        u128::from(end + batch) > u128::from(from) + in_step
    }

    /// Whether the current file may be followed by another. While a retirement waits for its gate, one file more than
    /// the limit is allowed; otherwise both would wait forever.
    pub(crate) fn may_open_file(&self) -> bool {
        self.wal.unretired() < self.options.unretired_max || self.waits_for_gate() || self.is_carrying
    }

    pub(crate) fn next_commit_job(&mut self, now: Nanos) -> Next {
        if self.commit.outstanding.is_some() {
            // The job runs on another thread, which wakes the lane if work is left.
            self.commit.told = Nanos::MAX;
            return Next::Idle;
        }
        if self.sync_due().is_some_and(|due| due <= now) {
            return self.sync_job(now);
        }
        match self.due() {
            Some(due) if due <= now => {}
            Some(due) => {
                self.commit.told = due;
                return Next::At(due);
            }
            None => {
                self.commit.told = Nanos::MAX;
                return Next::Idle;
            }
        }
        if self.commit.closing == Closing::Due {
            self.commit.closing = Closing::Writing;
            return self.run_commit(Job::Steps(self.closed_steps()));
        }
        self.fill_block(now);
        let batch = self.closed.front().unwrap_or(&self.active).padded_bytes();
        let is_next_faster = self.goes_to_next_file(batch);
        if (is_next_faster || batch > self.wal.current.room()) && self.commit.unsynced.is_some() {
            // Everything must be durable before the next file begins.
            return self.sync_job(now);
        }
        if is_next_faster {
            self.next_file(batch);
        }
        if batch > self.wal.current.room() && !self.next_file(batch) {
            if !self.is_blocked()
                && let Some(steps) = self.wal.prepare(&self.options, true)
            {
                self.commit.preparing = true;
                return self.run_commit(Job::Steps(steps));
            }
            self.had_room = self.had_room && self.room();
            self.commit.told = Nanos::MAX;
            return Next::Idle;
        }
        self.write_job(now)
    }

    /// Whether the batch goes to the next file although the current one has room: the current one was never written
    /// before, and the next one was.
    fn goes_to_next_file(&self, batch: u64) -> bool {
        self.wal.has_faster(batch) && self.may_open_file()
    }

    fn next_file(&mut self, batch: u64) -> bool {
        if !self.may_open_file() {
            self.wal.wanted = Some(batch);
            return false;
        }
        let advanced = self.wal.advance(batch);
        self.refresh_statistics();
        advanced
    }

    fn write_job(&mut self, now: Nanos) -> Next {
        // Batches that are closed early hold so much that they are synced soon anyway.
        let (mut waiting, mut is_sync_wanted, mut first_lazy) = (0, true, None);
        let builder = match self.closed.pop_front() {
            Some(builder) => builder,
            None => {
                waiting = std::mem::take(&mut self.commit.waiting);
                is_sync_wanted = std::mem::take(&mut self.commit.is_sync_wanted);
                first_lazy = self.commit.first_lazy.take();
                let next = self.next_builder();
                std::mem::replace(&mut self.active, next)
            }
        };
        if !self.closing {
            self.place_metadata(builder.sequence(), self.wal.current.end + builder.padded_bytes(), now);
        }
        let (batches, written) =
            self.commit.unsynced.as_ref().map_or((0, self.durable), |unsynced| (unsynced.batches, unsynced.last));
        let batch = Arc::new(builder.seal(if planted!(OmitUnsynced) { 0 } else { batches }));
        assert_eq!(batch.header.first_position, written + 1, "batches are written in order");
        let due = first_lazy.unwrap_or(now).saturating_add(self.options.lazy_flush);
        self.commit.flying = Some(Flying { batch: batch.clone(), waiting, is_sync_wanted, due });
        self.commit.job_started = now;
        let file = &self.wal.current;
        let job = Job::Write(WriteJob { file: file.name.clone(), offset: file.end, identity: file.identity, batch });
        self.run_commit(job)
    }

    fn sync_job(&mut self, now: Nanos) -> Next {
        self.commit.syncing = true;
        self.commit.job_started = now;
        let file = self.wal.current.name.clone();
        self.run_commit(Job::Sync { file })
    }

    /// Records how far the log came, so that recovery notices if a part of it is missing. The file is renamed into
    /// place: it exists as a whole or not at all.
    fn closed_steps(&self) -> Vec<Step> {
        let checkpoint = self.store.checkpoint.as_ref().and_then(|file| Name::parse(&file.name, self.options.wal_id));
        let closed = Closed {
            batch: self.wal.current.last_batch,
            position: self.durable,
            file: self.wal.current.sequence,
            checkpoint: match checkpoint {
                Some(Name::Checkpoint(sequence)) => sequence,
                _ => 0,
            },
            metadata_mark: self.metadata.mark(),
        };
        let name: Arc<str> = self.options.ring.closed(self.options.wal_id).into();
        let new: Arc<str> = format!("{name}.new").into();
        vec![
            Step::Create(new.clone(), 0),
            Step::WriteStart(new.clone(), closed.encode(self.options.node_id, self.options.wal_id).to_vec()),
            Step::Sync(new.clone()),
            Step::Rename(new, name),
            Step::SyncDirectory,
        ]
    }

    fn run_commit(&mut self, job: Job) -> Next {
        let id = self.job_id();
        self.commit.outstanding = Some(id);
        self.commit.told = Nanos::MAX;
        Next::Run(id, job)
    }

    /// Notes the logs that have fewer live messages in segments now.
    fn note_settles(&mut self, settled: FxHashSet<LogId>) {
        let is_copying = self.retirement.is_some();
        for log in settled {
            if is_copying || self.store.has_log(log) {
                self.store.settled.insert(log);
            }
            // The settled message may have been a reference to a shared one.
            if self.store.has_log(LogId::SHARED) {
                self.store.settled.insert(LogId::SHARED);
            }
        }
    }

    /// Notes that the batch's messages can be read from now on. Queues that don't wait for the sync may need to read
    /// them.
    fn note_written(&mut self, batch: &Sealed, events: &mut Vec<Event>) {
        let header = &batch.header;
        let file = &mut self.wal.current;
        match self.options.ring {
            Ring::Store => file.index.note(file.end, header, &batch.runs),
            Ring::Entries => {
                let records_at = file.end + header.prefix_bytes();
                self.placed.push(PlacedBatch { sequence: header.sequence, file: file.sequence, records_at });
            }
        }
        file.end += header.padded_bytes();
        file.last_position = header.last_position();
        file.last_batch = header.sequence;
        events.push(Event::Written(header.last_position()));
    }

    pub(crate) fn complete_commit(&mut self, now: Nanos, events: &mut Vec<Event>) {
        self.commit.outstanding = None;
        if std::mem::take(&mut self.commit.preparing) {
            self.wal.prepared();
            return;
        }
        if self.commit.closing == Closing::Writing {
            self.commit.closing = Closing::No;
            return;
        }
        if std::mem::take(&mut self.commit.syncing) {
            self.synced(now, events);
            return;
        }
        let flying = self.commit.flying.take().expect("a batch is on its way");
        self.note_written(&flying.batch, events);
        let header = flying.batch.header;
        self.statistics.batches += 1;
        self.statistics.records += header.records as u64;
        self.statistics.bytes_written += header.padded_bytes();
        let unsynced = self.commit.unsynced.get_or_insert_with(|| Unsynced { due: flying.due, ..Unsynced::default() });
        unsynced.add(&flying);
        if flying.waiting > 0 && !unsynced.is_sync_wanted {
            self.commit.end_round(flying.waiting, now);
        }
        if let Some(batch) = Arc::into_inner(flying.batch).filter(|_| self.memory.len() < 2) {
            let capacity_max = self.options.buffer_bytes * 2;
            self.memory.push(batch.into_memory(capacity_max));
        }
        #[cfg(feature = "planted-bugs")]
        if self.options.has_bug(crate::options::Bug::SkipSync) {
            self.synced(now, events);
        }
    }

    /// All written batches are durable.
    fn synced(&mut self, now: Nanos, events: &mut Vec<Event>) {
        let unsynced = self.commit.unsynced.take().expect("a sync is of what is written");
        self.wal.current.is_begun = true;
        self.statistics.note_sync(now.saturating_sub(self.commit.job_started));
        if unsynced.is_sync_wanted || !unsynced.is_told {
            self.wal.current.waits += u64::from(unsynced.is_sync_wanted);
            self.commit.end_round(unsynced.waiting, now);
        } else {
            // No caller waited for it.
            self.commit.ended = now;
        }
        self.note_settles(unsynced.settled);
        self.durable = unsynced.last;
        events.push(Event::Durable(self.durable));
        if unsynced.is_closing {
            self.commit.closing = Closing::Due;
        }
    }
}

impl Unsynced {
    fn add(&mut self, flying: &Flying) {
        let header = &flying.batch.header;
        self.batches += 1;
        self.bytes += header.padded_bytes();
        self.last = header.last_position();
        self.is_sync_wanted |= flying.is_sync_wanted;
        self.due = self.due.min(flying.due);
        self.waiting = if self.is_sync_wanted { flying.waiting } else { 0 };
        self.is_told |= flying.waiting > 0 && !self.is_sync_wanted;
        self.is_closing |= header.flags & FLAG_CLOSING != 0;
        let settles = flying.batch.runs.iter().filter(|run| run.kind == RecordKind::Settle);
        self.settled.extend(settles.map(|run| run.log));
    }
}
