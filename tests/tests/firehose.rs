//! The firehose with pika: copies of a vhost's messages on amq.rabbitmq.trace.

use leveret_tests::cell::run_pika;

/// Runs a function of `clients/pika/firehose.py`.
fn pika(name: &'static str) {
    run_pika("firehose.py", name, "the firehose");
}

#[test]
fn traces_have_all_of_a_message_and_of_its_way() {
    pika("whole");
}

#[test]
fn bindings_pick_exchanges_and_queues() {
    pika("keys");
}

#[test]
fn each_vhost_is_traced_by_itself() {
    pika("vhosts");
}

#[test]
fn nothing_is_traced_after_a_restart() {
    pika("restart");
}

#[test]
fn large_bodies_are_traced_when_they_are_published() {
    pika("large");
}

#[test]
fn messages_over_http_are_traced() {
    pika("http_api");
}
