//! The records of a queue's log.

use leveret_message::chunk::ChunkError;
use leveret_message::stored::StoredError;
use thiserror::Error;

use super::control::ControlError;
use super::kept::KeptError;
use crate::ledger::Departure;
use crate::shared::ReferenceError;

/// A record of a queue's log, with the bytes that the log has of it.
#[derive(Debug, Clone, Copy)]
pub enum QueueRecord<'a> {
    /// A message.
    Message {
        /// Its number.
        number: u64,
        /// The stored message, or its beginning if its body is in a file.
        payload: &'a [u8],
    },
    /// Messages that are stored in the shared log.
    References {
        /// Number of the first one.
        first: u64,
        /// Number of messages.
        messages: u16,
        /// Their location, see [`crate::shared::ReferenceRecord`].
        payload: &'a [u8],
    },
    /// Messages of a stream.
    Chunk {
        /// Offset of the first one.
        first: u64,
        /// Number of messages.
        messages: u16,
        /// The stored chunk.
        payload: &'a [u8],
    },
    /// Messages left.
    Settled {
        /// First number.
        first: u64,
        /// Last number, inclusive.
        last: u64,
        /// Sum of their body lengths in bytes.
        bytes: u64,
        /// The way in which they left.
        departure: Departure,
    },
    /// A record that a part of the queue knows.
    Control {
        /// Its kind.
        kind: u8,
        /// Its content, see [`super::Control`].
        payload: &'a [u8],
    },
}

/// A record or a state of a queue that this version can't apply.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplicaError {
    /// The state of a checkpoint can't be decoded.
    #[error("state of the checkpoint: {0}")]
    Kept(#[from] KeptError),
    /// A message can't be decoded.
    #[error("message {number}: {error}")]
    Message {
        /// Its number.
        number: u64,
        /// The error.
        error: StoredError,
    },
    /// A record that refers to shared messages can't be decoded.
    #[error("messages from {first} on: {error}")]
    Reference {
        /// Number of the first message.
        first: u64,
        /// The error.
        error: ReferenceError,
    },
    /// A chunk can't be decoded.
    #[error("chunk with message {first}: {error}")]
    Chunk {
        /// Offset of the first message.
        first: u64,
        /// The error.
        error: ChunkError,
    },
    /// A control record can't be decoded.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A whole state can't be decoded.
    #[error("its whole state of {length} bytes can't be read; was this directory written by a newer version?")]
    Whole {
        /// Its length in bytes.
        length: usize,
    },
    /// A queue whose messages are stored one by one has a chunk of messages.
    #[error(
        "messages {first} to {last}: they are stored as a chunk, but the queue has the type {queue_type}, and only streams have \
         chunks; was this directory written by a newer version?"
    )]
    ChunkOfOther {
        /// Number of the first message.
        first: u64,
        /// Number of the last message.
        last: u64,
        /// Name of the queue's type.
        queue_type: &'static str,
    },
}
