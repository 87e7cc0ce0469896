//! Clients on a port with another protocol get a hint, and the log does too.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Instant;

use leveret_tests::PATIENCE;
use leveret_tests::tls::connect;

use crate::stage::TlsStage;

fn answer(address: SocketAddr, said: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).expect("connects");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket.write_all(said).expect("is sent");
    let mut heard = Vec::new();
    // A reset ends it too.
    let _ = socket.read_to_end(&mut heard);
    heard
}

#[test]
fn http_on_a_port_for_amqp_gets_the_right_port() {
    let mut stage = TlsStage::new(|options, _| options);
    let http = stage.node.ports().http;
    for name in ["amqp", "amqps"] {
        let heard = answer(stage.address(name), b"GET /api/overview HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let heard = String::from_utf8_lossy(&heard).into_owned();
        assert!(heard.starts_with("HTTP/1.1 400 ") && heard.contains(&format!("port {http}")), "{name}: {heard}");
        let port = format!("-> {}", stage.address(name));
        let is_it = |line: &str| line.contains("a client speaks HTTP on a port for AMQP") && line.contains(&port);
        let deadline = Instant::now() + PATIENCE;
        while !stage.node.log().lines().any(is_it) {
            assert!(Instant::now() < deadline, "nothing of {name}, {port}: {}", stage.node.log());
            thread::yield_now();
        }
    }
}

#[test]
fn a_tls_hello_on_a_port_without_tls_gets_an_alert() {
    let mut stage = TlsStage::new(|options, _| options);
    let failure = connect(stage.address("amqp"), &stage.authority.client(None)).expect_err("no TLS");
    assert!(failure.to_string().contains("ProtocolVersion"), "{failure}");
    assert!(stage.node.wait_for_line("a client speaks TLS on a port without TLS"), "{}", stage.node.log());
}

#[test]
fn amqp_without_tls_on_a_port_with_it_is_logged_and_closed() {
    let mut stage = TlsStage::new(|options, _| options);
    assert_eq!(answer(stage.address("amqps"), b"AMQP\x00\x00\x09\x01"), b"");
    assert!(stage.node.wait_for_line("speaks something else on a port for TLS"), "{}", stage.node.log());
}
