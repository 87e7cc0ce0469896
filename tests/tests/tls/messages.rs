//! Messages and requests over TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::amqp10::Amqp10;
use leveret_tests::http::Http;
use leveret_tests::tls::TlsProxy;
use leveret_tests::wire::{Wire, method, publish};

use crate::stage::TlsStage;

/// More than sockets and TLS sessions can buffer, so that both sides have to wait.
const LARGE: usize = 8 << 20;

#[test]
fn messages_of_all_lengths_pass_over_both_protocols() {
    let stage = TlsStage::new(|options, _| options);
    let proxy = TlsProxy::start(stage.address("amqps"), stage.authority.client(None));
    let mut wire = Wire::open(proxy.address);
    wire.declare(1, "encrypted", true);
    let lengths = [0, 1, 16_384, 100_000, LARGE];
    for length in lengths {
        wire.send(&publish(1, "", "encrypted", &vec![7; length], true, false));
    }
    wire.consume(1, "encrypted", true);
    for length in lengths {
        let _deliver = wire.next_frame().expect("a delivery");
        let body = wire.content().expect("its content");
        assert!(body.len() == length && body.iter().all(|byte| *byte == 7), "{} of {length}", body.len());
    }
    wire.close();
    let mut peer = Amqp10::open(proxy.address);
    peer.sender(0, "/queues/encrypted");
    peer.wait_credit(0, 0);
    peer.publish_accepted(0, &vec![9; 300_000]);
    peer.receiver(1, "/queues/encrypted", 1);
    let received = peer.receive(1);
    assert_eq!(received.data(), vec![9; 300_000]);
    peer.accept(&received);
    peer.barrier(0);

    let connections = stage.node.http().get("/api/connections").expect("an answer").json();
    let shown = connections.as_array().expect("a list").iter().find(|one| one["ssl"] == true).expect("one with TLS");
    assert_eq!((&shown["ssl_protocol"], &shown["ssl_cipher"]), (&"tlsv1.3".into(), &"aes_256_gcm".into()), "{shown}");
    peer.close();
}

#[test]
fn http_and_metrics_answer_with_tls_and_are_listed() {
    let stage = TlsStage::new(|options, _| options);
    let proxy = |name| TlsProxy::start(stage.address(name), stage.authority.client(None));
    let (https, metrics) = (proxy("https"), proxy("prometheus_tls"));
    let overview = Http::guest(https.address.to_string()).get("/api/overview").expect("an answer");
    assert_eq!(overview.status, 200, "guest may come from this machine: {}", overview.body);
    let overview = overview.json();
    let mut listed: Vec<(&str, bool)> = overview["listeners"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["protocol"].as_str().expect("a protocol"), one["tls"] == true))
        .collect();
    listed.sort_unstable();
    let expected = ["amqp", "amqp/ssl", "http", "http/prometheus", "https", "https/prometheus", "mqtt", "stream"];
    assert_eq!(listed, expected.map(|name| (name, name.starts_with("https") || name == "amqp/ssl")));
    let metrics = Http::guest(metrics.address.to_string()).get("/metrics").expect("an answer");
    assert!(metrics.status == 200 && metrics.body.contains("rabbitmq_connections"), "{}", metrics.status);
}

#[test]
fn a_session_that_begins_over_tls_stays_on_tls() {
    let stage = TlsStage::new(|options, _| options);
    let proxy = TlsProxy::start(stage.address("https"), stage.authority.client(None));
    let mut socket = TcpStream::connect(proxy.address).expect("connects");
    let form = "username=guest&password=guest";
    let head = "POST /api/login HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 29\r\n\r\n";
    socket.write_all(format!("{head}{form}").as_bytes()).expect("is sent");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert!(answer.contains("HttpOnly; SameSite=Strict; Secure\r\n"), "{answer}");
}

#[test]
fn silent_sockets_delay_no_other_clients_handshake() {
    // They would stay for ten minutes, while at most 256 are allowed.
    let stage = TlsStage::new(|options, _| options.set("ssl_handshake_timeout", "10m"));
    for name in ["https", "prometheus_tls"] {
        let address = stage.address(name);
        let connect = || TcpStream::connect(address).expect("connects");
        let silent: Vec<TcpStream> = (0..300).map(|_| connect()).collect();
        let proxy = TlsProxy::start(address, stage.authority.client(None));
        let path = if name == "https" { "/api/overview" } else { "/metrics" };
        let answer = Http::guest(proxy.address.to_string()).get(path).expect("an answer");
        assert_eq!(answer.status, 200, "{name} beside {} silent sockets", silent.len());
    }
}

#[test]
fn a_publisher_that_leaves_in_an_alarm_is_noticed() {
    let stage = TlsStage::new(|options, _| options.with_alarms());
    let http = stage.node.http();
    for length in [1_000, LARGE] {
        let proxy = TlsProxy::start(stage.address("amqps"), stage.authority.client(None));
        let mut wire = Wire::open(proxy.address);
        wire.declare(1, "held", true);
        wire.confirm_select(1);
        wire.send(&publish(1, "", "held", b"before", false, false));
        wire.confirms(1);
        stage.node.raise_alarms("memory");
        let deadline = Instant::now() + PATIENCE;
        let alarms = || http.get("/api/health/checks/alarms").expect("an answer").status;
        while alarms() == 200 {
            assert!(Instant::now() < deadline, "the alarm isn't raised");
            thread::sleep(Duration::from_millis(5));
        }
        // As much as the sockets take of a message that isn't read now.
        let message = publish(1, "", "held", &vec![b'x'; length], false, false);
        wire.socket.set_nonblocking(true).expect("a mode");
        let mut sent = 0;
        while sent < message.len()
            && let Ok(more) = wire.socket.write(&message[sent..])
        {
            sent += more;
        }
        wire.socket.set_nonblocking(false).expect("a mode");
        let blocked = wire.next_method(method::CONNECTION_BLOCKED);
        blocked.unwrap_or_else(|frame| panic!("a message of {length} bytes: {frame:?}"));
        drop((wire, proxy));
        let connections =
            || http.get("/api/overview").expect("an answer").json()["object_totals"]["connections"].clone();
        while connections() != 0 {
            assert!(Instant::now() < deadline, "a message of {length} bytes: {} are left", connections());
            thread::sleep(Duration::from_millis(5));
        }
        stage.node.raise_alarms("");
        while alarms() != 200 {
            assert!(Instant::now() < deadline, "the alarm stays");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
