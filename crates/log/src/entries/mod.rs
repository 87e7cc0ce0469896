//! The entry log: Raft's entries and votes of all placements of a node, in one ring of files, with one sync for all.
//!
//! It shares everything below records with the store: files, batches, salts, rounds, the replay and its rules for torn batches
//! ([`crate::ring`]). It knows no rule of Raft but these: a vote never goes back, entries follow each other, their terms never fall,
//! an applied entry is never cut, and one that isn't durably applied never purged. A call against them is refused, and nothing is
//! changed.
//!
//! 1. A vote may be answered, and an entry acknowledged, once its position is durable ([`EntryLog::durable`]).
//! 2. An entry cuts what the placement's log has from its index on. One that is there already, with the same term, isn't appended
//!    again. There is no record of a cut alone, unless the files of cut entries are used again.
//! 3. Purged entries are dead. Their owner purges what is durably applied and no follower needs.
//! 4. The ring waits for nobody's commit: records of the oldest file that are still needed are appended again, flagged as carried.
//!    If followers need entries of it that are applied, the ring grows instead.
//!
//! As the rest of the crate it does no I/O: [`EntryLog::next_job`] hands out jobs, [`EntryLog::complete`] takes their results.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::entry_read::EntryRead;
use crate::error::{DiskError, StorageError};
use crate::format::entry::{DETAIL_ENTRY, DETAIL_MARK, DETAIL_VOTE, ENTRY_BYTES_MAX, Entry, Mark, PlacementId, Vote};
use crate::job::{Done, Event, JobId, Lane, Next};
use crate::log::{Log, PlacedBatch};
use crate::statistics::Statistics;
use crate::types::{Nanos, Payload, Position, Wait};

mod carry;
mod check;
mod error;
mod options;
mod placement;
mod recover;

use carry::Carry;
pub use check::{CheckedEntries, verify_entries};
pub use error::EntryError;
pub use options::EntryOptions;
use placement::{Place, PlacementLog};
pub use recover::{EntryReport, recover_entries};

/// A record whose batch isn't written yet.
#[derive(Clone, Copy, Debug)]
struct Unplaced {
    place: Place,
    placement: PlacementId,
    record: RecordOf,
}

/// The part of a placement that a record has.
#[derive(Clone, Copy, Debug)]
enum RecordOf {
    Entry(u64),
    Vote,
    Mark,
}

/// An entry that was asked for.
#[derive(Clone, Debug)]
pub enum FoundEntry {
    /// It is in memory.
    Here(Entry),
    /// It has to be read.
    OnDisk(EntryRead),
}

impl FoundEntry {
    /// Bytes of the entry.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        match self {
            FoundEntry::Here(entry) => entry.encoded_bytes(),
            FoundEntry::OnDisk(read) => read.encoded_bytes(),
        }
    }
}

/// The bounds of a placement's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Index of the first entry that isn't purged.
    pub first: u64,
    /// Term of the last purged entry; 0 if none is purged.
    pub purged_term: u64,
    /// Index behind the last entry.
    pub end: u64,
    /// Term of the last entry, purged or not; 0 if there never was one.
    pub last_term: u64,
}

/// The entry log of a node. Opened by [`recover_entries`].
#[derive(Debug)]
pub struct EntryLog {
    log: Log,
    placements: BTreeMap<PlacementId, PlacementLog>,
    unplaced: VecDeque<Unplaced>,
    carry: Option<Carry>,
    /// Whether the oldest file may have become emptier since it was last looked at.
    is_ring_changed: bool,
    /// The first and the last file in use when the ring was last looked at.
    looked_at: (u64, u64),
    files: usize,
    cached_bytes: usize,
}

impl EntryLog {
    /// Appends entries of a placement, which follow each other. Those that are there already are passed over; those from the first
    /// new one's index on are cut. Returns the position that has to be durable before they are acknowledged.
    ///
    /// # Errors
    /// The entries can't follow those that are there. Nothing was changed.
    pub fn append(&mut self, placement: PlacementId, entries: Vec<Entry>, now: Nanos) -> Result<Position, EntryError> {
        check_lengths(placement, &entries)?;
        let mut position = self.log.appended();
        let log = usable(&mut self.placements, placement)?;
        check_entries(placement, log, &entries)?;
        let is_there = |entry: &Entry| log.get(entry.index).is_some_and(|known| known.term == entry.term);
        let known = entries.iter().take_while(|entry| is_there(entry)).count();
        for entry in entries.into_iter().skip(known) {
            log.cut(entry.index);
            // The entry says it.
            log.has_open_cut = false;
            let payload = Payload { head: &entry.head(), body: Some(&entry.body) };
            let (at, place) = self.log.append_to_ring(placement.log(), DETAIL_ENTRY, &payload, Wait::Confirm, now);
            #[cfg(feature = "planted-bugs")]
            let is_again = planted!(AcknowledgeCut) && entry.index < log.ever_end;
            #[cfg(not(feature = "planted-bugs"))]
            let is_again = false;
            position = if is_again { position } else { at };
            #[cfg(feature = "planted-bugs")]
            {
                log.ever_end = log.ever_end.max(entry.index + 1);
            }
            let record = RecordOf::Entry(entry.index);
            self.unplaced.push_back(Unplaced { place: place.into(), placement, record });
            log.push(entry, place.into());
        }
        Ok(position)
    }

    /// Saves the vote of this node's replica. It may be answered once the returned position is durable.
    ///
    /// # Errors
    /// The vote goes back. Nothing was changed.
    pub fn save_vote(&mut self, placement: PlacementId, vote: Vote, now: Nanos) -> Result<Position, EntryError> {
        let log = usable(&mut self.placements, placement)?;
        if let Some(last) = log.vote.filter(|last| !vote.may_follow(last)) {
            return Err(EntryError::VoteFalls { placement, found: vote, last });
        }
        log.vote = Some(vote);
        Ok(self.append_vote(placement, Wait::Confirm, now))
    }

    /// Cuts the entries from this index on. Nothing is written: the next entry, or the next mark, says it.
    ///
    /// # Errors
    /// An applied entry would be cut. Nothing was changed.
    pub fn cut(&mut self, placement: PlacementId, index: u64) -> Result<(), EntryError> {
        let log = usable(&mut self.placements, placement)?;
        if index < log.applied {
            return Err(EntryError::CutsApplied { placement, index, applied: log.applied });
        }
        log.cut(index);
        self.is_ring_changed = true;
        Ok(())
    }

    /// Notes that the store has durably applied the entries below this index. They may be beyond the log's end if a follower was
    /// brought up to date without them.
    ///
    /// # Errors
    /// The index falls. Nothing was changed.
    pub fn applied(&mut self, placement: PlacementId, index: u64) -> Result<(), EntryError> {
        let log = usable(&mut self.placements, placement)?;
        if index < log.applied {
            return Err(EntryError::AppliedFalls { placement, applied: log.applied, found: index });
        }
        log.applied = index;
        self.is_ring_changed = true;
        Ok(())
    }

    /// Purges the entries below this index; the last of them has this term. Those behind the log's end are purged as well: then the
    /// next entry has this index.
    ///
    /// The log may have an older entry in the place of the last one: the store was synced before the newer one was, which others had made
    /// durable. Then everything behind it is of the same older leader or of those before, and is cut.
    ///
    /// # Errors
    /// An entry isn't durably applied, or a newer one is in the place of the last. Nothing was changed.
    pub fn purge(&mut self, placement: PlacementId, index: u64, term: u64, now: Nanos) -> Result<(), EntryError> {
        let log = usable(&mut self.placements, placement)?;
        if index < log.first || (index, term) == (log.first, log.purged_term) {
            return Ok(());
        }
        if index > log.applied && !planted!(PurgeUnapplied) {
            return Err(EntryError::PurgesUnapplied { placement, index, applied: log.applied });
        }
        let known = if index == log.first { Some(log.purged_term) } else { log.get(index - 1).map(|last| last.term) };
        if let Some(known) = known.filter(|known| *known != term) {
            if known > term || index == log.first {
                return Err(EntryError::PurgesOther { placement, index, found: term, known });
            }
            log.cut(index);
        }
        log.purge(index, term);
        self.append_mark(placement, now);
        self.is_ring_changed = true;
        Ok(())
    }

    /// Forgets a placement: its replica was removed from this node, or has given up its id. Returns the position from which on it
    /// can come back under another id.
    ///
    /// If any placement may have lost its records, one that isn't known is refused until it is forgotten: from then on it is known to be
    /// new. Forgetting [`PlacementId::ANY`] says it of all.
    pub fn forget(&mut self, placement: PlacementId, now: Nanos) -> Position {
        self.placements.remove(&placement);
        self.is_ring_changed = true;
        let mark = Mark { is_gone: true, ..Mark::default() };
        let gone = self.append_record(placement, DETAIL_MARK, &mark.encode(placement), Wait::Confirm, now).0;
        if placement == PlacementId::ANY || !self.placements.contains_key(&PlacementId::ANY) {
            return gone;
        }
        self.placements.insert(placement, PlacementLog::default());
        self.append_mark(placement, now);
        self.log.hurry(self.log.appended());
        self.log.appended()
    }

    fn append_vote(&mut self, placement: PlacementId, wait: Wait, now: Nanos) -> Position {
        let Some(vote) = self.placements[&placement].vote else { return self.log.appended() };
        let bytes = vote.encode(placement, wait == Wait::Lazy);
        let (position, place) = self.append_record(placement, DETAIL_VOTE, &bytes, wait, now);
        self.unplaced.push_back(Unplaced { place, placement, record: RecordOf::Vote });
        if let Some(log) = self.placements.get_mut(&placement) {
            log.vote_place = place;
        }
        position
    }

    fn append_mark(&mut self, placement: PlacementId, now: Nanos) {
        let Some(log) = self.placements.get_mut(&placement) else { return };
        log.has_open_cut = false;
        // Damage has to be known for good before anything else is done with the placement.
        let wait = if log.damaged.is_some() { Wait::Confirm } else { Wait::Lazy };
        let bytes = log.mark().encode(placement);
        let (_, place) = self.append_record(placement, DETAIL_MARK, &bytes, wait, now);
        self.unplaced.push_back(Unplaced { place, placement, record: RecordOf::Mark });
        if let Some(log) = self.placements.get_mut(&placement) {
            log.mark_place = place;
        }
    }

    fn append_record(
        &mut self,
        placement: PlacementId,
        detail: u8,
        bytes: &[u8],
        wait: Wait,
        now: Nanos,
    ) -> (Position, Place) {
        let payload = Payload { head: bytes, body: None };
        let (position, place) = self.log.append_to_ring(placement.log(), detail, &payload, wait, now);
        (position, place.into())
    }

    /// The placements that have records, or whose records were damaged.
    pub fn placements(&self) -> impl Iterator<Item = PlacementId> {
        self.placements.keys().copied()
    }

    /// The damage that keeps a placement from being used, if there is some. A placement of which nothing is left may have lost everything
    /// to damage of [`PlacementId::ANY`].
    #[must_use]
    pub fn damage(&self, placement: PlacementId) -> Option<&str> {
        let known = self.placements.get(&placement).or_else(|| self.placements.get(&PlacementId::ANY));
        known?.damaged.as_deref()
    }

    /// Index behind the last entry that is said to be durably applied.
    #[must_use]
    pub fn durably_applied(&self, placement: PlacementId) -> u64 {
        self.placements.get(&placement).map_or(0, |log| log.applied)
    }

    /// The highest clock of an entry that the placement ever had, as far as the files know. Entries that were purged are known to the
    /// store.
    #[must_use]
    pub fn clock(&self, placement: PlacementId) -> u64 {
        self.placements.get(&placement).map_or(0, |log| log.clock)
    }

    /// The vote of this node's replica.
    #[must_use]
    pub fn vote(&self, placement: PlacementId) -> Option<Vote> {
        self.placements.get(&placement)?.vote
    }

    /// The bounds of a placement's log.
    #[must_use]
    pub fn bounds(&self, placement: PlacementId) -> Bounds {
        let Some(log) = self.placements.get(&placement) else { return Bounds::default() };
        let (first, purged_term, end) = (log.first, log.purged_term, log.end());
        Bounds { first, purged_term, end, last_term: log.term_before(end) }
    }

    /// The term of an entry, if it is there.
    #[must_use]
    pub fn term(&self, placement: PlacementId, index: u64) -> Option<u64> {
        self.placements.get(&placement)?.get(index).map(|entry| entry.term)
    }

    /// The entries of a range of indexes.
    ///
    /// # Errors
    /// One isn't there.
    pub fn read(&self, placement: PlacementId, indexes: Range<u64>) -> Result<Vec<FoundEntry>, EntryError> {
        self.read_up_to(placement, indexes, usize::MAX)
    }

    /// The entries of a range of indexes, or its first ones if they have more than so many bytes. The first is there in any case.
    ///
    /// # Errors
    /// One of them isn't there.
    pub fn read_up_to(
        &self,
        placement: PlacementId,
        indexes: Range<u64>,
        bytes_max: usize,
    ) -> Result<Vec<FoundEntry>, EntryError> {
        let empty = PlacementLog::default();
        if let Some(reason) = self.damage(placement) {
            return Err(EntryError::Damaged { placement, reason: reason.to_owned() });
        }
        let log = self.placements.get(&placement).unwrap_or(&empty);
        let (first, end) = (log.first, log.end());
        let (from, to) = (indexes.start, indexes.end);
        let not_there = EntryError::NotThere { placement, from, to, first, end };
        let (mut found, mut bytes) = (Vec::with_capacity(log.entries.len().min((to.saturating_sub(from)) as usize)), 0);
        for index in indexes {
            let entry = self.find(placement, log, index).ok_or_else(|| not_there.clone())?;
            bytes += entry.encoded_bytes();
            if bytes > bytes_max && !found.is_empty() {
                break;
            }
            found.push(entry);
        }
        Ok(found)
    }

    fn find(&self, placement: PlacementId, log: &PlacementLog, index: u64) -> Option<FoundEntry> {
        let stored = log.get(index)?;
        match (&stored.cached, stored.place) {
            (Some(entry), _) => Some(FoundEntry::Here(entry.clone())),
            (None, Place::File(sequence, at)) => {
                let wal = &self.log.wal;
                let file = wal.full.iter().chain([&wal.current]).find(|file| file.sequence == sequence)?;
                Some(FoundEntry::OnDisk(EntryRead {
                    file: file.name.clone(),
                    _pin: file.pin.clone(),
                    at,
                    length: stored.length,
                    placement,
                    index,
                    term: stored.term,
                }))
            }
            (None, _) => unreachable!("entry {index} of placement {placement} is in memory until it is written"),
        }
    }

    /// Position of the last record.
    #[must_use]
    pub fn appended(&self) -> Position {
        self.log.appended()
    }

    /// Position up to which all records are durable.
    #[must_use]
    pub fn durable(&self) -> Position {
        if planted!(AcknowledgeEarly) {
            return self.log.appended();
        }
        self.log.durable()
    }

    /// Whether entries may be appended. If not, nothing is proposed, and no follower's link is read, until [`Event::Room`]. Votes
    /// have room all the same.
    #[must_use]
    pub fn room(&self) -> bool {
        self.log.room()
    }

    /// Whether the disk is full. Entries that only followers need should be purged then.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        self.log.is_out_of_space()
    }

    /// The counters of the log that the records are in.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        self.log.statistics()
    }

    /// Number of files with records that may still be needed.
    #[must_use]
    pub fn files_in_use(&self) -> usize {
        self.log.wal.unretired()
    }

    /// Bytes of these files.
    #[must_use]
    pub fn bytes_in_use(&self) -> u64 {
        self.files_in_use() as u64 * self.log.options.file_bytes
    }

    /// Gives a lane its next job, if there is one.
    pub fn next_job(&mut self, lane: Lane, now: Nanos) -> Next {
        if lane == Lane::Background
            && let Some(next) = self.next_carry_job(now)
        {
            return next;
        }
        let wal = &mut self.log.wal;
        // Files that the ring grew by are removed again.
        wal.kept_max = self.files.saturating_sub(wal.unretired() + usize::from(wal.spare.is_some()));
        self.log.next_job(lane, now)
    }

    /// Whether the commit lane has to be woken.
    #[must_use]
    pub fn commit_waiting(&self) -> bool {
        self.log.commit_waiting()
    }

    /// Whether the background lane has to be woken.
    #[must_use]
    pub fn background_waiting(&self) -> bool {
        self.log.background_waiting() || self.is_carry_due()
    }

    /// Takes the result of a job. Ask both lanes for their next job afterwards.
    ///
    /// # Errors
    /// The log can't continue: the process ends with this text.
    ///
    /// # Panics
    /// If the job wasn't handed out.
    pub fn complete(
        &mut self,
        id: JobId,
        result: Result<Done, DiskError>,
        now: Nanos,
    ) -> Result<Vec<Event>, StorageError> {
        let (result, carried) = match result {
            Ok(Done::Carried(entries)) => (Ok(Done::Carried(Vec::new())), entries),
            other => (other, Vec::new()),
        };
        let mut events = self.log.complete(id, result, now)?;
        for batch in std::mem::take(&mut self.log.placed) {
            self.place(&batch);
        }
        self.take_carried(carried, now, &mut events);
        self.end_carry();
        if !self.log.had_room && self.log.room() {
            self.log.had_room = true;
            events.push(Event::Room);
        }
        Ok(events)
    }

    /// Stops cleanly: appends the closing record. Run the commit lane until it is idle, and append nothing afterwards.
    pub fn close(&mut self, now: Nanos) {
        self.log.close(now);
    }

    /// Notes where the records of a batch are.
    fn place(&mut self, batch: &PlacedBatch) {
        while let Some(Unplaced { place, placement, record }) = self.unplaced.front().copied()
            && let Place::Batch(sequence, at) = place
            && sequence <= batch.sequence
        {
            self.unplaced.pop_front();
            let Some(log) = self.placements.get_mut(&placement) else { continue };
            let known = match record {
                RecordOf::Vote => Some(&mut log.vote_place),
                RecordOf::Mark => Some(&mut log.mark_place),
                RecordOf::Entry(index) => log.get_mut(index).map(|entry| &mut entry.place),
            };
            // A later record may have taken its place.
            if let Some(known) = known.filter(|known| **known == place) {
                *known = Place::File(batch.file, batch.records_at + at);
            }
            if matches!(record, RecordOf::Entry(_)) {
                log.trim(self.cached_bytes);
            }
        }
    }
}

/// The log of a placement, which begins if it isn't there.
fn usable(
    placements: &mut BTreeMap<PlacementId, PlacementLog>,
    placement: PlacementId,
) -> Result<&mut PlacementLog, EntryError> {
    if placement == PlacementId::ANY {
        return Err(EntryError::NoPlacement);
    }
    // One that lost everything looks like a new one, and would vote again where it has voted.
    let known = placements.get(&placement).or_else(|| placements.get(&PlacementId::ANY));
    match known.and_then(|log| log.damaged.as_ref()) {
        Some(reason) => Err(EntryError::Damaged { placement, reason: reason.clone() }),
        None => Ok(placements.entry(placement).or_default()),
    }
}

fn check_lengths(placement: PlacementId, entries: &[Entry]) -> Result<(), EntryError> {
    let long = entries.iter().find(|entry| entry.encoded_bytes() > ENTRY_BYTES_MAX);
    match long {
        Some(entry) => {
            let (index, bytes) = (entry.index, entry.encoded_bytes());
            Err(EntryError::TooLong { placement, index, bytes, max: ENTRY_BYTES_MAX })
        }
        None => Ok(()),
    }
}

fn check_entries(placement: PlacementId, log: &PlacementLog, entries: &[Entry]) -> Result<(), EntryError> {
    let Some(begin) = entries.first().map(|entry| entry.index) else { return Ok(()) };
    let (first, end) = (log.first, log.end());
    if begin < first || begin > end {
        return Err(EntryError::Gap { placement, first, end, found: begin });
    }
    let new = entries.iter().find(|entry| log.get(entry.index).is_none_or(|known| known.term != entry.term));
    if let Some(entry) = new.filter(|entry| entry.index < log.applied) {
        return Err(EntryError::CutsApplied { placement, index: entry.index, applied: log.applied });
    }
    let mut last = log.term_before(begin);
    for (due, entry) in (begin..).zip(entries) {
        if entry.index != due || entry.placement != placement {
            return Err(EntryError::Gap { placement, first, end: due, found: entry.index });
        }
        if entry.term < last {
            return Err(EntryError::TermFalls { placement, index: due, found: entry.term, last });
        }
        last = entry.term;
    }
    Ok(())
}
