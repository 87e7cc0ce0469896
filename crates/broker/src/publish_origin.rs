//! Where a publish to a replicated queue comes from, so that one that is sent again is carried out once.
//!
//! Each core of each node is a *writer* of each placement, and numbers its publishes. The number of a publish is in the entry of its messages;
//! so every member knows the last number of each writer, and the next leader doesn't carry out again what was committed. A writer begins a
//! new *epoch* whenever it sends its open publishes again: a leader that couldn't take one takes none of that epoch behind it, so that
//! none is left out.

use std::cell::Cell;
use std::collections::BTreeMap;

/// The messages of a publish that were accepted: all of them.
pub(crate) const ALL: u32 = u32::MAX;
/// Most publishes of a writer that were accepted in part and that it hasn't heard of.
const IN_PART_MAX: usize = 1024;

/// A publish of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishOrigin {
    /// The writer: bits 48 to 63 are its member, 32 to 47 its core, the others a random number of its process.
    pub writer: u64,
    /// The number of the publish.
    pub number: u64,
    /// Grows when the writer sends its open publishes again.
    pub epoch: u32,
    /// Whether it is the first one of its epoch, which is the oldest that is open.
    pub is_first: bool,
    /// The writer has heard of all publishes below this number.
    pub heard: u64,
}

/// The publishes of a writer that were committed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriterMark {
    /// The number of the last one.
    pub last: u64,
    /// The ones that were accepted in part, with the number of messages that were accepted.
    pub in_part: BTreeMap<u64, u32>,
}

impl WriterMark {
    /// Notes a publish, and what the writer has heard of.
    pub(crate) fn note(&mut self, number: u64, accepted: u32, heard: u64) {
        self.last = self.last.max(number);
        match accepted {
            ALL => {}
            _ => _ = self.in_part.insert(number, accepted),
        }
        self.in_part = self.in_part.split_off(&heard);
        while self.in_part.len() > IN_PART_MAX {
            self.in_part.pop_first();
        }
    }
}

/// Notes a publish in a table of all writers. Those of earlier processes of the same member send nothing any more.
pub(crate) fn note(table: &mut BTreeMap<u64, WriterMark>, writer: u64, (number, accepted, heard): (u64, u32, u64)) {
    if !table.contains_key(&writer) {
        let core = writer >> 32;
        table.retain(|other, _| other >> 32 != core);
    }
    table.entry(writer).or_default().note(number, accepted, heard);
}

thread_local! {
    static CURRENT: Cell<Option<(PublishOrigin, u32)>> = const { Cell::new(None) };
}

/// Makes a call that publishes so many messages of this origin.
pub(crate) fn publishing<R>(origin: PublishOrigin, count: u32, call: impl FnOnce() -> R) -> R {
    CURRENT.set(Some((origin, count)));
    let result = call();
    CURRENT.set(None);
    result
}

/// The messages that are published now may be fewer than were offered, since the queue knows the others already.
pub(crate) fn leaves_out_known() {
    CURRENT.set(CURRENT.get().map(|(origin, _)| (origin, 0)));
}

/// The origin of the messages that are appended now, and the number of them that are accepted if `count` are appended.
pub(crate) fn current(count: u32) -> Option<(PublishOrigin, u32)> {
    let (origin, offered) = CURRENT.get()?;
    Some((origin, if count < offered { count } else { ALL }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: u64 = 1 << 48 | 7;

    #[test]
    fn publishes_that_a_writer_has_heard_of_are_forgotten() {
        let mut table = BTreeMap::new();
        note(&mut table, WRITER, (1, ALL, 1));
        note(&mut table, WRITER, (2, 0, 1));
        note(&mut table, WRITER, (3, 5, 1));
        assert_eq!(table[&WRITER], WriterMark { last: 3, in_part: [(2, 0), (3, 5)].into() });
        note(&mut table, WRITER, (4, ALL, 3));
        assert_eq!(table[&WRITER], WriterMark { last: 4, in_part: [(3, 5)].into() });
    }

    #[test]
    fn a_later_process_takes_the_place_of_an_earlier_one() {
        let mut table = BTreeMap::new();
        let (other_core, later) = (WRITER | 1 << 32, WRITER + 1);
        [WRITER, other_core, later].into_iter().for_each(|writer| note(&mut table, writer, (1, ALL, 1)));
        assert_eq!(table.keys().copied().collect::<Vec<_>>(), [later, other_core]);
    }

    #[test]
    fn messages_that_a_limit_refuses_are_told_apart_from_known_ones() {
        let origin = PublishOrigin { writer: WRITER, number: 1, epoch: 1, is_first: true, heard: 1 };
        publishing(origin, 3, || {
            assert_eq!((current(3), current(2)), (Some((origin, ALL)), Some((origin, 2))));
            leaves_out_known();
            assert_eq!(current(2), Some((origin, ALL)));
        });
        assert_eq!(current(3), None);
    }
}
