//! The metadata of a cluster under faults: nodes with a broker, its store and placement 0, clients that change and look up objects on
//! any node, and a judge of what they were told.

mod host;
mod lagging;
mod nemesis;
mod objects;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leveret_broker::authenticate::Anybody;
use leveret_broker::{Broker, Settings as BrokerSettings, Setup};
use leveret_cluster::metadata::{Metadata, MetadataNode, MetadataPort};
use leveret_cluster::runtime::AsyncRuntime;
use leveret_cluster::{NodeLog, Settings};
use leveret_log::{Lane, Options, recover_entries};
use leveret_model::{Command, MemberNumber, PutMember};

use self::host::{MetadataSimHost, real_now, store_jobs};
pub use self::lagging::{run_forgetful_leader, run_lagging_node};
use self::nemesis::{mend, strike};
use self::objects::{Histories, any_object, change};
use super::executor::{self, Sleep, below};
use super::node::{Shared, SimHost, SimNode, run_lane};
use super::runtime::SimRuntime;
use super::world::small_files;

type SimMetadata = Metadata<SimRuntime, MetadataSimHost>;

/// Time after which a change without an answer is given up.
const PATIENCE: Duration = Duration::from_secs(3);
const MS: u64 = 1_000_000;

/// A node that may be a member.
struct MetadataNodeInSim {
    sim: Rc<SimNode>,
    member: Cell<Option<MemberNumber>>,
    boot: Cell<u64>,
    broker: RefCell<Option<Arc<Broker>>>,
    metadata: RefCell<Option<SimMetadata>>,
}

impl MetadataNodeInSim {
    fn name(&self) -> Arc<str> {
        format!("rabbit@{}", self.sim.id).into()
    }

    fn die(&self) {
        self.metadata.take();
        self.sim.die();
        self.broker.take();
    }

    fn is_alive(&self) -> bool {
        self.metadata.borrow().is_some()
    }

    fn put_member(&self) -> Command {
        let (id, boot) = (self.sim.id, self.boot.get());
        let nonce = u32::try_from(boot).unwrap_or(0);
        Command::PutMember(PutMember { name: self.name(), node_id: id, boot, nonce, addresses: Vec::new() })
    }
}

/// The nodes and clients of a seed.
struct World {
    shared: Rc<Shared>,
    nodes: RefCell<BTreeMap<u64, Rc<MetadataNodeInSim>>>,
    lives: Cell<u64>,
    histories: RefCell<Histories>,
    /// The node that each member number was ever given to.
    numbers: RefCell<BTreeMap<MemberNumber, u64>>,
}

fn store_options() -> Options {
    Options { file_bytes: 64 << 10, buffer_bytes: 256 << 10, reserve_bytes: 16 << 10, ..Options::default() }
}

impl World {
    fn node(&self, id: u64) -> Rc<MetadataNodeInSim> {
        self.nodes.borrow()[&id].clone()
    }

    fn add(&self, id: u64) -> Rc<MetadataNodeInSim> {
        let node = Rc::new(MetadataNodeInSim {
            sim: Rc::new(SimNode::new(id)),
            member: Cell::new(None),
            boot: Cell::new(0),
            broker: RefCell::default(),
            metadata: RefCell::default(),
        });
        self.shared.nodes.borrow_mut().insert(id, node.sim.clone());
        self.nodes.borrow_mut().insert(id, node.clone());
        node
    }

    /// Starts a member. The first one founds the cluster.
    fn start(self: &Rc<Self>, id: u64) {
        let node = self.node(id);
        let member = node.member.get().expect("it is a member");
        self.lives.set(self.lives.get() + 1);
        node.boot.set(node.boot.get() + 1);
        let (life, boot) = (self.lives.get(), node.boot.get());
        node.sim.life.set(life);
        let disk = node.sim.disk.borrow().clone();
        let (log, _) = recover_entries(&*disk, &self.shared.options, executor::now()).expect("the entry log is sound");
        let log = NodeLog::new(log);
        *node.sim.log.borrow_mut() = Some(log.clone());
        node.sim.wake_lanes();
        for lane in [Lane::Commit, Lane::Background] {
            executor::spawn_in(life, run_lane(node.sim.clone(), self.shared.clone(), log.clone(), lane));
        }
        let mut name_secret = BrokerSettings::default().name_secret;
        name_secret[..8].copy_from_slice(&life.to_le_bytes());
        let settings = BrokerSettings { member, name_secret, ..BrokerSettings::default() };
        let counters = vec![Arc::default()];
        let setup = Setup { settings, protocols: Vec::new(), authenticator: Arc::new(Anybody), counters };
        let (broker, _) = Broker::recover(&*disk, store_options(), setup, real_now()).expect("the store is sound");
        *node.broker.borrow_mut() = Some(broker.clone());
        let (sim, storing) = (node.sim.clone(), broker.clone());
        executor::spawn_in(life, async move {
            loop {
                storing.streams.announce();
                store_jobs(&sim, &storing, real_now());
                Sleep::after(5 * MS + below(30 * MS)).await;
            }
        });
        let is_asked = Arc::new(AtomicBool::new(false));
        let wake = is_asked.clone();
        let port = Arc::new(MetadataPort::new(move || wake.store(true, Ordering::Relaxed)));
        let is_known = broker.registry.snapshot().topology.members().next().is_some();
        broker.registry.join(port.clone());
        let host = SimHost::new(&node.sim, &self.shared);
        let host = MetadataSimHost { host, id, world: Rc::downgrade(self), broker: broker.clone() };
        let of_node = MetadataNode { broker: broker.clone(), member, boot, log, port, patience: PATIENCE };
        let world = Rc::downgrade(self);
        executor::spawn_in(life, async move {
            let metadata = match Metadata::start(&Settings::default(), of_node, host).await {
                Ok(metadata) => metadata,
                Err(error) => {
                    if let Some(world) = world.upgrade() {
                        world.shared.stopped.borrow_mut().push(format!("node {id}: {error}"));
                    }
                    return;
                }
            };
            drop(SimRuntime::spawn(metadata.clone().run()));
            drop(SimRuntime::spawn(metadata.clone().tend()));
            if member == MemberNumber::default() && !is_known && metadata.applied() == 0 {
                // A start that was cut off may have done it.
                let _ = metadata.found().await;
            }
            *node.metadata.borrow_mut() = Some(metadata.clone());
            let put = node.put_member();
            drop(SimRuntime::spawn(async move { while change(&broker, put.clone()).await != Some(true) {} }));
            loop {
                Sleep::after(MS / 5).await;
                if is_asked.swap(false, Ordering::Relaxed) {
                    metadata.take_asked();
                }
            }
        });
    }

    /// Makes a blank node a member by way of another one. False if that doesn't succeed.
    async fn join(self: Rc<Self>, id: u64, by: u64) -> bool {
        let node = self.node(id);
        let Some(broker) = self.node(by).broker.borrow().clone() else { return false };
        let (name, put) = (node.name(), node.put_member());
        let joined = change(&broker, put).await;
        let topology = broker.registry.snapshot().topology.clone();
        let Some(member) = topology.member_named(&name).filter(|_| joined == Some(true)) else { return false };
        node.member.set(Some(member.number));
        self.start(id);
        true
    }

    /// Notes a number that a node has as a member.
    fn note_numbers(&self) -> Result<(), String> {
        let mut numbers = self.numbers.borrow_mut();
        for node in self.nodes.borrow().values() {
            let Some(broker) = node.broker.borrow().clone() else { continue };
            let topology = broker.registry.snapshot().topology.clone();
            for member in topology.members() {
                let first = *numbers.entry(member.number).or_insert(member.node_id);
                if first != member.node_id {
                    let number = member.number.0;
                    return Err(format!("member number {number} was node {first}'s, and is node {}'s", member.node_id));
                }
            }
        }
        Ok(())
    }

    fn alive(&self) -> Vec<u64> {
        self.nodes.borrow().values().filter(|node| node.is_alive()).map(|node| node.sim.id).collect()
    }

    /// The members as they see themselves, for texts.
    fn shown(&self) -> String {
        let of = |node: &Rc<MetadataNodeInSim>| {
            let metadata = node.metadata.borrow().clone()?;
            let applied = node.broker.borrow().as_ref()?.registry.committed_model().applied().cloned();
            let (leader, voters) = (metadata.leader(), metadata.voters());
            Some(format!(
                "node {}: leader {leader:?}, voters {voters:?}, {applied:?}, {:?}",
                node.sim.id,
                metadata.status()
            ))
        };
        let nodes: Vec<_> = self.nodes.borrow().values().filter_map(of).collect();
        format!("{nodes:#?}; stopped: {:?}; ended: {:?}", self.shared.stopped.borrow(), self.shared.ended.borrow())
    }

    /// Whether all members have the same, with one leader.
    fn is_even(&self) -> bool {
        let (mut states, mut leaders) = (Vec::new(), 0);
        for node in self.nodes.borrow().values().filter(|node| node.member.get().is_some()) {
            let (Some(metadata), Some(broker)) = (node.metadata.borrow().clone(), node.broker.borrow().clone()) else {
                return false;
            };
            let model = broker.registry.committed_model();
            leaders += usize::from(metadata.leader().1 == node.member.get());
            states.push((model.applied().cloned(), model.snapshot(), metadata.voters().len()));
        }
        leaders == 1 && states.windows(2).all(|two| two[0] == two[1]) && states[0].2 == states.len()
    }
}

/// Counts of a seed.
pub type MetadataCounts = BTreeMap<&'static str, u64>;

struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        executor::end();
    }
}

/// Has this happen in a new world.
fn in_world<T>(seed: u64, happen: impl FnOnce(&Rc<World>) -> Result<T, String>) -> Result<T, String> {
    executor::begin(seed);
    let _ends = Ends;
    let world = Rc::new(World {
        shared: Rc::new(Shared::new(small_files())),
        nodes: RefCell::default(),
        lives: Cell::new(0),
        histories: RefCell::default(),
        numbers: RefCell::default(),
    });
    let result = happen(&world);
    // Brokers may keep each other's parts.
    world.nodes.borrow().values().for_each(|node| node.die());
    result.map_err(|text| format!("seed {seed}: {text}"))
}

/// Runs three nodes with one metadata through faults, while clients change and look up objects on all of them.
///
/// # Errors
/// A promise that was broken.
pub fn run_metadata_seed(seed: u64) -> Result<MetadataCounts, String> {
    in_world(seed, run)
}

fn run_for(milliseconds: u64) {
    executor::run_until(executor::now() + milliseconds * MS);
}

/// Runs until this holds, for at most so many seconds.
fn run_until(seconds: u64, what: &str, holds: impl Fn() -> bool) -> Result<(), String> {
    for _ in 0..seconds * 20 {
        if holds() {
            return Ok(());
        }
        run_for(50);
    }
    Err(format!("{what}: not within {seconds} s"))
}

fn become_even(world: &World) -> Result<(), String> {
    run_until(60, "all have the same", || world.is_even()).map_err(|text| format!("{text}: {}", world.shown()))
}

fn join(world: &Rc<World>, id: u64, by: u64) -> Result<(), String> {
    world.add(id);
    let (joining, joined) = (world.clone(), Rc::new(Cell::new(false)));
    let done = joined.clone();
    executor::spawn_in(0, async move {
        while !joining.clone().join(id, by).await {
            Sleep::after(10 * MS).await;
        }
        done.set(true);
    });
    run_until(30, "a node joins", || joined.get())
}

/// Has a node carry out a change, and waits for that.
fn carry_out(world: &Rc<World>, id: u64, command: Command) -> Result<(), String> {
    let broker = world.node(id).broker.borrow().clone().expect("it runs");
    let is_done = Rc::new(Cell::new(false));
    let done = is_done.clone();
    executor::spawn_in(0, async move {
        while change(&broker, command.clone()).await != Some(true) {
            Sleep::after(10 * MS).await;
        }
        done.set(true);
    });
    run_until(30, "a change is made", || is_done.get())
}

/// Forms a cluster of three nodes with a vhost.
fn form(world: &Rc<World>) -> Result<(), String> {
    world.add(1).member.set(Some(MemberNumber::default()));
    world.start(1);
    run_until(10, "the first node founds a cluster", || world.node(1).is_alive())?;
    carry_out(world, 1, Command::CreateVhost { name: "/".into() })?;
    join(world, 2, 1)?;
    join(world, 3, 1)?;
    become_even(world)
}

/// Clients that do something to any object on any node, until this ends.
fn begin_clients(world: &Rc<World>, has_ended: &Rc<Cell<bool>>) {
    for _ in 0..5 {
        let (world, has_ended) = (world.clone(), has_ended.clone());
        executor::spawn_in(0, async move {
            while !has_ended.get() {
                let alive = world.alive();
                if !alive.is_empty() {
                    let id = alive[usize::try_from(below(alive.len() as u64)).expect("it is small")];
                    world.clone().operate(id, any_object()).await;
                }
                Sleep::after(MS + below(30 * MS)).await;
            }
        });
    }
}

fn run(world: &Rc<World>) -> Result<MetadataCounts, String> {
    form(world)?;
    let mut counts = MetadataCounts::new();
    let has_ended = Rc::new(Cell::new(false));
    begin_clients(world, &has_ended);
    let mut next = 4;
    for _ in 0..10 {
        let name = strike(world, &mut next)?;
        *counts.entry(name).or_default() += 1;
        run_for(50 + below(900));
        world.note_numbers().map_err(|text| format!("after {name}: {text}"))?;
        check_stopped(world)?;
    }
    mend(world);
    run_for(1000);
    has_ended.set(true);
    become_even(world)?;
    check_stopped(world)?;
    world.note_numbers()?;
    let broker = world.node(world.alive()[0]).broker.borrow().clone().expect("it runs");
    let topology = broker.registry.snapshot().topology.clone();
    let (operations, unanswered) = world.histories.borrow_mut().judge(&topology)?;
    counts.extend([("operations", operations), ("unanswered", unanswered)]);
    counts.extend([("found at once", world.histories.borrow().at_once), ("polls", executor::polls())]);
    Ok(counts)
}

fn check_stopped(world: &World) -> Result<(), String> {
    let stopped = world.shared.stopped.borrow();
    if stopped.is_empty() { Ok(()) } else { Err(format!("{stopped:?}")) }
}
