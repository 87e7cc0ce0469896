//! The TLS handshake of a client of HTTP.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

use super::Tls;

/// The stream of a client of HTTP after its handshake.
pub type HttpsStream = TlsStream<TcpStream>;

impl Tls {
    /// Does the handshake with the client at `address`. None, and a line in the log, if it fails or takes longer than
    /// `ssl_handshake_timeout`.
    pub async fn handshake(&self, stream: TcpStream, address: SocketAddr) -> Option<HttpsStream> {
        let handshake: io::Result<HttpsStream> =
            match tokio::time::timeout(self.patience(), self.acceptor().accept(stream)).await {
                Ok(done) => done,
                Err(_) => {
                    debug!("TLS handshake with {address} failed: it took more than {:?}", self.patience());
                    return None;
                }
            };
        match handshake {
            Ok(stream) => Some(stream),
            // A probe of the port, or a client that gave up.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                debug!("TLS handshake with {address} failed: {error}");
                None
            }
            Err(error) => {
                warn!("TLS handshake with {address} failed: {error}");
                None
            }
        }
    }
}
