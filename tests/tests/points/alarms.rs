//! Resource alarms and AMQP 1.0 sessions.

use leveret_amqp10::condition;
use leveret_strict_client::amqp10::{Event, SessionOptions};
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::node::{Node, Options};

use super::stage::{declare, message, node_with, to};

fn alarmed(queue: &str) -> Node {
    node_with(Options::new().with_alarms(), queue)
}

fn window(client: &mut Amqp10, wanted: u32) {
    let open = |event: &Event| matches!(event, Event::SessionFlow { channel: CHANNEL, window, .. } if (*window == 0) == (wanted == 0));
    client.wait("the session's window", open);
    assert_eq!(client.client.window(CHANNEL), wanted);
}

#[test]
fn point_22_an_alarm_closes_windows() {
    let node = alarmed("point.22");
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, &to("point.22"));
    client.publish_accepted(0, b"before");
    node.raise_alarms("memory");
    window(&mut client, 0);
    node.raise_alarms("memory disk");
    node.raise_alarms("disk");
    client.client.set_window(CHANNEL, 100, true);
    client.wait("an answer", |event| matches!(event, Event::SessionFlow { .. }));
    assert_eq!(client.client.window(CHANNEL), 0, "the other alarm is still raised");
    node.raise_alarms("");
    window(&mut client, 400);
    client.publish_accepted(0, b"after");
    // A client that sends more than was in flight is disconnected.
    node.raise_alarms("disk");
    window(&mut client, 0);
    let payload = message(b"too much");
    for at in 0..1000u32 {
        let id = client.client.next_delivery_id(CHANNEL);
        let tag = at.to_be_bytes();
        let transfer = leveret_amqp10::performative::Transfer {
            handle: 0,
            delivery_id: Some(id.0),
            delivery_tag: Some(&tag),
            settled: Some(true),
            ..Default::default()
        };
        client.client.transfer(CHANNEL, &transfer, &payload);
    }
    client.flush();
    let error = client.error();
    let expected = [condition::WINDOW_VIOLATION.as_str(), condition::TRANSFER_LIMIT_EXCEEDED.as_str()];
    assert!(expected.contains(&error.condition.as_str()), "{error:?}");
}

#[test]
fn point_23_everything_else_works_during_an_alarm() {
    let node = alarmed("point.23");
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, &to("point.23"));
    for at in 0..20u32 {
        client.publish_accepted(0, &at.to_be_bytes());
    }
    node.raise_alarms("memory");
    window(&mut client, 0);
    // A new connection, session and receiver, which drains and settles the backlog.
    let mut other = Amqp10::open(node.amqp());
    other.begin(1, SessionOptions::default());
    other.receiver(0, &to("point.23"), 20);
    for at in 0..20u32 {
        let delivery = other.receive(0);
        assert_eq!(delivery.data(), at.to_be_bytes());
        other.accept(&delivery);
    }
    declare(node.amqp(), "point.23.declared");
    other.receiver(1, &to("point.23.declared"), 1);
    other.close();
    node.raise_alarms("");
    window(&mut client, 400);
    client.publish_accepted(0, b"resumed");
    client.close();
}
