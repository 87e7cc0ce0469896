//! Judges Raft's promises from disks and applied states, and not from what the engine says of itself.

use std::collections::BTreeMap;

use bytes::Bytes;
use leveret_log::{Bounds, FoundEntry, PlacementId, Vote, recover_entries};

use super::counter::AppliedEntries;
use super::executor::below;
use super::node::Shared;
use super::world::Acknowledged;

/// A replica as its disk would have it after a power cut now.
struct OnDisk {
    vote: Option<Vote>,
    bounds: Bounds,
    /// Term, leader and body of each entry, from `bounds.first` on.
    entries: Vec<(u64, u64, Bytes)>,
    /// Index behind the last entry that the synced counter has.
    applied: u64,
}

impl OnDisk {
    fn term_at(&self, index: u64) -> Option<u64> {
        let at = usize::try_from(index.checked_sub(self.bounds.first)?).ok()?;
        self.entries.get(at).map(|(term, ..)| *term)
    }

    /// Whether the entry is here for good: in the log, or in the counter.
    fn has(&self, index: u64, term: u64) -> bool {
        index < self.applied || self.term_at(index) == Some(term)
    }
}

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// Entries that somebody applied: these are committed.
    committed: BTreeMap<PlacementId, AppliedEntries>,
    /// The leader of each term, by its entries and by votes that name it.
    leaders: BTreeMap<(PlacementId, u64), u64>,
}

impl Judge {
    pub(super) fn look(
        &mut self,
        shared: &Shared,
        placements: &[PlacementId],
        acknowledged: &[Acknowledged],
    ) -> Result<(), String> {
        let disks = self.read_disks(shared, placements)?;
        for placement in placements {
            let fail = |text: String| Err(format!("placement {placement}: {text}"));
            let replicas: Vec<(u64, &OnDisk)> =
                disks.iter().filter(|((_, id), _)| id == placement).map(|((node, _), disk)| (*node, disk)).collect();
            if let Err(text) = self.one_leader_a_term(*placement, &replicas) {
                return fail(text);
            }
            if let Err(text) = logs_match(&replicas) {
                return fail(text);
            }
            if let Err(text) = self.committed_never_changes(shared, *placement) {
                return fail(text);
            }
            if let Err(text) = self.committed_is_on_a_quorum(*placement, &replicas) {
                return fail(text);
            }
        }
        self.acknowledged_is_committed(acknowledged)
    }

    /// The content of each disk after a power cut now. A vote that was answered never goes back.
    fn read_disks(
        &self,
        shared: &Shared,
        placements: &[PlacementId],
    ) -> Result<BTreeMap<(u64, PlacementId), OnDisk>, String> {
        let mut disks = BTreeMap::new();
        for node in shared.nodes.borrow().values() {
            let crashed = node.disk.borrow().crash(below(u64::MAX));
            let (log, report) =
                recover_entries(&crashed, &shared.options, 0).map_err(|error| format!("node {}: {error}", node.id))?;
            if let Some(damage) = report.damaged.first() {
                return Err(format!("node {}: {damage}", node.id));
            }
            for placement in placements.iter().copied() {
                let vote = log.vote(placement);
                let answered = node.answered.borrow().get(&placement).copied();
                let holds = |(term, replica)| {
                    vote.is_some_and(|vote| {
                        vote.term > term || vote.term == term && (vote.replica == replica || vote.is_leader)
                    })
                };
                if let Some((term, replica)) = answered.filter(|answered| !holds(*answered)) {
                    return Err(format!(
                        "node {}, placement {placement}: it answered a vote for {replica} in term {term}, and would have {vote:?}",
                        node.id
                    ));
                }
                let bounds = log.bounds(placement);
                let found = log.read(placement, bounds.first..bounds.end).map_err(|error| error.to_string())?;
                let entries = found.into_iter().map(|found| match found {
                    FoundEntry::Here(entry) => Ok(entry),
                    FoundEntry::OnDisk(read) => read.run(&crashed).map_err(|error| error.to_string()),
                });
                let entries = entries.collect::<Result<Vec<_>, _>>()?;
                let entries = entries.into_iter().map(|entry| (entry.term, entry.led_by, entry.body)).collect();
                let counter = node.counters.borrow().get(&placement).cloned().unwrap_or_default();
                let applied = counter.durable.borrow().next();
                if applied < bounds.first {
                    return Err(format!(
                        "node {}, placement {placement}: entries below {} are purged, and the store has those below {applied}",
                        node.id, bounds.first
                    ));
                }
                disks.insert((node.id, placement), OnDisk { vote, bounds, entries, applied });
            }
        }
        Ok(disks)
    }

    fn one_leader_a_term(&mut self, placement: PlacementId, replicas: &[(u64, &OnDisk)]) -> Result<(), String> {
        let mut seen = Vec::new();
        for (_, disk) in replicas {
            seen.extend(disk.vote.filter(|vote| vote.is_leader).map(|vote| (vote.term, vote.replica)));
            // The first entry has the members, and every member makes it.
            let first = disk.bounds.first;
            let entries = (first..).zip(&disk.entries).filter(|(index, _)| *index > 0);
            seen.extend(entries.map(|(_, (term, leader, _))| (*term, *leader)));
        }
        for (term, leader) in seen {
            let known = *self.leaders.entry((placement, term)).or_insert(leader);
            if known != leader {
                return Err(format!("term {term} has two leaders, {known} and {leader}"));
            }
        }
        Ok(())
    }

    fn committed_never_changes(&mut self, shared: &Shared, placement: PlacementId) -> Result<(), String> {
        let committed = self.committed.entry(placement).or_default();
        for node in shared.nodes.borrow().values() {
            let Some(counter) = node.counters.borrow().get(&placement).cloned() else { continue };
            let counted = counter.now.borrow();
            for (index, entry) in &counted.history {
                let known = committed.entry(*index).or_insert_with(|| entry.clone());
                if known != entry {
                    return Err(format!(
                        "entry {index} was applied with term {}, and on node {} with term {}",
                        known.0, node.id, entry.0
                    ));
                }
            }
        }
        Ok(())
    }

    fn committed_is_on_a_quorum(&self, placement: PlacementId, replicas: &[(u64, &OnDisk)]) -> Result<(), String> {
        for (index, (term, _)) in &self.committed[&placement] {
            let holders = replicas.iter().filter(|(_, disk)| disk.has(*index, *term)).count();
            if holders * 2 <= replicas.len() {
                return Err(format!(
                    "entry {index} of term {term} is committed, and durable on {holders} of {} nodes",
                    replicas.len()
                ));
            }
        }
        Ok(())
    }

    fn acknowledged_is_committed(&self, acknowledged: &[Acknowledged]) -> Result<(), String> {
        for Acknowledged { placement, place: (term, index), command, .. } in acknowledged {
            let found = self.committed.get(placement).and_then(|committed| committed.get(index));
            if found.is_none_or(|found| *found != (*term, Some(command.clone()))) {
                return Err(format!(
                    "placement {placement}: entry {index} of term {term} was acknowledged and is gone"
                ));
            }
        }
        Ok(())
    }
}

/// Where two logs have an entry of the same term, they are equal up to there.
fn logs_match(replicas: &[(u64, &OnDisk)]) -> Result<(), String> {
    for (at, (a, one)) in replicas.iter().enumerate() {
        for (b, other) in &replicas[at + 1..] {
            let (first, end) = (one.bounds.first.max(other.bounds.first), one.bounds.end.min(other.bounds.end));
            let entry = |disk: &OnDisk, index: u64| {
                let (term, _, body) = &disk.entries[(index - disk.bounds.first) as usize];
                (*term, body.clone())
            };
            let last = (first..end).rev().find(|index| one.term_at(*index) == other.term_at(*index));
            for index in last.map_or(first..first, |last| first..last + 1) {
                if entry(one, index) != entry(other, index) {
                    return Err(format!("the logs of nodes {a} and {b} differ at entry {index}, and agree behind it"));
                }
            }
        }
    }
    Ok(())
}
