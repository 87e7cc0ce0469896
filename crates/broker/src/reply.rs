//! Answers in flight to a requester.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leveret_message::Batch;

/// Answers in flight to a requester. Its connection has to call [`Reply::done`] once it has encoded or dropped them; otherwise
/// no further ones are accepted.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The connection's key of the requester.
    pub key: u64,
    /// The messages.
    pub batch: Arc<Batch>,
    /// Bytes of answers that wait for this requester; each registration has its own counter.
    waiting_bytes: Arc<AtomicU64>,
}

impl Reply {
    /// Counts their bytes as waiting.
    pub(crate) fn new(key: u64, batch: Arc<Batch>, waiting_bytes: Arc<AtomicU64>) -> Self {
        waiting_bytes.fetch_add(batch.memory() as u64, Ordering::Relaxed);
        Self { key, batch, waiting_bytes }
    }

    /// Subtracts their bytes: they don't wait any more.
    pub fn done(&self) {
        self.waiting_bytes.fetch_sub(self.batch.memory() as u64, Ordering::Relaxed);
    }

    /// Whether they are for the requester with this counter.
    pub(crate) fn counts_in(&self, waiting_bytes: &Arc<AtomicU64>) -> bool {
        Arc::ptr_eq(&self.waiting_bytes, waiting_bytes)
    }
}

impl PartialEq for Reply {
    fn eq(&self, other: &Self) -> bool {
        self.counts_in(&other.waiting_bytes) && Arc::ptr_eq(&self.batch, &other.batch)
    }
}

impl Eq for Reply {}
