//! Exchanges that keep their last messages for queues that are bound later, with pika.

use leveret_tests::cell::run_pika;

/// Runs a function of `clients/pika/history.py`.
fn pika(name: &'static str) {
    run_pika("history.py", name, "recent history exchanges");
}

#[test]
fn each_binding_gets_the_last_messages() {
    pika("bindings");
}

#[test]
fn confirmed_messages_are_kept_through_kills() {
    pika("kills");
}

#[test]
fn declarations_are_refused_as_by_the_plugin() {
    pika("refusals");
}

#[test]
fn kept_messages_are_shown_purged_and_go_with_the_exchange() {
    pika("management");
}

#[test]
fn publishes_without_confirms_are_seen_by_what_follows() {
    pika("unconfirmed");
}

#[test]
fn large_messages_are_kept_too() {
    pika("large");
}
