//! Timeouts and limits of HTTP connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::stage::HttpStage;

const LOGIN: &str = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";

fn connect(stage: &HttpStage) -> TcpStream {
    let stream = TcpStream::connect(stage.http).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("is set");
    stream
}

/// Reads until the server closes.
fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // The connection is reset if the server closes it with unread requests, which is no failure here.
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Sends a request on a persistent connection. Returns the head of the response.
fn ask(stream: &mut TcpStream, headers: &str) -> String {
    write!(stream, "GET /api/whoami HTTP/1.1\r\nhost: test\r\n{headers}\r\n").expect("is sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("is text").to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
    stream.read_exact(&mut body).expect("a body");
    head
}

#[test]
fn an_unauthenticated_client_has_the_timeout_of_a_request() {
    let stage = HttpStage::with("management.tcp.request_timeout=300");
    let (mut silent, mut half, mut refused) = (connect(&stage), connect(&stage), connect(&stage));
    let began = Instant::now();
    write!(half, "GET /api/whoami HTTP/1.1\r\nx: ").expect("is sent");
    assert!(ask(&mut refused, "").starts_with("http/1.1 401"));
    assert_eq!(rest(&mut silent), "");
    assert!(rest(&mut half).starts_with("HTTP/1.1 408 Request Timeout\r\n"));
    assert_eq!(rest(&mut refused), "");
    // The timeout of an idle client would be a minute.
    assert!(began.elapsed() < Duration::from_secs(20));
    stage.node.stop("test");
}

#[test]
fn an_unauthenticated_body_has_the_timeout_of_a_request() {
    let stage = HttpStage::with("management.tcp.request_timeout=300");
    let mut stream = connect(&stage);
    write!(stream, "POST /api/login HTTP/1.1\r\nhost: test\r\ncontent-length: 10\r\n\r\n{{").expect("is sent");
    assert!(rest(&mut stream).starts_with("HTTP/1.1 408 "));
    stage.node.stop("test");
}

#[test]
fn a_client_that_has_logged_in_may_be_idle_for_longer() {
    let stage = HttpStage::with_all(&["management.tcp.request_timeout=200", "management.tcp.idle_timeout=1500"]);
    let mut stream = connect(&stage);
    assert!(ask(&mut stream, LOGIN).starts_with("http/1.1 200"));
    let began = Instant::now();
    assert_eq!(rest(&mut stream), "");
    assert!(began.elapsed() >= Duration::from_millis(1400), "{:?}", began.elapsed());
    stage.node.stop("test");
}

#[test]
fn a_stalled_body_times_out() {
    let stage = HttpStage::with("management.tcp.idle_timeout=300");
    let mut stream = connect(&stage);
    let head = format!("PUT /api/queues/%2F/q HTTP/1.1\r\nhost: test\r\n{LOGIN}content-length: 10\r\n\r\n{{");
    stream.write_all(head.as_bytes()).expect("is sent");
    assert!(rest(&mut stream).starts_with("HTTP/1.1 408 "));
    stage.node.stop("test");
}

#[test]
fn a_connection_ends_after_as_many_requests_as_it_may_make() {
    let stage = HttpStage::with("management.tcp.max_keepalive=3");
    let mut stream = connect(&stage);
    for _ in 0..2 {
        assert!(!ask(&mut stream, LOGIN).contains("connection: close"));
    }
    assert!(ask(&mut stream, LOGIN).contains("connection: close"));
    assert_eq!(rest(&mut stream), "");
    stage.node.stop("test");
}

#[test]
fn one_connection_too_many_gets_the_name_of_the_limit() {
    let stage = HttpStage::with("management.tcp.max_connections_per_address=2");
    let mut held = [connect(&stage), connect(&stage)];
    // They are in the middle of a body, so none is displaced.
    for stream in &mut held {
        let head = format!(
            "PUT /api/queues/%2F/q HTTP/1.1\r\nhost: test\r\n{LOGIN}expect: 100-continue\r\ncontent-length: 2\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("is sent");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 100");
    }
    let answer = rest(&mut connect(&stage));
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("127.0.0.1 has 2 connections here already"), "{answer}");
    assert!(answer.contains("management.tcp.max_connections_per_address"), "{answer}");
    drop(held);
    stage.node.stop("test");
}

#[test]
fn an_idle_client_is_displaced_by_another() {
    let stage = HttpStage::with("management.tcp.max_connections=1");
    let mut idle = connect(&stage);
    assert!(ask(&mut idle, LOGIN).starts_with("http/1.1 200"));
    assert!(ask(&mut connect(&stage), LOGIN).starts_with("http/1.1 200"));
    assert_eq!(rest(&mut idle), "");
    stage.node.stop("test");
}

#[test]
fn a_long_answer_is_not_idle_though_its_client_is_slow() {
    let stage = HttpStage::with_all(&["management.tcp.request_timeout=200", "management.tcp.idle_timeout=200"]);
    let queues: Vec<_> = (0..4000)
        .map(|n| serde_json::json!({"name": format!("{n:0200}"), "vhost": "/", "durable": false, "auto_delete": false}))
        .collect();
    assert_eq!(stage.ask("POST", "/api/definitions", &serde_json::json!({"queues": queues}).to_string()).0, 204);
    let mut stream = connect(&stage);
    write!(stream, "GET /api/queues HTTP/1.1\r\nhost: test\r\n{LOGIN}connection: close\r\n\r\n").expect("is sent");
    let (mut all, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    let mut pauses = 0;
    loop {
        let length = stream.read(&mut piece).expect("the answer goes on");
        if length == 0 {
            break;
        }
        all.extend_from_slice(&piece[..length]);
        // Longer than the timeout of an idle client.
        if pauses < 2 {
            pauses += 1;
            std::thread::sleep(Duration::from_millis(500));
        }
    }
    assert!(all.ends_with(b"]\r\n0\r\n\r\n"), "{} bytes", all.len());
    stage.node.stop("test");
}
