//! Lists all sessions through the broker's HTTP API.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::BenchError;
use crate::http::Http;
use crate::settings::Protocol;
use crate::uri::Uri;

/// The result of listing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listing {
    pub(super) sessions: u64,
    pub(super) time: Duration,
}

/// Lists all sessions: channels in one request, sessions of AMQP 1.0, for which there is no such list, connection by
/// connection.
pub(super) fn of(protocol: Protocol, uri: &Uri, port: u16) -> Result<Listing, BenchError> {
    let start = Instant::now();
    let mut http = Http::connect(&uri.host, port, &uri.user, &uri.password)?;
    let sessions = match protocol {
        Protocol::Amqp091 => list(&mut http, "/api/channels?columns=name")?.len() as u64,
        Protocol::Stream => list(&mut http, "/api/connections?columns=name")?.len() as u64,
        Protocol::Amqp10 => {
            let mut sessions = 0;
            for connection in list(&mut http, "/api/connections?columns=name")? {
                let name = connection["name"].as_str().unwrap_or_default();
                sessions += list(&mut http, &format!("/api/connections/{}/sessions", encoded(name)))?.len() as u64;
            }
            sessions
        }
    };
    Ok(Listing { sessions, time: start.elapsed() })
}

fn list(http: &mut Http, path: &str) -> Result<Vec<Value>, BenchError> {
    let body = http.get(path)?;
    serde_json::from_slice(&body)
        .map_err(|error| BenchError::Refused(format!("answered GET {path} with no list: {error}")))
}

/// Encodes a segment of a path.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn the_name_of_a_connection_fits_into_a_path() {
        assert_eq!(encoded("127.0.0.1:4 -> [::1]:5672"), "127.0.0.1%3A4%20-%3E%20%5B%3A%3A1%5D%3A5672");
    }
}
