//! A new client that reads everything on the broker and leaves it unchanged.

use std::collections::{BTreeMap, BTreeSet};

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::queue_handle::{QueueRef, RunState, Status};
use leveret_queue::QueueState;
use leveret_strict_client::amqp091::{Consume, QueueDeclare};

use crate::amqp091::{Heard, Received};
use crate::body;
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, Object};
use crate::link::End;
use crate::peer::stopped_queue;
use crate::streams::{self, is_stream};
use crate::world::World;

/// Size in bytes of such a client's socket buffers. Slow sockets are tested by the workload, not here.
const SOCKET_BYTES: usize = 1 << 20;

/// The findings of an audit.
#[derive(Debug, Default)]
pub struct Findings {
    /// Messages of each queue, in order.
    pub queues: BTreeMap<String, Vec<Received>>,
    /// Objects that exist, among all that clients ever asked for.
    pub objects: BTreeSet<Object>,
    /// The broker recognized the last life's end as a clean stop.
    pub clean: bool,
    /// Of each stream, the first offset, the one behind the last, and the bytes.
    pub streams: BTreeMap<String, (u64, u64, u64)>,
    /// The time, in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// Queues that have stopped: nothing is known about them.
    pub stopped: BTreeSet<String>,
}

/// Runs until nothing moves any more, then reads everything.
///
/// # Errors
/// The broker broke a rule during the audit, or its counters disagree with the messages that a client gets.
pub fn audit(world: &mut World, ledger: &Ledger) -> Result<Findings, Failure> {
    // Delayed messages come due meanwhile.
    while world.step()? {}
    let mut findings = Findings { objects: topology(world, ledger), ..Findings::default() };
    let link = world.connect_over(End::Amqp091(Box::default()), SOCKET_BYTES);
    let names: Vec<String> = ledger.queues().map(str::to_owned).collect();
    let mut channels: BTreeMap<u16, String> = BTreeMap::new();
    let mut announced: BTreeMap<u16, u32> = BTreeMap::new();
    loop {
        let goes_on = world.step()?;
        let heard = world.links[link].amqp091().heard();
        if heard.iter().any(|heard| matches!(heard, Heard::Cancelled(..))) {
            world.note_failed();
        }
        for heard in heard {
            match heard {
                Heard::Connected => {
                    for (at, name) in names.iter().enumerate() {
                        let channel = at as u16 + 1;
                        channels.insert(channel, name.clone());
                        world.links[link].amqp091().client.open_channel(channel);
                    }
                }
                Heard::Reply(channel, "channel.open-ok") => {
                    let passive = QueueDeclare { passive: true, ..QueueDeclare::default() };
                    let name = channels[&channel].as_bytes();
                    if is_stream(&channels[&channel]) {
                        world.links[link].amqp091().client.qos(channel, u16::MAX, false);
                    }
                    world.links[link].amqp091().client.declare_queue(channel, name, passive, &FieldTable::new());
                }
                Heard::Declared(channel, ready) => {
                    let name = &channels[&channel];
                    findings.queues.insert(name.clone(), Vec::new());
                    announced.insert(channel, ready);
                    let client = &mut world.links[link].amqp091().client;
                    let mut arguments = FieldTable::new();
                    if is_stream(name) {
                        arguments.insert(body::X_STREAM_OFFSET, FieldValue::LongString(b"first".to_vec()));
                    }
                    client.consume(channel, name.as_bytes(), b"audit", Consume::default(), &arguments);
                }
                Heard::Delivered(received) => {
                    let name = &channels[&received.channel];
                    findings.queues.entry(name.clone()).or_default().push(received);
                }
                Heard::ChannelClosed(_, reason) if reason.code == 404 => {}
                Heard::ChannelClosed(_, reason)
                    if stopped_queue(&reason.text).is_some_and(|queue| world.failed.contains(queue)) => {}
                // A read failed, so its queue has stopped.
                Heard::Cancelled(channel, _) if world.failed.contains(&channels[&channel]) => {}
                Heard::Consumer(_) | Heard::Reply(_, "basic.qos-ok") => {}
                other => {
                    let text = format!("the audit heard {other:?}; failed queues: {:?}", failures(world));
                    return Err(Failure::new(Check::Protocol, text));
                }
            }
        }
        if !goes_on {
            break;
        }
    }
    findings.stopped.clone_from(&world.failed);
    findings.queues.retain(|name, _| !world.failed.contains(name));
    for (channel, name) in channels.iter().filter(|(_, name)| !world.failed.contains(*name)) {
        let found = findings.queues.get(name);
        let presence = found.is_some();
        let expected = findings.objects.contains(&Object::Queue(name.clone()));
        if presence != expected {
            let detail = format!("queue {name}: a client says {presence}, the topology {expected}");
            return Err(Failure::new(Check::Conservation, detail));
        }
        let (Some(found), Some(announced)) = (found, announced.get(channel)) else { continue };
        if found.len() != *announced as usize {
            let detail = format!("queue {name} announced {announced} messages and delivered {}", found.len());
            return Err(Failure::new(Check::NothingLost, detail));
        }
    }
    if channels.len() != names.len() {
        return Err(Failure::new(Check::Answered, "the audit's connection was never opened"));
    }
    world.disconnect(link);
    while world.step()? {}
    conservation(world, ledger, &findings)?;
    findings.now_ms = world.clock.now().wall_ms;
    for name in findings.queues.keys().filter(|name| is_stream(name)) {
        findings.streams.extend(streams::extent(world, name).map(|extent| (name.clone(), extent)));
    }
    Ok(findings)
}

fn topology(world: &World, ledger: &Ledger) -> BTreeSet<Object> {
    let snapshot = world.broker.registry.snapshot_full();
    let topology = &snapshot.topology;
    let is_there = |object: &&Object| match object {
        Object::Queue(name) => topology.queue("/", name).is_some(),
        Object::Exchange(name) => topology.exchange("/", name).is_some(),
        Object::Binding(exchange, queue, key) => {
            let queue = topology.queue("/", queue).map(|queue| queue.id);
            topology.bindings_of_source("/", exchange).any(|binding| {
                matches!(binding.destination, leveret_model::Destination::Queue { id, .. } if Some(id) == queue)
                    && *binding.routing_key == *key.as_bytes()
            })
        }
    };
    ledger.objects().filter(is_there).cloned().collect()
}

/// Compares with the queue's own counters, after all messages were returned to it.
fn conservation(world: &World, ledger: &Ledger, findings: &Findings) -> Result<(), Failure> {
    let snapshot = world.broker.registry.snapshot_full();
    for (name, found) in &findings.queues {
        let Some(queue) = snapshot.queue("/", name) else { continue };
        let status = queue.look(Status).expect("it is there");
        let counters = status.conservation;
        let inside = status.ready + status.unacknowledged;
        let size = |received: &Received| {
            let message = body::id(&received.content.body).and_then(|id| ledger.messages.get(id as usize));
            message.map_or(0, |message| message.bytes)
        };
        let bytes: u64 = found.iter().map(size).sum();
        // A stream counts the bytes of its chunks.
        if !is_stream(name) && (status.ready_bytes, status.bytes) != (bytes, bytes) {
            let (shown, kept) = (status.ready_bytes, status.bytes);
            let detail = format!("queue {name}: {shown} bytes are shown, {kept} kept, a client found {bytes}");
            return Err(Failure::new(Check::NoLies, detail));
        }
        if counters.accepted != counters.gone() + inside || inside != found.len() as u64 || status.pending != 0 {
            let detail = format!(
                "queue {name}: {counters:?}, ready {}, unacknowledged {}, pending {}, a client found {}",
                status.ready,
                status.unacknowledged,
                status.pending,
                found.len()
            );
            return Err(Failure::new(Check::Conservation, detail));
        }
    }
    Ok(())
}

/// The queues that stopped, with their reasons.
fn failures(world: &World) -> Vec<String> {
    let snapshot = world.broker.registry.snapshot_full();
    let reason = |queue: &QueueRef| match queue.look(RunState) {
        QueueState::Failed(reason) => Some(format!("{}: {reason}", queue.info().name)),
        _ => None,
    };
    snapshot.queues.values().filter_map(reason).collect()
}
