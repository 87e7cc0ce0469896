//! Queues that wait to retry, dead letters that come back, and dead letters that are lost.

use serde_json::json;

use crate::stage::{Staged, nack};

const LATER: u64 = 600_000;

#[test]
fn a_queue_that_waits_to_retry_is_no_abandoned_one() {
    let mut stage = Staged::new();
    stage.queue("work", json!({}));
    let back = json!({"x-message-ttl": LATER, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"});
    stage.queue("work.retry", back);
    stage.publish("work.retry", 20);
    let said = "20 ready messages. It has no consumer on purpose: after 10 min 0 s a message goes on to work.";
    let reason = stage.says("queues/%2F/work.retry", "waits_to_retry", said);
    assert_eq!((&reason["severity"], &reason["advice"]), (&json!("note"), &json!("")));
    assert_eq!(reason["parts"][1]["to"], json!({"kind": "queue", "vhost": "/", "name": "work"}));
    assert_eq!(stage.codes("queues/%2F/work.retry"), ["waits_to_retry"]);
    stage.ends();
}

#[test]
fn a_queue_that_waits_for_several_queues_names_their_exchange() {
    let mut stage = Staged::new();
    stage.put("exchanges/%2F/again", json!({"type": "fanout"}));
    for name in ["one", "two"] {
        stage.queue(name, json!({}));
        let bound = stage.http().post(&format!("/api/bindings/%2F/e/again/q/{name}"), &json!({})).expect("an answer");
        assert_eq!(bound.status, 201);
    }
    stage.queue("later", json!({"x-message-ttl": LATER, "x-dead-letter-exchange": "again"}));
    stage.publish("later", 1);
    stage.says("queues/%2F/later", "waits_to_retry", "after 10 min 0 s a message goes on to exchange again.");
    stage.ends();
}

#[test]
fn messages_that_expire_unread_are_told() {
    let mut stage = Staged::new();
    stage.queue("q", json!({"x-message-ttl": LATER}));
    stage.publish("q", 2);
    let said = "2 ready messages, and no consumer: a message that nobody takes within 10 min 0 s is deleted";
    stage.says("queues/%2F/q", "expiring", said);
    assert_eq!(stage.codes("queues/%2F/q"), ["expiring"]);
    stage.ends();
}

#[test]
fn dead_letters_that_come_back_for_ever_are_told() {
    let mut stage = Staged::new();
    stage.queue("work", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work.retry"}));
    let back = json!({"x-message-ttl": 30, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"});
    stage.queue("work.retry", back);
    stage.publish("work", 4);
    stage.consume("work", 10, 0);
    let said =
        "Its messages are rejected and come back again and again by way of work.retry; hardly any is acknowledged: ";
    let reason = stage.says_while("queues/%2F/work", "dead_letter_loop", said, |wire| {
        let (tag, ..) = wire.delivery();
        nack(wire, tag, false);
    });
    assert_eq!(reason["severity"], "bad");
    assert!(!stage.codes("queues/%2F/work.retry").contains(&"no_consumers".to_owned()));
}

#[test]
fn a_dead_letter_exchange_that_does_not_exist_is_told() {
    let mut stage = Staged::new();
    stage.queue("q", json!({"x-dead-letter-exchange": "nowhere"}));
    stage.publish("q", 1);
    let said = "Messages that die here are lost: their dead-letter exchange nowhere does not exist.";
    stage.says("queues/%2F/q", "dead_letters_lost", said);
    stage.ends();
}

#[test]
fn a_dead_letter_exchange_without_a_matching_binding_is_told() {
    let mut stage = Staged::new();
    stage.put("exchanges/%2F/dead", json!({"type": "direct"}));
    stage.queue("letters", json!({}));
    let bound = stage.http().post("/api/bindings/%2F/e/dead/q/letters", &json!({"routing_key": "other"}));
    assert_eq!(bound.expect("an answer").status, 201);
    stage.queue("q", json!({"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "mine"}));
    stage.publish("q", 1);
    let said = "their dead-letter exchange dead leads to no queue with their routing key.";
    stage.says("queues/%2F/q", "dead_letters_lost", said);
    let bound = stage.http().post("/api/bindings/%2F/e/dead/q/letters", &json!({"routing_key": "mine"}));
    assert_eq!(bound.expect("an answer").status, 201);
    assert_eq!(stage.codes("queues/%2F/q"), ["no_consumers"]);
    stage.ends();
}

#[test]
fn a_dead_letter_queue_that_is_gone_is_told() {
    let mut stage = Staged::new();
    stage.queue("q", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "gone"}));
    stage.publish("q", 1);
    let said = "their dead-letter exchange (AMQP default) leads to no queue with their routing key.";
    stage.says("queues/%2F/q", "dead_letters_lost", said);
    stage.ends();
}
