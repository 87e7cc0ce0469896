//! Connections of HTTP with TLS: their handshakes are made beside each other, so that a slow one holds up nobody.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

use super::Tls;
use crate::incoming;

/// A client of HTTP behind its handshake.
pub type HttpsStream = TlsStream<TcpStream>;

/// Handshakes at the same time.
const HANDSHAKES_MAX: usize = 256;
/// Connections that wait for the server to take them.
const READY_MAX: usize = 16;

/// See the module. Dropping it closes the socket.
#[derive(Debug)]
pub struct TlsListener {
    ready: mpsc::Receiver<(HttpsStream, SocketAddr)>,
    local: SocketAddr,
    task: JoinHandle<()>,
}

impl TlsListener {
    /// Starts accepting; to be called on a runtime.
    ///
    /// # Errors
    /// The socket is of no use.
    pub fn start(socket: std::net::TcpListener, tls: Arc<Tls>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let (sender, ready) = mpsc::channel(READY_MAX);
        let task = tokio::spawn(accept(TcpListener::from_std(socket)?, tls, sender));
        Ok(Self { ready, local, task })
    }

    /// The next connection.
    pub async fn accept(&mut self) -> (HttpsStream, SocketAddr) {
        match self.ready.recv().await {
            Some(ready) => ready,
            // The task that accepts ends with the runtime only.
            None => std::future::pending().await,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, tls: Arc<Tls>, sender: mpsc::Sender<(HttpsStream, SocketAddr)>) {
    let places = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, address) = incoming::next(&listener).await;
        let (tls, sender) = (tls.clone(), sender.clone());
        tokio::spawn(async move {
            match tokio::time::timeout(tls.patience(), tls.acceptor().accept(stream)).await {
                // Nobody takes it any more when the node stops.
                Ok(Ok(stream)) => drop(sender.send((stream, address)).await),
                Ok(Err(error)) => warn!("TLS handshake with {address} failed: {error}"),
                Err(_) => debug!("TLS handshake with {address} failed: it took more than {:?}", tls.patience()),
            }
            drop(place);
        });
    }
}
