//! Messages that reach no queue.

use leveret_tests::wire::{Wire, method, publish};
use serde_json::json;

use crate::stage::{Staged, pause};

#[test]
fn an_exchange_without_bindings_is_told() {
    let mut stage = Staged::new();
    stage.put("exchanges/%2F/nowhere", json!({"type": "topic"}));
    let said = " messages a second come, and none reaches a queue: it has no binding. They are dropped";
    let reason = stage.says_while("exchanges/%2F/nowhere", "unroutable", said, |wire| {
        wire.send(&publish(1, "nowhere", "a.key", b"lost", false, true));
        pause();
    });
    assert_eq!((&reason["severity"], &reason["short"]), (&json!("bad"), &json!("reaches no queue")));
    stage.ends();
}

#[test]
fn bindings_that_do_not_match_are_told() {
    let mut stage = Staged::new();
    stage.put("exchanges/%2F/orders", json!({"type": "direct"}));
    stage.queue("q", json!({}));
    let bound = stage.http().post("/api/bindings/%2F/e/orders/q/q", &json!({"routing_key": "paid"}));
    assert_eq!(bound.expect("an answer").status, 201);
    let said = "and none reaches a queue: its binding does not match.";
    stage.says_while("exchanges/%2F/orders", "unroutable", said, |wire| {
        wire.send(&publish(1, "orders", "piad", b"lost", false, true));
        pause();
    });
    stage.ends();
}

#[test]
fn a_way_that_ends_at_another_exchange_is_told() {
    let mut stage = Staged::new();
    for name in ["first", "second"] {
        stage.put(&format!("exchanges/%2F/{name}"), json!({"type": "topic"}));
    }
    let bound = stage.http().post("/api/bindings/%2F/e/first/e/second", &json!({"routing_key": "#"}));
    assert_eq!(bound.expect("an answer").status, 201);
    let lose = |wire: &mut Wire| {
        wire.send(&publish(1, "first", "a.key", b"lost", false, true));
        pause();
    };
    let said = "and none reaches a queue: its binding does not lead to a queue.";
    stage.says_while("exchanges/%2F/first", "unroutable", said, lose);
    stage.queue("q", json!({}));
    let bound = stage.http().post("/api/bindings/%2F/e/second/q/q", &json!({"routing_key": "another.key"}));
    assert_eq!(bound.expect("an answer").status, 201);
    let said = "and none reaches a queue: its binding does not lead them to a queue.";
    stage.says_while("exchanges/%2F/first", "unroutable", said, lose);
    stage.ends();
}

#[test]
fn an_alternate_exchange_that_helps_nobody_is_told() {
    let mut stage = Staged::new();
    let policy = json!({"pattern": "^orders$", "definition": {"alternate-exchange": "rest"}, "apply-to": "exchanges"});
    stage.put("policies/%2F/rest", policy);
    stage.put("exchanges/%2F/orders", json!({"type": "topic"}));
    let lose = |wire: &mut Wire| {
        wire.send(&publish(1, "orders", "a.key", b"lost", false, true));
        pause();
    };
    let said = "it has no binding, and its alternate exchange rest does not exist. They are dropped";
    stage.says_while("exchanges/%2F/orders", "unroutable", said, lose);
    stage.put("exchanges/%2F/rest", json!({"type": "fanout"}));
    let said = "it has no binding, and its alternate exchange rest leads to none either. They are dropped";
    stage.says_while("exchanges/%2F/orders", "unroutable", said, lose);
    stage.ends();
}

#[test]
fn messages_that_go_back_to_their_publishers_are_told() {
    let mut stage = Staged::new();
    stage.put("exchanges/%2F/nowhere", json!({"type": "fanout"}));
    let said = "They are returned to their publishers, which asked for that (mandatory).";
    let reason = stage.says_while("exchanges/%2F/nowhere", "returned", said, |wire| {
        wire.send(&publish(1, "nowhere", "", b"back", true, true));
        wire.next_method(method::BASIC_RETURN).expect("a return");
        wire.content().expect("its content");
        pause();
    });
    assert_eq!(reason["severity"], "note");
    stage.ends();
}

#[test]
fn a_routing_key_that_names_no_queue_is_told() {
    let mut stage = Staged::new();
    let said = "and none reaches a queue: no queue has the name of their routing key.";
    stage.says_while("exchanges/%2F/amq.default", "unroutable", said, |wire| {
        wire.send(&publish(1, "", "queue.of.yesterday", b"lost", false, true));
        pause();
    });
    stage.ends();
}
