//! Messages that died here and wait to be moved to the dead-letter exchange.
//!
//! They have left the ledger, as dead-lettered, but not the log: a checkpoint still counts them as live, and after a
//! crash they are ready again. The mover takes the messages of one turn, routes them without the queue's lock, and
//! calls [`crate::LedgerQueue::moved`] when it is done. A message that isn't in memory is read back from disk first.

mod blocked_letters;

pub use blocked_letters::Dying;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use leveret_message::{Batch, Reason};

use self::blocked_letters::BlockedLetters;
use crate::contents::Contents;
use crate::effects::Effects;
use crate::limits::Length;
use crate::nanos::Nanos;
use crate::reads::WantedNumbers;
use crate::records::{DyingRun, Run, push_run};

/// Maximum number of messages that one turn moves.
pub const TURN_MESSAGES_MAX: u32 = 256;
/// Approximate number of body bytes that one turn moves.
pub const TURN_BYTES_MAX: u64 = 1 << 20;
/// Body bytes of waiting durable messages that one queue holds in memory; other bodies are read back.
const KEPT_BYTES_MAX: u64 = 1 << 20;
/// Bytes of waiting volatile messages that one queue holds; further ones are dropped.
const VOLATILE_BYTES_MAX: u64 = 16 << 20;
/// Most runs of waiting messages that are looked at for one read: others of them may be in memory.
const LOOKED_AT_MAX: usize = 1024;
/// Memory of a small message apart from its body.
const MESSAGE_BYTES: u64 = 64;

/// Consecutive messages of one batch that died for the same reason.
#[derive(Debug, Clone)]
pub struct DeadRun {
    /// The messages.
    pub batch: Arc<Batch>,
    /// Index of the first in the batch.
    pub index: u32,
    /// Number of messages.
    pub count: u32,
    /// Number of the first in the queue.
    pub first: u64,
    /// The reason why they died.
    pub reason: Reason,
    /// Whether the move has to be logged.
    pub durable: bool,
    /// How often the delivery of each failed, if that continues in a quorum queue that they come to.
    pub failures: u32,
}

/// The messages that a turn moves.
#[derive(Debug)]
pub enum DeadTurn {
    /// These messages, the oldest first; the caller has to call [`crate::LedgerQueue::moved`] afterwards.
    Move(Vec<DeadRun>),
    /// Nothing for now: messages are being read, or a move is under way.
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
    /// Body bytes of each, if there is no `body` and their sizes differ: after a restart, others may leave before them.
    sizes: VecDeque<u32>,
    /// Whether no queue took it before.
    is_retried: bool,
}

impl Dead {
    fn new(run: Run, reason: Reason, body: Option<(Arc<Batch>, u32)>, is_retried: bool) -> Self {
        Self { run, reason, body, sizes: VecDeque::new(), is_retried }
    }

    /// Its messages in runs with messages of one size each, as far as their sizes are known.
    fn sized(&self) -> Vec<Run> {
        let sizes: Vec<(u64, u64)> = match &self.body {
            Some((batch, index)) => sizes_of(batch, *index, self.run.count() as u32).collect(),
            None if self.sizes.is_empty() => return vec![self.run],
            None => alike(self.sizes.iter().copied()).collect(),
        };
        let mut next = self.run.first;
        let run = |(count, bytes)| {
            next += count;
            Run { first: next - count, last: next - 1, bytes, ..self.run }
        };
        sizes.into_iter().map(run).collect()
    }

    /// Adds the messages behind it; neither has a body.
    fn lengthen(&mut self, mut other: Self) {
        if !(self.sizes.is_empty() && other.sizes.is_empty() && self.run.has_size_of(&other.run)) {
            self.list_sizes();
            other.list_sizes();
            self.sizes.append(&mut other.sizes);
        }
        (self.run.last, self.run.bytes) = (other.run.last, self.run.bytes + other.run.bytes);
    }

    fn list_sizes(&mut self) {
        if self.sizes.is_empty() {
            let size = |run: Run| u32::try_from(run.bytes).unwrap_or(u32::MAX);
            self.sizes = self.run.singly().map(size).collect();
        }
    }

    /// Drops the body; the sizes stay known.
    fn forget_body(&mut self) {
        if let Some((batch, index)) = self.body.take() {
            let lengths = (index..).take(self.run.count() as usize).map(|at| batch.body_length(at as usize));
            self.sizes = lengths.collect();
        }
    }
}

/// Count and body bytes of neighbours with the same size.
fn alike(sizes: impl Iterator<Item = u32>) -> impl Iterator<Item = (u64, u64)> {
    let mut sizes = sizes.peekable();
    std::iter::from_fn(move || {
        let size = sizes.next()?;
        let mut count = 1;
        while sizes.next_if_eq(&size).is_some() {
            count += 1;
        }
        Some((count, count * u64::from(size)))
    })
}

/// The same of `count` messages of a batch from `index` on.
fn sizes_of(batch: &Batch, index: u32, count: u32) -> impl Iterator<Item = (u64, u64)> {
    alike((index..index + count).map(|at| batch.body_length(at as usize)))
}

/// The dead letters of a queue.
#[derive(Debug, Default)]
pub(crate) struct DeadLetters {
    waiting: VecDeque<Dead>,
    messages: u64,
    /// Bodies of durable messages that `waiting` holds.
    kept_bytes: u64,
    /// Volatile messages in `waiting`.
    volatile_bytes: u64,
    /// Messages read back from disk: number of the first, and their batch.
    loaded: BTreeMap<u64, Arc<Batch>>,
    reading: Option<u64>,
    /// Whether what is being read was purged meanwhile.
    is_stale: bool,
    /// Number of messages that are being moved.
    taken: u64,
    /// Count and body bytes of neighbours with the same size among them.
    taken_bytes: VecDeque<(u64, u64)>,
    /// Body bytes of the durable messages in `waiting`; a single run may have an estimated size.
    durable_bytes: u64,
    /// Number of messages so far that were moved, purged, or found to be blocked.
    moved: u64,
    blocked: BlockedLetters,
}

impl DeadLetters {
    /// Dead letters that recovery found to be blocked.
    pub(crate) fn recovered(runs: Vec<DyingRun>, now: Nanos) -> Self {
        let mut dead = Self::default();
        let has_some = !runs.is_empty();
        runs.into_iter().for_each(|run| dead.blocked.push(run));
        if has_some {
            dead.blocked.tried(now);
        }
        dead
    }

    /// Number of messages in flight: without those that no queue takes now.
    pub(crate) fn len(&self) -> u64 {
        self.messages
    }

    /// Number and body bytes of all durable messages, in flight or blocked.
    pub(crate) fn length(&self) -> Length {
        Length { messages: self.messages, bytes: self.durable_bytes } + self.blocked.length()
    }

    fn push(&mut self, dead: Dead) {
        self.messages += dead.run.count();
        if let Some(last) = self.waiting.back_mut()
            && last.run.last + 1 == dead.run.first
            && last.run.durable == dead.run.durable
            && last.reason == dead.reason
            && last.is_retried == dead.is_retried
        {
            match (&last.body, &dead.body) {
                (Some((batch, index)), Some((other, at)))
                    if Arc::ptr_eq(batch, other) && u64::from(*index) + last.run.count() == u64::from(*at) =>
                {
                    last.run.last = dead.run.last;
                    last.run.bytes += dead.run.bytes;
                    return;
                }
                (None, None) => return last.lengthen(dead),
                _ => {}
            }
        }
        self.waiting.push_back(dead);
    }

    /// The queue failed: drops bodies, since durable messages are recovered after a restart.
    pub(crate) fn forget_bodies(&mut self) {
        self.waiting.retain(|dead| dead.run.durable);
        self.waiting.iter_mut().for_each(Dead::forget_body);
        let (waiting, durable_bytes) = (std::mem::take(&mut self.waiting), self.durable_bytes);
        let blocked = std::mem::take(&mut self.blocked);
        *self = Self { waiting, durable_bytes, blocked, ..Self::default() };
    }

    /// A message that was read back: batch, index, and number of messages from `number` on.
    fn find_loaded(&self, number: u64) -> Option<(Arc<Batch>, u32, u64)> {
        let (first, batch) = self.loaded.range(..=number).next_back()?;
        let at = number - first;
        (at < batch.len() as u64).then(|| (batch.clone(), at as u32, batch.len() as u64 - at))
    }

    /// Number of messages moved so far.
    pub(crate) fn moved_so_far(&self) -> u64 {
        self.moved
    }

    /// Takes over messages that died, and looks for their bodies in `contents`. Returns the number of dropped ones:
    /// volatile messages beyond the limit are dropped.
    pub(crate) fn admit(&mut self, run: Run, reason: Reason, contents: &Contents) -> u64 {
        let mut number = run.first;
        let mut bytes_left = run.bytes;
        let mut too_many = 0;
        while number <= run.last {
            let mut part = Run { first: number, ..run };
            let mut body = None;
            if let Some((start, held)) = contents.find(number) {
                let index = held.index + (number - start) as u32;
                part.last = run.last.min(held.end(start) - 1);
                part.bytes = held.batch.body_bytes(index as usize, part.count() as usize);
                // Bodies in files are read back: they are copied to other queues.
                let is_here = !held.batch.has_files();
                let keep = !run.durable || is_here && self.kept_bytes + part.bytes <= KEPT_BYTES_MAX;
                body = keep.then(|| (held.batch.clone(), index));
                let cost = part.bytes + MESSAGE_BYTES * part.count();
                if !run.durable && self.volatile_bytes + cost > VOLATILE_BYTES_MAX {
                    bytes_left = bytes_left.saturating_sub(part.bytes);
                    number = part.last + 1;
                    too_many += part.count();
                    continue;
                }
                if !run.durable {
                    self.volatile_bytes += cost;
                }
            } else if let Some(start) = contents.next_held(number) {
                part.last = run.last.min(start - 1);
                // Its messages have the same size, as far as their sizes are known.
                let is_rest = part.last == run.last;
                part.bytes = if is_rest { bytes_left } else { bytes_left.min(run.bytes / run.count() * part.count()) };
            } else {
                part.bytes = bytes_left;
            }
            bytes_left = bytes_left.saturating_sub(part.bytes);
            if run.durable && body.is_some() {
                self.kept_bytes += part.bytes;
            }
            self.push(Dead::new(part, reason, body, false));
            number = part.last + 1;
        }
        if run.durable {
            self.durable_bytes += run.bytes;
        }
        too_many
    }

    /// The messages that the next turn moves.
    pub(crate) fn turn(&mut self, effects: &mut Effects) -> DeadTurn {
        if self.waiting.is_empty() {
            return DeadTurn::Nothing;
        }
        if self.taken > 0 || self.reading.is_some() {
            return DeadTurn::Wait;
        }
        let mut runs: Vec<DeadRun> = Vec::new();
        let mut left = u64::from(TURN_MESSAGES_MAX);
        let mut bytes = 0;
        'all: for dead in &self.waiting {
            let mut number = dead.run.first;
            while number <= dead.run.last {
                if left == 0 || bytes >= TURN_BYTES_MAX {
                    break 'all;
                }
                let Some((batch, index, most)) = self.body(dead, number) else {
                    if runs.is_empty() {
                        self.reading = Some(number);
                        let rare = effects.rare_mut();
                        (rare.read_dead, rare.dead_numbers) = (Some(number), self.wanted());
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
                runs.push(DeadRun { batch, index, count: count as u32, first: number, reason, durable, failures: 0 });
                number += count;
                left -= count;
            }
        }
        self.turn_is(&runs);
        DeadTurn::Move(runs)
    }

    /// The first ones without a body, which a read is for.
    fn wanted(&self) -> Vec<(u64, u64)> {
        let mut wanted = WantedNumbers::default();
        for dead in self.waiting.iter().take(LOOKED_AT_MAX).filter(|dead| dead.body.is_none()) {
            wanted.push(dead.run.first, dead.run.last);
        }
        wanted.in_reading_order()
    }

    /// The turn moves these messages, the oldest ones that wait.
    pub(crate) fn turn_is(&mut self, runs: &[DeadRun]) {
        self.taken = runs.iter().map(|run| u64::from(run.count)).sum();
        self.taken_bytes = runs.iter().flat_map(|run| sizes_of(&run.batch, run.index, run.count)).collect();
    }

    /// The location of a dead message: batch, index, and number of messages from it on that are contiguous there.
    fn body(&self, dead: &Dead, number: u64) -> Option<(Arc<Batch>, u32, u64)> {
        if let Some((batch, index)) = &dead.body {
            let at = number - dead.run.first;
            return Some((batch.clone(), *index + at as u32, dead.run.count() - at));
        }
        self.find_loaded(number)
    }

    /// The messages of the last turn were moved. Returns the runs of durable messages, which have to be logged, and of volatile ones.
    pub(crate) fn moved(&mut self, effects: &mut Effects) -> (Vec<Run>, Vec<Run>) {
        let (mut logged, mut volatile, mut any_retried) = (Vec::new(), Vec::new(), false);
        self.leave(effects, |dying, durable, is_retried| {
            push_run(if durable { &mut logged } else { &mut volatile }, Run { durable, ..dying.run() });
            any_retried |= is_retried;
        });
        self.blocked.progress(any_retried);
        (logged, volatile)
    }

    /// No queue takes the messages of the last turn now. Returns the runs of durable messages, which have to be logged, and
    /// whether all before them have moved.
    pub(crate) fn block(&mut self, now: Nanos, effects: &mut Effects) -> (Vec<DyingRun>, bool) {
        let (mut runs, mut any_retried) = (Vec::new(), false);
        self.leave(effects, |dying, durable, is_retried| {
            runs.extend(durable.then_some(dying));
            any_retried |= is_retried;
        });
        let is_first = self.blocked.length().messages == 0 && !any_retried;
        runs.iter().for_each(|dying| self.blocked.push(*dying));
        self.blocked.tried(now);
        (runs, is_first)
    }

    /// Tries blocked messages again if it is time. Returns whether there are some.
    pub(crate) fn retry(&mut self, now: Nanos) -> bool {
        let runs = self.blocked.retry(now, u64::from(TURN_MESSAGES_MAX));
        let has_some = !runs.is_empty();
        for dying in runs {
            self.durable_bytes += dying.bytes;
            // Behind the others: answers wait for a number of messages that leave.
            self.push(Dead::new(dying.run(), dying.reason, None, true));
        }
        has_some
    }

    /// Has blocked messages tried at this time, if there are some.
    pub(crate) fn retry_at(&mut self, time: Nanos) {
        self.blocked.retry_at(time);
    }

    /// See [`BlockedLetters::announce`].
    pub(crate) fn announce(&mut self) -> Option<Nanos> {
        self.blocked.announce()
    }

    /// Removes all that aren't being moved; answers don't wait for them any more. Returns their runs.
    pub(crate) fn purge(&mut self) -> Vec<Run> {
        let mut runs: Vec<Run> = self.blocked.take_all().into_iter().map(|dying| dying.run()).collect();
        let (mut stay, mut sizes) = (self.taken, self.taken_bytes.clone());
        let waiting = std::mem::take(&mut self.waiting);
        for mut dead in waiting {
            let mut gone = dead.run;
            if stay > 0 {
                dead.run.last = dead.run.last.min(dead.run.first + stay - 1);
                stay -= dead.run.count();
                gone.first = dead.run.last + 1;
                dead.run.bytes = sizes_taken(&mut sizes, dead.run.count()).iter().map(|(_, bytes)| bytes).sum();
                gone.bytes = gone.bytes.saturating_sub(dead.run.bytes);
                dead.sizes.truncate(dead.run.count() as usize);
                self.waiting.push_back(dead);
            }
            if gone.first <= gone.last {
                self.messages -= gone.count();
                self.moved += gone.count();
                runs.push(gone);
            }
        }
        self.kept_bytes = 0;
        self.durable_bytes = self.taken_bytes.iter().map(|(_, bytes)| bytes).sum();
        self.loaded.clear();
        self.is_stale = self.reading.is_some();
        runs
    }

    /// Takes the messages of the last turn out, and passes them on with whether they are durable, and whether no queue took them before.
    fn leave(&mut self, effects: &mut Effects, mut passed: impl FnMut(DyingRun, bool, bool)) {
        // After a deletion or failure nothing is left.
        let mut left = std::mem::take(&mut self.taken);
        self.messages -= left;
        self.moved += left;
        while left > 0 {
            let Some(mut dead) = self.waiting.pop_front() else { break };
            let mut gone = dead.run;
            gone.last = gone.last.min(gone.first + left - 1);
            // A run's size may be the sum of several runs; the logged size has to be right for each move.
            let sizes = sizes_taken(&mut self.taken_bytes, gone.count());
            gone.bytes = sizes.iter().map(|(_, bytes)| bytes).sum();
            if gone.last < dead.run.last {
                dead.run.first = gone.last + 1;
                dead.run.bytes = dead.run.bytes.saturating_sub(gone.bytes);
                if let Some((_, index)) = &mut dead.body {
                    *index += left as u32;
                }
                dead.sizes.drain(..dead.sizes.len().min(left as usize));
                self.waiting.push_front(Dead { body: dead.body.clone(), ..dead });
            }
            left -= gone.count();
            if gone.durable && dead.body.is_some() {
                self.kept_bytes = self.kept_bytes.saturating_sub(gone.bytes);
            }
            if gone.durable {
                self.durable_bytes = self.durable_bytes.saturating_sub(gone.bytes);
                let mut first = gone.first;
                for (count, bytes) in sizes {
                    let last = first + count - 1;
                    passed(DyingRun { first, last, bytes, reason: dead.reason }, true, dead.is_retried);
                    first += count;
                }
            } else {
                let cost = gone.bytes + MESSAGE_BYTES * gone.count();
                self.volatile_bytes = self.volatile_bytes.saturating_sub(cost);
                passed(DyingRun::of(gone, dead.reason), false, dead.is_retried);
            }
        }
        if self.waiting.is_empty() {
            // Messages that expired on disk were counted with an estimate.
            self.durable_bytes = 0;
        }
        let next = self.waiting.front().map(|dead| dead.run.first);
        if next.is_none_or(|next| self.find_loaded(next).is_none()) {
            self.loaded.clear();
        }
        effects.dead_letters = next.is_some();
    }

    /// The messages of the last turn stay where they are, on disk if they came from there.
    pub(crate) fn stay(&mut self) {
        self.taken = 0;
        self.taken_bytes.clear();
        self.loaded.clear();
    }

    /// The durable messages, and their body bytes.
    pub(crate) fn durable(&self) -> (impl Iterator<Item = DyingRun>, u64) {
        let waiting = self.waiting.iter().filter(|dead| dead.run.durable);
        let waiting = waiting.flat_map(|dead| dead.sized().into_iter().map(|run| DyingRun::of(run, dead.reason)));
        (waiting.chain(self.blocked.iter().copied()), self.durable_bytes + self.blocked.length().bytes)
    }

    /// The waiting durable messages that expired.
    pub(crate) fn expired(&self) -> impl Iterator<Item = Run> {
        let expired = self.waiting.iter().filter(|dead| dead.reason == Reason::Expired && dead.run.durable);
        expired.flat_map(Dead::sized)
    }

    /// The requested read has finished. Returns the number that it began with; `None` if there was no read, or it is of no use.
    pub(crate) fn finish_read(&mut self, effects: &mut Effects) -> Option<u64> {
        if std::mem::take(&mut self.is_stale) {
            self.reading = None;
            effects.dead_letters = !self.waiting.is_empty();
        }
        self.reading.take()
    }

    /// Holds messages that were read, each run with the number of its first message. Returns whether `wanted` is one of
    /// them.
    pub(crate) fn loaded(&mut self, runs: Vec<(u64, Arc<Batch>)>, wanted: u64) -> bool {
        self.loaded = runs.into_iter().collect();
        self.find_loaded(wanted).is_some()
    }
}

/// Takes the sizes of the first `count` messages out of the sizes of runs, of which none begins among these and ends behind them.
fn sizes_taken(sizes: &mut VecDeque<(u64, u64)>, mut count: u64) -> Vec<(u64, u64)> {
    let mut taken = Vec::new();
    while count > 0
        && let Some((messages, size)) = sizes.pop_front()
    {
        taken.push((messages, size));
        count = count.saturating_sub(messages);
    }
    taken
}
