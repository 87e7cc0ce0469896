//! Opening the entry log: every record is replayed, and each placement's log has to be without a gap.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::placement::{Place, PlacementLog, Stored};
use super::{EntryLog, EntryOptions};
use crate::damage::{Damage, Hit};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::format::entry::{Entry, EntryRecord, Mark, PlacementId, Vote};
use crate::format::record::RECORD_HEADER_BYTES;
use crate::live_state::LiveState;
use crate::names::Name;
use crate::recover::{Cut, Replay, recover_ring};
use crate::types::{JointRecord, LogId, Nanos, SettleRange, SettleReason};

/// The findings of a start in the entry log.
#[derive(Debug, Default)]
pub struct EntryReport {
    /// Whether a clean stop closed the log, and no damage was found.
    pub clean: bool,
    /// The end of the log, if a power cut tore it. Nothing in it was answered.
    pub cut: Option<Cut>,
    /// Other damage. The placements that it hit are unusable until they are forgotten.
    pub damaged: Vec<Damage>,
    /// Records replayed.
    pub replayed: u64,
}

/// Opens the entry log of a data directory, or begins one.
///
/// Can be interrupted at any operation and called again. Damage is noted in the log before anything else: run the commit lane.
///
/// # Errors
/// The disk fails or is full, or the files are of another version or node. If something can't be read, nothing was changed.
pub fn recover_entries(
    disk: &dyn Disk,
    options: &EntryOptions,
    now: Nanos,
) -> Result<(EntryLog, EntryReport), StorageError> {
    let mut replay = EntryReplay::default();
    let files = options.files.max(3);
    let (log, report) = recover_ring(disk, options.log(), files, &mut replay, now)?;
    let mut damaged = report.damaged;
    let gone = std::mem::take(&mut replay.gone);
    let mut placements = replay.finish(&mut damaged, &gone);
    let hit = hit_by(&damaged, &placements, &gone);
    let mut entries = EntryLog {
        log,
        placements: std::mem::take(&mut placements),
        unplaced: VecDeque::new(),
        carry: None,
        is_ring_changed: true,
        looked_at: (0, 0),
        files,
        cached_bytes: options.cached_bytes,
    };
    for (placement, reason) in hit {
        entries.damage_placement(placement, reason, now);
    }
    let found =
        EntryReport { clean: report.clean && damaged.is_empty(), cut: report.cut, damaged, replayed: report.replayed };
    Ok((entries, found))
}

/// The place of the last mark that says that a placement is gone: file and offset.
#[derive(Debug, Default)]
pub(super) struct Gone(BTreeMap<PlacementId, (u64, u64)>);

impl Gone {
    /// Whether this damage may have hit a placement. What stood before the mark is void, so a replica that gave up its id isn't hit again
    /// at each start until the file is used again.
    fn may_be_hit(&self, placement: PlacementId, damage: &Damage) -> bool {
        let is_void = |gone: &(u64, u64)| place_of(damage).is_some_and(|place| place < *gone);
        damage.logs.may_be(placement.log()) && !self.0.get(&placement).is_some_and(is_void)
    }
}

/// The end of the damaged range, if it is known where the damage is. The beginning of a file stands for the whole.
fn place_of(damage: &Damage) -> Option<(u64, u64)> {
    let end = if damage.range.end == 0 { u64::MAX } else { damage.range.end };
    Name::entries_sequence(&damage.file).map(|sequence| (sequence, end))
}

/// The placements that damage hit, each with the first reason.
fn hit_by(
    damaged: &[Damage],
    placements: &BTreeMap<PlacementId, PlacementLog>,
    gone: &Gone,
) -> BTreeMap<PlacementId, String> {
    let mut hit = BTreeMap::new();
    for damage in damaged {
        let these: Vec<PlacementId> = match &damage.logs {
            Hit::Logs(logs) => logs.iter().filter_map(|log| PlacementId::of_log(*log)).collect(),
            Hit::Any => placements.keys().copied().chain([PlacementId::ANY]).collect(),
        };
        // Whether one of which nothing is left is hit isn't known by its own mark.
        let is_hit = |placement: &PlacementId| *placement == PlacementId::ANY || gone.may_be_hit(*placement, damage);
        these.into_iter().filter(is_hit).for_each(|placement| {
            hit.entry(placement).or_insert_with(|| damage.to_string());
        });
    }
    hit
}

/// A placement as far as it was replayed. Entries may come in any order: carried ones come late.
#[derive(Debug, Default)]
struct ReplayedPlacement {
    vote: Option<(Vote, Place)>,
    mark: Option<(Mark, Place)>,
    entries: BTreeMap<u64, Stored>,
    clock: u64,
    /// The problem with its records.
    wrong: Option<String>,
}

/// Takes what is replayed.
#[derive(Debug, Default)]
pub(super) struct EntryReplay {
    placements: BTreeMap<PlacementId, ReplayedPlacement>,
    pub gone: Gone,
    /// The file of the next record, and its offset there.
    at: (u64, u64),
    pub entries: u64,
    pub votes: u64,
}

impl EntryReplay {
    /// The placements; the damage is added of those whose records don't fit together.
    pub(super) fn finish(self, damaged: &mut Vec<Damage>, gone: &Gone) -> BTreeMap<PlacementId, PlacementLog> {
        let mut placements = BTreeMap::new();
        for (placement, replayed) in self.placements {
            if damaged.iter().any(|damage| gone.may_be_hit(placement, damage)) {
                // It is no surprise that something is missing.
                placements.insert(placement, PlacementLog::default());
                continue;
            }
            match replayed.finish() {
                Ok(log) => {
                    placements.insert(placement, log);
                }
                Err(reason) => {
                    let hit = Hit::Logs(vec![placement.log()]);
                    damaged.push(Damage::new("", 0..0, hit, format!("placement {placement}: {reason}")));
                    placements.insert(placement, PlacementLog::default());
                }
            }
        }
        placements
    }

    fn take(&mut self, placement: PlacementId, record: EntryRecord, place: Place) {
        if matches!(record, EntryRecord::Mark(Mark { is_gone: true, .. })) {
            self.placements.remove(&placement);
            if let Place::File(file, at) = place {
                self.gone.0.insert(placement, (file, at));
            }
            return;
        }
        let replayed = self.placements.entry(placement).or_default();
        match record {
            EntryRecord::Entry(entry, is_carried) => {
                self.entries += 1;
                replayed.entry(&entry, is_carried && !planted!(CutByCarried), place);
            }
            EntryRecord::Vote(vote, _) => {
                self.votes += 1;
                replayed.vote(vote, place);
            }
            EntryRecord::Mark(mark) => replayed.mark(mark, place),
        }
    }
}

impl ReplayedPlacement {
    fn entry(&mut self, entry: &Entry, is_carried: bool, place: Place) {
        let index = entry.index;
        self.clock = self.clock.max(entry.clock);
        if self.mark.is_some_and(|(mark, _)| index < mark.first) {
            return;
        }
        let is_there = self.entries.get(&index).map(|known| known.term == entry.term);
        match is_there {
            Some(false) if is_carried => {
                self.wrong.get_or_insert(format!("entry {index} was carried with another term than it has"));
            }
            // A carried one says nothing about those behind it.
            _ if is_carried => {}
            _ => drop(self.entries.split_off(&index)),
        }
        let length = entry.encoded_bytes();
        self.entries.insert(index, Stored { term: entry.term, length, place, cached: None });
    }

    fn vote(&mut self, vote: Vote, place: Place) {
        if let Some((last, _)) = self.vote
            && !vote.may_follow(&last)
        {
            self.wrong.get_or_insert(format!("its vote {vote:?} follows {last:?}"));
        }
        self.vote = Some((vote, place));
    }

    fn mark(&mut self, mark: Mark, place: Place) {
        self.entries = self.entries.split_off(&mark.first);
        drop(self.entries.split_off(&mark.end));
        self.mark = Some((mark, place));
    }

    fn finish(self) -> Result<PlacementLog, String> {
        let (mark, mark_place) = self.mark.unwrap_or((Mark::default(), Place::Nowhere));
        if mark.is_damaged {
            let damaged = Some("an earlier start found it".to_owned());
            return Ok(PlacementLog { damaged, mark_place, ..PlacementLog::default() });
        }
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let (mut due, mut term) = (mark.first, mark.purged_term);
        for (index, entry) in &self.entries {
            if *index != due {
                return Err(format!("entries {due} to {} are missing", index - 1));
            }
            if entry.term < term {
                return Err(format!("entry {index} has term {}, the one before it has {term}", entry.term));
            }
            (due, term) = (index + 1, entry.term);
        }
        Ok(PlacementLog {
            vote: self.vote.map(|(vote, _)| vote),
            vote_place: self.vote.map_or(Place::Nowhere, |(_, place)| place),
            first: mark.first,
            purged_term: mark.purged_term,
            mark_place,
            entries: self.entries.into_values().collect(),
            applied: mark.first,
            clock: self.clock,
            cached_from: due,
            ..PlacementLog::default()
        })
    }
}

impl Replay for EntryReplay {
    fn restore(&mut self, _: LiveState) {}

    fn run(&mut self, file: u64, offset: u64) {
        self.at = (file, offset);
    }

    fn control(&mut self, log: LogId, detail: u8, payload: &[u8]) {
        let (file, offset) = self.at;
        let at = offset + RECORD_HEADER_BYTES as u64;
        self.at.1 = at + payload.len() as u64;
        let Some(placement) = PlacementId::of_log(log) else { return };
        match EntryRecord::decode(placement, detail, &Bytes::copy_from_slice(payload)) {
            Ok(record) => self.take(placement, record, Place::File(file, at)),
            Err(reason) => {
                self.placements.entry(placement).or_default().wrong.get_or_insert(reason.to_owned());
            }
        }
    }

    fn message(&mut self, _: LogId, _: u64, _: &[u8]) {}
    fn references(&mut self, _: JointRecord<'_>) {}
    fn chunk(&mut self, _: JointRecord<'_>) {}
    fn withdraw(&mut self, _: LogId, _: u64, _: &[u8]) {}
    fn withdraw_chunk(&mut self, _: JointRecord<'_>) {}
    fn settle(&mut self, _: LogId, _: SettleReason, _: &[SettleRange]) {}
}
