//! The background lane: the next WAL file, retirement of the oldest one, and what can be deleted.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::checkpoint::Plan;
use crate::format::checkpoint::Header;
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
    Ask,
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
    removed: Vec<LogId>,
    copied: Copied,
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
        self.retirement
            .as_ref()
            .is_some_and(|retirement| retirement.gate > self.durable)
    }

    pub(crate) fn next_background_job(&mut self, now: Nanos) -> Next {
        if self.background.is_some() {
            return Next::Idle;
        }
        if let Some(steps) = self.wal.prepare(&self.options) {
            return self.run_background(Doing::Prepare, Job::Steps(steps));
        }
        if self.closing {
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
                let index = LogIndex {
                    points: Vec::new(),
                    ..*index
                };
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
        });
        let worker = Worker::new(limits, origin, touched, self.store.next_segment);
        self.retirement = Some(Retirement {
            phase: Phase::Asking {
                rest,
                not_before: now,
            },
            has_file,
            worker: Arc::new(Mutex::new(worker)),
            gate: 0,
            removed: Vec::new(),
            copied: Copied::default(),
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
                    return self.run_background(Doing::Ask, Job::Live { logs });
                }
                Phase::Asking { .. } => {
                    // What is deleted by now is left out of the checkpoint, once the deletion is durable.
                    let deleted = self.forgotten.values().copied().max().unwrap_or(0);
                    retirement.gate = retirement.gate.max(deleted);
                    #[cfg(feature = "planted-bugs")]
                    if self
                        .options
                        .has_bug(crate::options::Bug::UnlinkBeforeSettleDurable)
                    {
                        retirement.gate = 0;
                    }
                    retirement.phase = Phase::Copying;
                }
                Phase::Gate if retirement.gate > self.durable => {
                    return Next::At(now.saturating_add(LATER));
                }
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
        retirement.removed.extend(deleted.map(|(log, _)| *log));
        for log in &retirement.removed {
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

        }
        let (pinned, free) = mem::take(&mut self.store.dead)
            .into_iter()
            .partition(|segment| Arc::strong_count(&segment.pin) > 1);
        self.store.dead = pinned;
        let free: Vec<crate::store::Segment> = free;
        steps.extend(free.into_iter().map(|segment| Step::Remove(segment.name)));
        steps.push(Step::SyncDirectory);
        let damaged = self
            .retirement
            .as_ref()
            .is_some_and(|retirement| !retirement.copied.damaged.is_empty());
        if let Some(file) = self.wal.full.front().filter(|_| damaged) {
            let aside = format!("damaged-{}", file.name);
            steps.push(Step::Rename(file.name.clone(), aside.into()));
        }
        steps
    }

    pub(crate) fn complete_background(
        &mut self,
        doing: Doing,
        done: Done,
        now: Nanos,
        events: &mut Vec<Event>,
    ) {
        match (doing, done) {
            (Doing::Prepare, Done::Yes) => self.wal.prepared(),
            (Doing::Discard, Done::Yes) => {}



            (doing, done) => panic!("{done:?} is no result of {doing:?}"),
        }
        self.refresh_statistics();
    }
}
