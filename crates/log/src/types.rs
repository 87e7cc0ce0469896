//! The types of the crate's interface: logs, positions, payloads, and settles (records of messages that leave a log).

use std::fmt::Debug;

use bytes::Bytes;

/// Id of a log: the records of one queue, the metadata, or the messages that several queues share. The id of a deleted
/// log is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId(pub u64);

impl Default for LogId {
    fn default() -> LogId {
        LogId::METADATA
    }
}

impl LogId {
    /// The log of metadata commands.
    pub const METADATA: LogId = LogId(0);
    /// The log of shared messages, to which the logs of several queues refer.
    pub const SHARED: LogId = LogId(u64::MAX);
}

impl std::fmt::Display for LogId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Dense number of a record in the commit stream. The first record has 1; 0 means "none".
pub type Position = u64;

/// Monotonic time in nanoseconds. The log reads no clock: its caller passes the time.
pub type Nanos = u64;

/// The payload of a message record: `head` followed by `body`.
///
/// The bytes of `head`, and of a body below [`crate::Options::inline_below`], are copied; a larger body is kept
/// as a reference until its batch is durable.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// Copied when the record is appended.
    pub head: &'a [u8],
    /// Copied or referenced, by size.
    pub body: Option<&'a Bytes>,
}

impl Payload<'_> {
    /// Bytes of head and body.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.body.map_or(0, |body| body.len())
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Messages of a log that have one record together: a chunk, or messages whose bytes are stored in another log.
#[derive(Clone, Copy, Debug)]
pub struct JointRecord<'a> {
    /// The log that the messages belong to.
    pub log: LogId,
    /// Number of the first one.
    pub first: u64,
    /// Number of messages.
    pub messages: u16,
    /// Their bytes, or the place of these, which belongs to the caller.
    pub payload: &'a [u8],
}

/// A chunk that is to be appended: messages of a log that are all in one payload.
#[derive(Clone, Copy, Debug)]
pub struct NewChunk<'a> {
    /// The log.
    pub log: LogId,
    /// Number of the first message.
    pub first: u64,
    /// Number of messages, at least 1.
    pub messages: u16,
    /// The bytes of the chunk.
    pub payload: Payload<'a>,
}

/// Knowledge of chunks, which the log hasn't: several that follow each other in a batch may become one record.
pub trait JoinChunks: Debug + Sync {
    /// Joins a chunk to the one that `data` ends with, from byte `at` on. Returns false, with nothing changed, if they don't become one.
    fn join(&self, data: &mut Vec<u8>, at: usize, next: &Payload<'_>) -> bool;

    /// Completes a chunk that others were joined to: no further one comes.
    fn complete(&self, chunk: &mut [u8]);
}

/// The record of an appended chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRecord {
    /// The record's position.
    pub position: Position,
    /// Whether it is that of the chunk before.
    pub is_joined: bool,
}

/// The guarantee that the appending caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A confirm, or another answer, waits until the record is durable. It is synced soon.
    Confirm,
    /// A confirm waits until the record is written. It is written soon, and durable within
    /// [`crate::Options::lazy_flush`].
    Written,
    /// No caller waits for the record. It is durable within [`crate::Options::lazy_flush`].
    Lazy,
}

/// Settled messages of one log: the numbers `first..=last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettleRange {
    /// Lowest number.
    pub first: u64,
    /// Highest number, inclusive.
    pub last: u64,
    /// Sum of the body sizes of these messages.
    pub bytes: u64,
}

/// The reason why messages left a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SettleReason {
    /// A consumer acknowledged them, or they were sent to one that doesn't acknowledge.
    Acknowledged = 1,
    /// The length limit dropped them.
    Dropped = 2,
    /// The queue was purged.
    Purged = 3,
    /// They expired.
    Expired = 4,
    /// They moved to the dead-letter exchange.
    DeadLettered = 5,
    /// A consumer rejected them and they weren't dead-lettered.
    Rejected = 6,
}

impl SettleReason {
    /// The reason with this code on disk.
    #[must_use]
    pub fn from_code(code: u8) -> Option<SettleReason> {
        Some(match code {
            1 => SettleReason::Acknowledged,
            2 => SettleReason::Dropped,
            3 => SettleReason::Purged,
            4 => SettleReason::Expired,
            5 => SettleReason::DeadLettered,
            6 => SettleReason::Rejected,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_survive_their_code() {
        for code in 0..=u8::MAX {
            if let Some(reason) = SettleReason::from_code(code) {
                assert_eq!(reason as u8, code);
            }
        }
        assert_eq!(SettleReason::from_code(0), None);
        assert_eq!(SettleReason::from_code(7), None);
    }

    #[test]
    fn a_payload_is_head_and_body() {
        let body = Bytes::from_static(b"body");
        let payload = Payload { head: b"he", body: Some(&body) };
        assert_eq!(payload.len(), 6);
        assert!(!payload.is_empty());
        assert!(Payload { head: b"", body: None }.is_empty());
    }
}
