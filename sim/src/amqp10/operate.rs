//! The actions of a peer of AMQP 1.0: begin, attach, publish, grant, drain, settle, return, detach, end, vanish.

use leveret_amqp10::performative::Attach;
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{
    DeliveryState, MapRef, Outcome, OwnedValue, Role, SenderSettleMode, Source, Target, TargetArchetype,
};
use leveret_strict_client::amqp10::{Client, Send, SessionOptions};

use super::filter::Filter;
use super::message;
use super::peer::Peer;
use super::session::{HeldDelivery, Link, LinkEnd, Receiver, Sender, Stage, Wish};
use super::transact::transact;
use crate::ledger::Ledger;
use crate::peer::{FILTERING, UNLIMITED, delivery_time, length};
use crate::streams::{Start, StreamReader, is_stream};
use crate::topology::{is_quorum, may_be_drained, some_route, some_source};
use crate::world::World;

/// Number of deferral tokens that clients use.
const TOKENS: u64 = 8;

fn token(number: u64) -> String {
    format!("token {number}")
}

/// Carries out one action; returns the number of operations.
pub(super) fn operate(peer: &mut Peer, world: &mut World, ledger: &mut Ledger) -> usize {
    let dice = world.random.below(100);
    if dice == 0 && !world.is_gentle {
        world.tally.hit("connections dropped");
        world.disconnect(peer.link);
        peer.lose_all(ledger);
        *peer = Peer::connect(peer.number, world);
        return 1;
    }
    let at = world.random.below(2) as usize;
    match (peer.sessions[at].stage, dice) {
        (Stage::Absent, _) => begin(peer, at, world),
        (Stage::Coming | Stage::Going, _) => 0,
        (Stage::There, 1) if !world.is_gentle => end(peer, at, world),
        (Stage::There, 2..=9) => attach_sender(peer, at, world, ledger),
        (Stage::There, 10..=18) => attach_receiver(peer, at, world, ledger),
        (Stage::There, 19..=22) if !world.is_gentle => detach(peer, at, world, ledger),
        (Stage::There, 23..=42) => grant(peer, at, world),
        (Stage::There, 43..=49) => transact(peer, at, world, ledger),
        (Stage::There, 50..=71) if !peer.sessions[at].held.is_empty() => settle(peer, at, world, ledger),
        (Stage::There, _) => publish(peer, at, world, ledger),
    }
}

fn begin(peer: &mut Peer, at: usize, world: &mut World) -> usize {
    let session = &mut peer.sessions[at];
    let options = SessionOptions {
        incoming_window: [1, 2, 5, 2_048][world.random.below(4) as usize],
        // Some sessions' ids wrap around at the end of the number space.
        next_outgoing_id: [0, u32::MAX - 7][world.random.below(2) as usize],
        ..SessionOptions::default()
    };
    world.links[peer.link].amqp10().client.begin(session.channel, options);
    session.stage = Stage::Coming;
    1
}

fn end(peer: &mut Peer, at: usize, world: &mut World) -> usize {
    let session = &mut peer.sessions[at];
    world.tally.hit("sessions ended");
    world.links[peer.link].amqp10().client.end(session.channel, None);
    session.stage = Stage::Going;
    1
}

fn attach_sender(peer: &mut Peer, at: usize, world: &mut World, ledger: &mut Ledger) -> usize {
    let Some(handle) = peer.free_handle(at) else { return 0 };
    let Some((exchange, key)) = some_route(world, ledger) else { return 0 };
    let address = if exchange.is_empty() { format!("/queues/{key}") } else { format!("/exchanges/{exchange}/{key}") };
    let (name, channel) = (peer.name(), peer.sessions[at].channel);
    world.links[peer.link].amqp10().client.attach_sender(channel, handle, &name, Some(&address));
    let end = LinkEnd::Sender(Sender { publisher: ledger.publisher(), exchange, key });
    peer.sessions[at].links.insert(handle, Link { stage: Stage::Coming, end });
    1
}

fn attach_receiver(peer: &mut Peer, at: usize, world: &mut World, ledger: &mut Ledger) -> usize {
    let since = world.disk.count();
    let Some(handle) = peer.free_handle(at) else { return 0 };
    let Some(queue) = some_source(world, ledger) else { return 0 };
    let settled = (may_be_drained(&queue) || is_stream(&queue)) && world.random.below(3) == 0;
    let start = is_stream(&queue).then(|| Start::any(&mut world.random, ledger, &queue));
    let reader = start.map(|start| StreamReader::new(start, ledger, &queue));
    let filter = (start.is_none() && world.random.below(3) == 0).then(|| Filter::any(&mut world.random));
    let kind = if filter.is_some() { FILTERING } else { "" };
    let (name, channel) = (format!("{kind}{}", peer.name()), peer.sessions[at].channel);
    let credit = world.random.below(4) as u32;
    let client = &mut world.links[peer.link].amqp10().client;
    let filters = start.map(offset).or(filter.map(Filter::encode));
    match filters {
        Some(filters) => attach_filtered(client, channel, (handle, &name), &queue, settled, &filters),
        None => client.attach_receiver(channel, handle, &name, &format!("/queues/{queue}"), settled),
    }
    if credit > 0 {
        // Some links are granted credit before their attach is answered.
        client.grant(channel, handle, credit, false);
    }
    ledger.begin_reading(&queue, if settled { UNLIMITED } else { 0 }, since);
    let end = LinkEnd::Receiver(Receiver {
        queue,
        settled,
        since,
        credit,
        last: Default::default(),
        reader,
        filter,
        drains: false,
        active: None,
    });
    peer.sessions[at].links.insert(handle, Link { stage: Stage::Coming, end });
    1
}

/// The filters of a reader that begins at this place of a stream.
fn offset(start: Start) -> EncodedMap {
    let text = |text: &str| OwnedValue::String(text.into());
    message::stream_offset(match start {
        Start::First => text("first"),
        Start::Last => text("last"),
        Start::Next => text("next"),
        Start::Offset(offset) => OwnedValue::Ulong(offset),
    })
}

/// Attaches a receiver with filters.
fn attach_filtered(
    client: &mut Client,
    channel: u16,
    (handle, name): (u32, &str),
    queue: &str,
    settled: bool,
    filters: &EncodedMap,
) {
    let address = format!("/queues/{queue}");
    let attach = Attach {
        name,
        handle,
        role: Role::Receiver,
        snd_settle_mode: if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled },
        source: Some(Source { address: Some(&address), filter: Some(filters.as_map()), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target::default())),
        ..Attach::default()
    };
    client.attach(channel, &attach);
}

/// One of the session's links for which `wanted` is true.
fn some_link(peer: &Peer, at: usize, world: &mut World, wanted: impl Fn(&LinkEnd) -> bool) -> Option<u32> {
    let links = peer.sessions[at].attached().filter(|(_, end)| wanted(end));
    let handles: Vec<u32> = links.map(|(handle, _)| handle).collect();
    if handles.is_empty() {
        return None;
    }
    Some(handles[world.random.below(handles.len() as u64) as usize])
}

fn detach(peer: &mut Peer, at: usize, world: &mut World, ledger: &mut Ledger) -> usize {
    let Some(handle) = some_link(peer, at, world, |_| true) else { return 0 };
    let closed = world.random.below(2) == 0;
    let session = &mut peer.sessions[at];
    let open = session.held.iter().any(|held| held.handle == handle)
        || session.asked.values().any(|(held, _)| held.handle == handle)
        || session.unconfirmed.values().any(|(of, _)| *of == handle);
    world.tally.add("links detached midway", open.into());
    world.links[peer.link].amqp10().client.detach(session.channel, handle, closed, None);
    if let Some(link) = session.links.get_mut(&handle) {
        link.stage = Stage::Going;
        if matches!(link.end, LinkEnd::Coordinator) {
            session.abandon_transaction(ledger);
        }
    }
    // Other clients may have these deliveries already; they aren't settled any more.
    session.held.retain(|held| held.handle != handle);
    1
}

/// Grants a little credit, sometimes with a drain.
fn grant(peer: &mut Peer, at: usize, world: &mut World) -> usize {
    let idle = |end: &LinkEnd| matches!(end, LinkEnd::Receiver(receiver) if !receiver.drains);
    let Some(handle) = some_link(peer, at, world, idle) else { return 0 };
    let credit = world.random.below(9) as u32;
    let drain = world.random.below(4) == 0;
    let echo = world.random.below(8) == 0;
    let session = &mut peer.sessions[at];
    if let Some(LinkEnd::Receiver(receiver)) = session.links.get_mut(&handle).map(|link| &mut link.end) {
        (receiver.credit, receiver.drains) = (credit, drain);
    }
    // A token fetches its message past a filter.
    let fetches = matches!(session.links.get(&handle).map(|link| &link.end), Some(LinkEnd::Receiver(receiver)) if is_quorum(&receiver.queue) && receiver.filter.is_none());
    if fetches && !drain && world.random.below(2) == 0 {
        let tokens = [(); 3].map(|()| token(world.random.below(TOKENS)));
        let properties = message::fetching(tokens);
        world.links[peer.link].amqp10().client.grant_with(session.channel, handle, credit, properties.as_map());
        world.tally.hit("flows with deferral tokens");
        return 1;
    }
    world.links[peer.link].amqp10().client.flow(session.channel, handle, credit, drain, echo);
    1
}

fn publish(peer: &mut Peer, at: usize, world: &mut World, ledger: &mut Ledger) -> usize {
    let Some(handle) = some_link(peer, at, world, |end| matches!(end, LinkEnd::Sender(_))) else { return 0 };
    let stamp = world.disk.count();
    let count = 1 + world.random.below(3) as usize;
    let persistent = world.random.below(5) > 0;
    let transaction = peer.sessions[at].open_transaction().filter(|_| world.random.below(2) == 0);
    // Large transactions end in another batch than they began.
    let count = if transaction.is_some() { count * 5 } else { count };
    let settled = transaction.is_none() && world.random.below(4) == 0;
    for sent in 0..count {
        let (id, length) = (ledger.messages.len() as u64, length(world));
        let delivery_ms = delivery_time(world);
        let payload = message::encode(id, length, persistent, delivery_ms);
        let session = &mut peer.sessions[at];
        let client = &mut world.links[peer.link].amqp10().client;
        let state = transaction.as_deref().map(|txn_id| DeliveryState::Transactional { txn_id, outcome: None });
        let options = Send { settled, state, ..Send::default() };
        let in_parts = payload.len() + 64 > client.remote_max_frame_size() as usize;
        let Some(delivery) = client.send(session.channel, handle, &id.to_be_bytes(), &payload, &options) else {
            world.tally.hit("sends without credit or window");
            return sent;
        };
        world.tally.hit("messages sent");
        world.tally.add("messages sent in several transfers", in_parts.into());
        let Some(LinkEnd::Sender(sender)) = session.links.get(&handle).map(|link| &link.end) else { return sent };
        let open = session.transaction.as_mut().filter(|_| transaction.is_some());
        let publisher = open.as_ref().map_or(sender.publisher, |open| open.publisher);
        ledger.publish(publisher, (&sender.exchange, &sender.key), (length, persistent), stamp);
        ledger.messages[id as usize].bytes = message::bare_bytes(id, length);
        ledger.messages[id as usize].delivery_ms = delivery_ms;
        if let Some(open) = open {
            open.published.push(id);
            ledger.withhold(id);
        }
        if settled {
            world.tally.hit("messages published settled");
        } else {
            session.unconfirmed.insert(delivery.0, (handle, id));
        }
    }
    count
}

/// Sends the outcome of consecutive deliveries, and settles them or asks the broker to.
fn settle(peer: &mut Peer, at: usize, world: &mut World, ledger: &mut Ledger) -> usize {
    let stamp = world.disk.count();
    let session = &mut peer.sessions[at];
    let choice = world.random.below(session.held.len() as u64) as usize;
    let mut first = choice;
    if world.random.below(2) == 0 {
        while first > 0 && session.held[first - 1].id.next() == session.held[first].id {
            first -= 1;
        }
    }
    let settled: Vec<HeldDelivery> = session.held.drain(first..=choice).collect();
    let asks = world.random.below(2) == 0;
    let until_ms = world.clock.now().wall_ms + world.random.below(2_000);
    let time = message::delivery_time(until_ms);
    let deferral = message::deferral(until_ms, &token(settled[0].message % TOKENS));
    let delays = session.open_transaction().is_none();
    let (wish, outcome) = match world.random.below(12) {
        0 => (Wish::Return, Some(Outcome::Released)),
        1 => (Wish::Return, Some(modified(true, false))),
        2 if delays && world.random.below(2) == 0 => (Wish::Delay(until_ms), Some(delayed(time.as_map()))),
        2 if delays => (Wish::Defer, Some(delayed(deferral.as_map()))),
        2 => (Wish::Return, Some(modified(false, false))),
        3 if !asks => (Wish::Return, None),
        4 | 5 => (Wish::Reject, Some(Outcome::Rejected { error: None })),
        6 => (Wish::Reject, Some(modified(true, true))),
        _ => (Wish::Accept, Some(Outcome::Accepted)),
    };
    let (from, to) = (settled[0].id, settled[settled.len() - 1].id);
    // Nothing is taken out of a stream, in a transaction or not.
    let of_stream = settled.iter().any(|held| is_stream(&held.queue));
    let transaction = session.open_transaction().filter(|_| world.random.below(2) == 0 && !of_stream);
    let transacted = transaction.as_deref().filter(|_| outcome.is_some());
    let state = match transacted {
        Some(txn_id) => Some(DeliveryState::Transactional { txn_id, outcome }),
        None => outcome.map(DeliveryState::from),
    };
    world.links[peer.link].amqp10().client.dispose(session.channel, from, to, !asks, state);
    let count = settled.len() as u64;
    world.tally.add(if wish.returns() { "messages requeued" } else { "messages settled" }, count);
    for held in settled {
        match wish {
            _ if transacted.is_some() => {
                let transaction = session.transaction.iter_mut();
                transaction.for_each(|transaction| transaction.settled.push((held.clone(), wish)));
            }
            Wish::Accept => ledger.settle(&held.queue, held.message, stamp),
            Wish::Reject => ledger.reject(&held.queue, held.message, stamp),
            Wish::Return => {}
            Wish::Delay(_) | Wish::Defer => ledger.annotate(held.message),
        }
        if asks {
            session.asked.insert(held.id.0, (held, wish));
        }
    }
    1
}

fn delayed(time: MapRef<'_>) -> Outcome<'_> {
    Outcome::Modified { delivery_failed: false, undeliverable_here: false, message_annotations: Some(time) }
}

fn modified(delivery_failed: bool, undeliverable_here: bool) -> Outcome<'static> {
    Outcome::Modified { delivery_failed, undeliverable_here, message_annotations: None }
}
