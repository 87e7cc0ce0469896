//! The PROXY protocol of HAProxy, versions 1 and 2: a header in front of a connection, in which a proxy names the
//! address of its client.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// The first bytes of a header of version 2 (section 2.2).
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Size of the fixed part of a version 2 header: signature, version and command, family, length.
const HEAD_BYTES: usize = 16;
/// Longest header of version 1, with its end of line (section 2.1).
const LINE_BYTES_MAX: usize = 107;
/// Largest accepted part after the fixed one in version 2: the addresses, and additions of the proxy (TLVs). A receiver
/// has to accept at least 536 bytes (section 2.2); the proxies of cloud providers send a few hundred.
const REST_BYTES_MAX: usize = 2048;

/// The client and its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) client: SocketAddr,
    pub(super) destination: SocketAddr,
}

/// Reads the header, and nothing after it, from the stream. Returns `None` if the proxy connects on its own behalf, or
/// doesn't know its client.
///
/// # Errors
/// There is no header, or an invalid one.
pub(super) async fn take(stream: &mut TcpStream) -> io::Result<Option<Route>> {
    let mut head = [0; HEAD_BYTES];
    let signature = SIGNATURE.len();
    stream.read_exact(&mut head[..signature]).await?;
    if head[..signature] != SIGNATURE {
        return version_1(&line(stream, &head[..signature]).await?).map_err(invalid);
    }
    stream.read_exact(&mut head[signature..]).await?;
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if length > REST_BYTES_MAX {
        return Err(invalid(format!("a header of {length} bytes; the limit is {REST_BYTES_MAX}")));
    }
    let mut rest = [0; REST_BYTES_MAX];
    let rest = &mut rest[..length];
    stream.read_exact(rest).await?;
    version_2(head[12], head[13], rest).map_err(invalid)
}

/// Reads the line that begins with these bytes, including its end. Later bytes stay in the socket.
async fn line(stream: &mut TcpStream, begin: &[u8]) -> io::Result<Vec<u8>> {
    let mut line = begin.to_vec();
    // Input that isn't a header may have no end of line, so reading stops early.
    while line.starts_with(b"PROXY ") && line.len() < LINE_BYTES_MAX {
        if line.ends_with(b"\r\n") {
            return Ok(line);
        }
        let mut next = [0; LINE_BYTES_MAX];
        let next = &mut next[..LINE_BYTES_MAX - line.len()];
        let seen = stream.peek(next).await?;
        let mut with = line.clone();
        with.extend_from_slice(&next[..seen]);
        // The end of line may be partly in the earlier bytes and partly in the new ones.
        let end = with.windows(2).position(|pair| pair == b"\r\n").map_or(with.len(), |at| at + 2);
        let taken = end.saturating_sub(line.len()).max(1);
        stream.read_exact(&mut next[..taken]).await?;
        line.extend_from_slice(&next[..taken]);
    }
    Ok(line)
}

fn invalid(reason: String) -> io::Error {
    let text = format!("proxy_protocol is set, and the connection doesn't begin with a header of it: {reason}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Parses version 1, section 2.1: `PROXY TCP4 192.0.2.1 192.0.2.2 40000 5672`.
fn version_1(line: &[u8]) -> Result<Option<Route>, String> {
    let wrong = || format!("it began with {:?}", String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]));
    let text = line.strip_suffix(b"\r\n").and_then(|line| std::str::from_utf8(line).ok()).ok_or_else(wrong)?;
    let mut words = text.strip_prefix("PROXY ").ok_or_else(wrong)?.split(' ');
    let is_v6 = match words.next() {
        Some("TCP4") => false,
        Some("TCP6") => true,
        // The rest of such a line has to be ignored.
        Some("UNKNOWN") => return Ok(None),
        _ => return Err(wrong()),
    };
    let mut address = || words.next()?.parse::<IpAddr>().ok().filter(|address| address.is_ipv6() == is_v6);
    let (client, destination) = address().zip(address()).ok_or_else(wrong)?;
    let mut port = || words.next().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))?.parse::<u16>().ok();
    let (from, to) = port().zip(port()).ok_or_else(wrong)?;
    if words.next().is_some() {
        return Err(wrong());
    }
    Ok(Some(Route { client: SocketAddr::new(client, from), destination: SocketAddr::new(destination, to) }))
}

/// Parses version 2 (section 2.2) from the byte of version and command, the byte of family and transport, and the part
/// after the length.
fn version_2(command: u8, family: u8, rest: &[u8]) -> Result<Option<Route>, String> {
    match command {
        // The proxy connects on its own behalf, for example for a health check.
        0x20 => return Ok(None),
        0x21 => {}
        other => return Err(format!("version and command {other:#04x}")),
    }
    let short = |needed: usize| format!("{} bytes of addresses; {needed} are needed", rest.len());
    match family {
        // TCP over IPv4.
        0x11 => {
            let bytes: &[u8; 12] = rest.first_chunk().ok_or_else(|| short(12))?;
            let address =
                |at: usize| IpAddr::V4(Ipv4Addr::from([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
            Ok(Some(route(address(0), address(4), &bytes[8..])))
        }
        // TCP over IPv6.
        0x21 => {
            let bytes: &[u8; 36] = rest.first_chunk().ok_or_else(|| short(36))?;
            let address = |at: usize| {
                let mut octets = [0; 16];
                octets.copy_from_slice(&bytes[at..at + 16]);
                IpAddr::V6(Ipv6Addr::from(octets))
            };
            Ok(Some(route(address(0), address(16), &bytes[32..])))
        }
        // Unspecified, or a Unix socket: no internet addresses follow.
        0x00 | 0x31 => Ok(None),
        other => Err(format!("family and transport {other:#04x}")),
    }
}

fn route(client: IpAddr, destination: IpAddr, ports: &[u8]) -> Route {
    let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    Route { client: SocketAddr::new(client, port(0)), destination: SocketAddr::new(destination, port(2)) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn route_of(client: &str, destination: &str) -> Option<Route> {
        Some(Route {
            client: client.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
        })
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([command, family]);
        bytes.extend(u16::try_from(rest.len()).expect("a length").to_be_bytes());
        bytes.extend(rest);
        bytes
    }

    const V4: [u8; 12] = [192, 0, 2, 1, 192, 0, 2, 2, 0x9c, 0x40, 0x16, 0x28];

    /// Sends `bytes` in pieces of this length. Returns the header that [`take`] read, and the rest of the stream.
    fn taken(bytes: &[u8], piece: usize) -> (io::Result<Option<Route>>, Vec<u8>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listens");
        let address = listener.local_addr().expect("bound");
        let bytes = bytes.to_vec();
        let sender = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).expect("connects");
            stream.set_nodelay(true).expect("is set");
            for piece in bytes.chunks(piece) {
                // The other side may have closed the stream.
                if stream.write_all(piece).is_err() {
                    return;
                }
                std::thread::yield_now();
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let result = runtime.block_on(async {
            let (stream, _) = listener.accept().expect("accepts");
            stream.set_nonblocking(true).expect("is set");
            let mut stream = TcpStream::from_std(stream).expect("a stream");
            let result = take(&mut stream).await;
            let mut left = Vec::new();
            let _ = stream.read_to_end(&mut left).await;
            (result, left)
        });
        sender.join().expect("the sender ends");
        result
    }

    #[test]
    fn headers_of_both_versions_are_taken_and_nothing_behind_them() {
        let (mut v6, mut long) = (vec![0; 36], V4.to_vec());
        (v6[15], v6[31], v6[33], v6[35]) = (1, 2, 7, 8);
        long.extend([0x04, 0, 100]);
        long.extend([0; 100]);
        let line = |text: &str| format!("{text}\r\n").into_bytes();
        let v4 = route_of("192.0.2.1:40000", "192.0.2.2:5672");
        let longest = format!("PROXY UNKNOWN {}", "f".repeat(LINE_BYTES_MAX - 16));
        let cases = [
            (v2(0x21, 0x11, &V4), v4),
            (v2(0x21, 0x11, &long), v4),
            (v2(0x21, 0x21, &v6), route_of("[::1]:7", "[::2]:8")),
            (v2(0x20, 0x11, &V4), None),
            (v2(0x20, 0, &[]), None),
            (v2(0x21, 0, &[1, 2, 3]), None),
            (v2(0x21, 0x31, &[0; 216]), None),
            (line("PROXY TCP4 192.0.2.1 192.0.2.2 40000 5672"), v4),
            (line("PROXY TCP6 ::1 ::2 7 8"), route_of("[::1]:7", "[::2]:8")),
            (line("PROXY UNKNOWN"), None),
            (line("PROXY UNKNOWN ::1 ::2 7 8"), None),
            (line(&longest), None),
        ];
        for (header, expected) in cases {
            let bytes = [header.as_slice(), b"AMQP\r\nand more"].concat();
            for piece in [1, 13, 1000] {
                let (result, left) = taken(&bytes, piece);
                assert_eq!(result.expect("a header"), expected, "{header:?} in pieces of {piece}");
                assert_eq!(left, b"AMQP\r\nand more", "{header:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_missing_or_invalid_header_is_refused() {
        let line = |text: &str| format!("{text}\r\n").into_bytes();
        let mut beyond = v2(0x21, 0x11, &[0; REST_BYTES_MAX]);
        beyond[14..16].copy_from_slice(&(REST_BYTES_MAX as u16 + 1).to_be_bytes());
        let cases = [
            b"AMQP\0\0\x09\x01AMQP\0\0\x09\x01".to_vec(),
            b"\x16\x03\x01\0\xf4\x01\0\0\xf0\x03\x03\0\0".to_vec(),
            b"PROXY TCP4".to_vec(),
            line("PROXY TCP4 192.0.2.1 192.0.2.2 40000"),
            line("PROXY TCP4 192.0.2.1 192.0.2.2 40000 5672 1"),
            line("PROXY TCP4 192.0.2.1 192.0.2.2 40000 65536"),
            line("PROXY TCP4 192.0.2.1 192.0.2.2 +4000 5672"),
            line("PROXY TCP4  192.0.2.1 192.0.2.2 40000 5672"),
            line("PROXY TCP4 ::1 ::2 40000 5672"),
            line("PROXY TCP6 192.0.2.1 192.0.2.2 40000 5672"),
            line("PROXY UDP4 192.0.2.1 192.0.2.2 40000 5672"),
            line("proxy TCP4 192.0.2.1 192.0.2.2 40000 5672"),
            line(&format!("PROXY TCP4 {}", "1".repeat(200))),
            v2(0x21, 0x11, &V4[..11]),
            v2(0x21, 0x21, &[0; 35]),
            v2(0x11, 0x11, &V4),
            v2(0x22, 0x11, &V4),
            v2(0x21, 0x12, &V4),
            v2(0x21, 0x11, &V4)[..20].to_vec(),
            beyond,
        ];
        for bytes in cases {
            let (result, _) = taken(&bytes, 1000);
            assert!(result.is_err(), "{:?}: {result:?}", String::from_utf8_lossy(&bytes));
        }
    }

    /// Every prefix, and every header with one byte changed: none may cause a panic or a read beyond its bounds.
    #[test]
    fn changed_bytes_end_in_an_answer() {
        let whole = v2(0x21, 0x11, &V4);
        let text = b"PROXY TCP4 192.0.2.1 192.0.2.2 40000 5672\r\n";
        for at in 0..text.len() {
            for byte in 0..=255 {
                let mut changed = text.to_vec();
                changed[at] = byte;
                let _ = version_1(&changed);
                let _ = version_1(&changed[..at]);
            }
        }
        for at in 12..whole.len() {
            for byte in 0..=255 {
                let mut changed = whole.clone();
                changed[at] = byte;
                let route = version_2(changed[12], changed[13], &changed[16..]);
                let read = changed[12] == 0x21 && changed[13] == 0x11;
                assert_eq!(matches!(route, Ok(Some(_))), read, "{at} {byte}");
                let _ = version_2(changed[12], changed[13], &changed[16..at.max(16)]);
            }
        }
    }
}
