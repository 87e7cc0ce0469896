//! Where a reader of a stream begins, and the messages that it wants.

use std::sync::Arc;

use crate::stream_filter::StreamFilter;

/// The first message that a reader gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamStart {
    /// The oldest message that is there.
    First,
    /// The first message of the last chunk.
    Last,
    /// The next message that is published.
    #[default]
    Next,
    /// The message with this offset; the oldest one if retention has removed it.
    Offset(u64),
    /// So many messages before the next one that is published.
    LastN(u64),
    /// The first chunk that was published at this time or later, in milliseconds since the Unix epoch.
    Timestamp(u64),
}

/// The part of a consumer's options that only a stream has.
#[derive(Debug, Clone, Default)]
pub struct StreamOptions {
    /// Its first message.
    pub start: StreamStart,
    /// The messages that it wants; all if there is none.
    pub filter: Option<Arc<StreamFilter>>,
    /// The name by which the stream keeps its offset. If there is an offset of that name, it begins there, and not at `start`.
    pub tracking: Option<Arc<str>>,
}
