//! Requests with all headers of their answers, and streams of events.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A response.
pub(crate) struct Exchanged {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Exchanged {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}

fn send(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("is set");
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n");
    write!(stream, "{head}{headers}\r\n{body}").expect("is sent");
    stream
}

/// Sends a request on a connection of its own; the answer's body is text of known length.
pub(crate) fn exchange(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Exchanged {
    let mut stream = send(address, method, path, headers, body);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Exchanged { status, head: head.to_owned(), body: body.to_owned() }
}

/// A stream of events.
pub(crate) struct Events {
    stream: BufReader<TcpStream>,
    text: String,
}

/// Opens a stream of events and reads its beginning.
pub(crate) fn watched(address: SocketAddr, path: &str, headers: &str) -> Events {
    let mut events = Events { stream: BufReader::new(send(address, "GET", path, headers, "")), text: String::new() };
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(events.stream.read_line(&mut head).expect("a head") > 0, "{head}");
    }
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("content-type: text/event-stream"), "{head}");
    assert_eq!(events.event(), "retry: 2000");
    events
}

impl Events {
    /// Reads a chunk. Returns false at the end.
    fn chunk(&mut self) -> bool {
        let mut length = String::new();
        self.stream.read_line(&mut length).expect("a chunk");
        let length = usize::from_str_radix(length.trim(), 16).expect("its length");
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).expect("a chunk");
        self.text.push_str(std::str::from_utf8(&chunk[..length]).expect("text"));
        length > 0
    }

    /// The next event, which may be a comment.
    pub(crate) fn event(&mut self) -> String {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = event.to_owned();
                self.text = rest.to_owned();
                return event;
            }
            assert!(self.chunk(), "the stream has ended: {}", self.text);
        }
    }

    /// The data of the next event.
    pub(crate) fn data(&mut self) -> Value {
        let event = self.event();
        serde_json::from_str(event.strip_prefix("data: ").expect(&event)).expect("JSON")
    }

    /// Everything up to the end.
    pub(crate) fn rest(mut self) -> String {
        while self.chunk() {}
        self.text
    }
}
