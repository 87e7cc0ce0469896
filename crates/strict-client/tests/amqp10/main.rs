//! The client against a peer whose every frame is written here: one that follows the rules, and in `broken_rules` one
//! that breaks each of them.

mod broken_rules;
mod peer;

use leveret_amqp10::performative::{Close, Detach, Disposition, End, Flow, Open, Transfer};
use leveret_amqp10::sasl::SaslCode;
use leveret_amqp10::{DeliveryState, HEADER_AMQP, HEADER_SASL, Performative, Role, Serial, encode_empty};
use leveret_strict_client::Rule;
use leveret_strict_client::amqp10::{Event, Mechanism, Options, Send, SessionOptions, State};

use peer::{CHANNEL, HANDLE, Peer, error, peer_error};

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
        active: None,
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
fn a_drain_is_answered_after_the_last_message() {
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
    // In flight when the lower credit was sent.
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
fn ends_are_answered_and_free_handles_and_names() {
    let mut peer = Peer::receiving(1);
    peer.deliver(0);
    peer.take();
    peer.send(CHANNEL, Detach { handle: HANDLE, closed: true, error: error() });
    let detached = Event::Detached { channel: 1, handle: 0, closed: true, error: peer_error(), by_peer: true };
    assert_eq!(peer.take(), [detached]);
    assert_eq!(peer.names_sent(), ["detach"]);
    assert!(!peer.client.is_attached(1, 0));
    assert_eq!(peer.client.unsettled_received(1), 0);
    // The handle and the name can be used again.
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
fn a_refused_login_is_reported() {
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
