//! MQTT.

use super::{ClientLibrary, Program, Scenario, Table, client};

/// The table.
pub(super) const TABLE: Table =
    Table { title: "MQTT", clients: CLIENTS, scenarios: SCENARIOS, over_tls: OVER_TLS, with_quorum_queues: &[] };

const CLIENTS: &[ClientLibrary] = &[client("paho", "paho-mqtt 2.2.0 (Python)", Program::Python("paho/client.py"))];

const OVER_TLS: &[&str] = &["publish_mqtt"];

const SCENARIOS: &[Scenario] = &[
    scenario("publish_mqtt", "each QoS in each version, in order"),
    scenario("session", "subscriptions and messages of a client that was away"),
    scenario("retained", "the last message of a topic, by wildcards, until it is removed"),
    scenario("will", "published when its client vanishes, and not when it takes leave"),
    scenario("properties", "of MQTT 5: user properties, response topic, correlation data, identifiers"),
    scenario("taken_over", "another connection gets the client id"),
    scenario("refused_login", "bad user name or password, in each version"),
    scenario("reconnect_mqtt", "goes on after kill -9, without a confirmed message lost or out of order")
        .stops_the_broker(),
    scenario("restart_mqtt", "the same after a stop by SIGTERM and a start").stops_the_broker(),
];

const fn scenario(name: &'static str, shows: &'static str) -> Scenario {
    Scenario::new(name, shows).over_mqtt()
}
