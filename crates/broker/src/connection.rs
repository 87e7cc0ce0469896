//! A connection before and after its first eight bytes decided on the protocol.

use core::net::SocketAddr;
use std::sync::Arc;

use leveret_amqp091::PROTOCOL_HEADER;
use leveret_metrics::Counters;
use leveret_model::ConnectionId;

use crate::amqp091::Session;
use crate::broker::Broker;
use crate::outbox::Outbox;
use crate::output::Output;
use crate::time::{Nanos, Now};

/// Where a connection comes from.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The client's address.
    pub address: SocketAddr,
    /// Ours.
    pub local: SocketAddr,
}

impl Peer {
    /// RabbitMQ's name of a connection.
    pub fn connection_name(&self) -> String {
        format!("{} -> {}", self.address, self.local)
    }
}

/// One client connection, driven by its task: bytes in, bytes out, time as a parameter.
///
/// The task calls [`Connection::receive`] with what it read, [`Connection::turn`] after that and when it
/// was woken or a deadline passed, and writes [`Connection::output`].
pub struct Connection {
    session: Session,
    started: bool,
}

impl Connection {
    pub(crate) fn new(
        broker: Arc<Broker>,
        id: ConnectionId,
        peer: Peer,
        outbox: Arc<Outbox>,
        counters: Arc<Counters>,
        now: Now,
    ) -> Self {
        Self { session: Session::new(broker, id, peer, outbox, counters, now), started: false }
    }

    /// Handles input; returns how many bytes it used. The rest is a partial frame, or held back while
    /// [`Connection::wants_read`] is false: it is offered again together with what follows.
    pub fn receive(&mut self, input: &[u8], now: Now) -> usize {
        if self.started {
            return self.session.receive(input, now);
        }
        let seen = input.len().min(PROTOCOL_HEADER.len());
        if input[..seen] != PROTOCOL_HEADER[..seen] {
            // What isn't spoken is answered with what is (specification 4.2.2).
            self.session.refuse_protocol(&input[..seen]);
            return input.len();
        }
        if seen < PROTOCOL_HEADER.len() {
            return 0;
        }
        self.started = true;
        self.session.start(now);
        seen + self.session.receive(&input[seen..], now)
    }

    /// Confirms, deliveries, deadlines: whatever is due, up to one write's worth.
    pub fn turn(&mut self, now: Now) {
        self.session.turn(now);
    }

    /// The last turn left work behind: write, then call it again.
    pub fn wants_turn(&self) -> bool {
        self.session.wants_turn()
    }

    /// False while the connection is held back: don't read its socket until a turn changed that; then
    /// offer kept input again even if nothing new came.
    pub fn wants_read(&self) -> bool {
        self.session.wants_read()
    }

    /// What the socket is to take.
    pub fn output(&mut self) -> &mut Output {
        self.session.output()
    }

    /// When to call [`Connection::turn`] at the latest.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.session.next_deadline()
    }

    /// Nothing more will come: close the socket once the output is written.
    pub fn is_finished(&self) -> bool {
        self.session.is_finished()
    }

    /// The socket is gone. Idempotent; also called after [`Connection::is_finished`].
    pub fn disconnected(&mut self, now: Now) {
        self.session.disconnected(now);
    }
}
