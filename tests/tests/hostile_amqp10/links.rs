//! Links: overlong names and addresses, thousands of filters, endless attaching and detaching.

use leveret_amqp10::message::{Properties, write_data};
use leveret_amqp10::{DeliveryState, Performative, condition};
use leveret_tests::node::Options;
use leveret_tests::wire::{Wire, Writer};

use super::bytes::{FALSE, NULL, TRUE, composite, compound, string, uint};
use super::canary::{assert_grown, declare, finish, stage};
use super::peer::{Ended, Peer, amqp, begin, detach, end, receiver, sender, transfer};

const QUEUE: &str = "/queues/hostile.links";

#[test]
fn attach_and_detach_all_day_leaves_nothing_behind() {
    const ROUNDS: u32 = 100;
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), "hostile.links");
    let mut peer = Peer::open(node.amqp());
    let mut bytes = Vec::new();
    for at in 0..500 {
        let handle = at % 16;
        bytes.extend(sender(0, handle, "sender", QUEUE));
        bytes.extend(detach(0, handle));
        bytes.extend(receiver(0, handle, "receiver", QUEUE, at % 2 == 0));
        bytes.extend(detach(0, handle));
    }
    peer.send(&bytes);
    peer.still_served("the first links");
    let before = node.resident_bytes();
    for _ in 0..ROUNDS {
        peer.send(&bytes);
        peer.still_served("links");
    }
    assert_grown(&node, before, 8, "100,000 links that are gone");
    finish(&node, canary);
}

/// RabbitMQ 4.3 accepts duplicate names too: links are identified by handles.
#[test]
fn a_name_may_be_used_twice() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), "hostile.links");
    let mut peer = Peer::sender(node.amqp(), "hostile.links");
    peer.send(&sender(0, 1, "sender", QUEUE));
    peer.expect(
        "a second link",
        |performative| matches!(performative, Performative::Attach(attach) if attach.handle == 1),
    );
    peer.send(&transfer(1, 0, &message(b"through the second"), |_| {}));
    peer.expect("its outcome", |performative| matches!(performative, Performative::Disposition(_)));
    peer.send(&detach(0, 1));
    peer.still_served("a name that is used twice");
    finish(&node, canary);
}

fn message(body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    write_data(&mut payload, body);
    payload
}

#[test]
fn names_and_addresses_have_a_length_limit() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), "hostile.links");
    let of_length = |count: usize| "n".repeat(count);
    let (invalid, missing) = (condition::INVALID_FIELD.as_str(), condition::NOT_FOUND.as_str());
    let key = |count| format!("/exchanges/amq.fanout/{}", of_length(count));
    let queue = |count| format!("/queues/{}", of_length(count));
    let exchange = |count| format!("/exchanges/{}/key", of_length(count));
    for (what, bytes, condition, text) in [
        (
            "a name of 1,025 bytes",
            sender(0, 1, &of_length(1025), QUEUE),
            invalid,
            "link name of 1025 bytes is too long",
        ),
        ("a name of 100 KiB", receiver(0, 1, &of_length(100 << 10), QUEUE, true), invalid, "link name of 102400 bytes"),
        ("a queue of 300 bytes", sender(0, 1, "x", &queue(300)), missing, "no queue 'nnn"),
        ("a queue of 100 KiB", receiver(0, 1, "x", &queue(100 << 10), true), missing, "no queue 'nnn"),
        ("an exchange of 100 KiB", sender(0, 1, "x", &exchange(100 << 10)), missing, "no exchange 'nnn"),
        ("a routing key of 256 bytes", sender(0, 1, "x", &key(256)), invalid, "Attach refused: {bad_address_string"),
        (
            "a routing key of 100 KiB",
            sender(0, 1, "x", &key(100 << 10)),
            invalid,
            "Attach refused: {bad_address_string",
        ),
        (
            "no address at all",
            receiver(0, 1, "x", &of_length(100 << 10), true),
            invalid,
            "Attach refused: {amqp_address_v1",
        ),
        (
            "broken escapes",
            sender(0, 1, "x", &format!("/queues/{}", "%zz".repeat(1000))),
            invalid,
            "Attach refused: {bad_",
        ),
    ] {
        let mut peer = Peer::sender(node.amqp(), "hostile.links");
        peer.send(&bytes);
        let refusal = peer.refusal(what);
        assert_eq!((refusal.ended, refusal.condition.as_str()), (Ended::Link, condition), "{what}: {refusal:?}");
        assert!(refusal.description.starts_with(text), "{what}: {refusal:?}");
        assert!(refusal.description.len() <= 1024, "{what}: {} bytes are said", refusal.description.len());
        peer.send(&transfer(0, 0, &message(b"on the other link"), |_| {}));
        peer.expect(what, |performative| matches!(performative, Performative::Disposition(_)));
    }
    finish(&node, canary);
}

/// If a message carries its own address, its routing key has a limit as well.
#[test]
fn addresses_of_messages_have_a_length_limit() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), "hostile.links");
    let mut wire = Wire::open(node.amqp());
    let mut bind = Writer::new();
    bind.put_short(0).put_short_string("hostile.links").put_short_string("amq.fanout").put_short_string("");
    bind.put_octet(0).put_empty_table();
    wire.call(1, (50, 20), &bind, (50, 21));
    wire.close();
    let anonymous = composite(
        0x12,
        &[
            &string("anonymous"),
            &uint(0),
            FALSE,
            NULL,
            NULL,
            &composite(0x28, &[]),
            &composite(0x29, &[NULL]),
            NULL,
            NULL,
            &uint(0),
        ],
    );
    // The client's frames are as small as allowed.
    let mut peer = Peer::open_with(node.amqp(), 512, 1000);
    peer.send(&amqp(&anonymous));
    peer.expect("credit", |performative| matches!(performative, Performative::Flow(flow) if flow.handle == Some(0)));
    for (id, length) in [255, 256, 500, 5000, 100 << 10].into_iter().enumerate() {
        let to = format!("/exchanges/amq.fanout/{}", "k".repeat(length));
        let mut payload = Vec::new();
        Properties { to: Some(&to), ..Properties::default() }.encode(&mut payload);
        write_data(&mut payload, b"x");
        peer.send(&transfer(0, u32::try_from(id).expect("few"), &payload, |_| {}));
        let body = peer.expect("an outcome", |performative| matches!(performative, Performative::Disposition(_)));
        let Ok((Performative::Disposition(disposition), _)) = Performative::decode(&body) else {
            unreachable!("expected")
        };
        match disposition.state {
            Some(DeliveryState::Accepted) => assert_eq!(length, 255),
            Some(DeliveryState::Rejected { error: Some(error) }) => {
                assert!(length > 255);
                assert_eq!(error.condition, condition::PRECONDITION_FAILED);
                let text = error.description.expect("it says why");
                assert!(text.starts_with("bad 'to' address string: /exchanges/amq.fanout/kkk"), "{text}");
            }
            other => panic!("{length}: {other:?}"),
        }
    }
    peer.still_served("long addresses");
    finish(&node, canary);
}

/// A frame never exceeds the client's limit, even where it repeats the client's own data.
#[test]
fn answers_fit_into_the_smallest_frames() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), "hostile.links");
    let long = "n".repeat(600);
    let mut peer = Peer::open_with(node.amqp(), 512, 1000);
    peer.send(&sender(0, 0, &long, QUEUE));
    let refusal = peer.refusal("a name that doesn't fit");
    let expected = (Ended::Session, condition::FRAME_SIZE_TOO_SMALL.as_str());
    assert_eq!((refusal.ended, refusal.condition.as_str()), expected, "{refusal:?}");
    assert!(refusal.description.starts_with("Frame size is too small by "), "{refusal:?}");
    peer.send(&[end(0), begin(0)].concat());
    peer.send(&receiver(0, 0, "x", &format!("/queues/{long}"), true));
    let refusal = peer.refusal("an address that doesn't fit");
    assert_eq!(
        (refusal.ended, refusal.condition.as_str()),
        (Ended::Link, condition::NOT_FOUND.as_str()),
        "{refusal:?}"
    );
    assert!(refusal.description.starts_with("no queue 'nnn"), "{refusal:?}");
    peer.still_served("what doesn't fit");
    finish(&node, canary);
}

#[test]
fn filters_by_the_thousands_are_not_kept() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), "hostile.links");
    let mut filters = Vec::new();
    for at in 0..10_000u32 {
        let name = format!("f{at}");
        filters.extend([0xA3, u8::try_from(name.len()).expect("short")]);
        filters.extend(name.as_bytes());
        filters.extend([0x00, 0x53, 0x01, 0x40]);
    }
    let filters = compound(0xD1, 20_000, &filters);
    let source = composite(0x28, &[&string(QUEUE), NULL, NULL, NULL, NULL, NULL, NULL, &filters]);
    let attach = composite(0x12, &[&string("filtered"), &uint(0), TRUE, NULL, NULL, &source, &composite(0x29, &[])]);
    let mut peer = Peer::open(node.amqp());
    for _ in 0..20 {
        peer.send(&amqp(&attach));
        let body = peer.expect("attach", |performative| matches!(performative, Performative::Attach(_)));
        assert!(body.len() < 1000, "unknown filters aren't repeated");
        peer.send(&detach(0, 0));
    }
    peer.still_served("10,000 filters");
    finish(&node, canary);
}
