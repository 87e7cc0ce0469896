//! Exchange types beyond those of AMQP 0-9-1, with pika and with AMQP 1.0.

use leveret_tests::broker::is_given;
use leveret_tests::cell::run_pika;
use leveret_tests::node::{Node, Options};
use serde_json::json;

/// Runs a function of `clients/pika/exchanges.py`.
fn pika(name: &'static str) {
    run_pika("exchanges.py", name, "exchange types");
}

#[test]
fn consistent_hashing_moves_no_more_than_a_share() {
    pika("consistent_hash");
}

#[test]
fn a_header_or_property_is_hashed_instead_of_the_key() {
    pika("hashed_values");
}

#[test]
fn a_hash_of_the_key_picks_the_same_queue_after_a_restart() {
    pika("modulus_hash");
}

#[test]
fn random_exchanges_pick_a_queue_for_each_message() {
    pika("chance");
}

#[test]
fn messages_without_a_binding_go_to_the_alternate_exchange() {
    pika("nowhere");
}

#[test]
fn types_are_listed_declared_and_imported_over_http() {
    pika("listing");
}

#[test]
fn local_random_exchanges_can_be_forbidden() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new().set("exchange_types.local_random.enabled", false));
    let http = node.http();
    let declare =
        |kind: &str| http.put(&format!("/api/exchanges/%2F/{kind}"), &json!({"type": kind})).expect("an answer");
    let refused = declare("x-local-random");
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("x-local-random exchange is disabled by configuration"), "{}", refused.body);
    assert_eq!(declare("x-random").status, 201);
}
