//! The parts of a replica as bytes: the state of a queue's entry in a checkpoint (docs/storage.md).
//!
//! | version | content |
//! |---|---|
//! | none, no bytes at all | nothing |
//! | 3 | times only: see [`crate::Expiry`] |
//! | 2 | 1 byte version, 4 bytes number of stretches s, 24 s bytes of stretches, then the content of version 3 or nothing |
//! | 5 | as 3, with a scale of its own for each chunk of times |
//! | 4 | 1 byte version, two tallies (how often messages came back, how often that counted as failed), priorities, parked messages, then the content of version 2, 3 or 5, or nothing |
//! | 6 | as 4, with delayed messages, added annotations and dying messages behind the parked messages |
//! | 7 | a stream: 1 byte version, 8 bytes offset of its last chunk, 4 bytes number of entries of its index, and 32 bytes for each: the offset of its first message, its bytes, and the times of its first and last chunk; then 4 bytes number of offsets kept for consumers, and for each 1 byte length of its name, the name, and 8 bytes offset |
//! | 8 | as 7, then the named publishers of a stream: 4 bytes number of names, and for each 1 byte length of its name, the name, 8 bytes number of its last message, 8 bytes time of it |
//! | 9 | 1 byte version, the ids of the last messages of a queue that drops duplicates, then the content of version 2 to 6, or nothing |
//! | 10 | 1 byte version, the publishers of a queue that drops what they send again, then the content of version 2 to 6 or 9, or nothing |
//! | 11 | 1 byte version, 8 bytes number below which messages of a replicated queue may have been delivered, then the content of version 2 to 6, 9 or 10, or nothing |
//! | 12 | 1 byte version, 8 bytes id of the single active consumer of a replicated queue, then the content of version 2 to 6 or 9 to 11, or nothing |
//!
//! Ids are 4 bytes number, and for each 16 bytes id, 8 bytes number of its message, and 8 bytes time at which that was received.
//! Publishers are 4 bytes number, and for each 16 bytes hash of its name, 8 bytes number of its last message in the queue, and 8 bytes
//! highest number that it gave.
//! A tally is 4 bytes length of a set, the set of messages counted once (portable 64-bit roaring), 4 bytes number of others, and
//! 8 bytes number and 4 bytes count of each. Priorities are 1 byte number of priorities, and for each 1 byte priority, 4 bytes
//! length of a set, and the set of messages. Parked messages are 4 bytes number of messages, and for each 8 bytes number and 4
//! bytes length of its body. Delayed messages are 4 bytes number of chunks, and chunks of [`crate::timing::Times`]. Added
//! annotations are 4 bytes number of messages, and for each 8 bytes number, 4 bytes length, and a map of AMQP 1.0. Dying messages
//! are 4 bytes number of runs, and runs of [`crate::DyingRun::encode`]. A stretch is its first number, its last number,
//! and the number of its first message in the shared log.

use std::borrow::Borrow;

use thiserror::Error;

use super::parts::Parts;
use crate::annotations::Annotations;
use crate::attempts::Attempts;
use crate::consumer_id::ConsumerId;
use crate::dead_letter::Dying;
use crate::number_set::NumberSet;
use crate::planted::{Bug, is_planted};
use crate::priorities::Priorities;
use crate::records::DyingRun;
use crate::repeats::{RecoveredIds, RecoveredRepeats, RecoveredSequences};
use crate::set_aside::{Delayed, Parked};
use crate::shared::References;
use crate::stream_state::{StreamState, Stretches, Tracking, Writers};
use crate::timing::{Expiry, ExpiryStateError};

/// Of a stream's state.
const STREAM: u8 = 7;
/// Of a stream's state with named publishers.
const STREAM_WITH_WRITERS: u8 = 8;
/// Of a state that begins with the ids of messages.
const IDS: u8 = 9;
/// Of a state that begins with the numbers of publishers.
const SEQUENCES: u8 = 10;
/// Of a state that begins with the mark of what may have been delivered.
const MARKED: u8 = 11;
/// Of a state that begins with the active consumer.
const ACTIVE: u8 = 12;
/// Of a state that begins with references.
const REFERENCES: u8 = 2;
/// Of a state that begins with attempts, priorities, parked and delayed messages, and annotations.
const QUORUM: u8 = 6;
/// The one before, without delayed messages and annotations.
const QUORUM_UNDELAYED: u8 = 4;

/// State bytes that this version can't read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeptError {
    /// The expiry times can't be read.
    #[error(transparent)]
    Expiry(#[from] ExpiryStateError),
    /// The stretches of shared messages can't be read.
    #[error("the shared messages in a queue's state of {0} bytes don't add up")]
    References(usize),
    /// The index of a stream can't be read.
    #[error("the index in a stream's state of {0} bytes doesn't add up")]
    Stream(usize),
    /// The counts of deliveries and priorities can't be read.
    #[error("the counts of deliveries and priorities in a queue's state of {0} bytes don't add up")]
    Quorum(usize),
    /// The ids of messages can't be read.
    #[error("the ids of messages in a queue's state of {0} bytes don't add up")]
    Ids(usize),
    /// The mark of what may have been delivered can't be read.
    #[error("the mark in a queue's state of {0} bytes isn't whole")]
    Mark(usize),
    /// The active consumer can't be read.
    #[error("the active consumer in a queue's state of {0} bytes isn't whole")]
    Active(usize),
    /// The numbers of publishers can't be read.
    #[error("the numbers of publishers in a queue's state of {0} bytes don't add up")]
    Sequences(usize),
}

impl Parts {
    /// Decodes the state of a checkpoint.
    ///
    /// # Errors
    /// [`KeptError`] if they are of another version or length.
    pub fn decode(bytes: &[u8]) -> Result<Self, KeptError> {
        let (length, mut parts, mut rest) = (bytes.len(), Self::default(), bytes);
        if let Some((&version @ (STREAM | STREAM_WITH_WRITERS), bytes)) = rest.split_first() {
            let stream = &mut parts.stream;
            (stream.index, rest) = Stretches::decode(bytes).ok_or(KeptError::Stream(length))?;
            (stream.tracking, rest) = Tracking::decode(rest).ok_or(KeptError::Stream(length))?;
            if version == STREAM_WITH_WRITERS {
                (stream.writers, rest) = Writers::decode(rest).ok_or(KeptError::Stream(length))?;
            }
            return if rest.is_empty() { Ok(parts) } else { Err(KeptError::Stream(length)) };
        }
        if let Some((&ACTIVE, bytes)) = rest.split_first() {
            let (id, behind) = bytes.split_first_chunk().ok_or(KeptError::Active(length))?;
            (parts.active, rest) = (ConsumerId::or_none(u64::from_le_bytes(*id)), behind);
        }
        if let Some((&MARKED, bytes)) = rest.split_first() {
            let (mark, behind) = bytes.split_first_chunk().ok_or(KeptError::Mark(length))?;
            (parts.delivered_below, rest) = (u64::from_le_bytes(*mark), behind);
        }
        if let Some((&SEQUENCES, bytes)) = rest.split_first() {
            (parts.repeats.publishers, rest) = RecoveredSequences::decode(bytes).ok_or(KeptError::Sequences(length))?;
        }
        if let Some((&IDS, bytes)) = rest.split_first() {
            (parts.repeats.ids, rest) = RecoveredIds::decode(bytes).ok_or(KeptError::Ids(length))?;
        }
        if let Some((&version @ (QUORUM | QUORUM_UNDELAYED), bytes)) = rest.split_first() {
            (parts.attempts, rest) = Attempts::decode(bytes).ok_or(KeptError::Quorum(length))?;
            (parts.priorities, rest) = Priorities::decode(rest).ok_or(KeptError::Quorum(length))?;
            (parts.parked, rest) = Parked::decode(rest).ok_or(KeptError::Quorum(length))?;
            if version == QUORUM {
                (parts.delayed, rest) = Delayed::decode(rest).ok_or(KeptError::Quorum(length))?;
                (parts.annotations, rest) = Annotations::decode(rest).ok_or(KeptError::Quorum(length))?;
                (parts.dying, rest) = Dying::decode(rest).ok_or(KeptError::Quorum(length))?;
            }
        }
        if let Some((&REFERENCES, bytes)) = rest.split_first() {
            (parts.references, rest) = References::decode(bytes).ok_or(KeptError::References(length))?;
        }
        parts.expiry = Expiry::decode(rest)?;
        Ok(parts)
    }

    /// Encodes the state of a queue whose numbers are below `next`, for a checkpoint.
    pub fn encode(&self, next: u64) -> Vec<u8> {
        if !self.stream.is_empty() {
            let mut out = Vec::new();
            encode_stream(&self.stream, &mut out);
            return out;
        }
        let quorum = QuorumState {
            attempts: &self.attempts,
            levels: self.priorities.0.iter().map(|(priority, numbers)| (*priority, numbers)),
            parked: &self.parked,
            delayed: &self.delayed,
            annotations: &self.annotations,
            dying: &self.dying.runs(),
        };
        let rest = encode(quorum.encode(), &self.references, next, self.expiry.encode(std::iter::empty()));
        let rest = with_repeats(&self.repeats, rest);
        let rest = behind_number(MARKED, self.delivered_below, rest);
        behind_number(ACTIVE, self.active.map_or(0, |id| id.0), rest)
    }
}

/// Puts a number before the rest of a state, unless it is 0.
fn behind_number(version: u8, number: u64, rest: Vec<u8>) -> Vec<u8> {
    if number == 0 { rest } else { [&[version][..], &number.to_le_bytes(), &rest].concat() }
}

/// Puts what is known of earlier messages before the rest of a state.
pub(crate) fn with_repeats(repeats: &RecoveredRepeats, rest: Vec<u8>) -> Vec<u8> {
    let RecoveredRepeats { ids, publishers } = repeats;
    if ids.is_empty() && publishers.is_empty() {
        return rest;
    }
    let mut out = Vec::new();
    if !publishers.is_empty() {
        out.push(SEQUENCES);
        publishers.encode(&mut out);
    }
    if !ids.is_empty() {
        out.push(IDS);
        ids.encode(&mut out);
    }
    out.extend_from_slice(&rest);
    out
}

/// Encodes the state of a stream.
pub(crate) fn encode_stream(stream: &StreamState, out: &mut Vec<u8>) {
    let StreamState { index, tracking, writers } = stream;
    let has_writers = !writers.is_empty() && !is_planted(Bug::ForgetWriters);
    out.push(if has_writers { STREAM_WITH_WRITERS } else { STREAM });
    if is_planted(Bug::ForgetLastStretch) {
        let mut shorter = index.clone();
        shorter.forget_last();
        return shorter.encode(out);
    }
    index.encode(out);
    tracking.encode(out);
    if has_writers {
        writers.encode(out);
    }
}

/// The part of the state that only quorum queues and queues with priorities have.
pub(crate) struct QuorumState<'a, L> {
    pub(crate) attempts: &'a Attempts,
    /// Each priority with its messages.
    pub(crate) levels: L,
    pub(crate) parked: &'a Parked,
    pub(crate) delayed: &'a Delayed,
    pub(crate) annotations: &'a Annotations,
    pub(crate) dying: &'a [DyingRun],
}

impl<L: Iterator<Item = (u8, N)>, N: Borrow<NumberSet>> QuorumState<'_, L> {
    /// Its bytes; empty if there is nothing in it.
    pub(crate) fn encode(self) -> Vec<u8> {
        let Self { attempts, levels, parked, delayed, annotations, dying } = self;
        let mut levels = levels.peekable();
        let mut out = Vec::new();
        let has_some = !attempts.is_empty() || !parked.is_empty() || !delayed.is_empty() || !annotations.is_empty();
        let has_some = has_some || !dying.is_empty();
        if has_some || levels.peek().is_some() {
            out.push(QUORUM);
            attempts.encode(&mut out);
            Priorities::encode(levels, &mut out);
            parked.encode(&mut out);
            delayed.encode(&mut out);
            annotations.encode(&mut out);
            Dying::encode(dying, &mut out);
        }
        out
    }
}

/// Encodes the state of a queue whose numbers are below `next`, behind the part of a quorum queue, with its encoded expiry
/// times.
pub(crate) fn encode(quorum: Vec<u8>, references: &References, next: u64, expiry: Vec<u8>) -> Vec<u8> {
    if quorum.is_empty() && references.is_empty() {
        return expiry;
    }
    let mut out = quorum;
    if !references.is_empty() {
        out.push(REFERENCES);
        references.encode(&mut out, next);
    }
    out.extend_from_slice(&expiry);
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leveret_model::QueueOptions;

    use super::*;
    use crate::contents::MemoryBudget;
    use crate::ledger::Ledger;
    use crate::records::DelayRun;
    use crate::{Queue, Replica, Surroundings};

    #[test]
    fn times_and_shared_messages_come_back() {
        let budget = Arc::new(MemoryBudget::new(0));
        let ledger = || {
            let mut ledger = Ledger::default();
            ledger.accept(4, 2, 0);
            ledger
        };
        let surroundings =
            Surroundings { budget, epoch: crate::Epoch::default(), strict_compat: false, standing_delay_target: 0 };
        let queue = |ledger, expiry| {
            let replica = Replica { ledger, parts: Parts { expiry, ..Parts::default() }, ..Replica::default() };
            Queue::new(QueueOptions::default(), true, replica, surroundings.clone(), 0)
        };
        assert!(queue(ledger(), Expiry::default()).checkpoint().state.is_empty());
        let mut expiry = Expiry::default();
        expiry.expires(4, 1_700_000_010_000, 77);
        let mut queue = queue(ledger(), expiry);
        let only_times = queue.checkpoint().state;
        assert!(Parts::decode(&only_times).unwrap().references.is_empty());
        queue.references_mut().add(4, 2, 900);
        let bytes = queue.checkpoint().state;
        let again = Parts::decode(&bytes).unwrap();
        assert_eq!(again.references.place(5).unwrap().shared, 901);
        assert!(!again.expiry.is_empty());
        for end in 1..bytes.len() - only_times.len() {
            assert_eq!(Parts::decode(&bytes[..end]).unwrap_err(), KeptError::References(end));
        }
        let mut newer = bytes;
        newer[0] = 13;
        assert!(matches!(Parts::decode(&newer), Err(KeptError::Expiry(ExpiryStateError::Version(13)))));
    }

    #[test]
    fn counts_of_deliveries_come_before_all_else() {
        let mut kept = Parts::default();
        kept.attempts.come_back(5, true);
        kept.priorities.note(5, 200);
        kept.delayed.add(&DelayRun { first: 5, last: 5, due_ms: 1_700_000_000_000, bytes: 9 });
        let counts = kept.attempts.of(5);
        let alone = kept.encode(6);
        kept.references.add(4, 2, 900);
        kept.expiry.expires(4, 1_700_000_010_000, 77);
        let bytes = kept.encode(6);
        let again = Parts::decode(&bytes).unwrap();
        assert_eq!((again.attempts.of(5), again.references.place(5).unwrap().shared), (counts, 901));
        assert!(!again.expiry.is_empty());
        let again = Parts::decode(&alone).unwrap();
        assert_eq!((again.attempts.of(5), again.delayed.bytes()), (counts, 9));
        assert!(again.priorities.0[&200].contains(5), "the type of the queue says what it means");
        for end in 1..alone.len() {
            assert_eq!(Parts::decode(&alone[..end]).unwrap_err(), KeptError::Quorum(end));
        }
    }

    #[test]
    fn a_state_from_before_delayed_messages_is_read() {
        let mut kept = Parts::default();
        kept.attempts.come_back(5, true);
        kept.expiry.expires(4, 1_700_000_010_000, 77);
        let (now, expiry) = (kept.encode(6), kept.expiry.encode(std::iter::empty()));
        let quorum = &now[..now.len() - expiry.len()];
        // Behind the parked messages there were no numbers of chunks, annotated messages and dying runs.
        let mut older = quorum[..quorum.len() - 12].to_vec();
        older[0] = QUORUM_UNDELAYED;
        older.extend_from_slice(&expiry);
        let again = Parts::decode(&older).unwrap();
        assert_eq!(again.attempts.of(5), kept.attempts.of(5));
        assert!(again.delayed.is_empty() && !again.expiry.is_empty());
    }
}
