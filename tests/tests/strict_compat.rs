//! The key `strict_compat`: each case that docs/differences.md says it switches, with the key and without it.

use leveret_amqp10::message::{Properties, write_data};
use leveret_strict_client::amqp10::{Event, Mechanism, Options as Options10, Send, SessionOptions, State};
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::broker::is_given;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, Writer, method, method_frame, publish};
use leveret_tests::{http::Http, secrets};
use serde_json::json;

/// A node with the key, and one without it, each with whether it is strict.
fn nodes() -> Vec<(Node, bool)> {
    if is_given() {
        return Vec::new();
    }
    vec![(Node::start(Options::new().set("strict_compat", "4.3")), true), (Node::start(Options::new()), false)]
}

/// Makes a user `limited` who may only touch what begins with its name, and an exchange `other`.
fn limited_user(http: &Http) {
    secrets::used("limited", "limited");
    let user = json!({"password": "limited", "tags": ""});
    assert_eq!(http.put("/api/users/limited", &user).expect("an answer").status, 201);
    let only = json!({"configure": "^limited", "write": "^limited", "read": "^limited"});
    assert_eq!(http.put("/api/permissions/%2F/limited", &only).expect("an answer").status, 201);
    let exchange = json!({"type": "direct", "durable": true});
    assert_eq!(http.put("/api/exchanges/%2F/other", &exchange).expect("an answer").status, 201);
}

fn open_limited(node: &Node) -> Amqp10 {
    let mechanism = Mechanism::Plain { user: "limited".into(), password: "limited".into() };
    Amqp10::open_with(node.amqp(), Options10 { mechanism, ..Options10::default() }, SessionOptions::default())
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Ended { by_peer: true, .. })
}

fn is_detach(event: &Event) -> bool {
    matches!(event, Event::Detached { by_peer: true, .. })
}

#[test]
fn a_refused_open_is_answered_without_the_key_only() {
    for (node, is_strict) in nodes() {
        let options = Options10 { hostname: Some("vhost:none".into()), ..Options10::default() };
        let mut client = Amqp10::connect(node.amqp(), options);
        client.wait_closed();
        let says = |wanted: fn(&Event) -> bool| client.backlog.iter().any(|seen| wanted(&seen.event));
        let is_closed = says(|event| matches!(event, Event::Closed { by_peer: true, error: Some(_), .. }));
        assert_eq!(is_closed, !is_strict, "{:?}", client.backlog);
        assert_eq!(says(|event| matches!(event, Event::Opened { .. })), !is_strict);
    }
}

#[test]
fn an_attach_without_permission_ends_its_session_with_the_key() {
    for (node, is_strict) in nodes() {
        limited_user(&node.http());
        let mut client = open_limited(&node);
        client.client.attach_sender(CHANNEL, 0, "sender", Some("/exchanges/other/k"));
        let ended = client.wait_any("a refusal", |event| is_end(event) || is_detach(event));
        assert_eq!(is_end(&ended.event), is_strict, "{ended:?}");
    }
}

#[test]
fn a_message_to_a_forbidden_exchange_ends_a_strict_session() {
    for (node, is_strict) in nodes() {
        limited_user(&node.http());
        let mut client = open_limited(&node);
        client.client.attach_sender(CHANNEL, 0, "sender", None);
        client.attached(CHANNEL, 0);
        client.wait_credit(CHANNEL, 0);
        let mut payload = Vec::new();
        Properties { to: Some("/exchanges/other/k"), ..Properties::default() }.encode(&mut payload);
        write_data(&mut payload, b"x");
        let id = client.send(0, &payload, &Send::default());
        if is_strict {
            let error = client.error();
            assert_eq!(error.condition, "amqp:unauthorized-access", "{error:?}");
            assert!(error.description.contains("write access to exchange 'other'"), "{error:?}");
            client.begin(CHANNEL + 1, SessionOptions::default());
            continue;
        }
        let outcome = client.outcome(id);
        let State::Rejected(Some(error)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.condition, "amqp:unauthorized-access");
        // The link lives on.
        payload.clear();
        Properties { to: Some("/exchanges/limited/k"), ..Properties::default() }.encode(&mut payload);
        write_data(&mut payload, b"x");
        let id = client.send(0, &payload, &Send::default());
        assert!(matches!(client.outcome(id), State::Rejected(Some(error)) if error.condition == "amqp:not-found"));
        client.close();
    }
}

#[test]
fn a_global_prefetch_is_each_consumers_with_the_key() {
    for (node, is_strict) in nodes() {
        let mut wire = Wire::open(node.amqp());
        wire.declare(1, "q", true);
        wire.publish_all(4, 4, |_| publish(1, "", "q", b"x", false, true));
        let mut qos = Writer::new();
        qos.put_long(0).put_short(1).put_octet(1);
        wire.call(1, method::BASIC_QOS, &qos, method::BASIC_QOS_OK);
        wire.consume(1, "q", false);
        let (first, ..) = wire.delivery();
        let mut consume = Writer::new();
        consume.put_short(0).put_short_string("q").put_short_string("second").put_octet(0).put_empty_table();
        wire.call(1, method::BASIC_CONSUME, &consume, method::BASIC_CONSUME_OK);
        match is_strict {
            // Each has one of its own.
            true => assert_eq!(wire.delivery().0, first + 1),
            false => {
                // A delivery would come before the answer to another method.
                assert_eq!(wire.message_count(1, "q"), 3);
                wire.ack(1, first, false);
                assert_eq!(wire.delivery().0, first + 1);
            }
        }
        wire.close();
    }
}

#[test]
fn a_limit_of_zero_refuses_awaited_messages_with_the_key() {
    for (node, is_strict) in nodes() {
        let body = json!({"durable": true, "arguments": {"x-max-length": 0, "x-overflow": "reject-publish"}});
        assert_eq!(node.http().put("/api/queues/%2F/q", &body).expect("an answer").status, 201);
        let mut wire = Wire::open(node.amqp());
        wire.consume(1, "q", true);
        let mut publisher = Wire::open(node.amqp());
        publisher.confirm_select(1);
        publisher.send(&publish(1, "", "q", b"x", false, true));
        let expected = if is_strict { method::BASIC_NACK } else { method::BASIC_ACK };
        publisher.next_method(expected).unwrap_or_else(|frame| panic!("strict {is_strict}: {frame:?}"));
        if !is_strict {
            assert_eq!(wire.delivery().2, b"x");
        }
        publisher.close();
        wire.close();
    }
}

#[test]
fn a_message_at_its_delivery_limit_is_dropped_with_the_key() {
    for (node, is_strict) in nodes() {
        let body = json!({"durable": true, "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 0}});
        assert_eq!(node.http().put("/api/queues/%2F/q", &body).expect("an answer").status, 201);
        let mut wire = Wire::open(node.amqp());
        wire.publish_all(1, 1, |_| publish(1, "", "q", b"x", false, true));
        wire.consume(1, "q", false);
        let (tag, ..) = wire.delivery();
        let mut reject = Writer::new();
        reject.put_long_long(tag).put_octet(1);
        wire.send(&method_frame(1, method::BASIC_REJECT, &reject));
        assert_eq!(wire.message_count(1, "q"), 0);
        let parked = node.http().get("/api/queues/%2F/q/parked").expect("a list").json();
        assert_eq!(parked["total"], json!(u8::from(!is_strict)), "{parked}");
        wire.close();
    }
}
