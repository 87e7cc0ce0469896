//! Data links of a cluster between the cluster's thread, which does their handshakes, and the cores, which serve them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use leveret_broker::outbox::Outbox;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsStream;

/// A stream of bytes.
pub(crate) trait Bidirectional: AsyncRead + AsyncWrite + Unpin + Send + std::fmt::Debug {
    /// Its own address and the other side's, if it is a socket.
    fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        None
    }
}

impl Bidirectional for TcpStream {
    fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.local_addr().ok().zip(self.peer_addr().ok())
    }
}

impl Bidirectional for TlsStream<TcpStream> {
    fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.get_ref().0.addresses()
    }
}

/// A connection.
pub(crate) type Socket = Box<dyn Bidirectional>;

/// The cores, which serve data links.
pub(crate) trait DataSeats: Send + Sync {
    /// Their number.
    fn cores(&self) -> usize;

    /// Has a core serve a link.
    fn serve(&self, link: DataLink);
}

/// A data link whose handshake is done.
pub(crate) struct DataLink {
    /// Its connection.
    pub socket: Socket,
    /// Bytes that came behind the handshake.
    pub begin: Bytes,
    /// The other node's number.
    pub member: u16,
    /// The other node's name.
    pub node_name: String,
    /// The core that dialled, if this side did: its clients' calls go out. Otherwise the other node's come in.
    pub dialled_by: Option<usize>,
    /// How it ends, from either side.
    pub end: Arc<LinkEnd>,
}

/// The end of a data link.
#[derive(Default)]
pub(crate) struct LinkEnd {
    is_asked: AtomicBool,
    outbox: OnceLock<Arc<Outbox>>,
    ended: parking_lot::Mutex<Option<oneshot::Sender<()>>>,
}

impl LinkEnd {
    /// One whose end is told to this sender.
    pub(crate) fn told(ended: oneshot::Sender<()>) -> Arc<Self> {
        Arc::new(Self { ended: parking_lot::Mutex::new(Some(ended)), ..Self::default() })
    }

    /// Its session has this outbox.
    pub(crate) fn begins(&self, outbox: Arc<Outbox>) {
        let outbox = self.outbox.get_or_init(|| outbox);
        if self.is_asked.load(Ordering::Acquire) {
            outbox.kill();
        }
    }

    /// Ends it.
    pub(crate) fn ask(&self) {
        self.is_asked.store(true, Ordering::Release);
        if let Some(outbox) = self.outbox.get() {
            outbox.kill();
        }
    }

    /// Its connection is closed.
    pub(crate) fn ended(&self) {
        if let Some(ended) = self.ended.lock().take() {
            // The dialer may be gone.
            let _ = ended.send(());
        }
    }
}
