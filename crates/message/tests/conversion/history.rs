//! Messages that died several times.

use leveret_message::deliver::Delivery;
use leveret_message::{BatchBuilder, DeadLetter, Reason, Stamps};

use crate::recording::{History, Receiver, Recording};
use crate::{NOW_MS, delivered, difference};

/// Times of death are those of the recording: not compared.
fn without_times(view: &str) -> String {
    let mut out = String::new();
    for (at, part) in view.split("Timestamp(").enumerate() {
        out.push_str(if at == 0 { part } else { part.trim_start_matches(|char: char| char.is_ascii_digit()) });
    }
    // A header of this delivery, not of its history.
    out.lines().filter(|line| !line.starts_with("first-acquirer") && !line.starts_with("delivery-count")).fold(
        String::new(),
        |mut kept, line| {
            kept.push_str(line);
            kept.push('\n');
            kept
        },
    )
}

fn replay(recording: &Recording, history: &History, receiver: Receiver) -> String {
    let mut builder = BatchBuilder::default();
    history.case.publish(&recording.queue, NOW_MS, &Stamps::default(), &mut builder);
    let mut batch = builder.finish();
    for (at, (queue, reason)) in history.steps.iter().enumerate() {
        let other = if *queue == recording.queue { &recording.dead_letter_queue } else { &recording.queue };
        let letter = DeadLetter {
            queue: queue.as_bytes(),
            reason: if reason == "expired" { Reason::Expired } else { Reason::Rejected },
            now_ms: NOW_MS + at as u64,
            exchange: b"",
            routing_key: history.with_key.then_some(other.as_bytes()),
        };
        builder.push_dead_letter(&batch.message(0), &letter);
        batch = builder.finish();
    }
    let keys: Vec<_> = batch.message(0).view().routing_keys().map(String::from_utf8_lossy).map(String::from).collect();
    assert!(keys.contains(&history.last), "{}: {keys:?}", history.case.name);
    delivered(&batch.message(0), receiver, &Delivery { now_ms: NOW_MS, ..Delivery::default() })
}

#[test]
fn histories_read_as_in_rabbitmq() {
    let recording = Recording::load();
    assert_eq!(recording.histories.len(), 3);
    for history in &recording.histories {
        for receiver in [Receiver::Amqp091, Receiver::Amqp10] {
            let expected = without_times(&history.case.received(receiver, false).unwrap());
            let got = without_times(&replay(&recording, history, receiver));
            let found = difference(&expected, &got);
            // A dead letter that came over AMQP 0-9-1 keeps its time to live in RabbitMQ's header of AMQP 1.0.
            let found: Vec<_> = found.iter().filter(|line| !line[1..].starts_with("ttl")).collect();
            assert!(found.is_empty(), "{} / {receiver:?}\n{found:#?}", history.case.name);
        }
    }
}
