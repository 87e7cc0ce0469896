//! The whole state of a queue as one record: what a member of a cluster gets that lacks earlier records.
//!
//! Version 1 (1), lowest number of the next message (8), body bytes of live messages (8), length (4) and numbers of these, in the portable
//! form of Roaring bitmaps of 64 bits, and the state of [`Parts`]. All integers are little endian. The messages themselves are
//! records before it.

use roaring::RoaringTreemap;

use super::parts::Parts;
use super::record::ReplicaError;
use super::state::{Checkpoint, Replica};

const VERSION: u8 = 1;
const HEAD: usize = 21;

impl Checkpoint {
    /// The kind of the control record with a whole state. Whatever a replica has is replaced by it.
    pub const WHOLE: u8 = 9;

    /// Whether it is that of a replica with the same records. When messages arrived isn't compared: it is only known to some milliseconds.
    pub fn is_same(&self, other: &Self) -> bool {
        let parts = |whole: &Self| {
            let mut parts = Parts::decode(&whole.state).ok()?;
            parts.expiry.forget_arrivals();
            Some(parts.encode(whole.next))
        };
        (self.next, self.bytes, &self.live) == (other.next, other.bytes, &other.live) && parts(self) == parts(other)
    }

    /// Encodes it. References to messages of the shared log aren't part of it: no replicated queue has any.
    pub fn encode_whole(&self) -> Vec<u8> {
        let Self { next, live, bytes, elsewhere: _, state } = self;
        let mut out = Vec::with_capacity(HEAD + live.serialized_size() + state.len());
        out.push(VERSION);
        out.extend(next.to_le_bytes());
        out.extend(bytes.to_le_bytes());
        out.extend((live.serialized_size() as u32).to_le_bytes());
        live.serialize_into(&mut out).expect("memory takes all bytes");
        out.extend_from_slice(state);
        out
    }

    /// Decodes it; `None` if these bytes aren't one of this version.
    pub fn decode_whole(from: &[u8]) -> Option<Self> {
        let (head, rest) = from.split_at_checked(HEAD)?;
        let number = |at: usize| head[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let length = head[17..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
        let (live, state) = rest.split_at_checked(length as usize)?;
        let (next, bytes) = (number(1)?, number(9)?);
        let live = RoaringTreemap::deserialize_from(live).ok()?;
        let is_whole = head[0] == VERSION && live.max().is_none_or(|last| last < next);
        is_whole.then(|| Self { next, live, bytes, elsewhere: RoaringTreemap::new(), state: state.to_vec() })
    }
}

impl Replica {
    /// Becomes what a record of the kind [`Checkpoint::WHOLE`] says.
    ///
    /// # Errors
    /// [`ReplicaError`] if this version can't read it.
    pub(super) fn become_whole(&mut self, payload: &[u8]) -> Result<(), ReplicaError> {
        let whole = Checkpoint::decode_whole(payload).ok_or(ReplicaError::Whole { length: payload.len() })?;
        *self = Self::restore(&whole)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueRecord;
    use crate::records::Run;
    use crate::replica::Control;

    fn message(body: &[u8]) -> Vec<u8> {
        let message = leveret_message::StoredMessage { body, ..leveret_message::StoredMessage::default() };
        let mut builder = leveret_message::BatchBuilder::default();
        builder.push_message(&message);
        let batch = builder.finish();
        let message = batch.message(0);
        [message.head, message.large.map_or(&[][..], |body| body)].concat()
    }

    #[test]
    fn a_whole_state_makes_the_same_replica_of_another_one() {
        let mut one = Replica::none(1);
        for number in [1, 2, 3, 7] {
            one.apply(QueueRecord::Message { number, payload: &message(b"abc") }).expect("it is a message");
        }
        let parked = Control::Parked(vec![Run { first: 2, last: 2, bytes: 3, durable: true }].into());
        one.apply(QueueRecord::Control { kind: parked.kind(), payload: &parked.encode() }).expect("it is one");
        let departure = crate::Departure::Settled;
        one.apply(QueueRecord::Settled { first: 1, last: 1, bytes: 3, departure }).expect("it is one");
        let whole = one.checkpoint().encode_whole();
        let mut other = Replica::none(1);
        // A message that is gone by then.
        other.apply(QueueRecord::Message { number: 1, payload: &message(b"abc") }).expect("it is a message");
        other.apply(QueueRecord::Control { kind: Checkpoint::WHOLE, payload: &whole }).expect("it is one");
        assert_eq!(other.checkpoint().encode_whole(), whole);
        assert_eq!(other.ledger.live_runs(0, u64::MAX).collect::<Vec<_>>(), [(2, 3), (7, 7)]);
        assert_eq!((other.ledger.next(), other.ledger.bytes()), (8, 9));
        assert!(one.checkpoint().is_same(&other.checkpoint()));
        one.apply(QueueRecord::Settled { first: 3, last: 3, bytes: 3, departure }).expect("it is one");
        assert!(!one.checkpoint().is_same(&other.checkpoint()));
        let is_whole = |length: &usize| Checkpoint::decode_whole(&whole[..*length]).is_some();
        assert_eq!((0..HEAD + 8).filter(is_whole).count(), 0);
        let cut = QueueRecord::Control { kind: Checkpoint::WHOLE, payload: &whole[..9] };
        assert_eq!(other.apply(cut), Err(ReplicaError::Whole { length: 9 }));
    }
}
