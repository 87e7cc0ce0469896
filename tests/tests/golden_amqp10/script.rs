//! Scripts and their steps.

use std::net::SocketAddr;

use leveret_amqp10::message::{Header, MapSection, Properties, write_data, write_map_section};
use leveret_amqp10::performative::{Attach, Begin, Detach, Disposition, End, Flow, Open, Transfer};
use leveret_amqp10::sasl::Init;
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{
    DeliveryState, HEADER_AMQP, HEADER_SASL, Performative, Role, SaslFrame, Source, Symbol, Target, TargetArchetype,
    Value, encode_performative, encode_transfer,
};

/// The queue that is new and empty for every script.
pub(crate) const QUEUE: &str = "golden10.queue";
/// Its address.
pub(crate) const TO: Option<&str> = Some("/queues/golden10.queue");
/// The address of an exchange without bindings.
pub(crate) const FANOUT: Option<&str> = Some("/exchanges/amq.fanout");

/// A step of a script.
pub(crate) enum Step {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Wait for a frame with this name, or one of several joined by `or`, unless the session, the connection or the
    /// socket ends before.
    Await(&'static str),
    /// As `Await`, but only for Leveret: RabbitMQ doesn't send it.
    AwaitOurs(&'static str),
    /// Close the socket without a `close`, and connect another one.
    Cut,
    /// Do something over AMQP 0-9-1.
    Classic(fn(SocketAddr)),
}

use Step::{Await, Cut, Send};

/// A script.
pub(crate) struct Script {
    /// Its subject.
    pub(crate) name: &'static str,
    /// Whether it runs as a user with permissions for some objects only.
    pub(crate) restricted: bool,
    /// Whether flows are left out, because their timing depends on how bytes are read.
    pub(crate) without_flows: bool,
    /// The client's steps.
    pub(crate) steps: Vec<Step>,
}

impl Script {
    /// Whether it names [`QUEUE`].
    pub(crate) fn needs_queue(&self) -> bool {
        self.steps.iter().any(|step| match step {
            Send(bytes) => bytes.windows(QUEUE.len()).any(|window| window == QUEUE.as_bytes()),
            Step::Classic(_) => true,
            Await(_) | Step::AwaitOurs(_) | Cut => false,
        })
    }
}

/// A script of these steps.
pub(crate) fn script(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Script {
    Script { name, restricted: false, without_flows: false, steps: steps.into_iter().collect() }
}

/// Concatenates the results of several helpers.
pub(crate) fn all<const N: usize>(parts: [Vec<Step>; N]) -> Vec<Step> {
    parts.into_iter().flatten().collect()
}

/// A performative on channel 0.
pub(crate) fn say<'a>(performative: impl Into<Performative<'a>>) -> Step {
    on(0, performative)
}

/// A performative on a channel.
pub(crate) fn on<'a>(channel: u16, performative: impl Into<Performative<'a>>) -> Step {
    let mut bytes = Vec::new();
    encode_performative(&mut bytes, channel, &performative.into());
    Send(bytes)
}

/// A frame with any body.
pub(crate) fn raw(channel: u16, body: &[u8]) -> Step {
    let mut bytes = Vec::new();
    let start = leveret_amqp10::begin_frame(&mut bytes, leveret_amqp10::FrameKind::Amqp, channel);
    bytes.extend_from_slice(body);
    leveret_amqp10::end_frame(&mut bytes, start);
    Send(bytes)
}

/// `sasl-init`.
pub(crate) fn init(mechanism: &'static str, response: Option<&[u8]>) -> Step {
    let mut bytes = Vec::new();
    let init = Init { mechanism: Symbol::new(mechanism), initial_response: response, hostname: None };
    SaslFrame::Init(init).encode(&mut bytes);
    Send(bytes)
}

/// The steps up to the protocol header of AMQP; the password is replaced by that of the script's user. A RabbitMQ
/// that gets more bytes right after a header sometimes loses them, so each reply is awaited.
pub(crate) fn login() -> Vec<Step> {
    vec![
        Send(HEADER_SASL.to_vec()),
        Await("header"),
        init("PLAIN", Some(b"\0guest\0guest")),
        Await("sasl-outcome"),
        Send(HEADER_AMQP.to_vec()),
        Await("header"),
    ]
}

/// An `open`.
pub(crate) fn open() -> Open<'static> {
    Open { container_id: "golden", hostname: Some("vhost:/"), ..Open::default() }
}

/// A `begin`.
pub(crate) fn begin() -> Begin<'static> {
    Begin { incoming_window: 100, outgoing_window: 100, ..Begin::default() }
}

/// An attach of a sender with handle 0.
pub(crate) fn sender(address: Option<&str>) -> Attach<'_> {
    let target = Target { address, ..Target::default() };
    Attach {
        name: "sender",
        role: Role::Sender,
        source: Some(Source::default()),
        target: Some(TargetArchetype::Target(target)),
        initial_delivery_count: Some(0),
        ..Attach::default()
    }
}

/// An attach of a receiver with handle 1.
pub(crate) fn receiver(address: Option<&str>) -> Attach<'_> {
    let source = Source { address, ..Source::default() };
    Attach {
        name: "receiver",
        handle: 1,
        role: Role::Receiver,
        source: Some(source),
        target: Some(TargetArchetype::Target(Target::default())),
        ..Attach::default()
    }
}

/// A transfer of handle 0.
pub(crate) fn transfer(id: u32, settled: bool) -> Transfer<'static> {
    Transfer {
        delivery_id: Some(id),
        delivery_tag: Some(b"t"),
        message_format: Some(0),
        settled: Some(settled),
        ..Transfer::default()
    }
}

/// A transfer with its payload.
pub(crate) fn send(transfer: &Transfer<'_>, payload: &[u8]) -> Step {
    let mut bytes = Vec::new();
    encode_transfer(&mut bytes, 0, transfer, payload);
    Send(bytes)
}

/// A message with properties.
pub(crate) fn message(properties: &Properties<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    Header::default().encode(&mut payload);
    properties.encode(&mut payload);
    write_data(&mut payload, b"body");
    payload
}

/// A message without any.
pub(crate) fn plain() -> Vec<u8> {
    message(&Properties::default())
}

/// A message with one message annotation.
pub(crate) fn annotated<'v>(key: &str, value: impl Into<Value<'v>>) -> Vec<u8> {
    let mut payload = Vec::new();
    let map = EncodedMap::new().with(key, value);
    write_map_section(&mut payload, MapSection::MessageAnnotations, map.as_map());
    write_data(&mut payload, b"body");
    payload
}

/// From the login to `begin`.
pub(crate) fn begun() -> Vec<Step> {
    let mut steps = login();
    steps.extend([say(open()), Await("open"), say(begin()), Await("begin")]);
    steps
}

/// Steps within a session.
pub(crate) fn session(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let mut script = begun();
    script.extend(steps);
    script
}

/// An attached sender with its credit.
pub(crate) fn sending(address: Option<&str>) -> Vec<Step> {
    session([say(sender(address)), Await("attach"), Await("flow")])
}

/// Attaches another sender, with handle 9, and waits for its credit: by then everything sent before has been
/// processed and answered.
pub(crate) fn another_sender() -> [Step; 3] {
    [say(Attach { name: "another", handle: 9, ..sender(FANOUT) }), Await("attach"), Await("flow")]
}

/// An attached receiver.
pub(crate) fn receiving(address: Option<&str>) -> Vec<Step> {
    session([say(receiver(address)), Await("attach")])
}

/// An attach that is refused: attach and detach, or end. The detach follows the attach immediately.
pub(crate) fn refused(attach: Attach<'_>) -> Vec<Step> {
    session([say(attach), Await("attach")])
}

/// `count` messages to [`QUEUE`] from a new session, each accepted.
pub(crate) fn published(count: u32) -> Vec<Step> {
    let mut steps = sending(TO);
    for at in 0..count {
        steps.extend([send(&transfer(at, false), &plain()), Await("disposition")]);
    }
    steps
}

/// A flow of the session.
pub(crate) fn flow() -> Flow<'static> {
    Flow { next_incoming_id: Some(0), incoming_window: 100, outgoing_window: 100, ..Flow::default() }
}

/// A flow of the receiver.
pub(crate) fn credit(count: u32) -> Flow<'static> {
    Flow { handle: Some(1), delivery_count: Some(0), link_credit: Some(count), ..flow() }
}

/// Publishes messages to [`QUEUE`], attaches a receiver, and receives all of them.
pub(crate) fn received(count: u32) -> Vec<Step> {
    let mut steps = published(count);
    steps.extend([say(receiver(TO)), Await("attach"), say(Flow { next_outgoing_id: count, ..credit(count) })]);
    steps.extend((0..count).map(|_| Await("transfer")));
    steps
}

/// Receives from [`QUEUE`] on a new connection.
pub(crate) fn again() -> Vec<Step> {
    let mut steps = receiving(TO);
    steps.extend([say(credit(1)), Await("transfer")]);
    steps
}

/// An outcome for deliveries.
pub(crate) fn disposition(first: u32, last: Option<u32>, settled: bool, state: Option<DeliveryState<'_>>) -> Step {
    let bytes = |settled| {
        let mut bytes = Vec::new();
        let disposition = Disposition { role: Role::Receiver, first, last, settled, state, ..Disposition::default() };
        encode_performative(&mut bytes, 0, &disposition.into());
        bytes
    };
    let (mut told, untold) = (bytes(true), bytes(false));
    if !settled {
        // RabbitMQ distinguishes an absent flag from false, so it is written out.
        let at = told.iter().zip(&untold).skip(4).position(|(told, untold)| told != untold).expect("the flag") + 4;
        told[at] = 0x42;
    }
    Send(told)
}

/// A detach.
pub(crate) fn detach(handle: u32, closed: bool) -> Step {
    say(Detach { handle, closed, error: None })
}

/// Ends the session in order: everything sent before has been processed.
pub(crate) fn end() -> [Step; 2] {
    [say(End { error: None }), Await("end")]
}

/// Closes the socket.
pub(crate) fn cut() -> Vec<Step> {
    vec![Cut]
}
