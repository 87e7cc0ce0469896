//! Exchanges that hold messages until they are due, with pika and with AMQP 1.0.

use std::time::{Duration, Instant};

use leveret_amqp10::OwnedValue;
use leveret_amqp10::message::{MapSection, write_data, write_map_section};
use leveret_amqp10::value::EncodedMap;
use leveret_strict_client::amqp10::{Send, State};
use leveret_tests::amqp10::{Amqp10, CHANNEL, annotation};
use leveret_tests::broker::is_given;
use leveret_tests::cell::run_pika;
use leveret_tests::node::{Node, Options};
use serde_json::json;

/// Runs a function of `clients/pika/delayed.py`.
fn pika(name: &'static str) {
    run_pika("delayed.py", name, "delayed exchanges");
}

#[test]
fn messages_come_when_they_are_due_and_never_early() {
    pika("order");
}

#[test]
fn each_confirmed_message_comes_once_after_kills() {
    pika("kills");
}

#[test]
fn messages_are_routed_by_the_bindings_of_their_due_time() {
    pika("routing");
}

#[test]
fn a_message_is_retried_through_a_delayed_exchange() {
    pika("retries");
}

#[test]
fn declarations_are_refused_as_by_the_plugin() {
    pika("refusals");
}

#[test]
fn waiting_messages_are_listed_counted_purged_and_exported() {
    pika("management");
}

#[test]
fn a_transient_exchange_is_gone_after_a_restart() {
    pika("transient");
}

#[test]
fn large_messages_wait_too() {
    pika("large");
}

#[test]
fn an_annotation_delays_over_amqp_1_0() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let http = node.http();
    let put = |path: &str, body| assert_eq!(http.put(path, &body).expect("an answer").status, 201, "{path}");
    let arguments = json!({"x-delayed-type": "direct"});
    put("/api/exchanges/%2F/x", json!({"type": "x-delayed-message", "durable": true, "arguments": arguments}));
    put("/api/queues/%2F/q", json!({"durable": true, "arguments": {"x-queue-type": "quorum"}}));
    let bound = http.post("/api/bindings/%2F/e/x/q/q", &json!({"routing_key": "k"})).expect("an answer");
    assert_eq!(bound.status, 201, "{}", bound.body);
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, "/exchanges/x/k");
    client.receiver(1, "/queues/q", 10);
    let send = |client: &mut Amqp10, section, delay: Option<u32>, body: &str| {
        let mut payload = Vec::new();
        if let Some(delay) = delay {
            write_map_section(&mut payload, section, EncodedMap::new().with("x-delay", delay).as_map());
        }
        write_data(&mut payload, body.as_bytes());
        let id = client.send(0, &payload, &Send::default());
        assert_eq!(client.outcome(id), State::Accepted, "it is stored");
    };
    let since = Instant::now();
    send(&mut client, MapSection::MessageAnnotations, Some(1200), "later");
    send(&mut client, MapSection::ApplicationProperties, Some(600), "sooner");
    send(&mut client, MapSection::MessageAnnotations, None, "at once");
    assert_eq!(client.receive(1).data(), b"at once");
    for (ms, body) in [(600, &b"sooner"[..]), (1200, b"later")] {
        let message = client.receive(1);
        assert_eq!(message.data(), body);
        assert!(since.elapsed() >= Duration::from_millis(ms), "early");
        let negated = annotation(&message, "x-delay");
        assert_eq!(negated, Some(OwnedValue::Int(-i32::try_from(ms).expect("it is small"))));
        assert_eq!(annotation(&message, "x-opt-delivery-time"), None);
        client.accept(&message);
    }
    client.close();
    let mut client = Amqp10::open(node.amqp());
    client.client.attach_receiver(CHANNEL, 2, "receiver", "/queues/amq.delayed.x", false);
    client.flush();
    let error = client.error();
    assert_eq!(error.condition, "amqp:unauthorized-access", "{error:?}");
}
