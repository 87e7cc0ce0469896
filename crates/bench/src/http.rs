//! A minimal HTTP client for lists of a broker's management API.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::BenchError;

/// Longest accepted response in bytes: a list of some hundred thousand objects.
const ANSWER_MAX: u64 = 1 << 30;
/// Timeout for generating one.
const PATIENCE: Duration = Duration::from_secs(120);

/// A persistent connection.
pub(crate) struct Http {
    stream: BufReader<TcpStream>,
    address: String,
    authorization: String,
}

impl Http {
    pub(crate) fn connect(host: &str, port: u16, user: &str, password: &str) -> Result<Self, BenchError> {
        let address = format!("{host}:{port}");
        let failed = |source| BenchError::Socket { broker: address.clone(), doing: "connect", source };
        let stream = TcpStream::connect((host, port)).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let authorization = STANDARD.encode(format!("{user}:{password}"));
        Ok(Self { stream: BufReader::new(stream), address, authorization })
    }

    /// The body of a successful response.
    pub(crate) fn get(&mut self, path: &str) -> Result<Vec<u8>, BenchError> {
        let failed =
            |address: &str, source| BenchError::Socket { broker: address.into(), doing: "ask by HTTP", source };
        let (status, body) = self.exchange(path).map_err(|source| failed(&self.address, source))?;
        match status {
            200 => Ok(body),
            _ => Err(BenchError::Refused(format!(
                "answered GET {path} with {status}: {}",
                String::from_utf8_lossy(&body[..body.len().min(200)])
            ))),
        }
    }

    fn exchange(&mut self, path: &str) -> std::io::Result<(u16, Vec<u8>)> {
        let (host, authorization) = (&self.address, &self.authorization);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Basic {authorization}\r\n\r\n");
        self.stream.get_mut().write_all(request.as_bytes())?;
        answer(&mut self.stream)
    }
}

/// Reads a response: status and body.
fn answer(stream: &mut impl BufRead) -> std::io::Result<(u16, Vec<u8>)> {
    let malformed = |what: &str| std::io::Error::other(format!("no answer of HTTP/1.1: {what}"));
    let status = line(stream)?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| malformed(&status))?;
    let (mut length, mut is_chunked) = (None, false);
    loop {
        let header = line(stream)?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').ok_or_else(|| malformed(&header))?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse::<u64>().ok(),
            "transfer-encoding" => is_chunked = value.trim().eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    let mut body = Vec::new();
    let mut take = |stream: &mut dyn BufRead, count: u64| {
        if body.len() as u64 + count > ANSWER_MAX {
            return Err(malformed("more than 1 GiB"));
        }
        stream.take(count).read_to_end(&mut body)?;
        Ok(())
    };
    if !is_chunked {
        take(stream, length.ok_or_else(|| malformed("no length"))?)?;
        return Ok((status, body));
    }
    loop {
        let size = line(stream)?;
        let size = u64::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16);
        let size = size.map_err(|_| malformed("a chunk without size"))?;
        take(stream, size)?;
        // The empty line after each chunk; there are no trailers.
        line(stream)?;
        if size == 0 {
            return Ok((status, body));
        }
    }
}

fn line(stream: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::answer;

    #[test]
    fn answers_have_a_length_or_chunks() {
        let two = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]HTTP/1.1 404 Not Found\r\n\
                    Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        let mut stream = &two[..];
        assert_eq!(answer(&mut stream).unwrap(), (200, b"[]".to_vec()));
        assert_eq!(answer(&mut stream).unwrap(), (404, b"abcde".to_vec()));
        assert!(stream.is_empty() && answer(&mut stream).is_err());
    }
}
