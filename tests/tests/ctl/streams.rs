//! Streams and super streams on the command line.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use leveret_tests::amqp10::Amqp10;
use leveret_tests::node::{Node, Options};
use serde_json::{Value, json};

use crate::effects::{exit, well};

pub(crate) fn declare(node: &Node, queue: &str, kind: &str) {
    let body = json!({"durable": true, "arguments": {"x-queue-type": kind}});
    let answer = node.http().put(&format!("/api/queues/%2F/{queue}"), &body).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
}

#[test]
fn a_stream_is_shown_by_the_tools() {
    let node = Node::start(Options::new());
    declare(&node, "log", "stream");
    let columns = "role epoch offset committed_offset committed_chunk_id first_offset readers segments";
    let shown = || {
        let text = well(&node, "rabbitmq-streams --formatter json stream_status log");
        let [row] = serde_json::from_str::<Vec<Value>>(&text).expect("JSON").try_into().expect("one member");
        columns.split(' ').map(|column| row[column].clone()).collect::<Vec<Value>>()
    };
    let row = |offset: i64, segments: u64| {
        vec![
            json!("writer"),
            json!(1),
            json!(offset),
            json!(offset),
            json!(offset),
            json!(0),
            json!(0),
            json!(segments),
        ]
    };
    assert_eq!(shown(), row(-1, 0));
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, "/queues/log");
    (0..3).for_each(|_| client.publish_accepted(0, b"message"));
    client.close();
    assert_eq!(shown(), row(2, 1));
    let status = well(&node, "rabbitmq-diagnostics stream_status log");
    assert!(status.starts_with("Status of stream log on node ") && status.contains("committed_chunk_id"), "{status}");
    let listed = well(&node, "rabbitmqctl -s list_queues name type messages messages_ready_ram");
    assert_eq!(listed, "log\tstream\t3\t\n");
    assert_eq!(
        well(&node, "rabbitmq-streams list_stream_tracking log --all"),
        "Listing tracking information for stream log ...\n"
    );
    well(&node, "rabbitmq-streams stream_status log --tracking");
}

/// Users of the stream protocol with Python's sockets: prints a line when all is done, and ends with its standard input.
const CLIENT: &str = r#"
import sys
sys.path.insert(0, sys.argv[1])
from stream_wire import Connection, message
def connect(name):
    client = Connection(int(sys.argv[2]), [], 1)
    client.call("peer_properties", properties={"connection_name": name}); client.call("sasl_handshake")
    client.send("sasl_authenticate", mechanism="PLAIN", response="\0guest\0guest"); client.until("sasl_authenticate")
    client.until("tune"); client.send("tune", frame_max=1 << 20, heartbeat=0)
    client.call("open", vhost="/")
    return client
def join(client, id):
    client.call("subscribe", id=id, stream="log", start="first", credit=1, properties={"single-active-consumer": "true", "name": "grp"})
first, second = connect("first"), connect("second")
first.call("create", stream="log", arguments={}); first.call("declare_publisher", id=1, reference="ref", stream="log")
first.publish(1, *[message(id, b"hello") for id in range(1, 6)]); first.confirmed(5)
first.call("subscribe", id=7, stream="log", start="first", credit=10, properties={"name": "app"}); first.delivered(5)
first.send("store_offset", reference="app", stream="log", offset=4); first.barrier()
join(first, 10); first.until("consumer_update")
first.send("consumer_updated", correlation=first.asked, code=1, start="first"); first.delivered(5)
join(second, 11)
print(first.socket.getsockname()[1], second.socket.getsockname()[1], flush=True)
sys.stdin.read()
"#;

#[test]
fn clients_of_the_stream_protocol_are_listed_and_steered() {
    let node = Node::start(Options::new());
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/golden");
    let port = node.ports().stream.to_string();
    let mut client = Command::new("python3")
        .args(["-c", CLIENT, golden, &port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut line = String::new();
    BufReader::new(client.stdout.as_mut().expect("is piped")).read_line(&mut line).expect("a line");
    let names: Vec<String> =
        line.split_whitespace().map(|own| format!("127.0.0.1:{own} -> 127.0.0.1:{port}")).collect();
    let [first, second] = &names[..] else { panic!("the client failed: {line}") };
    let quiet = |command: &str| well(&node, &format!("rabbitmq-streams -s {command}"));
    assert_eq!(quiet("list_stream_publishers"), "1\tlog\tref\t5\t5\t0\n");
    let shown = "subscription_id stream messages_consumed offset offset_lag credits active activity_status";
    assert_eq!(
        quiet(&format!("list_stream_consumers {shown}")),
        "7\tlog\t5\t4\t0\t9\ttrue\tup\n10\tlog\t5\t4\t0\t0\ttrue\tsingle_active\n\
         11\tlog\t0\t0\t0\t1\tfalse\twaiting\n"
    );
    let mut connections = vec![format!("{first}\t2\t0\n"), format!("{second}\t1\t0\n")];
    connections.sort();
    let listed = quiet("list_stream_connections conn_name subscriptions heartbeat");
    let mut listed: Vec<_> = listed.split_inclusive('\n').map(str::to_owned).collect();
    listed.sort();
    assert_eq!(listed, connections);
    assert!(quiet("list_stream_connections --verbose").contains("PLAIN"));
    assert_eq!(quiet("list_stream_consumer_groups"), "log\tgrp\t-1\t2\n");
    assert_eq!(
        quiet("list_stream_group_consumers --stream log --reference grp"),
        format!("10\t{first}\tactive (connected)\n11\t{second}\twaiting (connected)\n")
    );
    assert_eq!(quiet("list_stream_tracking log --all"), "writer\tref\t5\noffset\tapp\t4\n");
    assert_eq!(quiet("list_stream_tracking log --writer"), "writer\tref\t5\n");
    assert_eq!(quiet("reset_offset --stream log --reference app"), "Done\n");
    assert_eq!(quiet("list_stream_tracking log --offset"), "offset\tapp\t0\n");
    assert_eq!(quiet("activate_stream_consumer --stream log --reference grp"), "OK\n");
    for (line, code, text) in [
        (
            "reset_offset --stream log --reference none",
            69,
            "Error:\nThere is no stored offset for this reference, no need to reset",
        ),
        ("reset_offset --stream none --reference none", 69, "Error:\nThe stream does not exist"),
        ("reset_offset --stream log", 64, "not enough arguments"),
        ("activate_stream_consumer --stream log --reference none", 69, "Error:\nThe group does not exist"),
        ("list_stream_group_consumers --stream log --reference none", 69, "Error:\nThe group does not exist"),
        ("list_stream_group_consumers --stream log", 64, "not enough arguments"),
        ("list_stream_tracking log --writer --offset", 64, "Specify only one of --all, --offset, --writer."),
        ("list_stream_consumers nonsense", 64, "Info key(s) nonsense are not supported"),
    ] {
        let said = exit(&node, &format!("rabbitmq-streams {line}"));
        assert!(said.exit == code && said.stderr.contains(text), "{line}: {said:?}");
    }
    drop(client.stdin.take());
    assert!(client.wait().expect("ends").success());
}

#[test]
fn a_super_stream_is_added_and_deleted() {
    let node = Node::start(Options::new());
    let names = || well(&node, "rabbitmqctl -s list_queues name type");
    assert_eq!(
        well(&node, "rabbitmq-streams add_super_stream sup"),
        "Adding a super stream...\nSuper stream sup has been created\n"
    );
    assert_eq!(names(), "sup-0\tstream\nsup-1\tstream\nsup-2\tstream\n");
    let bindings = well(&node, "rabbitmqctl -s list_bindings source_name destination_name routing_key arguments");
    assert!(bindings.contains("sup\tsup-2\t2\t[{\"x-stream-partition-order\",2}]\n"), "{bindings}");
    let options = "--max-length-bytes 20gb --max-age PT10M30S --stream-max-segment-size-bytes 1mb --leader-locator \
                   client-local --initial-cluster-size 1";
    well(&node, &format!("rabbitmq-streams add_super_stream keyed --binding-keys emea,apac {options}"));
    let stream = node.http().get("/api/queues/%2F/keyed-apac").expect("an answer").json();
    assert_eq!(
        stream["arguments"],
        json!({
            "x-initial-cluster-size": 1,
            "x-max-age": "630s",
            "x-max-length-bytes": 20_000_000_000u64,
            "x-queue-leader-locator": "client-local",
            "x-queue-type": "stream",
            "x-stream-max-segment-size-bytes": 1_000_000,
        })
    );
    assert_eq!(
        well(&node, "rabbitmq-streams delete_super_stream sup"),
        "Deleting a super stream...\nSuper stream sup has been deleted\n"
    );
    well(&node, "rabbitmq-streams delete_super_stream keyed");
    assert_eq!(names(), "");
}

#[test]
fn wrong_commands_for_streams_are_refused() {
    let node = Node::start(Options::new());
    declare(&node, "log", "stream");
    declare(&node, "queue", "classic");
    well(&node, "rabbitmq-streams add_super_stream sup --partitions 1");
    for (line, code, text) in [
        ("rabbitmqctl purge_queue log", 69, "Error:\nnot_supported"),
        ("rabbitmq-streams stream_status none", 65, "Object (queue, stream, exchange, etc) was not found"),
        ("rabbitmq-streams stream_status queue", 69, "Error:\nCannot get stream status of a classic queue"),
        ("rabbitmq-streams list_stream_tracking none", 69, "Error:\nThe stream does not exist."),
        ("rabbitmq-streams list_stream_tracking queue", 69, "Error:\nThe stream does not exist."),
        ("rabbitmq-streams add_super_stream sup", 70, "there is already an exchange named sup"),
        ("rabbitmq-streams add_super_stream a --partitions 0", 64, "The partition number must be greater than 0"),
        ("rabbitmq-streams add_super_stream a --partitions x", 64, "Invalid value for --partitions"),
        ("rabbitmq-streams add_super_stream a --partitions 1 --binding-keys b", 64, "not both"),
        ("rabbitmq-streams add_super_stream a --max-age 1h", 64, "Invalid value for --max-age"),
        ("rabbitmq-streams add_super_stream a --max-length-bytes 1x", 64, "Invalid value for --max-length-bytes"),
        ("rabbitmq-streams add_super_stream a --leader-locator x", 64, "Invalid value for --leader-locator"),
        (
            "rabbitmq-streams add_super_stream a --initial-cluster-size 0",
            64,
            "Invalid value for --initial-cluster-size",
        ),
        ("rabbitmq-streams delete_super_stream none", 70, "Error:\nstream_not_found"),
        ("rabbitmq-streams delete_super_stream amq.direct", 70, "is no super stream"),
        ("rabbitmq-streams restart_stream queue", 69, "{:not_supported_for_type, :rabbit_classic_queue}"),
        ("rabbitmq-streams restart_stream none", 65, "Object (queue, stream, exchange, etc) was not found"),
        ("rabbitmq-streams add_replica log other@host", 64, "isn't there yet: "),
        ("rabbitmq-streams coordinator_status", 64, "isn't there yet: "),
    ] {
        let said = exit(&node, line);
        assert!(said.exit == code && said.stderr.contains(text), "{line}: {said:?}");
    }
}
