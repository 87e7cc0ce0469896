//! A placement's records: its vote, the bounds of its log, and where each entry is.

use std::collections::VecDeque;

use crate::format::entry::{Entry, Mark, Vote};
use crate::log::PlaceInBatch;

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// No record says it: it follows from there being none.
    Nowhere,
    /// In a batch that isn't written yet: its sequence, and the offset of the payload from its first record on.
    Batch(u64, u64),
    /// In a file: its sequence, and the offset of the payload.
    File(u64, u64),
}

impl From<PlaceInBatch> for Place {
    fn from(place: PlaceInBatch) -> Place {
        Place::Batch(place.batch, place.at)
    }
}

impl Place {
    pub(super) fn is_in(self, file: u64) -> bool {
        matches!(self, Place::File(sequence, _) if sequence == file)
    }
}

/// An entry of the log.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub term: u64,
    /// Bytes of head and body.
    pub length: usize,
    pub place: Place,
    /// The entry, if it is in memory.
    pub cached: Option<Entry>,
}

/// The log of a placement.
#[derive(Clone, Debug)]
pub(super) struct PlacementLog {
    pub vote: Option<Vote>,
    pub vote_place: Place,
    /// Index of the first entry that isn't purged.
    pub first: u64,
    /// Term of the last purged entry.
    pub purged_term: u64,
    pub mark_place: Place,
    pub entries: VecDeque<Stored>,
    /// Index behind the last entry that is durably applied.
    pub applied: u64,
    /// The highest clock of an entry that it ever had, as far as the files know.
    pub clock: u64,
    /// Index behind the last entry that was ever there.
    #[cfg(feature = "planted-bugs")]
    pub ever_end: u64,
    /// Entries were cut, and no mark says so.
    pub has_open_cut: bool,
    /// Index of the first entry that may be in memory; all behind it are.
    pub cached_from: u64,
    pub cached_bytes: usize,
    /// The damage of its records.
    pub damaged: Option<String>,
}

impl Default for PlacementLog {
    fn default() -> PlacementLog {
        PlacementLog {
            vote: None,
            vote_place: Place::Nowhere,
            first: 0,
            purged_term: 0,
            mark_place: Place::Nowhere,
            entries: VecDeque::new(),
            applied: 0,
            clock: 0,
            #[cfg(feature = "planted-bugs")]
            ever_end: 0,
            has_open_cut: false,
            cached_from: 0,
            cached_bytes: 0,
            damaged: None,
        }
    }
}

impl PlacementLog {
    /// Index behind the last entry.
    pub(super) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(super) fn get(&self, index: u64) -> Option<&Stored> {
        self.entries.get(usize::try_from(index.checked_sub(self.first)?).ok()?)
    }

    pub(super) fn get_mut(&mut self, index: u64) -> Option<&mut Stored> {
        self.entries.get_mut(usize::try_from(index.checked_sub(self.first)?).ok()?)
    }

    /// Term of the entry before this index; 0 if there never was one.
    pub(super) fn term_before(&self, index: u64) -> u64 {
        match index.checked_sub(1).and_then(|before| self.get(before)) {
            Some(entry) => entry.term,
            None => self.purged_term,
        }
    }

    /// Drops the entries from this index on.
    pub(super) fn cut(&mut self, index: u64) {
        while self.end() > index.max(self.first)
            && let Some(last) = self.entries.pop_back()
        {
            self.has_open_cut = true;
            self.uncount(&last);
        }
        self.cached_from = self.cached_from.min(self.end());
    }

    /// Drops the entries below this index; the term is that of the last of them.
    pub(super) fn purge(&mut self, first: u64, term: u64) {
        while self.first < first {
            self.first += 1;
            match self.entries.pop_front() {
                Some(entry) => self.uncount(&entry),
                None => self.first = first,
            }
        }
        self.purged_term = term;
        self.cached_from = self.cached_from.max(self.first);
    }

    fn uncount(&mut self, entry: &Stored) {
        if entry.cached.is_some() {
            self.cached_bytes -= entry.length;
        }
    }

    pub(super) fn push(&mut self, entry: Entry, place: Place) {
        let length = entry.encoded_bytes();
        self.clock = self.clock.max(entry.clock);
        self.cached_bytes += length;
        self.entries.push_back(Stored { term: entry.term, length, place, cached: Some(entry) });
    }

    /// Drops the oldest entries from memory that are over the limit and can be read from a file.
    pub(super) fn trim(&mut self, bytes_max: usize) {
        while self.cached_bytes > bytes_max && self.cached_from < self.end() {
            let index = self.cached_from;
            let Some(stored) = self.get_mut(index) else { break };
            if !matches!(stored.place, Place::File(..)) {
                break;
            }
            let length = stored.length;
            if stored.cached.take().is_some() {
                self.cached_bytes -= length;
            }
            self.cached_from += 1;
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            first: self.first,
            purged_term: self.purged_term,
            end: self.end(),
            is_gone: false,
            is_damaged: self.damaged.is_some(),
        }
    }

    /// Its records can't be trusted any more, and nothing of it is kept but this.
    pub(super) fn damage(&mut self, reason: String) {
        *self = PlacementLog { damaged: Some(reason), mark_place: self.mark_place, ..PlacementLog::default() };
    }
}
