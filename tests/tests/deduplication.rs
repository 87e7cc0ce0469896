//! Queues and exchanges that drop duplicates, with pika.

use leveret_tests::cell::run_pika;

/// Runs a function of `clients/pika/deduplication.py`.
fn pika(name: &'static str) {
    run_pika("deduplication.py", name, "deduplication");
}

#[test]
fn a_queue_drops_what_it_has_had() {
    pika("queues");
}

#[test]
fn an_exchange_drops_what_it_has_had() {
    pika("exchanges");
}

#[test]
fn retries_after_kills_give_one_copy() {
    pika("kills");
}

#[test]
fn wrong_arguments_are_refused() {
    pika("refusals");
}
