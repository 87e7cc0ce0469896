//! Emptying the oldest file: what is still needed of it is appended again, so that it can be used again.

use std::sync::Arc;

use super::placement::{Place, PlacementLog};
use super::{EntryLog, FoundEntry, RecordOf, Unplaced};
use crate::background::Doing;
use crate::entry_read::EntryRead;
use crate::error::ReadError;
use crate::format::entry::{DETAIL_ENTRY, Entry, PlacementId};
use crate::job::{Event, Job, Next};
use crate::types::{Nanos, Payload, Position, Wait};

/// Bytes of entries that one job reads.
const READ_BYTES: usize = 1 << 20;

/// The oldest file on its way to be used again.
#[derive(Debug)]
pub(super) struct Carry {
    /// Sequence of the file.
    file: u64,
    /// The entries that a job reads, in its order.
    reads: Vec<EntryRead>,
    /// Once all of it was appended again: what has to be durable before the file is used. Everything that made its records
    /// superfluous comes before that.
    gate: Option<Position>,
}

/// The records of a file that are still needed.
#[derive(Debug, Default)]
struct Needed {
    votes: Vec<PlacementId>,
    marks: Vec<PlacementId>,
    entries: Vec<(PlacementId, u64)>,
    bytes: u64,
    /// An entry is durably applied, so that only followers need it.
    is_for_followers: bool,
}

impl EntryLog {
    /// Whether the oldest file has to be emptied, or its emptying goes on.
    pub(super) fn is_carry_due(&self) -> bool {
        match &self.carry {
            Some(carry) => carry.gate.is_none(),
            // The files in use are as many as they may be, apart from the next one.
            None => {
                self.log.wal.unretired() >= self.files - 1 && (self.is_ring_changed || self.looked_at != self.span())
            }
        }
    }

    /// The first and the last file in use.
    fn span(&self) -> (u64, u64) {
        (self.log.wal.floor(0), self.log.wal.current.sequence)
    }

    /// Begins to empty the oldest file, or goes on. `None` if there is nothing to do before the log's own jobs.
    pub(super) fn next_carry_job(&mut self, now: Nanos) -> Option<Next> {
        if self.log.background.is_some() || self.log.closing || !self.is_carry_due() {
            return None;
        }
        if self.carry.is_none() && !self.begin_carry() {
            return None;
        }
        let file = self.carry.as_ref()?.file;
        let needed = self.needed(file);
        let reads = self.append_again(&needed, now);
        if reads.is_empty() {
            self.mark_cuts(now);
            let gate = self.log.appended();
            if let Some(carry) = &mut self.carry {
                carry.gate = Some(if planted!(ReuseBeforeDurable) { 0 } else { gate });
            }
            // Records before the gate may need the next file, even if nothing was carried.
            self.log.is_carrying = true;
            self.log.hurry(gate);
            if !self.is_carry_over() {
                return None;
            }
            // Nothing else would end it. An empty job does.
        }
        if let Some(carry) = &mut self.carry {
            carry.reads.clone_from(&reads);
        }
        Some(self.log.run_background(Doing::Carry, Job::Carry(reads)))
    }

    /// Looks whether the oldest file can be emptied. If followers need it, or if too much of it is needed, the ring grows by a file.
    fn begin_carry(&mut self) -> bool {
        self.is_ring_changed = false;
        let Some(oldest) = self.log.wal.full.front() else { return false };
        let (file, length) = (oldest.sequence, oldest.length);
        self.looked_at = (file, self.log.wal.current.sequence);
        let needed = self.needed(file);
        if needed.is_for_followers || needed.bytes > length / 2 {
            self.log.options.unretired_max = self.log.wal.unretired() + 1;
            return false;
        }
        self.carry = Some(Carry { file, reads: Vec::new(), gate: None });
        true
    }

    /// Says that entries were cut, where no record does. Those that the file has would come back without those before them.
    fn mark_cuts(&mut self, now: Nanos) {
        let is_open = |log: &PlacementLog| log.has_open_cut && !planted!(ForgetCut);
        let cut = self.placements.iter().filter(|(_, log)| is_open(log)).map(|(id, _)| *id);
        for placement in cut.collect::<Vec<_>>() {
            self.log.is_carrying = true;
            self.append_mark(placement, now);
        }
    }

    fn needed(&self, file: u64) -> Needed {
        let mut needed = Needed::default();
        for (id, log) in &self.placements {
            if log.vote_place.is_in(file) {
                needed.votes.push(*id);
            }
            if log.mark_place.is_in(file) {
                needed.marks.push(*id);
            }
            self.add_needed_entries(*id, log, file, &mut needed);
        }
        needed
    }

    fn add_needed_entries(&self, id: PlacementId, log: &PlacementLog, file: u64, needed: &mut Needed) {
        for (index, stored) in (log.first..).zip(&log.entries) {
            if stored.place.is_in(file) {
                needed.entries.push((id, index));
                needed.bytes += stored.length as u64;
                needed.is_for_followers |= index < log.applied;
            }
        }
    }

    /// Appends again what is in memory. Returns the reads of some of the rest.
    fn append_again(&mut self, needed: &Needed, now: Nanos) -> Vec<EntryRead> {
        for placement in &needed.votes {
            self.log.is_carrying = true;
            self.append_vote(*placement, Wait::Lazy, now);
        }
        for placement in &needed.marks {
            self.log.is_carrying = true;
            self.append_mark(*placement, now);
        }
        let (mut reads, mut bytes) = (Vec::new(), 0);
        for (at, (placement, index)) in needed.entries.iter().enumerate() {
            if planted!(DropCarried) && at + 1 == needed.entries.len() {
                break;
            }
            let log = &self.placements[placement];
            match self.find(*placement, log, *index) {
                Some(FoundEntry::Here(entry)) => self.append_carried(entry, now),
                Some(FoundEntry::OnDisk(read)) if bytes < READ_BYTES => {
                    bytes += read.encoded_bytes();
                    reads.push(read);
                }
                _ => {}
            }
        }
        reads
    }

    fn append_carried(&mut self, entry: Entry, now: Nanos) {
        self.log.is_carrying = true;
        let (placement, index) = (entry.placement, entry.index);
        let payload = Payload { head: &entry.head_with(true), body: Some(&entry.body) };
        let (_, place) = self.log.append_to_ring(placement.log(), DETAIL_ENTRY, &payload, Wait::Lazy, now);
        let place: Place = place.into();
        self.unplaced.push_back(Unplaced { place, placement, record: RecordOf::Entry(index) });
        if let Some(stored) = self.placements.get_mut(&placement).and_then(|log| log.get_mut(index)) {
            stored.place = place;
            if stored.cached.is_none() {
                // Readers look in memory until it is written.
                stored.cached = Some(entry);
                let length = stored.length;
                let log = self.placements.get_mut(&placement).expect("it is there");
                log.cached_bytes += length;
                log.cached_from = log.cached_from.min(index);
            }
        }
    }

    /// Appends entries again that were read, as far as they are still needed there. While they were read, the placement may have cut,
    /// purged or forgotten them: then it doesn't matter whether they could be read.
    pub(super) fn take_carried(&mut self, results: Vec<Result<Entry, ReadError>>, now: Nanos, events: &mut Vec<Event>) {
        let Some(carry) = &mut self.carry else { return };
        let (file, reads) = (carry.file, std::mem::take(&mut carry.reads));
        for (read, result) in reads.iter().zip(results) {
            let stored = self.placements.get(&read.placement).and_then(|log| log.get(read.index));
            if stored.is_none_or(|stored| stored.place != Place::File(file, read.at)) {
                continue;
            }
            match result {
                Ok(entry) => self.append_carried(entry, now),
                Err(error) => {
                    self.damage_placement(read.placement, error.to_string(), now);
                    events.push(Event::Damaged(error));
                }
            }
        }
    }

    /// Notes that records of a placement can't be read any more, durably: it stays unusable until it is forgotten.
    pub(super) fn damage_placement(&mut self, placement: PlacementId, reason: String, now: Nanos) {
        let log = self.placements.entry(placement).or_default();
        if log.damaged.is_none() {
            log.damage(reason);
            self.append_mark(placement, now);
        }
    }

    /// Releases the oldest file if everything is durable that it was emptied by.
    pub(super) fn end_carry(&mut self) {
        if !self.is_carry_over() {
            return;
        }
        let Some(Carry { file, .. }) = self.carry.take() else { return };
        self.log.is_carrying = false;
        if self.log.wal.full.front().is_some_and(|oldest| oldest.sequence == file)
            && let Some(oldest) = self.log.wal.full.pop_front()
        {
            self.log.wal.retired.push(oldest);
        }
        // The ring shrinks again once followers have what it grew for.
        self.log.options.unretired_max = (self.files - 1).max(self.log.wal.unretired());
        self.is_ring_changed = true;
    }

    fn is_carry_over(&self) -> bool {
        let gate = self.carry.as_ref().and_then(|carry| carry.gate);
        gate.is_some_and(|gate| gate <= self.log.durable())
    }
}

impl EntryRead {
    /// Name of the file that it reads.
    #[must_use]
    pub fn file(&self) -> &Arc<str> {
        &self.file
    }
}
