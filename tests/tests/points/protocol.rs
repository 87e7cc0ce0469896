//! The protocol itself: its core needs no plugin, no proxy of the other protocol and no timer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use leveret_amqp10::performative::{Attach, Begin};
use leveret_amqp10::{FRAME_HEADER_SIZE, Performative, Role, Serial, condition, encode_performative};
use leveret_strict_client::amqp10::{Event, SessionOptions};
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::broker::Broker;
use leveret_tests::wire::{Wire, Writer, frame};

use super::stage::{broker_with, declare, message, to};

#[test]
fn point_02_no_bookkeeping_without_dynamic_nodes() {
    // A connection without a dynamic node leaves nothing to clean up; with one, its queue is deleted with it.
    let broker = broker_with("point.02");
    let mut plain = Amqp10::open(broker.amqp());
    plain.sender(0, &to("point.02"));
    plain.close();
    let mut client = Amqp10::open(broker.amqp());
    let capabilities = [leveret_amqp10::Symbol::new("temporary-queue")];
    let source = leveret_amqp10::Source {
        dynamic: true,
        capabilities: leveret_amqp10::Symbols::of(&capabilities),
        ..Default::default()
    };
    let attach = Attach {
        name: "dynamic",
        handle: 0,
        role: Role::Receiver,
        source: Some(source),
        target: Some(leveret_amqp10::TargetArchetype::Target(Default::default())),
        ..Default::default()
    };
    let answer = client.attach(CHANNEL, &attach);
    let address = answer.attach().source.and_then(|source| source.address).expect("an address").to_owned();
    assert!(address.starts_with("/queues/amq.dyn-"), "{address}");
    client.sender(1, &address);
    client.publish_accepted(1, b"to itself");
    client.grant(0, 1);
    let delivery = client.receive(0);
    client.accept(&delivery);
    client.client.detach(CHANNEL, 0, true, None);
    client.wait_any("the sender's end", |event| matches!(event, Event::Detached { handle: 1, by_peer: true, .. }));
    client.close();
    broker.finish("point.02");
}

#[test]
fn point_04_one_writer_for_all_sessions() {
    let broker = broker_with("point.04");
    let mut client = Amqp10::open(broker.amqp());
    client.begin(1, SessionOptions::default());
    client.sender(0, &to("point.04"));
    for at in 0..100u32 {
        client.publish_accepted(0, &at.to_be_bytes());
    }
    for channel in [0, 1] {
        client.client.attach_receiver(channel, 5, &format!("r{channel}"), &to("point.04"), true);
        client.attached(channel, 5);
    }
    // Both get credit in one write, and one read returns frames of both sessions.
    client.client.grant(0, 5, 50, false);
    client.client.grant(1, 5, 50, false);
    client.flush();
    let mut raw = vec![0; 64 << 10];
    let mut channels = std::collections::BTreeSet::new();
    client.socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let count = client.socket.read(&mut raw).expect("deliveries");
    let mut at = 0;
    while at + FRAME_HEADER_SIZE <= count {
        let size = u32::from_be_bytes(raw[at..at + 4].try_into().expect("four bytes")) as usize;
        channels.insert(u16::from_be_bytes([raw[at + 6], raw[at + 7]]));
        at += size;
    }
    assert_eq!(channels.into_iter().collect::<Vec<_>>(), [0, 1]);
    drop(client);
    broker.finish("point.04");
}

#[test]
fn point_06_idle_connections_cost_nothing() {
    let mut broker = Broker::start();
    let connections: Vec<_> = (0..200).map(|_| Amqp10::open(broker.amqp())).collect();
    let Some(node) = broker.node() else { return };
    let before = node.cpu_ticks();
    // Idle for a while: waits on a silent socket.
    let mut silent = TcpStream::connect(node.amqp()).expect("connect");
    silent.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    assert!(silent.read(&mut [0; 8]).is_err());
    let used = node.cpu_ticks() - before;
    assert!(used <= 5, "{used} ticks of 10 ms for 200 idle connections in a second");
    drop(connections);
}

#[test]
fn point_28_begin_comes_first() {
    let broker = broker_with("point.28");
    let mut client = Amqp10::open(broker.amqp());
    let flow = leveret_amqp10::performative::Flow { incoming_window: 1, ..Default::default() };
    let mut bytes = Vec::new();
    encode_performative(&mut bytes, 3, &Performative::Flow(flow));
    client.socket.write_all(&bytes).expect("written");
    assert_eq!(client.error().condition, condition::FRAMING_ERROR.as_str());
    let mut client = Amqp10::open(broker.amqp());
    let begin = Begin { remote_channel: Some(0), incoming_window: 1, outgoing_window: 1, ..Default::default() };
    let mut bytes = Vec::new();
    encode_performative(&mut bytes, 3, &Performative::Begin(begin));
    client.socket.write_all(&bytes).expect("written");
    assert_eq!(client.error().condition, condition::NOT_ALLOWED.as_str());
    broker.finish("point.28");
}

/// Points 29 and 30: broker and client use the same serial arithmetic, and the client's numbers wrap.
#[test]
fn point_29_one_serial_arithmetic() {
    let before = Serial(u32::MAX);
    assert!(before < before.next() && before.next() == Serial(0));
    assert_eq!(Serial(2).since(before), 3);
    assert_eq!(before.distance_from(Serial(2)), -3);
    assert!(Serial(1).is_within(before, Serial(2)));
    assert_eq!(Serial(0).partial_cmp(&Serial(1 << 31)), None);
}

#[test]
fn point_30_the_client_passes_the_end_of_the_numbers() {
    let broker = broker_with("point.30");
    let session = SessionOptions { next_outgoing_id: u32::MAX, ..SessionOptions::default() };
    let mut client = Amqp10::open_with(broker.amqp(), Default::default(), session);
    client.sender(0, &to("point.30"));
    let first = client.send(0, &message(b"last number"), &Default::default());
    let second = client.send(0, &message(b"first number"), &Default::default());
    assert_eq!((first, second), (Serial(u32::MAX), Serial(0)));
    for id in [first, second] {
        assert_eq!(client.outcome(id), leveret_strict_client::amqp10::State::Accepted);
    }
    client.receiver(1, &to("point.30"), 2);
    for _ in 0..2 {
        let delivery = client.receive(1);
        client.accept(&delivery);
    }
    client.close();
    broker.finish("point.30");
}

#[test]
fn point_36_the_credit_extension_is_gone() {
    let broker = Broker::start();
    let mut wire = Wire::open(broker.amqp());
    // basic.credit was method 200 of class 60.
    let mut payload = Writer::new();
    payload.put_short(60).put_short(200).put_short_string("tag").put_long(1).put_octet(0);
    wire.send(&frame(1, 1, payload.bytes()));
    let (code, text) = wire.until_closed().expect("a reason");
    assert_eq!(code, 540, "{text}");
}

#[test]
fn point_38_nothing_of_the_other_protocol_inside() {
    let broker = broker_with("point.38");
    declare(broker.amqp(), "point.38.b");
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &to("point.38"));
    client.publish_accepted(0, b"x");
    client.receiver(1, &to("point.38"), 1);
    let queues = broker.http().get("/api/queues").expect("queues").json();
    let text = queues.to_string();
    assert!(!text.contains("amq.ctag"), "no consumer of AMQP 0-9-1: {text}");
    let delivery = client.receive(1);
    client.accept(&delivery);
    client.close();
    broker.finish("point.38");
}
