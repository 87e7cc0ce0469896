//! Scripts of AMQP 1.0 frames, and whether they are answered as RabbitMQ answered them, frame by frame.
//!
//! The recorded answers are in tests/golden/amqp10-frames.json (`make golden` renews them); scripts that are answered
//! otherwise stand in tests/allow/amqp10-frames.txt with the reason.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};

use leveret_amqp10::message::{Header, Properties, write_data};
use leveret_amqp10::performative::{Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer};
use leveret_amqp10::sasl::Init;
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{
    DeliveryState, HEADER_AMQP, HEADER_SASL, Performative, ReceiverSettleMode, Role, SaslFrame, SenderSettleMode,
    Source, Symbol, Symbols, Target, TargetArchetype, decode_frame, encode_performative, encode_transfer,
};
use leveret_tests::broker::Broker;
use leveret_tests::wire::Wire;
use leveret_tests::{PATIENCE, allow};
use serde_json::{Value, json};

const QUEUE: &str = "golden10.queue";
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/amqp10-frames.json");

/// A step of a script.
enum Step {
    /// These bytes are sent.
    Send(Vec<u8>),
    /// A performative of this name is waited for, or the end of the socket.
    Await(&'static str),
}

use Step::{Await, Send};

fn performative<'a>(performative: impl Into<Performative<'a>>) -> Step {
    on(0, performative)
}

fn on<'a>(channel: u16, performative: impl Into<Performative<'a>>) -> Step {
    let mut bytes = Vec::new();
    encode_performative(&mut bytes, channel, &performative.into());
    Send(bytes)
}

fn init(mechanism: &'static str, response: &[u8]) -> Step {
    let mut bytes = Vec::new();
    let init = Init { mechanism: Symbol::new(mechanism), initial_response: Some(response), hostname: None };
    SaslFrame::Init(init).encode(&mut bytes);
    Send(bytes)
}

fn login() -> Vec<Step> {
    let plain = init("PLAIN", b"\0guest\0guest");
    vec![Send(HEADER_SASL.to_vec()), plain, Await("sasl-outcome"), Send(HEADER_AMQP.to_vec())]
}

fn open() -> Open<'static> {
    Open { container_id: "golden", hostname: Some("vhost:/"), ..Open::default() }
}

fn begin() -> Begin<'static> {
    Begin { incoming_window: 100, outgoing_window: 100, ..Begin::default() }
}

fn sender(address: Option<&'static str>) -> Attach<'static> {
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

fn receiver(address: Option<&'static str>) -> Attach<'static> {
    let source = Source { address, ..Source::default() };
    Attach {
        name: "receiver",
        role: Role::Receiver,
        source: Some(source),
        target: Some(TargetArchetype::Target(Target::default())),
        ..Attach::default()
    }
}

fn transfer(id: Option<u32>, settled: bool) -> Transfer<'static> {
    Transfer {
        delivery_id: id,
        delivery_tag: Some(b"t"),
        message_format: Some(0),
        settled: Some(settled),
        ..Transfer::default()
    }
}

fn message(properties: &Properties<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    Header::default().encode(&mut payload);
    properties.encode(&mut payload);
    write_data(&mut payload, b"body");
    payload
}

fn sent(transfer: &Transfer<'_>, payload: &[u8]) -> Step {
    let mut bytes = Vec::new();
    encode_transfer(&mut bytes, 0, transfer, payload);
    Send(bytes)
}

/// A script from its login to its session.
fn session(steps: Vec<Step>) -> Vec<Step> {
    let mut script = login();
    script.extend([performative(open()), performative(begin()), Await("begin")]);
    script.extend(steps);
    script
}

fn attached(attach: Attach<'static>) -> Vec<Step> {
    session(vec![performative(attach), Await("attach")])
}

/// A link that is refused: attach and detach.
fn refused(attach: Attach<'static>) -> Vec<Step> {
    session(vec![performative(attach), Await("detach")])
}

/// A sender to the queue, or to `to` addresses, and one message on it.
fn published(
    address: Option<&'static str>,
    transfer: &Transfer<'_>,
    payload: &[u8],
    answer: &'static str,
) -> Vec<Step> {
    session(vec![performative(sender(address)), Await("flow"), sent(transfer, payload), Await(answer)])
}

fn flow() -> Flow<'static> {
    Flow { next_incoming_id: Some(0), incoming_window: 100, outgoing_window: 100, ..Flow::default() }
}

#[allow(clippy::too_many_lines)]
fn scripts() -> Vec<(&'static str, Vec<Step>)> {
    const TO: Option<&str> = Some("/queues/golden10.queue");
    const FANOUT: Option<&str> = Some("/exchanges/amq.fanout");
    let plain = message(&Properties::default());
    let with_to = |to| message(&Properties { to: Some(to), ..Properties::default() });
    let mut no_body = Vec::new();
    Properties { subject: Some("no body"), ..Properties::default() }.encode(&mut no_body);
    let annotated = |key: &str| {
        let mut payload = Vec::new();
        let map = EncodedMap::new().with(key, "value");
        let section = leveret_amqp10::message::MapSection::MessageAnnotations;
        leveret_amqp10::message::write_map_section(&mut payload, section, map.as_map());
        write_data(&mut payload, b"body");
        payload
    };
    let temporary = [Symbol::new("temporary-queue")];
    let unknown = [Symbol::new("amqp:unknown:list")];
    let hostname = |name| Open { hostname: Some(name), ..open() };
    let opened = |open: Open<'static>, answer| {
        let mut script = login();
        script.extend([performative(open), Await(answer)]);
        script
    };
    vec![
        ("a bare header without SASL", vec![Send(HEADER_AMQP.to_vec())]),
        ("a header that nobody speaks", vec![Send(b"NOPE\x01\x02\x03\x04".to_vec())]),
        ("a wrong password", vec![Send(HEADER_SASL.to_vec()), init("PLAIN", b"\0guest\0wrong"), Await("sasl-outcome")]),
        ("open with defaults", opened(open(), "open")),
        ("open of an unknown vhost", opened(hostname("vhost:nowhere"), "close")),
        ("open with another host name", opened(hostname("localhost"), "open")),
        ("open with frames of 511 bytes", opened(Open { max_frame_size: 511, ..open() }, "close")),
        ("open with an idle time of 500 ms", opened(Open { idle_time_out: Some(500), ..open() }, "close")),
        ("open with few channels", opened(Open { channel_max: 3, ..open() }, "open")),
        ("begin with defaults", session(vec![])),
        ("begin beyond channel-max", {
            let mut script = login();
            script.extend([performative(open()), on(64, begin()), Await("close")]);
            script
        }),
        ("attach a sender to a queue", session(vec![performative(sender(TO)), Await("flow")])),
        ("attach a sender to an exchange", session(vec![performative(sender(FANOUT)), Await("flow")])),
        ("attach a sender to nowhere", session(vec![performative(sender(None)), Await("flow")])),
        ("attach a sender to an unknown queue", refused(sender(Some("/queues/golden10.none")))),
        ("attach a sender to an unknown exchange", refused(sender(Some("/exchanges/golden10.none/key")))),
        ("attach a sender to the default exchange by name", refused(sender(Some("/exchanges/amq.default/key")))),
        ("attach a sender to a bad address", refused(sender(Some("/queues/")))),
        ("attach a sender to an address of version 1", refused(sender(Some("/amq/queue/golden10.queue")))),
        ("attach a sender that always settles", {
            let attach = Attach { snd_settle_mode: SenderSettleMode::Settled, ..sender(FANOUT) };
            session(vec![performative(attach), Await("flow")])
        }),
        ("attach a sender that settles second", {
            refused(Attach { rcv_settle_mode: ReceiverSettleMode::Second, ..sender(FANOUT) })
        }),
        ("attach a receiver to a queue", attached(receiver(TO))),
        ("attach a receiver to an unknown queue", refused(receiver(Some("/queues/golden10.none")))),
        ("attach a receiver to an exchange", refused(receiver(FANOUT))),
        ("attach a receiver to nothing", refused(receiver(None))),
        ("attach a receiver with an unknown outcome", {
            let source = Source { address: TO, outcomes: Symbols::of(&unknown), ..Source::default() };
            refused(Attach { source: Some(source), ..receiver(None) })
        }),
        ("attach a receiver to a dynamic node without its capability", {
            refused(Attach { source: Some(Source { dynamic: true, ..Source::default() }), ..receiver(None) })
        }),
        ("attach a receiver to a temporary queue", {
            let source = Source { dynamic: true, capabilities: Symbols::of(&temporary), ..Source::default() };
            attached(Attach { source: Some(source), ..receiver(None) })
        }),
        ("attach with a handle in use", {
            let second = Attach { name: "second", ..sender(FANOUT) };
            session(vec![performative(sender(FANOUT)), Await("flow"), performative(second), Await("end")])
        }),
        ("attach with a handle beyond handle-max", {
            session(vec![performative(Attach { handle: 256, ..sender(FANOUT) }), Await("end")])
        }),
        ("a message that a queue takes", published(TO, &transfer(Some(0), false), &plain, "disposition")),
        ("a message that nobody gets", published(FANOUT, &transfer(Some(0), false), &plain, "disposition")),
        (
            "a message to a queue by its to",
            published(None, &transfer(Some(0), false), &with_to("/queues/golden10.queue"), "disposition"),
        ),
        ("a message without to", published(None, &transfer(Some(0), false), &plain, "disposition")),
        ("a message with a bad to", published(None, &transfer(Some(0), false), &with_to("nowhere"), "disposition")),
        (
            "a message to an unknown exchange",
            published(None, &transfer(Some(0), false), &with_to("/exchanges/golden10.none"), "disposition"),
        ),
        ("a settled message with a bad to", published(None, &transfer(Some(0), true), &with_to("nowhere"), "detach")),
        (
            "a message with a reserved annotation",
            published(FANOUT, &transfer(Some(0), false), &annotated("mine"), "detach"),
        ),
        (
            "a message with x-cc that is no list",
            published(FANOUT, &transfer(Some(0), false), &annotated("x-cc"), "detach"),
        ),
        ("a message without a body", published(FANOUT, &transfer(Some(0), false), &no_body, "detach")),
        ("a message of another user", {
            let payload = message(&Properties { user_id: Some(b"somebody"), ..Properties::default() });
            published(FANOUT, &transfer(Some(0), false), &payload, "detach")
        }),
        ("a settled message on an unsettled link", {
            let attach = Attach { snd_settle_mode: SenderSettleMode::Unsettled, ..sender(FANOUT) };
            session(vec![performative(attach), Await("flow"), sent(&transfer(Some(0), true), &plain), Await("detach")])
        }),
        ("a continuation with another delivery-id", {
            let first = Transfer { more: true, ..transfer(Some(0), false) };
            session(vec![
                performative(sender(FANOUT)),
                Await("flow"),
                sent(&first, &plain),
                sent(&transfer(Some(1), false), b""),
                Await("end"),
            ])
        }),
        ("a transfer on a handle that isn't attached", {
            session(vec![sent(&Transfer { handle: 7, ..transfer(Some(0), false) }, &plain), Await("end")])
        }),
        ("a flow on a handle that isn't attached", {
            session(vec![performative(Flow { handle: Some(7), ..flow() }), Await("end")])
        }),
        ("a flow that has seen too much", {
            session(vec![performative(Flow { next_incoming_id: Some(5), ..flow() }), Await("end")])
        }),
        ("credit on an empty queue with echo", {
            let grant = Flow { handle: Some(0), delivery_count: Some(0), link_credit: Some(5), echo: true, ..flow() };
            session(vec![performative(receiver(TO)), Await("attach"), performative(grant), Await("flow")])
        }),
        ("a drain of an empty queue", {
            let grant = Flow { handle: Some(0), delivery_count: Some(0), link_credit: Some(5), drain: true, ..flow() };
            session(vec![performative(receiver(TO)), Await("attach"), performative(grant), Await("flow")])
        }),
        ("a disposition of nothing", {
            let accepted = Disposition {
                role: Role::Receiver,
                first: 3,
                settled: true,
                state: Some(DeliveryState::Accepted),
                ..Disposition::default()
            };
            session(vec![performative(accepted), performative(End { error: None }), Await("end")])
        }),
        ("a detach", {
            let detach = Detach { handle: 0, closed: true, error: None };
            session(vec![performative(sender(FANOUT)), Await("flow"), performative(detach), Await("detach")])
        }),
        ("a detach that doesn't close", {
            let detach = Detach { handle: 0, closed: false, error: None };
            session(vec![performative(sender(FANOUT)), Await("flow"), performative(detach), Await("detach")])
        }),
        ("an end", session(vec![performative(End { error: None }), Await("end")])),
    ]
}

/// What a broker says to a script, a line for each frame.
fn play(address: SocketAddr, steps: Vec<Step>) -> Vec<String> {
    let mut socket = TcpStream::connect(address).expect("connect");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut input = Vec::new();
    let mut lines = Vec::new();
    let mut ended = false;
    for step in steps {
        match step {
            // Whoever closed may not take any more.
            Send(bytes) => drop(socket.write_all(&bytes)),
            Await(name) => {
                let before = lines.len();
                while !ended && !lines[before..].iter().any(|line: &String| line.starts_with(name)) {
                    ended = !read(&mut socket, &mut input, &mut lines);
                }
            }
        }
    }
    let mut close = Vec::new();
    encode_performative(&mut close, 0, &Close { error: None }.into());
    drop(socket.write_all(&close));
    while !ended {
        ended = !read(&mut socket, &mut input, &mut lines);
    }
    lines
}

/// Reads once; false at the end of the socket.
fn read(socket: &mut TcpStream, input: &mut Vec<u8>, lines: &mut Vec<String>) -> bool {
    let mut bytes = [0; 8192];
    match socket.read(&mut bytes) {
        Ok(0) => return false,
        Ok(count) => input.extend_from_slice(&bytes[..count]),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return false,
        Err(error) => panic!("{error} after {lines:?}"),
    }
    loop {
        if input.starts_with(b"AMQP") && input.len() >= 8 {
            lines.push(format!("header {:?}", &input[4..8]));
            input.drain(..8);
            continue;
        }
        let Ok(Some((frame, used))) = decode_frame(input, u32::MAX) else { return true };
        let line = match frame.kind {
            leveret_amqp10::FrameKind::Sasl => match SaslFrame::decode(frame.body) {
                Ok(sasl) => format!("{} {sasl:?}", sasl.name()),
                Err(error) => format!("sasl {error}"),
            },
            leveret_amqp10::FrameKind::Amqp if frame.body.is_empty() => "empty".to_owned(),
            leveret_amqp10::FrameKind::Amqp => match Performative::decode(frame.body) {
                Ok((Performative::Open(open), _)) => {
                    let open = Open { container_id: "", properties: None, ..open };
                    format!("open {open:?}")
                }
                Ok((performative, _)) => format!("{} {performative:?}", performative.name()),
                Err(error) => format!("amqp {error}"),
            },
        };
        lines.push(normalized(&line));
        input.drain(..used);
    }
}

/// Generated names differ from run to run.
fn normalized(line: &str) -> String {
    let Some(at) = line.find("amq.dyn-") else { return line.to_owned() };
    let end = line[at..].find('"').map_or(line.len(), |end| at + end);
    format!("{}amq.dyn-*{}", &line[..at], &line[end..])
}

fn answers(address: SocketAddr) -> BTreeMap<String, Vec<String>> {
    let mut wire = Wire::open(address);
    wire.declare(1, QUEUE, true);
    let answers = scripts().into_iter().map(|(name, steps)| (name.to_owned(), play(address, steps))).collect();
    wire.close();
    answers
}

#[test]
fn frames_are_answered_as_rabbitmq_answers_them() {
    if let Ok(address) = std::env::var("RECORD_AMQP10_FRAMES") {
        let address = address.to_socket_addrs().expect("an address").next().expect("one address");
        let golden = json!({ "broker": "RabbitMQ 4.3.6", "answers": answers(address) });
        std::fs::write(GOLDEN, serde_json::to_string_pretty(&golden).expect("JSON") + "\n").expect("written");
        return;
    }
    let golden: Value =
        serde_json::from_str(&std::fs::read_to_string(GOLDEN).expect("the recorded answers")).expect("JSON");
    let mut allowed = allow::parse(include_str!("../allow/amqp10-frames.txt"));
    let broker = Broker::start();
    let mut wrong = Vec::new();
    for (name, lines) in answers(broker.amqp()) {
        let expected: Vec<&str> =
            golden["answers"][&name].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        assert!(!expected.is_empty(), "{name} isn't recorded: run make golden");
        if lines != expected && allowed.remove(&name).is_none() {
            wrong.push(format!(
                "{name}\n  RabbitMQ: {}\n  Leveret:  {}",
                expected.join("\n            "),
                lines.join("\n            ")
            ));
        }
    }
    assert!(wrong.is_empty(), "answered otherwise:\n{}", wrong.join("\n"));
    assert!(allowed.is_empty(), "unused entries of tests/allow/amqp10-frames.txt: {allowed:?}");
    broker.finish("golden10");
}
