//! Counters of the links, for metrics.

use std::sync::atomic::AtomicU64;

use leveret_peer::LinkKind;

/// Counters of links, by kind where there is one. Readable from any thread.
#[derive(Debug, Default)]
pub(crate) struct LinkCounters {
    received: [AtomicU64; LinkKind::ALL.len()],
    sent: [AtomicU64; LinkKind::ALL.len()],
    up: [AtomicU64; LinkKind::ALL.len()],
    /// Attempts to connect to a peer.
    pub dials: AtomicU64,
    /// Attempts that failed.
    pub dials_failed: AtomicU64,
    /// Connections that were accepted and refused.
    pub refused: AtomicU64,
}

impl LinkCounters {
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
}
