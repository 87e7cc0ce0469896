//! Messages that died here and wait to be moved to the dead-letter exchange.
//!
//! They have left the ledger, as dead-lettered, but not the log: a checkpoint still counts them as alive, and after a
//! crash they are ready again. Whoever moves them takes a turn's worth, routes it without the queue's lock, and says
//! with [`ClassicQueue::moved`] that it is done. A message that isn't in memory is read back from disk first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use leveret_message::{Batch, Reason};

use crate::Nanos;
use crate::consumer_id::ConsumerId;
use crate::effects::{Effects, Run, push_run};
use crate::ledger::Outcome;
use crate::ledger_queue::{ClassicQueue, QueueState};

/// Messages that one turn moves at most.
pub const TURN_MESSAGES_MAX: u32 = 256;
/// Body bytes that one turn moves, about.
pub const TURN_BYTES_MAX: u64 = 1 << 20;
/// Bodies of durable messages that wait in memory, of one queue; others are read back.
const KEPT_BYTES_MAX: u64 = 1 << 20;
/// Bytes of volatile messages that wait, of one queue; more of them are dropped.
const VOLATILE_BYTES_MAX: u64 = 16 << 20;
/// What a small message costs besides its body.
const MESSAGE_BYTES: u64 = 64;

/// Consecutive messages of one batch that died for the same reason.
#[derive(Debug, Clone)]
pub struct DeadRun {
    /// The messages.
    pub batch: Arc<Batch>,
    /// Index of the first in the batch.
    pub index: u32,
    /// How many.
    pub count: u32,
    /// Number of the first in the queue.
    pub first: u64,
    /// Why.
    pub reason: Reason,
    /// Moving them has to be logged.
    pub durable: bool,
}

/// What there is to move.
#[derive(Debug)]
pub enum DeadTurn {
    /// These, the oldest first; [`ClassicQueue::moved`] has to follow.
    Move(Vec<DeadRun>),
    /// Nothing for now: it is being read, or somebody is at it.
    Wait,
    /// Nothing at all.
    Nothing,
}

#[derive(Debug)]
struct Dead {
    run: Run,
    reason: Reason,
    /// Batch and index of the first one.
    body: Option<(Arc<Batch>, u32)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct DeadLetters {
    waiting: VecDeque<Dead>,
    messages: u64,
    /// Bodies of durable messages that `waiting` holds.
    kept_bytes: u64,
    /// Volatile messages in `waiting`.
    volatile_bytes: u64,
    /// Read back: number of the first, and where they are.
    loaded: BTreeMap<u64, Arc<Batch>>,
    reading: Option<u64>,
    /// How many are with whoever moves them.
    taken: u64,
    /// Count and body bytes of each run of those.
    taken_bytes: VecDeque<(u64, u64)>,
    /// Body bytes of the durable ones in `waiting`: of each run alone they may be wrong.
    durable_bytes: u64,
    /// How many have been moved so far.
    moved: u64,
}

impl DeadLetters {
    pub(crate) fn len(&self) -> u64 {
        self.messages
    }

    fn push(&mut self, dead: Dead) {
        self.messages += dead.run.count();
        if let Some(last) = self.waiting.back_mut()
            && last.run.last + 1 == dead.run.first
            && last.run.durable == dead.run.durable
            && last.reason == dead.reason
        {
            let goes_on = match (&last.body, &dead.body) {
                (Some((batch, index)), Some((other, at))) => {
                    Arc::ptr_eq(batch, other) && u64::from(*index) + last.run.count() == u64::from(*at)
                }
                (None, None) => true,
                _ => false,
            };
            if goes_on {
                last.run.last = dead.run.last;
                last.run.bytes += dead.run.bytes;
                return;
            }
        }
        self.waiting.push_back(dead);
    }

    /// The queue failed: what is durable is found again after a restart.
    pub(crate) fn forget_bodies(&mut self) {
        self.waiting.retain(|dead| dead.run.durable);
        self.waiting.iter_mut().for_each(|dead| dead.body = None);
        let (waiting, durable_bytes) = (std::mem::take(&mut self.waiting), self.durable_bytes);
        *self = Self { waiting, durable_bytes, ..Self::default() };
    }

    /// Body bytes of the next `count` of those that were taken.
    fn bytes_taken(&mut self, mut count: u64) -> u64 {
        let mut bytes = 0;
        while count > 0
            && let Some((messages, size)) = self.taken_bytes.pop_front()
        {
            bytes += size;
            count = count.saturating_sub(messages);
        }
        bytes
    }

    /// Read back: batch, index, and how many from `number` on.
    fn find_loaded(&self, number: u64) -> Option<(Arc<Batch>, u32, u64)> {
        let (first, batch) = self.loaded.range(..=number).next_back()?;
        let at = number - first;
        (at < batch.len() as u64).then(|| (batch.clone(), at as u32, batch.len() as u64 - at))
    }
}

impl ClassicQueue {
    /// Whether messages that die here go to an exchange.
    pub fn has_dead_letters(&self) -> bool {
        self.options.dead_letter.is_some()
    }

    /// Messages that are neither ready nor unacknowledged any more leave the ledger, and wait to be moved.
    pub(crate) fn die(&mut self, run: Run, reason: Reason, effects: &mut Effects) {
        let mut number = run.first;
        let mut bytes_left = run.bytes;
        let mut too_many = 0;
        while number <= run.last {
            let mut part = Run { first: number, ..run };
            let mut body = None;
            if let Some((start, held)) = self.contents.find(number) {
                let index = held.index + (number - start) as u32;
                part.last = run.last.min(held.end(start) - 1);
                part.bytes = held.batch.body_bytes(index as usize, part.count() as usize);
                // Bodies in files are read back: they are copied to other queues.
                let is_here = !held.batch.has_files();
                let keep = !run.durable || is_here && self.dead.kept_bytes + part.bytes <= KEPT_BYTES_MAX;
                body = keep.then(|| (held.batch.clone(), index));
                let cost = part.bytes + MESSAGE_BYTES * part.count();
                if !run.durable && self.dead.volatile_bytes + cost > VOLATILE_BYTES_MAX {
                    bytes_left = bytes_left.saturating_sub(part.bytes);
                    number = part.last + 1;
                    too_many += part.count();
                    continue;
                }
                if !run.durable {
                    self.dead.volatile_bytes += cost;
                }
            } else if let Some(start) = self.contents.next_held(number) {
                part.last = run.last.min(start - 1);
                // What isn't in memory has no sizes of its own.
                part.bytes = if part.last == run.last { bytes_left } else { 0 };
            } else {
                part.bytes = bytes_left;
            }
            bytes_left = bytes_left.saturating_sub(part.bytes);
            if run.durable && body.is_some() {
                self.dead.kept_bytes += part.bytes;
            }
            self.dead.push(Dead { run: part, reason, body });
            number = part.last + 1;
        }
        if run.durable {
            self.dead.durable_bytes += run.bytes;
        }
        self.depart(run.first, run.last, run.bytes, Outcome::DeadLettered);
        self.ledger.had_nowhere_to_go(too_many);
        self.release(run.first, run.last);
        effects.dead_letters = true;
    }

    /// Deliveries that were rejected: they die, if there is a dead-letter exchange. False if there is none, and
    /// nothing has happened.
    pub fn reject(&mut self, id: Option<ConsumerId>, runs: &[Run], now: Nanos, effects: &mut Effects) -> bool {
        if !self.has_dead_letters() || self.state != QueueState::Running {
            return false;
        }
        let mut count = 0;
        for run in runs {
            count += run.count();
            self.unacknowledged.bytes = self.unacknowledged.bytes.saturating_sub(run.bytes);
            self.die(*run, Reason::Rejected, effects);
        }
        self.unacknowledged.messages = self.unacknowledged.messages.saturating_sub(count);
        self.credit_back(id, count, now);
        self.schedule(effects);
        true
    }

    /// It failed: what is rejected now can't be moved before a restart, and has to stay in the log until then.
    pub fn keeps_rejected(&self) -> bool {
        self.has_dead_letters() && matches!(self.state, QueueState::Failed(_))
    }

    /// Messages on their way to the dead-letter exchange.
    pub fn moving(&self) -> u64 {
        self.dead.len()
    }

    /// How many have been moved so far: they are in the order in which they died, so what dies now is moved once this
    /// has grown by [`ClassicQueue::moving`].
    pub fn moved_so_far(&self) -> u64 {
        self.dead.moved
    }

    /// What the next turn moves.
    pub fn dead_turn(&mut self, effects: &mut Effects) -> DeadTurn {
        if self.state != QueueState::Running || self.dead.waiting.is_empty() {
            return DeadTurn::Nothing;
        }
        if self.dead.taken > 0 || self.dead.reading.is_some() {
            return DeadTurn::Wait;
        }
        let mut runs: Vec<DeadRun> = Vec::new();
        let mut left = u64::from(TURN_MESSAGES_MAX);
        let mut bytes = 0;
        'all: for dead in &self.dead.waiting {
            let mut number = dead.run.first;
            while number <= dead.run.last {
                if left == 0 || bytes >= TURN_BYTES_MAX {
                    break 'all;
                }
                let Some((batch, index, most)) = self.dead_body(dead, number) else {
                    if runs.is_empty() {
                        self.dead.reading = Some(number);
                        effects.read_dead = Some(number);
                        return DeadTurn::Wait;
                    }
                    break 'all;
                };
                let mut count = 0;
                let most = most.min(dead.run.last - number + 1).min(left);
                while count < most && bytes < TURN_BYTES_MAX {
                    bytes += u64::from(batch.body_length((u64::from(index) + count) as usize));
                    count += 1;
                }
                let (reason, durable) = (dead.reason, dead.run.durable);
                runs.push(DeadRun { batch, index, count: count as u32, first: number, reason, durable });
                number += count;
                left -= count;
            }
        }
        self.dead.taken = runs.iter().map(|run| u64::from(run.count)).sum();
        let size = |run: &DeadRun| run.batch.body_bytes(run.index as usize, run.count as usize);
        self.dead.taken_bytes = runs.iter().map(|run| (u64::from(run.count), size(run))).collect();
        DeadTurn::Move(runs)
    }

    /// Where a dead message is: batch, index, and how many from it on lie together.
    fn dead_body(&self, dead: &Dead, number: u64) -> Option<(Arc<Batch>, u32, u64)> {
        if let Some((batch, index)) = &dead.body {
            let at = number - dead.run.first;
            return Some((batch.clone(), *index + at as u32, dead.run.count() - at));
        }
        self.dead.find_loaded(number)
    }

    /// What was taken by [`ClassicQueue::dead_turn`] is gone. `dropped` of it had nowhere to go. Returns the runs of
    /// durable messages, which have to be logged.
    pub fn moved(&mut self, dropped: u64, effects: &mut Effects) -> Vec<Run> {
        let mut logged = Vec::new();
        // After a deletion or failure nothing is left.
        let mut left = std::mem::take(&mut self.dead.taken);
        self.dead.messages -= left;
        self.dead.moved += left;
        while left > 0 {
            let Some(mut dead) = self.dead.waiting.pop_front() else { break };
            let mut gone = dead.run;
            gone.last = gone.last.min(gone.first + left - 1);
            // What it was counted with may be the sum of several: what is logged has to be right for each move.
            gone.bytes = self.dead.bytes_taken(gone.count());
            if gone.last < dead.run.last {
                dead.run.first = gone.last + 1;
                dead.run.bytes = dead.run.bytes.saturating_sub(gone.bytes);
                if let Some((_, index)) = &mut dead.body {
                    *index += left as u32;
                }
                self.dead.waiting.push_front(Dead { body: dead.body.clone(), ..dead });
            }
            left -= gone.count();
            if gone.durable && dead.body.is_some() {
                self.dead.kept_bytes = self.dead.kept_bytes.saturating_sub(gone.bytes);
            }
            if gone.durable {
                self.dead.durable_bytes = self.dead.durable_bytes.saturating_sub(gone.bytes);
                push_run(&mut logged, gone);
            } else {
                let cost = gone.bytes + MESSAGE_BYTES * gone.count();
                self.dead.volatile_bytes = self.dead.volatile_bytes.saturating_sub(cost);
            }
        }
        self.ledger.had_nowhere_to_go(dropped);
        let next = self.dead.waiting.front().map(|dead| dead.run.first);
        if next.is_none_or(|next| self.dead.find_loaded(next).is_none()) {
            self.dead.loaded.clear();
        }
        effects.dead_letters = next.is_some();
        logged
    }

    /// What was taken by [`ClassicQueue::dead_turn`] can't be moved now: it stays where it is, on disk if it came from
    /// there.
    pub fn dead_stay(&mut self) {
        self.dead.taken = 0;
        self.dead.taken_bytes.clear();
        self.dead.loaded.clear();
    }

    /// The durable messages that wait, and their body bytes: after a crash they would be here.
    pub(crate) fn durable_dead(&self) -> (impl Iterator<Item = &Run>, u64) {
        let runs = self.dead.waiting.iter().map(|dead| &dead.run).filter(|run| run.durable);
        (runs, self.dead.durable_bytes)
    }

    /// Those of them whose time was over.
    pub(crate) fn expired_dead(&self) -> impl Iterator<Item = &Run> {
        let expired = self.dead.waiting.iter().filter(|dead| dead.reason == Reason::Expired);
        expired.map(|dead| &dead.run).filter(|run| run.durable)
    }

    /// The read that [`Effects::read_dead`] asked for is done.
    pub fn dead_loaded(&mut self, runs: Vec<(u64, Arc<Batch>)>, effects: &mut Effects) {
        let Some(wanted) = self.dead.reading.take() else { return };
        if self.state != QueueState::Running {
            return;
        }
        self.dead.loaded = runs.into_iter().collect();
        if self.dead.find_loaded(wanted).is_none() {
            self.fail(format!("message {wanted} is not in its message store"), effects);
            return;
        }
        effects.dead_letters = true;
    }
}
