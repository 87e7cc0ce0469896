//! The records of the entry log: entries, votes and marks of placements. An entry has the same bytes on the disk and between nodes.

use bytes::Bytes;

use super::record::Record;
use super::{put, u32_at, u64_at};
use crate::types::LogId;

/// Bytes of an entry before its body.
pub const ENTRY_HEADER_BYTES: usize = 56;
/// Most bytes of an entry, head and body: a command with the longest message, and what stands around it.
pub const ENTRY_BYTES_MAX: usize = (512 << 20) + (1 << 20);
/// Detail of the record of an entry.
pub(crate) const DETAIL_ENTRY: u8 = 1;
/// Detail of the record of a vote.
pub(crate) const DETAIL_VOTE: u8 = 2;
/// Detail of the record of a mark.
pub(crate) const DETAIL_MARK: u8 = 3;

const VERSION: u8 = 1;
/// Flag of a record that is appended again because the oldest file is used again.
const CARRIED: u8 = 0x80;
const VOTE_BYTES: usize = 24;
const MARK_BYTES: usize = 32;
/// Log ids of placements begin here: queues and metadata have lower ones.
const FIRST_LOG: u64 = 1 << 62;

/// Id of a placement: a Raft group of many queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlacementId(pub u32);

impl PlacementId {
    /// Stands for any placement: damage that may have hit one of which nothing is left.
    pub const ANY: PlacementId = PlacementId(u32::MAX);

    /// The log of a placement's records.
    #[must_use]
    pub fn log(self) -> LogId {
        LogId(FIRST_LOG + u64::from(self.0))
    }

    /// The placement whose records this log has.
    #[must_use]
    pub fn of_log(log: LogId) -> Option<PlacementId> {
        log.0.checked_sub(FIRST_LOG).and_then(|id| u32::try_from(id).ok()).map(PlacementId)
    }
}

impl std::fmt::Display for PlacementId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryKind {
    /// The first entry of a leader.
    Blank = 0,
    /// The members of the placement from here on.
    Membership = 1,
    /// Commands.
    Commands = 2,
}

impl EntryKind {
    fn from_code(code: u8) -> Option<EntryKind> {
        Some(match code {
            0 => EntryKind::Blank,
            1 => EntryKind::Membership,
            2 => EntryKind::Commands,
            _ => return None,
        })
    }
}

/// An entry of a placement's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its kind.
    pub kind: EntryKind,
    /// The placement.
    pub placement: PlacementId,
    /// Place in the placement's log; the first entry has 0.
    pub index: u64,
    /// Term of the leader that made it.
    pub term: u64,
    /// The replica that was this leader.
    pub led_by: u64,
    /// The placement's clock in milliseconds since the Unix epoch. It never goes back.
    pub clock: u64,
    /// Index behind the highest entry that the leader knew to be committed.
    pub committed: u64,
    /// Its content.
    pub body: Bytes,
}

impl Entry {
    /// The bytes before the body.
    #[must_use]
    pub fn head(&self) -> [u8; ENTRY_HEADER_BYTES] {
        self.head_with(false)
    }

    pub(crate) fn head_with(&self, is_carried: bool) -> [u8; ENTRY_HEADER_BYTES] {
        let mut bytes = [0; ENTRY_HEADER_BYTES];
        bytes[0] = VERSION;
        bytes[1] = self.kind as u8;
        put(&mut bytes, 4, &self.placement.0.to_le_bytes());
        put(&mut bytes, 8, &self.index.to_le_bytes());
        put(&mut bytes, 16, &self.term.to_le_bytes());
        put(&mut bytes, 24, &self.led_by.to_le_bytes());
        put(&mut bytes, 32, &self.clock.to_le_bytes());
        put(&mut bytes, 40, &self.committed.to_le_bytes());
        let length = u32::try_from(self.body.len()).expect("entries are below 4 GiB");
        put(&mut bytes, 48, &length.to_le_bytes());
        // Without the flag, so that a carried entry has the sum that it came with.
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..52]), &self.body);
        put(&mut bytes, 52, &crc.to_le_bytes());
        if is_carried {
            bytes[1] |= CARRIED;
        }
        bytes
    }

    /// Bytes of head and body.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        ENTRY_HEADER_BYTES + self.body.len()
    }

    /// The entry in these bytes, which it fills, and whether it was carried.
    ///
    /// # Errors
    /// The problem with the bytes.
    pub fn decode(bytes: &Bytes) -> Result<(Entry, bool), &'static str> {
        let (kind, is_carried, length) = check_head(bytes)?;
        if length != bytes.len() - ENTRY_HEADER_BYTES {
            return Err("an entry's length is wrong");
        }
        let mut head = [0; 52];
        head.copy_from_slice(&bytes[..52]);
        head[1] &= !CARRIED;
        if u32_at(bytes, 52) != crc32c::crc32c_append(crc32c::crc32c(&head), &bytes[ENTRY_HEADER_BYTES..]) {
            return Err("an entry's checksum is wrong");
        }
        let entry = Entry {
            kind,
            placement: PlacementId(u32_at(bytes, 4)),
            index: u64_at(bytes, 8),
            term: u64_at(bytes, 16),
            led_by: u64_at(bytes, 24),
            clock: u64_at(bytes, 32),
            committed: u64_at(bytes, 40),
            body: bytes.slice(ENTRY_HEADER_BYTES..),
        };
        // Indexes are counted on from it.
        if entry.index == u64::MAX {
            return Err("an entry's index is the highest number");
        }
        Ok((entry, is_carried))
    }

    /// Bytes of the entry that begins here, by its own length, which isn't checked by a sum.
    #[must_use]
    pub fn claimed_bytes(bytes: &[u8]) -> Option<usize> {
        check_head(bytes).ok().map(|(_, _, length)| ENTRY_HEADER_BYTES + length)
    }
}

fn check_head(bytes: &[u8]) -> Result<(EntryKind, bool, usize), &'static str> {
    if bytes.len() < ENTRY_HEADER_BYTES {
        return Err("an entry is cut off");
    }
    let kind = EntryKind::from_code(bytes[1] & !CARRIED);
    let Some(kind) = kind.filter(|_| bytes[0] == VERSION && bytes[2..4] == [0; 2]) else {
        return Err("an entry isn't one of this version");
    };
    Ok((kind, bytes[1] & CARRIED != 0, u32_at(bytes, 48) as usize))
}

/// The vote of a replica: the highest term that it has seen, and the replica that it follows there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The term.
    pub term: u64,
    /// The replica that has the vote.
    pub replica: u64,
    /// Whether that replica is known to be the leader of the term.
    pub is_leader: bool,
}

impl Vote {
    /// Whether this vote may follow the other one: terms rise, and within a term the replica stays, until it is known which one leads.
    #[must_use]
    pub fn may_follow(&self, earlier: &Vote) -> bool {
        let is_same = self.replica == earlier.replica && self.is_leader == earlier.is_leader;
        // One that stood for election itself, or voted for another, learns who won.
        let is_won = self.is_leader && !earlier.is_leader;
        self.term > earlier.term || self.term == earlier.term && (is_same || is_won)
    }

    pub(crate) fn encode(&self, placement: PlacementId, is_carried: bool) -> [u8; VOTE_BYTES] {
        let mut bytes = [0; VOTE_BYTES];
        bytes[0] = VERSION;
        bytes[1] = u8::from(self.is_leader) | if is_carried { CARRIED } else { 0 };
        put(&mut bytes, 4, &placement.0.to_le_bytes());
        put(&mut bytes, 8, &self.term.to_le_bytes());
        put(&mut bytes, 16, &self.replica.to_le_bytes());
        bytes
    }

    /// The vote in a record, and whether it was carried.
    #[must_use]
    pub fn decode(bytes: &[u8], placement: PlacementId) -> Option<(Vote, bool)> {
        let is_ours = bytes.len() == VOTE_BYTES
            && bytes[0] == VERSION
            && bytes[1] & !(CARRIED | 1) == 0
            && bytes[2..4] == [0; 2]
            && u32_at(bytes, 4) == placement.0;
        let vote = || Vote { term: u64_at(bytes, 8), replica: u64_at(bytes, 16), is_leader: bytes[1] & 1 != 0 };
        is_ours.then(|| (vote(), bytes[1] & CARRIED != 0))
    }
}

/// The bounds of a placement's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Entries below this index are purged.
    pub first: u64,
    /// Term of the last purged entry; 0 if none is purged.
    pub purged_term: u64,
    /// The log ends before this index: entries from here on that stand before the mark are cut.
    pub end: u64,
    /// All records of the placement before the mark are void.
    pub is_gone: bool,
    /// Records of the placement were damaged. Its replica can't vouch for its log any more.
    pub is_damaged: bool,
}

impl Mark {
    pub(crate) fn encode(&self, placement: PlacementId) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[0] = VERSION;
        bytes[1] = u8::from(self.is_gone) | u8::from(self.is_damaged) << 1;
        put(&mut bytes, 4, &placement.0.to_le_bytes());
        put(&mut bytes, 8, &self.first.to_le_bytes());
        put(&mut bytes, 16, &self.purged_term.to_le_bytes());
        put(&mut bytes, 24, &self.end.to_le_bytes());
        bytes
    }

    /// The mark in a record.
    #[must_use]
    pub fn decode(bytes: &[u8], placement: PlacementId) -> Option<Mark> {
        let is_ours = bytes.len() == MARK_BYTES
            && bytes[0] == VERSION
            && bytes[1] & !3 == 0
            && bytes[2..4] == [0; 2]
            && u32_at(bytes, 4) == placement.0;
        let mark = || Mark {
            first: u64_at(bytes, 8),
            purged_term: u64_at(bytes, 16),
            end: u64_at(bytes, 24),
            is_gone: bytes[1] & 1 != 0,
            is_damaged: bytes[1] & 2 != 0,
        };
        is_ours.then(mark).filter(|mark| mark.first <= mark.end)
    }
}

/// A record of the entry log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryRecord {
    /// An entry, and whether it was carried.
    Entry(Entry, bool),
    /// A vote, and whether it was carried.
    Vote(Vote, bool),
    /// A mark.
    Mark(Mark),
}

impl EntryRecord {
    /// The record of a placement, as a file has it.
    ///
    /// # Errors
    /// The problem with the record.
    pub fn of(placement: PlacementId, record: &Record<'_>) -> Result<EntryRecord, &'static str> {
        EntryRecord::decode(placement, record.detail, &Bytes::copy_from_slice(record.payload))
    }

    /// The record with this detail and payload in a placement's log.
    ///
    /// # Errors
    /// The problem with the record.
    pub fn decode(placement: PlacementId, detail: u8, payload: &Bytes) -> Result<EntryRecord, &'static str> {
        match detail {
            DETAIL_ENTRY => match Entry::decode(payload)? {
                (entry, is_carried) if entry.placement == placement => Ok(EntryRecord::Entry(entry, is_carried)),
                _ => Err("an entry is of another placement than its run"),
            },
            DETAIL_VOTE => Vote::decode(payload, placement)
                .map(|(vote, is_carried)| EntryRecord::Vote(vote, is_carried))
                .ok_or("a vote isn't one of this version"),
            DETAIL_MARK => {
                Mark::decode(payload, placement).map(EntryRecord::Mark).ok_or("a mark isn't one of this version")
            }
            _ => Err("a record of the entry log has an unknown detail"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACEMENT: PlacementId = PlacementId(7);

    fn entry() -> Entry {
        Entry {
            kind: EntryKind::Commands,
            placement: PLACEMENT,
            index: 12,
            term: 3,
            led_by: 1 << 33,
            clock: 1_700_000_000_000,
            committed: 11,
            body: Bytes::from_static(b"some commands"),
        }
    }

    fn encoded(entry: &Entry, is_carried: bool) -> Vec<u8> {
        [&entry.head_with(is_carried)[..], &entry.body].concat()
    }

    #[test]
    fn every_flipped_bit_of_an_entry_is_found_but_the_carried_flag() {
        for is_carried in [false, true] {
            let bytes = encoded(&entry(), is_carried);
            assert_eq!(Entry::decode(&bytes.clone().into()), Ok((entry(), is_carried)));
            assert_eq!(Entry::claimed_bytes(&bytes), Some(bytes.len()));
            for bit in (0..bytes.len() * 8).filter(|bit| *bit != 15) {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(Entry::decode(&bytes.into()).is_err(), "bit {bit}");
            }
            for length in 0..bytes.len() {
                assert!(Entry::decode(&Bytes::copy_from_slice(&bytes[..length])).is_err());
            }
        }
    }

    #[test]
    fn a_carried_entry_keeps_its_sum() {
        assert_eq!(entry().head_with(true)[52..], entry().head()[52..]);
    }

    #[test]
    fn a_record_is_found_again_only_under_its_placement() {
        let vote = Vote { term: 9, replica: 4, is_leader: true };
        let mark = Mark { first: 3, purged_term: 2, end: 8, is_gone: false, is_damaged: true };
        let records = [
            (DETAIL_ENTRY, encoded(&entry(), true), EntryRecord::Entry(entry(), true)),
            (DETAIL_VOTE, vote.encode(PLACEMENT, false).to_vec(), EntryRecord::Vote(vote, false)),
            (DETAIL_MARK, mark.encode(PLACEMENT).to_vec(), EntryRecord::Mark(mark)),
        ];
        for (detail, bytes, record) in records {
            assert_eq!(EntryRecord::decode(PLACEMENT, detail, &bytes.clone().into()), Ok(record));
            assert!(EntryRecord::decode(PlacementId(8), detail, &bytes.clone().into()).is_err());
            assert!(EntryRecord::decode(PLACEMENT, 4, &bytes.into()).is_err());
        }
        let backwards = Mark { first: 9, ..mark };
        assert_eq!(Mark::decode(&backwards.encode(PLACEMENT), PLACEMENT), None);
    }

    #[test]
    fn a_vote_never_goes_back() {
        let vote = |term, replica, is_leader| Vote { term, replica, is_leader };
        let earlier = vote(5, 2, false);
        for later in [vote(5, 2, false), vote(5, 2, true), vote(5, 3, true), vote(6, 1, false)] {
            assert!(later.may_follow(&earlier), "{later:?}");
        }
        for other in [vote(5, 3, false), vote(4, 2, true)] {
            assert!(!other.may_follow(&earlier), "{other:?}");
        }
        for other in [vote(5, 2, false), vote(5, 3, true)] {
            assert!(!other.may_follow(&vote(5, 2, true)), "{other:?}");
        }
    }

    #[test]
    fn logs_of_placements_are_no_queue_and_no_metadata() {
        for placement in [PlacementId(0), PLACEMENT, PlacementId::ANY] {
            assert_eq!(PlacementId::of_log(placement.log()), Some(placement));
        }
        for log in [LogId::METADATA, LogId(5), LogId::SHARED] {
            assert_eq!(PlacementId::of_log(log), None);
        }
    }
}
