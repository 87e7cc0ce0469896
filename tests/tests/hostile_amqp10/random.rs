//! Random bytes: a valid conversation with some bytes changed.

use std::net::Shutdown;

use leveret_amqp10::message::{Header, write_data};
use leveret_amqp10::performative::Disposition;
use leveret_amqp10::{DeliveryState, Role};
use leveret_tests::node::Options;
use leveret_tests::random::Random;

use super::canary::{assert_grown, declare, finish, stage};
use super::peer::{Peer, begin, detach, end, grant, of, receiver, sender, transfer};

fn conversation() -> Vec<u8> {
    let queue = "/queues/hostile.random";
    let mut payload = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut payload);
    write_data(&mut payload, b"at random");
    let state = Some(DeliveryState::Accepted);
    let settle = Disposition { role: Role::Receiver, first: 0, last: Some(2), settled: true, state, batchable: false };
    [
        sender(0, 0, "sender", queue),
        receiver(0, 1, "receiver", queue, false),
        of(0, &grant(1, 10).into()),
        transfer(0, 0, &payload, |_| {}),
        transfer(0, 1, &payload, |transfer| transfer.more = true),
        transfer(0, 1, b"", |transfer| transfer.delivery_tag = None),
        transfer(0, 2, &payload, |transfer| transfer.settled = Some(true)),
        of(0, &settle.into()),
        begin(1),
        sender(1, 0, "other", "/exchanges/amq.fanout/key"),
        detach(1, 0),
        end(1),
        detach(0, 1),
        detach(0, 0),
        end(0),
    ]
    .concat()
}

#[test]
fn bytes_at_random_end_only_their_own_connection() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), "hostile.random");
    let mut before = 0;
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    for round in 0..1000 {
        let mut bytes = conversation();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            let octet = random.next().to_le_bytes()[0];
            match random.below(4) {
                0 => bytes[at] = octet,
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at, octet),
                // For sizes and counts, the largest value is the worst.
                _ => bytes[at] = 0xff,
            }
        }
        let mut peer = Peer::open(node.amqp());
        peer.try_send(&bytes);
        // Every byte is processed before the end.
        let _ = peer.socket.shutdown(Shutdown::Write);
        peer.until_closed();
        if round == 300 {
            // The allocator has reached its working size by now.
            before = node.resident_bytes();
        }
        if round % 50 == 0 {
            canary.sings("a round of random bytes");
        }
    }
    canary.sings("random bytes");
    assert_grown(&node, before, 24, "random bytes");
    finish(&node, canary);
}
