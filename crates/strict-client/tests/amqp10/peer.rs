//! A peer of the client whose every frame is written by a test.

use leveret_amqp10::performative::{Attach, Begin, Flow, Open, Transfer};
use leveret_amqp10::sasl::{self, SaslCode};
use leveret_amqp10::{
    Error, HEADER_AMQP, HEADER_SASL, Performative, Role, SaslFrame, Source, Symbol, Symbols, Target, TargetArchetype,
    condition, decode_frame, encode_performative, encode_transfer,
};
use leveret_strict_client::Rule;
use leveret_strict_client::amqp10::{Client, Event, Options, PeerError, SessionOptions};

/// A client, and the bytes that a peer has sent to it. The peer's channels are the client's plus 100, its handles
/// plus 10.
pub(crate) struct Peer {
    pub(crate) client: Client,
    pub(crate) wire: Vec<u8>,
    /// The peer's next transfer-id on channel 1.
    pub(crate) next_id: u32,
}

pub(crate) const CHANNEL: u16 = 101;
pub(crate) const HANDLE: u32 = 10;
pub(crate) const PLAIN: &[Symbol<'_>] = &[Symbol::new("PLAIN"), Symbol::new("ANONYMOUS")];

impl Peer {
    pub(crate) fn fresh(options: Options) -> Self {
        Self { client: Client::new(options), wire: Vec::new(), next_id: u32::MAX }
    }

    pub(crate) fn send<'a>(&mut self, channel: u16, performative: impl Into<Performative<'a>>) -> &mut Self {
        encode_performative(&mut self.wire, channel, &performative.into());
        self
    }

    pub(crate) fn header(&mut self, header: [u8; 8]) -> &mut Self {
        self.wire.extend_from_slice(&header);
        self
    }

    pub(crate) fn sasl(&mut self, frame: SaslFrame<'_>) -> &mut Self {
        frame.encode(&mut self.wire);
        self
    }

    pub(crate) fn mechanisms() -> SaslFrame<'static> {
        SaslFrame::Mechanisms(sasl::Mechanisms { sasl_server_mechanisms: Symbols::of(PLAIN) })
    }

    pub(crate) fn outcome(code: SaslCode) -> SaslFrame<'static> {
        SaslFrame::Outcome(sasl::Outcome { code, additional_data: None })
    }

    pub(crate) fn open() -> Open<'static> {
        Open { container_id: "peer", max_frame_size: 512, channel_max: 1000, ..Open::default() }
    }

    /// A client after `open`.
    pub(crate) fn opened() -> Self {
        let mut peer = Self::fresh(Options { channel_max: 300, max_frame_size: 600, ..Options::default() });
        peer.header(HEADER_SASL).sasl(Self::mechanisms()).sasl(Self::outcome(SaslCode::Ok)).header(HEADER_AMQP);
        peer.send(0, Self::open());
        let events = peer.take();
        assert!(matches!(events[..], [Event::Mechanisms(_), Event::Opened { .. }]), "{events:?}");
        let out = std::mem::take(peer.client.output());
        assert!(out.starts_with(&HEADER_SASL) && out.windows(8).any(|bytes| bytes == HEADER_AMQP));
        assert!(out.windows(12).any(|bytes| bytes == b"\0guest\0guest"));
        peer
    }

    /// An opened client with a session on channel 1, whose window is 5 and widened manually; the peer's window is 3.
    pub(crate) fn begun() -> Self {
        let mut peer = Self::opened();
        let options = SessionOptions { incoming_window: 5, widen: false, handle_max: 20, ..SessionOptions::default() };
        peer.client.begin(1, options);
        peer.send(CHANNEL, Self::begin_answer(1));
        let begun = Event::Begun { channel: 1, handle_max: u32::MAX, incoming_window: 3 };
        assert_eq!(peer.take(), [begun]);
        assert!(peer.client.is_begun(1));
        peer.sent();
        peer
    }

    pub(crate) fn begin_answer(channel: u16) -> Begin<'static> {
        Begin {
            remote_channel: Some(channel),
            next_outgoing_id: u32::MAX,
            incoming_window: 3,
            outgoing_window: 9,
            ..Begin::default()
        }
    }

    pub(crate) fn attach_answer(name: &str, handle: u32, role: Role) -> Attach<'_> {
        Attach {
            name,
            handle,
            role,
            source: Some(Source { address: Some("/queues/q"), ..Source::default() }),
            target: Some(TargetArchetype::Target(Target::default())),
            initial_delivery_count: (role == Role::Sender).then_some(u32::MAX),
            ..Attach::default()
        }
    }

    /// A client with a receiver at handle 0, whose delivery-count begins at the top of the range.
    pub(crate) fn receiving(credit: u32) -> Self {
        let mut peer = Self::begun();
        peer.client.attach_receiver(1, 0, "in", "/queues/q", false);
        peer.send(CHANNEL, Self::attach_answer("in", HANDLE, Role::Sender));
        let events = peer.take();
        let [Event::Attached { channel: 1, handle: 0, attach }] = events[..] else { panic!("{events:?}") };
        let (Performative::Attach(attach), _) = Performative::decode(peer.client.bytes(attach)).unwrap() else {
            panic!("an attach")
        };
        assert_eq!(attach.source.and_then(|source| source.address), Some("/queues/q"));
        if credit > 0 {
            peer.client.grant(1, 0, credit, false);
        }
        peer.sent();
        peer
    }

    /// A client with a sender at handle 0 with this credit.
    pub(crate) fn sending(credit: u32) -> Self {
        let mut peer = Self::begun();
        peer.client.attach_sender(1, 0, "out", Some("/queues/q"));
        peer.send(CHANNEL, Self::attach_answer("out", HANDLE, Role::Receiver));
        peer.send(CHANNEL, peer.link_flow(0, credit));
        assert!(matches!(peer.take()[..], [Event::Attached { .. }, Event::LinkFlow { .. }]));
        peer.sent();
        peer
    }

    /// A flow of the peer's session, which has seen `seen` transfers.
    pub(crate) fn flow(&self, seen: u32) -> Flow<'static> {
        Flow {
            next_incoming_id: Some(seen),
            incoming_window: 3,
            next_outgoing_id: self.next_id,
            outgoing_window: 9,
            ..Flow::default()
        }
    }

    /// A flow of a receiving peer.
    pub(crate) fn link_flow(&self, seen: u32, credit: u32) -> Flow<'static> {
        Flow { handle: Some(HANDLE), delivery_count: Some(seen), link_credit: Some(credit), ..self.flow(seen) }
    }

    /// A flow of a sending peer, after `sent` deliveries.
    pub(crate) fn sender_flow(&self, sent: u32, credit: u32) -> Flow<'static> {
        let delivery_count = Some(u32::MAX.wrapping_add(sent));
        Flow { handle: Some(HANDLE), delivery_count, link_credit: Some(credit), ..self.flow(0) }
    }

    pub(crate) fn first_transfer(id: u32, tag: &[u8]) -> Transfer<'_> {
        Transfer {
            handle: HANDLE,
            delivery_id: Some(id),
            delivery_tag: Some(tag),
            message_format: Some(0),
            ..Transfer::default()
        }
    }

    pub(crate) fn transfer(&mut self, transfer: Transfer<'_>, payload: &[u8]) -> &mut Self {
        encode_transfer(&mut self.wire, CHANNEL, &transfer, payload);
        self.next_id = self.next_id.wrapping_add(1);
        self
    }

    /// A delivery in one transfer.
    pub(crate) fn deliver(&mut self, id: u32) -> &mut Self {
        self.transfer(Self::first_transfer(id, &id.to_be_bytes()), b"hi")
    }

    /// The events of the client.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let used = self.client.receive(&self.wire, &mut events).expect("the peer kept the rules");
        assert_eq!(used, self.wire.len());
        self.wire.clear();
        events
    }

    pub(crate) fn broken(&mut self) -> Rule {
        let violation = self.client.receive(&self.wire, &mut Vec::new()).expect_err("the peer broke a rule");
        assert!(!violation.received.is_empty());
        violation.rule
    }

    /// The performatives sent by the client, by name, with the payloads of transfers.
    pub(crate) fn sent(&mut self) -> Vec<(&'static str, Vec<u8>)> {
        let output = std::mem::take(self.client.output());
        let mut rest = output.as_slice();
        let mut frames = Vec::new();
        while let Some((frame, used)) = decode_frame(rest, u32::MAX).unwrap() {
            let (performative, payload) = Performative::decode(frame.body).unwrap();
            frames.push((performative.name(), payload.to_vec()));
            rest = &rest[used..];
        }
        frames
    }

    pub(crate) fn names_sent(&mut self) -> Vec<&'static str> {
        self.sent().into_iter().map(|(name, _)| name).collect()
    }

    /// Checks the only performative sent by the client.
    pub(crate) fn check_sent(&mut self, check: impl FnOnce(Performative<'_>)) {
        let output = std::mem::take(self.client.output());
        let (frame, used) = decode_frame(&output, u32::MAX).unwrap().unwrap();
        assert_eq!(used, output.len());
        check(Performative::decode(frame.body).unwrap().0);
    }
}

pub(crate) fn error() -> Option<Error<'static>> {
    Some(Error::new(condition::RESOURCE_DELETED, "gone"))
}

pub(crate) fn peer_error() -> Option<PeerError> {
    error().map(PeerError::from)
}
