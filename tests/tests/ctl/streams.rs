//! Streams and super streams on the command line.

use leveret_tests::amqp10::Amqp10;
use leveret_tests::node::{Node, Options};
use serde_json::{Value, json};

use crate::effects::{exit, well};

fn declare(node: &Node, queue: &str, kind: &str) {
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
    for command in [
        "list_stream_connections",
        "list_stream_consumers",
        "list_stream_publishers",
        "list_stream_consumer_groups",
        "list_stream_group_consumers",
    ] {
        let said = well(&node, &format!("rabbitmq-streams {command}"));
        assert!(said.contains("the stream protocol isn't spoken yet"), "{said}");
    }
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
        ("rabbitmq-streams restart_stream log", 64, "isn't there yet: "),
        ("rabbitmq-streams add_replica log other@host", 64, "isn't there yet: "),
        ("rabbitmq-streams coordinator_status", 64, "isn't there yet: "),
    ] {
        let said = exit(&node, line);
        assert!(said.exit == code && said.stderr.contains(text), "{line}: {said:?}");
    }
}
