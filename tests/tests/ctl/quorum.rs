//! `rabbitmq-queues` on a node that is the only one: a real RabbitMQ 4.3.6 that is alone gives these answers, but where a line says
//! otherwise.

use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, publish};
use serde_json::{Value, json};

use crate::effects::{exit, well};
use crate::streams::declare;

/// A node with quorum queues `qq`, which has two messages, and `other` in a vhost of its own, and with a classic queue and a stream.
fn node() -> (Node, String) {
    let node = Node::start(Options::new());
    declare(&node, "qq", "quorum");
    declare(&node, "cc", "classic");
    declare(&node, "log", "stream");
    well(&node, "rabbitmqctl add_vhost two --default-queue-type quorum");
    well(&node, "rabbitmqctl set_permissions -p two guest .* .* .*");
    let made = node.http().put("/api/queues/two/other", &json!({"durable": true})).expect("an answer");
    assert_eq!(made.status, 201, "{}", made.body);
    let mut wire = Wire::open(node.amqp());

    wire.publish_all(2, 2, |number| publish(1, "", "qq", &[b'a' + number as u8; 70], true, true));
    wire.close();
    let name = node.http().get("/api/overview").expect("an answer").json()["node"].as_str().expect("a name").to_owned();
    (node, name)
}

#[test]
fn a_message_of_a_quorum_queue_is_shown_by_its_position() {
    let (node, _) = node();
    let body = "b".repeat(64);
    assert_eq!(
        well(&node, "rabbitmq-queues -q peek qq 2"),
        format!("keys\tvalues\nrouting_keys\tqq\nexchange\t\npayload (max 64 bytes)\t{body}\n")
    );
    let text = well(&node, "rabbitmq-queues --formatter json peek qq 2");
    let shown: Value = serde_json::from_str(&text).expect("JSON");
    let message = json!({"routing_keys": ["qq"], "exchange": "", "payload (max 64 bytes)": body});
    assert_eq!(shown, json!({"result": "ok", "message": message}));
    for (line, code, text) in [
        ("peek qq 3", 69, "Error:\nTarget queue does not have a message at that position"),
        ("peek qq 0", 64, "Error (argument validation): \"position value must be a positive integer\""),
        ("peek qq x", 64, "Error (argument validation): \"position value must be a positive integer\""),
        ("peek cc 1", 69, "Error:\nCannot peek into a classic queue"),
        ("peek none 1", 69, "Error:\nTarget queue was not found in virtual host '/'"),
        ("peek -p none qq 1", 69, "Error:\nTarget queue was not found in virtual host 'none'"),
    ] {
        let said = exit(&node, &format!("rabbitmq-queues {line}"));
        assert!(said.exit == code && said.stderr.contains(text), "{line}: {said:?}");
    }
}

#[test]
fn the_only_member_of_a_queue_stays_and_leads() {
    let (node, here) = node();
    let answers = [
        (format!("add_member qq {here}"), format!("Adding a member for queue qq on node {here}...\n")),
        // RabbitMQ writes a backslash before a name, as its nodes' are atoms.
        ("delete_member qq other@host".to_owned(), "Removing a replica of queue qq on node other@host...\n".to_owned()),
        (format!("grow {here} all"), format!("Growing all queues on {here}...\n")),
        ("grow_to_count 2 even".to_owned(), "Growing even quorum queues on 2 nodes...\n".to_owned()),
        (
            format!("shrink {here}"),
            format!(
                "Shrinking queues on {here}...\nvhost\tname\tsize\tresult\n/\tqq\t1\terror: the last node cannot be removed\n\
                 two\tother\t1\terror: the last node cannot be removed\n"
            ),
        ),
        // RabbitMQ draws a frame around these.
        (
            "rebalance quorum".to_owned(),
            format!("Re-balancing leaders of quorum queues...\nNode name\tNumber of quorum queues\n{here}\t2\n"),
        ),
        (
            "rebalance all --vhost-pattern ^/$".to_owned(),
            format!("Re-balancing leaders of all queues...\nNode name\tNumber of quorum queues\n{here}\t2\n"),
        ),
        // RabbitMQ writes {ok}.
        (
            "force_checkpoint --queue-pattern ^q".to_owned(),
            "Forcing checkpoint for all matching quorum queues...\nvhost\tname\tresult\n/\tqq\tok\n".to_owned(),
        ),
    ];
    for (line, expected) in answers {
        let said = well(&node, &format!("rabbitmq-queues {line}"));
        let lines = said.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>();
        let wanted = expected.lines().collect::<Vec<_>>();
        assert!(lines.starts_with(&wanted), "{line}: {said}");
    }
    let no_such = "Error: node other@host is not a member of the cluster";
    for (line, code, text) in [
        ("add_member qq other@host", 64, no_such),
        (&format!("add_member none {here}"), 65, "queue 'none' was not found in virtual host '/'"),
        (&format!("add_member cc {here}"), 69, "Error:\n{:unsupported, :rabbit_classic_queue}"),
        (&format!("add_member qq {here} --membership x"), 64, "\"voter status 'x' is not recognised.\""),
        (&format!("delete_member qq {here}"), 69, "Error:\nlast_node"),
        (&format!("delete_member none {here}"), 65, "queue 'none' was not found in virtual host '/'"),
        (&format!("delete_member cc {here}"), 69, "Error:\n{:unsupported, :rabbit_classic_queue}"),
        ("grow other@host all", 64, no_such),
        (&format!("grow {here} odd"), 64, "\"strategy 'odd' is not recognised.\""),
        ("grow_to_count 0 all", 64, "\"node count '0' must be greater than 0.\""),
        // RabbitMQ ends with a stack trace.
        ("grow_to_count x all", 64, "\"node count 'x' must be a number.\""),
        ("shrink other@host", 69, "Error:\n{:node_not_running, :"),
        ("rebalance classic", 69, "Error:\ntype classic is not supported. Try one of all, quorum, stream."),
        (&format!("transfer_leadership qq {here}"), 69, "Error:\nThe target node is already the leader of this queue"),
        ("transfer_leadership qq other@host", 69, "Error:\nunknown_member"),
        ("transfer_leadership none other@host", 65, "queue 'none' was not found in virtual host '/'"),
        (&format!("transfer_leadership cc {here}"), 69, "Error:\nCannot transfer leadership of a non-quorum queue"),
        ("stream_status qq", 69, "Error:\nCannot get stream status of a quorum queue"),
    ] {
        let said = exit(&node, &format!("rabbitmq-queues {line}"));
        assert!(said.exit == code && said.stderr.contains(text), "{line}: {said:?}");
    }
    for line in [
        "quorum_status qq",
        "reclaim_quorum_memory qq",
        "check_if_node_is_quorum_critical",
        "check_if_new_quorum_queue_replicas_have_finished_initial_sync",
        "check_if_node_is_mirror_sync_critical",
        "stream_status log",
    ] {
        well(&node, &format!("rabbitmq-queues {line}"));
    }
}
