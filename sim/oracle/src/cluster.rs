//! A cluster of raft-rs in one thread: events in the order of their time, clients, and the same judgements as far as they don't need
//! our disk: one leader a term, an entry that anybody applied never changes, and what a client was told is there at the end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use leveret_sim::cluster::schedule::{
    BEFORE, CLIENTS, COMMANDS, PAUSE, SETTLED_WITHIN, Schedule, ScheduleOutcome, Strike, WITHIN,
};
use leveret_sim::net::LinkFaults;
use leveret_sim::random::Random;
use raft::eraftpb::Message;

use crate::node::{NodeStep, RaftNode, TICK};

const MILLISECOND: u64 = 1_000_000;

enum Event {
    Tick(u64),
    Frame(Box<Message>),
    /// The sync of a node in this life has ended.
    Synced(u64, u64),
    /// A client proposes its next command, or gives up the one with this number.
    Client(u8),
    GiveUp(u8, u64),
}

/// A client with the number of its command, the node that it asks, and whether it waits.
struct Client {
    number: u64,
    node: u64,
    waits: bool,
}

struct Cluster {
    now: u64,
    random: Random,
    links: LinkFaults,
    nodes: BTreeMap<u64, RaftNode>,
    clients: Vec<Client>,
    /// By time, and then in the order in which they were planned.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    planned: BTreeMap<u64, Event>,
    count: u64,
    leaders: BTreeMap<u64, u64>,
    /// Term and data of each entry that anybody applied.
    committed: BTreeMap<u64, (u64, Vec<u8>)>,
    acknowledged: Vec<Vec<u8>>,
    broken: Option<String>,
}

/// Runs raft-rs through a schedule.
///
/// # Errors
/// A promise that was broken.
pub fn run_schedule(seed: u64, schedule: &Schedule) -> Result<ScheduleOutcome, String> {
    let mut cluster = Cluster::new(seed, schedule.nodes);
    cluster.run(BEFORE)?;
    for name in 0..CLIENTS {
        let node = 1 + cluster.random.below(schedule.nodes);
        cluster.clients.push(Client { number: 0, node, waits: false });
        cluster.plan(0, Event::Client(name));
    }
    for (strike, behind) in &schedule.strikes {
        cluster.carry_out(*strike);
        cluster.run(*behind).map_err(|text| format!("seed {seed}, after {strike:?}: {text}"))?;
    }
    let mut settled_after = 0;
    while !cluster.is_even() {
        if settled_after == SETTLED_WITHIN {
            return Err(format!("seed {seed}: nodes aren't even after {settled_after} ms"));
        }
        cluster.run(100).map_err(|text| format!("seed {seed}, at the end: {text}"))?;
        settled_after += 100;
    }
    let there: Vec<&Vec<u8>> = cluster.committed.values().map(|(_, data)| data).collect();
    match cluster.acknowledged.iter().find(|command| !there.contains(command)) {
        Some(lost) => Err(format!("seed {seed}: the acknowledged command {lost:?} is gone")),
        None => Ok(ScheduleOutcome { acknowledged: cluster.acknowledged.len(), settled_after }),
    }
}

impl Cluster {
    fn new(seed: u64, nodes: u64) -> Cluster {
        let mut cluster = Cluster {
            now: 0,
            random: Random::new(seed),
            links: LinkFaults::default(),
            nodes: (1..=nodes).map(|id| (id, RaftNode::new(id, nodes))).collect(),
            clients: Vec::new(),
            due: BinaryHeap::new(),
            planned: BTreeMap::new(),
            count: 0,
            leaders: BTreeMap::new(),
            committed: BTreeMap::new(),
            acknowledged: Vec::new(),
            broken: None,
        };
        (1..=nodes).for_each(|id| cluster.plan(id * MILLISECOND, Event::Tick(id)));
        cluster
    }

    fn plan(&mut self, after: u64, event: Event) {
        self.count += 1;
        self.due.push(Reverse((self.now + after, self.count)));
        self.planned.insert(self.count, event);
    }

    fn run(&mut self, milliseconds: u64) -> Result<(), String> {
        let end = self.now + milliseconds * MILLISECOND;
        while let Some(Reverse((time, number))) = self.due.peek().copied().filter(|Reverse((time, _))| *time <= end) {
            self.due.pop();
            self.now = time;
            let event = self.planned.remove(&number).expect("it was planned");
            self.happen(event);
            if let Some(text) = self.broken.take() {
                return Err(text);
            }
        }
        self.now = end;
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        let busy = match &event {
            Event::Tick(id) => Some(*id),
            Event::Frame(message) => Some(message.to),
            Event::Client(name) => Some(self.clients[usize::from(*name)].node),
            Event::Synced(..) | Event::GiveUp(..) => None,
        };
        if let Some(until) = busy.and_then(|id| self.nodes[&id].busy_until(self.now)) {
            return self.plan(until - self.now, event);
        }
        match event {
            Event::Tick(id) => {
                self.node(id).tick();
                self.plan(TICK, Event::Tick(id));
                self.work(id);
            }
            Event::Frame(message) => {
                let id = message.to;
                self.node(id).receive(*message);
                self.work(id);
            }
            Event::Synced(id, life) => {
                let until = self.nodes[&id].paused_until;
                if until > self.now {
                    self.plan(until - self.now, Event::Synced(id, life));
                } else if self.nodes[&id].life == life {
                    let step = self.node(id).synced();
                    self.follow(id, step);
                    self.work(id);
                }
            }
            Event::Client(name) => self.propose(name),
            Event::GiveUp(name, number) => {
                let client = &self.clients[usize::from(name)];
                if client.waits && client.number == number {
                    self.answered(name, false);
                }
            }
        }
    }

    fn node(&mut self, id: u64) -> &mut RaftNode {
        self.nodes.get_mut(&id).expect("it is one of them")
    }

    fn work(&mut self, id: u64) {
        let step = self.node(id).work();
        self.follow(id, step);
        if let Some(term) = self.nodes[&id].leads() {
            let leader = *self.leaders.entry(term).or_insert(id);
            if leader != id {
                self.broken = Some(format!("term {term} has two leaders, {leader} and {id}"));
            }
        }
    }

    fn follow(&mut self, id: u64, step: NodeStep) {
        for message in step.send {
            let mut below = |end| self.random.below(end);
            if let Some(time) = self.links.travel(id, message.to, self.now, &mut below) {
                self.plan(time, Event::Frame(Box::new(message)));
            }
        }
        if let Some(after) = step.sync {
            let (life, until) = (self.nodes[&id].life, self.now + after);
            self.node(id).writing_until = until;
            self.plan(after, Event::Synced(id, life));
        }
        for (index, term, data) in step.applied {
            let known = self.committed.entry(index).or_insert_with(|| (term, data.clone()));
            if *known != (term, data.clone()) {
                self.broken = Some(format!("node {id}: entry {index} of term {term} was another one before"));
            }
            let leads = self.nodes[&id].leads().is_some();
            let asker = (0..CLIENTS).find(|name| {
                let client = self.clients.get(usize::from(*name));
                leads && client.is_some_and(|client| client.waits && command(*name, client.number) == data)
            });
            if let Some(name) = asker {
                self.acknowledged.push(data);
                self.answered(name, true);
            }
        }
    }

    fn propose(&mut self, name: u8) {
        let Client { number, node, .. } = self.clients[usize::from(name)];
        if number == COMMANDS {
            return;
        }
        let is_taken = self.node(node).propose(command(name, number));
        self.clients[usize::from(name)].waits = is_taken;
        match is_taken {
            true => {
                self.plan(WITHIN * MILLISECOND, Event::GiveUp(name, number));
                self.work(node);
            }
            false => self.answered(name, false),
        }
    }

    /// A client has its answer, or goes on without one: with its next command, since whether a lost answer means a commit isn't known.
    fn answered(&mut self, name: u8, is_done: bool) {
        let nodes = self.nodes.len() as u64;
        let client = &self.clients[usize::from(name)];
        let (number, node) = (client.number + 1, client.node);
        let other = self.nodes[&node].leader().unwrap_or_else(|| 1 + self.random.below(nodes));
        let node = if is_done { node } else { other };
        self.clients[usize::from(name)] = Client { number, node, waits: false };
        let pause = PAUSE * MILLISECOND / 2 + self.random.below(PAUSE * MILLISECOND + 1);
        self.plan(pause + u64::from(!is_done) * MILLISECOND, Event::Client(name));
    }

    fn carry_out(&mut self, strike: Strike) {
        let (now, nodes) = (self.now, self.nodes.len() as u64);
        match strike {
            Strike::Kill(node) => self.node(node).end(false),
            Strike::CutPower(node) => self.node(node).end(true),
            Strike::CutPowerOfAll => self.nodes.values_mut().for_each(|node| node.end(true)),
            Strike::Pause(node, milliseconds) => {
                let node = self.node(node);
                node.paused_until = node.paused_until.max(now + milliseconds * MILLISECOND);
            }
            Strike::Isolate(node) => self.links.isolate(node, 1..=nodes),
            Strike::CutOneWay(from, to) => self.links.cut(from, to),
            Strike::Lose { loss, delay } => (self.links.loss, self.links.delay) = (loss, delay),
            Strike::Flap(from, to, period) => self.links.flap(from, to, period, now),
            Strike::SlowDisk(node, microseconds) => self.node(node).sync_time = microseconds * 1000,
            Strike::Mend => {
                self.links.heal();
                for node in self.nodes.values_mut() {
                    node.mend_disk();
                    if !node.is_alive() {
                        node.start();
                    }
                }
            }
        }
    }

    /// Whether there is a leader, and all have applied what it has committed.
    fn is_even(&self) -> bool {
        let leader = self.nodes.values().filter(|node| node.leads().is_some()).max_by_key(|node| node.leads());
        leader.is_some_and(|leader| {
            self.nodes.values().all(|node| node.is_alive() && node.applied.len() as u64 == leader.commit())
        })
    }
}

/// A command of a client.
fn command(name: u8, number: u64) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[name; 8]].concat()
}
