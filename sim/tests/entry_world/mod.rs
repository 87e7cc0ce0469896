//! An entry log on a disk that loses power, and a simple model of what each of its records says.

use std::collections::BTreeMap;

use bytes::Bytes;
use leveret_log::{
    Disk, Entry, EntryKind, EntryLog, EntryOptions, EntryReport, FoundEntry, Lane, Nanos, Next, PlacementId, Position,
    StorageError, Vote, recover_entries,
};
use leveret_sim::disk::SimDisk;
use leveret_sim::random::Random;

const PLACEMENTS: u32 = 4;

/// A placement, as its records say it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) vote: Option<Vote>,
    pub(crate) first: u64,
    /// The entries from `first` on, as memory has them.
    pub(crate) entries: Vec<Entry>,
    /// Cut entries behind them, which are there again if no record says that they were cut.
    pub(crate) cut: Vec<Entry>,
}

impl Model {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn append(&mut self, entry: Entry) {
        let at = (entry.index - self.first) as usize;
        self.entries.truncate(at);
        self.cut.clear();
        self.entries.push(entry);
    }

    fn cut(&mut self, index: u64) {
        let at = (index.max(self.first) - self.first) as usize;
        if at < self.entries.len() {
            let mut cut = self.entries.split_off(at);
            cut.append(&mut self.cut);
            self.cut = cut;
        }
    }

    fn purge(&mut self, first: u64) {
        self.entries.drain(..(first - self.first) as usize);
        self.first = first;
        self.cut.clear();
    }
}

pub(crate) type Models = BTreeMap<PlacementId, Model>;

/// The history of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryHistory {
    /// The state that all records up to a position say, with the changes that have no record.
    states: Vec<(Position, Models)>,
    /// Pairs of a number of changes of the disk and the position that was durable by then.
    confirmed: Vec<(usize, Position)>,
}

impl EntryHistory {
    pub(crate) fn confirmed_at(&self, changes: usize) -> Position {
        let before = self.confirmed.iter().filter(|(count, _)| *count <= changes);
        before.map(|(_, position)| *position).max().unwrap_or(0)
    }

    /// The states that the records up to this position may have left.
    fn at(&self, position: Position) -> &Models {
        let after = self.states.partition_point(|(at, _)| *at <= position);
        &self.states[after - 1].1
    }
}

/// A log and its model.
pub(crate) struct EntryWorld {
    pub(crate) log: EntryLog,
    pub(crate) disk: SimDisk,
    pub(crate) options: EntryOptions,
    pub(crate) models: Models,
    pub(crate) history: EntryHistory,
    applied: BTreeMap<PlacementId, u64>,
    random: Random,
    now: Nanos,
    written: u64,
}

pub(crate) fn options() -> EntryOptions {
    EntryOptions {
        file_bytes: 16 << 10,
        files: 4,
        cached_bytes: 2 << 10,
        buffer_bytes: 64 << 10,
        disk_reserve: Some(0),
        node_id: 77,
        ..EntryOptions::default()
    }
}

pub(crate) fn recover(disk: &SimDisk, options: &EntryOptions) -> Result<(EntryLog, EntryReport), StorageError> {
    recover_entries(disk, options, 0)
}

impl EntryWorld {
    pub(crate) fn new(options: EntryOptions, seed: u64) -> EntryWorld {
        let disk = SimDisk::new();
        let (log, _) = recover(&disk, &options).expect("an empty disk is a new log");
        EntryWorld::resume(log, disk, options, Models::new(), seed)
    }

    /// Goes on with a log that has these models.
    pub(crate) fn resume(log: EntryLog, disk: SimDisk, options: EntryOptions, models: Models, seed: u64) -> EntryWorld {
        let history = EntryHistory {
            states: vec![(log.appended(), models.clone())],
            confirmed: vec![(disk.count(), log.durable())],
        };
        let applied = models.iter().map(|(placement, model)| (*placement, model.first)).collect();
        EntryWorld { log, disk, options, models, history, applied, random: Random::new(seed), now: 1, written: 0 }
    }

    fn note(&mut self, position: Position) {
        let last = self.history.states.last_mut().expect("there is always one");
        if last.0 == position {
            last.1 = self.models.clone();
        } else {
            self.history.states.push((position, self.models.clone()));
        }
    }

    fn entry(&mut self, placement: PlacementId, index: u64, term: u64) -> Entry {
        self.written += 1;
        let length = 1 + self.random.below(700) as usize;
        let body = Bytes::from(vec![self.written as u8; length]);
        Entry {
            kind: EntryKind::Commands,
            placement,
            index,
            term,
            led_by: 1,
            clock: self.written,
            committed: index,
            body,
        }
    }

    /// Appends entries, of which the first has this index.
    fn append(&mut self, placement: PlacementId, from: u64, count: u64, term: u64) {
        let entries: Vec<Entry> = (0..count).map(|at| self.entry(placement, from + at, term)).collect();
        let last = self.log.append(placement, entries.clone(), self.now).expect("it follows");
        for (at, entry) in entries.into_iter().enumerate() {
            self.models.entry(placement).or_default().append(entry);
            self.note(last - (count - 1 - at as u64));
        }
    }

    /// One random call.
    pub(crate) fn operate(&mut self) {
        self.now += 1 + self.random.below(2_000_000);
        let placement = PlacementId(self.random.below(u64::from(PLACEMENTS)) as u32);
        let model = self.models.entry(placement).or_default().clone();
        let applied = self.applied.get(&placement).copied().unwrap_or(0);
        let end = model.end();
        let term = self.log.bounds(placement).last_term.max(model.vote.map_or(1, |vote| vote.term));
        let choice = self.random.below(20);
        match choice {
            0..=9 if self.log.room() => {
                let count = 1 + self.random.below(3);
                self.append(placement, end, count, term);
            }
            10 if end > applied && self.log.room() => {
                let from = applied + self.random.below(end - applied);
                self.append(placement, from, 1, term + 1);
            }
            11 | 12 => {
                let vote = Vote { term: term + self.random.below(2), replica: 1, is_leader: false };
                let last = model.vote.unwrap_or(vote);
                let vote = if vote.may_follow(&last) { vote } else { Vote { is_leader: true, ..last } };
                let position = self.log.save_vote(placement, vote, self.now).expect("it follows");
                self.models.entry(placement).or_default().vote = Some(vote);
                self.note(position);
            }
            13 if end > applied => {
                let from = applied + self.random.below(end - applied);
                self.log.cut(placement, from).expect("nothing of it is applied");
                self.models.entry(placement).or_default().cut(from);
                let position = self.log.appended();
                self.note(position);
            }
            14..=18 => {
                // With four files nothing is purged of a placement with an odd id for a while, as if a follower were behind.
                let has_laggard = placement.0 % 2 == 1 && self.options.files == 4;
                let most = if has_laggard { end - applied + 1 } else { (end - applied) / 2 + 1 };
                let to = applied + self.random.below(most);
                self.log.applied(placement, to).expect("it rises");
                self.applied.insert(placement, to);
                if !has_laggard || self.random.below(6) == 0 {
                    self.purge(placement, to);
                }
            }
            19 if self.random.below(4) == 0 => {
                let position = self.log.forget(placement, self.now);
                self.models.remove(&placement);
                self.applied.remove(&placement);
                self.note(position);
            }
            _ => {}
        }
        self.models.retain(|_, model| *model != Model::default());
    }

    fn purge(&mut self, placement: PlacementId, to: u64) {
        let model = self.models.entry(placement).or_default();
        if to <= model.first {
            return;
        }
        let term = model.entries[(to - 1 - model.first) as usize].term;
        model.purge(to);
        self.log.purge(placement, to, term, self.now).expect("it is applied");
        let position = self.log.appended();
        self.note(position);
    }

    /// Runs a few jobs.
    pub(crate) fn work(&mut self) -> Result<(), StorageError> {
        for _ in 0..self.random.below(4) {
            let lane = [Lane::Commit, Lane::Background][self.random.below(2) as usize];
            self.run_one(lane)?;
        }
        Ok(())
    }

    fn run_one(&mut self, lane: Lane) -> Result<bool, StorageError> {
        match self.log.next_job(lane, self.now) {
            Next::Run(id, job) => {
                let done = job.run(&self.disk);
                self.now += 100_000;
                self.log.complete(id, done, self.now)?;
                let durable = self.log.durable();
                self.history.confirmed.push((self.disk.count(), durable));
                Ok(true)
            }
            Next::At(_) | Next::Idle => Ok(false),
        }
    }

    /// Runs everything that is due, however late.
    pub(crate) fn settle_down(&mut self) -> Result<(), StorageError> {
        for _ in 0..10_000 {
            self.now += 60_000_000;
            let commit = self.run_one(Lane::Commit)?;
            let background = self.run_one(Lane::Background)?;
            if !commit && !background {
                return Ok(());
            }
        }
        panic!("the lanes never come to rest");
    }

    /// Checks that memory has what the model has.
    pub(crate) fn check_memory(&self) -> Result<(), String> {
        for (placement, model) in &self.models {
            check_placement(&self.log, &self.disk, *placement, model, false)?;
        }
        Ok(())
    }
}

/// Opens the log after a power cut and compares it with what its records have to say.
pub(crate) fn check(
    disk: &SimDisk,
    options: &EntryOptions,
    history: &EntryHistory,
    confirmed: Position,
) -> Result<(EntryLog, EntryReport, Models), String> {
    let (log, report) = recover(disk, options).map_err(|error| format!("it doesn't open: {error}"))?;
    if let Some(damage) = report.damaged.first() {
        return Err(format!("damage after a power cut: {damage}"));
    }
    let position = log.durable();
    if position < confirmed {
        return Err(format!("records up to {confirmed} were confirmed, {position} are there"));
    }
    let models = history.at(position);
    let mut found = Models::new();
    for placement in (0..PLACEMENTS).map(PlacementId) {
        let model = models.get(&placement).cloned().unwrap_or_default();
        let entries = check_placement(&log, disk, placement, &model, true)?;
        if entries.is_empty() && model.vote.is_none() && model.first == 0 {
            continue;
        }
        found.insert(placement, Model { vote: model.vote, first: model.first, entries, cut: Vec::new() });
    }
    Ok((log, report, found))
}

/// Compares a placement with its model. Entries that were cut without a record may be there again.
fn check_placement(
    log: &EntryLog,
    disk: &SimDisk,
    placement: PlacementId,
    model: &Model,
    may_have_cut: bool,
) -> Result<Vec<Entry>, String> {
    let wrong = |text: String| Err(format!("placement {placement}: {text}"));
    if log.vote(placement) != model.vote {
        return wrong(format!("vote {:?} instead of {:?}", log.vote(placement), model.vote));
    }
    let bounds = log.bounds(placement);
    let least = model.end();
    let most = if may_have_cut { least + model.cut.len() as u64 } else { least };
    if bounds.first != model.first || bounds.end < least || bounds.end > most {
        return wrong(format!("{bounds:?} instead of {} to {least}, at most {most}", model.first));
    }
    let expected = model.entries.iter().chain(&model.cut);
    let found = log.read(placement, bounds.first..bounds.end).map_err(|error| error.to_string())?;
    let mut entries = Vec::new();
    for (found, expected) in found.into_iter().zip(expected) {
        let entry = match found {
            FoundEntry::Here(entry) => entry,
            FoundEntry::OnDisk(read) => read.run(disk).map_err(|error| error.to_string())?,
        };
        if entry != *expected {
            return wrong(format!("entry {} of term {} instead of {}", entry.index, entry.term, expected.term));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Number of files of the entry log.
pub(crate) fn files(disk: &SimDisk) -> usize {
    let names = disk.list().expect("it can be listed");
    names.iter().filter(|name| name.starts_with("raft-0000-")).count()
}
