//! A minimal blocking HTTP/1.1 client for the management API: one request per connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::{PATIENCE, secrets};

/// A response of the HTTP API.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status code, such as 200.
    pub status: u16,
    /// The body as received.
    pub body: String,
}

impl Answer {
    /// The body as JSON; `Null` when it isn't JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}

/// The address and credentials of an HTTP API.
#[derive(Debug, Clone)]
pub struct Http {
    /// `host:port`.
    pub authority: String,
    /// User and password for basic authentication.
    pub credentials: (String, String),
}

impl Http {
    /// The API at `authority` as guest.
    pub fn guest(authority: impl Into<String>) -> Self {
        Self { authority: authority.into(), credentials: ("guest".into(), "guest".into()) }
    }

    /// Parses `http://user:password@host:port`; the user is optional and then guest.
    pub fn parse(uri: &str) -> Option<Self> {
        let rest = uri.strip_prefix("http://")?.trim_end_matches('/');
        match rest.split_once('@') {
            Some((user, authority)) => {
                let (name, password) = user.split_once(':')?;
                Some(Self { authority: authority.into(), credentials: (name.into(), password.into()) })
            }
            None => Some(Self::guest(rest)),
        }
    }

    /// The URI that client programs get.
    pub fn uri(&self) -> String {
        format!("http://{}:{}@{}", self.credentials.0, self.credentials.1, self.authority)
    }

    /// GET of a path such as `/api/queues/%2F/name`.
    ///
    /// # Errors
    /// The socket's, and `InvalidData` if the response isn't HTTP.
    pub fn get(&self, path: &str) -> io::Result<Answer> {
        self.request("GET", path, "")
    }

    /// DELETE of a path.
    ///
    /// # Errors
    /// As [`Http::get`].
    pub fn delete(&self, path: &str) -> io::Result<Answer> {
        self.request("DELETE", path, "")
    }

    /// PUT of JSON to a path.
    ///
    /// # Errors
    /// As [`Http::get`].
    pub fn put(&self, path: &str, body: &Value) -> io::Result<Answer> {
        self.request("PUT", path, &body.to_string())
    }

    /// POST of JSON to a path.
    ///
    /// # Errors
    /// As [`Http::get`].
    pub fn post(&self, path: &str, body: &Value) -> io::Result<Answer> {
        self.request("POST", path, &body.to_string())
    }

    /// The same API with other credentials.
    #[must_use]
    pub fn as_user(&self, user: &str, password: &str) -> Self {
        Self { authority: self.authority.clone(), credentials: (user.into(), password.into()) }
    }

    /// Opens a stream of server-sent events.
    ///
    /// # Errors
    /// As [`Http::get`], and if the response is something else.
    pub fn events(&self, path: &str) -> io::Result<Events> {
        let (socket, written) = self.send("GET", path, "")?;
        written?;
        let mut events = Events { stream: BufReader::new(socket), text: String::new() };
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if events.stream.read_line(&mut head)? == 0 {
                break;
            }
        }
        match head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream") {
            true => Ok(events),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{path}: {head}"))),
        }
    }

    /// Sends a request. Returns the socket for its response, and whether all of it was taken.
    fn send(&self, method: &str, path: &str, body: &str) -> io::Result<(TcpStream, io::Result<()>)> {
        let mut socket = TcpStream::connect(&self.authority)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let (user, password) = &self.credentials;
        secrets::used(user, password);
        secrets::used_in(body);
        let authorization = match user.as_str() {
            "" => String::new(),
            user => format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{password}"))),
        };
        // The server reads only the beginning of a body that is too large before it responds.
        let written = write!(
            socket,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{authorization}Accept: */*\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.authority,
            body.len()
        );
        Ok((socket, written))
    }

    /// Sends a request with any method and body. With an empty user name no credentials are sent.
    ///
    /// # Errors
    /// As [`Http::get`].
    pub fn request(&self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        let (mut socket, written) = self.send(method, path, body)?;
        let mut bytes = Vec::new();
        if let Err(error) = socket.read_to_end(&mut bytes)
            && bytes.is_empty()
        {
            return Err(written.err().unwrap_or(error));
        }
        parse(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{method} {path}: not HTTP")))
    }
}

/// A stream of server-sent events.
#[derive(Debug)]
pub struct Events {
    stream: BufReader<TcpStream>,
    text: String,
}

impl Events {
    /// The name of the next event, empty for none, and its data. Comments and settings are left out.
    ///
    /// # Errors
    /// The stream ends, or none comes.
    pub fn next_event(&mut self) -> io::Result<(String, Value)> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let line = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                let (name, data) = (line("event: ").unwrap_or("").to_owned(), line("data: ").map(str::to_owned));
                self.text = rest.to_owned();
                if let Some(data) = data {
                    return Ok((name, serde_json::from_str(&data)?));
                }
            }
            let mut length = String::new();
            self.stream.read_line(&mut length)?;
            let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut chunk = vec![0; length + 2];
            self.stream.read_exact(&mut chunk)?;
            self.text.push_str(&String::from_utf8_lossy(&chunk[..length]));
        }
    }
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let split = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..split]).ok()?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let rest = &bytes[split + 4..];
    let body = if chunked { join_chunks(rest)? } else { rest.to_vec() };
    Some(Answer { status, body: String::from_utf8_lossy(&body).into_owned() })
}

fn join_chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?.trim(), 16).ok()?;
        rest = rest.get(end + 2..)?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_chunks() {
        let answer =
            parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n");
        assert_eq!(answer.expect("an answer").json()["a"], 1);
    }

    #[test]
    fn reads_a_uri() {
        let http = Http::parse("http://a:b@127.0.0.1:15672/").expect("a uri");
        assert_eq!(http.authority, "127.0.0.1:15672");
        assert_eq!(http.credentials, ("a".into(), "b".into()));
    }
}
