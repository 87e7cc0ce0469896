//! The knowledge of the logs' owners, and what recovery tells them.

use std::collections::BTreeMap;

use bytes::Bytes;
use leveret_log::{JointRecord, LiveState, LogId, Position, Replay, RoaringTreemap, SettleRange, SettleReason};

pub(crate) const DECLARE: u8 = 1;
pub(crate) const DELETE: u8 = 2;
pub(crate) const NOTE: u8 = 3;

#[derive(Clone, Debug)]
pub(crate) enum LedgerRecord {
    Message(LogId, u64, Bytes),
    /// With the number of messages.
    Chunk(LogId, u64, u16, Bytes),
    Settle(LogId, Vec<SettleRange>),
    Control(LogId, u8, Vec<u8>),
    /// Second copies of metadata, which the log appends by itself.
    Copies,
}

impl LedgerRecord {
    pub(crate) fn log(&self) -> LogId {
        match self {
            LedgerRecord::Message(log, ..)
            | LedgerRecord::Chunk(log, ..)
            | LedgerRecord::Settle(log, ..)
            | LedgerRecord::Control(log, ..) => *log,
            LedgerRecord::Copies => LogId::METADATA,
        }
    }
}

/// Whether a log has chunks instead of messages.
pub(crate) fn has_chunks(log: LogId) -> bool {
    log.0.is_multiple_of(3)
}

/// The knowledge of a log's owner. Each message of a chunk counts with all bytes of the chunk.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ledger {
    pub(crate) next: u64,
    pub(crate) live: BTreeMap<u64, Option<Bytes>>,
    pub(crate) bytes: u64,
    pub(crate) controls: Vec<(u8, Vec<u8>)>,
}

/// All logs. Logs that aren't in the metadata don't exist.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ledgers(pub(crate) BTreeMap<LogId, Ledger>);

impl Default for Ledgers {
    fn default() -> Ledgers {
        Ledgers([(LogId::METADATA, Ledger { next: 1, ..Ledger::default() })].into())
    }
}

impl Ledgers {
    pub(crate) fn apply(&mut self, record: &LedgerRecord) {
        match record {
            LedgerRecord::Message(log, number, payload) => {
                self.messages_with(*log, *number, 1, payload.len(), Some(payload))
            }
            LedgerRecord::Chunk(log, first, messages, payload) => {
                self.messages_with(*log, *first, *messages, payload.len(), Some(payload))
            }
            LedgerRecord::Settle(log, ranges) => self.settle(*log, SettleReason::Acknowledged, ranges),
            LedgerRecord::Control(log, kind, payload) => self.control(*log, *kind, payload),
            LedgerRecord::Copies => {}
        }
    }

    /// Takes back the last chunk of a log, whose payload has this length.
    pub(crate) fn forget_last_chunk(&mut self, log: LogId, first: u64, length: usize) {
        let ledger = self.0.get_mut(&log).expect("it has a chunk");
        for number in first..std::mem::replace(&mut ledger.next, first) {
            ledger.live.remove(&number);
            ledger.bytes -= length as u64;
        }
    }

    fn messages_with(&mut self, log: LogId, first: u64, messages: u16, length: usize, payload: Option<&Bytes>) {
        if let Some(ledger) = self.0.get_mut(&log) {
            for number in first..first + u64::from(messages) {
                ledger.next = ledger.next.max(number + 1);
                ledger.bytes += length as u64;
                ledger.live.insert(number, payload.cloned());
            }
        }
    }

    /// The ledgers without the payloads.
    pub(crate) fn outline(&self) -> Ledgers {
        let mut outline = self.clone();
        for ledger in outline.0.values_mut() {
            ledger.live.values_mut().for_each(|payload| *payload = None);
        }
        outline
    }

    pub(crate) fn state(&self, log: LogId, position: Position) -> Option<LiveState> {
        let ledger = self.0.get(&log)?;
        let mut state = Vec::new();
        for (kind, payload) in &ledger.controls {
            state.push(*kind);
            state.push(payload.len() as u8);
            state.extend_from_slice(payload);
        }
        Some(LiveState {
            log,
            next: ledger.next,
            position,
            live: ledger.live.keys().copied().collect(),
            bytes: ledger.bytes,
            state,
            ..LiveState::default()
        })
    }
}

impl Replay for Ledgers {
    fn restore(&mut self, state: LiveState) {
        if state.log != LogId::METADATA && !self.0.contains_key(&state.log) {
            return;
        }
        let mut rest = &state.state[..];
        let mut controls = Vec::new();
        while !rest.is_empty() {
            let length = rest[1] as usize;
            controls.push((rest[0], rest[2..2 + length].to_vec()));
            rest = &rest[2 + length..];
        }
        if state.log == LogId::METADATA {
            controls.iter().for_each(|(kind, payload)| self.control(state.log, *kind, payload));
            return;
        }
        let ledger = Ledger {
            next: state.next,
            live: state.live.iter().map(|number| (number, None)).collect(),
            bytes: state.bytes,
            controls,
        };
        self.0.insert(state.log, ledger);
    }

    fn message(&mut self, log: LogId, number: u64, payload: &[u8]) {
        self.messages_with(log, number, 1, payload.len(), None);
    }

    fn chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, payload } = record;
        self.messages_with(log, first, messages, payload.len(), None);
    }

    fn references(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, .. } = record;
        panic!("{log}/{first} refers to another log, and nobody wrote that");
    }

    fn withdraw(&mut self, log: LogId, number: u64, _: &[u8]) {
        panic!("{log}/{number} is withdrawn, and there are no groups");
    }

    fn withdraw_chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, .. } = record;
        panic!("{log}/{first} is withdrawn, and there are no groups");
    }

    fn settle(&mut self, log: LogId, _: SettleReason, ranges: &[SettleRange]) {
        if let Some(ledger) = self.0.get_mut(&log) {
            for range in ranges {
                ledger.bytes -= range.bytes;
                for number in range.first..=range.last {
                    ledger.live.remove(&number);
                }
            }
        }
    }

    fn wanted(&self, log: LogId, numbers: &RoaringTreemap) -> RoaringTreemap {
        let is_live = |number: &u64| self.0.get(&log).is_some_and(|ledger| ledger.live.contains_key(number));
        numbers.iter().filter(is_live).collect()
    }

    fn control(&mut self, log: LogId, kind: u8, payload: &[u8]) {
        if let Some(ledger) = self.0.get_mut(&log) {
            ledger.controls.push((kind, payload.to_vec()));
        }
        if log == LogId::METADATA && kind != NOTE {
            let other = LogId(u64::from(payload[0]));
            if kind == DECLARE {
                let next = u64::from(!has_chunks(other));
                self.0.insert(other, Ledger { next, ..Ledger::default() });
            } else {
                self.0.remove(&other);
            }
        }
    }
}
