//! A node on a small volume: its log uses a part of it, the alarm depends on free space, and a volume that is too
//! small is refused.

use std::process::Command;

use leveret_tests::broker::is_given;
use leveret_tests::node::{Node, Options, binary, new_directory};
use leveret_tests::small_disk::SmallDisk;
use leveret_tests::wire::{Wire, publish};
use serde_json::Value;

fn shown(node: &Node) -> Value {
    node.http().get("/api/nodes").expect("an answer").json()[0].clone()
}

#[test]
fn a_volume_of_160_mb_is_not_in_alarm_at_100_mb_free() {
    if is_given() {
        return;
    }
    let options = Options::new().set("disk_free_limit.absolute", "4MB");
    let Some(mut node) = Node::start_on_small_disk(options, 160_000_000) else { return };
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "q", true);
    wire.confirm_select(1);
    // Several files of the log.
    for number in 0..80u8 {
        wire.send(&publish(1, "", "q", &vec![number; 100_000], true, true));
        wire.confirms(1);
    }
    assert!(node.small_disk().free_bytes() > 100_000_000, "{} are free", node.small_disk().free_bytes());
    node.small_disk().fill(100_000_000);
    let state = shown(&node);
    assert_eq!((&state["disk_free_alarm"], &state["disk_free_limit"]), (&false.into(), &4_000_000.into()), "{state}");
    // The limit is in effect.
    node.small_disk().fill(3_000_000);
    assert!(node.wait_for_line("free disk space is insufficient. Free bytes: "));
    assert_eq!(shown(&node)["disk_free_alarm"], true);
    node.small_disk().empty();
    assert!(node.wait_for_line("free disk space is sufficient. Free bytes: "));
    // Works with existing files of other lengths, longer and shorter ones.
    for length in ["64KiB", "16MiB", "5MiB"] {
        node.terminate();
        node.restart_with("debug.wal_file_bytes", length);
        let mut wire = Wire::open(node.amqp());
        wire.declare(1, "q", true);
        wire.confirm_select(1);
        wire.send(&publish(1, "", "q", b"another", true, true));
        wire.confirms(1);
    }
}

#[test]
fn a_volume_of_64_mb_is_enough_and_a_smaller_one_is_refused() {
    if is_given() {
        return;
    }
    let options = Options::new().set("disk_free_limit.absolute", "4MB");
    let Some(node) = Node::start_on_small_disk(options, 64_000_000) else { return };
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "q", true);
    wire.confirm_select(1);
    wire.send(&publish(1, "", "q", b"body", true, true));
    wire.confirms(1);
    assert_eq!(shown(&node)["disk_free_alarm"], false);
    assert!(node.small_disk().free_bytes() > 48_000_000, "{} are free", node.small_disk().free_bytes());

    let directory = new_directory();
    let Some(_disk) = SmallDisk::mount(directory.path(), 32 << 20) else { return };
    let output = Command::new(binary()).args(Options::new().arguments(directory.path())).output().expect("runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for part in ["has 33554432 bytes, and a node needs at least 50331648", &directory.path().display().to_string()] {
        assert!(told.contains(part), "{told}");
    }
}
