//! Clients of MQTT on several nodes.

use leveret_tests::mqtt::{AckKind, Login, MqttClient, QoS, ReasonCode, Version};

use crate::Cluster;

fn clean(cluster: &Cluster, at: usize, client_id: &str) -> MqttClient {
    MqttClient::open(cluster.nodes[at].mqtt(), client_id, Login::default()).0
}

/// A client whose session outlives its connection, and whether that was there.
fn persistent(cluster: &Cluster, at: usize, client_id: &str, version: Version) -> (MqttClient, bool) {
    let login = Login { version, clean: false, expiry_s: 3600, ..Login::default() };
    MqttClient::open(cluster.nodes[at].mqtt(), client_id, login)
}

/// Waits until each node reaches the others with traffic of clients.
fn linked(cluster: &Cluster) {
    use leveret_tests::wire::Wire;
    let mut wire = Wire::open(cluster.nodes[0].amqp());
    let _ = wire.declare(1, "reached", true);
    for at in 0..cluster.nodes.len() {
        cluster.wait_until("it is known", |cluster| cluster.queues(at) == ["reached"]);
        cluster.wait_until("it is reached", |cluster| crate::elsewhere::is_reached(cluster, at, "reached"));
    }
}

/// Waits until a node knows so many subscriptions: SUBACK says that the client's node does.
fn subscriptions_are_known(cluster: &Cluster, at: usize, count: usize) {
    cluster.wait_until("the subscriptions are known", |cluster| {
        let bindings = cluster.nodes[at].http().get("/api/exchanges/%2F/amq.topic/bindings/source").expect("an answer");
        bindings.json().as_array().is_some_and(|bindings| bindings.len() == count)
    });
}

#[test]
fn a_publish_is_confirmed_once_the_queues_of_all_nodes_have_it() {
    let cluster = Cluster::start(3);
    linked(&cluster);
    let mut readers: Vec<_> = (0..3).map(|at| clean(&cluster, at, &format!("reader{at}"))).collect();
    for reader in &mut readers {
        reader.subscribe_to("t/#", QoS::AtLeastOnce);
    }
    let mut writer = clean(&cluster, 1, "writer");
    subscriptions_are_known(&cluster, 1, 3);
    for number in 0..100u16 {
        writer.publish("t/x", &number.to_be_bytes(), QoS::AtLeastOnce, number + 1, false);
    }
    for number in 0..100 {
        assert_eq!(writer.expect_ack(AckKind::PubAck, number + 1), ReasonCode::SUCCESS);
    }
    for reader in &mut readers {
        for number in 0..100u16 {
            assert_eq!(reader.receive().payload, number.to_be_bytes());
        }
    }
}

#[test]
fn a_persistent_session_is_found_again_at_another_node() {
    let cluster = Cluster::start(3);
    linked(&cluster);
    for version in [Version::V311, Version::V50] {
        let (mut reader, was_there) = persistent(&cluster, 0, "reader", version);
        assert!(!was_there);
        reader.subscribe_to("a/+", QoS::AtLeastOnce);
        reader.close();
        subscriptions_are_known(&cluster, 2, 1);
        let mut writer = clean(&cluster, 2, "writer");
        writer.publish_once("a/1", b"one");
        let (mut reader, was_there) = persistent(&cluster, 1, "reader", version);
        assert!(was_there);
        let message = reader.receive();
        assert_eq!((&*message.topic, &*message.payload), ("a/1", &b"one"[..]));
        writer.publish_once("a/2", b"two");
        assert_eq!(reader.receive().payload, b"two");
        reader.close();
        // A clean start at a third node ends it.
        let (reader, was_there) =
            MqttClient::open(cluster.nodes[2].mqtt(), "reader", Login { version, ..Login::default() });
        assert!(!was_there);
        reader.close();
        subscriptions_are_known(&cluster, 0, 0);
    }
}

#[test]
fn a_session_is_never_read_at_two_nodes() {
    let cluster = Cluster::start(3);
    linked(&cluster);
    let (mut old, _) = persistent(&cluster, 0, "c", Version::V50);
    old.subscribe_to("t", QoS::AtLeastOnce);
    subscriptions_are_known(&cluster, 2, 1);
    // It is told after its CONNACK: the queue's node answers later.
    let (mut new, _) = persistent(&cluster, 1, "c", Version::V50);
    assert_eq!(new.disconnected(), Some(ReasonCode::SERVER_UNAVAILABLE));
    let mut writer = clean(&cluster, 2, "writer");
    writer.publish_once("t", b"one");
    assert_eq!(old.receive().payload, b"one");
    old.close();
    let (mut new, was_there) = persistent(&cluster, 1, "c", Version::V50);
    assert!(was_there);
    writer.publish_once("t", b"two");
    assert_eq!(new.receive().payload, b"two");
}

#[test]
fn clean_sessions_need_no_other_node() {
    let cluster = Cluster::start(2);
    linked(&cluster);
    // The ledger of sessions is the first node's from now on.
    let (mut once, _) = persistent(&cluster, 0, "once", Version::V50);
    once.publish("t", b"one", QoS::ExactlyOnce, 1, false);
    once.expect_ack(AckKind::PubRec, 1);
    cluster.wait_until("it is known", |cluster| cluster.queues(1).iter().any(|name| name == "amq.mqtt.sessions"));
    let mut reader = clean(&cluster, 1, "reader");
    reader.subscribe_to("u", QoS::AtLeastOnce);
    subscriptions_are_known(&cluster, 0, 1);
    clean(&cluster, 0, "writer").publish_once("u", b"two");
    assert_eq!(reader.receive().payload, b"two");
    // The state of a session with QoS 2 is in that ledger: without it, none is resumed.
    let login = Login { clean: false, expiry_s: 60, ..Login::default() };
    let mut other = MqttClient::connect(cluster.nodes[1].mqtt(), "other", login);
    assert_eq!(other.connack().0, ReasonCode::SERVER_UNAVAILABLE);
}
