//! Messages that died several times.

use leveret_message::deliver::Delivery;
use leveret_message::{BatchBuilder, DeadLetter, Reason, Stamps};

use crate::recording::{self, Case, DEAD_LETTER_QUEUE, QUEUE, Receiver};
use crate::view::NOW_MS;
use crate::{delivered, difference};

fn replay(history: &Case, receiver: Receiver) -> String {
    let mut builder = BatchBuilder::default();
    history.publish(NOW_MS, &Stamps::default(), &mut builder);
    let mut batch = builder.finish();
    for (at, (queue, reason)) in history.steps.iter().enumerate() {
        let other = if queue == QUEUE { DEAD_LETTER_QUEUE } else { QUEUE };
        let letter = DeadLetter {
            queue: queue.as_bytes(),
            reason: if reason == "expired" { Reason::Expired } else { Reason::Rejected },
            now_ms: NOW_MS + at as u64,
            exchange: b"",
            routing_key: history.with_key.then_some(other.as_bytes()),
            failures: 0,
        };
        builder.push_dead_letter(&batch.message(0), &letter);
        batch = builder.finish();
    }
    let keys: Vec<_> = batch.message(0).view().routing_keys().map(String::from_utf8_lossy).map(String::from).collect();
    assert!(keys.contains(&history.last), "{}: {keys:?}", history.name);
    delivered(&batch.message(0), receiver, &Delivery { now_ms: NOW_MS, ..Delivery::default() })
}

#[test]
fn histories_read_as_in_rabbitmq() {
    let histories = recording::parse(include_str!("../conversions/histories.txt"));
    assert_eq!(histories.len(), 3);
    for history in &histories {
        for receiver in [Receiver::Amqp091, Receiver::Amqp10] {
            let found = difference(history.received(receiver, false).unwrap(), &replay(history, receiver));
            // These lines belong to the delivery, not to the history. A dead letter that was published over AMQP
            // 0-9-1 keeps its time to live in RabbitMQ's header of AMQP 1.0.
            let of_the_delivery = ["first-acquirer", "delivery-count", "ttl"];
            let is_meant = |line: &&String| !of_the_delivery.iter().any(|name| line[1..].starts_with(name));
            let found: Vec<_> = found.iter().filter(is_meant).collect();
            assert!(found.is_empty(), "{} / {receiver:?}\n{found:#?}", history.name);
        }
    }
}
