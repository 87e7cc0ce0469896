//! Whoever comes to a listener next.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tracing::warn;

/// After a failed accept, such as for want of descriptors, the next try waits this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The next connection, however long it takes; what fails meanwhile is logged.
pub async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The peer was gone before its turn came.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                warn!("cannot accept a connection: {error}; the next try is in {ACCEPT_PAUSE:?}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
