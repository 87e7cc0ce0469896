//! AMQP 1.0. tests/clients/AMQP10.md describes each scenario.

use super::{ClientLibrary, Program, Scenario, Table, client, scenario};

/// The table.
pub(super) const TABLE: Table =
    Table { title: "AMQP 1.0", clients: CLIENTS, scenarios: SCENARIOS, over_tls: OVER_TLS, with_quorum_queues: QUORUM };

const CLIENTS: &[ClientLibrary] = &[
    client("proton-python", "python-qpid-proton 0.40.0", Program::Python("proton-python/client.py")),
    client("proton-c", "qpid-proton 0.37.0 (C)", Program::Installed("proton-c")),
    client("fe2o3", "fe2o3-amqp 0.18.4 (Rust)", Program::Ours("fe2o3-client")),
    client("rhea", "rhea 3.0.5 (node)", Program::Node("rhea/client.js")),
    client("rabbitmq-python", "rabbitmq-amqp-python-client 1.0.1", Program::Python("rabbitmq-python/client.py")),
    client("go-amqp", "Azure/go-amqp 1.7.0", Program::Installed("go-amqp-client")),
    client("rabbitmq-go", "rabbitmq-amqp-go-client 1.0.0", Program::Installed("rabbitmq-go-client")),
    client(
        "rabbitmq-java",
        "RabbitMQ AMQP 1.0 client 1.0.0 (Java)",
        Program::Java { folder: "rabbitmq-java", main: "RabbitClient" },
    ),
    client("qpid-jms", "Qpid JMS 2.10.0", Program::Java { folder: "qpid-jms", main: "JmsClient" }),
];

const OVER_TLS: &[&str] = &["login", "publish", "detach_requeues", "big_message"];
const QUORUM: &[&str] = &["detach_requeues"];

const SCENARIOS: &[Scenario] = &[
    scenario("login", "PLAIN, ANONYMOUS, a wrong password"),
    scenario("vhost", "by the hostname of open; an unknown one is refused"),
    scenario("sessions", "two of one connection, each with its links; one ends, the other goes on"),
    scenario("many_links", "a hundred of one session"),
    scenario("heartbeats", "the client's idle-time-out is kept with empty frames"),
    scenario("heartbeat_loss", "a client that falls silent is disconnected").with(&[("heartbeat", "2")]),
    scenario("reconnect", "a durable message survives kill -9 and the client finds it again").stops_the_broker(),
    scenario("shutdown", "Connection forced when the broker is stopped").terminates_the_broker(),
    scenario("publish", "100 durable messages, every one accepted, in order"),
    scenario("settled_publish", "at most once"),
    scenario("exchange_target", "exchanges and keys, percent-encoded"),
    scenario("anonymous_terminus", "an address per message, and each outcome that follows from it"),
    scenario("unroutable", "released"),
    scenario("rejected", "by reject-publish, with queue and reason"),
    scenario("big_message", "1 MiB in small frames, byte for byte"),
    scenario("sections", "every section, property and simple type comes back as it was"),
    scenario("message_ids", "of each type"),
    scenario("bodies", "data, value and sequence"),
    scenario("outcomes", "accepted, rejected, released, modified, with their counts"),
    scenario("dead_letter", "rejected and undeliverable-here, with x-opt-deaths"),
    scenario("ttl", "expired to the dead-letter exchange; ttl, durable and priority of the header"),
    scenario("detach_requeues", "detach, end and close bring back what was unsettled, in order"),
    scenario("credit", "never more than granted; settling grants nothing"),
    scenario("drain", "with messages and without"),
    scenario("settled_receive", "at most once"),
    scenario("two_receivers", "of one session, each with its own credit"),
    scenario("consumer_priority", "the higher one first while it has credit"),
    scenario("backlog", "20,000 durable messages through credit 100"),
    scenario("dynamic_node", "a temporary queue that dies with its link"),
    scenario("request_reply", "over a temporary queue"),
    scenario("direct_reply_to", "request and reply over a volatile queue"),
    scenario("browse", "distribution-mode copy: nothing changes").leveret_only(),
    scenario("transactions", "commit and rollback of messages and outcomes").leveret_only(),
    scenario("from_091", "a message published over 0-9-1"),
    scenario("to_091", "a message received over 0-9-1"),
    scenario("management", "queues, exchanges and bindings over /management"),
    scenario("management_errors", "403, 404, 409, and a link without its pair"),
    scenario("exclusive", "amqp:resource-locked from another connection"),
    scenario("queue_deleted", "amqp:resource-deleted for its links"),
    scenario("not_found", "amqp:not-found: queue, exchange"),
    scenario("bad_address", "amqp:invalid-field"),
    scenario("unauthorized", "amqp:unauthorized-access: sender, receiver")
        .with(&[("default_permissions.write", "^$"), ("default_permissions.read", "^$")]),
    scenario("user_id", "amqp:unauthorized-access for another user's name"),
    scenario("message_too_large", "amqp:link:message-size-exceeded").with(&[("max_message_size", "100000")]),
    scenario("bad_annotation", "amqp:decode-error for a key without x-"),
    scenario("settle_mode_second", "amqp:not-implemented"),
    scenario("framing_error", "amqp:connection:framing-error"),
    scenario("session_errors", "amqp:session:unattached-handle, amqp:session:handle-in-use"),
];
