//! Conversion between protocols against what RabbitMQ did with the same messages (`conversion.json`, made by
//! `tests/golden/message-conversion.py`). What differs on purpose is listed in `differences.rs`.

mod differences;
mod history;
mod recording;
mod view;

use leveret_amqp10::message::Sections;
use leveret_message::deliver::{Delivery, to_amqp10, to_amqp091};
use leveret_message::{BatchBuilder, DeadLetter, Encoding, IfPresent, MessageRef, Reason, Stamps, incoming};
use recording::{Case, Receiver, Recording};

/// When the messages came in, and when they go out.
const NOW_MS: u64 = 1_700_000_000_000;

fn delivered(message: &MessageRef<'_>, receiver: Receiver, delivery: &Delivery) -> String {
    let message = message.view();
    match receiver {
        Receiver::Amqp091 => {
            let delivered = to_amqp091(&message, delivery.sent_time.then_some(delivery.now_ms));
            view::amqp091(&delivered.properties, &delivered.body)
        }
        Receiver::Amqp10 => {
            let mut out = Vec::new();
            to_amqp10(&message, delivery, &mut out);
            view::amqp10(&out)
        }
    }
}

/// The lines of `expected` and `got` that aren't in both.
fn difference(expected: &str, got: &str) -> Vec<String> {
    let missing =
        expected.lines().filter(|line| !got.lines().any(|other| other == *line)).map(|line| format!("-{line}"));
    let added = got.lines().filter(|line| !expected.lines().any(|other| other == *line)).map(|line| format!("+{line}"));
    missing.chain(added).collect()
}

fn compare(recording: &Recording, case: &Case, complaints: &mut Vec<String>) {
    for (receiver, died) in EVERY_WAY {
        let expected = case.received(receiver, died);
        let got = receive(recording, case, &Stamps::default(), receiver, died, false);
        let found = match &expected {
            Some(expected) => difference(expected, &got),
            None => vec![format!("RabbitMQ fails; here: {}", got.replace('\n', "; "))],
        };
        if !found.is_empty() && !differences::is_known(case, receiver, died, &found) {
            complaints.push(complaint(case, receiver, died, &found));
        }
    }
}

/// Who receives, and whether the message was rejected before.
const EVERY_WAY: [(Receiver, bool); 4] =
    [(Receiver::Amqp091, false), (Receiver::Amqp091, true), (Receiver::Amqp10, false), (Receiver::Amqp10, true)];

/// What a receiver sees of a case's message, published with `stamps`.
fn receive(
    recording: &Recording,
    case: &Case,
    stamps: &Stamps,
    receiver: Receiver,
    died: bool,
    sent_time: bool,
) -> String {
    let mut builder = BatchBuilder::default();
    case.publish(&recording.queue, NOW_MS, stamps, &mut builder);
    let mut batch = builder.finish();
    if died {
        let letter = DeadLetter {
            queue: recording.queue.as_bytes(),
            reason: Reason::Rejected,
            now_ms: case.received(receiver, died).as_deref().and_then(view::time_of_death).unwrap_or(NOW_MS),
            exchange: b"",
            routing_key: Some(recording.dead_letter_queue.as_bytes()),
        };
        builder.push_dead_letter(&batch.message(0), &letter);
        batch = builder.finish();
    }
    let delivery = Delivery { redelivered: died, delivery_count: u32::from(died), now_ms: NOW_MS, sent_time };
    delivered(&batch.message(0), receiver, &delivery)
}

fn complaint(case: &Case, receiver: Receiver, died: bool, found: &[String]) -> String {
    let died = if died { " rejected" } else { "" };
    format!("{} / {receiver:?}{died}\n  {}", case.name, found.join("\n  "))
}

#[test]
fn receivers_see_what_they_see_in_rabbitmq() {
    let recording = Recording::load();
    let mut complaints = Vec::new();
    recording.cases.iter().for_each(|case| compare(&recording, case, &mut complaints));
    assert!(recording.cases.len() > 250, "the recording is complete");
    assert!(complaints.is_empty(), "{} differences:\n{}", complaints.len(), complaints.join("\n"));
}

/// Publishing what RabbitMQ refuses is refused with the same condition, and what it takes is taken.
#[test]
fn the_same_messages_are_refused() {
    let recording = Recording::load();
    let mut complaints = Vec::new();
    // The session checks the user.
    for case in recording.refused.iter().filter(|case| !case.name.starts_with("user-id")) {
        let payload = recording::bytes(&case.published);
        let refused = incoming::amqp10(&payload).err().map(|error| error.condition().as_str());
        let expected = case.outcome().map(|outcome| outcome.split_once(": ").unwrap().0);
        if refused != expected && !differences::is_known_refusal(case, refused) {
            complaints.push(format!("{}: RabbitMQ {expected:?}, here {refused:?}", case.name));
        }
    }
    assert!(recording.refused.len() > 40, "the recording is complete");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Properties, application properties, body and footer arrive byte for byte.
#[test]
fn a_bare_message_is_delivered_as_it_was_sent() {
    let recording = Recording::load();
    let mut builder = BatchBuilder::default();
    for case in recording.cases.iter().filter(|case| case.encoding == Encoding::Amqp10) {
        case.publish(&recording.queue, NOW_MS, &Stamps::default(), &mut builder);
        let batch = builder.finish();
        let mut out = Vec::new();
        to_amqp10(&batch.message(0).view(), &Delivery::default(), &mut out);
        let payload = recording::bytes(&case.published);
        let sent = Sections::parse(&payload).unwrap();
        assert_eq!(Sections::parse(&out).unwrap().bare, sent.bare, "{}", case.name);
    }
}

/// Stamps of RabbitMQ's interceptors, kept through a rejection. Its times are those of the recording.
#[test]
fn receivers_see_the_stamps_that_they_see_in_rabbitmq() {
    let recordings = [
        (IfPresent::Overwrite, include_str!("../stamps/overwrite.json")),
        (IfPresent::Keep, include_str!("../stamps/keep.json")),
    ];
    let mut complaints = Vec::new();
    for (if_present, json) in recordings {
        let recording = Recording::parse(json);
        assert_eq!(recording.cases.len(), 8, "the recording is complete");
        let stamps =
            Stamps { received_time: Some(if_present), routed_by: Some((if_present, "compare@localhost".to_owned())) };
        for case in &recording.cases {
            for (receiver, died) in EVERY_WAY {
                let expected = view::without_times(&case.received(receiver, died).unwrap());
                let got = view::without_times(&receive(&recording, case, &stamps, receiver, died, true));
                let found = difference(&expected, &got);
                if !found.is_empty() {
                    complaints.push(format!("{if_present:?}: {}", complaint(case, receiver, died, &found)));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{} differences:\n{}", complaints.len(), complaints.join("\n"));
}
