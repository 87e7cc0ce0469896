//! A connection before and after its first eight bytes decided on the protocol.

use std::sync::Arc;

use leveret_amqp10::{HEADER_AMQP, HEADER_SASL};
use leveret_amqp091::PROTOCOL_HEADER;
use leveret_metrics::Totals;
use leveret_model::ConnectionId;

use crate::amqp10;
use crate::amqp091;
use crate::broker::Broker;
use crate::client_connection::ClientConnection;
use crate::foreign::Foreign;
use crate::outbox::{Event, Outbox, Wake};
use crate::output::Output;
use crate::peer::Peer;
use crate::time::{Nanos, Now};
use crate::told::Told;
use crate::traffic::{CoreCounters, Protocol, Traffic};
use crate::unauthenticated::Part;

/// One client connection, driven by its task: bytes in, bytes out, time as a parameter.
///
/// The task calls [`Connection::receive`] with what it read, [`Connection::turn`] after that and when it
/// was woken or a deadline passed, and writes [`Connection::output`].
pub struct Connection {
    protocol: Protocols,
    /// What is kept of its input, as long as it hasn't logged in.
    unauthenticated: Option<Part>,
}

enum Protocols {
    /// The first eight bytes haven't come.
    Unknown(Box<Unknown>),
    Amqp091(Box<amqp091::Session>),
    Amqp10(Box<amqp10::Connection>),
}

/// A connection that hasn't said what it speaks.
struct Unknown {
    broker: Arc<Broker>,
    id: ConnectionId,
    peer: Peer,
    outbox: Arc<Outbox>,
    counters: CoreCounters,
    output: Output,
    deadline: Nanos,
    /// When it was accepted.
    connected: Nanos,
    events: Vec<Event>,
    finished: bool,
    gone: bool,
}

impl Broker {
    /// A new connection on `core`, whose socket was accepted at `now`; its task is woken by `wake`.
    pub fn accept(self: &Arc<Self>, peer: Peer, wake: Arc<dyn Wake>, core: usize, now: Now) -> Connection {
        let id = ConnectionId(self.fresh_id());
        let outbox = Arc::new(Outbox::new(wake));
        let counters = self.connected(id, outbox.clone(), core);
        Connection::new(self.clone(), id, peer, outbox, counters, now)
    }
}

impl Connection {
    fn new(
        broker: Arc<Broker>,
        id: ConnectionId,
        peer: Peer,
        outbox: Arc<Outbox>,
        counters: CoreCounters,
        now: Now,
    ) -> Self {
        let deadline = now.monotonic + broker.settings.handshake_timeout_ms * 1_000_000;
        let output = Output::default();
        let unauthenticated = Some(Part::new(broker.unauthenticated.clone(), id, outbox.clone()));
        let unknown = Unknown {
            broker,
            id,
            peer,
            outbox,
            counters,
            output,
            deadline,
            connected: now.monotonic,
            events: Vec::new(),
            finished: false,
            gone: false,
        };
        Self { protocol: Protocols::Unknown(Box::new(unknown)), unauthenticated }
    }

    /// Handles input; returns how many bytes it used. The rest is a partial frame, or held back while
    /// [`Connection::wants_read`] is false: it is offered again together with what follows.
    pub fn receive(&mut self, input: &[u8], now: Now) -> usize {
        match &mut self.protocol {
            Protocols::Amqp091(session) => return session.receive(input, now),
            Protocols::Amqp10(connection) => return connection.receive(input, now),
            Protocols::Unknown(unknown) if unknown.finished => return input.len(),
            Protocols::Unknown(_) => {}
        }
        let seen = input.len().min(PROTOCOL_HEADER.len());
        let begins = |header: [u8; 8]| input[..seen] == header[..seen];
        let known = [PROTOCOL_HEADER, HEADER_SASL, HEADER_AMQP].into_iter().any(begins);
        if known && seen < PROTOCOL_HEADER.len() {
            return 0;
        }
        let Protocols::Unknown(unknown) = &mut self.protocol else { return 0 };
        if begins(PROTOCOL_HEADER) {
            unknown.told(&unknown.peer.connection_name()).accepted();
            let mut session = amqp091::Session::new(unknown.client(Protocol::Amqp091, now));
            session.start(now);
            self.protocol = Protocols::Amqp091(Box::new(session));
        } else if begins(HEADER_SASL) {
            unknown.told(&unknown.peer.connection_name()).accepted();
            let mut connection = amqp10::Connection::new(unknown.client(Protocol::Amqp10, now));
            connection.start();
            self.protocol = Protocols::Amqp10(Box::new(connection));
        } else {
            unknown.refuse(&input[..seen]);
            return input.len();
        }
        seen + self.receive(&input[seen..], now)
    }

    /// So many bytes of its input are kept for the connection. Until it has logged in they count in
    /// [`crate::Unauthenticated`].
    pub fn keeps(&mut self, bytes: usize) {
        let Some(part) = &mut self.unauthenticated else { return };
        let logged_in = match &self.protocol {
            Protocols::Unknown(_) => false,
            Protocols::Amqp091(session) => session.client.is_logged_in(),
            Protocols::Amqp10(connection) => connection.client.is_logged_in(),
        };
        match logged_in {
            true => self.unauthenticated = None,
            false => part.set(bytes),
        }
    }

    /// Confirms, deliveries, deadlines: whatever is due, up to one write's worth.
    pub fn turn(&mut self, now: Now) {
        match &mut self.protocol {
            Protocols::Unknown(unknown) => unknown.turn(now),
            Protocols::Amqp091(session) => session.turn(now),
            Protocols::Amqp10(connection) => connection.turn(now),
        }
    }

    /// The last turn left work behind: write, then call it again.
    pub fn wants_turn(&self) -> bool {
        match &self.protocol {
            Protocols::Unknown(_) => false,
            Protocols::Amqp091(session) => session.wants_turn(),
            Protocols::Amqp10(connection) => connection.wants_turn(),
        }
    }

    /// False while the connection is held back: don't read its socket until a turn changed that; then
    /// offer kept input again even if nothing new came.
    pub fn wants_read(&self) -> bool {
        match &self.protocol {
            Protocols::Unknown(unknown) => !unknown.finished,
            Protocols::Amqp091(session) => session.wants_read(),
            Protocols::Amqp10(connection) => connection.wants_read(),
        }
    }

    /// So many bytes were read from its socket and written to it.
    pub fn transferred(&mut self, read: usize, written: usize, now: Now) {
        let (read, written) = (read as u64, written as u64);
        match &mut self.protocol {
            Protocols::Unknown(unknown) => unknown.counters.core.add(&Totals {
                bytes_in: read,
                bytes_out: written,
                reads: u64::from(read > 0),
                writes: u64::from(written > 0),
                ..Totals::default()
            }),
            Protocols::Amqp091(session) => session.client.counters.transferred(read, written, now.monotonic),
            Protocols::Amqp10(connection) => connection.client.counters.transferred(read, written, now.monotonic),
        }
    }

    /// What the socket is to take.
    pub fn output(&mut self) -> &mut Output {
        match &mut self.protocol {
            Protocols::Unknown(unknown) => &mut unknown.output,
            Protocols::Amqp091(session) => &mut session.client.output,
            Protocols::Amqp10(connection) => &mut connection.client.output,
        }
    }

    /// When to call [`Connection::turn`] at the latest.
    pub fn next_deadline(&self) -> Option<Nanos> {
        match &self.protocol {
            Protocols::Unknown(unknown) => Some(unknown.deadline),
            Protocols::Amqp091(session) => session.next_deadline(),
            Protocols::Amqp10(connection) => connection.next_deadline(),
        }
    }

    /// Nothing more will come: close the socket once the output is written.
    pub fn is_finished(&self) -> bool {
        match &self.protocol {
            Protocols::Unknown(unknown) => unknown.finished,
            Protocols::Amqp091(session) => session.is_finished(),
            Protocols::Amqp10(connection) => connection.is_finished(),
        }
    }

    /// It is ending, and more is left of it than one turn may end: call [`Connection::turn`] until nothing is.
    pub fn is_ending(&self) -> bool {
        match &self.protocol {
            Protocols::Unknown(_) => false,
            Protocols::Amqp091(session) => session.is_ending(),
            Protocols::Amqp10(connection) => connection.is_ending(),
        }
    }

    /// The socket is gone; [`Connection::is_ending`] tells whether turns have to follow. Idempotent; also called after [`Connection::is_finished`].
    pub fn disconnected(&mut self, now: Now) {
        self.unauthenticated = None;
        match &mut self.protocol {
            Protocols::Unknown(unknown) => unknown.disconnected(now),
            Protocols::Amqp091(session) => session.disconnected(now),
            Protocols::Amqp10(connection) => connection.disconnected(now),
        }
    }
}

impl Unknown {
    /// The common part of a new connection of this protocol.
    fn client(&self, protocol: Protocol, now: Now) -> ClientConnection {
        let counters = self.counters.by_protocol[protocol as usize].clone();
        let counters = Box::new(Traffic::new(counters, self.counters.sizes[protocol as usize].clone(), now.monotonic));
        let (broker, peer, outbox) = (self.broker.clone(), self.peer.clone(), self.outbox.clone());
        ClientConnection::new(broker, self.id, peer, outbox, counters, self.deadline, now)
    }

    /// What isn't spoken is answered with what is (AMQP 1.0 2.2, AMQP 0-9-1 4.2.2): AMQP 1.0 begins with SASL here.
    /// RabbitMQ 4.3 offers AMQP 0-9-1 to those only who came for another AMQP 0-9.
    fn refuse(&mut self, received: &[u8]) {
        self.finished = true;
        if let Some(foreign) = Foreign::recognise(received) {
            self.told(&self.peer.connection_name()).foreign(foreign.reason());
            let http = self.broker.http_port.get().copied();
            self.output.buffer().extend(foreign.answer(self.peer.local.port(), http));
            return;
        }
        let answer = if received.starts_with(b"AMQP\x00\x00\x09") { PROTOCOL_HEADER } else { HEADER_SASL };
        let why = format!("bad_header: {received:?} is nothing that is spoken here; the answer is {answer:?}");
        self.told(&self.peer.connection_name()).failed("pre_init", &why);
        self.output.buffer().extend_from_slice(&answer);
    }

    fn turn(&mut self, now: Now) {
        self.outbox.drain(&mut self.events);
        for event in std::mem::take(&mut self.events) {
            if let Event::Close(reason) | Event::Shed(reason) = event {
                self.told(&self.peer.connection_name()).cut(&reason, now);
                self.finished = true;
            }
        }
        if now.monotonic >= self.deadline && !self.finished {
            self.told(&self.peer.connection_name()).cut("handshake_timeout: no protocol header came in time", now);
            self.finished = true;
        }
    }

    fn told<'a>(&self, name: &'a str) -> Told<'a> {
        Told { id: self.id, name, client_name: "", vhost: "", user: "", connected: self.connected }
    }

    fn disconnected(&mut self, now: Now) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        if !self.finished {
            self.told(&self.peer.connection_name()).said_nothing(now);
        }
        self.finished = true;
        self.broker.forget_connection(self.id);
    }
}
