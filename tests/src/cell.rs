//! A cell of the scenario table: a client program runs one scenario against a broker of its own.
//!
//! A program takes `URI HTTP_URI CONTROL SCENARIO` and ends with the line `ok SCENARIO`, or with `fail SCENARIO:
//! reason` and status 1. CONTROL is `stdio`: for actions that a client can't perform, the program writes a request
//! line to its standard output, and reads a line when the action is done:
//!
//! | line | action | answer |
//! | --- | --- | --- |
//! | `ready kill` | the broker gets SIGKILL and starts again on the same directory and ports | `go` |
//! | `ready restart` | the same after SIGTERM, and a proper end | `go` |
//! | `ready term` | the broker gets SIGTERM | `go` |
//! | `inject HEX` | these bytes go to the broker on the program's last connection | `done` |
//! | `alarm WORDS` | the alarms `memory` or `disk` are raised, and others cleared | `done` |
//! | `peer JSON` | the 0-9-1 peer of [`crate::peer`] does as it is told | JSON |
//! | `mute` | nothing that the client sends arrives any more, until the broker closes | `closed` |
//!
//! Over TLS the URI is `amqps://guest:guest@localhost:PORT/%2F`, and LEVERET_TEST_CA names the file of the only
//! authority that the program trusts; it verifies the host of the certificate. Bytes can't be injected then.
//!
//! Programs of MQTT get `mqtt://guest:guest@127.0.0.1:PORT`, or `mqtts` in its place.
//!
//! Programs of the stream protocol get `rabbitmq-stream://guest:guest@127.0.0.1:PORT/%2F`, or `rabbitmq-stream+tls` in its place.
//! Their connections can be killed with the broker, but bytes can't be injected into them.
//!
//! The names of queues and exchanges created by a program start with `cell.` and the scenario's name.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use tempfile::TempDir;

use crate::broker::{Broker, is_given};
use crate::node::{Node, Options};
use crate::peer::Peer;
use crate::table::Scenario;
use crate::tap::Tap;
use crate::tls::Authority;

/// Year in which the certificates of cells expire.
const YEAR: i32 = 2199;

/// Timeout of a client's handshakes, of TLS and of AMQP.
const HANDSHAKE_PATIENCE_MS: u32 = 60_000;

/// Timeout of a cell.
const CELL_PATIENCE: Duration = Duration::from_secs(90);

/// The programs' folder.
pub fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// Runs a function of a program of `clients/pika` against a node of its own; nothing where a broker is given.
///
/// # Panics
/// If it fails.
pub fn run_pika(program: &str, name: &'static str, shows: &'static str) {
    if is_given() {
        return;
    }
    let clients = clients();
    let mut command = Command::new(clients.join(".installed/venv/bin/python"));
    command.arg(clients.join("pika").join(program));
    let scenario = Scenario::new(name, shows).leveret_only();
    run(command, &scenario, Transport::Plain).unwrap_or_else(|reason| panic!("{reason}"));
}

/// The transport between program and broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Without TLS.
    Plain,
    /// With the client's own TLS.
    Tls,
    /// With the client's own TLS, which has no reason to trust the broker.
    Untrusted(Distrust),
}

/// The reason why a client must not trust the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// Another authority issued its certificate.
    Authority,
    /// Its certificate is for another host.
    Host,
}

/// Runs one cell to its end.
///
/// # Errors
/// The program's reason, or an error around it.
pub fn run(command: Command, scenario: &Scenario, transport: Transport) -> Result<(), String> {
    run_with(command, scenario, transport, &[])
}

/// Runs one cell with further settings of the broker.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    mut command: Command,
    scenario: &Scenario,
    transport: Transport,
    further: &[(&str, &str)],
) -> Result<(), String> {
    let Scenario { name, settings, terminates_the_broker, over_streams, over_mqtt, .. } = *scenario;
    let settings = settings.iter().chain(further);
    let mut options = settings.fold(Options::new().with_alarms(), |options, (key, value)| options.set(key, value));
    let certificates = (transport != Transport::Plain).then(Certificates::new);
    if let Some(certificates) = &certificates {
        options = certificates.of_the_broker(options);
        command.env("LEVERET_TEST_CA", certificates.trusted(transport));
    }
    let mut broker = Broker::start_with(options);
    let mut peer = Peer::to(broker.amqp());
    let host = if transport == Transport::Untrusted(Distrust::Host) { "127.0.0.1" } else { "localhost" };
    let (tap, uri) = match broker.node() {
        // Clients of streams go where the broker says that it is, which isn't the tap.
        Some(node) if over_streams => {
            let uri = match certificates {
                Some(_) => format!("rabbitmq-stream+tls://guest:guest@{host}:{}/%2F", node.ports().stream_tls),
                None => format!("rabbitmq-stream://guest:guest@{}/%2F", node.streams()),
            };
            (Tap::to(node.amqp()), uri)
        }
        Some(node) if over_mqtt => {
            let uri = match certificates {
                Some(_) => format!("mqtts://guest:guest@{host}:{}", node.ports().mqtt_tls),
                None => format!("mqtt://guest:guest@{}", node.mqtt()),
            };
            (Tap::to(node.amqp()), uri)
        }
        Some(node) if certificates.is_some() => {
            let tap = Tap::to_tls(node.amqps());
            let uri = format!("amqps://guest:guest@{host}:{}/%2F", tap.address().port());
            (tap, uri)
        }
        _ => {
            let tap = Tap::to(broker.amqp());
            let uri = format!("amqp://guest:guest@{}/%2F", tap.address());
            (tap, uri)
        }
    };
    let mut child = command
        .args([&uri, &broker.http().uri(), "stdio", name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map(Running)
        .map_err(|error| format!("{command:?}: {error}; run `make -C tests/clients install`"))?;
    let verdict = converse(&mut child.0, &mut broker, &tap, &mut peer, name);
    drop(child);
    drop(peer);
    if verdict.is_ok() {
        if terminates_the_broker && let Some(node) = broker.node() {
            // It was asked to stop: it must end properly, and a restart shows which messages were kept.
            restart_asked(node)?;
        }
        broker.finish(&format!("cell.{name}."));
    }
    verdict
}

/// The files of a cell over TLS.
struct Certificates(TempDir);

impl Certificates {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let authority = Authority::new("the root");
        authority.issue("the node", YEAR).write(directory.path(), "node");
        for (file, authority) in [("root.pem", authority), ("another.pem", Authority::new("another root"))] {
            fs::write(directory.path().join(file), authority.pem()).expect("is written");
        }
        Self(directory)
    }

    fn of_the_broker(&self, options: Options) -> Options {
        let file = |name: &str| self.0.path().join(name).display().to_string();
        options
            .set("listeners.ssl.default", 0)
            .set("stream.listeners.ssl.default", 0)
            .set("mqtt.listeners.ssl.default", 0)
            .set("ssl_options.certfile", file("node.pem"))
            .set("ssl_options.keyfile", file("node.key"))
            // Clients that start slowly on a busy machine also have slow handshakes.
            .set("ssl_handshake_timeout", HANDSHAKE_PATIENCE_MS)
            .set("handshake_timeout", HANDSHAKE_PATIENCE_MS)
    }

    fn trusted(&self, transport: Transport) -> PathBuf {
        let another = transport == Transport::Untrusted(Distrust::Authority);
        self.0.path().join(if another { "another.pem" } else { "root.pem" })
    }
}

/// Kills the program when the cell ends early.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

enum Line {
    Out(String),
    Err(String),
}

fn converse(child: &mut Child, broker: &mut Broker, tap: &Tap, peer: &mut Peer, scenario: &str) -> Result<(), String> {
    let (sender, lines) = channel();
    let (out, err) = (child.stdout.take().expect("stdout"), child.stderr.take().expect("stderr"));
    let other = sender.clone();
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let _ = sender.send(Line::Out(line));
        }
    });
    thread::spawn(move || {
        for line in BufReader::new(err).lines().map_while(Result::ok) {
            let _ = other.send(Line::Err(line));
        }
    });
    let mut stdin = child.stdin.take().expect("stdin");
    let mut errors = Vec::new();
    let deadline = Instant::now() + CELL_PATIENCE;
    loop {
        let line = match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Line::Out(line)) => line,
            Ok(Line::Err(line)) => {
                errors.push(line);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(format!("ended without a verdict\n{}", errors.join("\n")));
            }
            Err(RecvTimeoutError::Timeout) => return Err(format!("hangs\n{}", errors.join("\n"))),
        };
        if line == format!("ok {scenario}") {
            return Ok(());
        }
        if let Some(reason) = line.strip_prefix(&format!("fail {scenario}: ")) {
            return Err(format!("{reason}\n{}", errors.join("\n")));
        }
        if let Some(answer) = obey(&line, broker, tap, peer)? {
            writeln!(stdin, "{answer}").map_err(|error| format!("the program doesn't listen: {error}"))?;
        }
    }
}

/// Starts a node again that was asked to stop, and has to end properly.
fn restart_asked(node: &mut Node) -> Result<(), String> {
    let status = node.terminate_asked();
    if !status.success() {
        return Err(format!("a node that was asked to stop ended with {status}"));
    }
    node.restart();
    Ok(())
}

/// Executes a request line; other lines are ignored.
fn obey(line: &str, broker: &mut Broker, tap: &Tap, peer: &mut Peer) -> Result<Option<String>, String> {
    if let Some(request) = line.strip_prefix("peer ") {
        return peer.answer(request).map(Some);
    }
    let mut words = line.split_whitespace();
    match (words.next(), words.next()) {
        (Some("ready"), Some("kill")) => {
            broker.node().ok_or("only a broker of our own can be killed")?.restart();
            Ok(Some("go".into()))
        }
        (Some("ready"), Some("restart")) => {
            let node = broker.node().ok_or("only a broker of our own can be stopped")?;
            node.ask_to_stop();
            restart_asked(node)?;
            Ok(Some("go".into()))
        }
        (Some("ready"), Some("term")) => {
            broker.node().ok_or("only a broker of our own can be stopped")?.ask_to_stop();
            Ok(Some("go".into()))
        }
        (Some("inject"), Some(hex)) => {
            let bytes = decode_hex(hex).ok_or_else(|| format!("not hex: {hex}"))?;
            tap.inject(&bytes).map_err(|error| format!("inject: {error}"))?;
            Ok(Some("done".into()))
        }
        (Some("alarm"), name) => {
            let node = broker.node().ok_or("only a broker of our own can be alarmed")?;
            node.raise_alarms(name.unwrap_or_default());
            Ok(Some("done".into()))
        }
        (Some("mute"), None) => {
            tap.mute();
            if tap.wait_for_close() {
                Ok(Some("closed".into()))
            } else {
                Err("the broker never closed the mute".into())
            }
        }
        _ => Ok(None),
    }
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
