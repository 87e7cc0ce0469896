//! A cluster in one thread: nodes that live and die, links between them, clients, and a judge.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use leveret_cluster::Proposed;
use leveret_log::{EntryLog, EntryOptions, Operation, PlacementId};

use super::counter::Counter;
use super::executor::{self, Sleep, below};
use super::judge::Judge;
use super::node::{Shared, SimNode, SimReplica, node_of, start};
use crate::disk::{Fault, SimDisk, User, Wrong};
use crate::net::LinkFaults;

/// A command that a client got an answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The placement.
    pub placement: PlacementId,
    /// Term and index of its entry.
    pub place: (u64, u64),
    /// The command.
    pub command: Bytes,
    /// When the answer came.
    pub at: u64,
}

/// The cluster.
pub struct Cluster {
    pub(super) shared: Rc<Shared>,
    pub(super) placements: Vec<PlacementId>,
    pub(super) nodes: u64,
    lives: Cell<u64>,
    acknowledged: Rc<RefCell<Vec<Acknowledged>>>,
    judge: RefCell<Judge>,
}

/// Options of the entry logs of simulated nodes: small files, so that the ring comes round.
#[must_use]
pub fn small_files() -> EntryOptions {
    EntryOptions {
        file_bytes: 16 << 10,
        buffer_bytes: 256 << 10,
        cached_bytes: 4 << 10,
        disk_reserve: Some(0),
        node_id: 1,
        ..EntryOptions::default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        executor::end();
    }
}

impl Cluster {
    /// A cluster of so many nodes, each with a replica of each placement. Begins the executor of this thread anew.
    #[must_use]
    pub fn new(seed: u64, nodes: u64, placements: u32) -> Cluster {
        Cluster::with_options(seed, nodes, placements, small_files())
    }

    /// The same, with these options of the entry logs.
    #[must_use]
    pub fn with_options(seed: u64, nodes: u64, placements: u32, options: EntryOptions) -> Cluster {
        executor::begin(seed);
        let shared = Rc::new(Shared::new(options));
        let cluster = Cluster {
            shared,
            placements: (1..=placements).map(PlacementId).collect(),
            nodes,
            lives: Cell::new(0),
            acknowledged: Rc::default(),
            judge: RefCell::default(),
        };
        for id in 1..=nodes {
            cluster.shared.nodes.borrow_mut().insert(id, Rc::new(SimNode::new(id)));
            cluster.start(id);
        }
        cluster.run(1);
        cluster.initialize(nodes);
        cluster
    }

    /// A cluster in which the last node is no member of any placement yet.
    #[must_use]
    pub fn with_newcomer(seed: u64, members: u64, placements: u32) -> Cluster {
        let cluster = Cluster::with_spares(seed, members, 1, placements);
        cluster.run(1000);
        cluster
    }

    /// A cluster with so many nodes more that are no members of any placement yet.
    #[must_use]
    pub fn with_spares(seed: u64, members: u64, spares: u64, placements: u32) -> Cluster {
        let mut cluster = Cluster::with_options(seed, members, placements, small_files());
        for id in members + 1..=members + spares {
            cluster.shared.nodes.borrow_mut().insert(id, Rc::new(SimNode::new(id)));
            cluster.start(id);
        }
        cluster.nodes = members + spares;
        cluster
    }

    /// Every member initialises its replicas itself, with the same members.
    fn initialize(&self, members: u64) {
        let members: BTreeSet<u64> = (1..=members).collect();
        for node in self.shared.nodes.borrow().values() {
            for replica in node.replicas.borrow().values() {
                let (replica, members) = (replica.clone(), members.clone());
                executor::spawn_in(node.life.get(), async move {
                    // Another member may have been faster, and its entries are here.
                    let _ = replica.initialize(&members).await;
                });
            }
        }
    }

    pub(super) fn node(&self, id: u64) -> Rc<SimNode> {
        self.shared.nodes.borrow()[&id].clone()
    }

    /// Starts a node.
    pub fn start(&self, id: u64) {
        self.lives.set(self.lives.get() + 1);
        start(&self.shared, &self.node(id), self.lives.get(), &self.placements);
    }

    /// Kills a node's process: what it wrote stays, what its counters didn't sync is written, too.
    pub fn kill(&self, id: u64) {
        self.node(id).die();
    }

    /// Cuts the power of a node: unsynced writes survive or not, by chance.
    pub fn cut_power(&self, id: u64) {
        let node = self.node(id);
        node.die();
        let crashed = node.disk.borrow().crash(below(u64::MAX));
        *node.disk.borrow_mut() = Rc::new(crashed);
        node.counters.borrow().values().for_each(super::counter::Counter::lose_power);
    }

    /// Lets a node stand still for so many milliseconds.
    pub fn pause(&self, id: u64, milliseconds: u64) {
        executor::pause(self.node(id).life.get(), executor::now() + milliseconds * 1_000_000);
    }

    /// Steps a node's wall clock.
    pub fn step_clock(&self, id: u64, milliseconds: i64) {
        self.node(id).clock_step.set(milliseconds);
    }

    /// Sets how long syncs of a node take, in microseconds.
    pub fn slow_disk(&self, id: u64, microseconds: u64) {
        self.node(id).sync_time.set(microseconds * 1000);
    }

    /// Changes a bit in an older file of a node's entry log. False if there is none. It is found at the next start at the latest.
    ///
    /// Not in the newest files: a wrong last batch can't be told from a torn one.
    pub fn change_bits(&self, id: u64) -> bool {
        let node = self.node(id);
        let disk = node.disk.borrow().clone();
        let mut files: Vec<String> = disk.names().into_iter().filter(|name| name.starts_with("raft-0000-")).collect();
        files.truncate(files.len().saturating_sub(2));
        let used = |name: &String| disk.content(name)?.iter().rposition(|byte| *byte != 0).map(|last| last + 1);
        let used: Vec<(&String, usize)> = files.iter().filter_map(|name| used(name).map(|used| (name, used))).collect();
        let used: Vec<_> = used.into_iter().filter(|(_, used)| *used > 512).collect();
        if used.is_empty() {
            return false;
        }
        let (name, length) = used[below(used.len() as u64) as usize];
        disk.flip(name, (512 + below((length - 512) as u64) as usize) * 8 + below(8) as usize);
        node.is_hit.set(true);
        node.was_hit.set(true);
        node.is_excused.set(true);
        true
    }

    /// Whether bits of a node's disk were changed since it was started.
    #[must_use]
    pub fn is_hit(&self, id: u64) -> bool {
        self.node(id).is_hit.get()
    }

    /// Leaves a node's disk without space for more files.
    pub fn fill_disk(&self, id: u64) {
        let node = self.node(id);
        let disk = node.disk.borrow().clone();
        disk.limit_space(Some(disk.used()));
    }

    /// Lets one of the next syncs or writes of a node's disk fail.
    pub fn fail_disk(&self, id: u64) {
        let node = self.node(id);
        node.is_excused.set(true);
        let (on, wrong) = match below(3) {
            0 => (Operation::Write, Wrong::Refused),
            1 => (Operation::Sync, Wrong::Refused),
            _ => (Operation::Sync, Wrong::Forgets),
        };
        let fault = Fault { user: User::Start, on, after: below(5), wrong, sticky: false };
        node.disk.borrow().arm(Some(fault));
    }

    /// Lets all reads of a node's entries fail that aren't in memory.
    pub fn fail_reads(&self, id: u64) {
        let node = self.node(id);
        node.is_excused.set(true);
        node.fails_reads.set(true);
    }

    /// Purges nothing from now on: who lags gets entries, and no state.
    pub fn keep_entries(&self) {
        self.shared.keeps_entries.set(true);
    }

    /// Ends the faults of a node's disk, but not those of its bits.
    pub fn mend_disk(&self, id: u64) {
        let node = self.node(id);
        self.slow_disk(id, 1000);
        let disk = node.disk.borrow().clone();
        disk.limit_space(None);
        disk.arm(None);
        if node.is_alive() && !node.is_hit.get() {
            node.is_excused.set(false);
        }
    }

    /// How often replicas gave up their ids.
    #[must_use]
    pub fn generations(&self) -> u64 {
        let nodes = self.shared.nodes.borrow();
        nodes.values().map(|node| node.generations.borrow().values().sum::<u64>()).sum()
    }

    /// The disk of a node.
    #[must_use]
    pub fn disk(&self, id: u64) -> Rc<SimDisk> {
        self.node(id).disk.borrow().clone()
    }

    /// Puts another disk into a node that doesn't run. Its store stays.
    pub fn replace_disk(&self, id: u64, disk: SimDisk) {
        *self.node(id).disk.borrow_mut() = Rc::new(disk);
    }

    /// The options of all entry logs.
    #[must_use]
    pub fn log_options(&self) -> EntryOptions {
        self.shared.options.clone()
    }

    /// The counter of a placement on a node.
    #[must_use]
    pub fn counter(&self, id: u64, placement: PlacementId) -> Counter {
        self.node(id).counters.borrow_mut().entry(placement).or_default().clone()
    }

    /// Looks at the entry log of a node that runs.
    pub fn with_log<T>(&self, id: u64, look: impl FnOnce(&mut EntryLog) -> T) -> T {
        let log = self.node(id).log.borrow().clone();
        log.expect("it runs").with(look)
    }

    /// Sends a frame to a node's replica, and waits for the answer for at most a second.
    #[must_use]
    pub fn send(&self, id: u64, placement: PlacementId, frame: Bytes) -> Option<Bytes> {
        let node = self.node(id);
        let replica = node.replicas.borrow().get(&placement).cloned()?;
        let answer = Rc::new(RefCell::new(None));
        let slot = answer.clone();
        executor::spawn_in(node.life.get(), async move { *slot.borrow_mut() = replica.answer(&frame).await });
        for _ in 0..1000 {
            if answer.borrow().is_some() {
                break;
            }
            self.run(1);
        }
        answer.take()
    }

    /// Whether a node runs.
    #[must_use]
    pub fn is_alive(&self, id: u64) -> bool {
        self.node(id).is_alive()
    }

    /// Changes the links.
    pub fn links<T>(&self, change: impl FnOnce(&mut LinkFaults) -> T) -> T {
        change(&mut self.shared.links.borrow_mut())
    }

    /// Runs for so many milliseconds of simulated time.
    pub fn run(&self, milliseconds: u64) {
        executor::run_until(executor::now() + milliseconds * 1_000_000);
    }

    /// A client that proposes commands to placements in turn, wherever their leader is, until it has proposed so many.
    ///
    /// It waits for an answer for at most `within` milliseconds, and then for about `pause` milliseconds.
    pub fn client(&self, name: u8, commands: u64, pause: u64, within: u64) {
        let (shared, placements) = (self.shared.clone(), self.placements.clone());
        let acknowledged = self.acknowledged.clone();
        let nodes = self.nodes;
        executor::spawn_in(0, async move {
            let mut leader = 1 + below(nodes);
            for number in 0..commands {
                let placement = placements[below(placements.len() as u64) as usize];
                let mut command = vec![name; 16 + below(200) as usize];
                command[..8].copy_from_slice(&number.to_le_bytes());
                let command = Bytes::from(command);
                // A command is proposed once: whether a lost answer means a commit isn't known.
                let replica: Option<SimReplica> =
                    shared.nodes.borrow()[&leader].replicas.borrow().get(&placement).cloned();
                let outcome = match replica {
                    Some(replica) => {
                        let asked = super::runtime::SimRuntime::spawn_result(within, {
                            let command = command.clone();
                            async move { replica.propose(command).await }
                        });
                        asked.await
                    }
                    None => None,
                };
                if !matches!(outcome, Some(Proposed::Applied { .. })) {
                    Sleep::after(1_000_000).await;
                }
                match outcome {
                    Some(Proposed::Applied { term, index, .. }) => acknowledged.borrow_mut().push(Acknowledged {
                        placement,
                        place: (term, index),
                        command,
                        at: executor::now(),
                    }),
                    Some(Proposed::NotLeader(Some(other))) => leader = node_of(other),
                    _ => leader = 1 + below(nodes),
                }
                Sleep::after(pause * 500_000 + below(pause * 1_000_000 + 1)).await;
            }
        });
    }

    /// Asks the leader of a placement for something, and waits for at most so many milliseconds. `None` if there is no leader, or no
    /// answer by then.
    fn ask<T: 'static, F>(
        &self,
        placement: PlacementId,
        milliseconds: u64,
        question: impl FnOnce(SimReplica) -> F,
    ) -> Option<T>
    where
        F: Future<Output = T> + 'static,
    {
        let leader = self.node(self.leader(placement)?);
        let replica = leader.replicas.borrow().get(&placement).cloned()?;
        let answer = Rc::new(RefCell::new(None));
        let (slot, asked) = (answer.clone(), question(replica));
        executor::spawn_in(leader.life.get(), async move { *slot.borrow_mut() = Some(asked.await) });
        for _ in 0..milliseconds {
            if answer.borrow().is_some() {
                break;
            }
            self.run(1);
        }
        answer.take()
    }

    /// Adds a node as a learner of a placement.
    ///
    /// # Errors
    /// The engine's, or none in time.
    pub fn add_learner(&self, placement: PlacementId, node: u64) -> Result<(), String> {
        let added = self.ask(placement, 3000, |replica| async move { replica.add_learner(node).await });
        added.ok_or("no answer")?.map_err(|error| error.to_string())
    }

    /// Makes these nodes the voters of a placement.
    ///
    /// # Errors
    /// The engine's, or none in time.
    pub fn change_voters(&self, placement: PlacementId, voters: &[u64]) -> Result<(), String> {
        let voters: BTreeSet<u64> = voters.iter().copied().collect();
        let changed = self.ask(placement, 3000, |replica| async move { replica.change_voters(voters).await });
        changed.ok_or("no answer")?.map_err(|error| error.to_string())
    }

    /// Hands the leadership of a placement over.
    ///
    /// # Errors
    /// The engine's, or none in time.
    pub fn transfer(&self, placement: PlacementId, node: u64) -> Result<(), String> {
        let transferred = self.ask(placement, 3000, |replica| async move { replica.transfer(node).await });
        transferred.ok_or("no answer")?.map_err(|error| error.to_string())
    }

    /// The commands that clients got answers for so far.
    #[must_use]
    pub fn acknowledged(&self) -> Vec<Acknowledged> {
        self.acknowledged.borrow().clone()
    }

    /// The node that leads a placement: that of the highest term which says so of itself.
    #[must_use]
    pub fn leader(&self, placement: PlacementId) -> Option<u64> {
        leader(&self.shared, placement).map(|(node, _)| node.id)
    }

    /// The placements.
    #[must_use]
    pub fn placements(&self) -> &[PlacementId] {
        &self.placements
    }

    /// The texts with which something stopped although its disk is sound.
    #[must_use]
    pub fn stopped(&self) -> Vec<String> {
        self.shared.stopped.borrow().clone()
    }

    /// The texts with which something stopped whose disk failed.
    #[must_use]
    pub fn ended(&self) -> Vec<String> {
        self.shared.ended.borrow().clone()
    }

    /// Number of frames with a whole state that were sent so far.
    #[must_use]
    pub fn states_sent(&self) -> u64 {
        self.shared.states_sent.get()
    }

    /// Compares answers with the disk when they are given, from now on.
    pub fn check_answers(&self) {
        self.shared.checks_answers.set(true);
    }

    /// Plants: entries are purged before the store has them durably.
    pub fn plant_early_purges(&self) {
        self.shared.purges_early.set(true);
    }

    /// Plants: appends for this node are acknowledged without it.
    pub fn plant_false_acknowledgements(&self, node: u64) {
        self.shared.acknowledges_for.set(Some(node));
    }

    /// Judges disks and states as they are now.
    ///
    /// # Errors
    /// An invariant that doesn't hold.
    pub fn judge(&self) -> Result<(), String> {
        self.judge.borrow_mut().look(&self.shared, &self.placements, &self.acknowledged.borrow())
    }

    /// Waits until all members have applied the same, for at most so many seconds.
    ///
    /// # Errors
    /// They don't get there.
    pub fn settle(&self, seconds: u64) -> Result<(), String> {
        for _ in 0..seconds * 10 {
            self.run(100);
            if self.placements.iter().all(|placement| self.is_even(*placement)) {
                return Ok(());
            }
        }
        let leaders: Vec<_> = self.placements.iter().map(|placement| self.leader(*placement)).collect();
        let nodes = self.shared.nodes.borrow();
        let seen = |replica: &SimReplica| {
            let state = replica.state();
            (state.applied, state.voters(), state.replicas(), replica.leader())
        };
        let states: Vec<_> = nodes
            .values()
            .map(|node| (node.id, node.replicas.borrow().values().map(seen).collect::<Vec<_>>()))
            .collect();
        Err(format!(
            "replicas aren't even after {seconds} s; leaders {leaders:?}; {states:?}; stopped: {:?}; ended: {:?}",
            self.stopped(),
            self.ended()
        ))
    }

    /// Whether a placement has a leader, and all its members have applied what the leader has.
    fn is_even(&self, placement: PlacementId) -> bool {
        let Some((_, replica)) = leader(&self.shared, placement) else { return false };
        let state = replica.state();
        let members = state.replicas();
        let is_even = |id: &u64| {
            let node = self.node(node_of(*id));
            let replicas = node.replicas.borrow();
            replicas.get(&placement).is_some_and(|replica| replica.state() == state)
        };
        // A learner that gave up its id stays among the members.
        let is_there = |id: &&u64| self.node(node_of(**id)).replica_id(placement) == **id;
        let voters = state.voters();
        voters.len() == 1 && voters[0].iter().all(|id| is_there(&id)) && members.iter().filter(is_there).all(is_even)
    }
}

/// The replica that leads a placement, and its node.
pub(super) fn leader(shared: &Shared, placement: PlacementId) -> Option<(Rc<SimNode>, SimReplica)> {
    let nodes = shared.nodes.borrow();
    let leading = nodes.values().filter_map(|node| {
        let replica = node.replicas.borrow().get(&placement).cloned()?;
        let (term, leader) = replica.leader();
        (leader == Some(node.replica_id(placement))).then(|| (term, node.clone(), replica))
    });
    leading.max_by_key(|(term, ..)| *term).map(|(_, node, replica)| (node, replica))
}
