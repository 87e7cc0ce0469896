//! Sending clients: outcomes, credit that follows confirms, independent links, windows.

use std::collections::BTreeMap;

use leveret_amqp10::Serial;
use leveret_strict_client::amqp10::{Event, Options as Client, Send, SessionOptions, State};
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::node::Options;

use super::stage::{broker_with, declare, message, node_with, to};

/// RabbitMQ's rule and value.
const CREDIT: u32 = 170;

/// Outcomes in the backlog: number of frames, and number of outcomes of each delivery.
fn outcomes(client: &mut Amqp10) -> (usize, BTreeMap<u32, u32>) {
    let mut frames = 0;
    let mut seen = BTreeMap::new();
    client.backlog.retain(|event| match &event.event {
        Event::Disposition { first, last, settled: true, state: Some(State::Accepted), .. } => {
            frames += 1;
            let mut id = *first;
            loop {
                *seen.entry(id.0).or_default() += 1;
                if id == *last {
                    break;
                }
                id = id.next();
            }
            false
        }
        _ => true,
    });
    (frames, seen)
}

/// Sends with credit, alternating between handles; every third message is settled.
fn burst(client: &mut Amqp10, handles: &[u32], count: u32, mixed: bool) -> Vec<u32> {
    let mut unsettled = Vec::new();
    for at in 0..count {
        let settled = mixed && at % 3 == 2;
        let payload = message(&at.to_be_bytes());
        let id = client.send(handles[at as usize % handles.len()], &payload, &Send { settled, ..Send::default() });
        if !settled {
            unsettled.push(id.0);
        }
    }
    unsettled
}

#[test]
fn point_07_batched_dispositions() {
    let broker = broker_with("point.07");
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &to("point.07"));
    client.sender(1, &to("point.07"));
    let (mut frames, mut seen) = (0, BTreeMap::new());
    let mut sent = burst(&mut client, &[0], 1000, false);
    sent.extend(burst(&mut client, &[0, 1], 1000, true));
    while client.client.unsettled_sent(CHANNEL) > 0 {
        client.barrier(CHANNEL);
    }
    let (more, ids) = outcomes(&mut client);
    frames += more;
    for (id, times) in ids {
        *seen.entry(id).or_insert(0) += times;
    }
    assert_eq!(seen.len(), sent.len());
    assert!(sent.iter().all(|id| seen.get(id) == Some(&1)), "exactly one outcome each");
    assert!(frames < 1000, "{frames} dispositions for {} messages", sent.len());
    client.close();
    broker.finish("point.07");
}

#[test]
fn point_16_credit_follows_confirms() {
    // The disk is blocked for a minute: nothing that needs it is confirmed, so the queue isn't durable.
    let node = node_with(Options::new().set("link_credit.adaptive", "false"), "point.16");
    let mut stopped = Amqp10::open(node.amqp());
    stopped.sender(0, &to("point.16"));
    assert_eq!(stopped.client.credit(CHANNEL, 0), CREDIT);
    drop(stopped);
    drop(node);
    let slow = Options::new().set("link_credit.adaptive", "false").set("debug.sync_delay_ms", "3000");
    let node = node_with(slow, "point.16");
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, &to("point.16"));
    let mut sent = 0;
    loop {
        let payload = message(b"x");
        let tag = client.client.next_delivery_id(CHANNEL).0.to_be_bytes();
        if client.client.send(CHANNEL, 0, &tag, &payload, &Send::default()).is_some() {
            client.flush();
            sent += 1;
            continue;
        }
        let before = client.client.credit(CHANNEL, 0);
        client.barrier(CHANNEL);
        if client.client.credit(CHANNEL, 0) == before {
            break;
        }
    }
    assert_eq!(client.client.unsettled_sent(CHANNEL), sent, "nothing was confirmed yet");
    assert_eq!(sent as u32, CREDIT + CREDIT / 2, "one and a half grants, and no more");
    client.wait("an outcome", |event| matches!(event, Event::Disposition { settled: true, .. }));
    client.wait_credit(CHANNEL, 0);
}

#[test]
fn point_17_confirms_belong_to_their_link() {
    let broker = broker_with("point.17");
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &to("point.17"));
    client.sender(1, &to("point.17"));
    let other = client.client.credit(CHANNEL, 1);
    for at in 0..500u32 {
        let id = client.publish(0, &at.to_be_bytes());
        assert_eq!(client.outcome(id), State::Accepted);
    }
    assert_eq!(client.client.credit(CHANNEL, 1), other, "the other link's credit didn't move");
    client.publish_accepted(1, b"own");
    assert_eq!(client.client.credit(CHANNEL, 1), other - 1);
    client.close();
    broker.finish("point.17");
}

#[test]
fn point_18_grant_rule() {
    let slow = Options::new().set("link_credit.adaptive", "false").set("debug.sync_delay_ms", "20");
    let node = node_with(slow, "point.18");
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, &to("point.18"));
    let mut credit = CREDIT;
    for at in 0..2000u32 {
        let before = client.client.credit(CHANNEL, 0);
        assert!(before as usize + client.client.unsettled_sent(CHANNEL) <= (CREDIT + CREDIT / 2) as usize);
        let grants = |client: &Amqp10| {
            client.backlog.iter().filter(|seen| matches!(seen.event, Event::LinkFlow { handle: 0, .. })).count()
        };
        let known = grants(&client);
        client.publish(0, &at.to_be_bytes());
        // At most half of the credit is left when a grant arrives; the client may have sent more before it saw it.
        if grants(&client) > known {
            assert!(credit <= CREDIT, "{credit}");
        }
        credit = client.client.credit(CHANNEL, 0);
        assert!(credit <= CREDIT);
    }
    client.backlog.clear();
}

#[test]
fn point_19_a_full_queue_stops_no_session() {
    let broker = broker_with("point.19");
    let mut wire = leveret_tests::wire::Wire::open(broker.amqp());
    wire.declare(1, "point.19.other", true);
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &to("point.19"));
    client.sender(1, &to("point.19.other"));
    // The first link sends until it has no credit, and no event of the client is read meanwhile.
    let payload = message(&[7; 512]);
    let mut sent = 0;
    while client.client.credit(CHANNEL, 0) > 0 {
        let tag = client.client.next_delivery_id(CHANNEL).0.to_be_bytes();
        if client.client.send(CHANNEL, 0, &tag, &payload, &Send::default()).is_none() {
            break;
        }
        sent += 1;
    }
    client.flush();
    assert!(sent > 0);
    client.publish_accepted(1, b"goes on");
    client.barrier(CHANNEL);
    client.close();
    wire.close();
    broker.finish("point.19");
}

#[test]
fn point_20_independent_links() {
    let broker = broker_with("point.20.a");
    declare(broker.amqp(), "point.20.b");
    let mut client = Amqp10::open(broker.amqp());
    for (handle, queue) in [(0, "point.20.a"), (1, "point.20.a"), (2, "point.20.b")] {
        client.sender(handle, &to(queue));
    }
    let start = client.client.credit(CHANNEL, 1);
    for at in 0..300u32 {
        client.publish_accepted(0, &at.to_be_bytes());
    }
    assert_eq!((client.client.credit(CHANNEL, 1), client.client.credit(CHANNEL, 2)), (start, start));
    client.publish_accepted(1, b"fan-in");
    client.publish_accepted(2, b"fan-out");
    assert_eq!((client.client.credit(CHANNEL, 1), client.client.credit(CHANNEL, 2)), (start - 1, start - 1));
    client.close();
    broker.finish("point.20");
}

#[test]
fn point_24_three_levels_of_backpressure() {
    // A client that reads nothing and sends as much as credit and window allow: the broker's memory for it is
    // bounded.
    let broker = broker_with("point.24");
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &to("point.24"));
    let body = vec![1; 64 << 10];
    for _ in 0..64 {
        client.publish_accepted(0, &body);
    }
    let options = SessionOptions { incoming_window: 2, widen: false, ..SessionOptions::default() };
    let mut reader = Amqp10::open_with(broker.amqp(), Client { max_frame_size: 512, ..Client::default() }, options);
    reader.client.attach_receiver(CHANNEL, 0, "reader", &to("point.24"), false);
    reader.attached(CHANNEL, 0);
    reader.grant(0, 64);
    // The window allows two transfers of 512 bytes; everything else works meanwhile.
    reader.client.attach_sender(CHANNEL, 1, "beside", Some(&to("point.24")));
    reader.attached(CHANNEL, 1);
    reader.wait_credit(CHANNEL, 1);
    reader.publish_accepted(1, b"beside");
    assert_eq!(reader.waiting(CHANNEL, 0), 0, "no delivery is whole");
    reader.client.set_window(CHANNEL, 1 << 20, false);
    reader.flush();
    for _ in 0..64 {
        let delivery = reader.receive(0);
        assert_eq!(delivery.data(), body);
        reader.accept(&delivery);
    }
    reader.close();
    client.close();
    broker.finish("point.24");
}

#[test]
fn point_31_windows_count_transfers_and_dispositions_deliveries() {
    let broker = broker_with("point.31");
    let small = Client { max_frame_size: 4096, ..Client::default() };
    let window = SessionOptions { incoming_window: 100, ..SessionOptions::default() };
    let mut client = Amqp10::open_with(broker.amqp(), small, window);
    client.sender(0, &to("point.31"));
    let body: Vec<u8> = (0..1u32 << 18).flat_map(u32::to_be_bytes).collect();
    for at in 0..3 {
        let id = client.publish(0, &body);
        assert_eq!(id, Serial(at), "one delivery-id for each message, however many transfers");
        assert_eq!(client.outcome(id), State::Accepted);
    }
    client.receiver(1, &to("point.31"), 3);
    for at in 0..3 {
        let delivery = client.receive(1);
        assert_eq!(delivery.delivery_id(), Serial(at));
        let Event::Delivered(whole) = delivery.event.clone() else { unreachable!("it is a delivery") };
        assert!(whole.transfers > 256, "{} transfers of 4 KiB", whole.transfers);
        assert!(delivery.data() == body);
        client.accept(&delivery);
    }
    client.close();
    broker.finish("point.31");
}
