//! Runs a log's jobs and keeps a naive model of the log's content.

pub(crate) mod copies;
pub(crate) mod watched;

use std::collections::BTreeMap;

use bytes::Bytes;
use leveret_log::{
    Done, Event, Job, JointRecord, Lane, LiveState, Log, LogId, MemoryDisk, Nanos, NewChunk, Next, Numbers, Options,
    Owners, Payload, Position, Replay, Report, RoaringTreemap, SettleRange, SettleReason, StorageError, StoredMessage,
    Verified, Wait, recover, verify,
};

/// A log's state as its owner knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OwnedLog {
    pub(crate) next: u64,
    pub(crate) position: Position,
    pub(crate) live: BTreeMap<u64, u64>,
    pub(crate) controls: Vec<(u8, Vec<u8>)>,
}

impl OwnedLog {
    fn encode_controls(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, payload) in &self.controls {
            bytes.push(*kind);
            bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            bytes.extend_from_slice(payload);
        }
        bytes
    }

    fn decode_controls(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut controls = Vec::new();
        while !bytes.is_empty() {
            let length = u32::from_le_bytes(bytes[1..5].try_into().unwrap()) as usize;
            controls.push((bytes[0], bytes[5..5 + length].to_vec()));
            bytes = &bytes[5 + length..];
        }
        controls
    }

    /// Adds a chunk, whose bytes count as those of its first message.
    pub(crate) fn add_chunk(&mut self, first: u64, messages: u16, length: usize) {
        self.next = first + u64::from(messages);
        self.live.insert(first, length as u64);
        self.live.extend((first + 1..self.next).map(|number| (number, 0)));
    }

    fn state(&self, log: LogId) -> LiveState {
        LiveState {
            log,
            next: self.next,
            position: self.position,
            live: self.live.keys().copied().collect(),
            bytes: self.live.values().sum(),
            state: self.encode_controls(),
            ..LiveState::default()
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ledgers(pub(crate) BTreeMap<LogId, OwnedLog>);

impl Replay for Ledgers {
    fn restore(&mut self, state: LiveState) {
        let ledger = OwnedLog {
            next: state.next,
            position: state.position,
            live: state.live.iter().map(|number| (number, 0)).collect(),
            controls: OwnedLog::decode_controls(&state.state),
        };
        assert!(self.0.insert(state.log, ledger).is_none());
    }

    fn message(&mut self, log: LogId, number: u64, payload: &[u8]) {
        let ledger = self.0.entry(log).or_default();
        assert!(number >= ledger.next.max(1), "{log} {number}");
        ledger.next = number + 1;
        ledger.live.insert(number, payload.len() as u64);
    }

    fn references(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, payload } = record;
        let ledger = self.0.entry(log).or_default();
        assert!(first >= ledger.next.max(1), "{log} {first}");
        ledger.next = first + u64::from(messages);
        ledger.live.extend((first..ledger.next).map(|number| (number, 0)));
        ledger.controls.push((0, payload.to_vec()));
    }

    fn chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, payload } = record;
        let ledger = self.0.entry(log).or_default();
        assert!(first >= ledger.next, "{log} {first}");
        ledger.add_chunk(first, messages, payload.len());
    }

    fn withdraw(&mut self, log: LogId, number: u64, payload: &[u8]) {
        let length = self.0.get_mut(&log).and_then(|ledger| ledger.live.remove(&number));
        assert_eq!(length, Some(payload.len() as u64), "{log} {number}");
    }

    fn withdraw_chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, payload } = record;
        let ledger = self.0.get_mut(&log).expect("it was replayed");
        let mut lengths = (first..first + u64::from(messages)).map(|number| ledger.live.remove(&number));
        assert_eq!(lengths.next(), Some(Some(payload.len() as u64)), "{log} {first}");
        assert!(lengths.all(|length| length == Some(0)), "{log} {first}");
    }

    fn settle(&mut self, log: LogId, _: SettleReason, ranges: &[SettleRange]) {
        let ledger = self.0.entry(log).or_default();
        for range in ranges {
            for number in range.first..=range.last {
                ledger.live.remove(&number);
            }
        }
    }

    fn wanted(&self, log: LogId, numbers: &RoaringTreemap) -> RoaringTreemap {
        let live = |number: &u64| self.0.get(&log).is_some_and(|ledger| ledger.live.contains_key(number));
        numbers.iter().filter(live).collect()
    }

    fn control(&mut self, log: LogId, kind: u8, payload: &[u8]) {
        let ledger = self.0.entry(log).or_default();
        ledger.controls.push((kind, payload.to_vec()));
    }
}

impl Owners for Ledgers {
    fn owns(&self, _: LogId) -> bool {
        true
    }

    fn elsewhere(&self, _: LogId) -> Vec<Numbers> {
        Vec::new()
    }

    fn referring(&self, _: &Numbers) -> Vec<Numbers> {
        Vec::new()
    }
}

/// Checks a directory offline.
pub(crate) fn check(disk: &MemoryDisk, options: &Options) -> Result<Verified, StorageError> {
    verify(disk, options, &mut Ledgers::default())
}

pub(crate) struct Driver {
    pub(crate) log: Log,
    pub(crate) disk: MemoryDisk,
    pub(crate) ledgers: Ledgers,
    pub(crate) now: Nanos,
    pub(crate) events: Vec<Event>,
    pub(crate) report: Report,
}

/// Small files, whose live messages are copied when they are retired.
pub(crate) fn small() -> Options {
    Options {
        file_bytes: 64 << 10,
        buffer_bytes: 256 << 10,
        reserve_bytes: 16 << 10,
        mixed_below: 8 << 10,
        keep_live_percent: 101,
        node_id: 77,
        ..Options::default()
    }
}

impl Driver {
    pub(crate) fn open(disk: MemoryDisk, options: Options) -> Driver {
        let mut ledgers = Ledgers::default();
        let (log, report) = recover(&disk, options, &mut ledgers, 0).unwrap();
        // They reflect all that was replayed.
        ledgers.0.values_mut().for_each(|ledger| ledger.position = ledger.position.max(report.position));
        Driver { log, disk, ledgers, now: 1_000_000_000, events: Vec::new(), report }
    }

    pub(crate) fn publish(&mut self, log: LogId, bodies: &[Bytes], wait: Wait) -> Position {
        let ledger = self.ledgers.0.entry(log).or_default();
        let first = ledger.next.max(1);
        let payloads = bodies.iter().map(|body| Payload { head: b"head", body: Some(body) });
        let position = self.log.append_messages(log, first, payloads, wait, self.now);
        for (number, body) in (first..).zip(bodies) {
            ledger.live.insert(number, body.len() as u64 + 4);
        }
        ledger.next = first + bodies.len() as u64;
        ledger.position = position;
        position
    }

    /// Appends a chunk with a payload of this length and a head of four bytes; the first one of a log begins with 0.
    pub(crate) fn publish_chunk(&mut self, log: LogId, messages: u16, length: usize, wait: Wait) -> Position {
        let ledger = self.ledgers.0.entry(log).or_default();
        let first = ledger.next;
        let payload = Payload { head: b"head", body: Some(&body(log, first, length)) };
        ledger.position = self.log.append_chunk(&NewChunk { log, first, messages, payload }, wait, self.now);
        ledger.add_chunk(first, messages, length + 4);
        ledger.position
    }

    pub(crate) fn settle(&mut self, log: LogId, numbers: std::ops::RangeInclusive<u64>) -> Position {
        let ledger = self.ledgers.0.entry(log).or_default();
        let mut bytes = 0;
        for number in numbers.clone() {
            bytes += ledger.live.remove(&number).unwrap_or(0);
        }
        let range = SettleRange { first: *numbers.start(), last: *numbers.end(), bytes };
        let reason = SettleReason::Acknowledged;
        let position = self.log.append_settle(log, reason, &[range], Wait::Lazy, self.now);
        ledger.position = position;
        position
    }

    pub(crate) fn control(&mut self, log: LogId, kind: u8, payload: &[u8]) -> Position {
        let ledger = self.ledgers.0.entry(log).or_default();
        ledger.controls.push((kind, payload.to_vec()));
        ledger.position = self.log.append_control(log, kind, payload, Wait::Confirm, self.now);
        ledger.position
    }

    pub(crate) fn delete(&mut self, log: LogId) {
        self.control(LogId::METADATA, 9, &log.0.to_le_bytes());
        self.ledgers.0.remove(&log);
        self.log.forget(log);
    }

    /// Runs one job of a lane. Returns whether there was one.
    pub(crate) fn step(&mut self, lane: Lane) -> bool {
        match self.log.next_job(lane, self.now) {
            Next::Run(id, job) => {
                let result = match &job {
                    Job::Live { logs } => Ok(Done::Live(
                        logs.iter().filter_map(|log| Some(self.ledgers.0.get(log)?.state(*log))).collect(),
                    )),
                    job => job.run(&self.disk),
                };
                drop(job);
                self.now += 10_000;
                let events = self.log.complete(id, result, self.now).unwrap();
                self.events.extend(events);
                true
            }
            Next::At(_) | Next::Idle => false,
        }
    }

    /// Runs both lanes until no work is left.
    pub(crate) fn settle_down(&mut self) {
        loop {
            let stepped = self.step(Lane::Commit) | self.step(Lane::Background);
            if stepped {
                continue;
            }
            match self.log.next_job(Lane::Commit, self.now) {
                Next::At(at) => self.now = at,
                Next::Idle => match self.log.next_job(Lane::Background, self.now) {
                    Next::At(at) => self.now = at,
                    Next::Idle => return,
                    Next::Run(..) => unreachable!("nothing was left"),
                },
                Next::Run(..) => unreachable!("nothing was left"),
            }
        }
    }

    pub(crate) fn close(mut self) -> MemoryDisk {
        self.log.close(self.now);
        while self.step(Lane::Commit) || self.step(Lane::Background) {}
        assert_eq!(self.log.durable(), self.log.appended());
        self.disk
    }

    /// All stored messages of a log numbered `from` or higher.
    pub(crate) fn read(&self, log: LogId, from: u64, max_bytes: usize) -> Vec<(u64, Bytes)> {
        self.read_stored(log, from, max_bytes).into_iter().map(|stored| (stored.number, stored.payload)).collect()
    }

    /// As [`Driver::read`], with chunks; the first one contains `from`, or comes after it.
    pub(crate) fn read_stored(&self, log: LogId, from: u64, max_bytes: usize) -> Vec<StoredMessage> {
        let mut stored: Vec<StoredMessage> = Vec::new();
        let mut next = from;
        while let Some(plan) = self.log.plan_read(log, next, max_bytes) {
            let found = plan.run(&self.disk).unwrap();
            assert!(!found.is_empty());
            for message in found {
                let is_in_order = message.number >= next || stored.is_empty() && message.last() >= next;
                assert!(is_in_order, "{} after {next}", message.number);
                next = message.last() + 1;
                stored.push(message);
            }
        }
        stored
    }
}

/// The body of a message, derived from log and number.
pub(crate) fn body(log: LogId, number: u64, length: usize) -> Bytes {
    let mut seed = log.0 * 1_000_003 + number;
    (0..length)
        .map(|_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 56) as u8
        })
        .collect::<Vec<u8>>()
        .into()
}
