//! Requests with all headers of their answers, and streams of events.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

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
