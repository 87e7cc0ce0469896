//! A log on a disk that loses power, and a simple model of everything that was ever appended.

use std::collections::BTreeMap;

use bytes::Bytes;
use leveret_log::{
    Done, Event, Job, JoinChunks, Lane, LiveState, Log, LogId, Nanos, NewChunk, Next, Options, Payload, Position,
    SettleRange, SettleReason, Step, StorageError, Wait, recover,
};
use leveret_sim::disk::SimDisk;
use leveret_sim::lanes::next_job_of;
use leveret_sim::random::Random;

mod check;
mod ledger;

pub(crate) use check::{Recovered, check, check_salts};
use ledger::{DECLARE, DELETE, LedgerRecord, Ledgers, NOTE, has_chunks};

/// The history of a run.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// All records in order of positions.
    pub(crate) records: Vec<LedgerRecord>,
    /// Pairs of a number of changes of the disk and the position that was reported durable by then.
    pub(crate) confirmed: Vec<(usize, Position)>,
    /// The failures that checks during the run found.
    pub(crate) faults: Vec<String>,
}

impl History {
    /// The position that was confirmed before the disk's change with this index.
    pub(crate) fn confirmed_at(&self, changes: usize) -> Position {
        let before = self.confirmed.iter().filter(|(count, _)| *count <= changes);
        before.map(|(_, position)| *position).max().unwrap_or(0)
    }
}

pub(crate) struct World {
    pub(crate) log: Log,
    pub(crate) disk: SimDisk,
    pub(crate) ledgers: Ledgers,
    pub(crate) history: History,
    last: BTreeMap<LogId, Position>,
    next_log: u64,
    random: Random,
    now: Nanos,
    gate: Position,
    /// The position that each retired WAL file waits for.
    gates: BTreeMap<String, Position>,
}

/// The first bytes of a chunk's payload: the number of its first message, and how many it has.
pub(crate) fn chunk_head(first: u64, messages: u16) -> [u8; 10] {
    let mut head = [0; 10];
    head[..8].copy_from_slice(&first.to_le_bytes());
    head[8..].copy_from_slice(&messages.to_le_bytes());
    head
}

/// Joins chunks of up to a thousand bytes: their bodies, behind a head that counts the messages of all.
#[derive(Debug)]
struct Summed;

impl JoinChunks for Summed {
    fn join(&self, data: &mut Vec<u8>, at: usize, next: &Payload<'_>) -> bool {
        let body = next.body.expect("it has one");
        if body.len() > 1000 {
            return false;
        }
        let count = |head: &[u8]| u16::from_le_bytes([head[8], head[9]]);
        let sum = count(&data[at..]) + count(next.head);
        data[at + 8..at + 10].copy_from_slice(&sum.to_le_bytes());
        data.extend_from_slice(body);
        true
    }

    fn complete(&self, _: &mut [u8]) {}
}

pub(crate) fn options() -> Options {
    Options {
        file_bytes: 64 << 10,
        buffer_bytes: 256 << 10,
        reserve_bytes: 16 << 10,
        survey_interval: 20_000_000,
        mixed_below: 8 << 10,
        node_id: 7,
        ..Options::default()
    }
}

impl World {
    pub(crate) fn new(options: Options, seed: u64) -> World {
        let disk = SimDisk::new();
        let mut ledgers = Ledgers::default();
        let (log, _) = recover(&disk, options, &mut ledgers, 0).expect("the disk is empty");
        World::resume(log, disk, ledgers, Vec::new(), seed)
    }

    /// Continues after a recovery.
    pub(crate) fn resume(log: Log, disk: SimDisk, ledgers: Ledgers, records: Vec<LedgerRecord>, seed: u64) -> World {
        let mut last = BTreeMap::new();
        for (position, record) in (1..).zip(&records) {
            last.insert(record.log(), position);
        }
        let declared = |record: &LedgerRecord| match record {
            LedgerRecord::Control(LogId::METADATA, DECLARE, payload) => Some(u64::from(payload[0])),
            _ => None,
        };
        let next_log = records.iter().filter_map(declared).max().unwrap_or(0) + 1;
        let mut world = World {
            history: History { records, ..History::default() },
            log,
            disk,
            ledgers,
            last,
            next_log,
            random: Random::new(seed),
            now: 1_000_000_000,
            gate: 0,
            gates: BTreeMap::new(),
        };
        world.note_copies(world.log.appended());
        world
    }

    /// Notes the records up to this position that the log appended by itself.
    fn note_copies(&mut self, position: Position) {
        while (self.history.records.len() as Position) < position {
            self.history.records.push(LedgerRecord::Copies);
        }
    }

    fn record(&mut self, record: LedgerRecord, position: Position) {
        self.note_copies(position - 1);
        self.ledgers.apply(&record);
        self.last.insert(record.log(), position);
        self.history.records.push(record);
        assert_eq!(self.history.records.len() as u64, position, "positions are dense");
        self.note_durable();
    }

    fn note_durable(&mut self) {
        let confirmed = (self.disk.count(), self.log.durable());
        if self.history.confirmed.last().map(|(_, position)| *position) != Some(confirmed.1) {
            self.history.confirmed.push(confirmed);
        }
    }

    /// Carries out one random operation of an owner.
    pub(crate) fn operate(&mut self) {
        let logs: Vec<LogId> = self.ledgers.0.keys().copied().filter(|log| *log != LogId::METADATA).collect();
        let pick = self.random.below(100);
        if logs.len() < 3 || pick < 2 {
            return self.declare();
        }
        let log = logs[self.random.below(logs.len() as u64) as usize];
        match pick {
            2 if logs.len() > 3 => self.delete(log),
            3..10 => self.control(log),
            10..45 => self.settle(log),
            _ if has_chunks(log) => self.publish_chunk(log),
            _ => self.publish(log),
        }
    }

    fn declare(&mut self) {
        let payload = vec![self.next_log as u8];
        self.next_log += 1;
        self.metadata(DECLARE, payload);
    }

    fn delete(&mut self, log: LogId) {
        self.metadata(DELETE, vec![log.0 as u8]);
        self.log.forget(log);
    }

    fn metadata(&mut self, kind: u8, payload: Vec<u8>) {
        let position = self.log.append_control(LogId::METADATA, kind, &payload, Wait::Confirm, self.now);
        self.record(LedgerRecord::Control(LogId::METADATA, kind, payload), position);
    }

    fn control(&mut self, log: LogId) {
        let payload = vec![7; self.random.below(100) as usize];
        let position = self.log.append_control(log, NOTE, &payload, Wait::Lazy, self.now);
        self.record(LedgerRecord::Control(log, NOTE, payload), position);
    }

    fn publish(&mut self, log: LogId) {
        let first = self.ledgers.0[&log].next;
        let bodies: Vec<Bytes> = (0..=self.random.below(5)).map(|_| self.body()).collect();
        let payloads = bodies.iter().map(|body| Payload { head: &[], body: Some(body) });
        let last = self.log.append_messages(log, first, payloads, Wait::Confirm, self.now);
        let count = bodies.len() as u64;
        for (i, body) in (0..).zip(bodies) {
            self.record(LedgerRecord::Message(log, first + i, body), last + 1 + i - count);
        }
    }

    fn publish_chunk(&mut self, log: LogId) {
        for _ in 0..=self.random.below(2) {
            self.publish_one_chunk(log);
        }
    }

    fn publish_one_chunk(&mut self, log: LogId) {
        let first = self.ledgers.0[&log].next;
        let messages = 1 + self.random.below(12) as u16;
        // A longer run than those that are copied at once.
        let body = if self.random.below(40) == 0 { Bytes::from(vec![7; 90_000]) } else { self.body() };
        let head = chunk_head(first, messages);
        let payload = Payload { head: &head, body: Some(&body) };
        let chunk = NewChunk { log, first, messages, payload };
        let chunk = self.log.append_joining_chunk(&chunk, &Summed, Wait::Confirm, self.now);
        let position = chunk.position;
        let (first, messages, payload) = match chunk.is_joined {
            false => (first, messages, [&head[..], &body].concat().into()),
            true => {
                let Some(LedgerRecord::Chunk(joined, begin, before, payload)) = self.history.records.pop() else {
                    panic!("the record before it is a chunk");
                };
                assert_eq!((joined, begin + u64::from(before)), (log, first), "it is the one before it");
                self.ledgers.forget_last_chunk(log, begin, payload.len());
                let messages = before + messages;
                (begin, messages, [&chunk_head(begin, messages)[..], &payload[10..], &body].concat().into())
            }
        };
        self.record(LedgerRecord::Chunk(log, first, messages, payload), position);
    }

    fn body(&mut self) -> Bytes {
        let length = match self.random.below(40) {
            0 => 20_000 + self.random.below(20_000),
            1..4 => 4096 + self.random.below(4000),
            _ => self.random.below(1200),
        };
        let byte = self.random.next() as u8;
        (0..length).map(|i| byte.wrapping_add((i >> 3) as u8)).collect()
    }

    fn settle(&mut self, log: LogId) {
        let live: Vec<u64> = self.ledgers.0[&log].live.keys().copied().collect();
        if live.is_empty() {
            return;
        }
        let mut ranges = Vec::new();
        let mut at = self.random.below(live.len() as u64) as usize;
        for _ in 0..=self.random.below(2) {
            // A settle ends within a chunk, or leaves out its first messages.
            let most = if has_chunks(log) { 60 } else { 8 };
            let count = 1 + self.random.below(most) as usize;
            let Some(first) = live.get(at) else {
                break;
            };
            // Numbers between live ones were settled before.
            let end = (at + count).min(live.len());
            let last = live[end - 1];
            let payload = |number: &u64| match &self.ledgers.0[&log].live[number] {
                Some(payload) => payload.len() as u64,
                None => 0,
            };
            let bytes = live[at..end].iter().map(payload).sum();
            ranges.push(SettleRange { first: *first, last, bytes });
            at = end + 1;
        }
        let position = self.log.append_settle(log, SettleReason::Acknowledged, &ranges, Wait::Lazy, self.now);
        self.record(LedgerRecord::Settle(log, ranges), position);
    }

    /// Runs a few jobs and advances the clock.
    pub(crate) fn work(&mut self) -> Result<(), StorageError> {
        for _ in 0..self.random.below(5) {
            let lane = if self.random.below(2) == 0 { Lane::Commit } else { Lane::Background };
            self.now += self.random.below(2_000_000);
            self.step(lane)?;
        }
        Ok(())
    }

    /// Runs one job of a lane. Returns whether there was one.
    pub(crate) fn step(&mut self, lane: Lane) -> Result<bool, StorageError> {
        let Next::Run(id, job) = next_job_of(&mut self.log, lane, self.now, &mut self.random) else {
            return Ok(false);
        };
        self.note_copies(self.log.appended());
        let result = match &job {
            Job::Live { logs } => {
                self.gate = self.log.appended();
                Ok(Done::Live(logs.iter().filter_map(|log| self.state(*log)).collect()))
            }
            job => {
                self.check_gate(job);
                job.run(&self.disk)
            }
        };
        drop(job);
        for event in self.log.complete(id, result, self.now)? {
            if let Event::Retired { file, .. } = event {
                self.gates.insert(file, self.gate);
            }
        }
        self.note_durable();
        Ok(true)
    }

    /// The state of a log. A chunk that waits to be written isn't a part of it: others may still be joined to it.
    fn state(&self, log: LogId) -> Option<LiveState> {
        let state = self.ledgers.state(log, self.last.get(&log).copied().unwrap_or(0))?;
        if !has_chunks(log) {
            return Some(state);
        }
        let durable = &self.history.records[..self.log.durable() as usize];
        let mut ledgers = Ledgers::default();
        durable.iter().for_each(|record| ledgers.apply(record));
        let last = durable.iter().rposition(|record| record.log() == log).map_or(0, |at| at as Position + 1);
        Some(ledgers.state(log, last).unwrap_or(LiveState { log, ..LiveState::default() }))
    }

    /// Checks that nothing is unlinked or recycled before the records that made it obsolete are durable.
    fn check_gate(&mut self, job: &Job) {
        let Job::Steps(steps) = job else {
            return;
        };
        let durable = self.log.durable();
        for step in steps {
            let (Step::Remove(name) | Step::Rename(name, _)) = step else {
                continue;
            };
            let gate = match name.starts_with("wal-") {
                true => self.gates.get(&**name).copied().unwrap_or(0),
                false => self.gate,
            };
            if durable < gate {
                let fault = format!("{name} goes while {durable} is durable and its states reflect {gate}");
                self.history.faults.push(fault);
            }
        }
    }

    /// Runs both lanes until nothing is left to do.
    pub(crate) fn settle_down(&mut self) -> Result<(), StorageError> {
        loop {
            let stepped = self.step(Lane::Commit)? | self.step(Lane::Background)?;
            if stepped {
                continue;
            }
            let times = [Lane::Commit, Lane::Background].map(|lane| match self.log.next_job(lane, self.now) {
                Next::At(at) => at,
                Next::Idle => Nanos::MAX,
                Next::Run(..) => unreachable!("nothing was left"),
            });
            match times[0].min(times[1]) {
                Nanos::MAX => return Ok(()),
                at => self.now = at,
            }
        }
    }
}
