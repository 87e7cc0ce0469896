//! Before the login: nothing is owed, so that what isn't right is cut off, and nobody holds much.

use leveret_amqp10::performative::Open;
use leveret_amqp10::{FrameKind, HEADER_AMQP, HEADER_SASL, condition};
use leveret_tests::node::Options;

use super::bytes::{NULL, absurd_values, composite, compound, map_of, string, symbol, uint};
use super::canary::{assert_grown, finish, stage};
use super::peer::{Ended, Peer, amqp, of, raw};

/// A node that cuts nobody off for being slow, so that only what came does it.
fn patient() -> Options {
    Options::new().set("handshake_timeout", "600000")
}

#[test]
fn what_is_no_login_is_cut_off() {
    let (node, canary) = stage(patient());
    let after_header = |bytes: Vec<u8>| [&HEADER_SASL[..], &bytes].concat();
    let sasl = |body: &[u8]| raw(FrameKind::Sasl, 0, body);
    let init = |fields: &[&[u8]]| after_header(sasl(&composite(0x41, fields)));
    let mut cases = vec![
        ("AMQP without SASL", HEADER_AMQP.to_vec()),
        ("another version", b"AMQP\x03\x02\x00\x00".to_vec()),
        ("a frame of AMQP", after_header(of(0, &Open { container_id: "x", ..Open::default() }.into()))),
        ("a frame of 4 GiB", after_header(vec![0xff, 0xff, 0xff, 0xff, 2, 1, 0, 0])),
        ("a frame above 8 KiB", after_header([&8193u32.to_be_bytes()[..], &[2, 1, 0, 0]].concat())),
        ("an empty frame", after_header(sasl(&[]))),
        ("an outcome from the client", after_header(sasl(&composite(0x44, &[&[0x50, 0]])))),
        ("a response to nothing", after_header(sasl(&composite(0x43, &[&[0xA0, 1, b'x']])))),
        ("an init without a mechanism", init(&[])),
        ("more fields than there are", init(&[&symbol("PLAIN"), NULL, NULL, NULL, &uint(1)])),
        (
            "a count of 2^32-1 fields",
            after_header(sasl(&[&[0x00, 0x53, 0x41][..], &compound(0xD0, u32::MAX, NULL)].concat())),
        ),
    ];
    for (what, value) in absurd_values() {
        cases.push((what, init(&[&value])));
    }
    for (what, bytes) in cases {
        let mut peer = Peer::connect(node.amqp());
        peer.try_send(&bytes);
        peer.until_closed();
        println!("{what}: cut off");
    }
    canary.sings("no logins");
    finish(&node, canary);
}

#[test]
fn an_open_that_is_none_is_refused_in_a_close() {
    let (node, canary) = stage(Options::new());
    let open = |index: usize, value: &[u8]| {
        let container = string("hostile");
        let mut fields: Vec<&[u8]> = vec![&container];
        fields.resize(index, NULL);
        fields.push(value);
        amqp(&composite(0x10, &fields))
    };
    let decode = condition::DECODE_ERROR;
    let mut cases = vec![
        ("a max-frame-size of 511", open(2, &uint(511)), condition::FRAME_SIZE_TOO_SMALL),
        ("a max-frame-size of 0", open(2, &uint(0)), condition::FRAME_SIZE_TOO_SMALL),
        ("an idle-time-out of 1 ms", open(4, &uint(1)), condition::NOT_ALLOWED),
        ("a container-id that is none", amqp(&composite(0x10, &[])), condition::INVALID_FIELD),
        ("a host name of a vhost that isn't there", open(1, &string("vhost:nowhere")), condition::UNAUTHORIZED_ACCESS),
        ("a frame above 8 KiB", amqp(&composite(0x10, &[&string(&"x".repeat(9000))])), condition::FRAMING_ERROR),
        ("a begin", super::peer::begin(0), condition::ILLEGAL_STATE),
    ];
    for (what, value) in absurd_values() {
        if value.len() < 8000 {
            cases.push((what, open(9, &map_of("x", &value)), decode));
            cases.push((what, open(8, &value), decode));
        }
    }
    for (what, bytes, condition) in cases {
        let mut peer = Peer::logged_in(node.amqp());
        peer.send(&bytes);
        let refusal = peer.refusal(what);
        assert_eq!(
            (refusal.ended, refusal.condition.as_str()),
            (Ended::Connection, condition.as_str()),
            "{what}: {refusal:?}"
        );
    }
    canary.sings("no opens");
    finish(&node, canary);
}

/// Thousands of properties, long names: within a frame of 8 KiB, which is as much as anybody may say before the login.
#[test]
fn a_wordy_open_is_taken() {
    let (node, canary) = stage(Options::new());
    let mut pairs = Vec::new();
    for at in 0..400u32 {
        pairs.extend(symbol(&format!("property-{at}")));
        pairs.extend([0x40]);
    }
    let properties = compound(0xD1, 800, &pairs);
    let fields: [&[u8]; 10] =
        [&string(&"c".repeat(600)), &string("vhost:/"), NULL, NULL, NULL, NULL, NULL, NULL, NULL, &properties];
    let mut peer = Peer::logged_in(node.amqp());
    peer.send(&[amqp(&composite(0x10, &fields)), super::peer::begin(0)].concat());
    peer.still_served("400 properties");
    finish(&node, canary);
}

/// Half a frame on each of many sockets, byte after byte: before the login none of them may hold more than 16 KiB.
#[test]
fn many_halves_of_a_login_hold_little() {
    const SOCKETS: u64 = 800;
    const EACH_KIB: u64 = 16;
    let (node, canary) = stage(patient());
    let half = [&HEADER_SASL[..], &8192u32.to_be_bytes(), &[2, 1, 0, 0], &[0; 8000]].concat();
    let before = node.resident_bytes();
    let mut peers: Vec<Peer> = (0..SOCKETS).map(|_| Peer::connect(node.amqp())).collect();
    for part in half.chunks(half.len() / 4) {
        peers.iter_mut().for_each(|peer| peer.send(part));
    }
    for peer in &mut peers {
        // Its mechanisms are the sign that the node has read from this socket.
        peer.mechanisms();
    }
    canary.sings("halves of logins");
    assert_grown(&node, before, SOCKETS * EACH_KIB / 1024 + 16, "800 halves of a login");
    drop(peers);
    finish(&node, canary);
}
