//! Groups over several logs, with power cuts after every change of the disk, even during recovery and in the next life:
//! each group is there as a whole or not at all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use leveret_log::{
    Bug, Done, GroupId, Job, JointRecord, Lane, LiveState, Log, LogId, Nanos, NewChunk, Next, Options, Payload,
    Position, Replay, RoaringTreemap, SettleRange, SettleReason, StorageError, Wait, recover,
};
use leveret_sim::disk::SimDisk;
use leveret_sim::lanes::next_job_of;
use leveret_sim::random::Random;

const OPERATIONS: usize = 300;
const LOGS: [LogId; 4] = [LogId(1), LogId(2), LogId(3), CHUNKS];
/// A log of chunks.
const CHUNKS: LogId = LogId(4);

fn options() -> Options {
    Options {
        file_bytes: 32 << 10,
        buffer_bytes: 24 << 10,
        reserve_bytes: 4 << 10,
        mixed_below: 8 << 10,
        unretired_max: 2,
        node_id: 7,
        ..Options::default()
    }
}

/// An appended record, in order of positions. A group is identified by its number.
#[derive(Clone, Debug)]
enum Record {
    /// The messages of one record, with its length: several ones in a chunk.
    Messages(LogId, RangeInclusive<u64>, usize, Option<usize>),
    Settle(LogId, u64, Option<usize>),
    Commit(usize),
}

/// The live messages of the logs, with their lengths.
type Live = BTreeMap<LogId, BTreeMap<u64, usize>>;

/// The state that recovery has to find after these records.
fn expected(records: &[Record]) -> Live {
    let commits = |record: &Record| match record {
        Record::Commit(group) => Some(*group),
        _ => None,
    };
    let committed: BTreeSet<usize> = records.iter().filter_map(commits).collect();
    let holds = |group: &Option<usize>| group.is_none_or(|group| committed.contains(&group));
    let mut live: Live = LOGS.map(|log| (log, BTreeMap::new())).into();
    for record in records {
        match record {
            Record::Messages(log, numbers, length, group) if holds(group) => {
                live.entry(*log).or_default().extend(numbers.clone().map(|number| (number, *length)));
            }
            Record::Settle(log, number, group) if holds(group) => {
                live.entry(*log).or_default().remove(number);
            }
            _ => {}
        }
    }
    live
}

#[derive(Debug, Default)]
struct Found {
    live: Live,
    next: BTreeMap<LogId, u64>,
}

impl Replay for Found {
    fn restore(&mut self, state: LiveState) {
        self.next.insert(state.log, state.next);
        // The lengths are in the message stores.
        self.live.insert(state.log, state.live.iter().map(|number| (number, 0)).collect());
    }

    fn message(&mut self, log: LogId, number: u64, payload: &[u8]) {
        let next = self.next.entry(log).or_default();
        assert!(number >= *next, "{log}/{number} comes after {next}");
        *next = number + 1;
        self.live.entry(log).or_default().insert(number, payload.len());
    }

    fn chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, payload } = record;
        (first..first + u64::from(messages)).for_each(|number| self.message(log, number, payload));
    }

    fn references(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, .. } = record;
        panic!("{log}/{first} refers to another log, and nobody wrote that");
    }

    fn withdraw(&mut self, log: LogId, number: u64, payload: &[u8]) {
        let length = self.live.entry(log).or_default().remove(&number);
        assert_eq!(length, Some(payload.len()), "{log}/{number} is withdrawn and was never there");
    }

    fn withdraw_chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, payload } = record;
        (first..first + u64::from(messages)).for_each(|number| self.withdraw(log, number, payload));
    }

    fn settle(&mut self, log: LogId, _: SettleReason, ranges: &[SettleRange]) {
        for range in ranges {
            let live = self.live.entry(log).or_default();
            live.retain(|number, _| !(range.first..=range.last).contains(number));
        }
    }

    fn wanted(&self, log: LogId, numbers: &RoaringTreemap) -> RoaringTreemap {
        let is_live = |number: &u64| self.live.get(&log).is_some_and(|live| live.contains_key(number));
        numbers.iter().filter(is_live).collect()
    }

    fn control(&mut self, _: LogId, _: u8, _: &[u8]) {}
}

/// A queue's knowledge: messages are applied in order, those of a group when its commit record is durable.
#[derive(Debug, Default)]
struct Owner {
    next: u64,
    next_applied: u64,
    live: BTreeSet<u64>,
    pending: VecDeque<(RangeInclusive<u64>, Waits)>,
    last_record: Position,
}

#[derive(Clone, Copy, Debug)]
enum Waits {
    At(Position),
    Group(usize),
}

struct OpenGroup {
    id: GroupId,
    number: usize,
    steps: u64,
}

struct World {
    log: Log,
    disk: SimDisk,
    random: Random,
    now: Nanos,
    records: Vec<Record>,
    confirmed: Vec<(usize, Position)>,
    owners: BTreeMap<LogId, Owner>,
    open: Vec<OpenGroup>,
    commits: BTreeMap<usize, Position>,
    groups: usize,
}

impl World {
    fn start(disk: SimDisk, options: &Options, records: Vec<Record>, seed: u64) -> Result<World, String> {
        let mut found = Found::default();
        let (log, _) = recover(&disk, options.clone(), &mut found, 0).map_err(|error| error.to_string())?;
        let owners = LOGS.map(|log| {
            let next = found.next.get(&log).copied().unwrap_or(0);
            let live = found.live.get(&log).map(|live| live.keys().copied().collect()).unwrap_or_default();
            (log, Owner { next, next_applied: next, live, ..Owner::default() })
        });
        let groups = records.iter().map(|record| match record {
            Record::Messages(.., Some(group)) | Record::Settle(.., Some(group)) | Record::Commit(group) => group + 1,
            _ => 0,
        });
        let groups = groups.max().unwrap_or(0);
        let random = Random::new(seed);
        Ok(World {
            log,
            disk,
            random,
            now: 1_000_000_000,
            records,
            confirmed: Vec::new(),
            owners: owners.into(),
            open: Vec::new(),
            commits: BTreeMap::new(),
            groups,
        })
    }

    fn note(&mut self, record: Record, position: Position) {
        self.records.push(record);
        assert_eq!(self.records.len() as Position, position, "positions are dense");
    }

    fn any_log(&mut self) -> LogId {
        LOGS[self.random.below(LOGS.len() as u64) as usize]
    }

    fn publish(&mut self, group: Option<usize>) {
        let log = self.any_log();
        let length = [20, 200, 3_000, 9_000][self.random.below(4) as usize];
        let body = Bytes::from(vec![length as u8; length]);
        let payload = Payload { head: &[], body: Some(&body) };
        let messages = if log == CHUNKS { 1 + self.random.below(9) as u16 } else { 1 };
        let owner = self.owners.get_mut(&log).expect("it is one of them");
        let first = owner.next;
        owner.next += u64::from(messages);
        let numbers = first..=owner.next - 1;
        let id = group.map(|at| self.open[at].id);
        let position = match id {
            None if log == CHUNKS => {
                self.log.append_chunk(&NewChunk { log, first, messages, payload }, Wait::Confirm, self.now)
            }
            Some(id) if log == CHUNKS => {
                self.log.append_chunk_in(id, &NewChunk { log, first, messages, payload }, self.now)
            }
            None => self.log.append_messages(log, first, [payload].into_iter(), Wait::Confirm, self.now),
            Some(id) => self.log.append_messages_in(id, log, first, [payload].into_iter(), self.now),
        };
        let group = group.map(|at| self.open[at].number);
        owner.pending.push_back((numbers.clone(), group.map_or(Waits::At(position), Waits::Group)));
        owner.last_record = position;
        self.note(Record::Messages(log, numbers, length, group), position);
    }

    fn settle(&mut self, group: Option<usize>) {
        let log = self.any_log();
        let owner = self.owners.get_mut(&log).expect("it is one of them");
        let Some(number) = owner.live.pop_first() else { return };
        let range = [SettleRange { first: number, last: number, bytes: 0 }];
        let reason = SettleReason::DeadLettered;
        let position = match group {
            None => self.log.append_settle(log, reason, &range, Wait::Lazy, self.now),
            Some(at) => self.log.append_settle_in(self.open[at].id, log, reason, &range, self.now),
        };
        owner.last_record = position;
        let group = group.map(|at| self.open[at].number);
        self.note(Record::Settle(log, number, group), position);
    }

    fn operate(&mut self) {
        let pick = self.random.below(100);
        match pick {
            0..20 if self.open.len() < 3 => {
                let id = self.log.begin_group();
                let steps = 1 + self.random.below(5);
                self.open.push(OpenGroup { id, number: self.groups, steps });
                self.groups += 1;
            }
            0..80 if !self.open.is_empty() => {
                let at = self.random.below(self.open.len() as u64) as usize;
                self.go_on_with(at);
            }
            0..90 => self.publish(None),
            _ => self.settle(None),
        }
    }

    fn go_on_with(&mut self, at: usize) {
        if self.open[at].steps > 0 {
            self.open[at].steps -= 1;
            return if self.random.below(2) == 0 { self.publish(Some(at)) } else { self.settle(Some(at)) };
        }
        let OpenGroup { id, number, .. } = self.open.swap_remove(at);
        if let Some(position) = self.log.commit_group(id, Wait::Confirm, self.now) {
            self.commits.insert(number, position);
            self.note(Record::Commit(number), position);
        }
    }

    fn apply(&mut self) {
        let durable = self.log.durable();
        let holds = |waits: &Waits| match waits {
            Waits::At(position) => *position <= durable,
            Waits::Group(group) => self.commits.get(group).is_some_and(|position| *position <= durable),
        };
        for owner in self.owners.values_mut() {
            while let Some((numbers, _)) = owner.pending.pop_front_if(|(_, waits)| holds(waits)) {
                owner.next_applied = numbers.end() + 1;
                owner.live.extend(numbers);
            }
        }
        self.confirmed.push((self.disk.count(), durable));
    }

    fn state(&self, log: LogId) -> LiveState {
        let owner = self.owners.get(&log).expect("only these are touched");
        let (next, position) = (owner.next_applied, owner.last_record);
        LiveState { log, next, position, live: owner.live.iter().collect(), ..LiveState::default() }
    }

    fn step(&mut self, lane: Lane) -> Result<bool, StorageError> {
        let Next::Run(id, job) = next_job_of(&mut self.log, lane, self.now, &mut self.random) else {
            return Ok(false);
        };
        let result = match &job {
            Job::Live { logs } => {
                self.apply();
                Ok(Done::Live(logs.iter().map(|log| self.state(*log)).collect()))
            }
            job => job.run(&self.disk),
        };
        drop(job);
        self.log.complete(id, result, self.now)?;
        self.apply();
        Ok(true)
    }

    fn work(&mut self) -> Result<(), StorageError> {
        for _ in 0..self.random.below(6) {
            let lane = if self.random.below(2) == 0 { Lane::Commit } else { Lane::Background };
            self.now += self.random.below(2_000_000);
            self.step(lane)?;
        }
        Ok(())
    }

    fn run(&mut self, operations: usize) -> Result<(), StorageError> {
        for _ in 0..operations {
            self.operate();
            self.work()?;
        }
        Ok(())
    }

    fn confirmed_at(&self, changes: usize) -> Position {
        let before = self.confirmed.iter().take_while(|(count, _)| *count <= changes);
        before.map(|(_, position)| *position).max().unwrap_or(0)
    }
}

#[derive(Debug, Default)]
struct Counts {
    recoveries: usize,
    withdrawn: u64,
    restored: u64,
}

/// Checks that a power cut left a prefix of the records, with all confirmed ones, and each group whole or absent.
fn check(
    disk: &SimDisk,
    options: &Options,
    records: &[Record],
    confirmed: Position,
) -> Result<(Position, u64), String> {
    let mut found = Found::default();
    let (log, report) = recover(disk, options.clone(), &mut found, 0).map_err(|error| error.to_string())?;
    if !report.damaged.is_empty() {
        return Err(format!("damage is reported: {:?}", report.damaged));
    }
    if report.position < confirmed || report.position > records.len() as Position {
        return Err(format!("{} records of {}, confirmed were {confirmed}", report.position, records.len()));
    }
    for (id, live) in expected(&records[..report.position as usize]) {
        let there: Vec<u64> = found.live.get(&id).map(|live| live.keys().copied().collect()).unwrap_or_default();
        let wanted: Vec<u64> = live.keys().copied().collect();
        if there != wanted {
            return Err(format!("log {id} at {}: {there:?} instead of {wanted:?}", report.position));
        }
        for (number, length) in live {
            let plan = log.plan_read(id, number, 1).ok_or_else(|| format!("{id}/{number} is nowhere"))?;
            let read = plan.run(disk).map_err(|error| error.to_string())?;
            let message = read.iter().find(|message| (message.number..=message.last()).contains(&number));
            if message.is_none_or(|message| message.payload != vec![length as u8; length]) {
                return Err(format!("{id}/{number} isn't what was appended"));
            }
        }
    }
    Ok((report.position, report.withdrawn))
}

fn cut_everywhere(options: &Options, seed: u64, counts: &mut Counts) -> Result<(), String> {
    let mut world = World::start(SimDisk::new(), options, Vec::new(), seed)?;
    world.run(OPERATIONS).map_err(|error| error.to_string())?;
    counts.restored += world.log.statistics().checkpoints;
    for (moment, disk) in world.disk.moments().enumerate() {
        let at = |text: String| format!("cut after change {moment}: {text}");
        let confirmed = world.confirmed_at(moment);
        let cut_seed = seed * 100_000 + moment as u64;
        let crashed = disk.crash(cut_seed);
        let (position, withdrawn) = check(&crashed, options, &world.records, confirmed).map_err(at)?;
        counts.recoveries += 1;
        counts.withdrawn += withdrawn;
        if moment % 5 > 0 {
            continue;
        }
        for (step, disk) in crashed.moments().enumerate() {
            let again = disk.crash(cut_seed + step as u64);
            let text = |text| format!("cut after change {moment} and change {step} of recovery: {text}");
            check(&again, options, &world.records, confirmed).map_err(text)?;
        }
        let records = world.records[..position as usize].to_vec();
        let mut later = World::start(crashed, options, records, cut_seed)?;
        later.run(20).map_err(|error| error.to_string())?;
        let crashed = later.disk.crash(cut_seed);
        check(&crashed, options, &later.records, later.confirmed_at(usize::MAX))
            .map_err(|text| format!("cut after change {moment}, and again in the life after: {text}"))?;
    }
    Ok(())
}

#[test]
fn each_group_is_whole_or_absent_after_any_power_cut() {
    let mut counts = Counts::default();
    for seed in 1..=3 {
        cut_everywhere(&options(), seed, &mut counts).unwrap_or_else(|text| panic!("seed {seed}: {text}"));
    }
    println!("{counts:?}");
    assert!(counts.recoveries > 300 && counts.withdrawn > 100 && counts.restored > 3, "{counts:?}");
}

/// The check that catches a bug.
fn caught(bug: Bug) -> String {
    let options = Options { bug: Some(bug), ..options() };
    for seed in 1..=20 {
        let found = catch_unwind(AssertUnwindSafe(|| cut_everywhere(&options, seed, &mut Counts::default())));
        match found {
            Ok(Ok(())) => {}
            Ok(Err(text)) => return format!("{bug:?}, seed {seed}: {text}"),
            Err(_) => return format!("{bug:?}, seed {seed}: assertion"),
        }
    }
    panic!("{bug:?} was not caught");
}

#[test]
fn records_taken_without_their_commit_record_are_caught() {
    println!("{}", caught(Bug::IgnoreGroupCommit));
}

#[test]
fn a_group_cut_in_half_by_a_checkpoint_is_caught() {
    println!("{}", caught(Bug::CutGroupByCheckpoint));
}
