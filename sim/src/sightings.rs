//! The messages of a stream at the offsets where readers saw them, with the verdicts of Jepsen's kafka workload that need no more
//! than that. Those on one reader are in [`streams`](crate::streams).

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use crate::failure::{Check, Failure};
use crate::ledger::{Message, MessageId, Stamp};

/// A message that a reader saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The message.
    pub id: MessageId,
    /// The stamp at which a client saw it first; 0 if it was there when the life began.
    pub at: Stamp,
}

/// All that readers saw of a stream.
#[derive(Clone, Debug, Default)]
pub struct Sightings {
    by_offset: BTreeMap<u64, Seen>,
    /// Offsets by publisher and message.
    by_publisher: BTreeMap<(u64, MessageId), u64>,
}

impl Sightings {
    /// Notes that a reader of `stream` saw a message at an offset.
    ///
    /// # Errors
    /// - Another message was at this offset ([`Check::InconsistentOffsets`]).
    /// - The message was at another offset ([`Check::NoDuplicate`]).
    /// - A message that its publisher sent before is behind it, or one that it sent later is before it
    ///   ([`Check::NonmonotonicSend`]).
    pub fn note(&mut self, stream: &str, offset: u64, message: &Message, at: Stamp) -> Result<(), Failure> {
        let (id, publisher) = (message.id, message.publisher);
        let wrong = |check, detail: String| Err(Failure::new(check, format!("stream {stream}: {detail}")));
        let before = self.by_offset.entry(offset).or_insert(Seen { id, at });
        if before.id != id {
            return wrong(
                Check::InconsistentOffsets,
                format!("offset {offset} is message {id}, and was {}", before.id),
            );
        }
        let known = *self.by_publisher.entry((publisher, id)).or_insert(offset);
        if known != offset {
            return wrong(Check::NoDuplicate, format!("message {id} is at {offset}, and at {known}"));
        }
        let earlier = self.by_publisher.range((publisher, 0)..(publisher, id)).next_back();
        let later = self.by_publisher.range((publisher, id + 1)..(publisher + 1, 0)).next();
        let displaced = earlier.filter(|(_, other)| **other > offset).or(later.filter(|(_, other)| **other < offset));
        if let Some(((_, other), place)) = displaced {
            let detail = format!("message {id} is at {offset}, and message {other} of the same publisher at {place}");
            return wrong(Check::NonmonotonicSend, detail);
        }
        Ok(())
    }

    /// The highest offset with a message.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.by_offset.last_key_value().map(|(offset, _)| *offset)
    }

    /// The messages at these offsets, in order.
    pub fn range(&self, offsets: impl RangeBounds<u64>) -> impl DoubleEndedIterator<Item = (u64, Seen)> {
        self.by_offset.range(offsets).map(|(offset, seen)| (*offset, *seen))
    }

    /// Forgets everything: it is another stream.
    pub fn clear(&mut self) {
        self.by_offset.clear();
        self.by_publisher.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;

    /// The first verdict on the sightings of these messages at these offsets. Messages 0, 2 and 4 are of one publisher, 1, 3 and 5
    /// of another one.
    fn judge(sightings: &[(u64, MessageId)]) -> Option<Check> {
        let mut ledger = Ledger::default();
        (0..6).for_each(|id| _ = ledger.publish(id % 2, ("", "s"), (8, true), 0));
        let mut seen = Sightings::default();
        let mut note =
            |(offset, id): &(u64, MessageId)| seen.note("s", *offset, &ledger.messages[*id as usize], 1).err();
        sightings.iter().find_map(&mut note).map(|failure| failure.check)
    }

    #[test]
    fn readers_may_see_the_same_in_any_order() {
        assert_eq!(judge(&[(0, 0), (1, 1), (2, 2), (3, 3)]), None);
        assert_eq!(judge(&[(3, 3), (2, 2), (0, 0), (1, 1), (2, 2), (7, 4)]), None, "two readers, and one from the end");
        assert_eq!(judge(&[(5, 0), (6, 2), (0, 1), (1, 3)]), None, "nothing is said about two publishers");
    }

    #[test]
    fn two_messages_at_one_offset_are_inconsistent() {
        assert_eq!(judge(&[(0, 0), (1, 1), (1, 3)]), Some(Check::InconsistentOffsets));
    }

    #[test]
    fn a_message_at_two_offsets_is_a_duplicate() {
        assert_eq!(judge(&[(0, 0), (1, 1), (4, 0)]), Some(Check::NoDuplicate));
    }

    #[test]
    fn messages_of_a_publisher_out_of_order_are_caught() {
        assert_eq!(judge(&[(0, 2), (1, 0)]), Some(Check::NonmonotonicSend));
        assert_eq!(judge(&[(1, 0), (0, 2)]), Some(Check::NonmonotonicSend));
        assert_eq!(judge(&[(0, 0), (9, 4), (8, 1), (10, 2)]), Some(Check::NonmonotonicSend));
    }
}
