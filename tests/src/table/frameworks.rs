//! Frameworks over AMQP 0-9-1, by use case.

use super::{ClientLibrary, Program, Scenario, Table, client, scenario};

/// The table.
pub(super) const TABLE: Table = Table {
    title: "Frameworks",
    clients: CLIENTS,
    scenarios: SCENARIOS,
    over_tls: OVER_TLS,
    with_quorum_queues: QUORUM,
};

const CLIENTS: &[ClientLibrary] = &[
    client("celery", "Celery 5.7.0 (Python)", Program::Python("celery/client.py")),
    client("aio-pika", "aio-pika 10.2.1 (Python)", Program::Python("aio-pika/client.py")),
    client("spring-amqp", "Spring AMQP 3.2.6 (Java)", Program::Java { folder: "spring-amqp", main: "SpringClient" }),
];

const OVER_TLS: &[&str] = &["tasks"];
const QUORUM: &[&str] = &["tasks"];

const SCENARIOS: &[Scenario] = &[
    scenario("tasks", "tasks or messages with confirms, each done once, in order where the framework keeps one"),
    scenario("retry", "what fails is tried again: Celery's retry, redelivery after a reject or an exception"),
    scenario("later", "not before its time: Celery's ETA, a dead letter from a queue or message with a time to live"),
    scenario("priorities", "the urgent ones first on classic queues with x-max-priority"),
    scenario("priorities_of_quorum_queues", "the same on quorum queues, which need no argument"),
    scenario(
        "quorum",
        "quorum queues of the application's own: Celery's with its delays by dead letters and its pidbox, a delivery limit",
    ),
    scenario("delayed_exchange", "x-delayed-message as the plugin's users declare it and publish to it").leveret_only(),
    scenario(
        "topology",
        "what was deleted is declared again: by Celery's worker, with each new connection of RabbitAdmin and the robust one",
    ),
    scenario("control", "Celery's pidbox, RPC over aio-pika, Spring's RabbitAdmin and an answer by direct reply-to"),
    scenario("recover", "goes on by itself after kill -9").stops_the_broker(),
];
