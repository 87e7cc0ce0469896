//! The state of a log as its owner knows it.

use roaring::RoaringTreemap;

use crate::types::{LogId, Position};

/// The live messages of a log, and the state that its owner needs to go on from here.
///
/// The state must reflect every settle and control record of the log up to `position` and none after it, and every
/// message below `next` (alive, if it is in `live`) and none from `next` on. What is appended but not durable yet may
/// be in it or not. Taken under the lock that the log's appends are made under.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveState {
    /// Whose state.
    pub log: LogId,
    /// Number of the next message: above every message that is durable.
    pub next: u64,
    /// Position of the last record of the log that is reflected: what the last append returned.
    pub position: Position,
    /// Numbers of the live messages, all below `next`.
    pub live: RoaringTreemap,
    /// Sum of their body sizes.
    pub bytes: u64,
    /// Numbers of messages whose bytes stand in another log, alive or not; checkpoints don't keep them.
    pub elsewhere: RoaringTreemap,
    /// The rest of the ledger; for [`LogId::METADATA`] the encoded model.
    pub state: Vec<u8>,
}
