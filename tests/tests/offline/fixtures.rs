//! Every version reads the data of all earlier released format versions: `tests/fixtures/data-VERSION/` has a
//! directory of a node that was stopped cleanly, one of a node that was killed, with its last batch torn, and the
//! results at that time.
//!
//! `make fixtures` writes the fixtures of the current version before its release.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use leveret_tests::broker::is_given;
use leveret_tests::data_directory::{crc32c, files, fixture, pack, put, unpack};
use leveret_tests::http::Http;
use leveret_tests::node::{Node, Options, run};
use leveret_tests::wire::{Wire, Writer, method, publish, publish_expiring};
use serde_json::{Value, json};

/// Released format versions, and the current one.
const VERSIONS: [u32; 1] = [1];
const KINDS: [&str; 2] = ["clean", "crash"];

/// Lines of a dump that are kept; of the rest a checksum.
const LINES_KEPT: usize = 40;

/// Results that must never change for a directory.
fn results(directory: &Path) -> (Value, String, i32) {
    let path = directory.to_str().expect("a path of text");
    let (status, report, _) = run(&["verify", path, "--format", "json"]);
    let mut report: Value = serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report}"));
    let object = report.as_object_mut().expect("an object");
    // Not in the reports of earlier versions.
    for added in ["set_aside", "unowned_logs", "adopted_logs", "logs_without_state"] {
        assert_eq!(object.remove(added), Some(serde_json::json!([])));
    }
    assert_eq!(object.remove("shared_messages_unattributed"), Some(serde_json::json!(0)));
    for of_the_run in ["directory", "seconds"] {
        report.as_object_mut().expect("an object").remove(of_the_run);
    }
    let (_, records, problem) = run(&["log", "dump", path, "--format", "json", "--bodies"]);
    assert_eq!(problem, "");
    let mut kept: Vec<String> = records.lines().take(LINES_KEPT).map(str::to_owned).collect();
    kept.push(format!("{} lines, CRC-32C {:08x}", records.lines().count(), crc32c(records.as_bytes())));
    (report, kept.join("\n") + "\n", status)
}

/// Messages by queue after a start.
fn messages(http: &Http) -> BTreeMap<String, u64> {
    let queues = http.get("/api/queues").expect("an answer").json();
    let count =
        |queue: &Value| (queue["name"].as_str().expect("a name").to_owned(), queue["messages"].as_u64().unwrap());
    queues.as_array().expect("a list").iter().map(count).collect()
}

#[test]
fn every_version_gives_its_recorded_results() {
    if is_given() {
        return;
    }
    for (version, kind) in VERSIONS.iter().flat_map(|version| KINDS.map(|kind| (version, kind))) {
        let fixture = fixture(&format!("data-{version}/{kind}"));
        let recorded = |name: &str| fs::read_to_string(fixture.join(name)).expect("a recorded result");
        let directory = unpack(&fixture);
        let before = files(directory.path());
        let (report, records, status) = results(directory.path());
        assert_eq!(report, serde_json::from_str::<Value>(&recorded("verify.json")).expect("JSON"));
        assert_eq!(status, if kind == "clean" { 0 } else { 1 });
        assert_eq!(report["torn_last_batch"].is_null(), kind == "clean");
        assert_eq!(records, recorded("dump.txt"));
        assert!(files(directory.path()) == before, "looking at it changed it");
        let mut node = Node::start_in(directory, small_files());
        let queues: BTreeMap<String, u64> = serde_json::from_str(&recorded("queues.json")).expect("JSON");
        assert_eq!(messages(&node.http()), queues);
        read_all(&node, &queues);
        assert!(node.terminate().success());
        let (report, _, status) = results(node.directory());
        assert_eq!((status, &report["result"]), (0, &json!("sound")), "{report}");
    }
}

fn small_files() -> Options {
    Options::new().set("debug.wal_file_bytes", 16 << 10)
}

/// Asserts that every counted message can be read, and has the number written into it.
fn read_all(node: &Node, queues: &BTreeMap<String, u64>) {
    let mut wire = Wire::open(node.amqp());
    for (channel, (queue, count)) in (2..).zip(queues) {
        wire.open_channel(channel);
        wire.consume(channel, queue, true);
        let mut last = 0;
        for _ in 0..*count {
            let (_, _, body) = wire.delivery();
            let text = String::from_utf8_lossy(&body);
            let number = text.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
            assert!(number > last, "{queue}: {number} after {last}");
            last = number;
        }
    }
    wire.close();
}

fn body(number: u32, length: usize) -> Vec<u8> {
    let mut body = format!("{number} ").into_bytes();
    body.resize(length.max(body.len()), b'.');
    body
}

/// Publishes messages of all kinds, enough for several files to be retired.
fn fill(node: &Node) {
    let mut wire = Wire::open(node.amqp());
    let fan: Vec<String> = (1..=10).map(|at| format!("fan {at}")).collect();
    for queue in ["orders", "events", "moved", "gone"].into_iter().chain(fan.iter().map(String::as_str)) {
        wire.declare(1, queue, true);
    }
    for queue in &fan {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(queue).put_short_string("amq.fanout").put_short_string("");
        arguments.put_octet(0).put_empty_table();
        wire.call(1, method::QUEUE_BIND, &arguments, method::QUEUE_BIND_OK);
    }
    wire.close();
    let mut number = 0;
    for round in 0..10 {
        let mut wire = Wire::open(node.amqp());
        wire.confirm_select(1);
        wire.open_channel(2);
        for _ in 0..10 {
            number += 1;
            wire.send(&publish(1, "", "orders", &body(number, 300), true, true));
            wire.send(&publish(1, "", "events", &body(number, 12), true, true));
        }
        wire.send(&publish(1, "", "gone", &body(number, 100), true, true));
        wire.send(&publish_expiring(1, "events", &body(number + 1, 20), 300_000_000_000));
        wire.send(&publish(1, "amq.fanout", "", &body(number, 200), true, true));
        number += 1;
        wire.confirms(23);
        // Three of four orders are settled at once.
        take(&mut wire, 2, "orders", 8);
        if round == 8 {
            let mut arguments = Writer::new();
            arguments.put_short(0).put_short_string("gone").put_octet(0);
            wire.call(1, method::QUEUE_DELETE, &arguments, method::QUEUE_DELETE_OK);
            wire.declare(1, "gone", true);
        }
        wire.close();
    }
    // A transaction: removes one message, adds two.
    let mut tx = Wire::open(node.amqp());
    tx.call(1, method::TX_SELECT, &Writer::new(), method::TX_SELECT_OK);
    take(&mut tx, 1, "fan 1", 1);
    for queue in ["moved", "orders"] {
        number += 1;
        tx.send(&publish(1, "", queue, &body(number, 50), true, true));
    }
    tx.call(1, method::TX_COMMIT, &Writer::new(), method::TX_COMMIT_OK);
    tx.close();
    // The last batch has to be large enough for tearing.
    let mut wire = Wire::open(node.amqp());
    wire.confirm_select(1);
    number += 1;
    wire.send(&publish(1, "", "moved", &body(number, 3000), true, true));
    wire.confirms(1);
    wire.close();
}

/// Gets and acknowledges the first messages of a queue.
fn take(wire: &mut Wire, channel: u16, queue: &str, count: usize) {
    for _ in 0..count {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(queue).put_octet(0);
        let answer = wire.call(channel, method::BASIC_GET, &arguments, method::BASIC_GET_OK);
        let tag = answer.arguments().long_long();
        wire.content().expect("content");
        wire.ack(channel, tag, false);
    }
}

#[test]
#[ignore = "writes the fixtures of the present version: make fixtures"]
fn write_the_fixtures() {
    for kind in KINDS {
        let fixture = fixture(&format!("data-{}/{kind}", VERSIONS[VERSIONS.len() - 1]));
        let mut node = Node::start(small_files());
        fill(&node);
        match kind {
            "clean" => assert!(node.terminate().success()),
            _ => {
                node.kill();
                tear_last_batch(node.directory());
            }
        }
        pack(node.directory(), &fixture);
        let directory = unpack(&fixture);
        let (report, records, _) = results(directory.path());
        let record = |name: &str, text: String| fs::write(fixture.join(name), text).expect("write");
        record("verify.json", format!("{report:#}\n"));
        record("dump.txt", records);
        let node = Node::start_in(directory, small_files());
        record("queues.json", serde_json::to_string_pretty(&messages(&node.http())).expect("JSON") + "\n");
    }
}

/// Simulates a power cut: the second half of the last batch wasn't written.
fn tear_last_batch(directory: &Path) {
    let (_, records, _) = run(&["log", "dump", directory.to_str().expect("a path of text"), "--format", "json"]);
    let mut lines = records.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let last = lines.rfind(|line| line["what"] == "batch").expect("a batch");
    let (file, offset, bytes) =
        (last["file"].as_str().unwrap(), last["offset"].as_u64().unwrap(), last["bytes"].as_u64().unwrap());
    let mut content = files(directory).remove(file).expect("the file");
    let begin = usize::try_from(offset + bytes / 2).expect("a small file");
    content[begin..].fill(0);
    put(directory, file, &content);
}
