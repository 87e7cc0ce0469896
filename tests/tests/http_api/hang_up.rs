//! A client that requests messages and disconnects before the response: messages taken for it are requeued.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leveret_tests::PATIENCE;
use leveret_tests::broker::{Broker, is_given};
use leveret_tests::wire::{Wire, publish};

/// Bodies of this size are in files, so that each has to be read for a response.
const BODY_BYTES: usize = 300_000;
const MESSAGES: u64 = 8;

#[test]
fn messages_are_requeued_if_the_client_disconnects() {
    if is_given() {
        return;
    }
    let broker = Broker::start();
    let mut wire = Wire::open(broker.amqp());
    wire.declare(1, "hung-up", true);
    wire.confirm_select(1);
    for _ in 0..MESSAGES {
        wire.send(&publish(1, "", "hung-up", &vec![b'x'; BODY_BYTES], false, true));
    }
    wire.confirms(MESSAGES);
    wire.close();
    let http = broker.http();
    let body = format!(r#"{{"ackmode":"ack_requeue_true","count":{MESSAGES},"encoding":"auto"}}"#);
    for round in 0..50 {
        let mut socket = TcpStream::connect(&http.authority).expect("connects");
        write!(
            socket,
            "POST /api/queues/%2F/hung-up/get HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {}\r\nContent-Length: {}\r\n\r\n{body}",
            STANDARD.encode("guest:guest"),
            body.len()
        )
        .expect("is sent");
        // At another point of the response each time.
        thread::sleep(Duration::from_micros(round * 100));
        drop(socket);
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let queue = http.get("/api/queues/%2F/hung-up").expect("an answer").json();
        if queue["messages_ready"] == MESSAGES && queue["messages_unacknowledged"] == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "messages stay taken: {queue}");
        // A response in progress can only be waited for.
        thread::sleep(Duration::from_millis(10));
    }
    broker.finish("hung-up");
}
