//! Before the login: invalid input is cut off without a reply, and no connection uses much memory.

use leveret_amqp10::performative::Open;
use std::io::{ErrorKind, Read as _};

use leveret_amqp10::{FrameKind, HEADER_AMQP, HEADER_SASL, condition};
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{self, PROTOCOL_HEADER, Wire, Writer, method};

use super::bytes::{NULL, absurd_values, binary, composite, compound, map_of, string, symbol, uint};
use super::canary::{assert_grown, finish, stage};
use super::peer::{Ended, Peer, amqp, of, raw};

/// A node with long timeouts, so that only invalid input closes connections.
fn patient() -> Options {
    Options::new().set("handshake_timeout", "600000")
}

#[test]
fn an_invalid_login_is_cut_off() {
    let (node, canary) = stage(patient());
    let after_header = |bytes: Vec<u8>| [&HEADER_SASL[..], &bytes].concat();
    let sasl = |body: &[u8]| raw(FrameKind::Sasl, 0, body);
    let init = |fields: &[&[u8]]| after_header(sasl(&composite(0x41, fields)));
    let mut cases = vec![
        ("AMQP without SASL", HEADER_AMQP.to_vec()),
        ("another version", b"AMQP\x03\x02\x00\x00".to_vec()),
        ("a frame of AMQP", after_header(of(0, &Open { container_id: "x", ..Open::default() }.into()))),
        ("a frame of 4 GiB", after_header(vec![0xff, 0xff, 0xff, 0xff, 2, 1, 0, 0])),
        ("a frame above 72 KiB", after_header([&73_729u32.to_be_bytes()[..], &[2, 1, 0, 0]].concat())),
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
        ("a frame above 72 KiB", amqp(&composite(0x10, &[&string(&"x".repeat(74_000))])), condition::FRAMING_ERROR),
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

/// Hundreds of properties and long names.
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

/// Half a frame on each of many sockets, byte by byte: before the login each may use at most 16 KiB.
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
        // Its mechanisms show that the node has read from this socket.
        peer.mechanisms();
    }
    canary.sings("halves of logins");
    assert_grown(&node, before, SOCKETS * EACH_KIB / 1024 + 16, "800 halves of a login");
    drop(peers);
    finish(&node, canary);
}

/// Memory limit of all connections before login; the other constant is that of each half login below.
const BUDGET: usize = 64 << 10;
const HALF: usize = 8000;
const FIT: usize = BUDGET / HALF;

/// This many connections hold a part of a login. The oldest `gone` are closed without a reply; the others log in
/// afterwards.
fn the_oldest_go<P>(
    node: &Node,
    mut half: impl FnMut() -> P,
    mut until_closed: impl FnMut(P),
    mut rest: impl FnMut(P),
) {
    const GONE: usize = 5;
    // Connections without any bytes aren't closed, however old they are.
    let idle: Vec<Wire> = (0..100).map(|_| Wire::connect(node.amqp())).collect();
    let mut peers: Vec<P> = (0..FIT + GONE).map(|_| half()).collect();
    let left = peers.split_off(GONE);
    peers.into_iter().for_each(&mut until_closed);
    left.into_iter().for_each(&mut rest);
    for mut wire in idle {
        wire.send(PROTOCOL_HEADER);
        wire.next_method(method::CONNECTION_START).expect("an idle socket is still there");
    }
}

fn small_budget() -> Options {
    patient().set("unauthenticated_bytes_max_per_node", BUDGET)
}

fn finish_with_reasons(mut node: Node, canary: super::canary::Canary) {
    finish(&node, canary);
    node.ask_to_stop();
    node.terminate_asked();
    let log = node.log();
    let reasons = log.matches("unauthenticated_bytes_max_per_node (65536) is exceeded").count();
    assert_eq!(reasons, 5, "a line for each that went:\n{log}");
}

#[test]
fn half_logins_above_the_budget_displace_the_oldest() {
    let (node, canary) = stage(small_budget());
    let host = string(&"h".repeat(HALF));
    let init = raw(FrameKind::Sasl, 0, &composite(0x41, &[&symbol("PLAIN"), &binary(b"\0guest\0guest"), &host]));
    let (first, last) = init.split_at(HALF);
    the_oldest_go(
        &node,
        || {
            let mut peer = Peer::connect(node.amqp());
            peer.send(&[&HEADER_SASL[..], first].concat());
            // The node has read it.
            peer.mechanisms();
            peer
        },
        |mut peer| peer.until_closed(),
        |mut peer| {
            peer.send(last);
            let (_, outcome) = peer.frame().expect("an outcome");
            assert_eq!(outcome[..3], [0x00, 0x53, 0x44], "still served");
        },
    );
    canary.sings("halves above the budget");
    finish_with_reasons(node, canary);
}

#[test]
fn half_handshakes_of_amqp_0_9_1_count_in_the_same_budget() {
    let (node, canary) = stage(small_budget());
    let mut properties = Writer::new();
    properties.put_short_string("product").put_octet(b'S').put_long_string(&[b'x'; HALF]);
    let mut arguments = Writer::new();
    arguments.put_long_string(properties.bytes()).put_short_string("PLAIN").put_long_string(b"\0guest\0guest");
    arguments.put_short_string("en_US");
    let start_ok = wire::method_frame(0, method::CONNECTION_START_OK, &arguments);
    let (first, last) = start_ok.split_at(HALF);
    the_oldest_go(
        &node,
        || {
            let mut wire = Wire::connect(node.amqp());
            wire.send(&[&PROTOCOL_HEADER[..], first].concat());
            wire.next_method(method::CONNECTION_START).expect("connection.start");
            wire
        },
        |mut wire| match wire.socket.read(&mut [0]) {
            Ok(read) => assert_eq!(read, 0, "it is closed without a word"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        },
        |mut wire| {
            wire.send(last);
            wire.next_method(method::CONNECTION_TUNE).expect("still served");
        },
    );
    canary.sings("half handshakes above the budget");
    finish_with_reasons(node, canary);
}
