//! Values that claim 2^32 items, have zero width, or are nested thousands deep, in every place for a value.

use leveret_amqp10::message::write_data;
use leveret_amqp10::{Performative, condition};
use leveret_tests::node::Options;
use leveret_tests::wire::{Wire, Writer, method};

use super::bytes::{FALSE, NULL, TRUE, absurd_values, composite, compound, map_of, string, symbol, uint};
use super::canary::{assert_grown, declare, finish, stage};
use super::peer::{Ended, Peer, amqp, grant, of, receiver, transfer};

const QUEUE: &str = "hostile.values";

/// Places for a value in performatives, with this value.
fn places(value: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let map = map_of("x", value);
    let filters = map_of("f", &[&[0x00][..], &symbol("f"), value].concat());
    let (name, address, handle) = (string("x"), string("/queues/hostile.values"), uint(1));
    let attach = |source: &[u8], properties: &[u8]| {
        composite(
            0x12,
            &[
                &name,
                &handle,
                TRUE,
                NULL,
                NULL,
                source,
                &composite(0x29, &[]),
                NULL,
                NULL,
                NULL,
                NULL,
                NULL,
                NULL,
                properties,
            ],
        )
    };
    let source = composite(0x28, &[&address]);
    let zero = uint(0);
    let flow: [&[u8]; 11] = [&zero, &zero, &zero, &zero, NULL, NULL, NULL, NULL, NULL, NULL, &map];
    let modified = composite(0x27, &[NULL, NULL, &map]);
    let rejected = composite(0x25, &[&composite(0x1d, &[&symbol("x"), NULL, &map])]);
    vec![
        ("properties of attach", attach(&source, &map)),
        (
            "desired-capabilities of attach",
            composite(
                0x12,
                &[
                    &name,
                    &handle,
                    TRUE,
                    NULL,
                    NULL,
                    &source,
                    &composite(0x29, &[]),
                    NULL,
                    NULL,
                    NULL,
                    NULL,
                    NULL,
                    value,
                ],
            ),
        ),
        ("filter", attach(&composite(0x28, &[&address, NULL, NULL, NULL, NULL, NULL, NULL, &filters]), NULL)),
        ("dynamic-node-properties", attach(&composite(0x28, &[NULL, NULL, NULL, NULL, TRUE, &map]), NULL)),
        (
            "outcomes",
            attach(&composite(0x28, &[&address, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, value]), NULL),
        ),
        (
            "unsettled of attach",
            composite(0x12, &[&name, &handle, TRUE, NULL, NULL, &source, &composite(0x29, &[]), &map]),
        ),
        ("properties of begin", composite(0x11, &[NULL, &zero, &zero, &zero, &zero, NULL, NULL, &map])),
        ("properties of flow", composite(0x13, &flow)),
        ("annotations of modified", composite(0x15, &[TRUE, &zero, NULL, TRUE, &modified])),
        ("error of rejected", composite(0x15, &[TRUE, &zero, NULL, TRUE, &rejected])),
        ("error of detach", composite(0x16, &[&zero, TRUE, &composite(0x1d, &[&symbol("x"), NULL, &map])])),
        ("state of transfer", composite(0x14, &[&zero, &zero, &[0xA0, 0], NULL, FALSE, FALSE, NULL, &modified])),
        ("a performative itself", [&[0x00, 0x53, 0x13][..], value].concat()),
    ]
}

#[test]
fn absurd_values_in_performatives_close_the_connection() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), QUEUE);
    let before = node.resident_bytes();
    for (what, value) in absurd_values() {
        for (place, body) in places(&value) {
            let mut peer = Peer::sender(node.amqp(), QUEUE);
            peer.send(&amqp(&body));
            let refusal = peer.refusal(place);
            let expected = (Ended::Connection, condition::DECODE_ERROR.as_str());
            assert_eq!((refusal.ended, refusal.condition.as_str()), expected, "{what} in {place}: {refusal:?}");
        }
        canary.sings(what);
    }
    assert_grown(&node, before, 16, "absurd values in performatives");
    finish(&node, canary);
}

#[test]
fn absurd_values_in_sections_end_the_link() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), QUEUE);
    let before = node.resident_bytes();
    for (what, value) in absurd_values() {
        let section = |code: u8, value: &[u8]| [&[0x00, 0x53, code][..], value].concat();
        let mut peer = Peer::sender(node.amqp(), QUEUE);
        for (id, (place, sections)) in [
            ("header", section(0x70, &value)),
            ("ttl", composite(0x70, &[NULL, NULL, &value])),
            ("delivery-annotations", section(0x71, &map_of("x-a", &value))),
            ("message-annotations", section(0x72, &map_of("x-a", &value))),
            ("message-annotations themselves", section(0x72, &value)),
            ("message-id", composite(0x73, &[&value])),
            ("properties", section(0x73, &value)),
            ("application-properties", section(0x74, &map_of("a", &value))),
            ("footer", section(0x78, &map_of("x-a", &value))),
        ]
        .into_iter()
        .enumerate()
        {
            let mut payload = Vec::new();
            let mut body = Vec::new();
            write_data(&mut body, b"x");
            payload.extend(if place == "footer" { [body, sections].concat() } else { [sections, body].concat() });
            peer.send(&transfer(0, u32::try_from(id).expect("few"), &payload, |_| {}));
            let refusal = peer.refusal(place);
            let expected = (Ended::Link, condition::DECODE_ERROR.as_str());
            assert_eq!((refusal.ended, refusal.condition.as_str()), expected, "{what} in {place}: {refusal:?}");
            assert!(refusal.description.starts_with("failed to parse message: "), "{what} in {place}: {refusal:?}");
            peer.send(&super::peer::detach(0, 0));
            peer.send(&super::peer::sender(0, 0, "again", &format!("/queues/{QUEUE}")));
            peer.expect(
                "credit",
                |performative| matches!(performative, Performative::Flow(flow) if flow.handle == Some(0)),
            );
        }
        canary.sings(what);
    }
    assert_grown(&node, before, 16, "absurd values in sections");
    finish(&node, canary);
}

/// A body concerns only sender and receiver: it is delivered unchanged, as by RabbitMQ 4.3.
#[test]
fn absurd_values_in_bodies_are_passed_on() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), QUEUE);
    let mut peer = Peer::sender(node.amqp(), QUEUE);
    peer.send(&receiver(0, 1, "receiver", &format!("/queues/{QUEUE}"), true));
    peer.send(&of(0, &grant(1, 100).into()));
    for (id, (what, value)) in absurd_values().into_iter().enumerate() {
        if what == "a list longer than what holds it" {
            // The end of such a body can't be determined.
            continue;
        }
        let body = [&[0x00, 0x53, 0x77][..], &value].concat();
        peer.send(&transfer(0, u32::try_from(id).expect("few"), &body, |transfer| transfer.settled = Some(true)));
        let came = peer.expect(what, |performative| matches!(performative, Performative::Transfer(_)));
        let (_, payload) = Performative::decode(&came).expect("a transfer");
        assert!(payload.ends_with(&body), "{what} is passed as it is");
    }
    // Over AMQP 0-9-1 it is a body of type amqp-1.0, as encoded.
    let deep = [&[0x00, 0x53, 0x77][..], &compound(0xD0, 1, &super::bytes::nested_lists(100))].concat();
    peer.send(&super::peer::detach(0, 1));
    peer.send(&transfer(0, 100, &deep, |transfer| transfer.settled = Some(false)));
    peer.expect("its outcome", |performative| matches!(performative, Performative::Disposition(_)));
    let mut wire = Wire::open(node.amqp());
    let mut get = Writer::new();
    get.put_short(0).put_short_string(QUEUE).put_octet(1);
    wire.call(1, method::BASIC_GET, &get, method::BASIC_GET_OK);
    wire.next_frame().expect("the header");
    assert_eq!(wire.next_frame().expect("the body").payload, deep);
    wire.close();
    finish(&node, canary);
}
