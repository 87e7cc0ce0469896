//! Known traffic over both protocols.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use leveret_amqp10::Serial;
use leveret_strict_client::amqp10::Send;
use leveret_tests::amqp10::Amqp10;
use leveret_tests::wire::{Frame, Wire, Writer, method, method_frame, publish};

const TINY: [u8; 50] = [b't'; 50];
const SMALL: [u8; 500] = [b's'; 500];
const MEDIUM: [u8; 5000] = [b'm'; 5000];

/// Persistent clients, and the number of rounds played.
pub(crate) struct Traffic {
    address: SocketAddr,
    publisher: Wire,
    /// Consumes with acknowledgements.
    taker: Wire,
    /// Consumes without acknowledgements.
    reader: Wire,
    /// Uses basic.get.
    getter: Wire,
    peer: Amqp10,
    rounds: u64,
    confirmed: u64,
}

/// A data section of 20 bytes, 25 with its header.
fn payload() -> Vec<u8> {
    let mut payload = vec![0x00, 0x53, 0x75, 0xa0, 20];
    payload.extend([b'x'; 20]);
    payload
}

impl Traffic {
    /// Five connections, five queues, three consumers.
    pub(crate) fn begin(address: SocketAddr) -> Self {
        let [mut publisher, mut taker, mut reader, getter] = [(); 4].map(|()| Wire::open(address));
        for queue in ["taken", "read", "got", "empty", "peer"] {
            publisher.declare(1, queue, true);
        }
        publisher.confirm_select(1);
        taker.consume(1, "taken", false);
        reader.consume(1, "read", true);
        let mut peer = Amqp10::open(address);
        peer.sender(0, "/queues/peer");
        peer.receiver(1, "/queues/peer", 0);
        Self { address, publisher, taker, reader, getter, peer, rounds: 0, confirmed: 0 }
    }

    /// Plays a round; all rounds are the same. When it returns everything is complete except for the last
    /// acknowledgements.
    pub(crate) fn round(&mut self) {
        self.rounds += 1;
        let bodies = std::iter::repeat_n(&TINY[..], 10).chain([&SMALL[..], &SMALL, &MEDIUM]);
        let mut bytes: Vec<u8> = bodies.flat_map(|body| publish(1, "", "taken", body, false, true)).collect();
        for queue in ["read", "read", "got", "got", "got", "nowhere"] {
            bytes.extend(publish(1, "", queue, &TINY, false, true));
        }
        bytes.extend(publish(1, "", "nowhere", &TINY, true, true));
        self.publisher.send(&bytes);
        self.confirmations(20);
        self.peer();
        let mut last = 0;
        for at in 0..13 {
            let (tag, ..) = self.taker.delivery();
            if at < 10 {
                last = tag;
            }
        }
        // Deliveries of earlier rounds stay unacknowledged.
        (last - 9..=last).for_each(|tag| self.taker.ack(1, tag, false));
        (0..2).for_each(|_| drop(self.reader.delivery()));
        self.gets();
        self.comings_and_goings();
    }

    /// Reads the confirms of this round, and the returned message.
    fn confirmations(&mut self, count: u64) {
        let wanted = self.confirmed + count;
        let mut returned = false;
        while self.confirmed < wanted || !returned {
            let frame = self.publisher.next_frame().expect("a confirm or a return");
            match frame.method() {
                Some(method::BASIC_RETURN) => {
                    self.publisher.content().expect("what came back");
                    returned = true;
                }
                Some(method::BASIC_ACK) => {
                    let mut arguments = frame.arguments();
                    let (tag, multiple) = (arguments.long_long(), arguments.octet() & 1 == 1);
                    self.confirmed = if multiple { tag } else { self.confirmed + 1 };
                }
                _ => panic!("a confirm or a return expected: {frame:?}"),
            }
        }
    }

    /// Sends four messages over AMQP 1.0, of which two are consumed.
    fn peer(&mut self) {
        let ids: Vec<Serial> = (0..4).map(|_| self.peer.send(0, &payload(), &Send::default())).collect();
        for id in ids {
            self.peer.outcome(id);
        }
        self.peer.grant(1, 2);
        for _ in 0..2 {
            let message = self.peer.receive(1);
            self.peer.accept(&message);
        }
    }

    fn get(&mut self, queue: &str, no_ack: bool) -> Option<u64> {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(queue).put_octet(u8::from(no_ack));
        self.getter.send(&method_frame(1, method::BASIC_GET, &arguments));
        let frame: Frame = self.getter.next_frame().expect("an answer");
        if frame.method() == Some(method::BASIC_GET_EMPTY) {
            return None;
        }
        assert_eq!(frame.method(), Some(method::BASIC_GET_OK));
        let tag = frame.arguments().long_long();
        self.getter.content().expect("a message");
        Some(tag)
    }

    /// Gets: one acknowledged, one requeued, that one again without acknowledgement, and one from an empty queue.
    fn gets(&mut self) {
        let tag = self.get("got", false).expect("a message");
        self.getter.ack(1, tag, false);
        let tag = self.get("got", false).expect("a message");
        let mut arguments = Writer::new();
        arguments.put_long_long(tag).put_octet(0b10);
        self.getter.send(&method_frame(1, method::BASIC_NACK, &arguments));
        self.get("got", true).expect("the same again");
        assert_eq!(self.get("empty", false), None);
    }

    /// Opens and closes a queue, a channel and a connection.
    fn comings_and_goings(&mut self) {
        self.getter.declare(1, "passing", true);
        self.getter.declare(1, "passing", true);
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string("passing").put_octet(0);
        self.getter.call(1, method::QUEUE_DELETE, &arguments, method::QUEUE_DELETE_OK);
        self.getter.open_channel(2);
        let mut arguments = Writer::new();
        arguments.put_short(200).put_short_string("done").put_short(0).put_short(0);
        self.getter.call(2, method::CHANNEL_CLOSE, &arguments, method::CHANNEL_CLOSE_OK);
        Wire::open(self.address).close();
    }

    /// The expected totals, by the names in overview.tsv.
    pub(crate) fn facts(&self) -> BTreeMap<&'static str, f64> {
        let n = self.rounds as f64;
        let bytes = 17.0 * TINY.len() as f64 + 2.0 * SMALL.len() as f64 + MEDIUM.len() as f64;
        BTreeMap::from([
            ("nothing", 0.0),
            ("nodes", 1.0),
            ("connections", 5.0),
            ("connections_opened", 5.0 + n),
            ("connections_closed", n),
            ("channels", 4.0),
            ("channels_opened", 4.0 + 2.0 * n),
            ("channels_closed", 2.0 * n),
            ("publishers", 2.0),
            ("consumers", 3.0),
            ("queues", 5.0),
            ("queues_declared", 5.0 + 2.0 * n),
            ("queues_created", 5.0 + n),
            ("queues_deleted", n),
            ("received", 24.0 * n),
            ("confirmed", 24.0 * n),
            ("routed", 22.0 * n),
            ("dropped", n),
            ("returned", n),
            ("delivered", 20.0 * n),
            ("consumed", 17.0 * n),
            ("consumed_manual_ack", 15.0 * n),
            ("consumed_auto_ack", 2.0 * n),
            ("got_manual_ack", 2.0 * n),
            ("got_auto_ack", n),
            ("got_nothing", n),
            ("redelivered", n),
            ("acknowledged", 13.0 * n),
            ("ready", 3.0 * n),
            ("unacked", 3.0 * n),
            ("average_size", (bytes + 4.0 * payload().len() as f64) / 24.0),
            ("share_tiny", 21.0 / 24.0),
            ("share_small", 2.0 / 24.0),
            ("share_medium", 1.0 / 24.0),
        ])
    }
}
