//! The management node: invalid requests, and responses that are never received.

use leveret_amqp10::message::{MessageId, Properties, write_value_raw};
use leveret_amqp10::performative::Flow;
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{Performative, Role, condition};
use leveret_tests::amqp10::management_link;
use leveret_tests::node::Options;

use super::bytes::{absurd_values, compound, map_of, string};
use super::canary::{assert_grown, finish, stage};
use super::peer::{Ended, Peer, grant, of, transfer};

/// A connection with a link pair: requests on handle 0, responses on handle 1 with maximum credit.
fn pair(address: std::net::SocketAddr, incoming_window: u32) -> Peer {
    let mut peer = Peer::open_with(address, 131_072, incoming_window);
    let properties = EncodedMap::new().with("paired", true);
    for role in [Role::Sender, Role::Receiver] {
        peer.send(&of(0, &management_link(role, &properties).into()));
        peer.expect("attach", |performative| matches!(performative, Performative::Attach(_)));
    }
    peer.send(&of(0, &Flow { incoming_window, ..grant(1, u32::MAX) }.into()));
    peer
}

fn request(id: u64, method: &str, target: &str, body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    let properties = Properties {
        message_id: Some(MessageId::Ulong(id)),
        to: Some(target),
        subject: Some(method),
        reply_to: Some("$me"),
        ..Properties::default()
    };
    properties.encode(&mut payload);
    write_value_raw(&mut payload, |out| out.extend_from_slice(body));
    transfer(0, u32::try_from(id).expect("few"), &payload, |transfer| transfer.settled = Some(true))
}

#[test]
fn an_invalid_request_ends_the_link() {
    let (node, canary) = stage(Options::new());
    let before = node.resident_bytes();
    for (what, value) in absurd_values() {
        for (place, body) in [("a body", value.clone()), ("an argument", map_of("arguments", &map_of("x", &value)))] {
            let mut peer = pair(node.amqp(), 1000);
            peer.send(&request(0, "PUT", "/queues/hostile.absurd", &body));
            let refusal = peer.refusal(place);
            let expected = (Ended::Link, condition::DECODE_ERROR.as_str());
            assert_eq!((refusal.ended, refusal.condition.as_str()), expected, "{what} as {place}: {refusal:?}");
            peer.still_served(what);
        }
    }
    canary.sings("requests that are none");
    assert_grown(&node, before, 16, "requests that are none");
    finish(&node, canary);
}

/// Well-formed requests that can't be served: each gets a response.
#[test]
fn requests_for_nonsense_are_answered() {
    let (node, canary) = stage(Options::new());
    let mut peer = pair(node.amqp(), 1000);
    let long = "n".repeat(60_000);
    let many: Vec<u8> = (0..5000).flat_map(|at| [string(&format!("argument-{at}")), vec![0x41]].concat()).collect();
    let many = compound(0xD1, 10_000, &many);
    for (id, (method, target, body)) in [
        ("PUT", format!("/queues/{long}"), vec![0x40]),
        ("PUT", "/queues/q".to_owned(), map_of(&long, &[0x40])),
        ("PUT", "/queues/q".to_owned(), map_of("arguments", &many)),
        ("PUT", "/queues/q".to_owned(), map_of("durable", &string(&long))),
        ("POST", "/bindings".to_owned(), map_of("source", &string(&long))),
        ("GET", format!("/bindings?src={long}&dstq=q&key="), vec![0x40]),
        ("GET", format!("/bindings?{}", "a&".repeat(4000)), vec![0x40]),
        ("DELETE", format!("/bindings/{long}"), vec![0x40]),
        (&*long, "/queues/q".to_owned(), vec![0x40]),
        ("GET", "/".repeat(8000), vec![0x40]),
    ]
    .into_iter()
    .enumerate()
    {
        peer.send(&request(id as u64, method, &target, &body));
        let body = peer.expect("a response", |performative| matches!(performative, Performative::Transfer(_)));
        let (_, payload) = Performative::decode(&body).expect("a transfer");
        assert!(payload.len() < 100_000, "{} bytes of response", payload.len());
    }
    peer.still_served("nonsense");
    finish(&node, canary);
}

/// Responses wait for the client's window, and requests for responses: no more credit is granted.
#[test]
fn unreceived_responses_stop_credit() {
    let (node, canary) = stage(Options::new());
    let before = node.resident_bytes();
    let mut peers = Vec::new();
    for _ in 0..4 {
        let mut peer = pair(node.amqp(), 0);
        peer.still_served("a link pair");
        let key = "k".repeat(60_000);
        let requests: Vec<u8> =
            (0..1000).flat_map(|id| request(id, "GET", &format!("/bindings?src=&dstq=q&key={key}"), &[0x40])).collect();
        peer.send(&requests);
        let refusal = peer.refusal("requests without end");
        let expected = (Ended::Link, condition::TRANSFER_LIMIT_EXCEEDED.as_str());
        assert_eq!((refusal.ended, refusal.condition.as_str()), expected, "{refusal:?}");
        peer.still_served("requests without end");
        peers.push(peer);
    }
    canary.sings("requests without end");
    // They requested 240 MiB.
    assert_grown(&node, before, 32, "responses that nobody takes");
    drop(peers);
    finish(&node, canary);
}
