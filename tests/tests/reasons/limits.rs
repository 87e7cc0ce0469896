//! Length limits, delivery limits and delays.

use leveret_tests::wire::publish;
use serde_json::json;

use crate::stage::{Staged, nack, pause, reject};

const QUEUE: &str = "queues/%2F/q";

/// Publishes beyond a limit of three messages until the sentence is there.
fn drops(stage: &mut Staged, text: &str) {
    stage.publish("q", 5);
    let reason = stage.says_while(QUEUE, "dropping", text, |wire| {
        wire.send(&publish(1, "", "q", b"more", false, true));
        wire.confirms(1);
        pause();
    });
    assert_eq!(reason["severity"], "bad");
}

#[test]
fn a_limit_of_the_queue_that_drops_is_told() {
    let mut stage = Staged::new();
    stage.queue("q", json!({"x-max-length": 3}));
    drops(&mut stage, "limit of 3 messages (argument of the queue), and its oldest messages are dropped: ");
    stage.ends();
}

#[test]
fn a_limit_of_a_policy_that_drops_is_told_by_its_name() {
    let mut stage = Staged::new();
    stage.put("policies/%2F/short", json!({"pattern": "^q$", "definition": {"max-length": 3}, "apply-to": "queues"}));
    stage.queue("q", json!({}));
    drops(&mut stage, "limit of 3 messages (policy short), and its oldest messages are dropped");
    stage.ends();
}

#[test]
fn a_limit_of_an_operator_policy_is_told_by_its_name() {
    let mut stage = Staged::new();
    let ceiling = json!({"pattern": "^q$", "definition": {"max-length": 3}, "apply-to": "queues"});
    stage.put("operator-policies/%2F/ceiling", ceiling);
    stage.queue("q", json!({"x-max-length": 100}));
    drops(&mut stage, "limit of 3 messages (operator policy ceiling), and its oldest messages are dropped");
    stage.ends();
}

#[test]
fn a_limit_that_refuses_publishes_is_told() {
    let mut stage = Staged::new();
    stage.queue("q", json!({"x-max-length": 3, "x-overflow": "reject-publish"}));
    for _ in 0..5 {
        stage.wire.send(&publish(1, "", "q", b"message", false, true));
    }
    let said = "limit of 3 messages (argument of the queue), and refuses what is published.";
    let reason = stage.says(QUEUE, "full", said);
    assert_eq!(
        (&reason["severity"], &reason["advice"]),
        (&json!("bad"), &json!("Let consumers catch up, or raise the limit."))
    );
    stage.ends();
}

#[test]
fn a_limit_of_bytes_that_refuses_publishes_is_told() {
    let mut stage = Staged::new();
    stage.queue("q", json!({"x-max-length-bytes": 2048, "x-overflow": "reject-publish"}));
    for _ in 0..5 {
        stage.wire.send(&publish(1, "", "q", &[0; 1000], false, true));
    }
    stage.says(QUEUE, "full", "limit of 2.00 KiB (argument of the queue), and refuses what is published.");
    stage.ends();
}

#[test]
fn messages_at_their_delivery_limit_are_told() {
    let mut stage = Staged::new();
    stage.queue("q", json!({"x-queue-type": "quorum", "x-delivery-limit": 1}));
    stage.publish("q", 1);
    let [tag] = stage.consume("q", 1, 1)[..] else { panic!("one delivery") };
    reject(&mut stage.wire, tag, true);
    let (tag, ..) = stage.wire.delivery();
    reject(&mut stage.wire, tag, true);
    let reason = stage.says(QUEUE, "parked", "1 message reached its delivery limit and is kept aside.");
    assert_eq!(reason["parts"][0]["to"]["tab"], "parked");
    stage.ends();
}

#[test]
fn returned_messages_that_wait_are_told_as_ordinary() {
    let mut stage = Staged::new();
    let arguments = json!({
        "x-queue-type": "quorum", "x-delayed-retry-type": "all", "x-delayed-retry-min": 600_000, "x-delayed-retry-max": 600_000,
    });
    stage.queue("q", arguments);
    stage.publish("q", 1);
    let [tag] = stage.consume("q", 1, 1)[..] else { panic!("one delivery") };
    nack(&mut stage.wire, tag, true);
    let reason = stage.says(QUEUE, "delayed", "1 message came back from a consumer and waits for a time");
    assert_eq!(reason["severity"], "note");
    stage.ends();
}
