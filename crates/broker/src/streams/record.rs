//! Records, as queues append them.

use bytes::Bytes;
use leveret_log::{GroupId, Log, LogId, Payload, Position, SettleRange, SettleReason, Wait};
use leveret_message::BatchPart;

use crate::time::Nanos;

/// A record that every stream with records takes, alone and in a group. What only a log of this disk takes are methods of
/// [`LocalStream`](super::LocalStream).
#[derive(Debug, Clone, Copy)]
pub enum Record<'a> {
    /// Messages of a log.
    Messages {
        /// The log.
        log: LogId,
        /// Number of the first message.
        first: u64,
        /// The messages.
        part: BatchPart<'a>,
        /// Payload that replaces their bodies, which are in files.
        instead: Option<&'a Bytes>,
    },
    /// Messages left a log.
    Settle {
        /// The log.
        log: LogId,
        /// The reason.
        reason: SettleReason,
        /// Their numbers.
        ranges: &'a [SettleRange],
    },
}

/// A record with an owner-specific meaning; see [`crate::records`]. It is never part of a group.
#[derive(Debug, Clone, Copy)]
pub struct ControlRecord<'a> {
    /// The log.
    pub log: LogId,
    /// The kind of record.
    pub kind: u8,
    /// Its content.
    pub payload: &'a [u8],
}

impl Record<'_> {
    /// Appends it to a log.
    #[inline]
    pub(super) fn append_to(self, to: &mut Log, wait: Wait, now: Nanos) -> Position {
        match self {
            Self::Messages { log, first, part, instead } => {
                to.append_messages(log, first, payloads(part, instead), wait, now)
            }
            Self::Settle { log, reason, ranges } => to.append_settle(log, reason, ranges, wait, now),
        }
    }

    /// Appends it to a log as part of a group.
    pub(super) fn append_in(self, group: GroupId, to: &mut Log, now: Nanos) -> Position {
        match self {
            Self::Messages { log, first, part, instead } => {
                to.append_messages_in(group, log, first, payloads(part, instead), now)
            }
            Self::Settle { log, reason, ranges } => to.append_settle_in(group, log, reason, ranges, now),
        }
    }
}

fn payloads<'a>(part: BatchPart<'a>, instead: Option<&'a Bytes>) -> impl Iterator<Item = Payload<'a>> {
    part.indexes().map(move |at| {
        let message = part.batch.message(at as usize);
        assert!(message.file.is_none() || instead.is_some(), "a body in a file is referred to");
        Payload { head: message.head, body: instead.or(message.large) }
    })
}
