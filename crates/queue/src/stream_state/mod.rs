//! The state of a stream that outlives its process, beside its messages.

mod publishing_ids;
mod stretches;
mod tracking;
mod writers;

pub use publishing_ids::PublishingIds;
pub(crate) use stretches::StretchSize;
pub use stretches::Stretches;
pub use tracking::{NAME_BYTES_MAX, Tracking};
pub use writers::{WriterRun, Writers};

/// The state that a stream keeps beside its messages.
#[derive(Debug, Default)]
pub struct StreamState {
    /// The index of its chunks.
    pub index: Stretches,
    /// The offsets that it keeps for its consumers.
    pub tracking: Tracking,
    /// Its named publishers.
    pub writers: Writers,
}

impl StreamState {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty() && self.tracking.is_empty() && self.writers.is_empty()
    }
}
