//! The stream protocol.

use super::{ClientLibrary, Program, Scenario, Table, client};

/// The table.
pub(super) const TABLE: Table = Table {
    title: "The stream protocol",
    clients: CLIENTS,
    scenarios: SCENARIOS,
    over_tls: OVER_TLS,
    with_quorum_queues: &[],
};

const CLIENTS: &[ClientLibrary] = &[
    client(
        "stream-java",
        "RabbitMQ stream client 1.2.0 (Java)",
        Program::Java { folder: "stream-java", main: "StreamsClient" },
    ),
    client("rstream", "rstream 1.1.1 (Python)", Program::Python("rstream/client.py")),
    client("stream-js", "rabbitmq-stream-js-client 1.0.0 (node)", Program::Node("stream-js/client.js")),
];

const OVER_TLS: &[&str] = &["publish"];

const SCENARIOS: &[Scenario] = &[
    scenario("publish", "1,000 messages, every one confirmed, read in order"),
    scenario("offsets", "first, last, next, an offset, a time"),
    scenario("stored_offset", "kept under a name, and taken up by the next connection"),
    scenario("deduplication", "a name that sends its ids again: each message is there once"),
    scenario("filters", "values of messages, without the chunks of others"),
    scenario("sub_batches", "compressed and not"),
    scenario("super_stream", "by routing key to partitions, and all of them read"),
    scenario("single_active", "one of two consumers of a name gets messages, then the other one"),
    scenario("wrong_password", "AUTHENTICATION_FAILURE"),
    scenario("unknown_stream", "STREAM_DOES_NOT_EXIST"),
    scenario("deleted", "a consumer or publisher learns that its stream is gone"),
    scenario("reconnect", "goes on after kill -9, without a message lost or out of order").stops_the_broker(),
    scenario("restart", "the same after a stop by SIGTERM and a start").stops_the_broker(),
];

const fn scenario(name: &'static str, shows: &'static str) -> Scenario {
    Scenario::new(name, shows).over_streams()
}
