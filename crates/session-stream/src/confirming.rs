//! Messages of publishers that wait for their confirms.

use leveret_queue::PublishingIds;

/// Messages of a publisher that are confirmed together.
#[derive(Debug)]
pub(crate) struct Confirming {
    pub publisher: u8,
    /// Tells it from an earlier publisher with its id.
    pub serial: u64,
    pub ids: PublishingIds,
}

/// Messages of a publisher that are becoming a chunk.
pub(crate) struct Run {
    pub publisher: u8,
    pub serial: u64,
    /// The ids of the chunk's entries.
    pub ids: PublishingIds,
    /// Messages that only have to be confirmed: they are in the stream already, by their numbers.
    pub known: PublishingIds,
    /// The same behind entries of the chunk: they may be in the chunk itself, and aren't safe before it is.
    pub repeated: PublishingIds,
}
