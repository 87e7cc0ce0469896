//! Compares conversions between protocols with RabbitMQ's of the same messages: the tables in `../conversions`,
//! recorded by `tests/golden/message-conversion.py`. Intended differences are in `differences.txt` next to them.

mod differences;
mod history;
mod recording;
mod view;
mod write;

use leveret_amqp10::message::Sections;
use leveret_message::deliver::{Delivery, to_amqp10, to_amqp091};
use leveret_message::{BatchBuilder, DeadLetter, Encoding, IfPresent, MessageRef, Reason, Stamps, incoming};
use recording::{Case, DEAD_LETTER_QUEUE, EVERY_WAY, QUEUE, Receiver, way};
use view::NOW_MS;

const DIFFERENCES: &str = include_str!("../conversions/differences.txt");
const REFUSED: &str = "refused";

fn delivered(message: &MessageRef<'_>, receiver: Receiver, delivery: &Delivery) -> String {
    let message = message.view();
    match receiver {
        Receiver::Amqp091 => {
            let delivered = to_amqp091(&message, delivery);
            view::amqp091(&delivered.properties, &delivered.body)
        }
        Receiver::Amqp10 => {
            let mut out = Vec::new();
            to_amqp10(&message, delivery, &mut out);
            view::amqp10(&out)
        }
    }
}

/// The lines that are only in one of `expected` and `got`.
fn difference(expected: &str, got: &str) -> Vec<String> {
    let missing =
        expected.lines().filter(|line| !got.lines().any(|other| other == *line)).map(|line| format!("-{line}"));
    let added = got.lines().filter(|line| !expected.lines().any(|other| other == *line)).map(|line| format!("+{line}"));
    missing.chain(added).collect()
}

/// The messages that RabbitMQ accepted.
fn recorded() -> Vec<Case> {
    let mut cases = recording::parse(include_str!("../conversions/amqp091.txt"));
    cases.extend(recording::parse(include_str!("../conversions/amqp10.txt")));
    cases
}

/// The message of a case as a receiver sees it, published with `stamps`.
fn receive(case: &Case, stamps: &Stamps, receiver: Receiver, died: bool, sent_time: bool) -> String {
    let mut builder = BatchBuilder::default();
    case.publish(NOW_MS, stamps, &mut builder);
    let mut batch = builder.finish();
    if died {
        let letter = DeadLetter {
            queue: QUEUE.as_bytes(),
            reason: Reason::Rejected,
            now_ms: NOW_MS,
            exchange: b"",
            routing_key: Some(DEAD_LETTER_QUEUE.as_bytes()),
            failures: 0,
        };
        builder.push_dead_letter(&batch.message(0), &letter);
        batch = builder.finish();
    }
    let delivery = Delivery {
        redelivered: died,
        delivery_count: u32::from(died),
        now_ms: NOW_MS,
        sent_time,
        ..Delivery::default()
    };
    delivered(&batch.message(0), receiver, &delivery)
}

#[test]
fn receivers_see_what_they_see_in_rabbitmq() {
    let cases = recorded();
    let mut found = Vec::new();
    for case in &cases {
        for (receiver, died) in EVERY_WAY {
            let got = receive(case, &Stamps::default(), receiver, died, false);
            let lines = match case.received(receiver, died) {
                Some(expected) => difference(expected, &got),
                None => vec!["+fails".to_owned()],
            };
            if !lines.is_empty() {
                let difference = format!("{} / {} / {}", case.name, differences::lines(&lines), way(receiver, died));
                found.push((difference, lines.join("\n  ")));
            }
        }
    }
    let complaints = differences::judge(DIFFERENCES, |way| way != REFUSED, found);
    assert!(cases.len() > 380, "the recording is complete");
    assert!(complaints.is_empty(), "{} differences:\n{}", complaints.len(), complaints.join("\n"));
}

/// Messages that RabbitMQ refuses are refused with the same condition, and messages that it accepts are accepted.
#[test]
fn the_same_messages_are_refused() {
    let cases = recording::parse(include_str!("../conversions/refused.txt"));
    let mut found = Vec::new();
    // The session checks the user.
    for case in cases.iter().filter(|case| !case.name.starts_with("user-id")) {
        let payload = recording::bytes(&case.published);
        let refused = incoming::amqp10(&payload).err().map(|error| error.condition().as_str());
        let expected = case.outcome.as_deref().map(|outcome| outcome.split_once(": ").unwrap().0);
        if refused != expected {
            let difference = format!("{} / {} / {REFUSED}", case.name, refused.unwrap_or("taken"));
            found.push((difference, format!("RabbitMQ: {}", expected.unwrap_or("taken"))));
        }
    }
    let complaints = differences::judge(DIFFERENCES, |way| way == REFUSED, found);
    assert!(cases.len() > 40, "the recording is complete");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Properties, application properties, body and footer arrive byte for byte.
#[test]
fn a_bare_message_is_delivered_as_it_was_sent() {
    let mut builder = BatchBuilder::default();
    for case in recorded().iter().filter(|case| case.encoding == Encoding::Amqp10) {
        case.publish(NOW_MS, &Stamps::default(), &mut builder);
        let batch = builder.finish();
        let mut out = Vec::new();
        to_amqp10(&batch.message(0).view(), &Delivery::default(), &mut out);
        let payload = recording::bytes(&case.published);
        let sent = Sections::parse(&payload).unwrap();
        assert_eq!(Sections::parse(&out).unwrap().bare, sent.bare, "{}", case.name);
    }
}

/// Stamps of RabbitMQ's interceptors, which stay after a rejection. Its times are those of the recording.
#[test]
fn receivers_see_the_stamps_that_they_see_in_rabbitmq() {
    let recordings = [
        (IfPresent::Overwrite, include_str!("../conversions/stamps-overwrite.txt")),
        (IfPresent::Keep, include_str!("../conversions/stamps-keep.txt")),
    ];
    let mut complaints = Vec::new();
    for (if_present, text) in recordings {
        let cases = recording::parse(text);
        assert_eq!(cases.len(), 8, "the recording is complete");
        let stamps =
            Stamps { received_time: Some(if_present), routed_by: Some((if_present, "compare@localhost".to_owned())) };
        for case in &cases {
            for (receiver, died) in EVERY_WAY {
                let got = view::without_times(&receive(case, &stamps, receiver, died, true));
                let lines = difference(case.received(receiver, died).unwrap(), &got);
                if !lines.is_empty() {
                    let lines = lines.join("\n  ");
                    complaints.push(format!("{if_present:?}: {} / {}\n  {lines}", case.name, way(receiver, died)));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{} differences:\n{}", complaints.len(), complaints.join("\n"));
}
