//! MQTT 3.1, 3.1.1 and 5 against the binary.

use std::net::SocketAddr;

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::mqtt::{Login, MqttClient, Version};
use leveret_tests::node::{Node, Options};

mod crashes;
mod logins;
mod options;
mod qos;
mod retained;
mod sessions;
mod wills;

/// A node, unless the tests run against a given broker.
fn node() -> Option<Node> {
    (!is_given()).then(|| Node::start(Options::new()))
}

/// Checks that no queue lost a message.
fn finish(node: &Node) {
    conservation::check(&node.http());
}

/// A session that outlives its connection: the client, and whether there was such a session.
fn persistent(address: SocketAddr, client_id: &str, version: Version) -> (MqttClient, bool) {
    MqttClient::open(address, client_id, Login { version, clean: false, expiry_s: 1000, ..Login::default() })
}

/// A session that ends with its connection.
fn clean(address: SocketAddr, client_id: &str) -> MqttClient {
    MqttClient::open(address, client_id, Login::default()).0
}

/// Each version that has sessions and QoS 2.
const VERSIONS: [Version; 2] = [Version::V311, Version::V50];
