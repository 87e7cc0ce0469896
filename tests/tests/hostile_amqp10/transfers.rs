//! Transfers: ignored credit, endless messages, invalid ids and tags.

use leveret_amqp10::message::{Header, write_data};
use leveret_amqp10::{Performative, Role, condition};
use leveret_tests::node::Options;

use super::bytes::{FALSE, NULL, composite, uint};
use super::canary::{assert_grown, declare, finish, stage};
use super::peer::{Ended, Peer, amqp, begin, detach, sender, transfer};

const QUEUE: &str = "hostile.transfers";

fn message(durable: bool, body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    Header { durable: Some(durable), ..Header::default() }.encode(&mut payload);
    write_data(&mut payload, body);
    payload
}

#[test]
fn a_sender_that_ignores_its_credit_loses_its_link() {
    // With a slow disk nothing is confirmed while it sends.
    let (node, canary) = stage(Options::new().set("debug.sync_delay_ms", 100));
    declare(node.amqp(), QUEUE);
    let before = node.resident_bytes();
    for _ in 0..5 {
        let mut peer = Peer::sender(node.amqp(), QUEUE);
        let payload = message(true, &[b'x'; 100]);
        let transfers: Vec<u8> = (0..20_000).flat_map(|id| transfer(0, id, &payload, |_| {})).collect();
        peer.send(&transfers);
        let refusal = peer.refusal("credit that is ignored");
        let expected = (Ended::Link, condition::TRANSFER_LIMIT_EXCEEDED.as_str());
        assert_eq!((refusal.ended, refusal.condition.as_str()), expected, "{refusal:?}");
        assert!(refusal.description.contains("was sent without link credit"), "{refusal:?}");
        peer.still_served("credit that is ignored");
    }
    assert_grown(&node, before, 24, "100,000 messages without credit");
    finish(&node, canary);
}

#[test]
fn unfinished_messages_are_bounded_and_forgotten() {
    const LINKS: u32 = 256;
    const PART: usize = 16 << 10;
    // A single core, because the allocator retains the peak of each.
    let options = Options::new()
        .set("cores", 1)
        .set("max_message_size", 1 << 20)
        .set("partial_message_bytes_max_per_connection", 8 << 20);
    let (node, canary) = stage(options);
    declare(node.amqp(), QUEUE);
    let part = vec![b'x'; PART];
    let before = node.resident_bytes();
    for round in 0..3 {
        let mut peer = Peer::open(node.amqp());
        let links: Vec<u8> = (0..LINKS).flat_map(|at| sender(0, at, "sender", &format!("/queues/{QUEUE}"))).collect();
        peer.send(&links);
        peer.still_served("256 links");
        // Each would use half a MiB: 128 MiB together. A link that exceeds the limit is ended; later transfers for it
        // are ignored.
        for parts in 0..32 {
            for at in 0..LINKS {
                peer.send(&transfer(at, at, &part, |transfer| {
                    transfer.more = true;
                    if parts > 0 {
                        transfer.delivery_tag = None;
                    }
                }));
            }
        }
        let refusals = peer.refusals_until_served("unfinished messages");
        println!("{} of 256 links are refused", refusals.len());
        assert!(refusals.len() > 200, "{} of 256 links are refused", refusals.len());
        for refusal in refusals {
            let expected = (Ended::Link, condition::RESOURCE_LIMIT_EXCEEDED.as_str());
            assert_eq!((refusal.ended, refusal.condition.as_str()), expected, "{refusal:?}");
            assert!(
                refusal.description.starts_with("unfinished messages of this connection would hold "),
                "{refusal:?}"
            );
            assert!(refusal.description.contains("partial_message_bytes_max_per_connection (8388608)"), "{refusal:?}");
        }
        if round == 0 {
            // Aborted or detached messages make room for others.
            for at in 0..LINKS {
                peer.send(&detach(0, at));
            }
            peer.still_served("links that are gone");
            peer.send(&sender(0, 0, "sender", &format!("/queues/{QUEUE}")));
            peer.expect(
                "credit",
                |performative| matches!(performative, Performative::Flow(flow) if flow.handle == Some(0)),
            );
            for id in 1000..1020 {
                for at in 0..60 {
                    peer.send(&transfer(0, id, &part, |transfer| {
                        (transfer.more, transfer.aborted) = (at < 59, at == 59);
                    }));
                }
            }
            peer.still_served("aborted messages");
        }
        drop(peer);
        canary.sings("unfinished messages");
    }
    assert_grown(&node, before, 56, "three connections that wanted 128 MiB each");
    finish(&node, canary);
}

#[test]
fn an_invalid_transfer_ends_its_link() {
    let (node, canary) = stage(Options::new().set("max_message_size", 100_000));
    declare(node.amqp(), QUEUE);
    let payload = message(false, b"x");
    let big = vec![0; 60_000];
    let more = |id, change: fn(&mut leveret_amqp10::performative::Transfer<'_>)| {
        let first = transfer(0, id, b"", |transfer| transfer.more = true);
        [first, transfer(0, id, b"", change)].concat()
    };
    let invalid = condition::INVALID_FIELD.as_str();
    for (what, bytes, ended, condition, text) in [
        (
            "no delivery-id",
            transfer(0, 0, &payload, |transfer| transfer.delivery_id = None),
            Ended::Link,
            invalid,
            "transfer without delivery-id",
        ),
        (
            "a tag of 33 bytes",
            amqp(&composite(0x14, &[&uint(0), &uint(0), &[&[0xA0, 33][..], &[b't'; 33]].concat()])),
            Ended::Connection,
            invalid,
            "cannot decode field delivery-tag of transfer",
        ),
        (
            "another delivery-id in the middle",
            more(0, |transfer| transfer.delivery_id = Some(1)),
            Ended::Link,
            invalid,
            "delivery-id of continuation transfer (1) differs from delivery-id on first transfer (0)",
        ),
        (
            "settled in the middle",
            more(0, |transfer| transfer.settled = Some(true)),
            Ended::Link,
            invalid,
            "field 'settled' of continuation transfer (true) differs from (interpreted) field 'settled' on first transfer (false)",
        ),
        (
            "a message that is too large",
            [
                transfer(0, 0, &big, |transfer| transfer.more = true),
                transfer(0, 0, &big, |transfer| transfer.more = true),
            ]
            .concat(),
            Ended::Link,
            condition::MESSAGE_SIZE_EXCEEDED.as_str(),
            "message size (120000 bytes) > maximum message size (100000 bytes)",
        ),
        (
            "no message",
            transfer(0, 0, b"", |_| {}),
            Ended::Link,
            condition::DECODE_ERROR.as_str(),
            "failed to parse message: missing_amqp_message_body",
        ),
        (
            "half a section",
            transfer(0, 0, &payload[..payload.len() - 1], |_| {}),
            Ended::Link,
            condition::DECODE_ERROR.as_str(),
            "failed to parse message: ",
        ),
        (
            "an unknown transaction",
            transfer(0, 0, &payload, |transfer| {
                transfer.state = Some(leveret_amqp10::DeliveryState::Transactional { txn_id: &[0; 8], outcome: None });
            }),
            Ended::Link,
            condition::TRANSACTION_UNKNOWN_ID.as_str(),
            "no such transaction",
        ),
    ] {
        let mut peer = Peer::sender(node.amqp(), QUEUE);
        peer.send(&bytes);
        let refusal = peer.refusal(what);
        assert_eq!((refusal.ended, refusal.condition.as_str()), (ended, condition), "{what}: {refusal:?}");
        assert!(refusal.description.starts_with(text), "{what}: {refusal:?}");
        if ended == Ended::Link {
            // Frames in flight for the link are ignored, and its handle is free after the reply.
            peer.send(&[transfer(0, 9, &payload, |_| {}), detach(0, 0)].concat());
            peer.send(&sender(0, 0, "again", &format!("/queues/{QUEUE}")));
            peer.expect(
                "credit",
                |performative| matches!(performative, Performative::Flow(flow) if flow.handle == Some(0)),
            );
        }
    }
    canary.sings("bad transfers");
    finish(&node, canary);
}

/// A sender may number its deliveries as it likes, which RabbitMQ accepts too: each gets an outcome.
#[test]
fn numbers_without_order_and_without_tags_are_answered() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), QUEUE);
    let payload = message(true, b"x");
    let mut peer = Peer::sender(node.amqp(), QUEUE);
    let (mut sent, mut answered) = (0u64, 0u64);
    for round in 0..50u32 {
        // Three thirds of the number space, none of which precedes another.
        let transfers: Vec<u8> = (0..60)
            .flat_map(|at| {
                transfer(0, (round * 60 + at).wrapping_mul(0x5555_5555), &payload, |it| it.delivery_tag = None)
            })
            .collect();
        peer.send(&transfers);
        sent += 60;
        while answered < sent {
            let body = peer.expect("an outcome", |performative| matches!(performative, Performative::Disposition(_)));
            let Ok((Performative::Disposition(answer), _)) = Performative::decode(&body) else {
                unreachable!("expected")
            };
            assert_eq!((answer.role, answer.settled), (Role::Receiver, true));
            answered += u64::from(answer.last.unwrap_or(answer.first).wrapping_sub(answer.first)) + 1;
        }
    }
    assert_eq!(answered, sent);
    finish(&node, canary);
}

/// Empty transfers of an endless message.
#[test]
fn a_message_of_nothing_holds_nothing() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), QUEUE);
    let mut peer = Peer::sender(node.amqp(), QUEUE);
    let before = node.resident_bytes();
    let piece = transfer(0, 0, b"", |transfer| transfer.more = true).repeat(1000);
    for _ in 0..300 {
        peer.send(&piece);
    }
    peer.still_served("300,000 empty transfers");
    peer.send(&begin(1));
    peer.send(&amqp(&composite(0x14, &[&uint(0), NULL, NULL, NULL, NULL, FALSE])));
    let refusal = peer.refusal("the end of nothing");
    assert_eq!(
        (refusal.ended, refusal.condition.as_str()),
        (Ended::Link, condition::DECODE_ERROR.as_str()),
        "{refusal:?}"
    );
    assert_grown(&node, before, 8, "a message of nothing");
    finish(&node, canary);
}
