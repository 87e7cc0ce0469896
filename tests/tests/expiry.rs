//! Messages and queues are removed when they expire, without any client activity.

use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::broker::{Broker, is_given};
use leveret_tests::http::Http;
use leveret_tests::wire::{Wire, Writer, method, publish, publish_expiring};

fn declare(wire: &mut Wire, queue: &str, table: &[(&str, i32)]) {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(queue).put_octet(0b10).put_number_table(table);
    wire.call(1, method::QUEUE_DECLARE, &arguments, method::QUEUE_DECLARE_OK);
}

/// Ready and expired messages, `None` if the queue is gone.
fn counts(http: &Http, queue: &str) -> Option<(u64, u64)> {
    let answer = http.get(&format!("/api/queues/%2F/{queue}")).expect("an answer");
    if answer.status == 404 {
        return None;
    }
    let json = answer.json();
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    Some((number(&json["messages_ready"]), number(&json["conservation"]["expired"])))
}

/// Time after `begin` until the queue showed this.
fn shows(http: &Http, queue: &str, wanted: Option<(u64, u64)>, begin: Instant) -> Duration {
    loop {
        let found = counts(http, queue);
        if found == wanted {
            return begin.elapsed();
        }
        assert!(begin.elapsed() < PATIENCE, "{found:?} instead of {wanted:?}");
        // No client may touch the queue meanwhile; over HTTP it can only be polled.
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_short_ttl_behind_a_long_one_expires_in_time() {
    const QUEUE: &str = "cell.expiry.own";
    if is_given() {
        // RabbitMQ lets messages expire at the head only.
        return;
    }
    let broker = Broker::start();
    let mut wire = Wire::open(broker.amqp());
    wire.declare(1, QUEUE, true);
    wire.confirm_select(1);
    let begin = Instant::now();
    wire.send(&publish(1, "", QUEUE, b"stays", true, false));
    wire.send(&publish_expiring(1, QUEUE, b"goes", 700));
    wire.confirms(2);
    let gone = shows(&broker.http(), QUEUE, Some((1, 1)), begin);
    assert!(gone >= Duration::from_millis(700), "early: {gone:?}");
    wire.consume(1, QUEUE, true);
    assert_eq!(wire.delivery().2, b"stays");
    drop(wire);
    broker.finish("cell.expiry.own");
}

#[test]
fn the_ttl_of_a_queue_applies_to_all_its_messages() {
    const QUEUE: &str = "cell.expiry.all";
    if is_given() {
        return;
    }
    let broker = Broker::start();
    let mut wire = Wire::open(broker.amqp());
    declare(&mut wire, QUEUE, &[("x-message-ttl", 600)]);
    wire.confirm_select(1);
    let begin = Instant::now();
    wire.send(&publish(1, "", QUEUE, b"one", true, true));
    wire.send(&publish_expiring(1, QUEUE, b"two", 3_600_000));
    wire.confirms(2);
    let gone = shows(&broker.http(), QUEUE, Some((0, 2)), begin);
    assert!(gone >= Duration::from_millis(600), "early: {gone:?}");
    drop(wire);
    broker.finish("cell.expiry.all");
}

#[test]
fn an_unused_queue_expires() {
    const QUEUE: &str = "cell.expiry.queue";
    if is_given() {
        return;
    }
    let broker = Broker::start();
    let mut wire = Wire::open(broker.amqp());
    declare(&mut wire, QUEUE, &[("x-expires", 500)]);
    wire.consume(1, QUEUE, true);
    wire.send(&publish(1, "", QUEUE, b"used", true, false));
    assert_eq!(wire.delivery().2, b"used");
    let begin = Instant::now();
    drop(wire);
    let gone = shows(&broker.http(), QUEUE, None, begin);
    assert!(gone >= Duration::from_millis(500), "early: {gone:?}");
    broker.finish("cell.expiry.queue");
}
