//! A cluster in one thread: nodes that live and die, links between them, clients, and a judge.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use leveret_cluster::{Proposed, Settings};
use leveret_log::{EntryOptions, PlacementId};

use super::executor::{self, Sleep, below};
use super::judge::Judge;
use super::links::LinkFaults;
use super::node::{Shared, SimNode, SimReplica, start};

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
    placements: Vec<PlacementId>,
    nodes: u64,
    lives: Cell<u64>,
    acknowledged: Rc<RefCell<Vec<Acknowledged>>>,
    judge: RefCell<Judge>,
}

/// Options of the entry logs of simulated nodes: small files, so that the ring comes round.
#[must_use]
pub fn small_files() -> EntryOptions {
    EntryOptions {
        file_bytes: 64 << 10,
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
        let shared = Rc::new(Shared {
            nodes: RefCell::default(),
            links: RefCell::default(),
            options,
            settings: Settings::default(),
            stopped: RefCell::default(),
            purges_early: Cell::new(false),
            acknowledges_for: Cell::new(None),
        });
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
        let mut cluster = Cluster::with_options(seed, members, placements, small_files());
        cluster.nodes = members + 1;
        cluster.shared.nodes.borrow_mut().insert(cluster.nodes, Rc::new(SimNode::new(cluster.nodes)));
        cluster.start(cluster.nodes);
        cluster.run(1000);
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

    fn node(&self, id: u64) -> Rc<SimNode> {
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
                    Some(Proposed::NotLeader(Some(other))) => leader = other,
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

    /// The node that leads a placement, as most of those see it that run.
    #[must_use]
    pub fn leader(&self, placement: PlacementId) -> Option<u64> {
        let mut votes: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for node in self.shared.nodes.borrow().values() {
            let seen = node.replicas.borrow().get(&placement).map(SimReplica::leader);
            if let Some((term, Some(leader))) = seen {
                *votes.entry((term, leader)).or_default() += 1;
            }
        }
        votes
            .into_iter()
            .filter(|(_, count)| *count * 2 > self.nodes as usize)
            .map(|((_, leader), _)| leader)
            .next_back()
    }

    /// The placements.
    #[must_use]
    pub fn placements(&self) -> &[PlacementId] {
        &self.placements
    }

    /// The texts with which something stopped.
    #[must_use]
    pub fn stopped(&self) -> Vec<String> {
        self.shared.stopped.borrow().clone()
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

    /// Waits until all replicas have applied the same, for at most so many seconds.
    ///
    /// # Errors
    /// They don't get there.
    pub fn settle(&self, seconds: u64) -> Result<(), String> {
        for _ in 0..seconds * 10 {
            self.run(100);
            let nodes = self.shared.nodes.borrow();
            let is_even = self.placements.iter().all(|placement| {
                let applied: BTreeSet<_> = nodes
                    .values()
                    .map(|node| node.replicas.borrow().get(placement).and_then(|replica| replica.state().applied))
                    .collect();
                applied.len() == 1 && !applied.contains(&None)
            });
            drop(nodes);
            if is_even && self.placements.iter().all(|placement| self.leader(*placement).is_some()) {
                return Ok(());
            }
        }
        let leaders: Vec<_> = self.placements.iter().map(|placement| self.leader(*placement)).collect();
        let nodes = self.shared.nodes.borrow();
        let seen = |replica: &SimReplica| (replica.state().applied, replica.leader());
        let states: Vec<_> = nodes
            .values()
            .map(|node| (node.id, node.replicas.borrow().values().map(seen).collect::<Vec<_>>()))
            .collect();
        Err(format!(
            "replicas aren't even after {seconds} s; leaders {leaders:?}; {states:?}; stopped: {:?}",
            self.stopped()
        ))
    }
}
