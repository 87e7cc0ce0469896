//! Priorities of classic queues (`x-max-priority`), with pika.

use leveret_tests::cell::run_pika;

/// Runs a function of `clients/pika/priorities.py`.
fn pika(name: &'static str) {
    run_pika("priorities.py", name, "priorities of classic queues");
}

#[test]
fn priorities_are_strict_and_returns_keep_their_places() {
    pika("order");
}

#[test]
fn a_consumer_gets_an_urgent_message_before_older_ones() {
    pika("consumers");
}

#[test]
fn priorities_survive_a_kill() {
    pika("restart");
}

#[test]
fn a_clean_stop_keeps_which_messages_were_delivered() {
    pika("clean_stop");
}

#[test]
fn limits_expiry_dead_letters_and_purges_work_with_priorities() {
    pika("limits");
}

#[test]
fn a_listing_shows_the_messages_of_each_priority() {
    pika("listing");
}
