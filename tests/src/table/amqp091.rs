//! AMQP 0-9-1: the clients of six languages.

use super::{ClientLibrary, Program, Scenario, Table, client, scenario};

/// The table.
pub(super) const TABLE: Table = Table {
    title: "AMQP 0-9-1",
    clients: CLIENTS,
    scenarios: SCENARIOS,
    over_tls: OVER_TLS,
    with_quorum_queues: QUORUM,
};

const CLIENTS: &[ClientLibrary] = &[
    client("pika", "pika 1.4.4 (Python)", Program::Python("pika/client.py")),
    client("go", "amqp091-go 1.16.0", Program::Installed("go-client")),
    client("java", "amqp-client 5.31.0 (Java)", Program::Java { folder: "java", main: "ScenarioClient" }),
    client("node", "amqplib 2.3.1 (node)", Program::Node("node/client.js")),
    // RabbitMQ 4 refuses its frames of 4096 bytes.
    client("node-0.8", "amqplib 0.8.0 (node)", Program::Node("node-0.8/client.js")).leveret_only(),
    client("lapin", "lapin 4.12.3 (Rust)", Program::Ours("lapin-client")),
    client("bunny", "Bunny 2.19.0 (Ruby)", Program::Ruby("bunny/client.rb")),
    client("php-amqplib", "php-amqplib 3.5.3 (PHP)", Program::Php("php-amqplib/client.php")),
];

const OVER_TLS: &[&str] = &["publish_confirm", "ack", "big_body"];
const QUORUM: &[&str] = &["publish_confirm", "ack"];

const SCENARIOS: &[Scenario] = &[
    scenario("declare", "declare, redeclare, passive, server-named, bind, unbind, delete; 406 names what differs"),
    scenario("publish_confirm", "100 persistent messages, every one confirmed, all there"),
    scenario("mandatory_return", "an unroutable mandatory message comes back with 312 before its confirm"),
    scenario(
        "direct_reply_to",
        "an answer comes over amq.rabbitmq.reply-to without a queue; 406 without no-ack, 406 without a consumer, 403 to bind",
    ),
    scenario("ack", "single and multiple; what is unacknowledged at a close comes again, redelivered"),
    scenario("nack_requeue", "goes back to its own place in the queue"),
    scenario("reject", "without requeue it is gone, with requeue it comes again"),
    scenario("prefetch", "no more than the prefetch is unacknowledged"),
    scenario("get", "with message count, empty, and without acknowledgement"),
    scenario("big_body", "5 MB, byte for byte"),
    scenario(
        "headers",
        "every header type and property (but expiration, which comes with message TTL) that the client can send, unicode and binary",
    ),
    scenario("exclusive", "405 from another connection; gone with its own"),
    scenario("reconnect", "a durable message survives kill -9 and the client finds it again").stops_the_broker(),
    scenario("heartbeat_loss", "a client that falls silent is disconnected"),
    scenario("error_320", "CONNECTION_FORCED when the broker is stopped").terminates_the_broker(),
    scenario(
        "error_403",
        "ACCESS_REFUSED: reserved names, the default exchange, an exclusive consumer, a wrong password",
    ),
    scenario("error_404", "NOT_FOUND: queue, exchange"),
    scenario("error_405", "RESOURCE_LOCKED: declare, consume and delete of another connection's exclusive queue"),
    scenario(
        "error_406",
        "PRECONDITION_FAILED: delivery tag, argument, expiration, exchange type, deletes with if-unused and if-empty",
    ),
    scenario("error_501", "FRAME_ERROR: a frame without its end mark"),
    scenario(
        "error_502",
        "arguments that can't be read: 501 FRAME_ERROR as RabbitMQ says, where the specification has 502",
    ),
    scenario("error_503", "COMMAND_INVALID: a method that only a broker sends"),
    scenario("error_504", "CHANNEL_ERROR: a channel opened twice"),
    scenario("error_505", "UNEXPECTED_FRAME: a header without its method"),
    scenario("error_530", "NOT_ALLOWED: a consumer tag twice, an unknown vhost"),
    scenario("error_540", "NOT_IMPLEMENTED: immediate, prefetch size, recover without requeue"),
];
