//! Connections with many objects of one kind, driven without sockets. Each call into the broker is one turn of a
//! core.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leveret_broker::Connection;
use leveret_strict_client::{amqp10, amqp091};

use crate::session::{Nobody, Stage};

/// Most bytes in one read of a socket.
const READ_MAX: usize = 32 << 10;

/// A client of either protocol.
pub(crate) trait CrowdClient {
    /// Bytes for the broker.
    fn output(&mut self) -> &mut Vec<u8>;
    /// Processes bytes of the broker. Returns the number of bytes processed.
    fn receive(&mut self, input: &[u8]) -> usize;
}

/// An AMQP 0-9-1 client that counts deliveries.
pub(crate) struct PlainClient {
    pub(crate) client: amqp091::Client,
    pub(crate) delivered: u64,
    pub(crate) last_tag: u64,
}

impl CrowdClient for PlainClient {
    fn output(&mut self) -> &mut Vec<u8> {
        self.client.output()
    }

    fn receive(&mut self, input: &[u8]) -> usize {
        let mut events = Vec::new();
        let used = self.client.receive(input, &mut events).expect("the broker keeps to the specification");
        for event in events {
            if let amqp091::Event::Delivered(delivery) = event {
                self.delivered += 1;
                self.last_tag = delivery.delivery_tag;
            }
        }
        used
    }
}

impl CrowdClient for amqp10::Client {
    fn output(&mut self) -> &mut Vec<u8> {
        amqp10::Client::output(self)
    }

    fn receive(&mut self, input: &[u8]) -> usize {
        amqp10::Client::receive(self, input, &mut Vec::new()).expect("the broker keeps to the specification")
    }
}

/// A client and its connection.
pub(crate) struct CrowdMember<C> {
    pub(crate) client: C,
    pub(crate) connection: Connection,
    unread: Vec<u8>,
    /// Number of bytes already read.
    read: usize,
    /// The longest turn since the last reading.
    longest: Duration,
}

impl<C: CrowdClient> CrowdMember<C> {
    pub(crate) fn new(stage: &Stage, port: u16, client: C) -> Self {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let peer = leveret_broker::Peer::new(address(port), address(5672));
        let connection = stage.broker.accept(&stage.broker.protocols, peer, Arc::new(Nobody), 0, stage.now);
        Self { client, connection, unread: Vec::new(), read: 0, longest: Duration::ZERO }
    }

    /// Passes the client's output to the connection, lets the disk write, and passes replies to the client, until all
    /// is done.
    pub(crate) fn exchange(&mut self, stage: &mut Stage) {
        let mut answers = Vec::new();
        let mut moved = true;
        while moved {
            if self.read == self.unread.len() {
                self.unread.clear();
                self.read = 0;
                self.unread.append(self.client.output());
            }
            let until = self.unread.len().min(self.read + READ_MAX);
            moved = self.connection.wants_read() && until > self.read;
            let began = (stage.clock)();
            if moved {
                self.read += stage.call(|| self.connection.receive(&self.unread[self.read..until], stage.now));
            }
            stage.call(|| self.connection.turn(stage.now));
            self.longest = self.longest.max((stage.clock)() - began);
            self.do_deferred(stage);
            moved |= stage.write() || self.connection.wants_turn();
            let output = self.connection.output();
            let written = output.len();
            if written > 0 {
                answers.extend_from_slice(&output.pending()[..written]);
                output.written(written);
                let used = self.client.receive(&answers);
                answers.drain(..used);
                moved = true;
            }
        }
    }

    /// Does the work that queues left for their core, in turns of it.
    fn do_deferred(&mut self, stage: &Stage) {
        let mut has_more = true;
        while has_more {
            let began = (stage.clock)();
            has_more = stage.broker.deferred_turn(0, stage.now);
            self.longest = self.longest.max((stage.clock)() - began);
        }
    }

    /// Cuts the connection.
    pub(crate) fn cut(&mut self, stage: &mut Stage) {
        let began = (stage.clock)();
        self.connection.disconnected(stage.now);
        self.longest = self.longest.max((stage.clock)() - began);
        self.exchange(stage);
    }

    /// The longest turn since the last call.
    pub(crate) fn longest(&mut self) -> Duration {
        std::mem::take(&mut self.longest)
    }
}
