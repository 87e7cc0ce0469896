//! Bytes that can't be copied any more, and the messages lost with them.

use std::ops::{Range, RangeInclusive};

use roaring::RoaringTreemap;
use rustc_hash::FxHashMap;

use crate::error::ReadError;
use crate::format::segment_index::LogIndex;
use crate::live_state::LiveState;
use crate::types::LogId;
use std::collections::BTreeMap;

/// Damaged bytes.
#[derive(Debug)]
struct Fault {
    file: String,
    range: Range<u64>,
    /// The log they belong to, if that can be told.
    log: Option<LogId>,
    reason: String,
}

/// Damaged bytes found while messages were copied, and the messages copied all the same.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    faults: Vec<Fault>,
    kept: FxHashMap<LogId, RoaringTreemap>,
}

impl Losses {
    /// Notes that these messages were copied.
    pub(crate) fn kept(&mut self, log: LogId, numbers: RangeInclusive<u64>) {
        self.kept.entry(log).or_default().insert_range(numbers);
    }

    /// Notes damaged bytes.
    pub(crate) fn damage(&mut self, file: &str, range: Range<u64>, log: Option<LogId>, reason: &str) {
        self.faults.push(Fault { file: file.to_owned(), range, log, reason: reason.to_owned() });
    }

    /// An error for each log that lost messages, and at least one for each file with a fault; it names the metadata
    /// if nothing was lost.
    pub(crate) fn report(self, held: &[(LogId, LogIndex)], states: &BTreeMap<LogId, LiveState>) -> Vec<ReadError> {
        if self.faults.is_empty() {
            return Vec::new();
        }
        let mut lost: BTreeMap<LogId, RoaringTreemap> = BTreeMap::new();
        for (log, index) in held.iter().filter(|(_, index)| index.messages > 0) {
            let Some(state) = states.get(log) else {
                continue;
            };
            let mut missing = state.stored_here().into_owned();
            missing.remove_range(..index.first);
            missing.remove_range(index.last.saturating_add(1)..);
            if let Some(kept) = self.kept.get(log) {
                missing -= kept;
            }
            if !missing.is_empty() {
                *lost.entry(*log).or_default() |= missing;
            }
        }
        let mut errors: Vec<ReadError> = Vec::new();
        for (log, numbers) in &lost {
            let own = self.faults.iter().find(|fault| fault.log == Some(*log));
            let Some(fault) = own.or_else(|| self.faults.iter().find(|fault| fault.log.is_none())) else {
                continue;
            };
            let (first, last) = (numbers.min().unwrap_or(0), numbers.max().unwrap_or(0));
            let count = numbers.len();
            let reason = format!("{}; {count} messages between the numbers {first} and {last} are lost", fault.reason);
            errors.push(ReadError { file: fault.file.clone(), range: fault.range.clone(), log: *log, reason });
        }
        for fault in self.faults {
            if errors.iter().all(|error| error.file != fault.file) {
                let Fault { file, range, reason, .. } = fault;
                errors.push(ReadError { file, range, log: LogId::METADATA, reason });
            }
        }
        errors
    }
}
