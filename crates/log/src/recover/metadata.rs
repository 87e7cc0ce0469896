//! Metadata records in the WAL: which are found, once or twice, and whether all are.
//!
//! Metadata is handed on as it comes. Behind a place that can't be read it is held back until the whole WAL was read, because
//! the second copy of a damaged record comes later than the records that depend on it.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use super::Damage;
use crate::format::copies::Copies;
use crate::metadata::MetadataStart;
use crate::types::{LogId, Position};

/// A metadata record.
#[derive(Debug)]
struct Found {
    detail: u8,
    /// Empty once nobody needs it any more.
    payload: Bytes,
    /// How often it stands in the WAL.
    stands: u32,
    is_handed_on: bool,
}

/// Positions whose records can't be read. There may be metadata among them.
#[derive(Debug)]
struct Suspect {
    first: Position,
    last: Position,
    /// From here on up to `last` there is no metadata, as a later batch says. `None` until there is one, 0 if that doesn't know.
    mark: Option<Position>,
    /// The wrong bytes, in which files.
    places: Vec<(String, Range<u64>)>,
    /// Number of damages that the report had then. Later ones may be of the second copies.
    damages: usize,
}

/// Metadata records of which no copy can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostMetadata {
    /// The wrong bytes of the first copies.
    pub places: Vec<(String, Range<u64>)>,
    /// Positions of the first and the last record that may be among them.
    pub first: Position,
    pub last: Position,
    damages: usize,
}

impl LostMetadata {
    /// The damage of the first copies, then that of the second ones, which is among the `damaged`.
    pub(super) fn with_second_copies(&self, damaged: &[Damage]) -> Vec<Damage> {
        let LostMetadata { places, first, last, damages } = self;
        let later = damaged.iter().skip(*damages).filter(|damage| damage.logs.may_be(LogId::METADATA));
        let later: Vec<&Damage> =
            later.filter(|damage| !places.contains(&(damage.file.clone(), damage.range.clone()))).collect();
        let copies = match later.is_empty() {
            true => "no second copies of them were found",
            false => "their second copies, which come after them, can't be read either",
        };
        let reason = format!("the metadata among the records {first} to {last} can't be read, and {copies}");
        let firsts = places.iter().map(|(file, range)| Damage::of_metadata(file, range.clone(), reason.clone()));
        let seconds = later.into_iter().map(|damage| {
            let reason = format!("second copies of the records {first} to {last} may be here: {}", damage.reason);
            Damage::of_metadata(&damage.file, damage.range.clone(), reason)
        });
        firsts.chain(seconds).collect()
    }
}

/// The metadata records found so far.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// The checkpoint's state reflects all up to here.
    covered: Position,
    /// By position. The second number tells records apart whose position isn't known exactly, since a row before theirs is
    /// wrong.
    records: BTreeMap<(Position, u32), Found>,
    inexact: u32,
    /// Ranges of which a record of copies has everything: after the first position, up to the second.
    copied: Vec<(Position, Position)>,
    suspects: Vec<Suspect>,
}

impl Trail {
    pub(super) fn new(covered: Position) -> Trail {
        Trail { covered, ..Trail::default() }
    }

    /// Takes a first copy, which the checkpoint's state doesn't reflect. `is_exact` is false if its position isn't known
    /// exactly. Returns whether it can be handed on at once.
    pub(super) fn first_copy(&mut self, position: Position, is_exact: bool, detail: u8, payload: &[u8]) -> bool {
        self.inexact += u32::from(!is_exact);
        let key = (position, if is_exact { 0 } else { self.inexact });
        let is_handed_on = self.suspects.is_empty();
        self.note(key, detail, payload).is_handed_on = is_handed_on;
        is_handed_on
    }

    /// Takes a record of second copies. Returns false if it isn't one of this version.
    pub(super) fn second_copies(&mut self, payload: &[u8]) -> bool {
        let Some(Copies { after, to, copies }) = Copies::decode(payload) else { return false };
        self.copied.push((after, to));
        let covered = self.covered;
        for copy in copies.iter().filter(|copy| copy.position > covered) {
            let found = self.note((copy.position, 0), copy.detail, copy.payload);
            if found.is_handed_on {
                found.payload = Bytes::new();
            }
        }
        true
    }

    fn note(&mut self, key: (Position, u32), detail: u8, payload: &[u8]) -> &mut Found {
        // Copied, since a slice would keep its whole batch in memory.
        let new = || Found { detail, payload: Bytes::copy_from_slice(payload), stands: 0, is_handed_on: false };
        let found = self.records.entry(key).or_insert_with(new);
        found.stands += 1;
        found
    }

    /// Notes that the records at these positions can't be read, because of wrong bytes in these places. The report has so many
    /// damages by now.
    pub(super) fn suspect(
        &mut self,
        first: Position,
        last: Position,
        places: Vec<(String, Range<u64>)>,
        damages: usize,
    ) {
        if first <= last {
            self.suspects.push(Suspect { first, last, mark: None, places, damages });
        }
    }

    /// A batch comes after all suspects: from `mark` on up to it there is no metadata; 0 means that it doesn't know.
    pub(super) fn mark(&mut self, mark: Position) {
        for suspect in self.suspects.iter_mut().filter(|suspect| suspect.mark.is_none()) {
            suspect.mark = Some(mark);
        }
    }

    /// Metadata that can't be read in any copy.
    pub(super) fn lost(&self) -> impl Iterator<Item = LostMetadata> {
        self.suspects.iter().filter_map(|suspect| {
            let first = suspect.first.max(self.covered + 1);
            let last = match suspect.mark {
                Some(mark @ 1..) => suspect.last.min(mark - 1),
                _ => suspect.last,
            };
            let is_whole = first > last || self.is_copied(first, last);
            let (places, damages) = (suspect.places.clone(), suspect.damages);
            (!is_whole).then_some(LostMetadata { places, first, last, damages })
        })
    }

    /// Whether second copies of all metadata records at these positions were found.
    fn is_copied(&self, first: Position, last: Position) -> bool {
        let mut ranges = self.copied.clone();
        ranges.sort_unstable();
        let mut reached = first - 1;
        for (after, to) in ranges {
            if after <= reached {
                reached = reached.max(to);
            }
        }
        reached >= last
    }

    /// Number of records that were taken from their second copy.
    pub(super) fn mended(&self) -> usize {
        self.suspects.iter().map(|suspect| self.records.range((suspect.first, 0)..=(suspect.last, 0)).count()).sum()
    }

    /// All records, each once.
    fn each(&self) -> impl Iterator<Item = (Position, &Found)> {
        // Where second copies have everything, records with inexact positions would come twice.
        let is_copied = self.lost().next().is_none();
        let each = self.records.iter().filter(move |((_, inexact), _)| *inexact == 0 || !is_copied);
        each.map(|((position, _), found)| (*position, found))
    }

    /// The records that weren't handed on yet, in their order: kind and payload.
    pub(super) fn held(&self) -> impl Iterator<Item = (u8, &Bytes)> {
        let held = self.each().filter(|(_, found)| !found.is_handed_on);
        held.map(|(_, found)| (found.detail, &found.payload))
    }

    /// The state from which the log goes on: it copies each record that doesn't stand twice.
    pub(super) fn start(&self, durable: Position) -> MetadataStart {
        let last = self.records.keys().last().map_or(self.covered, |(position, _)| *position);
        let once = self.each().find(|(_, found)| found.stands < 2).map(|(position, _)| position);
        let copied = once.map_or(durable, |position| position - 1);
        let rest = self.each().filter(|(position, _)| *position > copied);
        let rest = rest.map(|(position, found)| (position, found.detail, found.payload.to_vec())).collect();
        MetadataStart { last, copied, rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::copies::Copy;

    fn copies(after: Position, to: Position, positions: &[Position]) -> Vec<u8> {
        let copies = positions.iter().map(|position| Copy { position: *position, detail: 1, payload: b"copy" });
        Copies { after, to, copies: copies.collect() }.encode()
    }

    fn place(range: Range<u64>) -> Vec<(String, Range<u64>)> {
        vec![("wal-1".to_owned(), range)]
    }

    fn payloads(trail: &Trail) -> Vec<&[u8]> {
        trail.held().map(|(_, payload)| &payload[..]).collect()
    }

    #[test]
    fn a_record_that_cannot_be_read_is_taken_from_its_second_copy() {
        let mut trail = Trail::new(0);
        assert!(trail.first_copy(1, true, 1, b"first"));
        trail.suspect(2, 4, place(512..1024), 0);
        assert!(!trail.first_copy(5, true, 1, b"last"), "it may depend on what is missing");
        trail.mark(4);
        assert_eq!(trail.lost().map(|lost| (lost.first, lost.last)).next(), Some((2, 3)));
        assert!(trail.second_copies(&copies(1, 3, &[3])));
        assert_eq!((trail.lost().next(), trail.mended()), (None, 1));
        assert_eq!(payloads(&trail), [&b"copy"[..], b"last"]);
        let start = trail.start(9);
        assert_eq!((start.last, start.copied, start.rest.len()), (5, 0, 3));
    }

    #[test]
    fn a_later_batch_says_that_there_was_no_metadata() {
        for (mark, lost) in [(Some(7), false), (Some(8), true), (Some(0), true), (None, true)] {
            let mut trail = Trail::new(3);
            trail.suspect(7, 9, place(0..512), 0);
            mark.into_iter().for_each(|mark| trail.mark(mark));
            assert_eq!(trail.lost().next().is_some(), lost, "{mark:?}");
        }
        let mut trail = Trail::new(9);
        trail.suspect(7, 9, place(0..512), 0);
        assert_eq!(trail.lost().next(), None, "the checkpoint has it");
    }

    #[test]
    fn copies_have_to_reach_over_all_that_is_suspect() {
        let mut trail = Trail::new(0);
        trail.suspect(3, 8, place(0..512), 0);
        assert!(trail.second_copies(&copies(2, 5, &[4])));
        assert!(trail.second_copies(&copies(6, 9, &[7])));
        assert!(trail.lost().next().is_some(), "6 is in none");
        assert!(trail.second_copies(&copies(5, 6, &[])));
        assert_eq!(trail.lost().next(), None);
    }

    #[test]
    fn records_without_an_exact_position_count_only_without_copies() {
        let mut trail = Trail::new(0);
        trail.suspect(3, 6, place(0..512), 0);
        for payload in [&b"one"[..], b"two"] {
            assert!(!trail.first_copy(6, false, 1, payload));
        }
        assert_eq!(payloads(&trail), [b"one", b"two"]);
        assert!(trail.second_copies(&copies(2, 6, &[3, 5, 6])));
        assert_eq!((trail.lost().next(), payloads(&trail)), (None, vec![&b"copy"[..]; 3]));
    }

    #[test]
    fn records_that_stand_once_are_copied_by_the_start() {
        let mut trail = Trail::new(2);
        for position in [4, 6] {
            assert!(trail.first_copy(position, true, 1, b"x"));
        }
        assert!(trail.second_copies(&copies(2, 4, &[4])));
        let start = trail.start(8);
        assert_eq!((start.last, start.copied), (6, 5));
        assert_eq!(start.rest.iter().map(|(position, ..)| *position).collect::<Vec<_>>(), [6]);
        assert!(trail.second_copies(&copies(4, 7, &[6])));
        let start = trail.start(8);
        assert_eq!((start.last, start.copied, start.rest.len()), (6, 8, 0));
    }
}
