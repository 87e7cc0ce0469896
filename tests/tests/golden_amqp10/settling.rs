//! Dispositions of receiving clients, and returned messages: `delivery-count` and `first-acquirer`.

use std::net::SocketAddr;

use leveret_amqp10::performative::{Close, End};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{DeliveryState, Error, condition};
use leveret_tests::wire::{Wire, Writer, method, method_frame};

use super::script::Step::{Await, Classic};
use super::script::{QUEUE, Script, Step, again, all, cut, detach, disposition, end, published, received, say, script};

const MODIFIED: DeliveryState<'static> =
    DeliveryState::Modified { delivery_failed: false, undeliverable_here: false, message_annotations: None };
const FAILED: DeliveryState<'static> =
    DeliveryState::Modified { delivery_failed: true, undeliverable_here: false, message_annotations: None };
const ELSEWHERE: DeliveryState<'static> =
    DeliveryState::Modified { delivery_failed: false, undeliverable_here: true, message_annotations: None };

/// Deletes [`QUEUE`].
pub(crate) fn delete_queue(address: SocketAddr) {
    let mut wire = Wire::open(address);
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(QUEUE).put_octet(0);
    wire.call(1, method::QUEUE_DELETE, &arguments, (50, 41));
    wire.close();
}

/// Gets the message of [`QUEUE`] without acknowledging it.
fn get(address: SocketAddr) -> Wire {
    let mut wire = Wire::open(address);
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(QUEUE).put_octet(0);
    wire.call(1, method::BASIC_GET, &arguments, method::BASIC_GET_OK);
    wire.content().expect("content");
    wire
}

fn consume(address: SocketAddr) -> Wire {
    let mut wire = Wire::open(address);
    wire.consume(1, QUEUE, false);
    wire.delivery();
    wire
}

fn nack(wire: &mut Wire) {
    let mut arguments = Writer::new();
    arguments.put_long_long(1).put_octet(2);
    wire.send(&method_frame(1, method::BASIC_NACK, &arguments));
}

fn close_channel(wire: &mut Wire) {
    let mut arguments = Writer::new();
    arguments.put_short(200).put_short_string("done").put_short(0).put_short(0);
    wire.call(1, method::CHANNEL_CLOSE, &arguments, (20, 41));
}

/// A script in which one message is received unsettled; then these steps, and the delivery to the next receiver.
fn returned(name: &'static str, steps: Vec<Step>) -> Script {
    script(name, all([received(1), steps, cut(), again()]))
}

/// A script in which one message is received over AMQP 0-9-1; then the delivery to the next receiver.
fn returned_by(name: &'static str, act: fn(SocketAddr)) -> Script {
    script(name, all([published(1), cut(), vec![Classic(act)], again()]))
}

/// A script in which three messages are received; then these dispositions, answered or not, and the end.
fn settled(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Script {
    script(name, all([received(3), steps.into_iter().collect(), end().into()]))
}

pub(crate) fn scripts() -> Vec<Script> {
    let mut scripts = dispositions();
    scripts.extend(redeliveries());
    scripts
}

fn dispositions() -> Vec<Script> {
    let accepted = Some(DeliveryState::Accepted);
    vec![
        settled("an accepted message", [disposition(0, None, true, accepted)]),
        settled("an accepted message, unsettled", [disposition(0, None, false, accepted), Await("disposition")]),
        settled("a range accepted, unsettled", [disposition(0, Some(2), false, accepted), Await("disposition")]),
        settled("a range beyond what was delivered", [disposition(0, Some(9), false, accepted), Await("disposition")]),
        settled("a range that runs backwards", [disposition(2, Some(0), false, accepted)]),
        settled("a disposition of what was never delivered", [disposition(7, None, false, accepted)]),
        settled("a settled disposition of what was never delivered", [disposition(7, None, true, accepted)]),
        settled("a disposition twice", {
            [disposition(0, None, false, accepted), Await("disposition"), disposition(0, None, false, accepted)]
        }),
        settled("a range of which some is settled", {
            [disposition(1, None, true, accepted), disposition(0, Some(2), false, accepted), Await("disposition")]
        }),
        settled("a rejected message, unsettled", {
            [disposition(0, None, false, Some(DeliveryState::Rejected { error: None })), Await("disposition")]
        }),
        settled("a message rejected with an error, unsettled", {
            let error = Error { condition: condition::INTERNAL_ERROR, description: Some("mine"), info: None };
            [disposition(0, None, false, Some(DeliveryState::Rejected { error: Some(error) })), Await("disposition")]
        }),
        settled("a released message, unsettled", {
            [disposition(0, Some(2), false, Some(DeliveryState::Released)), Await("disposition")]
        }),
        settled(
            "a modified message, unsettled",
            [disposition(0, Some(2), false, Some(MODIFIED)), Await("disposition")],
        ),
        settled("a failed message, unsettled", [disposition(0, Some(2), false, Some(FAILED)), Await("disposition")]),
        settled("an undeliverable message, unsettled", {
            [disposition(0, Some(2), false, Some(ELSEWHERE)), Await("disposition")]
        }),
        settled("a message received in part", {
            let state = DeliveryState::Received { section_number: 0, section_offset: 0 };
            [disposition(0, None, false, Some(state))]
        }),
        settled("a message settled without a state", [disposition(0, None, true, None)]),
        settled("a disposition without anything", [disposition(0, None, false, None)]),
        settled("a message declared", [disposition(0, None, true, Some(DeliveryState::Declared { txn_id: b"x" }))]),
    ]
}

fn redeliveries() -> Vec<Script> {
    let annotations = EncodedMap::new().with("x-mine", "value");
    let annotated = DeliveryState::Modified {
        delivery_failed: true,
        undeliverable_here: false,
        message_annotations: Some(annotations.as_map()),
    };
    vec![
        returned(
            "back after released",
            vec![disposition(0, None, false, Some(DeliveryState::Released)), Await("disposition")],
        ),
        returned("back after modified", vec![disposition(0, None, false, Some(MODIFIED)), Await("disposition")]),
        returned("back after modified, failed", vec![disposition(0, None, false, Some(FAILED)), Await("disposition")]),
        returned(
            "back after modified, annotated",
            vec![disposition(0, None, false, Some(annotated)), Await("disposition")],
        ),
        returned("back after detach", vec![detach(1, true), Await("detach")]),
        returned("back after detach, not closed", vec![detach(1, false), Await("detach")]),
        returned("back after end", vec![say(End { error: None }), Await("end")]),
        returned("back after close", vec![say(Close { error: None }), Await("close")]),
        returned("back after the socket was cut", vec![]),
        returned("back after being settled without a state", vec![disposition(0, None, true, None)]),
        returned("back after being settled in part", {
            let part = DeliveryState::Received { section_number: 0, section_offset: 1 };
            vec![disposition(0, None, true, Some(part))]
        }),
        returned_by("back after basic.nack of a get", |address| {
            let mut wire = get(address);
            nack(&mut wire);
            wire.close();
        }),
        returned_by("back after basic.nack", |address| {
            let mut wire = Wire::open(address);
            wire.prefetch(1, 1);
            wire.consume(1, QUEUE, false);
            wire.delivery();
            let mut arguments = Writer::new();
            arguments.put_short_string("nobody").put_octet(0);
            nack(&mut wire);
            wire.delivery();
            wire.close();
        }),
        returned_by("back after basic.reject", |address| {
            let mut wire = get(address);
            let mut arguments = Writer::new();
            arguments.put_long_long(1).put_octet(1);
            wire.send(&method_frame(1, method::BASIC_REJECT, &arguments));
            wire.close();
        }),
        returned_by("back after basic.recover", |address| {
            let mut wire = get(address);
            let mut arguments = Writer::new();
            arguments.put_octet(1);
            wire.call(1, (60, 110), &arguments, (60, 111));
            wire.close();
        }),
        returned_by("back after channel.close of a get", |address| {
            let mut wire = get(address);
            close_channel(&mut wire);
            wire.close();
        }),
        returned_by("back after channel.close of a consumer", |address| {
            let mut wire = consume(address);
            close_channel(&mut wire);
            wire.close();
        }),
        returned_by("back after connection.close of a consumer", |address| consume(address).close()),
        returned_by("back after the socket of AMQP 0-9-1 was cut", |address| drop(consume(address))),
        returned_by("back after basic.cancel and basic.nack", |address| {
            let mut wire = consume(address);
            nack(&mut wire);
            wire.delivery();
            close_channel(&mut wire);
            wire.close();
        }),
    ]
}
