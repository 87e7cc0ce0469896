//! The TLS handshake of a connection that was accepted, and those who don't make one.

use std::io;

use leveret_broker::{Encryption, Foreign, Peer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::warn;

use super::stream::Stream;
use crate::tls::Tls;

/// The first byte of a TLS record that begins a handshake (RFC 8446, 5.1).
const HANDSHAKE: u8 = 0x16;

/// The stream behind the handshake; none if it failed, which is logged.
pub(super) async fn handshake(
    stream: TcpStream,
    tls: &Tls,
    peer: Peer,
    http: Option<u16>,
) -> Option<(Stream, Encryption)> {
    let name = peer.connection_name();
    match timeout(tls.patience(), shake(stream, tls, peer, http)).await {
        Ok(Ok(made)) => Some(made),
        Ok(Err(error)) => {
            warn!(connection = name, "TLS handshake failed: {error}");
            None
        }
        Err(_) => {
            warn!(connection = name, "TLS handshake failed: ssl_handshake_timeout ({:?}) is over", tls.patience());
            None
        }
    }
}

async fn shake(mut stream: TcpStream, tls: &Tls, peer: Peer, http: Option<u16>) -> io::Result<(Stream, Encryption)> {
    let mut first = [0; 8];
    let seen = stream.peek(&mut first).await?;
    if seen > 0 && first[0] != HANDSHAKE {
        let foreign = Foreign::recognise(&first[..seen]);
        if let Some(foreign) = foreign {
            stream.write_all(&foreign.answer(peer.local.port(), http)).await?;
        }
        let reason = match foreign {
            Some(foreign) => foreign.reason().to_owned(),
            None => format!("the client speaks something else on a port for TLS; it began with {:?}", &first[..seen]),
        };
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let stream = tls.acceptor().accept(stream).await?;
    let session = stream.get_ref().1;
    let encryption = Encryption {
        version: session.protocol_version().map_or(0, u16::from),
        suite: session.negotiated_cipher_suite().map_or(0, |suite| suite.suite().into()),
    };
    Ok((Stream::Tls(Box::new(stream)), encryption))
}
