//! JMS, as an addition to AMQP 1.0. tests/clients/AMQP10.md describes each scenario.

use super::{ClientLibrary, Program, Scenario, Table, client, scenario};

/// The table.
pub(super) const TABLE: Table =
    Table { title: "JMS", clients: CLIENTS, scenarios: SCENARIOS, over_tls: OVER_TLS, with_quorum_queues: QUORUM };

const CLIENTS: &[ClientLibrary] =
    &[client("qpid-jms", "Qpid JMS 2.10.0", Program::Java { folder: "qpid-jms", main: "JmsClient" })];

const OVER_TLS: &[&str] = &["jms_transacted_session"];
const QUORUM: &[&str] = &["jms_transacted_session"];

const SCENARIOS: &[Scenario] = &[
    scenario("jms_properties", "headers and properties of every type come back as they were"),
    scenario("jms_acknowledge_modes", "automatic, duplicates-ok, by the client, one by one"),
    scenario("jms_redelivery", "JMSRedelivered and JMSXDeliveryCount after a recover"),
    scenario(
        "jms_selectors",
        "consumers with selectors share a queue; a wrong one is refused, and the connection goes on",
    )
    .leveret_only(),
    scenario("jms_transacted_session", "received and sent over two queues, commit and rollback").leveret_only(),
    scenario("jms_browser_beside_consumer", "shows what waits, and nothing that a consumer holds").leveret_only(),
];
