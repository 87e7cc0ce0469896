//! Accepting the next connection of a listener.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tracing::warn;

/// Pause after a failed accept, such as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Waits for the next connection; errors meanwhile are logged.
pub async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The peer was gone before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                warn!("cannot accept a connection: {error}; the next try is in {ACCEPT_PAUSE:?}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
