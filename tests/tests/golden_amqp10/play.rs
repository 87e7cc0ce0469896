//! Plays a script and records the broker's answers.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use leveret_amqp10::message::{BodyRef, Sections};
use leveret_amqp10::performative::{Attach, Close, End, Flow, Open, Transfer};
use leveret_amqp10::{FrameKind, MapRef, Performative, Role, SaslFrame, decode_frame, encode_performative};
use leveret_tests::broker::is_another;

use super::script::Step;

/// The line for a socket that stayed open without further frames.
pub(crate) const SILENCE: &str = "silence";

/// A socket, and the frames received on it.
struct Line {
    socket: TcpStream,
    input: Vec<u8>,
    /// Whether nothing more will come.
    over: bool,
}

/// The lines of a script: each frame, and other events.
struct Log {
    lines: Vec<String>,
    /// Lines that a step has waited for.
    seen: Vec<bool>,
}

/// Plays a script as a user. Returns the broker's answers, a line for each frame. A broker that sends nothing for
/// `patience` is recorded as silent.
pub(crate) fn play(address: SocketAddr, user: &str, steps: &[Step], patience: Duration) -> Vec<String> {
    let mut log = Log { lines: Vec::new(), seen: Vec::new() };
    let mut line = Line::connect(address, patience);
    for step in steps {
        match step {
            // A broker that has closed may refuse more input.
            Step::Send(bytes) => drop(line.socket.write_all(&as_user(bytes.clone(), user))),
            Step::Await(name) => line.until(name, &mut log),
            Step::AwaitOurs(_) if is_another() => {}
            Step::AwaitOurs(name) => line.until(name, &mut log),
            Step::Cut => {
                log.push("cut".to_owned());
                log.seen.fill(true);
                line = Line::connect(address, patience);
            }
            Step::Classic(act) => act(address),
        }
    }
    line.leave(&mut log);
    log.lines.iter().map(|line| line.replace(&format!("'{user}'"), "'guest'")).collect()
}

/// Replaces the login by that of another user, whose password is the name.
fn as_user(bytes: Vec<u8>, user: &str) -> Vec<u8> {
    const GUEST: &[u8] = b"\0guest\0guest";
    if user == "guest" || !bytes.windows(GUEST.len()).any(|window| window == GUEST) {
        return bytes;
    }
    let mut frame = Vec::new();
    let response = format!("\0{user}\0{user}");
    let init = leveret_amqp10::sasl::Init {
        mechanism: leveret_amqp10::Symbol::new("PLAIN"),
        initial_response: Some(response.as_bytes()),
        hostname: None,
    };
    SaslFrame::Init(init).encode(&mut frame);
    frame
}

impl Log {
    fn push(&mut self, line: String) {
        if self.has("close") && line != "cut" {
            return;
        }
        self.lines.push(line);
        self.seen.push(false);
    }

    /// Finds a line with one of these names that no step has waited for, and marks it.
    fn take(&mut self, names: &str) -> bool {
        let is_named = |line: &str| names.split(" or ").any(|name| first_word(line) == name);
        let found = |(at, line): (usize, &String)| (!self.seen[at] && is_named(line)).then_some(at);
        let Some(at) = self.lines.iter().enumerate().find_map(found) else { return false };
        self.seen[at] = true;
        true
    }

    fn has(&self, name: &str) -> bool {
        self.count(name) > 0
    }

    /// Number of sessions that have begun and not ended.
    fn sessions(&self) -> usize {
        self.count("begin").saturating_sub(self.count("end"))
    }

    /// Number of frames with this name on the current socket.
    fn count(&self, name: &str) -> usize {
        let lines = self.lines.iter().rev().take_while(|line| *line != "cut");
        lines.filter(|line| first_word(line) == name).count()
    }
}

/// The name of a line's frame.
pub(crate) fn first_word(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

impl Line {
    fn connect(address: SocketAddr, patience: Duration) -> Self {
        let socket = TcpStream::connect(address).expect("connect");
        socket.set_read_timeout(Some(patience)).expect("a read timeout");
        socket.set_nodelay(true).expect("no delay");
        Self { socket, input: Vec::new(), over: false }
    }

    fn until(&mut self, name: &str, log: &mut Log) {
        let in_session = !matches!(name, "header" | "sasl-outcome" | "open" | "begin" | "close");
        while !(log.take(name) || log.has("close") || self.over || in_session && log.sessions() == 0) {
            self.read(log);
        }
    }

    /// Ends everything that is still open and waits for each reply, so that all earlier frames have arrived. After a
    /// `close` there is nothing to do.
    fn leave(&mut self, log: &mut Log) {
        let mut bytes = Vec::new();
        if log.sessions() > 0 && !log.has("close") {
            encode_performative(&mut bytes, 0, &End { error: None }.into());
            drop(self.socket.write_all(&bytes));
            while log.sessions() > 0 && !log.has("close") && !self.over {
                self.read(log);
            }
        }
        bytes.clear();
        encode_performative(&mut bytes, 0, &Close { error: None }.into());
        drop(self.socket.write_all(&bytes));
        while !log.has("close") && !self.over {
            self.read(log);
        }
    }

    fn stop(&mut self, how: &str, log: &mut Log) {
        log.push(how.to_owned());
        self.over = true;
    }

    /// Reads once.
    fn read(&mut self, log: &mut Log) {
        let mut bytes = [0; 8192];
        match self.socket.read(&mut bytes) {
            Ok(count) if count > 0 => self.input.extend_from_slice(&bytes[..count]),
            Ok(_) => self.stop("end-of-socket", log),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => self.stop("end-of-socket", log),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.stop(SILENCE, log),
            Err(error) => panic!("{error} after {:?}", log.lines),
        }
        loop {
            if self.input.starts_with(b"AMQP") && self.input.len() >= 8 {
                log.push(format!("header {:?}", &self.input[4..8]));
                self.input.drain(..8);
                continue;
            }
            let (line, used) = match decode_frame(&self.input, u32::MAX) {
                Ok(Some((frame, used))) => (written(frame.kind, frame.channel, frame.body), used),
                Ok(None) => return,
                Err(error) => (Some(format!("nonsense {error}")), self.input.len()),
            };
            line.into_iter().for_each(|line| log.push(line));
            self.input.drain(..used);
        }
    }
}

/// A frame as text. An empty one only keeps the connection alive and is left out.
fn written(kind: FrameKind, channel: u16, body: &[u8]) -> Option<String> {
    let line = match kind {
        FrameKind::Sasl => match SaslFrame::decode(body) {
            Ok(sasl) => format!("{} {sasl:?}", sasl.name()),
            Err(error) => format!("sasl {error}"),
        },
        FrameKind::Amqp if body.is_empty() => return None,
        FrameKind::Amqp => match Performative::decode(body) {
            Ok((Performative::Open(open), _)) => {
                // Values such as the copyright differ, so only the keys are recorded.
                let keys = open.properties.into_iter().flatten().map(|(key, _)| format!("{key:?}"));
                let keys: Vec<_> = keys.filter(|key| !key.contains("copyright")).collect();
                let open = Open { container_id: "*", properties: None, ..open };
                format!("open {open:?} properties {keys:?}")
            }
            Ok((Performative::Transfer(transfer), payload)) => delivery(&transfer, payload),
            // RabbitMQ omits the terminus of a receiver in its reply (2.6.3), Leveret repeats it.
            Ok((Performative::Attach(attach), _)) if attach.role == Role::Sender && attach.source.is_some() => {
                format!("attach {:?}", Attach { target: None, ..attach })
            }
            // `available` is an estimate (2.7.4): after a drain, RabbitMQ's varies between runs.
            Ok((Performative::Flow(flow), _)) if flow.drain => {
                format!("flow {:?}", Flow { available: flow.available.and(Some(0)), ..flow })
            }
            Ok((performative, _)) => {
                let text = format!("{performative:?}");
                // The name is at the beginning already.
                let fields = text.split_once('(').map_or("", |(_, fields)| fields);
                format!("{} {}", performative.name(), fields.strip_suffix(')').unwrap_or(fields))
            }
            Err(error) => format!("malformed {error}"),
        },
    };
    let line = if channel == 0 { line } else { format!("{line} on channel {channel}") };
    Some(short(&line))
}

fn delivery(transfer: &Transfer<'_>, payload: &[u8]) -> String {
    if transfer.more || transfer.delivery_id.is_none() {
        return format!("transfer {transfer:?} with {} bytes", payload.len());
    }
    let Ok(sections) = Sections::parse(payload) else { return format!("transfer {transfer:?} with nonsense") };
    let body = match sections.body {
        BodyRef::Data(data) => format!("{} bytes", data.size()),
        other => format!("{other:?}"),
    };
    format!(
        "transfer {transfer:?} with {:?} {} {:?} {:?} {body} {:?}",
        sections.header,
        sorted(sections.message_annotations),
        sections.properties,
        sections.application_properties,
        sections.footer
    )
}

/// The entries of a map, sorted, because it has no order.
fn sorted(map: Option<MapRef<'_>>) -> String {
    let mut pairs: Vec<_> = map.into_iter().flatten().map(|(key, value)| format!("{key:?}: {value:?}")).collect();
    pairs.sort();
    format!("{{{}}}", pairs.join(", "))
}

/// Removes absent fields, and names that vary between runs.
fn short(line: &str) -> String {
    let mut line = line.to_owned();
    for absent in [": None", ": false", ": []"] {
        while let Some(at) = find_field(&line, absent) {
            let start = line[..at].rfind([' ', '{']).map_or(at, |start| start + 1);
            let end = at + absent.len();
            let end = if line[end..].starts_with(", ") { end + 2 } else { end };
            line.replace_range(start..end, "");
        }
    }
    line = line.replace(",  }", " }").replace("{  }", "{}").replace("{ }", "{}");
    // The reason of an Erlang process's end is followed by its stack, with pids and times.
    while let Some(at) = line.find("\\n") {
        let end = line[at..].find("\")").map_or(line.len(), |end| at + end);
        line.replace_range(at..end, "...");
    }
    for generated in ["amq.dyn-", "amq.gen-", "amq.rabbitmq.reply-to."] {
        let Some(at) = line.find(generated) else { continue };
        let end = line[at..].find(['"', '\'']).map_or(line.len(), |end| at + end);
        line.replace_range(at..end, &format!("{generated}*"));
    }
    line
}

fn find_field(line: &str, absent: &str) -> Option<usize> {
    line.match_indices(absent).map(|(at, _)| at).find(|at| line[at + absent.len()..].starts_with([',', ' ', '}']))
}
