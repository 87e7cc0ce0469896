//! The commit lane: when a batch is closed, written and synced.

use std::sync::Arc;

use crate::builder::Sealed;
use crate::format::batch::{FLAG_CLOSING, Run};
use crate::format::closed::Closed;
use crate::format::record::RecordKind;
use crate::job::{Event, Job, JobId, Next, Step, WriteJob};
use crate::log::Log;
use crate::names::{self, Name};
use crate::options::Options;
use crate::types::{LogId, Nanos, Wait};

/// State of the commit lane.
#[derive(Debug)]
pub(crate) struct Commit {
    pub outstanding: Option<JobId>,
    flying: Option<Flying>,
    /// The job makes the next file ready: the background lane wasn't in time.
    preparing: bool,
    closing: Closing,
    sync_ended: Nanos,
    sync_took: Nanos,
    /// Records in the active batch that somebody waits for.
    confirms: u64,
    /// Those of the batch that was synced last, and those that came meanwhile: publishers whose windows are full send as
    /// many more, half of them now and half of them after the next sync if that doesn't wait for them.
    expected: u64,
    first_confirm: Nanos,
    /// When the oldest record was appended that nobody waits for.
    first_lazy: Option<Nanos>,
    /// The lane was told to come back at this time.
    told: Nanos,
}

/// The last steps of a clean stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    /// The closing batch is durable: the `closed-` file is next.
    Due,
    Writing,
}

/// The batch between buffer and disk.
#[derive(Debug)]
struct Flying {
    batch: Arc<Sealed>,
    written: bool,
    sync_started: Nanos,
    /// Records in it that somebody waits for.
    confirms: u64,
}

impl Commit {
    pub(crate) fn new(sync_ended: Nanos) -> Commit {
        Commit {
            outstanding: None,
            flying: None,
            preparing: false,
            closing: Closing::No,
            sync_ended,
            sync_took: 0,
            confirms: 0,
            expected: 0,
            first_confirm: 0,
            first_lazy: None,
            told: Nanos::MAX,
        }
    }

    /// The job that is handed out failed. Returns whether it was the last one of a clean stop.
    pub(crate) fn undo_closing(&mut self) -> bool {
        let was_closing = self.closing == Closing::Writing;
        if was_closing {
            self.closing = Closing::No;
            self.outstanding = None;
        }
        was_closing
    }

    /// The job that is handed out failed. Returns whether it only made the next file ready.
    pub(crate) fn undo_prepare(&mut self) -> bool {
        let was_preparing = std::mem::take(&mut self.preparing);
        if was_preparing {
            self.outstanding = None;
        }
        was_preparing
    }

    #[inline]
    pub(crate) fn note_append(&mut self, count: u64, wait: Wait, now: Nanos) {
        match wait {
            Wait::Confirm => {
                if self.confirms == 0 {
                    self.first_confirm = now;
                }
                self.confirms += count;
            }
            Wait::Lazy => {
                self.first_lazy.get_or_insert(now);
            }
        }
    }

    /// The active batch is full: what is appended from here on is in another, and this one goes at once.
    pub(crate) fn batch_closed(&mut self) {
        self.confirms = 0;
        self.first_lazy = None;
    }

    /// When the active batch should be closed; it holds records.
    fn active_due(&self, options: &Options) -> Nanos {
        let lazy = self.first_lazy.map_or(Nanos::MAX, |first| first.saturating_add(options.lazy_flush));
        if self.confirms == 0 {
            return lazy;
        }
        if self.confirms >= self.expected {
            return 0;
        }
        // Nothing could go before the last sync had ended, so that nobody is kept back for longer than this.
        let delay = options.confirm_delay_max.min(self.sync_took);
        let company = self.first_confirm.max(self.sync_ended).saturating_add(delay);
        let idle = self.sync_ended.saturating_add(options.sync_idle);
        company.min(idle).min(lazy)
    }
}

impl Log {
    /// Whether the commit lane has to be told about new work: something is due before the time at which it was
    /// told to come back.
    #[must_use]
    pub fn commit_waiting(&self) -> bool {
        self.commit.outstanding.is_none() && self.due().is_some_and(|due| due < self.commit.told)
    }

    fn due(&self) -> Option<Nanos> {
        if self.commit.flying.is_some() || self.commit.closing == Closing::Due {
            return Some(0);
        }
        if self.is_blocked() {
            return None;
        }
        if !self.closed.is_empty() || self.closing && !self.active.is_empty() {
            return Some(0);
        }
        if self.active.is_empty() {
            return None;
        }
        if self.active.record_bytes() >= self.options.buffer_bytes as u64 / 2 {
            return Some(0);
        }
        Some(self.commit.active_due(&self.options))
    }

    /// The next batch needs a file that only the background lane can give.
    fn is_blocked(&self) -> bool {
        let is_full = self.space.is_out && self.wal.spare.is_none();
        self.wal.wanted.is_some() && (is_full || !self.may_open_file() || self.wal.is_preparing())
    }

    /// One more file than allowed is opened while a retirement waits for its gate: else both would wait forever.
    pub(crate) fn may_open_file(&self) -> bool {
        self.wal.unretired() < self.options.unretired_max || self.waits_for_gate()
    }

    pub(crate) fn next_commit_job(&mut self, now: Nanos) -> Next {
        if self.commit.outstanding.is_some() {
            return Next::Idle;
        }
        if self.commit.flying.as_ref().is_some_and(|flying| flying.written) {
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
        let batch = self.closed.front().unwrap_or(&self.active).padded_bytes();
        if self.wal.has_faster(batch) && self.may_open_file() {
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
        self.write_job()
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

    fn write_job(&mut self) -> Next {
        let mut confirms = 0;
        let builder = match self.closed.pop_front() {
            Some(builder) => builder,
            None => {
                confirms = std::mem::take(&mut self.commit.confirms);
                self.commit.first_lazy = None;
                let next = self.next_builder();
                std::mem::replace(&mut self.active, next)
            }
        };
        let batch = Arc::new(builder.seal());
        assert_eq!(batch.header.first_position, self.durable + 1, "batches are written in order");
        self.commit.flying = Some(Flying { batch: batch.clone(), written: false, sync_started: 0, confirms });
        let file = &self.wal.current;
        let job = Job::Write(WriteJob { file: file.name.clone(), offset: file.end, identity: file.identity, batch });
        self.run_commit(job)
    }

    fn sync_job(&mut self, now: Nanos) -> Next {
        if let Some(flying) = &mut self.commit.flying {
            flying.sync_started = now;
        }
        let file = self.wal.current.name.clone();
        self.run_commit(Job::Sync { file })
    }

    /// Leaves word how far the log came, so that a part of it that goes missing is missed. Renamed into place: it is
    /// there as a whole or not at all.
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
        };
        let name: Arc<str> = names::closed(self.options.wal_id).into();
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

    /// Notes whose messages in segments are fewer now.
    fn note_settles(&mut self, runs: &[Run]) {
        let is_copying = self.retirement.is_some();
        for run in runs.iter().filter(|run| run.kind == RecordKind::Settle) {
            if is_copying || self.store.has_log(run.log) {
                self.store.settled.insert(run.log);
            }
            // It may have been a reference.
            if self.store.has_log(LogId::SHARED) {
                self.store.settled.insert(LogId::SHARED);
            }
        }
    }

    /// Its messages can be read from here on, and queues that don't wait for the sync may need to.
    fn note_written(&mut self, batch: &Sealed, events: &mut Vec<Event>) {
        let header = &batch.header;
        let file = &mut self.wal.current;
        file.index.note(file.end, header, &batch.runs);
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
        let mut flying = self.commit.flying.take().expect("a batch is on its way");
        if !flying.written {
            flying.written = true;
            self.note_written(&flying.batch, events);
            #[cfg(feature = "planted-bugs")]
            {
                flying.written = !self.options.has_bug(crate::options::Bug::SkipSync);
            }
            if flying.written {
                self.commit.flying = Some(flying);
                return;
            }
        }
        self.commit.sync_ended = now;
        self.commit.sync_took = now.saturating_sub(flying.sync_started);
        self.statistics.note_sync(self.commit.sync_took);
        self.commit.expected = flying.confirms + self.commit.confirms;

        let header = flying.batch.header;
        self.note_settles(&flying.batch.runs);
        self.durable = header.last_position();
        self.statistics.batches += 1;
        self.statistics.records += header.records as u64;
        self.statistics.bytes_written += header.padded_bytes();
        events.push(Event::Durable(self.durable));
        if header.flags & FLAG_CLOSING != 0 {
            self.commit.closing = Closing::Due;
        }
        if let Some(batch) = Arc::into_inner(flying.batch).filter(|_| self.memory.len() < 2) {
            let capacity_max = self.options.buffer_bytes * 2;
            self.memory.push(batch.into_memory(capacity_max));
        }
    }
}
