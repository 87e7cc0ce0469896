//! A connection, before and after its first eight bytes have decided on the protocol.

use std::sync::Arc;

use leveret_metrics::Totals;
use leveret_model::ConnectionId;

use crate::broker::Broker;
use crate::foreign::Foreign;
use crate::group::GroupSlot;
use crate::log_lines::Told;
use crate::outbox::{Event, Outbox, Wake};
use crate::output::Output;
use crate::peer::Peer;
use crate::protocol::{Accepted, Protocol, Protocols, Recognised, Session, Spoken};
use crate::time::{Nanos, Now};
use crate::traffic::{CoreCounters, Traffic};
use crate::unauthenticated::Part;

/// Number of bytes to wait for before a protocol is reported as unknown: the length of AMQP's headers.
const HEADER_BYTES: usize = 8;

/// One client connection, driven by its task: bytes in, bytes out, time as a parameter.
///
/// The task calls [`Connection::receive`] with what it read, [`Connection::turn`] after that and when it
/// was woken or a deadline passed, and writes [`Connection::output`].
pub struct Connection {
    state: State,
    outbox: Arc<Outbox>,
    /// Its budget of kept input, until it has logged in.
    unauthenticated: Option<Part>,
}

enum State {
    /// The first bytes haven't arrived.
    Unknown(Box<Unknown>),
    Known(Box<dyn Session>),
}

/// A connection whose protocol isn't known yet.
struct Unknown {
    broker: Arc<Broker>,
    id: ConnectionId,
    peer: Peer,
    outbox: Arc<Outbox>,
    counters: Arc<CoreCounters>,
    group_slot: Arc<GroupSlot>,
    /// Protocols that its listener accepts.
    protocols: Protocols,
    output: Output,
    deadline: Nanos,
    /// Time when it was accepted.
    connected: Nanos,
    events: Vec<Event>,
    finished: bool,
    gone: bool,
}

impl Broker {
    /// A new connection on `core`, whose socket was accepted at `now` by a listener for `protocols`; its task is woken by
    /// `wake`.
    pub fn accept(
        self: &Arc<Self>,
        protocols: &Protocols,
        peer: Peer,
        wake: Arc<dyn Wake>,
        core: usize,
        now: Now,
    ) -> Connection {
        let id = ConnectionId(self.fresh_id());
        let outbox = Arc::new(Outbox::new(wake));
        let counters = self.connected(id, outbox.clone(), core);
        let unauthenticated = Some(Part::new(self.unauthenticated.clone(), id, outbox.clone()));
        let unknown = Unknown {
            id,
            peer,
            outbox: outbox.clone(),
            counters,
            group_slot: self.group_slot(core).clone(),
            protocols: protocols.clone(),
            output: Output::default(),
            deadline: now.monotonic + self.settings.handshake_timeout_ms * 1_000_000,
            connected: now.monotonic,
            events: Vec::new(),
            finished: false,
            gone: false,
            broker: self.clone(),
        };
        Connection { state: State::Unknown(Box::new(unknown)), outbox, unauthenticated }
    }
}

impl Connection {
    /// One whose session is known from the beginning: a link between nodes, of whom no list knows. `outbox` is the session's.
    pub fn of_session(outbox: Arc<Outbox>, session: Box<dyn Session>) -> Self {
        Self { state: State::Known(session), outbox, unauthenticated: None }
    }

    /// Handles input; returns how many bytes it used. The rest is a partial frame, or held back while
    /// [`Connection::wants_read`] is false: it has to be offered again together with the following bytes.
    pub fn receive(&mut self, input: &[u8], now: Now) -> usize {
        let unknown = match &mut self.state {
            State::Known(session) => return session.receive(input, now),
            State::Unknown(unknown) if unknown.finished => return input.len(),
            State::Unknown(unknown) => unknown,
        };
        match unknown.recognise(input) {
            Found::Nothing => {
                unknown.refuse(&input[..input.len().min(HEADER_BYTES)]);
                input.len()
            }
            Found::Perhaps => 0,
            Found::Spoken(spoken, protocol, header) => {
                unknown.told(&unknown.peer.connection_name()).accepted();
                let accepted = unknown.client(spoken, now);
                self.state = State::Known(protocol.begin(accepted, now));
                header + self.receive(&input[header..], now)
            }
        }
    }

    /// Sets the number of input bytes kept for the connection. They count in [`crate::Unauthenticated`] until it has logged in, and
    /// in [`crate::Broker::unfinished_bytes`].
    pub fn keeps(&mut self, bytes: usize) {
        self.outbox.set_kept(bytes);
        let Some(part) = &mut self.unauthenticated else { return };
        let logged_in = match &self.state {
            State::Unknown(_) => false,
            State::Known(session) => session.is_logged_in(),
        };
        match logged_in {
            true => self.unauthenticated = None,
            false => part.set(bytes),
        }
    }

    /// Bytes of memory that its unfinished input takes: messages that came in only partly, input that is kept, open transactions.
    pub fn unfinished_bytes(&self) -> u64 {
        self.outbox.unfinished_bytes()
    }

    /// Does due work, such as confirms, deliveries and deadlines, up to one write's worth.
    pub fn turn(&mut self, now: Now) {
        match &mut self.state {
            State::Unknown(unknown) => unknown.turn(now),
            State::Known(session) => session.turn(now),
        }
    }

    /// Whether the last turn left work behind: write the output, then call it again.
    pub fn wants_turn(&self) -> bool {
        match &self.state {
            State::Unknown(_) => false,
            State::Known(session) => session.wants_turn(),
        }
    }

    /// False while backpressure applies: don't read its socket until a turn has changed that; then offer kept input again even
    /// if no new bytes arrived.
    pub fn wants_read(&self) -> bool {
        match &self.state {
            State::Unknown(unknown) => !unknown.finished,
            State::Known(session) => session.wants_read(),
        }
    }

    /// Counts bytes that were read from its socket and written to it.
    pub fn transferred(&mut self, read: usize, written: usize, now: Now) {
        let (read, written) = (read as u64, written as u64);
        match &mut self.state {
            State::Unknown(unknown) => unknown.counters.core.add(&Totals {
                bytes_in: read,
                bytes_out: written,
                reads: u64::from(read > 0),
                writes: u64::from(written > 0),
                ..Totals::default()
            }),
            State::Known(session) => session.transferred(read, written, now),
        }
    }

    /// Output for the socket.
    pub fn output(&mut self) -> &mut Output {
        match &mut self.state {
            State::Unknown(unknown) => &mut unknown.output,
            State::Known(session) => session.output(),
        }
    }

    /// Time of the next [`Connection::turn`] at the latest.
    pub fn next_deadline(&self) -> Option<Nanos> {
        match &self.state {
            State::Unknown(unknown) => Some(unknown.deadline),
            State::Known(session) => session.next_deadline(),
        }
    }

    /// Time of the next [`Connection::turn`], to the millisecond, while it is a paced publisher's.
    pub fn next_pace(&self) -> Option<Nanos> {
        match &self.state {
            State::Unknown(_) => None,
            State::Known(session) => session.next_pace(),
        }
    }

    /// Whether its socket has to be closed at once, whatever is left to write.
    pub fn is_killed(&self) -> bool {
        self.outbox.is_killed()
    }

    /// Whether the connection is over: close the socket once the output is written.
    pub fn is_finished(&self) -> bool {
        match &self.state {
            State::Unknown(unknown) => unknown.finished,
            State::Known(session) => session.is_finished(),
        }
    }

    /// Whether it is ending and one turn couldn't end everything: call [`Connection::turn`] until this is false.
    pub fn is_ending(&self) -> bool {
        match &self.state {
            State::Unknown(_) => false,
            State::Known(session) => session.is_ending(),
        }
    }

    /// The socket is closed; [`Connection::is_ending`] tells whether turns have to follow. Idempotent; also called after
    /// [`Connection::is_finished`].
    pub fn disconnected(&mut self, now: Now) {
        self.unauthenticated = None;
        match &mut self.state {
            State::Unknown(unknown) => unknown.disconnected(now),
            State::Known(session) => session.disconnected(now),
        }
    }
}

/// The protocol of a connection, by its first bytes.
enum Found {
    /// No protocol begins with these.
    Nothing,
    /// More bytes are needed.
    Perhaps,
    /// A protocol, and the length of its header in bytes.
    Spoken(Spoken, Arc<dyn Protocol>, usize),
}

impl Unknown {
    fn recognise(&self, input: &[u8]) -> Found {
        let mut found = Found::Nothing;
        for (spoken, protocol) in self.protocols.iter() {
            match protocol.recognise(input) {
                Recognised::Yes(header) => return Found::Spoken(spoken, protocol.clone(), header),
                Recognised::Perhaps => found = Found::Perhaps,
                Recognised::No => {}
            }
        }
        found
    }

    /// The parameters of a new session of this protocol.
    fn client(&self, spoken: Spoken, now: Now) -> Accepted {
        let counted = &self.counters.by_protocol[spoken.at];
        Accepted {
            broker: self.broker.clone(),
            id: self.id,
            peer: self.peer.clone(),
            outbox: self.outbox.clone(),
            counters: Box::new(Traffic::new(counted.counters.clone(), counted.sizes.clone(), now.monotonic)),
            group_slot: self.group_slot.clone(),
            spoken,
            deadline: self.deadline,
        }
    }

    /// Answers a client of a protocol that isn't accepted here, in its own protocol if that is recognised, and ends the
    /// connection.
    fn refuse(&mut self, received: &[u8]) {
        self.finished = true;
        if let Some(foreign) = Foreign::recognise(received) {
            self.told(&self.peer.connection_name()).foreign(foreign.reason());
            let http = self.broker.http_port.get().copied();
            self.output.buffer().extend(foreign.answer(self.peer.local.port(), http));
            return;
        }
        let answer = self.protocols.iter().find_map(|(_, protocol)| protocol.refusal(received)).unwrap_or_default();
        let why = format!("bad_header: {received:?} is nothing that is spoken here; the answer is {answer:?}");
        self.told(&self.peer.connection_name()).failed("pre_init", &why);
        self.output.buffer().extend_from_slice(answer);
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
