//! AMQP 1.0 on a blocking socket: the strict client with deadlines.
//!
//! Everything that the broker sends passes the strict client's checks; a broken rule fails the test. Events that a
//! test doesn't wait for are kept, so that waiting for one never loses another.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use leveret_amqp10::message::{BodyRef, Header, Sections, write_data};
use leveret_amqp10::performative::Attach;
use leveret_amqp10::transaction::Coordinator;
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{OwnedValue, Performative, Role, SenderSettleMode, Serial, Source, Target, TargetArchetype};
use leveret_strict_client::Violation;
use leveret_strict_client::amqp10::{Client, Event, Mechanism, Options, PeerError, Send, SessionOptions, State};

use crate::{PATIENCE, secrets};

/// The channel of the session begun by [`Amqp10::open`].
pub const CHANNEL: u16 = 0;

/// An event with the bytes that it refers to.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The event; its spans are no longer valid.
    pub event: Event,
    /// The payload of a delivery, the performative of an attach, or a challenge.
    pub bytes: Vec<u8>,
    /// The delivery-tag.
    pub tag: Vec<u8>,
}

impl Seen {
    /// The body of a delivery: its data sections joined.
    ///
    /// # Panics
    /// If it isn't a delivery of data.
    pub fn data(&self) -> Vec<u8> {
        match Sections::parse(&self.bytes).expect("a message").body {
            BodyRef::Data(data) => data.iter().flatten().copied().collect(),
            other => panic!("a body of data expected: {other:?}"),
        }
    }

    /// The sections of a delivery.
    ///
    /// # Panics
    /// If it isn't a message.
    pub fn sections(&self) -> Sections<'_> {
        Sections::parse(&self.bytes).expect("a message")
    }

    /// The number of a delivery.
    ///
    /// # Panics
    /// If it isn't a delivery.
    pub fn delivery_id(&self) -> Serial {
        match &self.event {
            Event::Delivered(delivery) => delivery.delivery_id,
            other => panic!("a delivery expected: {other:?}"),
        }
    }

    /// The performative of an attach.
    ///
    /// # Panics
    /// If it isn't one.
    pub fn attach(&self) -> Attach<'_> {
        match Performative::decode(&self.bytes) {
            Ok((Performative::Attach(attach), _)) => attach,
            other => panic!("an attach expected: {other:?}"),
        }
    }
}

/// The reason why no event came.
#[derive(Debug)]
pub enum Silence {
    /// The broker broke a rule.
    Violation(Violation),
    /// It closed the socket.
    Closed,
    /// It was silent for [`PATIENCE`](crate::PATIENCE).
    Patience,
}

/// A connection.
#[derive(Debug)]
pub struct Amqp10 {
    /// For operations without a method here; call [`flush`](Self::flush) afterwards.
    pub client: Client,
    /// For tests that write to it or close it directly.
    pub socket: TcpStream,
    input: Vec<u8>,
    filled: usize,
    /// Events that no test has waited for yet.
    pub backlog: VecDeque<Seen>,
}

impl Amqp10 {
    /// Connects, and writes the beginning of the handshake.
    ///
    /// # Panics
    /// If there is no listener.
    pub fn connect(address: SocketAddr, options: Options) -> Self {
        if let Mechanism::Plain { user, password } = &options.mechanism {
            secrets::used(user, password);
        }
        let socket = TcpStream::connect(address).expect("connect");
        socket.set_write_timeout(Some(PATIENCE)).expect("a write timeout");
        socket.set_nodelay(true).expect("no delay");
        let client = Client::new(options);
        let mut this = Self { client, socket, input: vec![0; 64 << 10], filled: 0, backlog: VecDeque::new() };
        this.flush();
        this
    }

    /// Connects as guest, with a session on [`CHANNEL`].
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn open(address: SocketAddr) -> Self {
        Self::open_with(address, Options::default(), SessionOptions::default())
    }

    /// Connects, with a session on [`CHANNEL`].
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn open_with(address: SocketAddr, options: Options, session: SessionOptions) -> Self {
        let mut this = Self::connect(address, options);
        this.wait("open", |event| matches!(event, Event::Opened { .. }));
        this.begin(CHANNEL, session);
        this
    }

    /// Begins a session.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn begin(&mut self, channel: u16, options: SessionOptions) {
        self.client.begin(channel, options);
        self.wait("begin", |event| matches!(event, Event::Begun { channel: begun, .. } if *begun == channel));
    }

    /// Attaches a sender and waits for its first credit.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn sender(&mut self, handle: u32, address: &str) {
        self.client.attach_sender(CHANNEL, handle, &format!("sender {handle}"), Some(address));
        self.attached(CHANNEL, handle);
        self.wait_credit(CHANNEL, handle);
    }

    /// Attaches a receiver of unsettled messages, and grants credit unless it is 0.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn receiver(&mut self, handle: u32, address: &str, credit: u32) {
        self.client.attach_receiver(CHANNEL, handle, &format!("receiver {handle}"), address, false);
        self.attached(CHANNEL, handle);
        if credit > 0 {
            self.grant(handle, credit);
        }
    }

    /// Attaches a link with all details, and returns the broker's attach.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn attach(&mut self, channel: u16, attach: &Attach<'_>) -> Seen {
        self.client.attach(channel, attach);
        let seen = self.attached(channel, attach.handle);
        assert_eq!(seen.attach().role, attach.role.opposite());
        if attach.role == Role::Sender {
            self.wait_credit(channel, attach.handle);
        }
        seen
    }

    /// Waits for the reply to an attach.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn attached(&mut self, channel: u16, handle: u32) -> Seen {
        let ours = |event: &Event| matches!(event, Event::Attached { channel: c, handle: h, .. } if (*c, *h) == (channel, handle));
        self.wait("attach", ours)
    }

    /// Waits until a sender has credit.
    ///
    /// # Panics
    /// When none comes.
    pub fn wait_credit(&mut self, channel: u16, handle: u32) {
        while self.client.credit(channel, handle) == 0 || self.client.window(channel) == 0 {
            self.read("credit");
        }
    }

    /// Grants a receiver on [`CHANNEL`] credit for this many messages from now on.
    pub fn grant(&mut self, handle: u32, credit: u32) {
        self.client.grant(CHANNEL, handle, credit, false);
        self.flush();
    }

    /// Sends one durable message of bytes on [`CHANNEL`], waiting for credit, and returns its delivery-id.
    ///
    /// # Panics
    /// If no credit comes.
    pub fn publish(&mut self, handle: u32, body: &[u8]) -> Serial {
        let mut payload = Vec::new();
        Header { durable: Some(true), ..Header::default() }.encode(&mut payload);
        write_data(&mut payload, body);
        self.send(handle, &payload, &Send::default())
    }

    /// Sends one message of sections on [`CHANNEL`], waiting for credit, and returns its delivery-id.
    ///
    /// # Panics
    /// If no credit comes.
    pub fn send(&mut self, handle: u32, payload: &[u8], options: &Send<'_>) -> Serial {
        loop {
            let tag = self.client.next_delivery_id(CHANNEL).0.to_be_bytes();
            if let Some(id) = self.client.send(CHANNEL, handle, &tag, payload, options) {
                self.flush();
                return id;
            }
            self.read("credit");
        }
    }

    /// Waits until the broker has settled a message that was sent on [`CHANNEL`], and returns its outcome.
    ///
    /// # Panics
    /// If it is settled without an outcome.
    pub fn outcome(&mut self, id: Serial) -> State {
        let about = move |event: &Event| {
            matches!(event, Event::Disposition { channel: CHANNEL, role: Role::Receiver, first, last, settled: true, .. }
                if id.is_within(*first, *last))
        };
        // One disposition may cover many messages: it is kept for callers that wait for the others.
        loop {
            if let Some(seen) = self.backlog.iter().find(|seen| about(&seen.event)) {
                let Event::Disposition { state, .. } = &seen.event else { unreachable!("it was matched") };
                return state.clone().unwrap_or_else(|| panic!("message {id} is settled without an outcome"));
            }
            self.read("an outcome");
        }
    }

    /// Sends one durable message and waits until it is accepted.
    ///
    /// # Panics
    /// If it isn't accepted.
    pub fn publish_accepted(&mut self, handle: u32, body: &[u8]) {
        let id = self.publish(handle, body);
        assert_eq!(self.outcome(id), State::Accepted);
    }

    /// Waits for a message on a link of [`CHANNEL`].
    ///
    /// # Panics
    /// When none comes.
    pub fn receive(&mut self, handle: u32) -> Seen {
        self.wait("a message", |event| {
            matches!(event, Event::Delivered(delivery) if (delivery.channel, delivery.handle) == (CHANNEL, handle))
        })
    }

    /// All messages that a receiver on [`CHANNEL`] gets, up to a thousand, until a drain has used up its credit. They aren't settled.
    ///
    /// # Panics
    /// If the drain never ends.
    pub fn drained(&mut self, handle: u32) -> Vec<Seen> {
        self.client.grant(CHANNEL, handle, 1_000, true);
        self.flush();
        let mut got = Vec::new();
        loop {
            let seen = self.wait("a message or the end of the drain", |event| match event {
                Event::Delivered(delivery) => (delivery.channel, delivery.handle) == (CHANNEL, handle),
                Event::LinkFlow { channel, handle: of, drained, .. } => {
                    *drained && (*channel, *of) == (CHANNEL, handle)
                }
                _ => false,
            });
            if !matches!(seen.event, Event::Delivered(_)) {
                return got;
            }
            got.push(seen);
        }
    }

    /// Accepts and settles a message of [`CHANNEL`].
    pub fn accept(&mut self, message: &Seen) {
        let id = message.delivery_id();
        self.client.accept(CHANNEL, id, id);
        self.flush();
    }

    /// Waits until the broker ends a link, session or connection with an error.
    ///
    /// # Panics
    /// If it ends one without an error.
    pub fn error(&mut self) -> PeerError {
        let ended = |event: &Event| {
            matches!(event, Event::Detached { by_peer: true, .. } | Event::Ended { by_peer: true, .. })
                || matches!(event, Event::Closed { by_peer: true, .. })
        };
        match self.wait_any("an error", ended).event {
            Event::Detached { error, .. } | Event::Ended { error, .. } | Event::Closed { error, .. } => {
                error.expect("the broker says why")
            }
            other => unreachable!("it was matched: {other:?}"),
        }
    }

    /// Lets everything arrive that the broker currently has to send on a session: requests a reply, and keeps all
    /// events before it in the backlog.
    ///
    /// # Panics
    /// If no reply comes.
    pub fn barrier(&mut self, channel: u16) {
        let window = SessionOptions::default().incoming_window;
        self.backlog.retain(|seen| !matches!(seen.event, Event::SessionFlow { channel: c, .. } if c == channel));
        self.client.set_window(channel, window, true);
        self.wait("a flow", |event| matches!(event, Event::SessionFlow { channel: c, .. } if *c == channel));
    }

    /// Number of messages of a link in the backlog.
    pub fn waiting(&self, channel: u16, handle: u32) -> usize {
        let ours = |seen: &&Seen| matches!(&seen.event, Event::Delivered(delivery) if (delivery.channel, delivery.handle) == (channel, handle));
        self.backlog.iter().filter(ours).count()
    }

    /// Waits for an event and removes it from the backlog. If the broker ends a link, session or connection
    /// meanwhile, the test fails.
    ///
    /// # Panics
    /// If the broker ends something else, a rule is broken, or nothing comes.
    pub fn wait(&mut self, what: &str, wanted: impl Fn(&Event) -> bool) -> Seen {
        self.wait_any(what, |event| {
            let refused = match event {
                Event::Detached { by_peer, error, .. }
                | Event::Ended { by_peer, error, .. }
                | Event::Closed { by_peer, error, .. } => *by_peer && error.is_some(),
                Event::SaslFailed(_) => true,
                _ => false,
            };
            assert!(wanted(event) || !refused, "{what} expected: {event:?}");
            wanted(event)
        })
    }

    /// As [`wait`](Self::wait), but the broker may end links, sessions and connections meanwhile.
    ///
    /// # Panics
    /// If a rule is broken, or nothing comes.
    pub fn wait_any(&mut self, what: &str, wanted: impl Fn(&Event) -> bool) -> Seen {
        let mut looked_at = 0;
        loop {
            if let Some(at) = (looked_at..self.backlog.len()).find(|at| wanted(&self.backlog[*at].event)) {
                return self.backlog.remove(at).expect("it was found");
            }
            looked_at = self.backlog.len();
            self.read(what);
        }
    }

    /// Waits until the broker has closed the socket; earlier events stay in the backlog.
    ///
    /// # Panics
    /// When a rule is broken or the socket stays open.
    pub fn wait_closed(&mut self) {
        loop {
            match self.try_read() {
                Ok(()) => {}
                Err(Silence::Closed) => return,
                Err(silence) => panic!("the end of the socket expected: {silence:?}"),
            }
        }
    }

    /// Closes the connection and waits for the reply.
    ///
    /// # Panics
    /// If no reply comes.
    pub fn close(mut self) {
        self.client.close(None);
        self.wait("close", |event| matches!(event, Event::Closed { .. }));
    }

    /// Writes the client's output.
    ///
    /// # Panics
    /// When the socket fails.
    pub fn flush(&mut self) {
        self.socket.write_all(self.client.output()).expect("write to the broker");
        self.client.output().clear();
    }

    /// Writes the client's output and reads once.
    fn read(&mut self, what: &str) {
        if let Err(silence) = self.try_read() {
            panic!("{what} expected: {silence:?}; seen and not waited for: {:?}", self.backlog);
        }
    }

    /// Writes the client's output and reads until there is an event.
    ///
    /// # Errors
    /// When a rule is broken or nothing comes.
    pub fn try_read(&mut self) -> Result<(), Silence> {
        let deadline = Instant::now() + PATIENCE;
        let mut events = Vec::new();
        while events.is_empty() {
            if !self.client.output().is_empty() {
                // The broker may have sent a reason before it closed.
                let _ = self.socket.write_all(self.client.output());
                self.client.output().clear();
            }
            if self.filled == self.input.len() {
                self.input.resize(self.input.len() * 2, 0);
            }
            let left = deadline.checked_duration_since(Instant::now()).ok_or(Silence::Patience)?;
            self.socket.set_read_timeout(Some(left)).map_err(|_| Silence::Patience)?;
            match self.socket.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(Silence::Closed),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(Silence::Patience);
                }
                Err(_) => return Err(Silence::Closed),
            }
            let used = self.client.receive(&self.input[..self.filled], &mut events).map_err(Silence::Violation)?;
            self.input.copy_within(used..self.filled, 0);
            self.filled -= used;
        }
        let client = &self.client;
        self.backlog.extend(events.into_iter().map(|event| seen(client, event)));
        // Replies to an end or an echo are in the output, and the broker may wait for them.
        if !self.client.output().is_empty() {
            let _ = self.socket.write_all(self.client.output());
            self.client.output().clear();
        }
        Ok(())
    }
}

fn seen(client: &Client, event: Event) -> Seen {
    let (bytes, tag) = match &event {
        Event::Delivered(delivery) => (client.bytes(delivery.payload), client.bytes(delivery.tag)),
        Event::Attached { attach, .. } => (client.bytes(*attach), &[][..]),
        Event::Challenge(challenge) => (client.bytes(*challenge), &[][..]),
        _ => (&[][..], &[][..]),
    };
    Seen { bytes: bytes.to_vec(), tag: tag.to_vec(), event }
}

/// A link of a pair with the management node, whose properties are `paired` = true: requests on handle 0, responses on handle 1.
pub fn management_link(role: Role, properties: &EncodedMap) -> Attach<'_> {
    let node = Some("/management");
    let (source, target) = if role == Role::Sender { (Some("me"), node) } else { (node, Some("me")) };
    Attach {
        name: "pair",
        handle: u32::from(role == Role::Receiver),
        role,
        snd_settle_mode: SenderSettleMode::Settled,
        source: Some(Source { address: source, ..Source::default() }),
        target: Some(TargetArchetype::Target(Target { address: target, ..Target::default() })),
        initial_delivery_count: (role == Role::Sender).then_some(0),
        properties: Some(properties.as_map()),
        ..Attach::default()
    }
}

/// The attach of a link to the coordinator of transactions (4.3).
pub fn coordinator(handle: u32) -> Attach<'static> {
    Attach {
        name: "control",
        handle,
        role: Role::Sender,
        source: Some(Source::default()),
        target: Some(TargetArchetype::Coordinator(Coordinator::default())),
        initial_delivery_count: Some(0),
        ..Attach::default()
    }
}

/// The value of a message annotation.
pub fn annotation(message: &Seen, key: &str) -> Option<OwnedValue> {
    message.sections().message_annotations?.lookup(key).map(OwnedValue::from)
}
