//! The client against a peer whose every frame is written here: first one that follows the rules, then one that
//! breaks each of them.

use leveret_amqp091::method::{basic, channel, connection, queue};
use leveret_amqp091::{
    FieldTable, Method, ShortStr, Table, decode_frame, encode_body, encode_deliver, encode_header, encode_method,
};
use leveret_strict_client::Rule;
use leveret_strict_client::amqp091::{Client, Consume, Event, Options, Publication, QueueDeclare};

/// A client, and the bytes that a peer has sent to it.
struct Peer {
    client: Client,
    wire: Vec<u8>,
}

impl Peer {
    fn fresh(options: Options) -> Self {
        let mut client = Client::new(options);
        assert_eq!(client.output(), b"AMQP\x00\x00\x09\x01");
        client.output().clear();
        Self { client, wire: Vec::new() }
    }

    fn send(&mut self, channel: u16, method: Method<'_>) -> &mut Self {
        encode_method(&mut self.wire, channel, &method);
        self
    }

    fn tune() -> Method<'static> {
        Method::ConnectionTune(connection::Tune { channel_max: 2047, frame_max: 8192, heartbeat: 60 })
    }

    fn start(mechanisms: &[u8]) -> Method<'_> {
        Method::ConnectionStart(connection::Start {
            version_minor: 9,
            mechanisms,
            locales: b"en_US",
            ..Default::default()
        })
    }

    /// A client after the handshake, with channel 1 open.
    fn connected() -> Self {
        Self::connected_with(Options::default())
    }

    fn connected_with(options: Options) -> Self {
        let mut peer = Self::fresh(options);
        peer.send(0, Self::start(b"AMQPLAIN PLAIN"))
            .send(0, Self::tune())
            .send(0, Method::ConnectionOpenOk(connection::OpenOk::default()));
        let events = peer.take();
        assert!(matches!(events[..], [Event::Started { .. }, Event::Connected]), "{events:?}");
        assert_eq!(peer.sent(), ["connection.start-ok", "connection.tune-ok", "connection.open"]);
        peer.client.open_channel(1);
        peer.send(1, Method::ChannelOpenOk(channel::OpenOk::default()));
        assert_eq!(peer.take(), [Event::Reply { channel: 1, method: "channel.open-ok" }]);
        assert!(peer.client.is_channel_open(1));
        peer.sent();
        peer
    }

    /// A connected client with a consumer `t`.
    fn consuming(prefetch: u16, no_ack: bool) -> Self {
        let mut peer = Self::connected();
        peer.client.qos(1, prefetch, false);
        peer.client.consume(1, b"q", b"t", Consume { no_ack, exclusive: false }, &FieldTable::new());
        peer.send(1, Method::BasicQosOk(basic::QosOk {}))
            .send(1, Method::BasicConsumeOk(basic::ConsumeOk { consumer_tag: ShortStr::literal("t") }));
        peer.take();
        peer
    }

    fn publishing(count: usize) -> Self {
        let mut peer = Self::connected();
        peer.client.confirm_select(1);
        peer.send(1, Method::ConfirmSelectOk(Default::default()));
        peer.take();
        for tag in 1..=count as u64 {
            assert_eq!(peer.client.publish(1, Publication::to_queue(b"q", b"x")), tag);
        }
        peer
    }

    fn deliver(&mut self, tag: u64, body: &[u8]) -> &mut Self {
        encode_deliver(&mut self.wire, 1, b"t", tag, false, b"", b"q");
        encode_header(&mut self.wire, 1, 60, body.len() as u64, &[0x10, 0, 2]);
        for chunk in body.chunks(5) {
            encode_body(&mut self.wire, 1, chunk);
        }
        self
    }

    /// The events of the client.
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

    /// Names of the methods sent by the client.
    fn sent(&mut self) -> Vec<&'static str> {
        let output = std::mem::take(self.client.output());
        let mut rest = output.as_slice();
        let mut names = Vec::new();
        while let Some((frame, used)) = decode_frame(rest, 131_072).unwrap() {
            names.extend(Method::decode(frame.payload).map(|method| method.name()));
            rest = &rest[used..];
        }
        names
    }
}

#[test]
fn deliveries_arrive_whole_from_any_cut_of_the_stream() {
    let mut peer = Peer::consuming(0, false);
    peer.deliver(1, b"hello, world").deliver(2, b"").deliver(3, b"third");
    let wire = std::mem::take(&mut peer.wire);
    let (mut pending, mut bodies, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for octet in wire {
        pending.push(octet);
        let used = peer.client.receive(&pending, &mut events).unwrap();
        pending.drain(..used);
        for event in events.drain(..) {
            let Event::Delivered(delivery) = event else { panic!("{event:?}") };
            assert_eq!(peer.client.bytes(delivery.consumer_tag), b"t");
            assert_eq!(peer.client.bytes(delivery.routing_key), b"q");
            assert_eq!(peer.client.bytes(delivery.properties), [0x10, 0, 2]);
            bodies.push((delivery.delivery_tag, peer.client.bytes(delivery.body).to_vec()));
        }
    }
    assert_eq!(bodies, [(1, b"hello, world".to_vec()), (2, vec![]), (3, b"third".to_vec())]);
    assert_eq!(peer.client.unacked(1), 3);
    peer.client.ack(1, 2, true);
    assert_eq!(peer.client.unacked(1), 1);
}

#[test]
fn contents_of_two_channels_may_be_interleaved() {
    let mut peer = Peer::consuming(0, true);
    peer.client.open_channel(2);
    peer.send(2, Method::ChannelOpenOk(channel::OpenOk::default()));
    peer.client.get(2, b"q", true);
    encode_deliver(&mut peer.wire, 1, b"t", 1, false, b"", b"q");
    peer.send(2, Method::BasicGetOk(basic::GetOk { delivery_tag: 1, message_count: 4, ..Default::default() }));
    encode_header(&mut peer.wire, 1, 60, 1, &[0, 0]);
    encode_header(&mut peer.wire, 2, 60, 1, &[0, 0]);
    encode_body(&mut peer.wire, 2, b"2");
    encode_body(&mut peer.wire, 1, b"1");
    let events = peer.take();
    let [Event::Reply { .. }, Event::Got { delivery, message_count: 4 }, Event::Delivered(other)] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((peer.client.bytes(delivery.body), peer.client.bytes(other.body)), (b"2".as_slice(), b"1".as_slice()));
}

#[test]
fn confirms_are_reported_as_ranges() {
    let mut peer = Peer::publishing(5);
    peer.send(1, Method::BasicAck(basic::Ack { delivery_tag: 2, multiple: false }))
        .send(1, Method::BasicNack(basic::Nack { delivery_tag: 3, multiple: false, requeue: false }))
        .send(1, Method::BasicAck(basic::Ack { delivery_tag: 5, multiple: true }));
    let range = |first, last, positive| Event::Confirmed { channel: 1, first, last, positive };
    assert_eq!(peer.take(), [range(2, 2, true), range(3, 3, false), range(1, 1, true), range(4, 5, true)]);
    assert_eq!(peer.client.unconfirmed(1), 0);
}

#[test]
fn a_channel_closed_by_the_server_can_be_opened_again() {
    let mut peer = Peer::connected();
    peer.client.declare_queue(1, b"q", QueueDeclare { passive: true, ..Default::default() }, &FieldTable::new());
    peer.sent();
    let close = channel::Close {
        reply_code: 404,
        reply_text: ShortStr::literal("NOT_FOUND - no queue 'q' in vhost '/'"),
        class_id: 50,
        method_id: 10,
    };
    peer.send(1, Method::ChannelClose(close));
    let events = peer.take();
    let [Event::ChannelClosed { channel: 1, reason }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((reason.code, reason.blamed), (404, (50, 10)));
    assert_eq!(peer.sent(), ["channel.close-ok"]);
    peer.client.open_channel(1);
    peer.send(1, Method::ChannelOpenOk(channel::OpenOk::default()));
    peer.take();
}

#[test]
fn frames_in_flight_at_our_close_yield_no_events() {
    let mut peer = Peer::consuming(0, false);
    peer.client.close_channel(1);
    peer.deliver(1, b"late").send(1, Method::ChannelCloseOk(channel::CloseOk {}));
    assert_eq!(peer.take(), [Event::Reply { channel: 1, method: "channel.close-ok" }]);
    assert_eq!(peer.deliver(2, b"later").broken(), Rule::ChannelOpen);
}

#[test]
fn planted_handshakes() {
    let mut peer = Peer::fresh(Options::default());
    assert_eq!(peer.send(0, Peer::tune()).broken(), Rule::Handshake);

    let mut peer = Peer::fresh(Options::default());
    assert_eq!(peer.send(0, Peer::start(b"EXTERNAL")).broken(), Rule::Handshake);

    let mut peer = Peer::fresh(Options::default());
    peer.wire.extend_from_slice(b"AMQP\x00\x01\x00\x00");
    assert_eq!(peer.broken(), Rule::Handshake);

    let mut peer = Peer::fresh(Options::default());
    let small = connection::Tune { channel_max: 0, frame_max: 4095, heartbeat: 0 };
    assert_eq!(peer.send(0, Peer::start(b"PLAIN")).send(0, Method::ConnectionTune(small)).broken(), Rule::Handshake);

    let mut peer = Peer::fresh(Options::default());
    peer.send(0, Peer::start(b"PLAIN")).send(0, Peer::tune()).send(0, Peer::tune());
    assert_eq!(peer.broken(), Rule::Handshake);
}

#[test]
fn planted_frames() {
    let mut peer = Peer::consuming(0, false);
    encode_body(&mut peer.wire, 1, &[0; 8185]);
    assert_eq!(peer.broken(), Rule::WellFormed, "frame_max is 8192");

    let mut peer = Peer::connected();
    peer.wire.extend_from_slice(&[1, 0, 1, 0, 0, 0, 4, 0, 60, 3, 231, 0xCE]);
    assert_eq!(peer.broken(), Rule::WellFormed, "an unknown method");

    let mut peer = Peer::connected();
    assert_eq!(peer.send(1, Method::ConnectionUnblocked(connection::Unblocked {})).broken(), Rule::ChannelZero);

    let mut peer = Peer::connected();
    assert_eq!(peer.send(0, Method::BasicQosOk(basic::QosOk {})).broken(), Rule::ChannelZero);

    let mut peer = Peer::connected();
    assert_eq!(peer.send(1, Method::BasicPublish(basic::Publish::default())).broken(), Rule::ServerMethod);

    let mut peer = Peer::connected();
    peer.send(0, Method::ConnectionClose(connection::Close::default()));
    assert!(matches!(peer.take()[..], [Event::ConnectionClosed(_)]));
    assert_eq!(peer.sent(), ["connection.close-ok"]);
    assert_eq!(peer.send(1, Method::BasicQosOk(basic::QosOk {})).broken(), Rule::ConnectionClosed);
}

#[test]
fn planted_channels() {
    let mut peer = Peer::connected();
    assert_eq!(peer.send(2, Method::BasicQosOk(basic::QosOk {})).broken(), Rule::ChannelOpen);

    let mut peer = Peer::connected();
    peer.send(1, Method::ChannelClose(channel::Close::default()));
    assert_eq!(peer.send(1, Method::BasicQosOk(basic::QosOk {})).broken(), Rule::ChannelOpen);
}

#[test]
fn planted_replies() {
    let mut peer = Peer::connected();
    assert_eq!(peer.send(1, Method::QueueBindOk(queue::BindOk {})).broken(), Rule::Reply);

    let mut peer = Peer::connected();
    peer.client.bind_queue(1, b"q", b"e", b"k", &FieldTable::new());
    peer.client.purge_queue(1, b"q");
    assert_eq!(peer.send(1, Method::QueuePurgeOk(queue::PurgeOk { message_count: 0 })).broken(), Rule::Reply);

    let mut peer = Peer::connected();
    peer.client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    let other = queue::DeclareOk { queue: ShortStr::literal("other"), ..Default::default() };
    assert_eq!(peer.send(1, Method::QueueDeclareOk(other)).broken(), Rule::ReplyValue);

    let mut peer = Peer::consuming(0, false);
    peer.client.consume(1, b"q", b"t", Consume::default(), &FieldTable::new());
    let again = basic::ConsumeOk { consumer_tag: ShortStr::literal("t") };
    assert_eq!(peer.send(1, Method::BasicConsumeOk(again)).broken(), Rule::ReplyValue);

    let mut peer = Peer::connected();
    assert_eq!(
        peer.send(1, Method::BasicGetEmpty(basic::GetEmpty::default())).broken(),
        Rule::Reply,
        "nobody asked for a message"
    );
}

#[test]
fn planted_contents() {
    let mut peer = Peer::consuming(0, false);
    encode_deliver(&mut peer.wire, 1, b"t", 1, false, b"", b"q");
    assert_eq!(peer.deliver(2, b"x").broken(), Rule::ContentOrder, "a method before the header");

    let mut peer = Peer::consuming(0, false);
    encode_body(&mut peer.wire, 1, b"x");
    assert_eq!(peer.broken(), Rule::ContentOrder, "a body before the method");

    let mut peer = Peer::consuming(0, false);
    encode_header(&mut peer.wire, 1, 60, 1, &[0, 0]);
    assert_eq!(peer.broken(), Rule::ContentOrder, "a header before the method");

    let mut peer = Peer::consuming(0, false);
    encode_deliver(&mut peer.wire, 1, b"t", 1, false, b"", b"q");
    encode_header(&mut peer.wire, 1, 50, 1, &[0, 0]);
    assert_eq!(peer.broken(), Rule::ContentOrder, "a header of another class");

    let mut peer = Peer::consuming(0, false);
    encode_deliver(&mut peer.wire, 1, b"t", 1, false, b"", b"q");
    encode_header(&mut peer.wire, 1, 60, 3, &[0, 0]);
    encode_body(&mut peer.wire, 1, b"four");
    assert_eq!(peer.broken(), Rule::BodySize);

    let mut peer = Peer::consuming(0, false);
    encode_deliver(&mut peer.wire, 1, b"t", 1, false, b"", b"q");
    encode_header(&mut peer.wire, 1, 60, 3, &[0, 0]);
    encode_body(&mut peer.wire, 1, b"12");
    assert_eq!(peer.deliver(2, b"x").broken(), Rule::ContentOrder, "a message within another");
}

#[test]
fn planted_deliveries() {
    assert_eq!(Peer::consuming(0, false).deliver(2, b"x").broken(), Rule::DeliveryTag, "skipped");
    assert_eq!(Peer::consuming(0, true).deliver(1, b"x").deliver(1, b"x").broken(), Rule::DeliveryTag, "repeated");
    assert_eq!(Peer::connected().deliver(1, b"x").broken(), Rule::LiveConsumer, "no such consumer");

    let mut peer = Peer::consuming(0, false);
    peer.client.cancel(1, b"t");
    peer.deliver(1, b"on its way")
        .send(1, Method::BasicCancelOk(basic::CancelOk { consumer_tag: ShortStr::literal("t") }));
    peer.take();
    assert_eq!(peer.deliver(2, b"x").broken(), Rule::LiveConsumer, "cancelled");

    let mut peer = Peer::connected();
    peer.client.get(1, b"q", false);
    let got = basic::GetOk { delivery_tag: 7, ..Default::default() };
    assert_eq!(peer.send(1, Method::BasicGetOk(got)).broken(), Rule::DeliveryTag);
}

#[test]
fn planted_prefetch() {
    let mut peer = Peer::consuming(2, false);
    peer.deliver(1, b"x").deliver(2, b"x");
    peer.take();
    peer.client.ack(1, 1, false);
    peer.deliver(3, b"x");
    peer.take();
    assert_eq!(peer.deliver(4, b"x").broken(), Rule::Prefetch);

    let mut peer = Peer::consuming(0, false);
    peer.client.qos(1, 1, true);
    peer.send(1, Method::BasicQosOk(basic::QosOk {})).deliver(1, b"x");
    peer.take();
    assert_eq!(peer.deliver(2, b"x").broken(), Rule::Prefetch, "of the channel");

    let mut peer = Peer::consuming(1, true);
    peer.deliver(1, b"x").deliver(2, b"prefetch doesn't count without acknowledgements");
    assert_eq!(peer.take().len(), 2);
}

#[test]
fn planted_confirms() {
    let ack = |delivery_tag, multiple| Method::BasicAck(basic::Ack { delivery_tag, multiple });
    assert_eq!(Peer::publishing(2).send(1, ack(3, false)).broken(), Rule::Confirm, "not published");
    assert_eq!(Peer::publishing(2).send(1, ack(0, false)).broken(), Rule::Confirm, "zero");
    assert_eq!(Peer::publishing(2).send(1, ack(1, false)).send(1, ack(1, false)).broken(), Rule::Confirm, "twice");
    assert_eq!(
        Peer::publishing(2).send(1, ack(2, true)).send(1, ack(1, false)).broken(),
        Rule::Confirm,
        "covered before"
    );
    let mut peer = Peer::connected();
    peer.client.publish(1, Publication::to_queue(b"q", b"x"));
    assert_eq!(peer.send(1, ack(1, false)).broken(), Rule::Confirm, "never selected");

    let mut peer = Peer::connected();
    peer.client.confirm_select(1);
    peer.client.publish(1, Publication::to_queue(b"q", b"x"));
    assert_eq!(peer.send(1, ack(1, false)).broken(), Rule::Confirm, "before select-ok");
}

#[test]
fn planted_notifications() {
    let cancel = basic::Cancel { consumer_tag: ShortStr::literal("t"), nowait: true };
    let mut peer = Peer::consuming(0, false);
    peer.send(1, Method::BasicCancel(cancel));
    assert_eq!(peer.take(), [Event::ConsumerCancelled { channel: 1, consumer_tag: b"t".to_vec() }]);
    assert_eq!(peer.send(1, Method::BasicCancel(cancel)).broken(), Rule::LiveConsumer);

    let plain = || Options { properties: FieldTable::new(), ..Options::default() };
    let mut peer = Peer::connected_with(plain());
    peer.client.consume(1, b"q", b"t", Consume::default(), &FieldTable::new());
    peer.send(1, Method::BasicConsumeOk(basic::ConsumeOk { consumer_tag: ShortStr::literal("t") }));
    assert_eq!(peer.send(1, Method::BasicCancel(cancel)).broken(), Rule::Capability);

    let mut peer = Peer::connected_with(plain());
    let blocked = connection::Blocked { reason: ShortStr::literal("low on memory") };
    assert_eq!(peer.send(0, Method::ConnectionBlocked(blocked)).broken(), Rule::Capability);

    let mut peer = Peer::connected();
    peer.send(0, Method::ConnectionBlocked(blocked));
    assert_eq!(peer.take(), [Event::Blocked { reason: "low on memory".into() }]);
}

#[test]
fn recover_settles_all_deliveries() {
    let mut peer = Peer::consuming(1, false);
    peer.deliver(1, b"x");
    peer.take();
    peer.client.recover(1);
    peer.send(1, Method::BasicRecoverOk(basic::RecoverOk {})).deliver(2, b"x");
    assert_eq!(peer.take().len(), 2);
    assert_eq!(peer.client.unacked(1), 1);
}

#[test]
fn requests_without_arguments_have_an_empty_table() {
    let mut peer = Peer::connected();
    peer.client.declare_queue(
        1,
        b"",
        QueueDeclare { durable: true, exclusive: true, ..Default::default() },
        &FieldTable::new(),
    );
    let output = std::mem::take(peer.client.output());
    let (frame, _) = decode_frame(&output, 4096).unwrap().unwrap();
    let Ok(Method::QueueDeclare(declare)) = Method::decode(frame.payload) else { panic!("queue.declare") };
    assert!(declare.durable && declare.exclusive && !declare.passive && !declare.auto_delete);
    assert_eq!(declare.arguments, Table::EMPTY);
    let named = queue::DeclareOk { queue: ShortStr::literal("amq.gen-1"), message_count: 2, consumer_count: 1 };
    peer.send(1, Method::QueueDeclareOk(named));
    assert!(matches!(&peer.take()[..], [Event::QueueDeclared { queue, .. }] if queue == b"amq.gen-1"));
}
