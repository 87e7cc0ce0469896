//! Damaged metadata: a node has all of it, or doesn't start, and then what is left can be saved.

use std::path::Path;
use std::time::{Duration, Instant};

use leveret_tests::broker::is_given;
use leveret_tests::data_directory::{files, put};
use leveret_tests::node::{Node, Options, new_directory, run};
use leveret_tests::wire::{Confirmed, Wire, Writer, method, method_frame, publish};
use serde_json::{Value, json};

const MESSAGES: u64 = 300;

/// A stopped node with a queue whose messages have left the log, a user, and a permission that was taken back.
fn stopped() -> Node {
    let mut node = Node::start(Options::new().set("debug.wal_file_bytes", "64KiB"));
    let http = node.http();
    let queue = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
    assert_eq!(http.put("/api/queues/%2F/orders", &queue).expect("an answer").status, 201);
    let user = json!({"password": "secret", "tags": "administrator"});
    assert_eq!(http.put("/api/users/alice", &user).expect("an answer").status, 201);
    for pattern in [".*", "^none$"] {
        let body = json!({"configure": pattern, "write": pattern, "read": pattern});
        assert!(http.put("/api/permissions/%2F/alice", &body).expect("an answer").status < 300);
    }
    let mut wire = Wire::open(node.amqp());
    wire.confirm_select(1);
    let mut confirmed = Confirmed::default();
    for number in 0..MESSAGES {
        let mut body = format!("order {number:06} ").into_bytes();
        body.resize(1024, b'.');
        wire.send(&publish(1, "", "orders", &body, true, true));
        while confirmed.count() < number + 1 {
            confirmed.wait(&mut wire);
        }
    }
    drop(wire);
    assert!(node.terminate().success());
    node
}

/// Changes a bit in the middle of the metadata's entry in the newest file of this kind. Returns its name.
fn damage(directory: &Path, kind: &str) -> String {
    let named = |(name, _): &(String, Vec<u8>)| name.starts_with(kind);
    let (name, mut content) = files(directory).into_iter().rfind(named).expect("a file of this kind");
    let segments = u32::from_le_bytes(*content[64..].first_chunk().expect("a header")) as usize;
    // The entry of log 0 is the first one.
    let entry = 96 + 16 * segments;
    let length = u64::from_le_bytes(*content[entry + 40..].first_chunk().expect("an entry")) as usize;
    content[entry + 64 + length / 2] ^= 1;
    put(directory, &name, &content);
    name
}

fn verify(directory: &Path, more: &[&str]) -> (i32, Value) {
    let path = directory.to_str().expect("a path of text");
    let (status, report, problem) = run(&[&["verify", path, "--format", "json"], more].concat());
    (status, serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report} {problem}")))
}

fn messages(node: &Node, queue: &str) -> Value {
    node.http().get(&format!("/api/queues/%2F/{queue}")).expect("an answer").json()["messages"].clone()
}

#[test]
fn one_damaged_copy_of_the_metadata_changes_nothing() {
    if is_given() {
        return;
    }
    for kind in ["checkpoint-", "metadata-"] {
        let mut node = stopped();
        let name = damage(node.directory(), kind);
        let newest = files(node.directory()).into_keys().rfind(|name| name.starts_with("checkpoint-"));
        let checkpoint = newest.expect("a checkpoint");
        let (status, report) = verify(node.directory(), &[]);
        assert_eq!((status, &report["start_refused"]), (1, &Value::Null), "{report:#}");
        assert!(report["damaged"].to_string().contains(&name), "{report:#}");
        node.restart();
        assert_eq!(messages(&node, "orders"), MESSAGES);
        let permissions = node.http().get("/api/permissions/%2F/alice").expect("an answer").json();
        assert_eq!(permissions["configure"], "^none$");
        assert!(node.log().contains(&name), "the node says so");
        // Both copies are written anew, and then the checkpoint before is removed.
        let begin = Instant::now();
        while node.directory().join("store").join(&checkpoint).exists() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{checkpoint} is still in use");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(node.terminate().success());
        let (status, report) = verify(node.directory(), &[]);
        assert_eq!(status, 0, "{report:#}");
    }
}

#[test]
fn without_its_metadata_a_node_is_refused_and_can_be_saved() {
    if is_given() {
        return;
    }
    let mut node = stopped();
    let places = ["checkpoint-", "metadata-"].map(|kind| damage(node.directory(), kind));
    let before = files(node.directory());
    assert!(!node.try_restart(), "it has no metadata");
    let log = node.log();
    assert!(log.contains("the metadata") && places.iter().all(|place| log.contains(place)), "{log}");
    let kept = |(name, _): &(&String, &Vec<u8>)| *name != "identity";
    assert!(files(node.directory()).iter().filter(kept).eq(before.iter().filter(kept)), "nothing was changed");

    let parent = new_directory();
    let copy = parent.path().join("copy");
    let (status, report) = verify(node.directory(), &["--repair-to", copy.to_str().expect("a path of text")]);
    assert_eq!(status, 1);
    assert!(report["start_refused"].as_str().is_some_and(|text| text.contains("--repair-to")), "{report:#}");
    let [adopted] = &report["adopted_logs"].as_array().expect("a list")[..] else { panic!("{report:#}") };
    let name = adopted["queue"].as_str().expect("a name").to_owned();
    assert_eq!((name.starts_with("recovered-"), &report["messages_copied"]), (true, &json!(MESSAGES)), "{report:#}");

    let target = new_directory();
    std::fs::remove_dir(target.path()).expect("it is empty");
    std::fs::rename(&copy, target.path()).expect("the copy moves");
    let node = Node::start_in(target, Options::new());
    assert_eq!(messages(&node, &name), MESSAGES);
    let mut wire = Wire::open(node.amqp());
    wire.prefetch(1, 1000);
    wire.consume(1, &name, false);
    for number in 0..MESSAGES {
        let (tag, _, body) = wire.delivery();
        assert!(body.starts_with(format!("order {number:06} ").as_bytes()));
        wire.ack(1, tag, false);
    }
    wire.close();
    let answer = node.http().get("/api/health/checks/storage").expect("an answer");
    assert_eq!(answer.status, 200, "the log has an owner again");
}

#[test]
fn a_stopped_queue_fails_a_health_check_of_its_own() {
    if is_given() {
        return;
    }
    let mut node = stopped();
    node.restart();
    assert_eq!(node_check(&mut node, |_| ()).0, 200);
    let spoil = |directory: &Path| {
        let segment = |(name, _): &(String, Vec<u8>)| name.starts_with("segment-");
        let (name, mut content) = files(directory).into_iter().find(segment).expect("a segment");
        *content.last_mut().expect("a footer") ^= 1;
        put(directory, &name, &content);
    };
    let (status, body) = node_check(&mut node, spoil);
    assert_eq!((status, &body["stopped"], &body["queues"][0]["name"]), (503, &json!(1), &json!("orders")), "{body:#}");
    assert!(body["queues"][0]["reason"].as_str().is_some_and(|reason| reason.contains("segment-")), "{body:#}");
    assert_eq!(node.count("leveret_queues_stopped"), 1);
    let path = node.directory().to_str().expect("a path of text").to_owned();
    let check = ["ctl", "--tool", "rabbitmq-diagnostics", "--data-dir", &path, "check_storage"];
    let (code, _, problem) = run(&check);
    assert!(code != 0, "{problem}");
    // Deleting the queue is the operator's word.
    let mut wire = Wire::open(node.amqp());
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string("orders").put_octet(0);
    wire.send(&method_frame(1, method::QUEUE_DELETE, &arguments));
    wire.next_method(method::QUEUE_DELETE_OK).expect("it is deleted");
    wire.close();
    assert_eq!(node.http().get("/api/health/checks/storage").expect("an answer").status, 200);
}

/// Stops the node if it runs, changes its files, and asks the check of the node that starts then.
fn node_check(node: &mut Node, change: impl Fn(&Path)) -> (u16, Value) {
    node.terminate();
    change(node.directory());
    node.restart();
    let answer = node.http().get("/api/health/checks/storage").expect("an answer");
    (answer.status, answer.json())
}
