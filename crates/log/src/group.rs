//! Groups: records of several logs that take effect together or not at all, closed by a commit record.
//!
//! The records of a group are appended log by log, each under its own owner's lock, so other records and ends of
//! batches come between them. Recovery ignores them without the commit record; until that is durable, owners must not
//! count the group's messages as theirs.

use std::collections::VecDeque;

use crate::format::record::{Head, RecordKind};
use crate::log::Log;
use crate::types::{LogId, Nanos, NewChunk, Payload, Position, SettleRange, SettleReason, Wait};

/// Most groups open at the same time. The caller has to stay far below: one group on each core that stays open over several
/// turns, and one in each thread.
pub const GROUPS_OPEN_MAX: usize = 1024;

/// An open group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupId {
    slot: u16,
    /// Tells apart groups that use the same slot one after the other.
    serial: u64,
}

impl GroupId {
    /// The id of a group of a stream that is no log, and that tells its groups apart by such numbers.
    #[must_use]
    pub const fn of_stream(number: u64) -> GroupId {
        GroupId { slot: u16::MAX, serial: number }
    }
}

#[derive(Clone, Copy, Debug)]
struct Open {
    serial: u64,
    /// Position of its first record, and the log of that record.
    first: Option<(Position, LogId)>,
}

/// The open groups by slot, and those whose commit record isn't durable yet.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    slots: Vec<Option<Open>>,
    last_serial: u64,
    /// Positions of the first record and the commit record of closed groups, in the order of the latter.
    closed: VecDeque<(Position, Position)>,
}

impl Groups {
    fn begin(&mut self) -> GroupId {
        let free = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        assert!(free < GROUPS_OPEN_MAX, "{GROUPS_OPEN_MAX} groups are open");
        if free == self.slots.len() {
            self.slots.push(None);
        }
        self.last_serial += 1;
        self.slots[free] = Some(Open { serial: self.last_serial, first: None });
        GroupId { slot: free as u16, serial: self.last_serial }
    }

    pub(crate) fn is_open(&self, id: GroupId) -> bool {
        self.slots[id.slot as usize].is_some_and(|open| open.serial == id.serial)
    }

    /// All open groups.
    pub(crate) fn open(&self) -> impl Iterator<Item = GroupId> {
        (0..).zip(&self.slots).filter_map(|(slot, open)| Some(GroupId { slot, serial: open.as_ref()?.serial }))
    }

    /// The last position up to `durable` before which no record belongs to a group that isn't durable as a whole.
    fn whole_up_to(&mut self, durable: Position) -> Position {
        while self.closed.pop_front_if(|(_, commit)| *commit <= durable).is_some() {}
        let open = self.slots.iter().flatten().filter_map(|open| open.first).map(|(first, _)| first);
        let first = open.chain(self.closed.iter().map(|(first, _)| *first)).min();
        first.map_or(durable, |first| durable.min(first - 1))
    }

    fn find(&mut self, id: GroupId) -> &mut Open {
        let open = self.slots[id.slot as usize].as_mut().filter(|open| open.serial == id.serial);
        open.expect("the group is open")
    }
}

impl Log {
    /// Begins a group. Commit it soon: no WAL file that it touched is retired while it is open, and
    /// [`Log::durable_as_a_whole`] doesn't advance beyond it.
    ///
    /// # Panics
    /// If [`GROUPS_OPEN_MAX`] are open.
    pub fn begin_group(&mut self) -> GroupId {
        self.groups.begin()
    }

    /// As [`Log::append_messages`], within a group. The position returned says nothing about the group: its owner
    /// must not count these messages as its own before the commit record is durable.
    ///
    /// # Panics
    /// As [`Log::append_messages`], and if the group isn't open.
    pub fn append_messages_in<'a>(
        &mut self,
        group: GroupId,
        log: LogId,
        first: u64,
        payloads: impl Iterator<Item = Payload<'a>>,
        now: Nanos,
    ) -> Position {
        self.note_first(group, log, now);
        let count = self.put_messages(log, first, Some(group.slot), payloads);
        self.appended_records(count, Wait::Lazy, now)
    }

    /// As [`Log::append_chunk`], within a group. The position returned says nothing about the group: its owner must not
    /// count these messages as its own before the commit record is durable.
    ///
    /// # Panics
    /// As [`Log::append_chunk`], and if the group isn't open.
    pub fn append_chunk_in(&mut self, group: GroupId, chunk: &NewChunk<'_>, now: Nanos) -> Position {
        self.note_first(group, chunk.log, now);
        self.put_chunk(chunk, Some(group.slot));
        self.appended_records(1, Wait::Lazy, now)
    }

    /// As [`Log::append_settle`], within a group. The owner may count the messages as gone at once.
    ///
    /// # Panics
    /// As [`Log::append_messages_in`].
    pub fn append_settle_in(
        &mut self,
        group: GroupId,
        log: LogId,
        reason: SettleReason,
        ranges: &[SettleRange],
        now: Nanos,
    ) -> Position {
        self.note_first(group, log, now);
        let head = Head { kind: RecordKind::Settle, detail: reason as u8, group: Some(group.slot) };
        self.append_settle_with(log, head, ranges, Wait::Lazy, now)
    }

    /// Notes that a record of the group is about to be appended.
    fn note_first(&mut self, group: GroupId, log: LogId, now: Nanos) {
        let next = self.appended() + 1;
        let is_first = self.groups.find(group).first.is_none();
        self.groups.find(group).first.get_or_insert((next, log));
        if planted!(CommitGroupFirst) && is_first {
            let head = Head { kind: RecordKind::GroupCommit, detail: 0, group: Some(group.slot) };
            self.append_record(log, head, &next.to_le_bytes(), Wait::Lazy, now);
        }
    }

    /// Closes a group. It takes effect once the returned position is durable; `None` if the group is empty.
    ///
    /// The commit record belongs to the log of the first record, because a retirement has to ask for that log's state
    /// anyway.
    ///
    /// # Panics
    /// As [`Log::append_messages_in`].
    pub fn commit_group(&mut self, group: GroupId, wait: Wait, now: Nanos) -> Option<Position> {
        let first = self.groups.find(group).first;
        self.groups.slots[group.slot as usize] = None;
        let (position, log) = first?;
        if planted!(CommitGroupFirst) {
            return Some(self.appended());
        }
        let head = Head { kind: RecordKind::GroupCommit, detail: 0, group: Some(group.slot) };
        let commit = self.append_record(log, head, &position.to_le_bytes(), wait, now);
        self.groups.closed.push_back((position, commit));
        Some(commit)
    }

    /// Position up to which all records are durable, and all groups that began before it as a whole. Only up to there may
    /// clients be told that records are durable: their messages may be behind those of a group, which owners don't count as
    /// their own yet.
    pub fn durable_as_a_whole(&mut self) -> Position {
        self.groups.whole_up_to(self.durable)
    }
}
