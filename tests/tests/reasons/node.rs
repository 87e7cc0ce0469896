//! The node's disk and memory, as reasons of queues and connections.

use std::time::Instant;

use leveret_tests::PATIENCE;
use leveret_tests::node::Options;
use leveret_tests::wire::publish;
use serde_json::json;

use crate::stage::{Staged, pause};

#[test]
fn an_alarm_is_told_to_queues_and_connections() {
    let mut stage = Staged::with(Options::new().with_alarms());
    stage.queue("q", json!({}));
    stage.publish("q", 1);
    stage.node.raise_alarms("memory");
    let deadline = Instant::now() + PATIENCE;
    while stage.http().get("/api/health/checks/alarms").expect("an answer").status != 503 {
        assert!(Instant::now() < deadline, "no alarm");
    }
    stage.wire.send(&publish(1, "", "q", b"2", false, true));
    let said = "An alarm for memory of the node is raised: publishers are not read until it clears.";
    let reason = stage.says("queues/%2F/q", "alarm", said);
    assert_eq!(reason["parts"][1]["to"]["kind"], "node");
    let said = "It publishes while an alarm for memory of the node is raised: it is not read until that clears.";
    stage.says("connections", "alarm", said);
    let list = stage.http().get("/api/connections?why=alarm&page=1").expect("an answer").json();
    assert_eq!(list["filtered_count"], 1, "{list}");
    let list = stage.http().get("/api/connections?why=pacing&page=1").expect("an answer").json();
    assert_eq!((&list["filtered_count"], &list["total_count"]), (&json!(0), &json!(1)));
    stage.node.raise_alarms("");
    stage.ends();
}

#[test]
fn a_slow_disk_is_told_with_the_time_of_its_syncs() {
    let mut stage = Staged::with(Options::new().set("debug.sync_delay_ms", 500));
    stage.queue("q", json!({}));
    let said = "What is published waits for the disk of the node, where a sync takes ";
    stage.says_while("queues/%2F/q", "sync", said, |wire| {
        wire.send(&publish(1, "", "q", b"1", false, true));
        pause();
    });
    stage.ends();
}
