//! Ready messages that an operator moves or copies to other queues: those that are moved are claimed first, so that nothing else
//! takes or removes them before their targets have them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use leveret_message::Batch;

use crate::answers::{Candidates, QueueState, ReadyFound};
use crate::effects::Effects;
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;
use crate::ledger_queue::seek::Stored;
use crate::nanos::Nanos;
use crate::records::Run;

/// Most messages that one call looks at.
const LOOKS_MAX: u32 = 4096;

impl LedgerQueue {
    /// See [`crate::Queue::ready_ends`].
    pub fn ready_ends(&self, range: RangeInclusive<u64>) -> Option<(u64, u64, u64)> {
        if self.state != QueueState::Running {
            return None;
        }
        let numbers = self.ready_numbers();
        let (first, end) = (*range.start(), range.end().checked_add(1));
        let lowest = numbers.next(first).filter(|lowest| range.contains(lowest))?;
        let behind = end.map_or(0, |end| numbers.count(end));
        let highest = (*range.end()).min(self.ledger.next().saturating_sub(1));
        Some((lowest, highest, numbers.count(first).saturating_sub(behind)))
    }

    /// Claims at most `most` ready messages with numbers in `range`, in the order of their numbers, for a move to other queues.
    /// `read` are messages that were read from disk: runs by the number of their first, in ascending order. Until the caller calls
    /// [`crate::LedgerQueue::ready_moved`] or [`crate::LedgerQueue::unclaim_ready`], which it has to for each of them, they count as unacknowledged. Those
    /// that are on their way to consumers stay, and of a stream all.
    pub fn claim_ready(&mut self, among: &Candidates<'_>, now: Nanos, effects: &mut Effects) -> ReadyFound {
        if self.state != QueueState::Running {
            return ReadyFound::default();
        }
        self.used(now);
        self.expire_head(now, effects);
        // Consumers have credit for the first ones, and came first.
        let reserved = self.on_their_way();
        let free = self.ready.messages().saturating_sub(reserved);
        let begin = self.ready.is_in_order().then(|| self.ready_numbers().nth(reserved)).flatten();
        let (start, end) = (*among.range.start(), *among.range.end());
        let range = begin.map_or(start, |begin| begin.max(start))..=end;
        let free = Candidates { read: among.read, range, most: among.most.min(free as usize) };
        let found = self.find_ready(&free, now);
        for taken in &found.messages {
            let size = u64::from(taken.batch.body_length(taken.index as usize));
            self.clock.no_longer_awaited(taken.first, taken.first);
            self.ready.leave_ahead(taken.first, size);
            self.handed_out(taken, size, false, effects);
        }
        self.claimed += found.messages.len() as u64;
        self.ready.tidy(&self.ledger);
        if !found.messages.is_empty() {
            if self.ready.messages() == 0 {
                self.emptied = now;
            }
            self.schedule(effects);
            self.finish_drains(effects);
        }
        found
    }

    /// See [`crate::Queue::find_ready`].
    pub fn find_ready(&self, among: &Candidates<'_>, now: Nanos) -> ReadyFound {
        let Candidates { read, range, most } = among;
        let mut found = ReadyFound::default();
        let numbers = self.ready_numbers();
        let mut next = Some(*range.start());
        for _ in 0..LOOKS_MAX {
            next = next.and_then(|from| numbers.next(from)).filter(|number| range.contains(number));
            let Some(number) = next.filter(|_| found.messages.len() < *most) else { break };
            // A record of the log has its bodies with it: those in files are read.
            let is_whole = |held: &Stored<'_>| !held.batch.is_in_file(held.index as usize);
            let Some(stored) = self.held(number).filter(is_whole).or_else(|| read_one(read, number)) else {
                found.unread = Some(number);
                break;
            };
            let taken = self.show(numbers.head_at(number), 1, &stored);
            // One that is over leaves by itself.
            if self.not_over(&taken, now) > 0 {
                found.messages.push(taken);
            }
            next = number.checked_add(1);
        }
        found.next = next.filter(|next| range.contains(next));
        found
    }

    /// Claimed messages couldn't be moved, and are ready again; no delivery is counted.
    pub fn unclaim_ready(&mut self, runs: &[Run], effects: &mut Effects) {
        if self.state == QueueState::Deleted || runs.is_empty() {
            return;
        }
        for run in runs {
            self.claimed -= run.count();
            let consumers = &mut self.consumers;
            self.ready.put_back(run, &self.ledger, |number| consumers.note_comeback(number));
            self.ready.hand_back(run.count(), run.bytes);
        }
        self.consumers.wake_filtering();
        for run in runs {
            self.expire_returned(run, effects);
        }
        self.schedule(effects);
        self.drop_excess(effects);
    }

    /// Claimed messages have left for other queues or other places of this one. The caller logs their runs, unless the queue was
    /// deleted meanwhile; then the answer is `false`.
    pub fn ready_moved(&mut self, runs: &[Run]) -> bool {
        if self.state == QueueState::Deleted {
            return false;
        }
        for run in runs {
            self.claimed -= run.count();
            self.depart(run.first, run.last, run.bytes, Departure::Settled);
            self.ready.hand_back(run.count(), run.bytes);
            if !run.durable {
                self.release(run.first, run.last);
            }
        }
        true
    }
}

/// A message out of those that were read from disk.
fn read_one(read: &[(u64, Arc<Batch>)], number: u64) -> Option<Stored<'_>> {
    let at = read.partition_point(|(first, _)| *first <= number).checked_sub(1)?;
    let (first, batch) = &read[at];
    let index = number - first;
    (index < batch.len() as u64).then(|| Stored::read(batch, index as u32))
}
