//! Moves live messages out of the oldest WAL file (retirement) or out of sparse segments (rewrite), and writes the
//! checkpoint that reflects it. This file has the common part, and retirement.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::background::{Doing, LATER, Slot};
use crate::checkpoint::Plan;
use crate::error::ReadError;
use crate::format::checkpoint::Header;
use crate::format::segment_index::LogIndex;
use crate::job::{Event, Job, Next, RetireJob};
use crate::live_state::LiveState;
use crate::log::Log;
use crate::names::Name;
use crate::pin::Pin;
use crate::step::Step;
use crate::store::{CheckpointFile, Segment};
use crate::types::{LogId, Nanos, Position};
use crate::wal::WalFile;

pub(crate) mod gate;
mod keep;
mod lost;
pub(crate) mod worker;

use keep::Keep;
use worker::{Copied, CopiedPart, Limits, Origin, Progress, Worker};

/// Most logs in one [`Job::Live`]: their owners' locks are taken one after the other in one go.
pub(crate) const LIVE_LOGS_MAX: usize = 256;

/// The source of a move.
#[derive(Debug)]
pub(crate) enum MoveSource {
    /// The oldest full WAL file.
    File,
    /// None: a log with segments was deleted.
    Garbage,
    /// These segments.
    Segments(Vec<u64>),
}

/// A move of messages in progress.
#[derive(Debug)]
pub(crate) struct Retirement {
    pub what: MoveSource,
    phase: Phase,
    worker: Arc<Mutex<Worker>>,
    /// Deleted logs, each with the position up to which its records are void.
    removed: Vec<(LogId, Position)>,
    pub copied: Copied,
    part: Option<CopiedPart>,
    /// The end of the WAL's last file when copying began; 0 if another may follow it.
    began_at: u64,
    /// The WAL file became a segment.
    is_file_kept: bool,
    old_checkpoint: Option<Arc<str>>,
    /// The second copy of the metadata of checkpoints before.
    old_metadata: Option<Arc<str>>,
    /// Every log was asked, because the checkpoint in force can't be read.
    asks_all: bool,
}

#[derive(Debug)]
enum Phase {
    /// Asks for states: the logs whose states are still needed, and the time before which they aren't asked (again).
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
    /// A move that begins by asking these logs.
    pub(crate) fn new(what: MoveSource, mut ask: Vec<LogId>, worker: Worker, now: Nanos) -> Retirement {
        ask.sort_unstable();
        ask.dedup();
        Retirement {
            what,
            phase: Phase::Asking { rest: ask, not_before: now },
            worker: Arc::new(Mutex::new(worker)),
            removed: Vec::new(),
            copied: Copied::default(),
            part: None,
            began_at: 0,
            is_file_kept: false,
            old_checkpoint: None,
            old_metadata: None,
            asks_all: false,
        }
    }

    /// Whether its checkpoint is being written, or is; no other checkpoint may come before it.
    pub(crate) fn is_ending(&self) -> bool {
        self.asks_all || matches!(self.phase, Phase::Writing | Phase::Cleaning)
    }

    /// How much of the WAL file has been copied, while it is being copied, and where the WAL ended when that began.
    pub(crate) fn part(&self) -> Option<(CopiedPart, u64)> {
        let is_of_file = matches!((&self.what, &self.phase), (MoveSource::File, Phase::Copying));
        self.part.filter(|part| is_of_file && part.of > 0).map(|part| (part, self.began_at))
    }

    fn worker(&self) -> MutexGuard<'_, Worker> {
        self.worker.lock().unwrap_or_else(|error| error.into_inner())
    }
}

impl Log {
    /// Whether a retirement can't continue before more is durable.
    pub(crate) fn waits_for_gate(&self) -> bool {
        self.retirement.is_some() && self.gate.position() > self.durable
    }

    fn slot(&mut self, slot: Slot) -> &mut Option<Retirement> {
        match slot {
            Slot::Retirement => &mut self.retirement,
            Slot::Rewrite => &mut self.rewrite,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            node_id: self.options.node_id,
            wal_id: self.options.wal_id,
            inline_below: self.options.inline_below,
            mixed_below: self.options.mixed_below,
        }
    }

    pub(crate) fn begin_retirement(&mut self, now: Nanos) -> bool {
        let has_file = self.is_file_due();
        let has_garbage = self.forgotten.keys().any(|log| self.store.has_log(*log));
        // The next checkpoint gets both copies anew.
        let is_single = self.store.metadata_is_single;
        if !has_file && !has_garbage && !is_single {
            return false;
        }
        let file = self.wal.full.front().filter(|_| has_file);
        let touched: Vec<(LogId, LogIndex)> = file
            .iter()
            .flat_map(|file| file.index.logs())
            .filter(|(log, _)| !self.forgotten.contains_key(log) && !self.store.frozen.contains(log))
            .map(|(log, index)| {
                let index = LogIndex { points: Vec::new(), ..*index };
                (log, index)
            })
            .collect();
        let single = is_single.then_some(LogId::METADATA);
        let ask = touched.iter().map(|(log, _)| *log).chain(single).collect();
        let origin = file.map(|file| Origin {
            name: file.name.clone(),
            identity: file.identity,
            end: file.end,
            known: file.known.clone(),
            _pin: None,
        });
        let mut worker =
            Worker::new(self.limits(), origin.into_iter().collect(), touched, self.store.next_segment.clone());
        // On a full disk, the log goes on in the retired file.
        let is_wanted = |log| !self.forgotten.contains_key(&log);
        let is_frozen = |log| self.store.frozen.contains(&log);
        let has_frozen = |file: &WalFile| file.index.messages().any(|(log, ..)| is_wanted(log) && is_frozen(log));
        worker.keep = match file {
            Some(file) if file.is_unreadable || has_frozen(file) => Some(Keep::unread(file, is_wanted, is_frozen)),
            Some(file) if !self.space.is_out => Keep::new(file, self.options.keep_live_percent, is_wanted),
            _ => None,
        };
        let what = if has_file { MoveSource::File } else { MoveSource::Garbage };
        self.retirement = Some(Retirement::new(what, ask, worker, now));
        true
    }

    pub(crate) fn next_move_job(&mut self, slot: Slot, now: Nanos) -> Next {
        let last_end = if self.may_open_file() { 0 } else { self.wal.current.end };
        loop {
            let Some(retirement) = self.slot(slot) else {
                return Next::Idle;
            };
            match &mut retirement.phase {
                Phase::Asking { not_before, .. } if *not_before > now => {
                    return Next::At(*not_before);
                }
                Phase::Asking { rest, .. } if !rest.is_empty() => {
                    let logs = rest.split_off(rest.len().saturating_sub(LIVE_LOGS_MAX));
                    let asked = Doing::Ask(slot, logs.clone());
                    return self.run_background(asked, Job::Live { logs });
                }
                Phase::Asking { .. } => {
                    retirement.began_at = last_end;
                    retirement.phase = if retirement.asks_all { Phase::Gate } else { Phase::Copying };
                    // Logs deleted by now are left out of the checkpoint, once the deletion is durable.
                    let deleted = self.forgotten.values().copied().max().unwrap_or(0);
                    self.gate.raise(deleted);
                }
                Phase::Gate => {
                    if !self.gate_is_passed() {
                        return Next::At(now.saturating_add(LATER));
                    }
                    self.begin_checkpoint(slot);
                }
                Phase::Copying | Phase::Writing => {
                    let worker = RetireJob(retirement.worker.clone());
                    return self.run_background(Doing::Work(slot), Job::Retire(worker));
                }
                Phase::Cleaning => {
                    let steps = self.cleaning_steps(slot);
                    return self.run_background(Doing::Clean(slot), Job::Steps(steps));
                }
            }
        }
    }

    fn gate_is_passed(&mut self) -> bool {
        #[cfg(feature = "planted-bugs")]
        if self.options.has_bug(crate::options::Bug::CutGroupByCheckpoint) {
            return self.gate.position() <= self.durable;
        }
        #[cfg(feature = "planted-bugs")]
        if self.options.has_bug(crate::options::Bug::UnlinkBeforeSettleDurable) {
            return true;
        }
        let appended = self.appended();
        self.gate.is_passed(appended, self.durable, &self.groups)
    }

    fn begin_checkpoint(&mut self, slot: Slot) {
        let Some(mut retirement) = self.slot(slot).take() else {
            return;
        };
        let gate = self.gate.position();
        let deleted = self.forgotten.iter().filter(|(_, at)| **at <= gate);
        retirement.removed = deleted.map(|(log, at)| (*log, *at)).collect();
        for (log, _) in &retirement.removed {
            self.store.remove_log(*log);
        }
        let mut skip = 0;
        match &retirement.what {
            MoveSource::File => {
                let file = &self.wal.full[0];
                self.store.retired_position = self.store.retired_position.max(file.last_position);
                self.store.retired_batch = self.store.retired_batch.max(file.last_batch);
                skip = 1;
            }
            MoveSource::Garbage => {}
            MoveSource::Segments(old) => {
                let new = mem::take(&mut retirement.copied.segments);
                let before: u64 = old.iter().filter_map(|id| self.store.segments.get(id)).map(|old| old.length).sum();
                let after: u64 = new.iter().map(|new| new.segment.length).sum();
                self.statistics.bytes_reclaimed += before.saturating_sub(after);
                self.store.replace(old, new);
                if !retirement.asks_all && !planted!(UndoSettlesByRewrite) {
                    retirement.worker().forget_states();
                }
            }
        }
        self.store.bury_dead();
        let header = Header {
            sequence: self.store.next_checkpoint,
            floor: self.wal.floor(skip + usize::from(planted!(FloorOneTooHigh))),
            position: self.store.retired_position,
            batch: self.store.retired_batch,
            next_file: self.wal.next_sequence,
            next_segment: self.store.next_segment.load(std::sync::atomic::Ordering::Relaxed),
            segments: 0,
            logs: 0,
            length: 0,
            rows_crc: 0,
            metadata: 0,
        };
        self.store.next_checkpoint += 1;
        let loaded = self.store.segments.iter().map(|(id, segment)| (*id, segment.named_file().1));
        let mut segments: Vec<(u64, u64)> = loaded.chain(self.store.lost.iter().copied()).collect();
        segments.sort_unstable();
        let plan = Plan {
            header,
            node_id: self.options.node_id,
            wal_id: self.options.wal_id,
            segments,
            old: self.store.checkpoint.clone(),
            removed: retirement.removed.clone(),
            frozen: self.store.frozen.clone(),
        };
        retirement.worker().begin_checkpoint(plan);
        retirement.phase = Phase::Writing;
        *self.slot(slot) = Some(retirement);
    }

    /// Removes the old checkpoint before a WAL file that only it needs is recycled.
    fn cleaning_steps(&mut self, slot: Slot) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some(retirement) = self.slot(slot) {
            steps.extend(retirement.old_checkpoint.take().map(Step::Remove));
            steps.extend(retirement.old_metadata.take().map(Step::Discard));
        }
        steps.extend(self.burial_steps());
        if let Some(file) = self.wal.full.front().filter(|_| slot == Slot::Retirement && self.keeps_file()) {
            steps.push(set_aside(&file.name));
        }
        steps.push(Step::SyncDirectory);
        steps
    }

    /// Unlinks the segments that are out of use and have no readers.
    pub(crate) fn burial_steps(&mut self) -> Vec<Step> {
        let (pinned, free): (Vec<Segment>, Vec<Segment>) =
            mem::take(&mut self.store.superfluous).into_iter().partition(Segment::is_pinned);
        self.store.superfluous = pinned;
        let mut steps = Vec::new();
        for segment in free {
            if segment.is_kept_file() {
                steps.push(Step::Remove(segment.named_file().0.clone()));
                // A file of the log again, which saves filling a new one.
                if !segment.is_damaged && self.wal.take_back(&self.options, &segment) {
                    continue;
                }
            }
            steps.push(match segment.is_damaged {
                true => set_aside(&segment.name),
                false => Step::Remove(segment.name),
            });
        }
        steps
    }

    /// Whether the retired file is damaged and therefore kept for inspection.
    fn keeps_file(&self) -> bool {
        let is_file = |retirement: &&Retirement| matches!(retirement.what, MoveSource::File);
        let Some(retirement) = self.retirement.as_ref().filter(is_file).filter(|retirement| !retirement.is_file_kept)
        else {
            return false;
        };
        let known = self.wal.full.front().is_some_and(|file| !file.known.is_empty());
        known || !retirement.copied.damaged.is_empty()
    }

    /// Takes the states of logs. A log whose owner hasn't applied all durable messages of the file yet is asked
    /// again, because messages that it doesn't count as live yet would not be copied. A log that is left out was
    /// deleted.
    pub(crate) fn take_states(&mut self, slot: Slot, asked: &[LogId], states: Vec<LiveState>, now: Nanos) {
        self.note_states(asked, &states);
        let Some(mut retirement) = self.slot(slot).take() else {
            return;
        };
        let file = self.wal.full.front().filter(|_| matches!(retirement.what, MoveSource::File));
        let mut again = Vec::new();
        for mut state in states {
            let reached = file.and_then(|file| file.index.reached(state.log));
            if reached.is_some_and(|reached| reached >= state.next) && !planted!(RetireBeforeApply) {
                again.push(state.log);
                continue;
            }
            if slot == Slot::Rewrite && !retirement.asks_all {
                state.state = Vec::new();
            }
            if planted!(LoseSettlesAtRetirement) {
                state.position = self.appended();
            }
            retirement.worker().states.insert(state.log, state);
        }
        if let Phase::Asking { rest, not_before } = &mut retirement.phase
            && !again.is_empty()
        {
            *not_before = now.saturating_add(LATER);
            rest.extend(again);
        }
        *self.slot(slot) = Some(retirement);
    }

    /// Takes from any answer of owners how many of their messages in segments are live, and which logs were deleted.
    pub(crate) fn note_states(&mut self, asked: &[LogId], states: &[LiveState]) {
        let appended = self.appended();
        let mut answered: Vec<LogId> = states.iter().map(|state| state.log).collect();
        answered.sort_unstable();
        for state in states {
            assert!(
                state.live.max().is_none_or(|max| max < state.next),
                "log {} has a live message from its next number on",
                state.log
            );
            self.store.count_live(state.log, &state.stored_here());
        }
        let left_out = asked.iter().filter(|log| answered.binary_search(log).is_err());
        for log in left_out {
            self.forgotten.entry(*log).or_insert(appended);
        }
        self.gate.note_states(appended, &self.groups);
    }

    pub(crate) fn take_progress(&mut self, slot: Slot, progress: Progress, events: &mut Vec<Event>) {
        let Some(mut retirement) = self.slot(slot).take() else {
            return;
        };
        match progress {
            Progress::More(part) => retirement.part = Some(part),
            Progress::Copied(mut copied) => {
                if slot == Slot::Retirement {
                    retirement.is_file_kept = copied.segments.iter().any(|new| new.segment.is_kept_file());
                    mem::take(&mut copied.segments).into_iter().for_each(|segment| self.store.add(segment));
                }
                self.statistics.files_kept += u64::from(retirement.is_file_kept);
                self.statistics.messages_copied += copied.messages;
                self.statistics.bytes_copied += copied.bytes;
                let damaged = copied.damaged.iter().map(|error| ReadError {
                    file: error.file.clone(),
                    range: error.range.clone(),
                    log: error.log,
                    reason: error.reason.clone(),
                });
                events.extend(damaged.map(Event::Damaged));
                let segments = self.store.segments.values_mut().chain(&mut self.store.dead);
                segments.for_each(|segment| segment.is_damaged |= copied.has_damage_in(&segment.name));
                retirement.copied = copied;
                retirement.phase = Phase::Gate;
            }
            Progress::Checkpoint(file) => {
                let is_new = Name::parse(&file.name, self.options.wal_id) == Some(Name::Checkpoint(file.metadata));
                self.store.metadata_is_single &= !is_new;
                let second = file.metadata;
                let old: Option<CheckpointFile> = self.store.checkpoint.replace(file);
                let is_replaced = |old: &CheckpointFile| old.metadata > 0 && old.metadata != second;
                let replaced = old.as_ref().filter(|old| is_replaced(old));
                retirement.old_metadata =
                    replaced.map(|old| Name::Metadata(old.metadata).text(self.options.wal_id).into());
                retirement.old_checkpoint = old.map(|old| old.name);
                retirement.phase = Phase::Cleaning;
                self.statistics.checkpoints += 1;
                let dead = mem::take(&mut self.store.dead);
                self.store.superfluous.extend(dead);
            }
        }
        *self.slot(slot) = Some(retirement);
    }

    /// Starts over after running out of space: with the checkpoint, if it had come that far, else with everything.
    /// Returns the names of the files that it had begun.
    pub(crate) fn abandon_move(&mut self, slot: Slot, now: Nanos) -> Vec<Arc<str>> {
        let Some(mut retirement) = self.slot(slot).take() else {
            return Vec::new();
        };
        let names = retirement.worker().abandon();
        if retirement.is_ending() {
            retirement.phase = Phase::Gate;
            *self.slot(slot) = Some(retirement);
        } else {
            self.put_survey_off(now);
        }
        names
    }

    /// Asks all owners for their states, because the checkpoint in force, from which the next one would copy entries,
    /// can't be read. The owners have all of it in memory. Returns the names of the files begun; `None` if that isn't
    /// what failed.
    pub(crate) fn ask_all(&mut self, slot: Slot, now: Nanos) -> Option<Vec<Arc<str>>> {
        let entries = self.store.checkpoint.as_ref()?.entries.clone();
        let forgotten = &self.forgotten;
        let retirement = match slot {
            Slot::Retirement => self.retirement.as_mut(),
            Slot::Rewrite => self.rewrite.as_mut(),
        };
        let retirement = retirement.filter(|retirement| matches!(retirement.phase, Phase::Writing))?;
        if retirement.asks_all {
            return None;
        }
        let mut worker = retirement.worker();
        let names = worker.abandon();
        let frozen = &self.store.frozen;
        let asked =
            |log: &LogId| worker.states.contains_key(log) || forgotten.contains_key(log) || frozen.contains(log);
        let there = entries.iter().filter(|entry| entry.deleted.is_none()).map(|entry| entry.log);
        let rest = there.filter(|log| !asked(log)).collect();
        drop(worker);
        retirement.asks_all = true;
        retirement.phase = Phase::Asking { rest, not_before: now };
        Some(names)
    }

    /// Gives up a move whose files can't be read because of an error of the device, and leaves these files as they are: a WAL
    /// file becomes a segment without being read, and segments aren't rewritten by this process. Returns the names of the
    /// files begun; `None` if the move doesn't read files, or has been given up before.
    pub(crate) fn leave_unreadable(&mut self, slot: Slot, now: Nanos) -> Option<Vec<Arc<str>>> {
        let copies = |retirement: &&mut Retirement| matches!(retirement.phase, Phase::Copying);
        let names = self.slot(slot).as_mut().filter(copies)?.worker().abandon();
        let what = self.slot(slot).take()?.what;
        match &what {
            MoveSource::File => {
                let file = self.wal.full.front_mut().filter(|file| !file.is_unreadable)?;
                file.is_unreadable = true;
            }
            MoveSource::Segments(ids) => {
                for id in ids {
                    self.store.segments.get_mut(id)?.is_unreadable = true;
                }
            }
            MoveSource::Garbage => return None,
        }
        self.put_survey_off(now);
        Some(names)
    }

    /// Forgets the logs that the move's checkpoint leaves out.
    pub(crate) fn end_move(&mut self, slot: Slot, now: Nanos) -> Option<Retirement> {
        self.wal.returned();
        let retirement = self.slot(slot).take()?;
        for (log, _) in &retirement.removed {
            self.forgotten.remove(log);
        }
        self.put_survey_off(now);
        self.rewrite_due = true;
        Some(retirement)
    }

    pub(crate) fn end_retirement(&mut self, now: Nanos, events: &mut Vec<Event>) {
        let keeps_file = self.keeps_file();
        let Some(retirement) = self.end_move(Slot::Retirement, now) else {
            return;
        };
        if !matches!(retirement.what, MoveSource::File) {
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
        self.wal.keeps_files = retirement.is_file_kept;
        if planted!(ReuseKeptFile) {
            self.wal.retired.push(WalFile { pin: Pin::default(), ..file });
        } else if !keeps_file && !retirement.is_file_kept {
            self.wal.retired.push(file);
        }
    }
}

/// Renames a damaged file, which is kept for inspection.
fn set_aside(name: &Arc<str>) -> Step {
    Step::Rename(name.clone(), format!("damaged-{name}").into())
}
