//! The end of a stream, by deletion or failure, and the state of it that outlives the process.

use roaring::RoaringTreemap;

use crate::answers::{DeleteIf, NotDeleted, QueueState};
use crate::effects::Effects;
use crate::nanos::Nanos;
use crate::replica::{self, Checkpoint};
use crate::stream::StreamQueue;

impl StreamQueue {
    /// Closes the stream if the condition holds: it accepts neither messages nor readers from then on.
    ///
    /// # Errors
    /// [`NotDeleted`], the first condition that doesn't hold; the stream stays as it is.
    pub fn close(&mut self, condition: DeleteIf, _now: Nanos) -> Result<(), NotDeleted> {
        if condition.unused && self.readers.len() > 0 {
            return Err(NotDeleted::InUse);
        }
        if condition.empty && self.ledger.len() + self.pending.length().messages > 0 {
            return Err(NotDeleted::NotEmpty);
        }
        if condition.expired {
            return Err(NotDeleted::Used);
        }
        self.is_closed = true;
        Ok(())
    }

    /// Takes back a close whose deletion never takes effect. A deleted stream stays deleted.
    pub fn reopen(&mut self) {
        self.is_closed = self.state == QueueState::Deleted;
    }

    /// Deletes the stream: readers are notified, memory is freed. Returns the number of messages.
    pub fn delete(&mut self, effects: &mut Effects) -> u64 {
        self.state = QueueState::Deleted;
        self.is_closed = true;
        self.pending.clear();
        self.stop(effects);
        self.ledger.len()
    }

    /// Fails the stream: its readers are cancelled and every later call is refused. Records appended before are still applied.
    pub fn fail(&mut self, reason: String, effects: &mut Effects) {
        if self.state != QueueState::Deleted {
            self.state = QueueState::Failed(reason);
            self.stop(effects);
        }
    }

    fn stop(&mut self, effects: &mut Effects) {
        self.readers.cancel_all(effects);
        self.tail.clear();
    }

    /// Its messages and its index, as applied so far.
    pub fn checkpoint(&self) -> Checkpoint {
        let mut state = Vec::new();
        replica::encode_stream(&self.kept, &mut state);
        Checkpoint {
            next: self.ledger.next(),
            live: self.ledger.live_set(),
            bytes: self.ledger.bytes(),
            elsewhere: RoaringTreemap::new(),
            state,
        }
    }
}
