//! Damage of a directory, and the messages it hit.

use std::fmt;
use std::ops::Range;

use crate::format::batch::RecordRun;
use crate::format::batch_check::Fault;
use crate::types::LogId;

/// Bytes that aren't those written, although they were durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The range of its bytes.
    pub range: Range<u64>,
    /// The logs whose records were hit.
    pub logs: Hit,
    /// The messages hit, as far as their numbers are known.
    pub messages: Vec<Numbers>,
    /// Records hit whose log and number are unknown.
    pub unknown: u64,
    /// The problem.
    pub reason: String,
}

/// A file, and the range of bytes in it or the place where something is missing. The beginning of a file stands for the whole.
pub(crate) struct PlaceText<'a>(pub &'a str, pub &'a Range<u64>);

impl fmt::Display for PlaceText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlaceText(file, range) = self;
        f.write_str(file)?;
        match (range.start, range.end) {
            (0, 0) => Ok(()),
            (start, end) if start == end => write!(f, ", at byte {start}"),
            (start, end) => write!(f, ", bytes {start} to {end}"),
        }
    }
}

/// The logs that a damage hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hit {
    /// These logs.
    Logs(Vec<LogId>),
    /// Possibly any log: it can't be told.
    Any,
}

impl Hit {
    /// Whether this log may be among them.
    pub(crate) fn may_be(&self, log: LogId) -> bool {
        match self {
            Hit::Logs(logs) => logs.contains(&log),
            Hit::Any => true,
        }
    }
}

/// Messages of one log: the numbers `first..=last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Numbers {
    /// The log.
    pub log: LogId,
    /// Lowest number.
    pub first: u64,
    /// Highest number, inclusive.
    pub last: u64,
}

impl Numbers {
    /// The messages of a run.
    pub(crate) fn of_run(run: &RecordRun) -> Numbers {
        Numbers { log: run.log, first: run.first, last: run.last() }
    }

    /// Whether this message is among these, which are sorted and don't overlap.
    #[must_use]
    pub fn have(messages: &[Numbers], log: LogId, number: u64) -> bool {
        let after = messages.partition_point(|numbers| (numbers.log, numbers.first) <= (log, number));
        let before = after.checked_sub(1).map(|at| messages[at]);
        before.is_some_and(|numbers| numbers.log == log && number <= numbers.last)
    }

    /// Number of messages.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.last - self.first + 1
    }
}

impl Damage {
    pub(crate) fn new(file: &str, range: Range<u64>, logs: Hit, reason: impl Into<String>) -> Damage {
        Damage { file: file.to_owned(), range, logs, messages: Vec::new(), unknown: 0, reason: reason.into() }
    }

    /// The damage of metadata.
    pub(crate) fn of_metadata(file: &str, range: Range<u64>, reason: impl Into<String>) -> Damage {
        Damage::new(file, range, Hit::Logs(vec![LogId::METADATA]), reason)
    }

    /// The file, and the range in it.
    pub(crate) fn place(&self) -> (&str, &Range<u64>) {
        (&self.file, &self.range)
    }

    /// The damage by a fault in the batch at `offset`, whose padding begins at `bytes`.
    pub(crate) fn of_fault(file: &str, offset: u64, bytes: u64, fault: &Fault) -> Damage {
        let logs = match fault.log {
            Some(log) => Hit::Logs(vec![log]),
            None if fault.range.start >= bytes => Hit::Logs(Vec::new()),
            None => Hit::Any,
        };
        let range = offset + fault.range.start..offset + fault.range.end;
        let mut damage = Damage::new(file, range, logs, fault.reason);
        let numbers = fault.log.zip(fault.numbers);
        damage.messages.extend(numbers.map(|(log, (first, last))| Numbers { log, first, last }));
        damage.unknown = fault.unknown;
        damage
    }

    /// Adds the logs and messages of all these runs.
    pub(crate) fn with_runs(mut self, runs: &[RecordRun]) -> Damage {
        let mut logs: Vec<LogId> = runs.iter().map(|run| run.log).collect();
        logs.sort_unstable();
        logs.dedup();
        self.logs = Hit::Logs(logs);
        let messages = runs.iter().filter(|run| run.kind.is_numbered());
        self.messages.extend(messages.map(Numbers::of_run));
        self
    }

    /// Adds the logs and messages that these hit.
    pub(crate) fn with_all(mut self, others: impl Iterator<Item = Damage>) -> Damage {
        for other in others {
            self.logs = match (self.logs, other.logs) {
                (Hit::Logs(mut logs), Hit::Logs(more)) => {
                    logs.extend(more);
                    logs.sort_unstable();
                    logs.dedup();
                    Hit::Logs(logs)
                }
                _ => Hit::Any,
            };
            self.messages.extend(other.messages);
            self.unknown += other.unknown;
        }
        self.messages.sort_unstable();
        self
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file.is_empty() {
            return f.write_str(&self.reason);
        }
        write!(f, "{}: {}", PlaceText(&self.file, &self.range), self.reason)
    }
}
