//! The state of a replica, how it begins and ends, and what others ask of it.

use leveret_model::{EarlierPriorities, QueueType};
use roaring::RoaringTreemap;

use super::parts::Parts;
use super::record::ReplicaError;
use crate::ledger::Ledger;

/// The part of a queue's state that outlives the process.
#[derive(Debug)]
pub struct Checkpoint {
    /// The lowest number that the next message may get.
    pub next: u64,
    /// Live durable messages, including dead letters that wait to be moved.
    pub live: RoaringTreemap,
    /// Their body bytes.
    pub bytes: u64,
    /// Live messages that are stored in the shared log.
    pub elsewhere: RoaringTreemap,
    /// Everything else, see [`Parts`].
    pub state: Vec<u8>,
}

/// The state that the records of a queue's log lead to, and that a machine begins with.
#[derive(Debug, Default)]
pub struct Replica {
    /// Live messages.
    pub ledger: Ledger,
    /// Messages with lower numbers may have been delivered before. No checkpoint has it.
    pub delivered_below: u64,
    /// Everything else that a checkpoint has.
    pub parts: Parts,
    /// The first and the last number of the first chunk that was applied, if there was one.
    pub first_chunk: Option<(u64, u64)>,
}

impl Replica {
    /// No messages: the first one gets the number `first`.
    pub fn none(first: u64) -> Self {
        Self { ledger: Ledger::starting_at(first), ..Self::default() }
    }

    /// The replica that a checkpoint describes, of another replica or of a machine.
    ///
    /// # Errors
    /// [`ReplicaError`] if this version can't read its state.
    pub fn restore(checkpoint: &Checkpoint) -> Result<Self, ReplicaError> {
        let Checkpoint { next, live, bytes, elsewhere: _, state } = checkpoint;
        let (ledger, parts) = (Ledger::restore(*next, live, *bytes), Parts::decode(state)?);
        Ok(Self { ledger, parts, ..Self::default() })
    }

    /// Its checkpoint, as a machine that has just begun with it would write it.
    pub fn checkpoint(&mut self) -> Checkpoint {
        self.parts.keep_live(&self.ledger);
        let (next, live, bytes) = (self.ledger.next(), self.ledger.live_set(), self.ledger.bytes());
        Checkpoint { next, live, bytes, elsewhere: self.parts.references.numbers(), state: self.parts.encode(next) }
    }

    /// Ends the replay before a machine begins with it. After a clean stop it is known which messages may have been
    /// delivered; after a crash, all may have been. `earlier` are the priorities from before the queue was converted.
    pub fn end_replay(&mut self, earlier: &[EarlierPriorities], clean: bool) {
        // Volatile messages had numbers, too, which are reused.
        let next = self.ledger.next();
        self.delivered_below = if clean { self.delivered_below.min(next) } else { next };
        for earlier in earlier {
            self.parts.priorities.map(|number, priority| earlier.of(number, priority));
        }
        self.parts.keep_live(&self.ledger);
    }

    /// Ends the replay before a machine of a replicated queue begins with it: the mark says which messages may have been delivered.
    pub fn end_marked_replay(&mut self) {
        self.end_replay(&[], true);
        self.delivered_below = self.parts.delivered_below.min(self.ledger.next());
    }

    /// Checks that a queue of this type may have the records that were applied.
    ///
    /// # Errors
    /// [`ReplicaError`] if they have to be those of another type.
    pub fn check_type(&self, queue_type: QueueType) -> Result<(), ReplicaError> {
        match self.first_chunk {
            Some((first, last)) if queue_type != QueueType::Stream => {
                Err(ReplicaError::ChunkOfOther { first, last, queue_type: queue_type.name() })
            }
            _ => Ok(()),
        }
    }

    /// Whether it has something that only messages of quorum queues have.
    pub fn is_of_quorum_queue(&self) -> bool {
        let Parts { attempts, parked, delayed, .. } = &self.parts;
        let is_counted = self.ledger.live_set().iter().any(|number| attempts.of(number).acquired > 0);
        is_counted || parked.numbers().next().is_some() || delayed.iter().next().is_some()
    }

    /// The messages of the shared log for which its live messages stand: first and last numbers there.
    pub fn referred(&self) -> impl Iterator<Item = (u64, u64)> {
        self.parts.references.stretches().flat_map(move |place| {
            let runs = self.ledger.live_runs(place.first, place.first + place.count - 1);
            let at = move |number| place.shared + (number - place.first);
            runs.map(move |(first, last)| (at(first), at(last)))
        })
    }

    /// The ones among these messages that are live and stored in the queue's own log.
    pub fn own_among(&self, numbers: &RoaringTreemap) -> RoaringTreemap {
        let elsewhere = self.parts.references.numbers();
        let is_own = |number: &u64| self.ledger.is_live(*number) && !elsewhere.contains(*number);
        numbers.iter().filter(is_own).collect()
    }
}
