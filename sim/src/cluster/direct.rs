//! Placements without anything that a simulation adds: links are calls that take their time, disks are memory whose syncs take theirs, and
//! the machine counts. For a comparison with the engine alone in the same run ([`super::bare_commits`]), and for commits on real disks.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leveret_cluster::{Applied, Host, Machine, NodeLog, Placement, PlacementState, Proposed, Settings};
use leveret_log::{Disk, Entry, EntryOptions, EntryRead, Job, Lane, MemoryDisk, Next, PlacementId, recover_entries};

use super::executor::{self, Sleep};
use super::files::{Files, Worker};
use super::lanes::Lanes;
use super::runtime::SimRuntime;

/// Nanoseconds that a frame travels, and that a sync takes: those of the engine alone.
pub(super) const TRAVEL: u64 = 375_000;
pub(super) const SYNC: u64 = 1_000_000;
/// Nanoseconds before anything is counted: by then all have leaders, and the ring of the entry log has come round.
pub(super) const WARM: u64 = 3_000_000_000;
/// Bytes of a file of the entry log. They are so few that the ring comes round soon: memory that is written for the first time costs
/// more than all the rest.
const FILE: u64 = 4 << 20;
/// Longest time for which nothing is looked at in real time.
const STEP: Duration = Duration::from_micros(20);
/// Nanoseconds between purges, and entries that stay.
const PURGE: u64 = 50_000_000;
const KEPT: u64 = 1000;

type Replica = Placement<SimRuntime, DirectHost, Count>;
type Replicas = Rc<RefCell<BTreeMap<(PlacementId, u64), Replica>>>;

/// A node: its log and its disk.
struct DirectNode {
    log: NodeLog,
    disk: Arc<dyn Disk>,
    lanes: Lanes,
    /// Whether jobs run in threads and take the time that they take.
    is_real: bool,
}

#[derive(Clone)]
struct DirectHost {
    node: Rc<DirectNode>,
    replicas: Replicas,
}

impl Host for DirectHost {
    fn now(&self) -> u64 {
        executor::now()
    }

    fn wall_clock(&self) -> u64 {
        executor::now() / 1_000_000
    }

    fn appended(&self) {
        self.node.lanes.wake();
    }

    async fn read(&self, reads: Vec<EntryRead>) -> Result<Vec<Entry>, String> {
        reads.iter().map(|read| read.run(&*self.node.disk).map_err(|error| error.to_string())).collect()
    }

    async fn call(&self, placement: PlacementId, target: u64, frame: Bytes, _: Duration) -> Result<Bytes, String> {
        let replica = self.replicas.borrow().get(&(placement, target)).cloned().ok_or("it isn't there yet")?;
        Sleep::after(TRAVEL).await;
        let reply = replica.answer(&frame).await.ok_or("it is another placement's")?;
        Sleep::after(TRAVEL).await;
        Ok(reply)
    }

    fn stopped(&self, _: PlacementId, text: &str) {
        panic!("{text}");
    }
}

/// The number of commands.
#[derive(Default)]
struct Count {
    state: PlacementState,
    commands: u64,
}

impl Machine for Count {
    fn state(&self) -> PlacementState {
        self.state.clone()
    }

    fn apply(&mut self, state: PlacementState, commands: Option<&Bytes>) -> Applied {
        self.commands += u64::from(commands.is_some());
        self.state = state;
        Applied(Bytes::copy_from_slice(&self.commands.to_le_bytes()))
    }

    fn save(&self) -> Option<(PlacementState, Bytes)> {
        Some((self.state.clone(), Bytes::copy_from_slice(&self.commands.to_le_bytes())))
    }

    fn restore(&mut self, _: PlacementState, _: Bytes) -> Result<(), String> {
        Err("nobody lags behind".into())
    }
}

async fn run_lane(node: Rc<DirectNode>, lane: Lane) {
    let worker = node.is_real.then(|| Worker::start(node.disk.clone()));
    loop {
        match node.log.with(|log| log.next_job(lane, executor::now())) {
            Next::Run(id, job) => {
                let done = match &worker {
                    Some(worker) => worker.run(job).await,
                    None => {
                        if matches!(job, Job::Sync { .. }) {
                            Sleep::after(SYNC).await;
                        }
                        job.run(&*node.disk)
                    }
                };
                node.log.with(|log| log.complete(id, done, executor::now()).map(drop)).expect("the disk works");
                node.log.report();
                node.lanes.wake();
            }
            Next::At(time) => node.lanes.changed(lane, Some(time)).await,
            Next::Idle => node.lanes.changed(lane, None).await,
        }
    }
}

/// Purges what is applied, as if a store had synced it.
async fn purge(replicas: Replicas) {
    loop {
        Sleep::after(PURGE).await;
        let all: Vec<Replica> = replicas.borrow().values().cloned().collect();
        for replica in all {
            let next = replica.state().applied.map_or(0, |(_, index)| index + 1);
            replica.applied_durably(next).expect("it rises");
            replica.purge(next.saturating_sub(KEPT)).await.expect("it is applied");
        }
    }
}

async fn write(replicas: Replicas, placement: PlacementId, commits: Rc<Cell<u64>>) {
    let command = Bytes::from(vec![7; 116]);
    loop {
        let leader = {
            let replicas = replicas.borrow();
            let leader = replicas.get(&(placement, 1)).and_then(|replica| replica.leader().1);
            leader.and_then(|leader| replicas.get(&(placement, leader)).cloned())
        };
        let proposed = match leader {
            Some(leader) => Some(leader.propose(command.clone()).await),
            None => None,
        };
        match proposed {
            Some(Proposed::Applied { .. }) => commits.set(commits.get() + 1),
            _ => Sleep::after(1_000_000).await,
        }
    }
}

/// Lets so many writers propose to each of so many placements of three nodes for some seconds. Returns the commits, and the syncs of all
/// nodes, from when `warm` is called on, after some seconds.
///
/// # Panics
/// If a placement stops.
pub fn direct_commits(seed: u64, placements: u32, writers: u32, seconds: u64, warm: impl FnOnce()) -> (u64, u64) {
    let run = |nanos| executor::run_until(executor::now() + nanos);
    count_commits(seed, (placements, writers), |_| None, (WARM, seconds * 1_000_000_000), run, warm)
}

/// The same in real time, with the entry logs in these directories: syncs take the time that they take.
///
/// # Panics
/// If a placement stops, or a directory can't be used.
pub fn real_commits(
    placements: u32,
    writers: u32,
    seconds: u64,
    directories: [&Path; 3],
    warm: impl FnOnce(),
) -> (u64, u64) {
    let directory = |node: u64| Some(directories[node as usize - 1]);
    let run = |nanos: u64| {
        let (from, begun) = (executor::now(), Instant::now());
        while begun.elapsed().as_nanos() < u128::from(nanos) {
            executor::run_until(from + begun.elapsed().as_nanos() as u64);
            std::thread::sleep(STEP);
        }
    };
    count_commits(1, (placements, writers), directory, (WARM, seconds * 1_000_000_000), run, warm)
}

fn count_commits<'a>(
    seed: u64,
    (placements, writers): (u32, u32),
    directory: impl Fn(u64) -> Option<&'a Path>,
    (before, during): (u64, u64),
    run: impl Fn(u64),
    warm: impl FnOnce(),
) -> (u64, u64) {
    executor::begin(seed);
    let (commits, replicas) = (Rc::new(Cell::new(0)), Replicas::default());
    let mut nodes = Vec::new();
    for id in 1..=3 {
        let files = directory(id).map(|directory| Arc::new(Files::open(directory)) as Arc<dyn Disk>);
        let is_real = files.is_some();
        let disk = files.unwrap_or_else(|| Arc::new(MemoryDisk::new()));
        let usual = EntryOptions { disk_reserve: Some(0), ..EntryOptions::default() };
        let options = if is_real { usual } else { EntryOptions { file_bytes: FILE, ..usual } };
        let (log, _) = recover_entries(&*disk, &options, 0).expect("the disk works");
        let node = Rc::new(DirectNode { log: NodeLog::new(log), disk, lanes: Lanes::default(), is_real });
        for lane in [Lane::Commit, Lane::Background] {
            executor::spawn_in(0, run_lane(node.clone(), lane));
        }
        let host = DirectHost { node: node.clone(), replicas: replicas.clone() };
        nodes.push((id, node, host));
    }
    for placement in (1..=placements).map(PlacementId) {
        for (id, node, host) in &nodes {
            let (id, log, host, replicas) = (*id, node.log.clone(), host.clone(), replicas.clone());
            executor::spawn_in(0, async move {
                let settings = Settings::default();
                let started = Placement::start(&settings, (placement, id), log, host, Count::default()).await;
                let replica = started.expect("it starts from nothing");
                replicas.borrow_mut().insert((placement, id), replica.clone());
                // Another one may have been faster.
                let _ = replica.initialize(&[1, 2, 3].into()).await;
            });
        }
        for _ in 0..writers {
            executor::spawn_in(0, write(replicas.clone(), placement, commits.clone()));
        }
    }
    executor::spawn_in(0, purge(replicas.clone()));
    let counted = || {
        let syncs = nodes.iter().map(|(_, node, _)| node.log.with(|log| log.statistics().syncs)).sum::<u64>();
        (commits.get(), syncs)
    };
    run(before);
    let first = counted();
    warm();
    run(during);
    let last = counted();
    executor::end();
    (last.0 - first.0, last.1 - first.1)
}
