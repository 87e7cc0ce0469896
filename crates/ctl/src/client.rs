//! HTTP/1.1 over the node's local socket, with one request per connection.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::place::{NodePlace, unreachable};

/// Largest accepted response: a list of some millions of queues.
const ANSWER_BYTES_MAX: u64 = 4 << 30;

/// The header with the name of the member that a request is for. A node that doesn't know it answers for itself.
const MEMBER_HEADER: &str = "leveret-node";

/// A node that responds.
#[derive(Debug, Clone)]
pub(crate) struct NodeClient {
    socket: PathBuf,
    timeout: Duration,
    /// The name of another member, which the local node forwards requests to.
    member: Option<String>,
    /// The node's description of itself.
    pub(crate) node: Value,
}

/// A response of the node.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl HttpResponse {
    /// The body as JSON; null if it isn't JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The node's reason for refusing, as far as it gives one.
    pub(crate) fn reason(&self) -> String {
        let body = self.json();
        match &body["reason"] {
            Value::String(text) => text.clone(),
            Value::Null => format!("the node answered with status {}", self.status),
            // The last part is the full text.
            Value::Array(parts) if parts.first().is_some_and(|kind| kind == "invalid_regexp") => {
                parts.last().map(bare).unwrap_or_default()
            }
            Value::Array(parts) => parts.iter().map(bare).collect::<Vec<_>>().join(" "),
            other => other.to_string(),
        }
    }
}

/// A text without quotes; everything else as JSON.
pub(crate) fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl NodeClient {
    /// Finds the node.
    ///
    /// # Errors
    /// No node responds, or it has another name.
    pub(crate) fn connect(place: &NodePlace, timeout: Duration) -> Result<Self, Failure> {
        let (sockets, wanted) = (place.sockets()?, place.node());
        if let Some(wanted) = wanted.as_ref().filter(|wanted| wanted.contains(char::is_control)) {
            return Err(Failure::Usage(format!("Error (argument validation): {wanted:?} is no name of a node")));
        }
        let mut other = None;
        for socket in &sockets {
            let mut client = NodeClient { socket: socket.clone(), timeout, member: None, node: Value::Null };
            let response = match client.request("GET", "/local/node", None) {
                Ok(response) => response,
                // A process accepts connections there, but doesn't respond.
                Err(late @ Failure::Timeout(_)) => return Err(late),
                Err(_) => continue,
            };
            client.node = response.json();
            let name = client.name();
            // The name without a host is enough, as in RabbitMQ's tools.
            let is_wanted = |name: &str, wanted: &str| wanted == name || name.split('@').next() == Some(wanted);
            let Some(wanted) = wanted.as_deref().filter(|wanted| !is_wanted(&name, wanted)) else { return Ok(client) };
            // A member of its cluster is reached by way of it.
            client.member = Some(wanted.to_owned());
            let response = client.request("GET", "/local/node", None)?;
            if response.status == 503 {
                return Err(Failure::Unavailable(format!(
                    "Error: unable to perform an operation on node '{wanted}', which {name} was asked to reach: {}",
                    response.reason()
                )));
            }
            client.node = response.json();
            if is_wanted(&client.name(), wanted) {
                return Ok(client);
            }
            other = Some(name);
        }
        match (other, wanted) {
            (Some(name), Some(wanted)) => Err(Failure::Unavailable(format!(
                "Error: unable to perform an operation on node '{wanted}'. The node that runs here is {name}, and knows no \
                 such member of its cluster: call it with -n {name}, or without -n"
            ))),
            (_, wanted) => Err(unreachable(&sockets, wanted.as_deref())),
        }
    }

    /// Whether the process has a node; it doesn't between `stop_app` and `start_app`.
    pub(crate) fn is_running(&self) -> bool {
        self.node["running"].as_bool().unwrap_or(true)
    }

    /// The node's name.
    pub(crate) fn name(&self) -> String {
        self.node["name"].as_str().unwrap_or_default().to_owned()
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The node has gone, or doesn't respond in time.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<HttpResponse, Failure> {
        self.request_with(method, path, body, "")
    }

    /// Sends a request with further headers, each with its line end.
    ///
    /// # Errors
    /// As [`NodeClient::request`].
    pub(crate) fn request_with(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &str,
    ) -> Result<HttpResponse, Failure> {
        self.exchange(method, path, body, headers).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let seconds = self.timeout.as_secs_f64();
                Failure::Timeout(format!("Error: operation {path} on node {} timed out after {seconds} s", self.name()))
            }
            _ => Failure::Unavailable(format!(
                "Error: unable to perform an operation on node {}: {error} ({})",
                self.name(),
                self.socket.display()
            )),
        })
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&Value>, headers: &str) -> io::Result<HttpResponse> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let member = self.member.as_ref().map(|name| format!("{MEMBER_HEADER}: {name}\r\n")).unwrap_or_default();
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: local\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n{member}{headers}\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut bytes = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
        parse(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is no whole HTTP"))
    }

    /// GET of a mandatory resource.
    ///
    /// # Errors
    /// The node responds with another status than 200.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        let response = self.request("GET", path, None)?;
        match response.status {
            200 => Ok(response.json()),
            _ => Err(Failure::refused(&response.reason())),
        }
    }

    /// GET of a resource that may not exist.
    ///
    /// # Errors
    /// The node responds with an unexpected status.
    pub(crate) fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        let response = self.request("GET", path, None)?;
        match response.status {
            200 => Ok(Some(response.json())),
            404 => Ok(None),
            _ => Err(Failure::refused(&response.reason())),
        }
    }

    /// GET of a list.
    ///
    /// # Errors
    /// The node responds with an unexpected status.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<Value>, Failure> {
        match self.get(path)? {
            Value::Array(list) => Ok(list),
            other => Err(Failure::refused(&format!("the node's answer is no list: {other}"))),
        }
    }

    /// Sends a change that has to succeed.
    ///
    /// # Errors
    /// The node refuses.
    pub(crate) fn change(&self, method: &str, path: &str, body: Value) -> Result<(), Failure> {
        let response = self.request(method, path, Some(&body))?;
        match response.status {
            200..=299 => Ok(()),
            _ => Err(Failure::refused(&response.reason())),
        }
    }

    /// Sends a DELETE that has to succeed.
    ///
    /// # Errors
    /// The node refuses.
    pub(crate) fn delete(&self, path: &str) -> Result<(), Failure> {
        self.change("DELETE", path, json!({}))
    }
}

/// Names that mean something else as a segment of a path: none, and the words that the API's routes have where others have a name.
const MEAN_ELSE: [&str; 15] = [
    "",
    "bulk-delete",
    "channels",
    "connections",
    "detailed",
    "node",
    "publishers",
    "quorum",
    "sessions",
    "status",
    "super-streams",
    "tracking",
    "transfers",
    "username",
    "without-permissions",
];

/// Encodes a name as a segment of a path. Behind `;=` it is a name whatever it would mean otherwise.
pub(crate) fn word(text: &str) -> String {
    match MEAN_ELSE.contains(&text) {
        true => format!(";={}", quoted(text)),
        false => quoted(text),
    }
}

/// Encodes a value of a query: everything except letters, digits and `-_.~` is percent-encoded.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn parse(bytes: &[u8]) -> Option<HttpResponse> {
    let split = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..split]).ok()?.to_ascii_lowercase();
    let status = head.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let rest = &bytes[split + 4..];
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let body = match length {
        _ if head.contains("\r\ntransfer-encoding: chunked") => joined(rest)?,
        // A truncated response counts as none.
        Some(length) => rest.get(..length)?.to_vec(),
        None => rest.to_vec(),
    };
    Some(HttpResponse { status, body })
}

/// Decodes a chunked body (RFC 9112, section 7.1); `None` if its last chunk is missing.
fn joined(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        rest = rest.get(end + 2..)?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size.checked_add(2)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_or_none() {
        let whole = b"HTTP/1.1 404 Not Found\r\nContent-Length: 13\r\n\r\n{\"reason\":\"x\"";
        assert!(parse(&whole[..whole.len() - 1]).is_none());
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n";
        let response = parse(chunked).expect("an answer");
        assert_eq!((response.status, response.json()), (200, json!([1, 2])));
        assert!(parse(&chunked[..chunked.len() - 7]).is_none(), "its last chunk is missing");
    }

    #[test]
    fn a_member_is_reached_by_way_of_the_local_node() {
        let node = crate::stand_in::StandIn::stopped("rabbit@near");
        (0..3).for_each(|_| node.answers("PUT /api/cluster/reset", 204, ""));
        for (given, name) in [("rabbit@far", "rabbit@far"), ("rabbit@near", "rabbit@near"), ("rabbit", "rabbit@near")] {
            let said = node.run(&format!("-n {given} reset")).expect("is there");
            assert_eq!(said, format!("Resetting node {name} ...\n"));
        }
        let failure = node.run("-n rabbit@gone reset").expect_err("isn't there");
        assert!(failure.text().contains("runs here is rabbit@near, and knows no such member"), "{failure:?}");
        let failure = node.run("-n bad\r\nx:y reset").expect_err("is no name");
        assert!(failure.text().contains("is no name of a node"), "{failure:?}");
    }

    #[test]
    fn names_fit_into_paths() {
        assert_eq!(word("/"), "%2F");
        assert_eq!(word("a b%ü"), "a%20b%25%C3%BC");
        assert_eq!(word("a-_.~Z9"), "a-_.~Z9");
        assert_eq!((word("detailed"), word(""), word(";=x")), (";=detailed".into(), ";=".into(), "%3B%3Dx".into()));
        assert_eq!(quoted("detailed"), "detailed");
    }
}
