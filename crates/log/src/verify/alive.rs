//! Tracks which messages are live, and which of them are in no file.

use roaring::RoaringTreemap;
use rustc_hash::FxHashMap;

use super::Owners;
use crate::live_state::LiveState;
use crate::recover::{Damage, Hit, Numbers, Replay};
use crate::types::{JointRecord, LogId, SettleRange, SettleReason};

/// One log's messages.
#[derive(Debug, Default)]
struct Alive {
    /// Messages below this are in the checkpoint's live set, or settled.
    next: u64,
    live: RoaringTreemap,
    /// Numbers that a settle names although they aren't known to be live: settled before, or damaged.
    settled: RoaringTreemap,
    /// Messages that are live at the checkpoint, and in no file checked so far.
    wanted: RoaringTreemap,
}

/// Passes on what is replayed, and keeps the numbers.
pub(super) struct AliveLogs<'a> {
    owners: &'a mut dyn Owners,
    logs: FxHashMap<LogId, Alive>,
    /// The metadata may be damaged: every log may have an owner.
    pub(super) all_are_owned: bool,
}

impl<'a> AliveLogs<'a> {
    pub(super) fn new(owners: &'a mut dyn Owners) -> AliveLogs<'a> {
        AliveLogs { owners, logs: FxHashMap::default(), all_are_owned: false }
    }

    fn owns(&self, log: LogId) -> bool {
        self.all_are_owned || self.owners.owns(log)
    }

    /// The live ones of these messages.
    fn alive_of(&self, numbers: &Numbers) -> RoaringTreemap {
        let mut set = RoaringTreemap::new();
        set.insert_range(numbers.first..=numbers.last);
        if let Some(alive) = self.logs.get(&numbers.log) {
            let mut gone = set.clone();
            gone.remove_range(alive.next..);
            gone -= &alive.live;
            set -= &gone;
            set -= &alive.settled;
        }
        set
    }

    /// Reduces the messages that were hit to the lost ones: those that are live, including by the settles that follow
    /// the damage.
    pub(super) fn leave_alive(&mut self, damage: &mut Damage) {
        let mut left = Vec::new();
        for numbers in std::mem::take(&mut damage.messages) {
            if numbers.log == LogId::SHARED {
                if let Some(known) = self.logs.get_mut(&numbers.log) {
                    known.wanted.remove_range(numbers.first..=numbers.last);
                }
                left.extend(self.owners.referring(&numbers));
                continue;
            }
            if !self.owns(numbers.log) {
                continue;
            }
            let alive = self.alive_of(&numbers);
            if let Some(known) = self.logs.get_mut(&numbers.log) {
                known.wanted -= &alive;
            }
            left.extend(ranges(numbers.log, &alive));
        }
        left.sort_unstable();
        damage.messages = left;
    }

    /// Whether a damage may have hit messages that somebody owns.
    pub(super) fn may_hit_owned(&self, damage: &Damage) -> bool {
        match &damage.logs {
            Hit::Logs(logs) => logs.iter().any(|log| *log == LogId::SHARED || self.owns(*log)),
            Hit::Any => true,
        }
    }

    /// Live messages that are in no file.
    pub(super) fn missing(&self) -> Vec<Numbers> {
        let mut missing: Vec<Numbers> = Vec::new();
        for (log, alive) in &self.logs {
            let mut wanted = &alive.wanted & &alive.live;
            if *log == LogId::SHARED {
                let shared = ranges(*log, &wanted);
                missing.extend(shared.iter().flat_map(|numbers| self.owners.referring(numbers)));
            } else if self.owns(*log) {
                for numbers in self.owners.elsewhere(*log) {
                    wanted.remove_range(numbers.first..=numbers.last);
                }
                missing.extend(ranges(*log, &wanted));
            }
        }
        missing.sort_unstable();
        missing
    }

    /// Number of live messages.
    pub(super) fn count(&self) -> u64 {
        let queues = self.logs.iter().filter(|(log, _)| **log != LogId::SHARED && self.owns(**log));
        queues.map(|(_, alive)| alive.live.len()).sum()
    }
}

/// Converts a set to ranges.
fn ranges(log: LogId, set: &RoaringTreemap) -> Vec<Numbers> {
    let mut ranges: Vec<Numbers> = Vec::new();
    for number in set {
        match ranges.last_mut() {
            Some(last) if last.last + 1 == number => last.last = number,
            _ => ranges.push(Numbers { log, first: number, last: number }),
        }
    }
    ranges
}

impl Replay for AliveLogs<'_> {
    fn restore(&mut self, state: LiveState) {
        let (next, live) = (state.next, state.live.clone());
        let alive = Alive { next, wanted: live.clone(), live, ..Alive::default() };
        self.logs.insert(state.log, alive);
        self.owners.restore(state);
    }

    fn owned(&self, first: LogId, last: LogId) -> Vec<LogId> {
        self.owners.owned(first, last)
    }

    fn message(&mut self, log: LogId, number: u64, payload: &[u8]) {
        self.logs.entry(log).or_default().live.insert(number);
        self.owners.message(log, number, payload);
    }

    fn stands(&mut self, log: LogId, first: u64, last: u64) {
        if let Some(alive) = self.logs.get_mut(&log) {
            alive.wanted.remove_range(first..=last);
        }
    }

    fn references(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, .. } = record;
        self.logs.entry(log).or_default().live.insert_range(first..first + u64::from(messages));
        self.owners.references(record);
    }

    fn chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, .. } = record;
        self.logs.entry(log).or_default().live.insert_range(first..first + u64::from(messages));
        self.owners.chunk(record);
    }

    fn withdraw(&mut self, log: LogId, number: u64, payload: &[u8]) {
        self.logs.entry(log).or_default().live.remove(number);
        self.owners.withdraw(log, number, payload);
    }

    fn withdraw_chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, .. } = record;
        self.logs.entry(log).or_default().live.remove_range(first..first + u64::from(messages));
        self.owners.withdraw_chunk(record);
    }

    fn settle(&mut self, log: LogId, reason: SettleReason, settled: &[SettleRange]) {
        let alive = self.logs.entry(log).or_default();
        for range in settled {
            let count = range.last - range.first + 1;
            if alive.live.remove_range(range.first..=range.last) < count {
                alive.settled.insert_range(range.first..=range.last);
            }
        }
        self.owners.settle(log, reason, settled);
    }

    fn control(&mut self, log: LogId, kind: u8, payload: &[u8]) {
        self.owners.control(log, kind, payload);
    }
}
