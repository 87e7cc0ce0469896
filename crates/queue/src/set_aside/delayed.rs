//! Messages of a quorum queue that wait in it until a time: they are neither ready nor with a consumer. They stay live in the
//! ledger, and in the log.

use std::ops::RangeInclusive;

use crate::limits::Length;
use crate::planted::{Bug, is_planted};
use crate::records::{DelayRun, Run, push_run};
use crate::timing::Times;

fn run_of(delayed: &DelayRun) -> Run {
    Run { first: delayed.first, last: delayed.last, bytes: delayed.bytes, durable: true }
}

/// Appends a delayed message, or lengthens the last run if its messages have the same size.
pub(crate) fn push_delayed(runs: &mut Vec<DelayRun>, message: &Run, due_ms: u64) {
    match runs.last_mut() {
        Some(last) if last.last + 1 == message.first && last.due_ms == due_ms && run_of(last).has_size_of(message) => {
            last.last = message.last;
            last.bytes += message.bytes;
        }
        _ => runs.push(DelayRun { first: message.first, last: message.last, due_ms, bytes: message.bytes }),
    }
}

/// The delayed messages of a queue. Most queues have none.
#[derive(Debug, Default)]
pub struct Delayed(Option<Box<Messages>>);

#[derive(Debug, Default)]
struct Messages {
    times: Times,
    bytes: u64,
}

impl Delayed {
    /// Number of messages.
    pub fn len(&self) -> u64 {
        self.0.as_ref().map_or(0, |messages| messages.times.len())
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Body bytes of all.
    pub fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |messages| messages.bytes)
    }

    pub(crate) fn length(&self) -> Length {
        Length { messages: self.len(), bytes: self.bytes() }
    }

    /// Approximate memory in bytes.
    pub fn memory(&self) -> usize {
        self.0.as_ref().map_or(0, |messages| messages.times.memory())
    }

    /// Number and due time of each, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let all = self.0.iter().flat_map(|messages| messages.times.range(0..=u64::MAX));
        all.map(|(number, due_ms, _)| (number, due_ms))
    }

    /// Adds the messages of a run, or replaces their times. Where their sizes aren't known one by one, as in records of older
    /// versions, each counts with the average.
    pub fn add(&mut self, run: &DelayRun) {
        let messages = self.0.get_or_insert_default();
        for one in run_of(run).singly() {
            let bytes = u32::try_from(one.bytes).unwrap_or(u32::MAX);
            let before = messages.times.get(one.first);
            messages.times.insert(one.first, run.due_ms, bytes);
            messages.bytes += u64::from(bytes);
            messages.bytes -= before.map_or(0, |(_, bytes)| u64::from(bytes));
        }
    }

    /// Adds a message whose own record says until when it is delayed.
    pub fn replay(&mut self, number: u64, due_ms: u64, bytes: u64) {
        if !is_planted(Bug::LoseTimers) {
            self.add(&DelayRun { first: number, last: number, due_ms, bytes });
        }
    }

    /// Whether a message is delayed until this time, as far as its time is known.
    pub(crate) fn is_until(&self, number: u64, due_ms: u64) -> bool {
        self.0.as_ref().is_some_and(|messages| messages.times.is_until(number, due_ms))
    }

    /// When the next one is due, in milliseconds since the Unix epoch.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.0.as_ref()?.times.next_ms()
    }

    /// Removes and returns a message that is due: the one that has been due for longest.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<Run> {
        let messages = self.0.as_mut()?;
        let (number, bytes) = messages.times.pop_due(now_ms)?;
        messages.bytes -= u64::from(bytes);
        self.free_if_empty();
        Some(Run { first: number, last: number, bytes: u64::from(bytes), durable: true })
    }

    /// Removes the ones among these. Returns their runs.
    pub fn remove(&mut self, range: RangeInclusive<u64>) -> Vec<Run> {
        let mut runs = Vec::new();
        let Some(messages) = &mut self.0 else { return runs };
        let found: Vec<u64> = messages.times.range(range).map(|(number, ..)| number).collect();
        for number in found {
            let bytes = messages.times.remove(number).map_or(0, |(_, bytes)| u64::from(bytes));
            messages.bytes -= bytes;
            push_run(&mut runs, Run { first: number, last: number, bytes, durable: true });
        }
        self.free_if_empty();
        runs
    }

    /// Keeps these messages only.
    pub fn keep(&mut self, live: impl Fn(u64) -> bool) {
        if let Some(messages) = &mut self.0 {
            messages.times.keep(live);
            messages.bytes = messages.times.range(0..=u64::MAX).map(|(.., bytes)| u64::from(bytes)).sum();
            self.free_if_empty();
        }
    }

    fn free_if_empty(&mut self) {
        self.0.take_if(|messages| messages.times.is_empty());
    }

    /// Appends to `out`: 4 bytes number of chunks, and these.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let none = Messages::default();
        let messages = self.0.as_deref().filter(|_| !is_planted(Bug::LoseTimers)).unwrap_or(&none);
        out.extend_from_slice(&messages.times.encoded().0.to_le_bytes());
        messages.times.encode(out);
    }

    /// Decodes delayed messages at the beginning of `bytes`, and returns them with the rest. `None` if they aren't whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (chunks, mut rest) = bytes.split_first_chunk()?;
        let times = Times::decode(u32::from_le_bytes(*chunks) as usize, &mut rest, None).ok()?;
        let bytes = times.range(0..=u64::MAX).map(|(.., bytes)| u64::from(bytes)).sum();
        let mut delayed = Self(Some(Box::new(Messages { times, bytes })));
        delayed.free_if_empty();
        Some((delayed, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUE: u64 = 1_700_000_000_000;

    fn delay(first: u64, last: u64, due_ms: u64, bytes: u64) -> DelayRun {
        DelayRun { first, last, due_ms, bytes }
    }

    #[test]
    fn sizes_add_up_and_survive_a_record_and_a_checkpoint() {
        let runs = [delay(5, 7, DUE, 100), delay(9, 9, DUE - 1, 3), delay(7, 7, DUE + 9, 50)];
        let payload = DelayRun::encode(&runs);
        assert_eq!(DelayRun::decode(&payload).as_deref(), Some(&runs[..]));
        assert_eq!(DelayRun::decode(&payload[1..]), None);
        let mut delayed = Delayed::default();
        // Twice, as after a checkpoint that has them already.
        runs.iter().chain(&runs).for_each(|run| delayed.add(run));
        assert_eq!((delayed.len(), delayed.bytes()), (4, 33 + 33 + 50 + 3));
        let mut bytes = Vec::new();
        delayed.encode(&mut bytes);
        for end in 0..bytes.len() {
            assert!(Delayed::decode(&bytes[..end]).is_none(), "cut at {end}");
        }
        bytes.push(77);
        let (mut again, rest) = Delayed::decode(&bytes).expect("it is whole");
        assert_eq!((rest, again.bytes()), (&[77][..], delayed.bytes()));
        assert_eq!(again.iter().collect::<Vec<_>>(), [(5, DUE), (6, DUE), (7, DUE + 9), (9, DUE - 1)]);
        assert_eq!(again.pop_due(DUE - 2), None);
        let order = std::iter::from_fn(|| again.pop_due(DUE)).map(|run| run.first);
        assert_eq!(order.collect::<Vec<_>>(), [9, 5, 6]);
        assert_eq!((again.next_ms(), again.bytes()), (Some(DUE + 9), 50));
        assert_eq!(again.remove(0..=9), [Run { first: 7, last: 7, bytes: 50, durable: true }]);
        assert!(again.is_empty());
        delayed.keep(|number| number == 9);
        assert_eq!((delayed.len(), delayed.bytes()), (1, 3));
    }
}
