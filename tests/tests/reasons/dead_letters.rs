//! Queues that wait to retry, dead letters that come back, and dead letters that are lost.

use leveret_tests::wire::{Wire, publish};
use serde_json::json;

use crate::stage::{Staged, nack, pause, reject};

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
fn messages_that_each_wait_to_retry_are_not_abandoned() {
    let mut stage = Staged::new();
    stage.queue("work", json!({}));
    stage.queue("later", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}));
    stage.queue("short-lived", json!({}));
    for queue in ["later", "later", "short-lived"] {
        stage.put_message(queue, json!({"delivery_mode": 2, "expiration": LATER.to_string()}));
    }
    let said = "It has no consumer on purpose: at the end of its own time to live a message goes on to work.";
    stage.says("queues/%2F/later", "waits_to_retry", said);
    let said = "a message that nobody takes before the end of its own time to live is deleted";
    stage.says("queues/%2F/short-lived", "expiring", said);
    // A message that stays for ever needs a consumer.
    stage.publish("later", 1);
    stage.says("queues/%2F/later", "no_consumers", "3 ready messages, and no consumer to take them.");
    stage.ends();
}

#[test]
fn a_circle_in_which_nobody_rejects_is_told() {
    let mut stage = Staged::new();
    for (name, next) in [("a", "b"), ("b", "a"), ("own", "own")] {
        let to = json!({"x-message-ttl": LATER, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": next});
        stage.queue(name, to);
        stage.publish(name, 1);
    }
    let said = "a message that nobody takes within 10 min 0 s goes on to b, and is deleted where it would come back:";
    let reason = stage.says("queues/%2F/a", "expiring", said);
    assert_eq!(reason["severity"], "warn");
    let said = "is deleted, since its dead-letter exchange leads back to this queue:";
    stage.says("queues/%2F/own", "expiring", said);
    // Its consumer may reject messages.
    stage.wire.consume(1, "b", false);
    stage.says("queues/%2F/a", "waits_to_retry", "after 10 min 0 s a message goes on to b.");
    stage.ends();
}

#[test]
fn expired_messages_that_come_back_are_not_called_rejected() {
    let mut stage = Staged::new();
    for (name, next, ttl) in [("a", "b", 1), ("b", "a", LATER)] {
        let to = json!({"x-message-ttl": ttl, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": next});
        stage.queue(name, to);
    }
    stage.publish("a", 20);
    stage.says("queues/%2F/b", "expiring", "20 ready messages, and no consumer");
    assert_eq!(stage.codes("queues/%2F/a"), [""; 0]);
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
fn a_loop_of_rejections_is_told_while_messages_are_under_way() {
    let mut stage = Staged::new();
    for (name, next) in [("one", "two"), ("two", "one")] {
        stage.queue(name, json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": next}));
    }
    for queue in ["one", "two"] {
        stage.consume(queue, 1, 0);
    }
    stage.wire.send(&publish(1, "", "one", b"message", false, true));
    let said = "Its messages are rejected and come back again and again by way of two;";
    stage.says_while("queues/%2F/one", "dead_letter_loop", said, |wire| {
        let (tag, ..) = wire.delivery();
        reject(wire, tag, false);
        pause();
    });
    assert!(!stage.codes("queues/%2F/one").contains(&"redelivery_loop".to_owned()));
}

#[test]
fn dead_letters_that_leave_are_no_loop_of_deliveries() {
    let mut stage = Staged::new();
    stage.queue("work", json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}));
    stage.queue("dead", json!({}));
    stage.consume("work", 10, 0);
    let mut reader = Wire::open(stage.node.amqp());
    reader.consume(1, "dead", true);
    // Each is flagged as delivered before, and taken with automatic acknowledgement: more than ten in five seconds.
    for _ in 0..50 {
        stage.wire.send(&publish(1, "", "work", b"bad", false, true));
        let (tag, ..) = stage.wire.delivery();
        reject(&mut stage.wire, tag, false);
        let (_, is_redelivered, _) = reader.delivery();
        assert!(is_redelivered);
        assert!(!stage.codes("queues/%2F/dead").contains(&"redelivery_loop".to_owned()));
    }
    stage.ends();
}

#[test]
fn a_dead_letter_queue_that_refuses_is_told() {
    let mut stage = Staged::new();
    stage.queue("dead", json!({"x-max-length": 1, "x-overflow": "reject-publish"}));
    stage.publish("dead", 1);
    let to_dead = json!({"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"});
    let mut kept = to_dead.clone();
    for (key, value) in
        [("x-queue-type", "quorum"), ("x-dead-letter-strategy", "at-least-once"), ("x-overflow", "reject-publish")]
    {
        kept[key] = json!(value);
    }
    stage.queue("loses", to_dead);
    stage.queue("keeps", kept);
    stage.publish("loses", 1);
    stage.publish("keeps", 2);
    let said = "Messages that die here are lost: queue dead, to which they go, takes none at the moment.";
    stage.says("queues/%2F/loses", "dead_letters_lost", said);
    stage.publish("loses", 1);
    let codes = stage.codes("queues/%2F/loses");
    assert_eq!(codes[0], "dead_letters_lost", "before what is ordinary: {codes:?}");
    let said = "2 dead letters. Queue dead, to which they go, takes none at the moment.";
    stage.says("queues/%2F/keeps", "dead_letters_wait", said);
    let emptied = stage.http().request("DELETE", "/api/queues/%2F/dead/contents", "").expect("an answer");
    assert_eq!(emptied.status, 204);
    stage.wait_until(|| !stage.codes("queues/%2F/keeps").contains(&"dead_letters_wait".to_owned()));
    stage.ends();
}

#[test]
fn a_topic_that_takes_no_dead_letter_is_told() {
    let mut stage = Staged::new();
    stage.put("exchanges/%2F/dead", json!({"type": "topic"}));
    stage.queue("letters", json!({}));
    let bound = stage.http().post("/api/bindings/%2F/e/dead/q/letters", &json!({"routing_key": "other.#"}));
    assert_eq!(bound.expect("an answer").status, 201);
    stage.queue("q", json!({"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "mine.too"}));
    stage.publish("q", 1);
    let said = "their dead-letter exchange dead leads to no queue with their routing key.";
    stage.says("queues/%2F/q", "dead_letters_lost", said);
    let bound = stage.http().post("/api/bindings/%2F/e/dead/q/letters", &json!({"routing_key": "mine.*"}));
    assert_eq!(bound.expect("an answer").status, 201);
    assert_eq!(stage.codes("queues/%2F/q"), ["no_consumers"]);
    stage.ends();
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
