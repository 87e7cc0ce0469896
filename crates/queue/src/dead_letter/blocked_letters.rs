//! Dead letters that no queue takes now, of a queue that keeps them until one does (`x-dead-letter-strategy` = `at-least-once`).
//! They have left the ledger, but not the log, which marks them as dying: after a restart they wait again.

use std::collections::{BTreeMap, VecDeque};

use leveret_message::Reason;

use crate::limits::Length;
use crate::nanos::Nanos;
use crate::records::{DYING_RUN_BYTES, DyingRun, Run};

/// Time until the first try after none could be moved; it doubles with each further one.
const RETRY_MIN: Nanos = 250_000_000;
/// Longest time until they are tried again.
const RETRY_MAX: Nanos = 30_000_000_000;
impl DyingRun {
    pub(crate) fn of(run: Run, reason: Reason) -> Self {
        Self { first: run.first, last: run.last, bytes: run.bytes, reason }
    }

    /// Its messages.
    pub fn run(&self) -> Run {
        Run { first: self.first, last: self.last, bytes: self.bytes, durable: true }
    }
}

/// The dying messages that recovery found: size of the body and reason by number.
#[derive(Debug, Default)]
pub struct Dying(BTreeMap<u64, (u64, Reason)>);

impl Dying {
    /// Adds messages. Where their sizes aren't known one by one, as in records of older versions, each counts with the average.
    pub fn add(&mut self, dying: &DyingRun) {
        for one in dying.run().singly() {
            self.0.insert(one.first, (one.bytes, dying.reason));
        }
    }

    /// Keeps these messages only.
    pub fn keep(&mut self, live: impl Fn(u64) -> bool) {
        self.0.retain(|number, _| live(*number));
    }

    /// Whether this message is one of them.
    pub fn contains(&self, number: u64) -> bool {
        self.0.contains_key(&number)
    }

    /// The messages in runs.
    pub fn runs(&self) -> Vec<DyingRun> {
        let mut runs = Runs::default();
        for (number, (bytes, reason)) in &self.0 {
            runs.push(DyingRun { first: *number, last: *number, bytes: *bytes, reason: *reason });
        }
        runs.0.into()
    }

    /// Appends runs to `out`: 4 bytes number of runs, and the runs.
    pub(crate) fn encode(runs: &[DyingRun], out: &mut Vec<u8>) {
        out.extend_from_slice(&(runs.len() as u32).to_le_bytes());
        out.extend_from_slice(&DyingRun::encode(runs));
    }

    /// Decodes dying messages at the beginning of `bytes`, and returns them with the rest. `None` if they aren't whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (count, bytes) = bytes.split_first_chunk()?;
        let length = (u32::from_le_bytes(*count) as usize).checked_mul(DYING_RUN_BYTES)?;
        let (runs, rest) = bytes.split_at_checked(length)?;
        let mut dying = Self::default();
        DyingRun::decode(runs)?.iter().for_each(|run| dying.add(run));
        Some((dying, rest))
    }
}

/// Runs in which consecutive messages with the same reason and size are one.
#[derive(Debug, Default)]
struct Runs(VecDeque<DyingRun>);

impl Runs {
    fn push(&mut self, dying: DyingRun) {
        match self.0.back_mut() {
            Some(last)
                if last.last + 1 == dying.first
                    && last.reason == dying.reason
                    && last.run().has_size_of(&dying.run()) =>
            {
                last.last = dying.last;
                last.bytes += dying.bytes;
            }
            _ => self.0.push_back(dying),
        }
    }
}

/// The blocked dead letters of a queue, the longest untried ones first.
#[derive(Debug, Default)]
pub(crate) struct BlockedLetters {
    runs: Runs,
    length: Length,
    /// Time of the next try; `None` while some are tried, or there are none.
    retry_at: Option<Nanos>,
    /// Time from the last try in vain to the next one; 0 if none was in vain since one was moved.
    delay: Nanos,
    is_announced: bool,
    last_try: Nanos,
}

impl BlockedLetters {
    /// Number and body bytes.
    pub(crate) fn length(&self) -> Length {
        self.length
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &DyingRun> {
        self.runs.0.iter()
    }

    /// Adds messages that were tried in vain.
    pub(crate) fn push(&mut self, dying: DyingRun) {
        self.length = self.length + Length { messages: dying.run().count(), bytes: dying.bytes };
        self.runs.push(dying);
    }

    /// A try was in vain.
    pub(crate) fn tried(&mut self, now: Nanos) {
        if self.retry_at.is_none() {
            self.last_try = now;
            self.delay = (2 * self.delay).clamp(RETRY_MIN, RETRY_MAX);
            self.retry_at = Some(now.saturating_add(self.delay));
            self.is_announced = false;
        }
    }

    /// Has them tried at this time, if there are some and none is being tried.
    pub(crate) fn retry_at(&mut self, time: Nanos) {
        if self.retry_at.is_some() {
            (self.retry_at, self.is_announced) = (Some(time), false);
        }
    }

    /// Messages were moved: others may be, too. They are tried at once if the moved ones were blocked before, and else soon: one
    /// queue that takes everything says little of another one that takes nothing.
    pub(crate) fn progress(&mut self, were_blocked: bool) {
        self.delay = 0;
        if self.length.messages == 0 {
            return;
        }
        let at = if were_blocked { 0 } else { self.last_try.saturating_add(RETRY_MIN) };
        if self.retry_at.is_none_or(|before| at < before) {
            self.retry_at = Some(at);
            self.is_announced = false;
        }
    }

    /// The time of the next try, if it wasn't announced before.
    pub(crate) fn announce(&mut self) -> Option<Nanos> {
        let at = self.retry_at?;
        (!std::mem::replace(&mut self.is_announced, true)).then_some(at)
    }

    /// Takes out at most `most` messages if it is time for the next try. A part of a run has its share of the bytes.
    pub(crate) fn retry(&mut self, now: Nanos, most: u64) -> Vec<DyingRun> {
        self.is_announced = false;
        let mut out = Vec::new();
        if self.retry_at.is_none_or(|at| at > now) {
            return out;
        }
        (self.retry_at, self.last_try) = (None, now);
        let mut left = most;
        while left > 0
            && let Some(mut dying) = self.runs.0.pop_front()
        {
            let count = dying.run().count();
            if count > left {
                let mut rest = dying;
                dying.last = dying.first + left - 1;
                dying.bytes = dying.bytes / count * left;
                rest.first = dying.last + 1;
                rest.bytes -= dying.bytes;
                self.runs.0.push_front(rest);
            }
            left -= dying.run().count();
            self.length.messages -= dying.run().count();
            self.length.bytes -= dying.bytes;
            out.push(dying);
        }
        out
    }

    /// Removes and returns all.
    pub(crate) fn take_all(&mut self) -> Vec<DyingRun> {
        std::mem::take(self).runs.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dying(first: u64, last: u64, bytes: u64, reason: Reason) -> DyingRun {
        DyingRun { first, last, bytes, reason }
    }

    #[test]
    fn tries_in_vain_become_rarer_until_one_is_moved() {
        let mut blocked = BlockedLetters::default();
        let mut now = 5;
        let mut delays = Vec::new();
        for _ in 0..9 {
            blocked.push(dying(1, 1, 4, Reason::Rejected));
            blocked.tried(now);
            let at = blocked.announce().expect("it is new");
            assert_eq!(blocked.announce(), None, "it is known");
            assert!(blocked.retry(at - 1, 10).is_empty(), "not yet");
            delays.push((at - now) / 1_000_000);
            now = at;
            assert_eq!(blocked.retry(now, 10).len(), 1);
        }
        assert_eq!(delays, [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        blocked.push(dying(1, 1, 4, Reason::Rejected));
        blocked.progress(false);
        assert_eq!(blocked.announce(), Some(now + RETRY_MIN), "others are tried soon");
        blocked.progress(true);
        assert_eq!(blocked.announce(), Some(0), "others are tried at once");
    }

    #[test]
    fn a_part_of_a_run_takes_its_share_of_the_bytes() {
        let mut blocked = BlockedLetters::default();
        blocked.push(dying(1, 3, 30, Reason::Expired));
        blocked.push(dying(4, 4, 7, Reason::Expired));
        blocked.push(dying(5, 5, 1, Reason::MaxLen));
        blocked.tried(0);
        let first = blocked.retry(RETRY_MIN, 2);
        assert_eq!(first, [dying(1, 2, 20, Reason::Expired)]);
        assert_eq!((blocked.length().messages, blocked.length().bytes), (3, 18));
        let [third, fourth] = [dying(3, 3, 10, Reason::Expired), dying(4, 4, 7, Reason::Expired)];
        assert_eq!(blocked.take_all(), [third, fourth, dying(5, 5, 1, Reason::MaxLen)], "each with its own size");
        assert_eq!(blocked.length().messages, 0);
    }

    #[test]
    fn dying_messages_survive_a_checkpoint_and_repeated_records() {
        let runs = [dying(1, 3, 30, Reason::DeliveryLimit), dying(4, 4, 7, Reason::Rejected)];
        let mut bytes = Vec::new();
        Dying::encode(&runs, &mut bytes);
        for end in 0..bytes.len() {
            assert!(Dying::decode(&bytes[..end]).is_none());
        }
        let (mut again, rest) = Dying::decode(&bytes).expect("it is whole");
        assert!(rest.is_empty());
        again.add(&runs[1]);
        assert_eq!(again.runs(), runs);
        again.keep(|number| number == 2);
        assert_eq!(again.runs(), [dying(2, 2, 10, Reason::DeliveryLimit)]);
        assert!(DyingRun::decode(&[9; DYING_RUN_BYTES]).is_none(), "an unknown reason");
    }
}
