//! Records of what happened to a queue's messages, appended under its lock.

use leveret_log::{SettleReason, Wait};
use leveret_queue::{Annotated, AttemptRun, Control, DelayRun, DyingRun, KeptOffset, Queue, Run, WaitReason, joined};

use super::{QueueHandle, RECORD_RUNS_MAX};
use crate::planted::{Bug, is_planted};
use crate::records::durable_ranges;
use crate::streams::{ControlRecord, Record};
use crate::ticket::Ticket;

/// Most offsets of consumers in one record.
const OFFSETS_MAX: usize = 256;

/// Maximum payload of a record of annotations, which is more than one message may have.
const ANNOTATED_BYTES_MAX: usize = 128 * 1024;

impl QueueHandle {
    /// Appends settles of durable messages; returns the ticket of the record, if there was anything to log.
    pub(super) fn log_settles(
        &self,
        queue: &mut Queue,
        runs: &[Run],
        reason: SettleReason,
        wait: Wait,
    ) -> Option<Ticket> {
        let ranges = durable_ranges(runs);
        let forgets = is_planted(Bug::ForgetSettles) && matches!(reason, SettleReason::Acknowledged);
        // The messages of a queue that was converted went back first.
        if ranges.is_empty() || forgets || self.successor().is_some() {
            return None;
        }
        let ticket = self.stream.append(Record::Settle { log: self.log_id, reason, ranges: &ranges }, wait);
        self.last_record.set(ticket.place());
        self.release(queue, runs);
        Some(ticket)
    }

    /// Logs how often messages were delivered. Nobody waits for it. On a full disk the counts stay in memory, since its reserve is
    /// for acknowledgements; a clean stop tries again.
    pub(super) fn log_attempts(&self, runs: &[AttemptRun]) {
        if !runs.is_empty() && self.stream.publish_wait() == WaitReason::DiskFull {
            return;
        }
        self.log_runs(runs, |runs| Control::Attempts(runs.into()), Wait::Lazy);
    }

    /// Logs that messages were parked. Nobody waits for it.
    pub(super) fn log_parked(&self, runs: &[Run]) {
        self.log_runs(runs, |runs| Control::Parked(runs.into()), Wait::Lazy);
    }

    /// Logs that messages are delayed; returns the ticket of the last record. On a full disk the times stay in memory, as counts do,
    /// unless somebody waits for them, who asked for the space before.
    pub(super) fn log_delayed(&self, runs: &[DelayRun], wait: Wait) -> Option<Ticket> {
        if runs.is_empty() || wait == Wait::Lazy && self.stream.publish_wait() == WaitReason::DiskFull {
            return None;
        }
        self.log_runs(runs, |runs| Control::Delayed(runs.into()), wait)
    }

    /// Logs that no queue takes dead letters. On a full disk that stays in memory, as counts do.
    pub(super) fn log_dying(&self, runs: &[DyingRun]) {
        if !runs.is_empty() && self.stream.publish_wait() != WaitReason::DiskFull {
            self.log_runs(runs, |runs| Control::Dying(runs.into()), Wait::Lazy);
        }
    }

    /// Logs offsets of consumers that a stream keeps. Nobody waits for it. On a full disk they stay in memory, as counts do.
    pub(super) fn log_offsets(&self, queue: &mut Queue, offsets: &[KeptOffset]) {
        if !offsets.is_empty() && self.stream.publish_wait() == WaitReason::DiskFull {
            if let Some(stream) = queue.stream_mut() {
                stream.offsets_not_logged(offsets);
            }
        } else {
            for offsets in offsets.chunks(OFFSETS_MAX) {
                self.log_control(&Control::Offsets(offsets.into()), Wait::Lazy);
            }
        }
    }

    /// Logs annotations that consumers added; returns the ticket of the last record. On a full disk they stay in memory, as
    /// [`Self::log_delayed`] says.
    pub(super) fn log_annotated(&self, mut all: &[Annotated], wait: Wait) -> Option<Ticket> {
        if !all.is_empty() && wait == Wait::Lazy && self.stream.publish_wait() == WaitReason::DiskFull {
            return None;
        }
        let mut last = None;
        while !all.is_empty() {
            let (mut count, mut bytes) = (0, 0);
            while count < all.len() && bytes + all[count].encoded_bytes() <= ANNOTATED_BYTES_MAX {
                bytes += all[count].encoded_bytes();
                count += 1;
            }
            let (record, rest) = all.split_at(count);
            last = Some(self.log_control(&Control::Annotated(record.into()), wait));
            all = rest;
        }
        last
    }

    /// Appends records of runs; returns the ticket of the last one.
    fn log_runs<R>(&self, runs: &[R], control: impl Fn(&[R]) -> Control<'_>, wait: Wait) -> Option<Ticket> {
        runs.chunks(RECORD_RUNS_MAX).map(|runs| self.log_control(&control(runs), wait)).last()
    }

    /// Appends a record of something that a part of the queue knows.
    pub(super) fn log_control(&self, control: &Control<'_>, wait: Wait) -> Ticket {
        let (kind, payload) = (control.kind(), &control.encode());
        let ticket = self.stream.append_control(ControlRecord { log: self.log_id, kind, payload }, wait);
        self.last_record.set(ticket.place());
        ticket
    }

    /// Releases messages in the shared log that left the queue, after the record of that was appended.
    pub(super) fn release(&self, queue: &mut Queue, runs: &[Run]) {
        if queue.references().is_empty() {
            return;
        }
        for run in joined(runs).filter(|run| run.durable) {
            queue.references_mut().release(run.first, run.last, |first, last| self.shared.release(first, last));
        }
    }
}
