//! Connections through a proxy, which names its client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use leveret_tests::PATIENCE;
use leveret_tests::tls::connect_over;
use leveret_tests::wire::{Login, Tuning, Wire, method};

use crate::stage::TlsStage;

const TUNING: Tuning = Tuning { frame_max: 0, heartbeat: 0 };
const FROM_HERE: &[u8] = b"PROXY TCP4 127.0.0.9 127.0.0.8 40001 5672\r\n";
const FROM_ELSEWHERE: &[u8] = b"PROXY TCP4 192.0.2.1 192.0.2.2 40000 5672\r\n";

fn stage() -> TlsStage {
    TlsStage::new(|options, _| options.set("proxy_protocol", true).set("handshake_timeout", 2000))
}

fn wire_behind(address: SocketAddr, header: &[u8]) -> Wire {
    let mut wire = Wire::connect(address);
    wire.send(header);
    wire.send(b"AMQP\x00\x00\x09\x01");
    let _ = wire.next_method(method::CONNECTION_START).expect("connection.start");
    wire
}

#[test]
fn the_client_is_the_one_named_by_the_proxy() {
    let stage = stage();
    let v2 =
        [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &[127, 0, 0, 7, 127, 0, 0, 6, 0x9c, 0x42, 0x16, 0x28]].concat();
    let mut wires = [FROM_HERE, &v2].map(|header| wire_behind(stage.address("amqp"), header));
    for wire in &mut wires {
        wire.log_in(TUNING, &Login::default()).unwrap_or_else(|frame| panic!("refused: {:?}", frame.reason()));
    }
    let listed = stage.node.http().get("/api/connections").expect("an answer").json();
    let mut names: Vec<_> =
        listed.as_array().expect("a list").iter().map(|one| one["name"].as_str().expect("a name")).collect();
    names.sort_unstable();
    assert_eq!(names, ["127.0.0.7:40002 -> 127.0.0.6:5672", "127.0.0.9:40001 -> 127.0.0.8:5672"]);
    // guest may only connect from this machine, and this client isn't on it.
    let mut elsewhere = wire_behind(stage.address("amqp"), FROM_ELSEWHERE);
    let (code, _) = elsewhere.log_in(TUNING, &Login::default()).expect_err("not from here").reason().expect("a reason");
    assert_eq!(code, 403);
}

#[test]
fn the_header_comes_before_tls() {
    let stage = stage();
    let mut stream =
        connect_over(stage.address("amqps"), &stage.authority.client(None), FROM_ELSEWHERE).expect("a handshake");
    stream.write_all(b"AMQP\x00\x00\x09\x01").expect("is sent");
    let mut first = [0; 1];
    stream.read_exact(&mut first).expect("connection.start");
    assert_eq!(first, [1]);
}

#[test]
fn connections_without_a_header_are_refused_and_silent_ones_end() {
    let mut stage = stage();
    let closed = |said: &[u8]| {
        let mut socket = TcpStream::connect(stage.address("amqp")).expect("connects");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.write_all(said).expect("is sent");
        let mut heard = Vec::new();
        // A reset ends it too.
        let _ = socket.read_to_end(&mut heard);
        assert_eq!(heard, b"", "{said:?}");
    };
    closed(b"AMQP\x00\x00\x09\x01AMQP\x00\x00\x09\x01");
    closed(b"PROXY TCP4 ");
    assert!(stage.node.wait_for_line("doesn't begin with a header of it"), "{}", stage.node.log());
    assert!(stage.node.wait_for_line("handshake_timeout (2s) is over before AMQP could begin"), "{}", stage.node.log());
}

#[test]
fn abandoned_handshakes_count_in_the_budget_before_login() {
    // Room for two.
    let mut stage = TlsStage::new(|options, _| {
        let options = options.set("unauthenticated_bytes_max_per_node", 40_000);
        options.set("ssl_handshake_timeout", 600_000).set("handshake_timeout", 600_000)
    });
    let begun: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut socket = TcpStream::connect(stage.address("amqps")).expect("connects");
            socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            // The header of a hello whose rest doesn't come.
            socket.write_all(&[0x16, 3, 1, 2, 0, 1]).expect("is sent");
            socket
        })
        .collect();
    assert!(stage.node.wait_for_line("unauthenticated_bytes_max_per_node (40000) is exceeded"), "{}", stage.node.log());
    // One of them was closed, and clients can connect.
    Wire::open(stage.node.amqp()).close();
    drop(begun);
}
