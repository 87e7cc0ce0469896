//! The engine's entries as those of the entry log, and back.

use bytes::Bytes;
use leveret_log::{Entry, EntryKind, PlacementId};
use openraft::LogId as RaftLogId;

use crate::members;
use crate::types::{Commands, LogEntry, LogId, NUMBER_MAX, Payload};

pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    RaftLogId::new_term_index(term, index)
}

impl LogEntry {
    pub(crate) fn into_entry(self, placement: PlacementId) -> Entry {
        let (kind, body) = match self.payload {
            Payload::Blank => (EntryKind::Blank, Bytes::new()),
            Payload::Commands(Commands(bytes)) => (EntryKind::Commands, bytes),
            Payload::Members(members) => (EntryKind::Membership, members::encode(&members)),
        };
        let (index, term) = (self.id.index, self.id.leader_id.term);
        let LogEntry { led_by, clock, committed, .. } = self;
        Entry { kind, placement, index, term, led_by, clock, committed, body }
    }

    /// # Errors
    /// The entry isn't one of this version.
    pub(crate) fn of(entry: Entry) -> Result<LogEntry, String> {
        let Entry { kind, index, term, led_by, clock, committed, body, .. } = entry;
        if index.max(term) > NUMBER_MAX {
            return Err(format!("entry {index} of term {term} has a number that no entry reaches"));
        }
        let payload = match kind {
            // Dropping the body would make another entry of it.
            EntryKind::Blank if !body.is_empty() => return Err(format!("entry {index} is blank, and has a body")),
            EntryKind::Blank => Payload::Blank,
            EntryKind::Commands => Payload::Commands(Commands(body)),
            EntryKind::Membership => match members::decode(&body) {
                Some(members) => Payload::Members(members),
                None => return Err(format!("the members in entry {index} aren't written as by this version")),
            },
        };
        Ok(LogEntry { id: log_id(term, index), payload, led_by, clock, committed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_entry_with_a_body_is_refused() {
        let (kind, placement, body) = (EntryKind::Blank, PlacementId(1), Bytes::new());
        let entry = Entry { kind, placement, index: 4, term: 2, led_by: 1, clock: 5, committed: 3, body };
        assert_eq!(LogEntry::of(entry.clone()).unwrap().into_entry(placement), entry);
        let with_body = Entry { body: Bytes::from_static(b"x"), ..entry };
        assert!(LogEntry::of(with_body).unwrap_err().contains("has a body"));
    }
}
