//! The client against a peer whose every frame is written here: first one that keeps the rules, then one that
//! breaks each of them.

use leveret_amqp10::performative::{Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer};
use leveret_amqp10::sasl::{self, SaslCode};
use leveret_amqp10::{
    DeliveryState, Error, HEADER_AMQP, HEADER_SASL, Performative, Role, SaslFrame, SenderSettleMode, Serial, Source,
    Symbol, Symbols, Target, TargetArchetype, condition, decode_frame, encode_empty, encode_performative,
    encode_transfer,
};
use leveret_strict_client::Rule;
use leveret_strict_client::amqp10::{Client, Event, Mechanism, Options, PeerError, Send, SessionOptions, State};

/// A client, and what a peer has written to it. The peer's channels are the client's plus 100, its handles plus 10.
struct Peer {
    client: Client,
    wire: Vec<u8>,
    /// The peer's next transfer-id on channel 1.
    next_id: u32,
}

const CHANNEL: u16 = 101;
const HANDLE: u32 = 10;
const PLAIN: &[Symbol<'_>] = &[Symbol::new("PLAIN"), Symbol::new("ANONYMOUS")];

impl Peer {
    fn fresh(options: Options) -> Self {
        Self { client: Client::new(options), wire: Vec::new(), next_id: u32::MAX }
    }

    fn send<'a>(&mut self, channel: u16, performative: impl Into<Performative<'a>>) -> &mut Self {
        encode_performative(&mut self.wire, channel, &performative.into());
        self
    }

    fn header(&mut self, header: [u8; 8]) -> &mut Self {
        self.wire.extend_from_slice(&header);
        self
    }

    fn sasl(&mut self, frame: SaslFrame<'_>) -> &mut Self {
        frame.encode(&mut self.wire);
        self
    }

    fn mechanisms() -> SaslFrame<'static> {
        SaslFrame::Mechanisms(sasl::Mechanisms { sasl_server_mechanisms: Symbols::of(PLAIN) })
    }

    fn outcome(code: SaslCode) -> SaslFrame<'static> {
        SaslFrame::Outcome(sasl::Outcome { code, additional_data: None })
    }

    fn open() -> Open<'static> {
        Open { container_id: "peer", max_frame_size: 512, channel_max: 1000, ..Open::default() }
    }

    /// After `open`.
    fn opened() -> Self {
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

    /// With a session on channel 1, whose window is 5 and widened by hand; the peer's window is 3.
    fn begun() -> Self {
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

    fn begin_answer(channel: u16) -> Begin<'static> {
        Begin {
            remote_channel: Some(channel),
            next_outgoing_id: u32::MAX,
            incoming_window: 3,
            outgoing_window: 9,
            ..Begin::default()
        }
    }

    fn attach_answer(name: &str, handle: u32, role: Role) -> Attach<'_> {
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

    /// With a receiver at handle 0, which counts from the top of the range.
    fn receiving(credit: u32) -> Self {
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

    /// With a sender at handle 0 with this credit.
    fn sending(credit: u32) -> Self {
        let mut peer = Self::begun();
        peer.client.attach_sender(1, 0, "out", Some("/queues/q"));
        peer.send(CHANNEL, Self::attach_answer("out", HANDLE, Role::Receiver));
        peer.send(CHANNEL, peer.link_flow(0, credit));
        assert!(matches!(peer.take()[..], [Event::Attached { .. }, Event::LinkFlow { .. }]));
        peer.sent();
        peer
    }

    /// A flow of the peer's session that has seen `seen` transfers.
    fn flow(&self, seen: u32) -> Flow<'static> {
        Flow {
            next_incoming_id: Some(seen),
            incoming_window: 3,
            next_outgoing_id: self.next_id,
            outgoing_window: 9,
            ..Flow::default()
        }
    }

    /// A flow of the peer's receiving end.
    fn link_flow(&self, seen: u32, credit: u32) -> Flow<'static> {
        Flow { handle: Some(HANDLE), delivery_count: Some(seen), link_credit: Some(credit), ..self.flow(seen) }
    }

    /// A flow of the peer's sending end, after `sent` deliveries.
    fn sender_flow(&self, sent: u32, credit: u32) -> Flow<'static> {
        let delivery_count = Some(u32::MAX.wrapping_add(sent));
        Flow { handle: Some(HANDLE), delivery_count, link_credit: Some(credit), ..self.flow(0) }
    }

    fn first_transfer(id: u32, tag: &[u8]) -> Transfer<'_> {
        Transfer {
            handle: HANDLE,
            delivery_id: Some(id),
            delivery_tag: Some(tag),
            message_format: Some(0),
            ..Transfer::default()
        }
    }

    fn transfer(&mut self, transfer: Transfer<'_>, payload: &[u8]) -> &mut Self {
        encode_transfer(&mut self.wire, CHANNEL, &transfer, payload);
        self.next_id = self.next_id.wrapping_add(1);
        self
    }

    /// A delivery in one transfer.
    fn deliver(&mut self, id: u32) -> &mut Self {
        self.transfer(Self::first_transfer(id, &id.to_be_bytes()), b"hi")
    }

    /// What the client makes of it all.
    fn take(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let used = self.client.receive(&self.wire, &mut events).expect("the peer kept the rules");
        assert_eq!(used, self.wire.len());
        self.wire.clear();
        events
    }

    fn broken(&mut self) -> Rule {
        let violation = self.client.receive(&self.wire, &mut Vec::new()).expect_err("the peer broke a rule");
        assert!(!violation.received.is_empty());
        violation.rule
    }

    /// What the client wrote, by names, with the payloads of transfers.
    fn sent(&mut self) -> Vec<(&'static str, Vec<u8>)> {
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

    fn names_sent(&mut self) -> Vec<&'static str> {
        self.sent().into_iter().map(|(name, _)| name).collect()
    }

    /// The only performative that the client wrote.
    fn check_sent(&mut self, check: impl FnOnce(Performative<'_>)) {
        let output = std::mem::take(self.client.output());
        let (frame, used) = decode_frame(&output, u32::MAX).unwrap().unwrap();
        assert_eq!(used, output.len());
        check(Performative::decode(frame.body).unwrap().0);
    }
}

fn error() -> Option<Error<'static>> {
    Some(Error::new(condition::RESOURCE_DELETED, "gone"))
}

fn peer_error() -> Option<PeerError> {
    error().map(PeerError::from)
}

#[test]
fn deliveries_arrive_whole_from_any_cut_of_the_stream() {
    let mut peer = Peer::receiving(3);
    peer.deliver(7);
    let first = Transfer { more: true, ..Peer::first_transfer(8, b"tag") };
    let next = Transfer { handle: HANDLE, ..Transfer::default() };
    peer.transfer(first, b"hello").transfer(Transfer { more: true, ..next }, b", ").transfer(next, b"world");
    peer.transfer(Transfer { settled: Some(false), ..Peer::first_transfer(9, b"tag 2") }, b"");
    let wire = std::mem::take(&mut peer.wire);
    let (mut pending, mut messages, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for octet in wire {
        pending.push(octet);
        let used = peer.client.receive(&pending, &mut events).unwrap();
        pending.drain(..used);
        for event in events.drain(..) {
            let Event::Delivered(delivery) = event else { panic!("{event:?}") };
            assert_eq!((delivery.channel, delivery.handle, delivery.settled), (1, 0, false));
            let payload = peer.client.bytes(delivery.payload).to_vec();
            messages.push((delivery.delivery_id.0, payload, delivery.transfers));
        }
    }
    assert_eq!(messages, [(7, b"hi".to_vec(), 1), (8, b"hello, world".to_vec(), 3), (9, Vec::new(), 1)]);
    assert_eq!(peer.client.credit(1, 0), 0);
    assert_eq!(peer.client.unsettled_received(1), 3);
    peer.client.accept(1, Serial(7), Serial(8));
    peer.check_sent(|performative| {
        let Performative::Disposition(disposition) = performative else { panic!("{performative:?}") };
        assert_eq!((disposition.role, disposition.first, disposition.last), (Role::Receiver, 7, Some(8)));
        assert_eq!((disposition.settled, disposition.state), (true, Some(DeliveryState::Accepted)));
    });
    assert_eq!(peer.client.unsettled_received(1), 1);
    assert!(peer.client.is_unsettled(1, Serial(9)) && !peer.client.is_unsettled(1, Serial(8)));
}

#[test]
fn aborted_deliveries_are_settled_and_take_credit() {
    let mut peer = Peer::receiving(2);
    peer.transfer(Transfer { more: true, ..Peer::first_transfer(0, b"a") }, b"half");
    peer.transfer(Transfer { handle: HANDLE, aborted: true, ..Transfer::default() }, b"ignored");
    peer.transfer(Peer::first_transfer(1, b"a"), b"whole");
    let events = peer.take();
    let [Event::Aborted { delivery_id: Serial(0), .. }, Event::Delivered(delivery)] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(peer.client.bytes(delivery.payload), b"whole");
    assert_eq!((peer.client.credit(1, 0), peer.client.unsettled_received(1)), (0, 1));
}

#[test]
fn messages_are_cut_to_the_peers_frames_and_window() {
    let mut peer = Peer::sending(2);
    let body: Vec<u8> = (0..1800u32).map(|number| number as u8).collect();
    let id = peer.client.send(1, 0, b"tag", &body, &Send::default());
    assert_eq!(id, Some(Serial(0)));
    assert_eq!(peer.client.send(1, 0, b"next", b"", &Send::default()), None, "the first one isn't complete");
    let mut parts = peer.sent();
    assert_eq!(parts.len(), 3, "the window takes three transfers");
    peer.send(CHANNEL, peer.flow(3));
    assert!(matches!(peer.take()[..], [Event::SessionFlow { channel: 1, window: 2, echo: false }]));
    parts.extend(peer.sent());
    assert!(parts.iter().all(|(name, payload)| *name == "transfer" && payload.len() < 512));
    assert_eq!(parts.into_iter().flat_map(|(_, payload)| payload).collect::<Vec<_>>(), body);
    assert_eq!(peer.client.send(1, 0, b"next", b"", &Send { settled: true, ..Send::default() }), Some(Serial(1)));
    assert_eq!(peer.client.send(1, 0, b"more", b"", &Send::default()), None, "no credit is left");
    assert_eq!((peer.client.unsettled_sent(1), peer.client.next_delivery_id(1)), (1, Serial(2)));
    let accepted = Disposition {
        role: Role::Receiver,
        first: 0,
        settled: true,
        state: Some(DeliveryState::Accepted),
        ..Disposition::default()
    };
    peer.send(CHANNEL, accepted);
    let settled = Event::Disposition {
        channel: 1,
        role: Role::Receiver,
        first: Serial(0),
        last: Serial(0),
        settled: true,
        state: Some(State::Accepted),
    };
    assert_eq!(peer.take(), [settled]);
    assert_eq!(peer.client.unsettled_sent(1), 0);
}

#[test]
fn credit_is_counted_from_what_the_peer_has_seen() {
    let mut peer = Peer::sending(2);
    peer.client.send(1, 0, b"1", b"", &Send::default());
    // The peer granted three more before the first message reached it.
    let flow = Flow { next_incoming_id: Some(0), ..peer.link_flow(0, 3) };
    peer.send(CHANNEL, flow);
    let expected = Event::LinkFlow {
        channel: 1,
        handle: 0,
        credit: 2,
        delivery_count: Serial(1),
        available: None,
        drained: false,
        echo: false,
    };
    assert_eq!(peer.take(), [expected]);
    peer.sent();
    peer.send(CHANNEL, Flow { drain: true, echo: true, ..peer.link_flow(1, 2) });
    assert!(matches!(peer.take()[..], [Event::LinkFlow { credit: 2, drained: true, echo: true, .. }]));
    assert_eq!(peer.names_sent(), ["flow"]);
    peer.client.drain_credit(1, 0);
    peer.check_sent(|performative| {
        let Performative::Flow(flow) = performative else { panic!("{performative:?}") };
        assert_eq!((flow.delivery_count, flow.link_credit, flow.drain), (Some(3), Some(0), true));
    });
    assert_eq!(peer.client.credit(1, 0), 0);
}

#[test]
fn a_drain_is_answered_behind_the_last_message() {
    let mut peer = Peer::receiving(5);
    peer.client.grant(1, 0, 5, true);
    peer.deliver(0);
    let flow = Flow { drain: true, available: Some(0), ..peer.sender_flow(5, 0) };
    peer.send(CHANNEL, flow);
    let events = peer.take();
    let [Event::Delivered(_), Event::LinkFlow { credit: 0, drained: true, available: Some(0), .. }] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(peer.client.credit(1, 0), 0);
    peer.client.grant(1, 0, 1, false);
    peer.deliver(1);
    assert!(matches!(peer.take()[..], [Event::Delivered(_)]));
}

#[test]
fn lower_credit_counts_once_the_peer_has_seen_it() {
    let mut peer = Peer::receiving(3);
    peer.client.flow(1, 0, 1, false, true);
    // Under way when the lower credit was sent.
    peer.deliver(0).deliver(1);
    peer.take();
    assert_eq!(peer.client.credit(1, 0), 1);
    let mut peer = Peer::receiving(3);
    peer.client.flow(1, 0, 1, false, true);
    peer.send(CHANNEL, peer.sender_flow(0, 1));
    peer.take();
    assert_eq!(peer.client.credit(1, 0), 1);
    peer.deliver(0).deliver(1);
    assert_eq!(peer.broken(), Rule::LinkCredit);
}

#[test]
fn ends_are_answered_and_free_what_they_end() {
    let mut peer = Peer::receiving(1);
    peer.deliver(0);
    peer.take();
    peer.send(CHANNEL, Detach { handle: HANDLE, closed: true, error: error() });
    let detached = Event::Detached { channel: 1, handle: 0, closed: true, error: peer_error(), by_peer: true };
    assert_eq!(peer.take(), [detached]);
    assert_eq!(peer.names_sent(), ["detach"]);
    assert!(!peer.client.is_attached(1, 0));
    assert_eq!(peer.client.unsettled_received(1), 0);
    // The handle and the name are free again.
    peer.client.attach_receiver(1, 0, "in", "/queues/q", false);
    peer.send(CHANNEL, Peer::attach_answer("in", HANDLE, Role::Sender));
    peer.take();
    peer.client.detach(1, 0, true, None);
    peer.send(CHANNEL, Detach { handle: HANDLE, closed: true, error: None });
    let detached = Event::Detached { channel: 1, handle: 0, closed: true, error: None, by_peer: false };
    assert_eq!(peer.take(), [detached]);

    peer.sent();
    peer.send(CHANNEL, End { error: error() });
    assert_eq!(peer.take(), [Event::Ended { channel: 1, error: peer_error(), by_peer: true }]);
    assert_eq!(peer.names_sent(), ["end"]);
    peer.client.begin(1, SessionOptions::default());
    peer.send(CHANNEL, Peer::begin_answer(1));
    peer.take();
    peer.client.end(1, None);
    peer.send(CHANNEL, End::default());
    assert_eq!(peer.take(), [Event::Ended { channel: 1, error: None, by_peer: false }]);

    peer.sent();
    peer.send(0, Close { error: error() });
    assert_eq!(peer.take(), [Event::Closed { error: peer_error(), by_peer: true }]);
    assert_eq!(peer.names_sent(), ["close"]);
    assert!(!peer.client.is_open());
}

#[test]
fn a_refused_login_is_told() {
    let mut peer = Peer::fresh(Options::default());
    peer.header(HEADER_SASL).sasl(Peer::mechanisms()).sasl(Peer::outcome(SaslCode::Auth));
    assert!(matches!(peer.take()[..], [Event::Mechanisms(_), Event::SaslFailed(1)]));
    peer.send(0, Peer::open());
    assert_eq!(peer.broken(), Rule::ConnectionClosed);
}

#[test]
fn sasl_may_be_left_out_and_idle_frames_come() {
    let mut peer = Peer::fresh(Options { mechanism: Mechanism::None, ..Options::default() });
    assert!(peer.client.output().starts_with(&HEADER_AMQP));
    peer.header(HEADER_AMQP).send(0, Open { idle_time_out: Some(1000), ..Peer::open() });
    encode_empty(&mut peer.wire);
    assert!(matches!(peer.take()[..], [Event::Opened { .. }, Event::Empty]));
    assert_eq!((peer.client.remote_idle_time_out(), peer.client.channel_max()), (Some(1000), 255));
}

#[test]
fn the_window_is_widened_when_half_is_used() {
    let mut peer = Peer::opened();
    peer.client.begin(1, SessionOptions { incoming_window: 4, ..SessionOptions::default() });
    peer.send(CHANNEL, Peer::begin_answer(1));
    peer.client.attach_receiver(1, 0, "in", "/queues/q", false);
    peer.send(CHANNEL, Peer::attach_answer("in", HANDLE, Role::Sender));
    peer.take();
    peer.client.grant(1, 0, 100, false);
    peer.sent();
    for id in 0..50 {
        peer.deliver(id);
    }
    assert_eq!(peer.take().len(), 50);
    let flows = peer.names_sent();
    assert_eq!(flows, vec!["flow"; 25]);
}

/// What a peer does wrong, and the rule that it breaks.
#[test]
fn each_broken_rule_is_seen() {
    type Break = fn(&mut Peer);
    let cases: &[(&str, fn() -> Peer, Break, Rule)] = &[
        (
            "not AMQP at all",
            || Peer::fresh(Options::default()),
            |p| {
                p.header(*b"HTTP/1.1");
            },
            Rule::OpenOrder,
        ),
        (
            "AMQP header before SASL",
            || Peer::fresh(Options::default()),
            |p| {
                p.header(HEADER_AMQP);
            },
            Rule::OpenOrder,
        ),
        (
            "outcome before mechanisms",
            || Peer::fresh(Options::default()),
            |p| {
                p.header(HEADER_SASL).sasl(Peer::outcome(SaslCode::Ok));
            },
            Rule::OpenOrder,
        ),
        (
            "no mechanism of ours",
            || {
                Peer::fresh(Options {
                    mechanism: Mechanism::Other { name: "X".into(), initial_response: None },
                    ..Options::default()
                })
            },
            |p| {
                p.header(HEADER_SASL).sasl(Peer::mechanisms());
            },
            Rule::OpenOrder,
        ),
        (
            "begin before open",
            || Peer::fresh(Options { mechanism: Mechanism::None, ..Options::default() }),
            |p| {
                p.header(HEADER_AMQP).send(0, Peer::begin_answer(1));
            },
            Rule::OpenOrder,
        ),
        (
            "open on a channel",
            || Peer::fresh(Options { mechanism: Mechanism::None, ..Options::default() }),
            |p| {
                p.header(HEADER_AMQP).send(1, Peer::open());
            },
            Rule::OpenOrder,
        ),
        (
            "open twice",
            Peer::opened,
            |p| {
                p.send(0, Peer::open());
            },
            Rule::OpenOrder,
        ),
        (
            "a SASL frame after SASL",
            Peer::opened,
            |p| {
                p.sasl(Peer::mechanisms());
            },
            Rule::OpenOrder,
        ),
        (
            "a frame beyond max-frame-size",
            Peer::opened,
            |p| p.wire.extend([0, 0, 2, 0x59, 2, 0, 0, 0]),
            Rule::WellFormed,
        ),
        (
            "an unknown performative",
            Peer::opened,
            |p| p.wire.extend(b"\0\0\0\x0C\x02\0\0\0\0\x53\x19\x45"),
            Rule::WellFormed,
        ),
        (
            "begin without being asked",
            Peer::opened,
            |p| {
                p.send(1, Peer::begin_answer(1));
            },
            Rule::BeginAnswer,
        ),
        (
            "begin that answers nothing",
            Peer::opened,
            |p| {
                p.send(1, Begin { remote_channel: None, ..Peer::begin_answer(1) });
            },
            Rule::BeginAnswer,
        ),
        (
            "begin twice",
            Peer::begun,
            |p| {
                p.send(102, Peer::begin_answer(1));
            },
            Rule::BeginAnswer,
        ),
        (
            "begin beyond channel-max",
            Peer::opened,
            |p| {
                p.send(301, Peer::begin_answer(1));
            },
            Rule::ChannelMax,
        ),
        (
            "a frame beyond channel-max",
            Peer::begun,
            |p| {
                p.send(301, End::default());
            },
            Rule::ChannelMax,
        ),
        (
            "a frame before begin",
            Peer::opened,
            |p| {
                p.send(5, p.flow(0));
            },
            Rule::SessionBegun,
        ),
        (
            "a frame after end",
            Peer::begun,
            |p| {
                p.send(CHANNEL, End::default()).send(CHANNEL, End::default());
            },
            Rule::SessionBegun,
        ),
        (
            "a frame after close",
            Peer::opened,
            |p| {
                p.send(0, Close::default()).send(0, Close::default());
            },
            Rule::ConnectionClosed,
        ),
        (
            "attach without being asked",
            Peer::begun,
            |p| {
                p.send(CHANNEL, Peer::attach_answer("other", 3, Role::Sender));
            },
            Rule::AttachAnswer,
        ),
        (
            "attach twice",
            || Peer::receiving(0),
            |p| {
                p.send(CHANNEL, Peer::attach_answer("in", 3, Role::Sender));
            },
            Rule::AttachAnswer,
        ),
        (
            "attach from the wrong end",
            || {
                let mut peer = Peer::begun();
                peer.client.attach_sender(1, 0, "in", None);
                peer
            },
            |p| {
                p.send(CHANNEL, Peer::attach_answer("in", 3, Role::Sender));
            },
            Rule::AttachAnswer,
        ),
        (
            "attach without initial-delivery-count",
            || {
                let mut peer = Peer::begun();
                peer.client.attach_receiver(1, 0, "in", "/queues/q", false);
                peer
            },
            |p| {
                p.send(CHANNEL, Attach { initial_delivery_count: None, ..Peer::attach_answer("in", 3, Role::Sender) });
            },
            Rule::AttachAnswer,
        ),
        (
            "attach beyond handle-max",
            Peer::begun,
            |p| {
                p.send(CHANNEL, Peer::attach_answer("in", 21, Role::Sender));
            },
            Rule::HandleMax,
        ),
        (
            "attach with a handle in use",
            || {
                let mut peer = Peer::receiving(0);
                peer.client.attach_receiver(1, 1, "in 2", "/queues/q", false);
                peer
            },
            |p| {
                p.send(CHANNEL, Peer::attach_answer("in 2", HANDLE, Role::Sender));
            },
            Rule::HandleInUse,
        ),
        (
            "transfer before attach",
            Peer::begun,
            |p| {
                p.deliver(0);
            },
            Rule::HandleAttached,
        ),
        (
            "flow for a handle that isn't attached",
            Peer::begun,
            |p| {
                p.send(CHANNEL, p.link_flow(0, 1));
            },
            Rule::HandleAttached,
        ),
        (
            "transfer after detach",
            || Peer::receiving(1),
            |p| {
                p.send(CHANNEL, Detach { handle: HANDLE, ..Detach::default() }).deliver(0);
            },
            Rule::HandleAttached,
        ),
        (
            "transfer to a sender",
            || Peer::sending(1),
            |p| {
                p.deliver(0);
            },
            Rule::HandleAttached,
        ),
        (
            "detach instead of close",
            || {
                let mut peer = Peer::receiving(1);
                peer.client.detach(1, 0, true, None);
                peer
            },
            |p| {
                p.send(CHANNEL, Detach { handle: HANDLE, ..Detach::default() });
            },
            Rule::DetachAnswer,
        ),
        (
            "transfers beyond the window",
            || Peer::receiving(9),
            |p| {
                (0..6).for_each(|id| {
                    p.deliver(id);
                })
            },
            Rule::SessionWindow,
        ),
        (
            "transfer without credit",
            || Peer::receiving(0),
            |p| {
                p.deliver(0);
            },
            Rule::LinkCredit,
        ),
        (
            "one transfer too many",
            || Peer::receiving(2),
            |p| {
                p.deliver(0).deliver(1).deliver(2);
            },
            Rule::LinkCredit,
        ),
        (
            "transfer after the drain was answered",
            || {
                let mut peer = Peer::receiving(2);
                peer.client.grant(1, 0, 2, true);
                peer
            },
            |p| {
                p.send(CHANNEL, Flow { drain: true, ..p.sender_flow(2, 0) }).deliver(0);
            },
            Rule::LinkCredit,
        ),
        (
            "a drain that keeps credit",
            || {
                let mut peer = Peer::receiving(3);
                peer.client.grant(1, 0, 3, true);
                peer
            },
            |p| {
                p.send(CHANNEL, Flow { drain: true, ..p.sender_flow(1, 2) });
            },
            Rule::Drain,
        ),
        (
            "a drain answered within a delivery",
            || {
                let mut peer = Peer::receiving(3);
                peer.client.grant(1, 0, 3, true);
                peer
            },
            |p| {
                p.transfer(Transfer { more: true, ..Peer::first_transfer(0, b"t") }, b"half");
                p.send(CHANNEL, Flow { drain: true, ..p.sender_flow(3, 0) });
            },
            Rule::Drain,
        ),
        (
            "credit used up without drain",
            || Peer::receiving(3),
            |p| {
                p.send(CHANNEL, p.sender_flow(3, 0));
            },
            Rule::DeliveryCount,
        ),
        (
            "a delivery-count that goes back",
            || Peer::receiving(3),
            |p| {
                p.deliver(0);
                p.send(CHANNEL, p.sender_flow(0, 3));
            },
            Rule::DeliveryCount,
        ),
        (
            "a delivery-count beyond what was sent",
            || Peer::sending(3),
            |p| {
                p.send(CHANNEL, Flow { next_incoming_id: Some(0), ..p.link_flow(1, 2) });
            },
            Rule::DeliveryCount,
        ),
        (
            "credit that nobody granted",
            || Peer::receiving(3),
            |p| {
                p.send(CHANNEL, p.sender_flow(0, 4));
            },
            Rule::CreditEcho,
        ),
        (
            "next-incoming-id beyond what was sent",
            Peer::begun,
            |p| {
                p.send(CHANNEL, p.flow(1));
            },
            Rule::TransferIds,
        ),
        (
            "flow without next-incoming-id",
            Peer::begun,
            |p| {
                p.send(CHANNEL, Flow { next_incoming_id: None, ..p.flow(0) });
            },
            Rule::TransferIds,
        ),
        (
            "next-outgoing-id that counts wrong",
            Peer::begun,
            |p| {
                p.send(CHANNEL, Flow { next_outgoing_id: 5, ..p.flow(0) });
            },
            Rule::TransferIds,
        ),
        (
            "flow of a link without handle",
            Peer::begun,
            |p| {
                p.send(CHANNEL, Flow { link_credit: Some(1), ..p.flow(0) });
            },
            Rule::FlowFields,
        ),
        (
            "flow of a sender without credit",
            || Peer::receiving(1),
            |p| {
                p.send(CHANNEL, Flow { handle: Some(HANDLE), ..p.flow(0) });
            },
            Rule::FlowFields,
        ),
        (
            "flow of a receiver without credit",
            || Peer::sending(1),
            |p| {
                p.send(CHANNEL, Flow { handle: Some(HANDLE), ..p.flow(0) });
            },
            Rule::FlowFields,
        ),
        (
            "a delivery-id skipped",
            || Peer::receiving(5),
            |p| {
                p.deliver(0).deliver(2);
            },
            Rule::DeliveryId,
        ),
        (
            "a delivery-id repeated",
            || Peer::receiving(5),
            |p| {
                p.deliver(3).deliver(3);
            },
            Rule::DeliveryId,
        ),
        (
            "a delivery without delivery-id",
            || Peer::receiving(5),
            |p| {
                p.transfer(Transfer { delivery_id: None, ..Peer::first_transfer(0, b"t") }, b"");
            },
            Rule::Continuation,
        ),
        (
            "a delivery without message-format",
            || Peer::receiving(5),
            |p| {
                p.transfer(Transfer { message_format: None, ..Peer::first_transfer(0, b"t") }, b"");
            },
            Rule::Continuation,
        ),
        (
            "a delivery within a delivery",
            || Peer::receiving(5),
            |p| {
                p.transfer(Transfer { more: true, ..Peer::first_transfer(0, b"t") }, b"half").deliver(1);
            },
            Rule::Continuation,
        ),
        (
            "another tag within a delivery",
            || Peer::receiving(5),
            |p| {
                p.transfer(Transfer { more: true, ..Peer::first_transfer(0, b"t") }, b"half");
                p.transfer(Peer::first_transfer(0, b"u"), b"");
            },
            Rule::Continuation,
        ),
        (
            "a delivery without tag",
            || Peer::receiving(5),
            |p| {
                p.transfer(Transfer { delivery_tag: None, ..Peer::first_transfer(0, b"t") }, b"");
            },
            Rule::UniqueTag,
        ),
        (
            "a tag of an unsettled delivery",
            || Peer::receiving(5),
            |p| {
                p.transfer(Peer::first_transfer(0, b"t"), b"").transfer(Peer::first_transfer(1, b"t"), b"");
            },
            Rule::UniqueTag,
        ),
        (
            "a settled delivery on an unsettled link",
            || {
                let mut peer = Peer::begun();
                peer.client.attach_receiver(1, 0, "in", "/queues/q", false);
                let mode = SenderSettleMode::Unsettled;
                peer.send(CHANNEL, Attach { snd_settle_mode: mode, ..Peer::attach_answer("in", HANDLE, Role::Sender) });
                peer.take();
                peer.client.grant(1, 0, 1, false);
                peer
            },
            |p| {
                p.transfer(Transfer { settled: Some(true), ..Peer::first_transfer(0, b"t") }, b"");
            },
            Rule::SettleMode,
        ),
        (
            "a message beyond max-message-size",
            || {
                let mut peer = Peer::begun();
                let attach =
                    Attach { name: "in", role: Role::Receiver, max_message_size: Some(6), ..Attach::default() };
                peer.client.attach(1, &attach);
                peer.send(CHANNEL, Peer::attach_answer("in", HANDLE, Role::Sender));
                peer.take();
                peer.client.grant(1, 0, 1, false);
                peer
            },
            |p| {
                p.transfer(Transfer { more: true, ..Peer::first_transfer(0, b"t") }, b"1234");
                p.transfer(Transfer { handle: HANDLE, more: true, ..Transfer::default() }, b"567");
            },
            Rule::MessageSize,
        ),
        (
            "a disposition of nothing",
            || Peer::sending(1),
            |p| {
                p.send(CHANNEL, outcome(Role::Receiver, 0, 0));
            },
            Rule::KnownDelivery,
        ),
        (
            "a disposition by the sender of nothing",
            || Peer::receiving(1),
            |p| {
                p.send(CHANNEL, outcome(Role::Sender, 0, 0));
            },
            Rule::KnownDelivery,
        ),
        (
            "a range beyond what was sent",
            || sent(2),
            |p| {
                p.send(CHANNEL, outcome(Role::Receiver, 0, 2));
            },
            Rule::KnownDelivery,
        ),
        (
            "an outcome twice",
            || sent(2),
            |p| {
                p.send(CHANNEL, outcome(Role::Receiver, 0, 1)).send(CHANNEL, outcome(Role::Receiver, 1, 1));
            },
            Rule::SettledOnce,
        ),
        (
            "an outcome for what was sent settled",
            || {
                let mut peer = Peer::sending(2);
                peer.client.send(1, 0, b"1", b"", &Send { settled: true, ..Send::default() });
                peer
            },
            |p| {
                p.send(CHANNEL, outcome(Role::Receiver, 0, 0));
            },
            Rule::SettledOnce,
        ),
        (
            "a state after the receiver settled",
            || {
                let mut peer = Peer::receiving(1);
                peer.deliver(0);
                peer.take();
                peer.client.accept(1, Serial(0), Serial(0));
                peer
            },
            |p| {
                p.send(CHANNEL, outcome(Role::Sender, 0, 0));
            },
            Rule::SettledOnce,
        ),
        (
            "a range that ends before it begins",
            || sent(2),
            |p| {
                p.send(CHANNEL, outcome(Role::Receiver, 1, 0));
            },
            Rule::DispositionRange,
        ),
    ];
    for (what, start, break_rule, rule) in cases {
        let mut peer = start();
        peer.wire.clear();
        break_rule(&mut peer);
        assert_eq!(peer.broken(), *rule, "{what}");
    }
    let mut seen: Vec<_> = cases.iter().map(|(_, _, _, rule)| format!("{rule:?}")).collect();
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() >= 25, "{} rules are broken here: {seen:?}", seen.len());
}

fn outcome(role: Role, first: u32, last: u32) -> Disposition<'static> {
    let state = Some(DeliveryState::Accepted);
    Disposition { role, first, last: Some(last), settled: true, state, batchable: false }
}

/// A sender that has sent so many messages.
fn sent(count: u32) -> Peer {
    let mut peer = Peer::sending(count);
    for number in 0..count {
        let id = peer.client.send(1, 0, &number.to_be_bytes(), b"x", &Send::default());
        assert_eq!(id, Some(Serial(number)));
    }
    peer
}
