//! Counters of the links, for metrics and for the list of nodes.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use leveret_peer::LinkKind;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::data_link::{Bidirectional, Socket};

/// Counters of links, by kind where there is one. Readable from any thread.
#[derive(Debug, Default)]
pub(crate) struct LinkCounters {
    all: Traffic,
    members: Mutex<BTreeMap<u16, Arc<Traffic>>>,
    /// Attempts to connect to a peer.
    pub dials: AtomicU64,
    /// Attempts that failed.
    pub dials_failed: AtomicU64,
    /// Connections that were accepted and refused.
    pub refused: AtomicU64,
}

/// Counters of the links to one member, or to all.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    received: [AtomicU64; LinkKind::ALL.len()],
    sent: [AtomicU64; LinkKind::ALL.len()],
    up: [AtomicU64; LinkKind::ALL.len()],
    /// Both ends of the last control link, this node's first.
    addresses: Mutex<Option<(SocketAddr, SocketAddr)>>,
}

impl Traffic {
    /// Bytes that came by links of a kind, after their handshakes.
    pub(crate) fn received(&self, kind: LinkKind) -> &AtomicU64 {
        &self.received[kind as usize]
    }

    /// Bytes that went by links of a kind, after their handshakes.
    pub(crate) fn sent(&self, kind: LinkKind) -> &AtomicU64 {
        &self.sent[kind as usize]
    }

    /// Links of a kind that stand now.
    pub(crate) fn up(&self, kind: LinkKind) -> &AtomicU64 {
        &self.up[kind as usize]
    }

    /// Both ends of the last control link, this node's first.
    pub(crate) fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        *self.addresses.lock()
    }

    pub(super) fn set_addresses(&self, addresses: Option<(SocketAddr, SocketAddr)>) {
        *self.addresses.lock() = addresses;
    }
}

impl LinkCounters {
    /// The counters of the links to all members together.
    pub(crate) fn all(&self) -> &Traffic {
        &self.all
    }

    /// The counters of the links to a member.
    pub(crate) fn of(&self, member: u16) -> Arc<Traffic> {
        self.members.lock().entry(member).or_default().clone()
    }

    /// The counters of the links to a member, if there has been any.
    pub(crate) fn known(&self, member: u16) -> Option<Arc<Traffic>> {
        self.members.lock().get(&member).cloned()
    }

    /// Forgets the members that aren't among these.
    pub(super) fn retain(&self, stays: impl Fn(u16) -> bool) {
        self.members.lock().retain(|member, _| stays(*member));
    }
}

/// A link that stands, of this kind, to a member if that is known.
#[derive(Debug)]
pub(super) struct Standing {
    kind: LinkKind,
    all: Arc<LinkCounters>,
    member: Option<Arc<Traffic>>,
}

impl Standing {
    /// Counts the link until this is dropped; one that only asks counts for bytes alone.
    pub(super) fn new(kind: LinkKind, all: Arc<LinkCounters>, member: Option<u16>) -> Self {
        let member = member.map(|member| all.of(member));
        let standing = Self { kind, all, member };
        standing.each(|traffic| _ = traffic.up(kind).fetch_add(1, Ordering::Relaxed));
        standing
    }

    fn each(&self, count: impl Fn(&Traffic)) {
        count(&self.all.all);
        if let Some(member) = &self.member {
            count(member);
        }
    }

    pub(super) fn received(&self, bytes: usize) {
        self.each(|traffic| _ = traffic.received(self.kind).fetch_add(bytes as u64, Ordering::Relaxed));
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.each(|traffic| _ = traffic.sent(self.kind).fetch_add(bytes as u64, Ordering::Relaxed));
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.each(|traffic| _ = traffic.up(self.kind).fetch_sub(1, Ordering::Relaxed));
    }
}

/// A connection that counts as a link that stands, with its bytes.
#[derive(Debug)]
pub(super) struct CountedSocket {
    pub(super) socket: Socket,
    pub(super) standing: Standing,
}

impl Bidirectional for CountedSocket {}

impl AsyncRead for CountedSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = to.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(cx, to);
        let count = to.filled().len() - before;
        if count > 0 {
            this.standing.received(count);
        }
        read
    }
}

impl AsyncWrite for CountedSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.socket).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = written {
            this.standing.sent(count);
        }
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.socket).poll_write_vectored(cx, bytes);
        if let Poll::Ready(Ok(count)) = written {
            this.standing.sent(count);
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}
