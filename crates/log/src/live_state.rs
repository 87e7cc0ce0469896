//! The state of a log as its owner knows it.

use std::borrow::Cow;

use roaring::RoaringTreemap;

use crate::types::{LogId, Position};

/// The live messages of a log, and the state that its owner needs to continue from here.
///
/// The state must reflect every settle and control record of the log up to `position` and none after it, and every
/// message below `next` (live, if it is in `live`) and none from `next` on. Appended records that aren't durable yet
/// may be reflected or not, but for a chunk that others [may be joined to](crate::Log::append_joining_chunk): as long as it isn't
/// written, it mustn't be. The state is taken under the lock that the log's appends are made under.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveState {
    /// The log.
    pub log: LogId,
    /// Number of the next message; higher than that of every durable message.
    pub next: u64,
    /// Position of the last reflected record of the log, as returned by its append.
    pub position: Position,
    /// Numbers of the live messages, all below `next`.
    pub live: RoaringTreemap,
    /// Sum of their body sizes.
    pub bytes: u64,
    /// Numbers of messages whose bytes are stored in another log, live or not; checkpoints don't keep them.
    pub elsewhere: RoaringTreemap,
    /// The rest of the ledger; for [`LogId::METADATA`] the encoded model.
    pub state: Vec<u8>,
}

impl LiveState {
    /// The live messages whose bytes are stored in this log.
    pub(crate) fn stored_here(&self) -> Cow<'_, RoaringTreemap> {
        match self.elsewhere.is_empty() {
            true => Cow::Borrowed(&self.live),
            false => Cow::Owned(&self.live - &self.elsewhere),
        }
    }
}
