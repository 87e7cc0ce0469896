//! The actions of a peer of AMQP 0-9-1: declare, bind, publish, fan out, consume, get, settle, return, purge, delete,
//! vanish.

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_strict_client::amqp091::QueueDeclare;

use super::peer::{CONSUME, HeldMessage, PUBLISH, Peer, Request};
use crate::ledger::{Ledger, Object, Presence};
use crate::peer::length;
use crate::streams::{self, StreamKind, is_stream};
use crate::topology::{self, QUEUES, keeps_backlog, may_be_drained, some_queue, some_route, some_source};
use crate::world::World;

/// Carries out one action; returns the number of operations.
pub(super) fn operate(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let dice = world.random.below(100);
    let is_idle = peer.held.is_empty() && peer.consumers.is_empty();
    if (dice < 2 && is_idle || dice == 2) && !world.is_gentle {
        world.tally.hit("connections dropped");
        world.disconnect(peer.link);
        peer.lose_all(ledger);
        *peer = Peer::connect(peer.number, world, ledger);
        return 1;
    }
    if let Some(missing) = topology::missing(peer.number, ledger).filter(|_| dice < 40) {
        make(peer, world, ledger, missing);
        return 1;
    }
    match dice {
        3..=5 if !world.is_gentle => unmake(peer, world, ledger),
        6..=12 => start_consumer(peer, world, ledger),
        13..=15 if !world.is_gentle => cancel(peer, world),
        16..=21 => get(peer, world, ledger),
        22..=42 if !peer.held.is_empty() => settle(peer, world, ledger),
        _ => publish(peer, world, ledger),
    }
}

fn make(peer: &mut Peer, world: &mut World, ledger: &mut Ledger, object: Object) {
    let at = world.disk.count();
    let client = &mut world.links[peer.link].amqp091().client;
    let none = FieldTable::new();
    match &object {
        Object::Queue(name) => {
            let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
            client.declare_queue(PUBLISH, name.as_bytes(), flags, &arguments(name));
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

fn arguments(queue: &str) -> FieldTable {
    let mut arguments = FieldTable::new();
    let text = |text: &str| FieldValue::LongString(text.as_bytes().to_vec());
    if topology::is_written_only(queue) {
        arguments.insert("x-durability", text("os"));
    }
    let age = || text(&format!("{}s", streams::AGE_MAX_MS / 1000));
    let limit = match StreamKind::of(queue) {
        Some(StreamKind::Bytes) => Some(("x-max-length-bytes", FieldValue::I64(streams::BYTES_MAX as i64))),
        Some(StreamKind::Age) => Some(("x-max-age", age())),
        _ => None,
    };
    if let Some((key, value)) = limit {
        arguments.insert(key, value);
    }
    if is_stream(queue) {
        arguments.insert("x-queue-type", text("stream"));
    }
    if topology::is_quorum(queue) {
        arguments.insert("x-queue-type", text("quorum"));
        // Connections drop so often that messages would come to the default limit.
        arguments.insert("x-delivery-limit", FieldValue::I32(-1));
    }
    if topology::is_single_active(queue) {
        arguments.insert("x-single-active-consumer", FieldValue::Bool(true));
    }
    if let Some(dead) = topology::dead_letters_of(queue) {
        arguments.insert("x-dead-letter-exchange", text(""));
        arguments.insert("x-dead-letter-routing-key", text(&dead));
    }
    arguments
}

/// Purges, unbinds or deletes one of its own objects.
fn unmake(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let at = world.disk.count();
    let queue = match 1 + world.random.below(QUEUES + 1) {
        QUEUES => topology::dead_queue(peer.number),
        at if at > QUEUES => topology::stream(peer.number, ledger.stream_kind),
        at => topology::queue(peer.number, at),
    };
    let exchange = topology::exchange(peer.number);
    let is_there = |object: &Object| ledger.presence_now(object) == Presence::Present;
    let binding = |queue: &str| Object::Binding(exchange.clone(), queue.to_owned(), String::new());
    let client = &mut world.links[peer.link].amqp091().client;
    if !is_there(&Object::Queue(queue.clone())) {
        return 0;
    }
    match world.random.below(5) {
        0 => {
            client.delete_queue(PUBLISH, queue.as_bytes());
            let is_bound = ledger.objects().any(|object| *object == binding(&queue));
            let gone: Vec<Object> = is_bound.then(|| binding(&queue)).into_iter().collect();
            gone.iter().for_each(|object| ledger.note(object.clone(), at, Presence::Unknown));
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
            let queues = topology::bound(peer.number, ledger);
            gone.extend(queues.iter().map(|queue| binding(queue)));
            for object in &gone {
                ledger.note(object.clone(), at, Presence::Unknown);
            }
            for queue in &queues {
                ledger.begin_unbind(&exchange, queue, at);
            }
            peer.ask(PUBLISH, Request::Unmake(gone));
        }
        // A stream can't be purged.
        _ if is_stream(&queue) => return 0,
        _ => {
            client.purge_queue(PUBLISH, queue.as_bytes());
            ledger.begin_emptying(&queue, at);
            peer.ask(PUBLISH, Request::Purge(queue, at));
        }
    }
    1
}

fn start_consumer(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let at = world.disk.count();
    // The first queue of each peer keeps its backlog.
    let Some(queue) = some_source(world, ledger).filter(|_| peer.consumers.len() < 2) else { return 0 };
    let no_ack = may_be_drained(&queue) && world.random.below(3) == 0;
    // Others have one priority, so that their consumers take turns.
    let priority = if topology::is_single_active(&queue) { world.random.below(3) as i32 } else { 0 };
    peer.consume(world, ledger, &queue, (no_ack, priority), at);
    1
}

fn cancel(peer: &mut Peer, world: &mut World) -> usize {
    let Some(tag) = peer.consumers.keys().next().cloned() else { return 0 };
    // A tag whose cancel is under way would be cancelled twice; the client forgets it with the answer.
    if !peer.held.is_empty() || peer.is_cancelling(&tag) {
        return 0;
    }
    world.links[peer.link].amqp091().client.cancel(CONSUME, &tag);
    peer.ask(CONSUME, Request::Cancel(tag));
    1
}

fn get(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let at = world.disk.count();
    let Some(queue) = some_queue(world, ledger) else { return 0 };
    let no_ack = !keeps_backlog(&queue) && world.random.below(3) == 0;
    world.links[peer.link].amqp091().client.get(CONSUME, queue.as_bytes(), no_ack);
    ledger.begin_reading(&queue, no_ack.into(), at);
    peer.ask(CONSUME, Request::Get(queue, no_ack, at));
    1
}

/// Acknowledges, rejects or requeues deliveries that it holds.
fn settle(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let at = world.disk.count();
    let client = &mut world.links[peer.link].amqp091().client;
    let choice = world.random.below(peer.held.len() as u64) as usize;
    let multiple = world.random.below(2) == 0;
    let tag = peer.held[choice].tag;
    let mut settled: Vec<HeldMessage> = Vec::new();
    peer.held.retain(|held| {
        let hit = held.tag == tag || multiple && held.tag <= tag;
        if hit {
            settled.push(held.clone());
        }
        !hit
    });
    let dice = world.random.below(10);
    // Deliveries of the first queues are requeued, so that these keep a backlog.
    let keep = settled.iter().any(|held| keeps_backlog(&held.queue));
    if keep || dice == 0 {
        client.nack(CONSUME, tag, multiple, true);
        world.tally.add("messages requeued", settled.len() as u64);
        return 1;
    }
    world.tally.add("messages settled", settled.len() as u64);
    let client = &mut world.links[peer.link].amqp091().client;
    if dice == 1 {
        client.nack(CONSUME, tag, multiple, false);
        settled.iter().for_each(|held| ledger.reject(&held.queue, held.id, at));
    } else {
        client.ack(CONSUME, tag, multiple);
        settled.iter().for_each(|held| ledger.settle(&held.queue, held.id, at));
    }
    1
}

/// Publishes some messages to an exchange or a queue.
fn publish(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let at = world.disk.count();
    let Some((exchange, key)) = some_route(world, ledger) else { return 0 };
    let count = 1 + world.random.below(3) as usize;
    let persistent = world.random.below(5) > 0;
    for _ in 0..count {
        let length = length(world);
        peer.publish(world, ledger, (&exchange, &key), (length, persistent), at);
    }
    count
}
