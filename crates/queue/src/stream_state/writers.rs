//! The publishers of a stream whose messages are numbered: of each name, the number of its last message. A publisher that comes back
//! and doesn't know what was stored sends its last messages again, and those that are there are dropped.
//!
//! The number is stored with the chunk (`leveret_message::chunk::writer`), so that both are there or neither is.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Most names of a stream, as in RabbitMQ. The one that has published nothing for the longest time is forgotten for a new one.
pub(crate) const WRITERS_MAX: usize = 255;

/// The messages of a named publisher in a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterRun {
    /// Its name, of at most 255 bytes.
    pub name: Arc<str>,
    /// The number of the first message.
    pub first: u64,
    /// The number of the last message.
    pub last: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sequence {
    /// The number of the last message that was submitted.
    submitted: Option<u64>,
    /// The number of the last message that is part of the stream.
    applied: Option<u64>,
    /// When that was published, in milliseconds since the Unix epoch.
    at_ms: u64,
}

/// The named publishers of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writers {
    names: BTreeMap<Arc<str>, Sequence>,
    /// The latest time of all. No message is noted with an earlier one: after a clock was set back, publishers would count as silent that
    /// aren't.
    newest_ms: u64,
}

impl Writers {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.values().all(|sequence| sequence.applied.is_none())
    }

    /// The number of the last message of a name that was submitted.
    pub(crate) fn submitted(&self, name: &str) -> Option<u64> {
        self.names.get(name).and_then(|sequence| sequence.submitted)
    }

    /// The names that have messages in the stream, each with the number of its last one.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, u64)> {
        self.names.iter().filter_map(|(name, sequence)| Some((name.clone(), sequence.applied?))).collect()
    }

    /// Notes messages that were submitted.
    pub(crate) fn submit(&mut self, run: &WriterRun, at_ms: u64) {
        if self.names.len() >= WRITERS_MAX && !self.names.contains_key(&run.name) {
            let oldest = self.names.iter().min_by_key(|(_, sequence)| sequence.at_ms).map(|(name, _)| name.clone());
            oldest.map(|name| self.names.remove(&name));
        }
        self.newest_ms = self.newest_ms.max(at_ms);
        let sequence = self.names.entry(run.name.clone()).or_default();
        (sequence.submitted, sequence.at_ms) = (Some(run.last), self.newest_ms);
    }

    /// Notes messages that became part of the stream.
    pub fn apply(&mut self, name: &str, last: u64, at_ms: u64) {
        if !self.names.contains_key(name) {
            // Recovery finds it, or it was forgotten meanwhile.
            self.submit(&WriterRun { name: name.into(), first: last, last }, at_ms);
        }
        if let Some(sequence) = self.names.get_mut(name) {
            sequence.applied = Some(last);
            sequence.submitted = sequence.submitted.max(Some(last));
            self.newest_ms = self.newest_ms.max(at_ms);
            sequence.at_ms = self.newest_ms;
        }
    }

    /// Messages that were submitted and aren't applied never become part of the stream.
    pub(crate) fn withdraw(&mut self) {
        self.names.values_mut().for_each(|sequence| sequence.submitted = sequence.applied);
        self.names.retain(|_, sequence| sequence.applied.is_some());
    }

    /// Appends its form in a checkpoint: number of names u32, and for each length of the name u8, name, number u64, time u64.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let applied = self.names.iter().filter_map(|(name, sequence)| Some((name, sequence.applied?, sequence.at_ms)));
        out.extend_from_slice(&(applied.clone().count() as u32).to_le_bytes());
        for (name, last, at_ms) in applied {
            out.push(u8::try_from(name.len()).expect("longer names are refused"));
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(&last.to_le_bytes());
            out.extend_from_slice(&at_ms.to_le_bytes());
        }
    }

    /// The names that these bytes begin with, and the bytes behind them.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (count, mut rest) = bytes.split_first_chunk::<4>()?;
        let mut writers = Self::default();
        for _ in 0..u32::from_le_bytes(*count) {
            let (length, behind) = rest.split_first()?;
            let (name, behind) = behind.split_at_checked(usize::from(*length))?;
            let (last, behind) = behind.split_first_chunk::<8>()?;
            let (at_ms, behind) = behind.split_first_chunk::<8>()?;
            let name = std::str::from_utf8(name).ok()?;
            let (last, at_ms) = (Some(u64::from_le_bytes(*last)), u64::from_le_bytes(*at_ms));
            writers.newest_ms = writers.newest_ms.max(at_ms);
            writers.names.insert(name.into(), Sequence { submitted: last, applied: last, at_ms });
            rest = behind;
        }
        Some((writers, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, first: u64, last: u64) -> WriterRun {
        WriterRun { name: name.into(), first, last }
    }

    /// The number of the last message of a name that is part of the stream.
    fn applied(writers: &Writers, name: &str) -> Option<u64> {
        writers.names.get(name).and_then(|sequence| sequence.applied)
    }

    #[test]
    fn a_number_counts_for_others_once_it_is_part_of_the_stream() {
        let mut writers = Writers::default();
        writers.submit(&run("a", 0, 9), 100);
        assert_eq!((writers.submitted("a"), applied(&writers, "a"), writers.is_empty()), (Some(9), None, true));
        assert_eq!(writers.all(), []);
        writers.apply("a", 9, 100);
        writers.submit(&run("a", 10, 19), 200);
        assert_eq!((writers.submitted("a"), applied(&writers, "a")), (Some(19), Some(9)));
        assert_eq!(writers.all(), [("a".into(), 9)]);
        writers.withdraw();
        assert_eq!((writers.submitted("a"), applied(&writers, "a")), (Some(9), Some(9)));
        writers.submit(&run("b", 0, 0), 200);
        writers.withdraw();
        assert_eq!((writers.names.len(), applied(&writers, "b")), (1, None));
    }

    #[test]
    fn the_name_that_was_silent_longest_is_forgotten() {
        let mut writers = Writers::default();
        let count = WRITERS_MAX as u64;
        (0..count).rev().for_each(|at| writers.apply(&at.to_string(), at, 1000 - at));
        writers.submit(&run("new", 0, 5), 2000);
        assert_eq!((writers.names.len(), applied(&writers, "254"), applied(&writers, "253")), (255, None, Some(253)));
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_publisher_silent() {
        let mut writers = Writers::default();
        (0..WRITERS_MAX as u64 - 1).for_each(|at| writers.apply(&at.to_string(), at, 9_000 + at));
        writers.submit(&run("active", 0, 5), 10_000);
        // An hour back.
        for (first, at_ms) in [(6, 1_000), (7, 2_000)] {
            writers.submit(&run("active", first, first), at_ms);
            writers.apply("active", first, at_ms);
        }
        writers.submit(&run("new", 0, 5), 2_001);
        assert_eq!((applied(&writers, "active"), applied(&writers, "0")), (Some(7), None));
    }

    #[test]
    fn names_come_back_and_damage_is_found() {
        let mut writers = Writers::default();
        writers.apply("a", 7, 1);
        writers.apply("name", u64::MAX, 2);
        let mut bytes = Vec::new();
        writers.encode(&mut bytes);
        assert_eq!(Writers::decode(&bytes), Some((writers, &[][..])));
        for end in 0..bytes.len() {
            assert_eq!(Writers::decode(&bytes[..end]), None);
        }
    }
}
