//! Sessions: ignored windows, thousands of channels, frames for ended sessions.

use leveret_amqp10::{DeliveryState, Performative, condition};
use leveret_strict_client::amqp10::{Event, SessionOptions};
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::node::Options;

use super::canary::{assert_grown, declare, finish, stage};
use super::peer::{Ended, Peer, begin, end, of, receiver, sender, transfer};

#[test]
fn a_sender_that_ignores_a_closed_window_loses_its_session() {
    let (node, canary) = stage(Options::new().with_alarms());
    declare(node.amqp(), "hostile.window");
    let mut peer = Peer::sender(node.amqp(), "hostile.window");
    node.raise_alarms("memory");
    let shut =
        |performative: &Performative<'_>| matches!(performative, Performative::Flow(flow) if flow.incoming_window == 0);
    peer.expect("a shut window", shut);
    // An aborted delivery uses a transfer of the window and nothing else.
    let transfers: Vec<u8> =
        (0..2000).flat_map(|id| transfer(0, id, b"", |transfer| transfer.aborted = true)).collect();
    peer.send(&transfers);
    let refusal = loop {
        // Credit is used up before the window: the link is ended first, the session if the peer continues.
        let refusal = peer.refusal("a window that is ignored");
        if refusal.ended != Ended::Link {
            break refusal;
        }
        assert_eq!(refusal.condition, condition::TRANSFER_LIMIT_EXCEEDED.as_str());
    };
    assert_eq!((refusal.ended, refusal.condition.as_str()), (Ended::Session, condition::WINDOW_VIOLATION.as_str()));
    assert!(
        refusal.description.starts_with("incoming window violation (tolerated excess transfers: 400)"),
        "{refusal:?}"
    );
    peer.send(&[end(0), begin(0)].concat());
    peer.still_served("a session that was ended");
    node.raise_alarms("");
    finish(&node, canary);
}

#[test]
fn sessions_without_end_leave_nothing_behind() {
    const ROUNDS: u32 = 40;
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), "hostile.sessions");
    let mut peer = Peer::open(node.amqp());
    let round = |peer: &mut Peer| {
        for channel in 1..63 {
            let mut bytes = Vec::new();
            for _ in 0..8 {
                bytes.extend(begin(channel));
                bytes.extend(sender(channel, 0, "sender", "/queues/hostile.sessions"));
                bytes.extend(receiver(channel, 255, "receiver", "/queues/hostile.sessions", false));
                bytes.extend(end(channel));
            }
            peer.send(&bytes);
        }
        peer.still_served("sessions");
    };
    round(&mut peer);
    let before = node.resident_bytes();
    (0..ROUNDS).for_each(|_| round(&mut peer));
    assert_grown(&node, before, 8, "20,000 sessions that are over");
    canary.sings("20,000 sessions");
    finish(&node, canary);
}

/// Nothing may be sent on a channel after its end, even if a message becomes durable only then.
#[test]
fn answers_for_an_ended_session_are_not_sent() {
    let (node, canary) = stage(Options::new().set("debug.sync_delay_ms", 20));
    declare(node.amqp(), "hostile.answers");
    let mut client = Amqp10::open(node.amqp());
    client.begin(1, SessionOptions::default());
    client.sender(0, "/queues/hostile.answers");
    for at in 0..20u32 {
        client.publish_accepted(0, &at.to_be_bytes());
    }
    for at in 0..10u32 {
        client.client.attach_receiver(1, 0, "receiver", "/queues/hostile.answers", false);
        client.attached(1, 0);
        client.client.grant(1, 0, 1, false);
        let ours = |event: &Event| matches!(event, Event::Delivered(delivery) if delivery.channel == 1);
        let message = client.wait("a message", ours);
        assert_eq!(message.data(), at.to_be_bytes());
        let id = message.delivery_id();
        // A reply is requested, which waits for the disk, and the session ended at once. The strict client would
        // detect a late reply.
        client.client.dispose(1, id, id, false, Some(DeliveryState::Accepted));
        client.client.end(1, None);
        client.wait("end", |event| matches!(event, Event::Ended { channel: 1, .. }));
        client.begin(1, SessionOptions::default());
    }
    client.publish_accepted(0, b"after all of them");
    client.barrier(CHANNEL);
    client.close();
    finish(&node, canary);
}

#[test]
fn all_sessions_and_links_at_once_are_within_bounds() {
    const LINKS: u32 = 256;
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), "hostile.links");
    let before = node.resident_bytes();
    let mut peer = Peer::open(node.amqp());
    for channel in 0..63 {
        if channel > 0 {
            peer.send(&begin(channel));
        }
        // Every second one consumes, with the longest allowed name.
        for handle in 0..LINKS {
            let name = format!("{handle:0>1024}");
            let bytes = match handle % 2 {
                0 => receiver(channel, handle, &name, "/queues/hostile.links", false),
                _ => sender(channel, handle, &name, "/queues/hostile.links"),
            };
            peer.send(&bytes);
        }
        peer.still_served("256 links");
    }
    // 16,128 links with 16 MiB of names.
    assert_grown(&node, before, 64, "63 sessions of 256 links");
    canary.sings("16,128 links");
    // One more of either is refused.
    peer.send(&sender(5, LINKS, "one more", "/queues/hostile.links"));
    let refusal = peer.refusal("one link more");
    assert_eq!((refusal.ended, refusal.condition.as_str()), (Ended::Session, condition::FRAMING_ERROR.as_str()));
    peer.send(&begin(64));
    let refusal = peer.refusal("one session more");
    assert_eq!((refusal.ended, refusal.condition.as_str()), (Ended::Connection, condition::FRAMING_ERROR.as_str()));
    drop(peer);
    canary.sings("16,128 links that are gone");
    finish(&node, canary);
}

/// A flood of requests: see [`super::credit`] for those about links.
#[test]
fn a_flood_of_begins_does_not_outrun_its_answers() {
    let (node, canary) = stage(Options::new());
    let mut peer = Peer::open(node.amqp());
    let before = node.resident_bytes();
    let piece: Vec<u8> = (1..64).flat_map(|channel| [begin(channel), end(channel)].concat()).collect();
    const MOST: usize = 64 << 20;
    let taken = peer.stuff(&piece, MOST);
    assert!(taken < MOST, "the node reads on although nobody reads what it answers");
    canary.sings("a flood of begins");
    assert_grown(&node, before, 16, "a flood of begins");
    drop(peer);
    let mut other = Peer::open(node.amqp());
    other.send(&of(0, &leveret_amqp10::performative::Flow::default().into()));
    other.still_served("another connection");
    finish(&node, canary);
}
