//! Lifecycle of a node from outside: ports, one node per directory, edge cases of the handshake, and a stop with a
//! reason.

use std::fs;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Instant;

use leveret_tests::broker::is_given;
use leveret_tests::node::{Node, Options, Ports, Process};
use leveret_tests::not_run::not_run;
use leveret_tests::wire::{PROTOCOL_HEADER, Tuning, Wire, method};
use leveret_tests::{PATIENCE, conservation};

#[test]
fn the_ports_file_names_the_listeners() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let ports = node.ports();
    for port in [ports.amqp, ports.http, ports.prometheus] {
        TcpStream::connect(("127.0.0.1", port)).unwrap_or_else(|error| panic!("port {port}: {error}"));
    }
    let metrics = leveret_tests::http::Http::guest(format!("127.0.0.1:{}", ports.prometheus)).get("/metrics");
    assert_eq!(metrics.expect("metrics").status, 200);
    conservation::check(&node.http());
}

#[test]
fn a_second_node_on_the_same_directory_is_refused_by_name() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let directory = node.directory().display().to_string();
    let arguments =
        ["server", "--data-dir", &directory, "--set", "listeners.tcp.default=0", "--set", "management.tcp.port=0"];
    let mut second = Process::spawn(&arguments.map(str::to_owned));
    assert!(!second.wait().success(), "a second node started on the same directory");
    let log = second.log();
    assert!(log.contains(&directory), "the refusal doesn't name the directory: {log}");
    assert!(log.contains(&node.ports().pid.to_string()), "the refusal doesn't name the other process: {log}");
    // The first node isn't affected, and its file is unchanged.
    assert_eq!(Ports::read(node.directory()).pid, node.ports().pid);
    Wire::open(node.amqp());
}

#[test]
fn a_stop_closes_with_a_reason_and_keeps_confirmed_messages() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "kept", true);
    wire.confirm_select(1);
    wire.send(&leveret_tests::wire::publish(1, "", "kept", b"body", false, true));
    wire.confirms(1);
    node.ask_to_stop();
    let (code, text) = wire.until_closed().expect("a reason");
    assert_eq!(code, 320, "{text}");
    assert!(text.starts_with("CONNECTION_FORCED"), "{text}");
    let status = node.terminate_asked();
    assert_eq!(status.code(), Some(0), "{}", node.log());
    assert!(TcpStream::connect(node.amqp()).is_err(), "somebody still listens");

    node.restart();
    let mut wire = Wire::open(node.amqp());
    let mut counts = wire.declare(1, "kept", true);
    assert_eq!(count_of(&mut counts), 1);
    drop(wire);
    conservation::check(&node.http());
}

fn count_of(declare_ok: &mut leveret_tests::wire::Frame) -> u32 {
    let mut arguments = declare_ok.arguments();
    let _name = arguments.short_string();
    arguments.long()
}

/// A moment of a start, seen from outside.
type Moment = fn(directory: &Path, pid: u32) -> bool;

/// The moments at which SIGTERM is sent, in their order: its handler is there, the directory is locked, the log is open,
/// and clients may connect.
const MOMENTS: [(&str, Moment); 4] = [
    ("the handler", |_, pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        // A bit for each signal (proc_pid_status(5)); SIGTERM is number 15.
        caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & (1 << 14) != 0)
    }),
    ("the lock", |directory, pid| {
        fs::read_to_string(directory.join("lock")).is_ok_and(|text| text.lines().next() == Some(&pid.to_string()))
    }),
    ("the log", |directory, pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let store = directory.canonicalize().unwrap_or_default().join("store");
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file.starts_with(&store))
    }),
    ("the ports", |directory, pid| {
        fs::read_to_string(directory.join("ports.json")).is_ok_and(|text| text.contains(&format!("\"pid\":{pid}")))
    }),
];

/// Starts a node on a directory, sends SIGTERM at this moment and expects a clean end.
fn terminate_at(directory: &Path, name: &str, has_come: Moment) {
    let mut process = Process::spawn(&Options::new().arguments(directory));
    let pid = process.pid();
    let deadline = Instant::now() + PATIENCE;
    while !has_come(directory, pid) {
        assert!(Instant::now() < deadline, "{name} never came: {}", process.log());
        std::thread::yield_now();
    }
    process.ask_to_stop();
    let status = process.wait();
    assert_eq!(status.code(), Some(0), "SIGTERM after {name}: {status}\n{}", process.log());
    assert!(!directory.join("ports.json").exists(), "{name}: it left its ports");
}

#[test]
fn sigterm_during_a_start_ends_it_as_cleanly_as_a_node() {
    if is_given() {
        return;
    }
    for (name, moment) in MOMENTS {
        // A first start, which creates everything.
        let directory = leveret_tests::node::new_directory();
        terminate_at(directory.path(), name, moment);
        let mut node = Node::start_in(directory, Options::new());
        let mut wire = Wire::open(node.amqp());
        wire.declare(1, "kept", true);
        wire.confirm_select(1);
        wire.send(&leveret_tests::wire::publish(1, "", "kept", b"body", false, true));
        wire.confirms(1);
        drop(wire);
        assert_eq!(node.terminate().code(), Some(0), "{name}");

        // Later starts, which recover.
        for _ in 0..3 {
            terminate_at(node.directory(), name, moment);
        }
        node.restart();
        assert!(node.wait_for_line("(clean stop)"), "after {name}: {}", node.log());
        assert_eq!(Wire::open(node.amqp()).message_count(1, "kept"), 1, "{name}");
        conservation::check(&node.http());
    }
}

#[test]
fn another_protocol_is_answered_with_ours() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let sasl = b"AMQP\x03\x01\x00\x00";
    for (header, expected) in [
        (b"AMQP\x00\x00\x09\x00", PROTOCOL_HEADER),
        (b"AMQP\x00\x08\x00\x00", sasl),
        (b"AMQP\x01\x01\x08\x00", sasl),
        (b"HELLOYOU", sasl),
    ] {
        let mut wire = Wire::connect(node.amqp());
        wire.send(header);
        let mut answer = Vec::new();
        wire.socket.read_to_end(&mut answer).expect("the answer and the end");
        assert_eq!(answer, expected, "{header:?}");
    }
    conservation::check(&node.http());
}

#[test]
fn frames_of_4096_bytes_are_enough() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut wire = Wire::open_connection(node.amqp(), Tuning { frame_max: 4096, heartbeat: 0 });
    wire.open_channel(1);
    wire.declare(1, "small-frames", true);
    wire.confirm_select(1);
    let body: Vec<u8> = (0..100_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    wire.send(&leveret_tests::wire::publish(1, "", "small-frames", &body, true, true));
    wire.confirms(1);
    wire.consume(1, "small-frames", false);
    let (tag, redelivered, received) = wire.delivery_in_frames(4096);
    assert!(!redelivered);
    assert_eq!(received, body);
    wire.ack(1, tag, false);
    wire.declare(1, "small-frames", true);
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn a_vhost_that_is_not_there_is_530() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let frame =
        Wire::handshake_to(node.amqp(), Tuning { frame_max: 0, heartbeat: 0 }, "nowhere").expect_err("a refusal");
    assert_eq!(frame.method(), Some(method::CONNECTION_CLOSE));
    let (code, text) = frame.reason().expect("a reason");
    assert_eq!(code, 530);
    assert!(text.starts_with("NOT_ALLOWED - vhost nowhere not found"), "{text}");
}

/// guest may only connect over loopback. Reaching the node by another address needs an interface.
#[test]
fn guest_is_refused_from_elsewhere() {
    if is_given() {
        return;
    }
    let Some(address) = outside_address() else {
        not_run("no interface besides loopback");
        return;
    };
    let node = Node::start(Options::new());
    let outside = SocketAddr::new(address, node.ports().amqp);
    if TcpStream::connect_timeout(&outside, PATIENCE).is_err() {
        not_run("the node listens on loopback only");
        return;
    }
    let frame = Wire::handshake(outside, Tuning { frame_max: 0, heartbeat: 0 }).expect_err("a refusal");
    let (code, text) = frame.reason().expect("a reason");
    assert_eq!(code, 403, "{text}");
    assert!(text.starts_with("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN"), "{text}");
}

/// The machine's own address on the interface of its default route; connecting a UDP socket sends nothing.
fn outside_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn an_unknown_key_is_refused_with_its_neighbour() {
    if is_given() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("data").display().to_string();
    let arguments = ["server", "--data-dir", &data, "--set", "managment.tcp.port=0"];
    let mut process = Process::spawn(&arguments.map(str::to_owned));
    assert!(!process.wait().success(), "an unknown key was accepted");
    let log = process.log();
    assert!(log.contains("managment.tcp.port") && log.contains("management.tcp.port"), "{log}");
    assert!(fs::metadata(directory.path().join("data/ports.json")).is_err(), "it ran before it looked");
}

#[test]
fn passwords_keep_the_rule_of_the_configuration() {
    if is_given() {
        return;
    }
    let node = Node::start(
        Options::new()
            .set("credential_validator.validation_backend", "rabbit_credential_validator_min_password_length")
            .set("credential_validator.min_length", 8),
    );
    let http = node.http();
    let put = |body: serde_json::Value| http.put("/api/users/somebody", &body).expect("an answer");
    let short = put(serde_json::json!({"password": "short", "tags": ""}));
    assert_eq!(short.status, 400);
    let reason = "credential_validation_failed: minimum required password length is 8";
    assert!(short.body.contains(reason), "{}", short.body);
    assert_eq!(http.get("/api/users/somebody").expect("an answer").status, 404);
    assert_eq!(put(serde_json::json!({"password": "long enough", "tags": ""})).status, 201);
    // As in RabbitMQ, a hash and a user without a password aren't checked, and definitions are.
    assert_eq!(put(serde_json::json!({"tags": ""})).status, 204);
    let users = serde_json::json!({"users": [{"name": "other", "password": "short", "tags": ""}]});
    let imported = http.post("/api/definitions", &users).expect("an answer");
    assert_eq!(imported.status, 400);
    assert!(imported.body.contains(reason), "{}", imported.body);
}
