//! The background lane: the next WAL file, retirement of the oldest one, and what can be deleted.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::checkpoint::Plan;
use crate::error::ReadError;
use crate::format::checkpoint::Header;
use crate::group::GroupId;
use crate::index::LogIndex;
use crate::job::{Done, Event, Job, LiveState, Next, RetireJob, Step};
use crate::log::Log;
use crate::store::CheckpointFile;
use crate::types::{LogId, Nanos, Position};

pub(crate) mod worker;

use worker::{Copied, Limits, Origin, Progress, Worker};

/// Logs in one [`Job::Live`]: their owners' locks are taken one after the other in one go.
const LIVE_LOGS_MAX: usize = 256;
/// Until something is looked at again that no event tells.
const LATER: Nanos = 1_000_000;

/// What the background job that was handed out does.
#[derive(Debug)]
pub(crate) enum Doing {
    Prepare,
    Discard,
    Ask(Vec<LogId>),
    Work,
    Clean,
}

/// A WAL file on its way out, or only a checkpoint (after a log with segments was deleted).
#[derive(Debug)]
pub(crate) struct Retirement {
    phase: Phase,
    /// Whether the oldest full WAL file is retired.
    has_file: bool,
    worker: Arc<Mutex<Worker>>,
    /// Everything that the states reflect has positions up to here.
    gate: Position,
    /// Groups that were open when a state was taken: it may reflect their settles, so their commit records have to be
    /// behind the gate, too.
    open_groups: Vec<GroupId>,
    /// Deleted logs and up to where their records don't count any more.
    removed: Vec<(LogId, Position)>,
    copied: Copied,
    old_checkpoint: Option<Arc<str>>,
}

#[derive(Debug)]
enum Phase {
    /// Logs whose state is needed, and when to ask (again).
    Asking {
        rest: Vec<LogId>,
        not_before: Nanos,
    },
    Copying,
    Gate,
    Writing,
    Cleaning,
}

impl Retirement {
    fn worker(&self) -> MutexGuard<'_, Worker> {
        self.worker.lock().unwrap_or_else(|error| error.into_inner())
    }
}

impl Log {
    /// Whether a retirement can't go on before more is durable.
    pub(crate) fn waits_for_gate(&self) -> bool {
        self.retirement.as_ref().is_some_and(|retirement| retirement.gate > self.durable)
    }

    pub(crate) fn next_background_job(&mut self, now: Nanos) -> Next {
        if self.background.is_some() {
            return Next::Idle;
        }
        if let Some(steps) = self.wal.prepare(&self.options) {
            return self.run_background(Doing::Prepare, Job::Steps(steps));
        }
        if self.closing && self.wal.wanted.is_none() {
            return Next::Idle;
        }
        if let Some(steps) = self.wal.discard(&self.options) {
            return self.run_background(Doing::Discard, Job::Steps(steps));
        }
        if self.retirement.is_none() && !self.begin_retirement(now) {
            return Next::Idle;
        }
        self.next_retirement_job(now)
    }

    fn run_background(&mut self, doing: Doing, job: Job) -> Next {
        let id = self.job_id();
        self.background = Some((id, doing));
        Next::Run(id, job)
    }

    fn begin_retirement(&mut self, now: Nanos) -> bool {
        let has_file = self.wal.full.len() + 1 >= self.options.unretired_max;
        let has_garbage = self.forgotten.keys().any(|log| self.store.has_log(*log));
        if !has_file && !has_garbage {
            return false;
        }
        let file = self.wal.full.front().filter(|_| has_file);
        let touched: Vec<(LogId, LogIndex)> = file
            .iter()
            .flat_map(|file| file.index.logs())
            .filter(|(log, _)| !self.forgotten.contains_key(log))
            .map(|(log, index)| {
                let index = LogIndex { points: Vec::new(), ..*index };
                (log, index)
            })
            .collect();
        let mut rest: Vec<LogId> = touched.iter().map(|(log, _)| *log).collect();
        rest.sort_unstable();
        let limits = Limits {
            node_id: self.options.node_id,
            wal_id: self.options.wal_id,
            inline_below: self.options.inline_below,
            mixed_below: self.options.mixed_below,
        };
        let origin = file.map(|file| Origin {
            name: file.name.clone(),
            identity: file.identity,
            end: file.end,
            known: file.known.clone(),
        });
        let worker = Worker::new(limits, origin, touched, self.store.next_segment);
        self.retirement = Some(Retirement {
            phase: Phase::Asking { rest, not_before: now },
            has_file,
            worker: Arc::new(Mutex::new(worker)),
            gate: 0,
            open_groups: Vec::new(),
            removed: Vec::new(),
            copied: Copied::default(),
            old_checkpoint: None,
        });
        true
    }

    fn next_retirement_job(&mut self, now: Nanos) -> Next {
        loop {
            let Some(retirement) = &mut self.retirement else {
                return Next::Idle;
            };
            match &mut retirement.phase {
                Phase::Asking { not_before, .. } if *not_before > now => {
                    return Next::At(*not_before);
                }
                Phase::Asking { rest, .. } if !rest.is_empty() => {
                    let logs = rest.split_off(rest.len().saturating_sub(LIVE_LOGS_MAX));
                    let asked = Doing::Ask(logs.clone());
                    return self.run_background(asked, Job::Live { logs });
                }
                Phase::Asking { .. } => {
                    // What is deleted by now is left out of the checkpoint, once the deletion is durable.
                    let deleted = self.forgotten.values().copied().max().unwrap_or(0);
                    retirement.gate = retirement.gate.max(deleted);
                    retirement.phase = Phase::Copying;
                }
                #[cfg(feature = "planted-bugs")]
                Phase::Gate if self.options.has_bug(crate::options::Bug::CutGroupByCheckpoint) => {
                    if retirement.gate > self.durable {
                        return Next::At(now.saturating_add(LATER));
                    }
                    self.begin_checkpoint();
                }
                #[cfg(feature = "planted-bugs")]
                Phase::Gate if self.options.has_bug(crate::options::Bug::UnlinkBeforeSettleDurable) => {
                    self.begin_checkpoint();
                }
                Phase::Gate if !retirement.open_groups.is_empty() => {
                    retirement.open_groups.retain(|group| self.groups.is_open(*group));
                    if !retirement.open_groups.is_empty() {
                        return Next::At(now.saturating_add(LATER));
                    }
                    retirement.gate = self.active.next_position() - 1;
                }
                Phase::Gate if retirement.gate > self.durable => return Next::At(now.saturating_add(LATER)),
                Phase::Gate => self.begin_checkpoint(),
                Phase::Copying | Phase::Writing => {
                    let worker = RetireJob(retirement.worker.clone());
                    return self.run_background(Doing::Work, Job::Retire(worker));
                }
                Phase::Cleaning => {
                    let steps = self.cleaning_steps();
                    return self.run_background(Doing::Clean, Job::Steps(steps));
                }
            }
        }
    }

    fn begin_checkpoint(&mut self) {
        let Some(retirement) = &mut self.retirement else {
            return;
        };
        let gate = retirement.gate;
        let deleted = self.forgotten.iter().filter(|(_, at)| **at <= gate);
        retirement.removed.extend(deleted.map(|(log, at)| (*log, *at)));
        for (log, _) in &retirement.removed {
            self.store.remove_log(*log);
        }
        self.store.bury_dead();
        if retirement.has_file {
            let file = &self.wal.full[0];
            self.store.retired_position = self.store.retired_position.max(file.last_position);
            self.store.retired_batch = self.store.retired_batch.max(file.last_batch);
        }
        let header = Header {
            sequence: self.store.next_checkpoint,
            floor: self.wal.floor(usize::from(retirement.has_file)),
            position: self.store.retired_position,
            batch: self.store.retired_batch,
            next_file: self.wal.next_sequence,
            next_segment: self.store.next_segment,
            segments: 0,
            logs: 0,
            length: 0,
            rows_crc: 0,
        };
        self.store.next_checkpoint += 1;
        let segments = self.store.segments.iter();
        let plan = Plan {
            header,
            node_id: self.options.node_id,
            wal_id: self.options.wal_id,
            segments: segments.map(|(id, segment)| (*id, segment.length)).collect(),
            old: self.store.checkpoint.clone(),
            removed: retirement.removed.clone(),
        };
        retirement.worker().begin_checkpoint(plan);
        retirement.phase = Phase::Writing;
    }

    /// The old checkpoint goes before a WAL file that only it needs is recycled.
    fn cleaning_steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some(retirement) = &mut self.retirement {
            steps.extend(retirement.old_checkpoint.take().map(Step::Remove));
        }
        let (pinned, free) =
            mem::take(&mut self.store.dead).into_iter().partition(|segment| Arc::strong_count(&segment.pin) > 1);
        self.store.dead = pinned;
        let free: Vec<crate::store::Segment> = free;
        steps.extend(free.into_iter().map(|segment| Step::Remove(segment.name)));
        if let Some(file) = self.wal.full.front().filter(|_| self.keeps_file()) {
            let aside = format!("damaged-{}", file.name);
            steps.push(Step::Rename(file.name.clone(), aside.into()));
        }
        steps.push(Step::SyncDirectory);
        steps
    }

    /// Whether the file that is retired is damaged: it is kept for somebody to look at.
    fn keeps_file(&self) -> bool {
        let Some(retirement) = self.retirement.as_ref().filter(|retirement| retirement.has_file) else {
            return false;
        };
        let known = self.wal.full.front().is_some_and(|file| !file.known.is_empty());
        known || !retirement.copied.damaged.is_empty()
    }

    pub(crate) fn complete_background(&mut self, doing: Doing, done: Done, now: Nanos, events: &mut Vec<Event>) {
        match (doing, done) {
            (Doing::Prepare, Done::Yes) => self.wal.prepared(),
            (Doing::Discard, Done::Yes) => {}
            (Doing::Ask(asked), Done::Live(states)) => self.take_states(&asked, states, now),
            (Doing::Work, Done::Retired(progress)) => self.take_progress(progress.0, events),
            (Doing::Clean, Done::Yes) => self.end_retirement(events),
            (doing, done) => panic!("{done:?} is no result of {doing:?}"),
        }
        self.refresh_statistics();
    }

    /// Takes the states of logs. One whose owner hasn't applied all durable messages of the file yet is asked again:
    /// what it doesn't count as alive would not be copied. One that is left out was deleted.
    fn take_states(&mut self, asked: &[LogId], states: Vec<LiveState>, now: Nanos) {
        let appended = self.appended();
        let Some(retirement) = &mut self.retirement else {
            return;
        };
        let mut answered: Vec<LogId> = states.iter().map(|state| state.log).collect();
        answered.sort_unstable();
        let file = self.wal.full.front().filter(|_| retirement.has_file);
        let mut again = Vec::new();
        for state in states {
            assert!(
                state.live.max().is_none_or(|max| max < state.next),
                "log {} has a live message from its next number on",
                state.log
            );
            let reached = file.and_then(|file| file.index.reached(state.log));
            if reached.is_some_and(|reached| reached >= state.next) {
                again.push(state.log);
                continue;
            }
            self.store.count_live(state.log, &state.live);
            retirement.worker().states.insert(state.log, state);
        }
        let left_out = asked.iter().filter(|log| answered.binary_search(log).is_err());
        for log in left_out {
            self.forgotten.entry(*log).or_insert(appended);
        }
        retirement.gate = appended;
        for group in self.groups.open() {
            if !retirement.open_groups.contains(&group) {
                retirement.open_groups.push(group);
            }
        }
        if let Phase::Asking { rest, not_before } = &mut retirement.phase
            && !again.is_empty()
        {
            *not_before = now.saturating_add(LATER);
            rest.extend(again);
        }
    }

    fn take_progress(&mut self, progress: Progress, events: &mut Vec<Event>) {
        let Some(retirement) = &mut self.retirement else {
            return;
        };
        match progress {
            Progress::More => {}
            Progress::Copied(mut copied) => {
                self.store.next_segment = copied.next_segment;
                for (id, segment, logs) in mem::take(&mut copied.segments) {
                    self.store.add(id, segment, logs);
                }
                self.statistics.messages_copied += copied.messages;
                self.statistics.bytes_copied += copied.bytes;
                let damaged = copied.damaged.iter().map(|error| ReadError {
                    file: error.file.clone(),
                    range: error.range.clone(),
                    log: error.log,
                    reason: error.reason.clone(),
                });
                events.extend(damaged.map(Event::Damaged));
                retirement.copied = copied;
                retirement.phase = Phase::Gate;
            }
            Progress::Checkpoint(file) => {
                let old: Option<CheckpointFile> = self.store.checkpoint.replace(file);
                retirement.old_checkpoint = old.map(|old| old.name);
                retirement.phase = Phase::Cleaning;
                self.statistics.checkpoints += 1;
            }
        }
    }

    fn end_retirement(&mut self, events: &mut Vec<Event>) {
        let keeps_file = self.keeps_file();
        let Some(retirement) = self.retirement.take() else {
            return;
        };
        for (log, _) in &retirement.removed {
            self.forgotten.remove(log);
        }
        if !retirement.has_file {
            return;
        }
        let Some(file) = self.wal.full.pop_front() else {
            return;
        };
        self.statistics.retirements += 1;
        events.push(Event::Retired {
            file: file.name.to_string(),
            messages: retirement.copied.messages,
            bytes: retirement.copied.bytes,
        });
        if !keeps_file {
            self.wal.retired.push(file);
        }
    }
}
