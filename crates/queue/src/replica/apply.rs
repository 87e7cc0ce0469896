//! Records change a replica, each by itself.

use leveret_message::ComparedBy;
use leveret_message::chunk::{self, ChunkError, ChunkHeader, within_stored};
use leveret_message::stored::{self, StoredError};

use super::control::Control;
use super::record::{QueueRecord, ReplicaError};
use super::state::{Checkpoint, Replica};
use crate::consumer_id::ConsumerId;
use crate::ledger::Departure;
use crate::planted::{Bug, is_planted};
use crate::shared::{ReferenceError, ReferenceRecord};

impl Replica {
    /// Applies the next record of the queue's log.
    ///
    /// # Errors
    /// [`ReplicaError`] if this version can't read it. The replica doesn't have it then, and must not apply later ones.
    ///
    /// # Panics
    /// When a number would be used twice: the log or its replay is wrong.
    pub fn apply(&mut self, record: QueueRecord<'_>) -> Result<(), ReplicaError> {
        match record {
            QueueRecord::Message { number, payload } => {
                self.message(number, payload).map_err(|error| ReplicaError::Message { number, error })
            }
            QueueRecord::References { first, messages, payload } => self
                .references(first, messages.into(), payload)
                .map_err(|error| ReplicaError::Reference { first, error }),
            QueueRecord::Chunk { first, messages, payload } => {
                self.chunk(first, messages.into(), payload).map_err(|error| ReplicaError::Chunk { first, error })
            }
            QueueRecord::Settled { first, last, bytes, departure } => {
                self.ledger.settle(first, last, bytes, departure);
                Ok(())
            }
            QueueRecord::Control { kind: Checkpoint::WHOLE, payload } => self.become_whole(payload),
            QueueRecord::Control { kind, payload } => {
                self.control(Control::decode(kind, payload)?);
                Ok(())
            }
        }
    }

    /// Takes back a message that was applied and is part of a group that was never committed. Its number stays used. Groups have
    /// nothing else to take back: departures wait for their end.
    pub fn withdraw_message(&mut self, number: u64, payload: &[u8]) {
        if let Ok((_, body)) = stored::lengths(payload) {
            self.ledger.settle(number, number, body as u64, Departure::Dropped);
            self.parts.repeats.ids.withdraw(number);
            self.parts.repeats.publishers.withdraw(number);
        }
    }

    /// As [`withdraw_message`](Self::withdraw_message), of a chunk.
    pub fn withdraw_chunk(&mut self, first: u64, messages: u16, payload: &[u8]) {
        let bytes = within_stored(payload).map_or(0, |chunk| chunk.len() as u64);
        let last = first + (u64::from(messages) - 1);
        if self.ledger.settle(first, last, bytes, Departure::Dropped) > 0 {
            self.parts.stream.index.withdraw(first, bytes);
        }
    }

    fn message(&mut self, number: u64, payload: &[u8]) -> Result<(), StoredError> {
        let (_, body) = stored::lengths(payload)?;
        let (ledger, parts) = (&mut self.ledger, &mut self.parts);
        ledger.accept(number, 1, body as u64);
        if let Some(priority) = stored::priority(payload) {
            parts.priorities.note(number, priority);
        }
        let failed = stored::failures(payload);
        if failed > 0 {
            parts.attempts.begin_at(number, failed);
        }
        if let Some(due_ms) = stored::delivery_ms(payload) {
            parts.delayed.replay(number, due_ms, body as u64);
        }
        let (received_ms, expiry_ms) = stored::times(payload);
        match stored::compared_by(payload) {
            Some(ComparedBy { id, sequence: None }) => parts.repeats.ids.replay(number, id, received_ms),
            Some(ComparedBy { id, sequence: Some(sequence) }) if !is_planted(Bug::ForgetSequences) => {
                parts.repeats.publishers.replay(number, id, sequence);
            }
            _ => {}
        }
        parts.expiry.arrived(number, 1, received_ms, ledger.low());
        if expiry_ms != 0 {
            parts.expiry.expires(number, expiry_ms, body as u32);
        }
        Ok(())
    }

    fn references(&mut self, first: u64, count: u64, payload: &[u8]) -> Result<(), ReferenceError> {
        let record = ReferenceRecord::decode(payload, count)?;
        let (ledger, parts) = (&mut self.ledger, &mut self.parts);
        ledger.accept(first, count, record.body_bytes);
        parts.references.add(first, count, record.shared);
        parts.expiry.arrived(first, count, record.received_ms, ledger.low());
        for (place, priority) in record.priorities() {
            parts.priorities.note(first + place, priority);
        }
        for (place, bytes, due_ms) in record.delivery_times() {
            parts.delayed.replay(first + place, due_ms, bytes.into());
        }
        for (place, body_bytes, expiry_ms) in record.times() {
            parts.expiry.expires(first + place, expiry_ms, body_bytes);
        }
        Ok(())
    }

    fn chunk(&mut self, first: u64, count: u64, payload: &[u8]) -> Result<(), ChunkError> {
        // Whether the queue may have one is known later: its declaration may come behind its messages.
        self.first_chunk.get_or_insert((first, first + (count - 1)));
        let chunk = within_stored(payload)?;
        let (header, bytes, writer) = (ChunkHeader::decode(chunk)?, chunk.len() as u64, chunk::writer(chunk)?);
        let at_ms = header.timestamp_ms.max(0) as u64;
        self.ledger.accept(first, count, bytes);
        self.parts.stream.index.replay(first, bytes, at_ms);
        if let Some(writer) = writer.filter(|_| !is_planted(Bug::ForgetSequences)) {
            self.parts.stream.writers.apply(writer.name, writer.sequence, at_ms);
        }
        Ok(())
    }

    fn control(&mut self, control: Control<'_>) {
        let parts = &mut self.parts;
        match control {
            Control::DeliveredBelow(below) => self.delivered_below = *below,
            Control::Mark(below) => parts.delivered_below = *below,
            Control::Active(id) => parts.active = ConsumerId::or_none(*id),
            Control::Attempts(runs) => runs.iter().for_each(|run| parts.attempts.replay(run)),
            Control::Parked(runs) => runs.iter().for_each(|run| parts.parked.add(run)),
            Control::Delayed(runs) => runs.iter().for_each(|run| parts.delayed.add(run)),
            Control::Annotated(all) => {
                all.into_owned().into_iter().for_each(|annotated| parts.annotations.replay(annotated));
            }
            Control::Dying(runs) => runs.iter().for_each(|run| parts.dying.add(run)),
            Control::Offsets(all) => all.into_owned().into_iter().for_each(|kept| parts.stream.tracking.replay(kept)),
        }
    }
}
