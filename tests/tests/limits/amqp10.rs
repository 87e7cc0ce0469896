//! Connections, sessions, links and receivers over AMQP 1.0.

use leveret_amqp10::condition;
use leveret_strict_client::amqp10::{Event, Options as ClientOptions, SessionOptions};
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::conservation;
use leveret_tests::wire::declare_durable;

use super::{node, until};

const QUEUE: &str = "/queues/limits.links";

#[test]
fn connections_of_a_user_have_a_limit() {
    let node = node("connection_max_per_user", 1);
    let first = Amqp10::open(node.amqp());
    let mut refused = Amqp10::connect(node.amqp(), ClientOptions::default());
    let error = refused.error();
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED.as_str());
    let text = error.description;
    assert!(text.starts_with("connection refused for user 'guest': user connection limit (1) is reached"), "{text}");
    first.close();
    Amqp10::open(node.amqp()).close();
    conservation::check(&node.http());
}

#[test]
fn a_session_too_many_begins_and_ends_with_the_reason() {
    let node = node("channel_max_per_user", 2);
    declare_durable(node.amqp(), "limits.links");
    let mut client = Amqp10::open(node.amqp());
    client.begin(1, SessionOptions::default());
    client.client.begin(2, SessionOptions::default());
    let error = client.error();
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED.as_str());
    let text = error.description;
    assert!(text.ends_with("maximum allowed limit of (2); raise channel_max_per_user"), "{text}");
    // The connection and its other sessions continue; an ended session frees its slot.
    client.sender(0, QUEUE);
    client.publish_accepted(0, b"still served");
    client.client.end(1, None);
    client.wait("end", |event| matches!(event, Event::Ended { channel: 1, by_peer: false, .. }));
    client.begin(3, SessionOptions::default());
    drop(client);
    until(&node, "rabbitmq_connections", 0);
    let mut again = Amqp10::open(node.amqp());
    again.begin(1, SessionOptions::default());
    again.close();
    conservation::check(&node.http());
}

#[test]
fn links_have_a_limit_and_make_room_when_they_go() {
    for scope in ["node", "vhost", "user"] {
        let key = format!("link_max_per_{scope}");
        let node = node(&key, 2);
        declare_durable(node.amqp(), "limits.links");
        let mut client = Amqp10::open(node.amqp());
        client.sender(0, QUEUE);
        let mut other = Amqp10::open(node.amqp());
        other.receiver(0, QUEUE, 1);
        client.client.attach_sender(CHANNEL, 1, "one more", Some(QUEUE));
        let error = client.error();
        assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED.as_str());
        let text = error.description;
        assert!(text.starts_with("number of links attached "), "{text}");
        assert!(text.ends_with(&format!("maximum allowed limit of (2); raise {key}")), "{text}");
        client.publish_accepted(0, b"still served");
        assert_eq!(other.receive(0).data(), b"still served");
        // An attach refused for another reason takes no slot.
        other.client.detach(CHANNEL, 0, true, None);
        other.wait("detach", |event| matches!(event, Event::Detached { handle: 0, .. }));
        other.client.attach_sender(CHANNEL, 5, "nowhere", Some("/queues/nowhere"));
        assert_eq!(other.error().condition, condition::NOT_FOUND.as_str());
        other.sender(7, QUEUE);
        drop(client);
        until(&node, "leveret_links", 1);
        other.sender(8, QUEUE);
        other.close();
        until(&node, "leveret_links", 0);
        conservation::check(&node.http());
    }
}

#[test]
fn receivers_count_as_consumers() {
    let node = node("consumer_max_per_vhost", 1);
    declare_durable(node.amqp(), "limits.links");
    let mut wire = leveret_tests::wire::Wire::open(node.amqp());
    wire.consume(1, "limits.links", false);
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, QUEUE);
    client.client.attach_receiver(CHANNEL, 1, "receiver", QUEUE, false);
    let error = client.error();
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED.as_str());
    let text = error.description;
    assert!(text.starts_with("number of consumers in vhost '/' has reached"), "{text}");
    wire.close();
    client.receiver(2, QUEUE, 1);
    client.close();
    conservation::check(&node.http());
}
