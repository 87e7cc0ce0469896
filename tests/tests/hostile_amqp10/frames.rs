//! Invalid frames, and frames in the wrong place.

use leveret_amqp10::performative::{Begin, Detach, Disposition, Flow, Open};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{DeliveryState, FrameKind, Role, condition};
use leveret_tests::node::Options;

use super::bytes::{composite, map_of, nested_lists, string, uint};
use super::canary::{assert_grown, declare, finish, stage};
use super::peer::{Ended, Peer, amqp, begin, end, of, raw, receiver, sender, transfer};

/// A frame header with any values.
fn header(size: u32, data_offset: u8, kind: u8, channel: u16) -> Vec<u8> {
    let [high, low] = channel.to_be_bytes();
    [&size.to_be_bytes()[..], &[data_offset, kind, high, low]].concat()
}

/// Frames sent after attaching a sender on handle 0 of channel 0, and what the broker ends with which error.
fn cases() -> Vec<(&'static str, Vec<u8>, Ended, &'static str, &'static str)> {
    let framing = condition::FRAMING_ERROR.as_str();
    let decode = condition::DECODE_ERROR.as_str();
    let to = "/queues/hostile.frames";
    let flow = |flow: Flow<'static>| of(0, &flow.into());
    let tokens = EncodedMap::new().with("rabbitmq:deferral-tokens", "t");
    vec![
        (
            "a size of 4",
            header(4, 2, 0, 0),
            Ended::Connection,
            framing,
            "frame size (4 bytes) < minimum frame size (8 bytes)",
        ),
        ("a size of 0", header(0, 2, 0, 0), Ended::Connection, framing, "frame size (0 bytes) < minimum"),
        (
            "a size above max-frame-size",
            header(131_073, 2, 0, 0),
            Ended::Connection,
            framing,
            "frame size (131073 bytes) > maximum frame size (131072 bytes)",
        ),
        ("a size of 4 GiB", header(u32::MAX, 2, 0, 0), Ended::Connection, framing, "frame size (4294967295 bytes) >"),
        (
            "a data offset of 1",
            header(8, 1, 0, 0),
            Ended::Connection,
            framing,
            "data offset (1) < minimum data offset (2)",
        ),
        (
            "a data offset of 0",
            header(8, 0, 0, 0),
            Ended::Connection,
            framing,
            "data offset (0) < minimum data offset (2)",
        ),
        (
            "a data offset behind the frame",
            header(8, 9, 0, 0),
            Ended::Connection,
            framing,
            "data offset (36 bytes) > frame size (8 bytes)",
        ),
        ("an unknown frame type", header(8, 2, 5, 0), Ended::Connection, framing, "unexpected frame type 5"),
        (
            "SASL after the login",
            raw(FrameKind::Sasl, 0, &composite(0x41, &[&super::bytes::symbol("PLAIN")])),
            Ended::Connection,
            framing,
            "unexpected frame type 1 in amqp mode (expected 0)",
        ),
        (
            "a protocol header",
            b"AMQP\x00\x01\x00\x00".to_vec(),
            Ended::Connection,
            framing,
            "frame size (1095586128 bytes)",
        ),
        ("a body that is no value", amqp(&[0xff, 0xff, 0xff]), Ended::Connection, decode, ""),
        ("an unknown performative", amqp(&composite(0x55, &[])), Ended::Connection, decode, ""),
        ("a section as performative", amqp(&composite(0x73, &[])), Ended::Connection, decode, ""),
        ("half a performative", amqp(&[0x00, 0x53, 0x12, 0xD0, 0, 0]), Ended::Connection, decode, ""),
        (
            "a performative with bytes behind it",
            amqp(&[composite(0x17, &[]), vec![1, 2, 3]].concat()),
            Ended::Connection,
            decode,
            "3 bytes follow end",
        ),
        (
            "an attach without a role",
            amqp(&composite(0x12, &[&string("x"), &uint(1)])),
            Ended::Connection,
            condition::INVALID_FIELD.as_str(),
            "mandatory field role of attach is missing",
        ),
        (
            "more fields than there are",
            amqp(&composite(0x17, &[&uint(1), &uint(1), &uint(1)])),
            Ended::Connection,
            decode,
            "cannot decode field error of end",
        ),
        (
            "a second open",
            of(0, &Open { container_id: "again", ..Open::default() }.into()),
            Ended::Connection,
            condition::ILLEGAL_STATE.as_str(),
            "received a second open",
        ),
        (
            "properties of 10,000 levels in a begin",
            amqp(&composite(
                0x11,
                &[
                    &[0x40],
                    &uint(0),
                    &uint(1),
                    &uint(1),
                    &uint(1),
                    &[0x40],
                    &[0x40],
                    &map_of("x", &nested_lists(10_000)),
                ],
            )),
            Ended::Connection,
            decode,
            "cannot decode field properties of begin",
        ),
        (
            "a channel above channel-max",
            begin(64),
            Ended::Connection,
            framing,
            "channel number (64) exceeds maximum channel number (63)",
        ),
        ("a channel of 65,535", begin(u16::MAX), Ended::Connection, framing, "channel number (65535) exceeds"),
        (
            "a transfer without a session",
            sender(7, 0, "x", to),
            Ended::Connection,
            framing,
            "attach received on channel 7",
        ),
        ("an end without a session", end(7), Ended::Connection, framing, "end received on channel 7"),
        (
            "a begin where a session is",
            begin(0),
            Ended::Session,
            condition::ILLEGAL_STATE.as_str(),
            "begin received on channel 0, which has a session",
        ),
        (
            "a begin that answers nothing",
            of(3, &Begin { remote_channel: Some(9), ..Begin::default() }.into()),
            Ended::Connection,
            condition::NOT_ALLOWED.as_str(),
            "begin on channel 3 with remote-channel 9",
        ),
        (
            "a handle above handle-max",
            sender(0, 256, "x", to),
            Ended::Session,
            framing,
            "link handle value (256) exceeds maximum link handle value (255)",
        ),
        (
            "a handle of 2^32-1",
            receiver(0, u32::MAX, "x", to, true),
            Ended::Session,
            framing,
            "link handle value (4294967295)",
        ),
        (
            "a handle that is in use",
            receiver(0, 0, "x", to, true),
            Ended::Session,
            condition::HANDLE_IN_USE.as_str(),
            "handle 0 is already associated with a link",
        ),
        (
            "a transfer on an unknown handle",
            transfer(9, 0, b"", |_| {}),
            Ended::Session,
            condition::UNATTACHED_HANDLE.as_str(),
            "Unknown link handle: 9",
        ),
        (
            "a flow of an unknown handle",
            flow(Flow { handle: Some(9), ..Flow::default() }),
            Ended::Session,
            condition::UNATTACHED_HANDLE.as_str(),
            "Unattached link handle: 9",
        ),
        (
            "a flow with a deferral token that is no array",
            of(0, &Flow { handle: Some(0), properties: Some(tokens.as_map()), ..Flow::default() }.into()),
            Ended::Session,
            condition::INVALID_FIELD.as_str(),
            "the property rabbitmq:deferral-tokens has to be an array of strings",
        ),
        (
            "a detach of an unknown handle",
            of(0, &Detach { handle: u32::MAX, closed: true, error: None }.into()),
            Ended::Session,
            condition::UNATTACHED_HANDLE.as_str(),
            "Unattached link handle: 4294967295",
        ),
        (
            "a next-incoming-id from the future",
            flow(Flow { next_incoming_id: Some(5), ..Flow::default() }),
            Ended::Session,
            condition::WINDOW_VIOLATION.as_str(),
            "next-incoming-id from FLOW (5) leads next-outgoing-id (0)",
        ),
        (
            "a next-incoming-id half of the numbers away",
            flow(Flow { next_incoming_id: Some((1 << 31) - 1), ..Flow::default() }),
            Ended::Session,
            condition::WINDOW_VIOLATION.as_str(),
            "next-incoming-id from FLOW (2147483647) leads",
        ),
        (
            "a disposition in an unknown transaction",
            of(
                0,
                &Disposition {
                    role: Role::Receiver,
                    first: 0,
                    last: Some(u32::MAX),
                    settled: true,
                    state: Some(DeliveryState::Transactional { txn_id: b"none", outcome: None }),
                    batchable: false,
                }
                .into(),
            ),
            Ended::Session,
            condition::TRANSACTION_UNKNOWN_ID.as_str(),
            "disposition in a transaction that was never declared",
        ),
    ]
}

#[test]
fn each_is_refused_where_it_belongs() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), "hostile.frames");
    for (what, bytes, ended, condition, text) in cases() {
        let mut peer = Peer::sender(node.amqp(), "hostile.frames");
        peer.send(&bytes);
        let refusal = peer.refusal(what);
        assert_eq!((refusal.ended, refusal.condition.as_str()), (ended, condition), "{what}: {refusal:?}");
        assert!(refusal.description.starts_with(text), "{what}: {refusal:?}");
        if ended != Ended::Connection {
            // The session is over for both peers once it is ended here too, and its channel is free.
            peer.send(&[end(0), begin(0)].concat());
            peer.still_served(what);
        }
    }
    canary.sings("frames that are none");
    finish(&node, canary);
}

/// Valid but useless frames cost their sender more than the node.
#[test]
fn useless_frames_are_taken() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), "hostile.frames");
    let mut peer = Peer::sender(node.amqp(), "hostile.frames");
    peer.still_served("the beginning");
    let before = node.resident_bytes();
    let settle = |first, last, settled| {
        let state = Some(DeliveryState::Accepted);
        let disposition = Disposition { role: Role::Receiver, first, last, settled, state, batchable: false };
        of(0, &disposition.into())
    };
    let extended = [&header(8 + 1012, 255, 0, 0)[..], &[0; 1012]].concat();
    for (what, bytes, count) in [
        ("empty frames", amqp(&[]), 1_000_000),
        ("empty frames with an extended header", extended, 20_000),
        ("dispositions of all numbers", settle(0, Some(u32::MAX), true), 200_000),
        ("dispositions of half of the numbers", settle(0, Some((1 << 31) - 1), true), 200_000),
        ("dispositions that end before they begin", settle(9, Some(3), true), 200_000),
        ("dispositions of one delivery", settle(77, None, true), 200_000),
        ("unsettled dispositions", settle(0, Some(1000), false), 200_000),
        ("flows", of(0, &Flow { incoming_window: u32::MAX, outgoing_window: 0, ..Flow::default() }.into()), 200_000),
    ] {
        let piece = bytes.repeat(1000);
        for _ in 0..count / 1000 {
            peer.send(&piece);
        }
        peer.still_served(what);
    }
    assert_grown(&node, before, 8, "useless frames");
    finish(&node, canary);
}
