//! What clients do: declare, bind, publish, fan out, consume, get, settle, give back, purge, delete, vanish.

use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp091::QueueDeclare;

use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, Object, Presence};
use crate::peer::{CONSUME, Held, PUBLISH, Peer, Request};
use crate::world::World;

/// Queues that each peer owns.
const QUEUES: u64 = 3;

/// See the module.
#[derive(Debug)]
pub struct Workload {
    peers: Vec<Peer>,
    /// Operations of clients so far.
    pub operations: usize,
    limit: usize,
}

impl Workload {
    /// Connects `peers` clients that make at least `limit` operations.
    pub fn new(world: &mut World, ledger: &mut Ledger, peers: usize, limit: usize) -> Self {
        let peers = (0..peers).map(|number| Peer::new(number, world.connect(), ledger)).collect();
        Self { peers, operations: 0, limit }
    }

    /// One step: of a client that does something, or of the world. False when all is done and answered.
    ///
    /// # Errors
    /// A rule was found broken.
    pub fn step(&mut self, world: &mut World, ledger: &mut Ledger) -> Result<bool, Failure> {
        let at = world.disk.count();
        if self.operations < self.limit && world.random.below(6) == 0 {
            let choice = world.random.below(self.peers.len() as u64) as usize;
            let peer = &mut self.peers[choice];
            if peer.may_go_on(&world.links[peer.link]) {
                self.operations += operate(peer, world, ledger);
                return Ok(true);
            }
        }
        let moved = world.step()?;
        for peer in &mut self.peers {
            let link = &mut world.links[peer.link];
            if !link.has_news() {
                continue;
            }
            for heard in link.heard() {
                peer.hear(heard, link, ledger, &mut world.tally, at)?;
            }
        }
        if moved {
            return Ok(true);
        }
        self.settle_down(world, ledger)
    }

    /// Nothing moves: everything has to be answered. True when there was something left to do.
    fn settle_down(&mut self, world: &mut World, ledger: &mut Ledger) -> Result<bool, Failure> {
        for peer in &mut self.peers {
            let link = &mut world.links[peer.link];
            if !peer.is_answered() || !link.is_quiet() {
                return Err(Failure::new(Check::Answered, format!("nothing moves any more; {}", peer.open())));
            }
            if self.operations < self.limit && !peer.may_go_on(link) {
                return Err(Failure::new(Check::Answered, format!("peer {} cannot go on", peer.number)));
            }
        }
        let idle = self.peers.iter().find_map(|peer| waiting(peer, world, ledger));
        if let Some(detail) = idle {
            return Err(Failure::new(Check::Answered, detail));
        }
        Ok(self.operations < self.limit)
    }
}

/// A queue with ready messages whose consumer has room and gets none.
fn waiting(peer: &Peer, world: &World, ledger: &Ledger) -> Option<String> {
    let snapshot = world.broker.registry.snapshot_full();
    for consumer in peer.consumers.values() {
        if ledger.presence_now(&Object::Queue(consumer.queue.clone())) != Presence::Present {
            continue;
        }
        let Some(queue) = snapshot.queue("/", &consumer.queue) else { continue };
        let status = queue.status();
        let able = status.consumers.iter().any(|known| known.prefetch == 0 || known.unacknowledged < known.prefetch);
        if status.ready > 0 && able {
            return Some(format!("queue {}: {} ready, and an able consumer waits", consumer.queue, status.ready));
        }
    }
    None
}

fn own_queue(number: usize, at: u64) -> String {
    format!("q{number}-{at}")
}

fn own_exchange(number: usize) -> String {
    format!("x{number}")
}

/// Does one thing; returns how many operations that was.
fn operate(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let dice = world.random.below(100);
    if dice < 2 && peer.held.is_empty() && peer.consumers.is_empty() || dice == 2 {
        world.tally.hit("connections dropped");
        world.disconnect(peer.link);
        peer.lose_all(ledger);
        *peer = Peer::new(peer.number, world.connect(), ledger);
        return 1;
    }
    if let Some(missing) = missing(peer.number, ledger).filter(|_| dice < 40) {
        make(peer, world, ledger, missing);
        return 1;
    }
    match dice {
        3..=5 => unmake(peer, world, ledger),
        6..=12 => start_consumer(peer, world, ledger),
        13..=15 => cancel(peer, world),
        16..=21 => get(peer, world, ledger),
        22..=42 if !peer.held.is_empty() => settle(peer, world, ledger),
        _ => publish(peer, world, ledger),
    }
}

/// The first of a peer's objects that isn't there, and isn't asked for.
fn missing(number: usize, ledger: &Ledger) -> Option<Object> {
    let exchange = own_exchange(number);
    let mut wanted = vec![Object::Exchange(exchange.clone())];
    for at in 0..QUEUES {
        wanted.push(Object::Queue(own_queue(number, at)));
        wanted.push(Object::Binding(exchange.clone(), own_queue(number, at), String::new()));
    }
    wanted.into_iter().find(|object| ledger.presence_now(object) != Presence::Present)
}

fn make(peer: &mut Peer, world: &mut World, ledger: &mut Ledger, object: Object) {
    let at = world.disk.count();
    let client = &mut world.links[peer.link].client;
    let none = FieldTable::new();
    match &object {
        Object::Queue(name) => {
            let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
            client.declare_queue(PUBLISH, name.as_bytes(), flags, &none);
        }
        Object::Exchange(name) => client.declare_exchange(PUBLISH, name.as_bytes(), "fanout", true, &none),
        Object::Binding(exchange, queue, key) => {
            client.bind_queue(PUBLISH, queue.as_bytes(), exchange.as_bytes(), key.as_bytes(), &none);
        }
    }
    if ledger.presence_now(&object) == Presence::Absent {
        ledger.note(object.clone(), at, Presence::Unknown);
    }
    peer.ask(PUBLISH, Request::Make(object));
}

/// Purges, unbinds or deletes something of its own.
fn unmake(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let at = world.disk.count();
    let queue = own_queue(peer.number, 1 + world.random.below(QUEUES - 1));
    let exchange = own_exchange(peer.number);
    let is_there = |object: &Object| ledger.presence_now(object) == Presence::Present;
    let binding = |queue: &str| Object::Binding(exchange.clone(), queue.to_owned(), String::new());
    let client = &mut world.links[peer.link].client;
    if !is_there(&Object::Queue(queue.clone())) {
        return 0;
    }
    match world.random.below(5) {
        0 => {
            client.delete_queue(PUBLISH, queue.as_bytes());
            let gone = vec![binding(&queue)];
            ledger.note(gone[0].clone(), at, Presence::Unknown);
            ledger.note(Object::Queue(queue.clone()), at, Presence::Unknown);
            ledger.begin_emptying(&queue, at);
            peer.ask(PUBLISH, Request::Delete(queue, gone, at));
        }
        1 if is_there(&binding(&queue)) => {
            client.unbind_queue(PUBLISH, queue.as_bytes(), exchange.as_bytes(), b"", &FieldTable::new());
            ledger.note(binding(&queue), at, Presence::Unknown);
            ledger.begin_unbind(&exchange, &queue, at);
            peer.ask(PUBLISH, Request::Unmake(vec![binding(&queue)]));
        }
        2 if is_there(&Object::Exchange(exchange.clone())) => {
            client.delete_exchange(PUBLISH, exchange.as_bytes());
            let mut gone = vec![Object::Exchange(exchange.clone())];
            gone.extend((0..QUEUES).map(|at| binding(&own_queue(peer.number, at))));
            for object in &gone {
                ledger.note(object.clone(), at, Presence::Unknown);
            }
            for queue in (0..QUEUES).map(|at| own_queue(peer.number, at)) {
                ledger.begin_unbind(&exchange, &queue, at);
            }
            peer.ask(PUBLISH, Request::Unmake(gone));
        }
        _ => {
            client.purge_queue(PUBLISH, queue.as_bytes());
            ledger.begin_emptying(&queue, at);
            peer.ask(PUBLISH, Request::Purge(queue, at));
        }
    }
    1
}

/// A queue of anybody that is there.
fn some_queue(world: &mut World, ledger: &Ledger, from: u64) -> Option<String> {
    let is_there = |name: &&str| {
        ledger.presence_now(&Object::Queue((*name).to_owned())) == Presence::Present
            && name.rsplit('-').next().and_then(|at| at.parse().ok()).is_some_and(|at: u64| at >= from)
    };
    let queues: Vec<&str> = ledger.queues().filter(is_there).collect();
    if queues.is_empty() {
        return None;
    }
    Some(queues[world.random.below(queues.len() as u64) as usize].to_owned())
}

fn start_consumer(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let at = world.disk.count();
    // The first queue of each peer keeps its backlog.
    let Some(queue) = some_queue(world, ledger, 1).filter(|_| peer.consumers.len() < 2) else { return 0 };
    let no_ack = queue.ends_with("-2") && world.random.below(3) == 0;
    peer.consume(&mut world.links[peer.link], ledger, &queue, no_ack, at);
    1
}

fn cancel(peer: &mut Peer, world: &mut World) -> usize {
    let Some(tag) = peer.consumers.keys().next().cloned() else { return 0 };
    // A tag whose cancel is under way would be cancelled twice; the client forgets it with the answer.
    if !peer.held.is_empty() || peer.is_cancelling(&tag) {
        return 0;
    }
    world.links[peer.link].client.cancel(CONSUME, &tag);
    peer.ask(CONSUME, Request::Cancel(tag));
    1
}

fn get(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let at = world.disk.count();
    let Some(queue) = some_queue(world, ledger, 0) else { return 0 };
    let no_ack = !queue.ends_with("-0") && world.random.below(3) == 0;
    world.links[peer.link].client.get(CONSUME, queue.as_bytes(), no_ack);
    ledger.begin_reading(&queue, no_ack.into(), at);
    peer.ask(CONSUME, Request::Get(queue, no_ack, at));
    1
}

/// Acknowledges, rejects or gives back what it holds.
fn settle(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let at = world.disk.count();
    let client = &mut world.links[peer.link].client;
    let choice = world.random.below(peer.held.len() as u64) as usize;
    let multiple = world.random.below(2) == 0;
    let tag = peer.held[choice].tag;
    let mut settled: Vec<Held> = Vec::new();
    peer.held.retain(|held| {
        let hit = held.tag == tag || multiple && held.tag <= tag;
        if hit {
            settled.push(held.clone());
        }
        !hit
    });
    let dice = world.random.below(10);
    // What the first queues hold is given back, so that they keep a backlog.
    let keep = settled.iter().any(|held| held.queue.ends_with("-0"));
    if keep || dice == 0 {
        client.nack(CONSUME, tag, multiple, true);
        world.tally.add("messages requeued", settled.len() as u64);
        return 1;
    }
    if dice == 1 {
        client.nack(CONSUME, tag, multiple, false);
    } else {
        client.ack(CONSUME, tag, multiple);
    }
    world.tally.add("messages settled", settled.len() as u64);
    settled.iter().for_each(|held| ledger.settle(&held.queue, held.id, at));
    1
}

/// Some messages to an exchange or a queue.
fn publish(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let at = world.disk.count();
    let is_there = |object: &&Object| ledger.presence_now(object) == Presence::Present;
    let exchanges = ledger.objects().filter(|object| matches!(object, Object::Exchange(_)));
    let exchanges: Vec<Object> = exchanges.filter(is_there).cloned().collect();
    let fan_out = !exchanges.is_empty() && world.random.below(3) > 0;
    let (exchange, key) = if fan_out {
        let choice = world.random.below(exchanges.len() as u64) as usize;
        let Object::Exchange(name) = &exchanges[choice] else { return 0 };
        world.tally.hit("fan-outs");
        (name.clone(), String::from("any"))
    } else {
        let Some(queue) = some_queue(world, ledger, 0) else { return 0 };
        (String::new(), queue)
    };
    let count = 1 + world.random.below(3) as usize;
    let persistent = world.random.below(5) > 0;
    for _ in 0..count {
        let length = length(world);
        peer.publish(&mut world.links[peer.link], ledger, (&exchange, &key), (length, persistent), at);
    }
    count
}

fn length(world: &mut World) -> usize {
    let random = &mut world.random;
    let length = match random.below(100) {
        0..=59 => random.below(200),
        60..=89 => random.below(4_000),
        90..=98 => 4_000 + random.below(12_000),
        _ => 20_000 + random.below(60_000),
    };
    if length >= 4_096 {
        world.tally.hit("large bodies");
    }
    length.max(crate::body::LENGTH_MIN as u64) as usize
}
