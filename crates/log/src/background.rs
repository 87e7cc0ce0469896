//! The background lane: prepares the next WAL file, retires the oldest one, rewrites segments, and deletes files that
//! are no longer needed.

use crate::job::{Done, Event, Job, JobId, Next};
use crate::log::Log;
use crate::retire::Retirement;
use crate::ring::Ring;
use crate::step::Step;
use crate::types::{LogId, Nanos};

/// Delay before polling again for a condition that raises no event.
pub(crate) const LATER: Nanos = 1_000_000;

/// The two kinds of moves of messages. A WAL file may be retired while a rewrite waits, but not the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Retirement,
    Rewrite,
}

/// The work of the background job in flight.
#[derive(Debug)]
pub(crate) enum Doing {
    Prepare,
    Fill,
    Discard,
    Reserve,
    Ask(Slot, Vec<LogId>),
    Survey(Vec<LogId>),
    /// Entries of the entry log's oldest file are read, to be appended again.
    Carry,
    Work(Slot),
    Clean(Slot),
}

impl Log {
    /// Whether the background lane has to be woken for new work, other than work that [`Log::forget`] makes.
    #[must_use]
    pub fn background_waiting(&self) -> bool {
        if self.background.is_some() || self.space.is_out {
            return self.background.is_none() && self.space.is_untold();
        }
        let is_file_wanted = self.wal.wants_spare() || self.may_fill();
        is_file_wanted || self.retirement.is_none() && self.is_file_due() || self.is_survey_untold()
    }

    /// Whether there is time to fill the next WAL file with zeros. There isn't if commits may soon wait for a
    /// retirement.
    fn may_fill(&self) -> bool {
        self.wal.wants_fill() && !self.is_file_due() && !self.space.is_out && !self.closing
    }

    /// Whether the oldest WAL file has to be retired.
    pub(crate) fn is_file_due(&self) -> bool {
        if self.options.ring == Ring::Entries {
            // Its owner says when a file is empty.
            return false;
        }
        let is_needed = self.space.is_out && !self.wal.full.is_empty() && self.wal.wants_spare();
        is_needed || self.wal.full.len() + 1 >= self.options.unretired_max
    }

    pub(crate) fn next_background_job(&mut self, now: Nanos) -> Next {
        if self.background.is_some() {
            return Next::Idle;
        }
        if self.closing && self.wal.wanted.is_none() && !self.wal.wants_spare() {
            return Next::Idle;
        }
        if let Some(next) = self.next_space_job(now) {
            return next;
        }
        // On a full disk we retire and reuse a WAL file instead of creating one, unless the retirement itself waits
        // for records that have no file yet.
        // The files of the entry log were emptied before, if they can be.
        let is_ring = self.options.ring == Ring::Entries;
        let may_create = !self.space.is_out || self.wal.full.is_empty() || self.waits_for_gate() || is_ring;
        if let Some(steps) = self.wal.prepare(&self.options, may_create) {
            return self.run_background(Doing::Prepare, Job::Steps(steps));
        }
        if self.closing && self.wal.wanted.is_none() {
            return Next::Idle;
        }
        if let Some(steps) = self.wal.discard(&self.options) {
            return self.run_background(Doing::Discard, Job::Steps(steps));
        }
        if self.may_fill()
            && let Some(steps) = self.wal.fill()
        {
            return self.run_background(Doing::Fill, Job::Steps(steps));
        }
        // A checkpoint that was begun is finished first; then WAL files come before segments, since commits may wait
        // for them.
        if self.rewrite.as_ref().is_some_and(Retirement::is_ending) {
            return self.next_move_job(Slot::Rewrite, now);
        }
        if self.retirement.is_some() || self.begin_retirement(now) {
            return self.next_move_job(Slot::Retirement, now);
        }
        if self.rewrite.is_some() || self.begin_rewrite(now) {
            return self.next_move_job(Slot::Rewrite, now);
        }
        // Segments that still had readers when their checkpoint was done.
        let mut steps = self.burial_steps();
        if !steps.is_empty() {
            steps.push(Step::SyncDirectory);
            return self.run_background(Doing::Discard, Job::Steps(steps));
        }
        match self.next_survey_job(now) {
            Next::Run(id, job) => Next::Run(id, job),
            later => self.next_reserve_job(now).unwrap_or(later),
        }
    }

    pub(crate) fn run_background(&mut self, doing: Doing, job: Job) -> Next {
        let id: JobId = self.job_id();
        self.background = Some((id, doing));
        Next::Run(id, job)
    }

    pub(crate) fn complete_background(&mut self, doing: Doing, done: Done, now: Nanos, events: &mut Vec<Event>) {
        match (doing, done) {
            (Doing::Prepare, Done::Yes) => self.wal.prepared(),
            (Doing::Fill, Done::Yes) => self.wal.filled(true),
            (Doing::Discard, Done::Yes) => self.wal.returned(),
            (Doing::Reserve, Done::Yes) => self.reserve_is_made(),
            (Doing::Ask(slot, asked), Done::Live(states)) => self.take_states(slot, &asked, states, now),
            (Doing::Carry, Done::Carried(_)) => {}
            (Doing::Survey(asked), Done::Live(states)) => self.take_survey(&asked, states, now),
            (Doing::Work(slot), Done::Retired(progress)) => self.take_progress(slot, progress.0, events),
            (Doing::Clean(Slot::Retirement), Done::Yes) => self.end_retirement(now, events),
            (Doing::Clean(Slot::Rewrite), Done::Yes) => self.end_rewrite(now),
            (doing, done) => panic!("{done:?} is no result of {doing:?}"),
        }
        self.refresh_statistics();
    }
}
