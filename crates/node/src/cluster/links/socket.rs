//! A connection between nodes, with or without TLS, and its handshake.

use std::io;
use std::time::Duration;

use leveret_peer::{Handshake, HandshakeError, HandshakeStep, Hello, Verdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::data_link::Socket;

/// Bytes that are read at once during a handshake.
const READ_BYTES: usize = 4096;
/// Bytes of a stranger that are dropped, and time for it, so that the last text reaches it.
const LINGER_BYTES: usize = 64 << 10;
const LINGER: Duration = Duration::from_secs(1);

/// The reason why there is no link.
#[derive(Debug)]
pub(super) enum ShakeError {
    /// The two sides couldn't agree.
    Handshake(HandshakeError),
    /// The connection failed.
    Io(io::Error),
}

impl From<io::Error> for ShakeError {
    fn from(error: io::Error) -> Self {
        ShakeError::Io(error)
    }
}

/// Does a handshake. `decide` is asked once the other side has proven that it has the cookie.
pub(super) async fn shake(
    socket: &mut Socket,
    handshake: &mut Handshake,
    decide: impl Fn(&Hello) -> Result<(), String>,
) -> Result<Verdict, ShakeError> {
    let result = exchange(socket, handshake, decide).await;
    if let Err(ShakeError::Handshake(_)) = &result {
        farewell(socket, &handshake.output()).await;
    }
    result
}

async fn exchange(
    socket: &mut Socket,
    handshake: &mut Handshake,
    decide: impl Fn(&Hello) -> Result<(), String>,
) -> Result<Verdict, ShakeError> {
    let mut input = vec![0; READ_BYTES];
    let mut progress = HandshakeStep::Incomplete;
    loop {
        if progress == HandshakeStep::Proven {
            let verdict = handshake.proven().map_or(Ok(()), &decide);
            progress = handshake.decide(verdict).map_err(ShakeError::Handshake)?;
        }
        let output = handshake.output();
        if !output.is_empty() {
            socket.write_all(&output).await?;
            socket.flush().await?;
        }
        if let HandshakeStep::Done(verdict) = progress {
            return Ok(*verdict);
        }
        let count = socket.read(&mut input).await?;
        if count == 0 {
            return Err(ShakeError::Handshake(handshake.closed()));
        }
        progress = handshake.receive(&input[..count]).map_err(ShakeError::Handshake)?;
    }
}

/// Sends the last bytes, and waits until the other side has them: closing a socket with unread bytes would drop them.
pub(super) async fn farewell(socket: &mut Socket, bytes: &[u8]) {
    let last = async {
        socket.write_all(bytes).await?;
        socket.shutdown().await?;
        let (mut left, mut input) = (LINGER_BYTES, vec![0; READ_BYTES]);
        while left > 0 {
            match socket.read(&mut input).await? {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        io::Result::Ok(())
    };
    // The other side may be gone, or go on for ever.
    let _ = tokio::time::timeout(LINGER, last).await;
}

/// The reason of a connection that the other machine has answered itself, since no process listens there.
pub(super) const NOTHING_LISTENS: &str = "connection refused";

/// The reason of a failed connection, in words.
pub(super) fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => NOTHING_LISTENS.to_owned(),
        io::ErrorKind::ConnectionReset => "the connection was reset".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to the host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "no route to the network".to_owned(),
        io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        io::ErrorKind::TimedOut => "the connection timed out".to_owned(),
        _ => error.to_string(),
    }
}
