//! The broker's own exchanges for events and log lines, and traces in files, with pika.

use std::process::Command;

use leveret_tests::broker::is_given;
use leveret_tests::cell::{Transport, clients, run_with};
use leveret_tests::node::{Node, Options};
use leveret_tests::table::Scenario;

/// Runs a function of `clients/pika/events.py` against a node with both exchanges.
fn pika(name: &'static str) {
    if is_given() {
        return;
    }
    let mut command = Command::new(clients().join(".installed/venv/bin/python"));
    command.arg(clients().join("pika/events.py"));
    let scenario = Scenario::new(name, "the broker's own exchanges").leveret_only();
    let settings = [("event_exchange.protocol", "amqp_0_9_1"), ("log.exchange", "true")];
    run_with(command, &scenario, Transport::Plain, &settings).unwrap_or_else(|reason| panic!("{reason}"));
}

#[test]
fn changes_of_queues_exchanges_and_bindings_are_events() {
    pika("topology");
}

#[test]
fn logins_connections_channels_and_consumers_are_events() {
    pika("clients");
}

#[test]
fn changes_by_administrators_are_events() {
    pika("administration");
}

#[test]
fn queues_with_other_policies_are_events() {
    pika("queue_policies");
}

#[test]
fn an_alarm_and_its_end_are_events() {
    pika("alarms");
}

#[test]
fn clients_neither_publish_events_nor_delete_their_exchange() {
    pika("refused");
}

#[test]
fn events_come_again_after_a_restart() {
    pika("restart");
}

#[test]
fn log_lines_are_published_by_their_level_and_do_not_loop() {
    pika("lines");
}

#[test]
fn traces_are_written_to_files_and_listed() {
    pika("traces");
}

#[test]
fn a_trace_ends_with_its_vhost() {
    pika("trace_of_a_deleted_vhost");
}

#[test]
fn without_their_settings_the_exchanges_are_not_there() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    for name in ["amq.rabbitmq.event", "amq.rabbitmq.log"] {
        let answer = node.http().get(&format!("/api/exchanges/%2F/{name}")).expect("an answer");
        assert_eq!(answer.status, 404, "{name}");
    }
}
