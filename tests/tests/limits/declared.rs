//! Queues, exchanges and bindings, over every interface that can declare them.

use leveret_amqp10::performative::Attach;
use leveret_amqp10::{Role, Source, Symbol, Symbols, Target, TargetArchetype, condition};
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::conservation;
use leveret_tests::wire::{Wire, Writer, declare_arguments, method, method_frame};
use serde_json::json;

use super::node;

/// Calls a method on channel 1 that is refused; the channel is reopened.
fn refused(wire: &mut Wire, id: method::Id, arguments: &Writer) -> (u16, String) {
    wire.send(&method_frame(1, id, arguments));
    let frame = wire.next_method((0, 0)).expect_err("another method");
    assert_eq!(frame.method(), Some(method::CHANNEL_CLOSE), "{frame:?}");
    let reason = frame.reason().expect("a reason");
    wire.send(&method_frame(1, method::CHANNEL_CLOSE_OK, &Writer::new()));
    wire.open_channel(1);
    reason
}

fn delete(wire: &mut Wire, queue: &str) {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(queue).put_octet(0);
    wire.call(1, method::QUEUE_DELETE, &arguments, method::QUEUE_DELETE_OK);
}

#[test]
fn queues_have_a_limit_over_every_interface() {
    for (key, part) in [("cluster_queue_limit", "in cluster (2)"), ("queue_max_per_vhost", "in vhost '/' (2)")] {
        let node = node(key, 2);
        let mut wire = Wire::open(node.amqp());
        wire.declare(1, "limits.durable", true);
        wire.declare(1, "limits.transient", false);
        let expected =
            |name: &str| format!("cannot declare queue '{name}': queue limit {part} is reached; raise {key}");
        let (code, text) = refused(&mut wire, method::QUEUE_DECLARE, &declare_arguments("limits.more", true));
        assert_eq!((code, text), (406, format!("PRECONDITION_FAILED - {}", expected("limits.more"))));
        let answer = node.http().put("/api/queues/%2F/limits.http", &json!({"durable": true})).expect("an answer");
        assert_eq!((answer.status, answer.json()["reason"].as_str()), (400, Some(&*expected("limits.http"))));
        let mut client = Amqp10::open(node.amqp());
        let capabilities = [Symbol::new("temporary-queue")];
        let source = Source { dynamic: true, capabilities: Symbols::of(&capabilities), ..Source::default() };
        let attach = Attach {
            name: "dynamic",
            role: Role::Receiver,
            source: Some(source),
            target: Some(TargetArchetype::Target(Target::default())),
            ..Attach::default()
        };
        client.client.attach(CHANNEL, &attach);
        let error = client.error();
        assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED.as_str(), "{error:?}");
        client.close();
        // Existing queues may be declared again, and a deleted one makes room.
        wire.declare(1, "limits.durable", true);
        delete(&mut wire, "limits.transient");
        wire.declare(1, "limits.more", true);
        conservation::check(&node.http());
    }
}

#[test]
fn a_restart_finds_all_queues_and_counts_them() {
    let mut node = node("cluster_queue_limit", 2);
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "limits.first", true);
    wire.declare(1, "limits.second", true);
    drop(wire);
    node.kill();
    node.restart();
    let mut wire = Wire::open(node.amqp());
    refused(&mut wire, method::QUEUE_DECLARE, &declare_arguments("limits.third", true));
    wire.declare(1, "limits.first", true);
    delete(&mut wire, "limits.first");
    wire.declare(1, "limits.third", true);
    conservation::check(&node.http());
}

#[test]
fn exclusive_queues_of_a_connection_have_a_limit() {
    let node = node("exclusive_queue_max_per_connection", 1);
    let exclusive = |name: &str| {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(name).put_octet(1 << 2).put_empty_table();
        arguments
    };
    let mut wire = Wire::open(node.amqp());
    wire.call(1, method::QUEUE_DECLARE, &exclusive("limits.mine"), method::QUEUE_DECLARE_OK);
    wire.call(1, method::QUEUE_DECLARE, &exclusive("limits.mine"), method::QUEUE_DECLARE_OK);
    let (code, text) = refused(&mut wire, method::QUEUE_DECLARE, &exclusive("limits.mine.too"));
    assert_eq!(code, 406);
    assert!(text.ends_with("(1) is reached; raise exclusive_queue_max_per_connection"), "{text}");
    let mut other = Wire::open(node.amqp());
    other.call(1, method::QUEUE_DECLARE, &exclusive("limits.theirs"), method::QUEUE_DECLARE_OK);
    delete(&mut wire, "limits.mine");
    wire.call(1, method::QUEUE_DECLARE, &exclusive("limits.mine.too"), method::QUEUE_DECLARE_OK);
    conservation::check(&node.http());
}

#[test]
fn exchanges_have_a_limit() {
    // Seven are predeclared.
    for key in ["cluster_exchange_limit", "exchange_max_per_vhost"] {
        let node = node(key, 8);
        let mut wire = Wire::open(node.amqp());
        let declare = |name: &str| {
            let mut arguments = Writer::new();
            arguments
                .put_short(0)
                .put_short_string(name)
                .put_short_string("direct")
                .put_octet(1 << 1)
                .put_empty_table();
            arguments
        };
        wire.call(1, method::EXCHANGE_DECLARE, &declare("limits.one"), method::EXCHANGE_DECLARE_OK);
        let (code, text) = refused(&mut wire, method::EXCHANGE_DECLARE, &declare("limits.two"));
        assert_eq!(code, 406);
        let begin = "PRECONDITION_FAILED - cannot declare exchange 'limits.two' in vhost '/': exchange limit of 8 ";
        assert!(text.starts_with(begin) && text.ends_with(&format!("is reached; raise {key}")), "{text}");
        wire.call(1, method::EXCHANGE_DECLARE, &declare("limits.one"), method::EXCHANGE_DECLARE_OK);
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string("limits.one").put_octet(0);
        wire.call(1, method::EXCHANGE_DELETE, &arguments, method::EXCHANGE_DELETE_OK);
        wire.call(1, method::EXCHANGE_DECLARE, &declare("limits.two"), method::EXCHANGE_DECLARE_OK);
        conservation::check(&node.http());
    }
}

#[test]
fn bindings_have_a_limit() {
    for key in ["binding_max_per_node", "binding_max_per_vhost"] {
        let node = node(key, 2);
        let mut wire = Wire::open(node.amqp());
        wire.declare(1, "limits.bound", true);
        let bind = |routing_key: &str| {
            let mut arguments = Writer::new();
            arguments.put_short(0).put_short_string("limits.bound").put_short_string("amq.direct");
            arguments.put_short_string(routing_key).put_octet(0).put_empty_table();
            arguments
        };
        wire.call(1, method::QUEUE_BIND, &bind("a"), method::QUEUE_BIND_OK);
        wire.call(1, method::QUEUE_BIND, &bind("b"), method::QUEUE_BIND_OK);
        let (code, text) = refused(&mut wire, method::QUEUE_BIND, &bind("c"));
        assert_eq!(code, 406);
        assert!(text.starts_with("PRECONDITION_FAILED - cannot bind: binding limit "), "{text}");
        assert!(text.ends_with(&format!("(2) is reached; raise {key}")), "{text}");
        wire.call(1, method::QUEUE_BIND, &bind("a"), method::QUEUE_BIND_OK);
        // Deleting a queue removes its bindings.
        delete(&mut wire, "limits.bound");
        wire.declare(1, "limits.bound", true);
        wire.call(1, method::QUEUE_BIND, &bind("c"), method::QUEUE_BIND_OK);
        wire.call(1, method::QUEUE_BIND, &bind("d"), method::QUEUE_BIND_OK);
        refused(&mut wire, method::QUEUE_BIND, &bind("e"));
        conservation::check(&node.http());
    }
}
