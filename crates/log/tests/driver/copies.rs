//! A repaired copy, as its owners see it.

use std::collections::BTreeMap;

use leveret_log::{JointRecord, LiveState, LogId, Survivors};

use super::{Ledgers, body};

/// The owners of all logs, and the messages that were copied.
#[derive(Default)]
pub(crate) struct Copies {
    pub(crate) ledgers: Ledgers,
    copied: BTreeMap<LogId, Vec<u64>>,
}

impl Survivors for Copies {
    fn is_alive(&self, log: LogId, number: u64) -> bool {
        self.ledgers.0.get(&log).is_some_and(|ledger| ledger.live.contains_key(&number))
    }

    fn copied(&mut self, log: LogId, number: u64, _: &[u8]) {
        self.copied.entry(log).or_default().push(number);
    }

    fn copied_chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, payload } = record;
        assert_eq!(payload[4..], body(log, first, payload.len() - 4)[..]);
        let numbers = first..first + u64::from(messages);
        let live: Vec<u64> = numbers.filter(|number| self.is_alive(log, *number)).collect();
        self.copied.entry(log).or_default().extend(live);
    }

    fn states(&mut self) -> Vec<LiveState> {
        let state = |(log, numbers): (LogId, Vec<u64>)| {
            let next = self.ledgers.0[&log].next;
            LiveState { log, next, live: numbers.into_iter().collect(), ..LiveState::default() }
        };
        let metadata = LiveState::default();
        std::iter::once(metadata).chain(std::mem::take(&mut self.copied).into_iter().map(state)).collect()
    }
}
