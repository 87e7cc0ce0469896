//! A disk without space: failed background work is undone and begun again, publishers block, and reserved space keeps
//! consumers and acknowledgements going.

use std::sync::Arc;

use crate::background::{Doing, Slot};
use crate::error::{DiskError, Operation, StorageError};
use crate::job::{Event, Job, JobId, Next};
use crate::log::Log;
use crate::options::Options;
use crate::step::Step;
use crate::types::Nanos;

/// Interval between checks whether there is space again.
const RETRY: Nanos = 1_000_000_000;

/// State of the disk space and the reserve.
#[derive(Debug)]
pub(crate) struct Space {
    reserve: Arc<str>,
    /// The reserve exists and has its full length.
    pub has_reserve: bool,
    /// An operation ran out of space, and the reserve hasn't been complete since.
    pub is_out: bool,
    /// Time of the next attempt.
    not_before: Nanos,
    /// The lane will ask at that time by itself.
    is_told: bool,
    /// Files that were begun and couldn't be finished.
    leftovers: Vec<Arc<str>>,
}

impl Space {
    pub(crate) fn new(options: &Options, has_reserve: bool, is_out: bool) -> Space {
        Space {
            reserve: options.reserve_file().into(),
            has_reserve: has_reserve || options.disk_reserve() == 0,
            is_out,
            not_before: 0,
            is_told: false,
            leftovers: Vec::new(),
        }
    }

    /// Whether the background lane has to be woken because there is something to undo.
    pub(crate) fn is_untold(&self) -> bool {
        self.is_out && !self.is_told
    }

    /// Whether new files may be begun now.
    pub(crate) fn may_try(&self, now: Nanos) -> bool {
        !self.is_out || now >= self.not_before
    }
}

impl DiskError {
    /// Whether a file could not be created or grow for want of space. A failed sync never counts, because the disk's
    /// content is unknown after it, whatever the error.
    pub(crate) fn is_out_of_space(&self) -> bool {
        matches!(self.operation, Operation::Create | Operation::Write) && self.has_no_space()
    }
}

impl Log {
    /// Whether the disk is full: publishes block until there is space for the reserve again. Settles continue.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        self.space.is_out
    }

    /// Free bytes that a log on a full disk needs to continue: the reserve, and a WAL file.
    #[must_use]
    pub fn space_needed(&self) -> u64 {
        self.options.disk_reserve() + self.options.file_bytes
    }

    /// The job that has to be done first for want of space, or the time of the next attempt.
    pub(crate) fn next_space_job(&mut self, now: Nanos) -> Option<Next> {
        if !self.space.leftovers.is_empty() {
            let leftovers = std::mem::take(&mut self.space.leftovers);
            let mut steps: Vec<Step> = leftovers.into_iter().map(Step::Discard).collect();
            steps.push(Step::SyncDirectory);
            return Some(self.run_background(Doing::Discard, Job::Steps(steps)));
        }
        if self.space.is_out && self.space.has_reserve {
            // The reserve is gone, or will be when it is next looked for: it has to be created anew in any case.
            self.space.has_reserve = false;
            self.space.not_before = now;
            let steps = vec![Step::Discard(self.space.reserve.clone()), Step::SyncDirectory];
            return Some(self.run_background(Doing::Discard, Job::Steps(steps)));
        }
        if self.space.may_try(now) {
            return None;
        }
        self.space.is_told = true;
        Some(Next::At(self.space.not_before))
    }

    /// Allocates the reserve, if it doesn't exist and nothing is more urgent.
    pub(crate) fn next_reserve_job(&mut self, now: Nanos) -> Option<Next> {
        if self.space.has_reserve || !self.space.may_try(now) {
            return None;
        }
        let name = self.space.reserve.clone();
        let steps =
            vec![Step::Create(name.clone(), self.options.disk_reserve()), Step::Sync(name), Step::SyncDirectory];
        Some(self.run_background(Doing::Reserve, Job::Steps(steps)))
    }

    pub(crate) fn reserve_is_made(&mut self) {
        self.space.has_reserve = true;
        self.space.is_out = false;
    }

    /// Reacts to a failed job: undoes its effects if it only ran out of space, or couldn't read what it can do without.
    pub(crate) fn undo(&mut self, id: JobId, error: DiskError, now: Nanos) -> Result<Option<Event>, StorageError> {
        if let Some((expected, Doing::Work(slot))) = &self.background
            && *expected == id
            && error.is_unreadable()
        {
            let slot = *slot;
            let Some(names) = self.ask_all(slot, now).or_else(|| self.leave_unreadable(slot, now)) else {
                return Err(error.into());
            };
            self.background = None;
            self.space.leftovers.extend(names);
            return Ok(Some(Event::Unreadable(error)));
        }
        if !error.is_out_of_space() {
            return Err(error.into());
        }
        if self.commit.outstanding == Some(id) {
            if self.commit.undo_closing() {
                // The log is closed all the same; the lower bound that an older `closed-` file gives is still true.
                return Ok(None);
            }
            if !self.commit.undo_prepare() {
                return Err(error.into());
            }
            self.undo_prepare();
        } else {
            let (expected, doing) = self.background.take().expect("no job was handed out");
            assert_eq!(expected, id, "another job was handed out");
            match doing {
                Doing::Prepare => self.undo_prepare(),
                // Filling with zeros is only an optimization.
                Doing::Fill => {
                    self.wal.filled(false);
                    return Ok(None);
                }
                Doing::Reserve => self.space.leftovers.push(self.space.reserve.clone()),
                Doing::Work(slot) => self.undo_work(slot, now),
                _ => return Err(error.into()),
            }
        }
        self.space.is_out = true;
        self.space.is_told = false;
        self.space.not_before = now.saturating_add(RETRY);
        self.had_room = false;
        self.statistics.out_of_space += 1;
        Ok(None)
    }

    fn undo_prepare(&mut self) {
        self.space.leftovers.extend(self.wal.give_up_preparing());
    }

    fn undo_work(&mut self, slot: Slot, now: Nanos) {
        let names = self.abandon_move(slot, now);
        self.space.leftovers.extend(names);
    }
}
