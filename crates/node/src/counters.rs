use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a core has done since the start. Written by its core only, read by whoever collects metrics.
#[derive(Debug, Default)]
pub struct CoreCounters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    accepted: AtomicU64,
    closed: AtomicU64,
}

/// A reading of [`CoreCounters`], or the sum of several.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CoreCounts {
    /// Reads of sockets that returned something.
    pub reads: u64,
    /// Bytes read from sockets.
    pub read_bytes: u64,
    /// Writes to sockets.
    pub writes: u64,
    /// Bytes written to sockets.
    pub written_bytes: u64,
    /// Connections taken.
    pub accepted: u64,
    /// Connections ended.
    pub closed: u64,
}

impl CoreCounters {
    pub(crate) fn read(&self, bytes: usize) {
        add(&self.reads, 1);
        add(&self.read_bytes, bytes as u64);
    }

    pub(crate) fn written(&self, bytes: usize) {
        add(&self.writes, 1);
        add(&self.written_bytes, bytes as u64);
    }

    pub(crate) fn accepted(&self) {
        add(&self.accepted, 1);
    }

    pub(crate) fn closed(&self) {
        add(&self.closed, 1);
    }

    /// The present values; each is exact, they are not read at one instant.
    #[must_use]
    pub fn counts(&self) -> CoreCounts {
        CoreCounts {
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            writes: self.writes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            accepted: self.accepted.load(Relaxed),
            closed: self.closed.load(Relaxed),
        }
    }
}

impl std::iter::Sum for CoreCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |a, b| Self {
            reads: a.reads + b.reads,
            read_bytes: a.read_bytes + b.read_bytes,
            writes: a.writes + b.writes,
            written_bytes: a.written_bytes + b.written_bytes,
            accepted: a.accepted + b.accepted,
            closed: a.closed + b.closed,
        })
    }
}

/// One writer: a load and a store, not a locked addition.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}
