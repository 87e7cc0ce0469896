//! Judges Raft's promises from disks and applied states, and not from what the engine says of itself.

use std::collections::{BTreeMap, BTreeSet};

use leveret_cluster::PlacementState;
use leveret_log::{Bounds, Entry, EntryKind, EntryLog, FoundEntry, PlacementId, Vote, recover_entries};

use super::counter::AppliedEntries;
use super::executor::below;
use super::node::{Shared, SimNode, node_of};
use super::world::Acknowledged;
use crate::disk::SimDisk;

/// A replica as its disk would have it after a power cut now.
#[derive(Default)]
pub(super) struct OnDisk {
    replica: u64,
    vote: Option<Vote>,
    bounds: Bounds,
    /// From `bounds.first` on.
    entries: Vec<Entry>,
    /// Index behind the last entry that the synced counter has.
    applied: u64,
    /// Its records are damaged: it would give up its id, and never vote again under this one.
    is_gone: bool,
}

impl OnDisk {
    fn term_at(&self, index: u64) -> Option<u64> {
        let at = usize::try_from(index.checked_sub(self.bounds.first)?).ok()?;
        self.entries.get(at).map(|entry| entry.term)
    }

    /// Whether the entry is here for good, in the log or in the counter, or whether the replica can't vote against it.
    pub(super) fn keeps(&self, index: u64, term: u64) -> bool {
        self.is_gone || index < self.applied || self.term_at(index) == Some(term)
    }
}

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// Entries that somebody applied: these are committed.
    committed: BTreeMap<PlacementId, AppliedEntries>,
    /// The leader of each term, by its entries and by votes that name it.
    leaders: BTreeMap<(PlacementId, u64), u64>,
    /// The state of a placement once an entry is applied.
    states: BTreeMap<(PlacementId, u64), PlacementState>,
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
            if let Err(text) = self.states_are_equal(shared, *placement) {
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
            let log = open(node, shared, &crashed)?;
            for placement in placements.iter().copied() {
                disks.insert((node.id, placement), read_placement(node, placement, log.as_ref(), &crashed)?);
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
            seen.extend(entries.map(|(_, entry)| (entry.term, entry.led_by)));
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

    /// Replicas that have applied the same are in the same state.
    fn states_are_equal(&mut self, shared: &Shared, placement: PlacementId) -> Result<(), String> {
        for node in shared.nodes.borrow().values() {
            let Some(counter) = node.counters.borrow().get(&placement).cloned() else { continue };
            let state = counter.now.borrow().state.clone();
            let Some((_, index)) = state.applied else { continue };
            let known = self.states.entry((placement, index)).or_insert_with(|| state.clone());
            if *known != state {
                return Err(format!("node {} is in state {state:?}, and another was in {known:?}", node.id));
            }
        }
        Ok(())
    }

    /// A committed entry is on a majority of the voters, of both sets while they change. A replica that gave up its id can't vote against
    /// it. The voters are those of the last committed entry with members, or of a later one: it counts for its leader from the moment at
    /// which it is appended, and who lacks it needs a majority of its voters, too.
    fn committed_is_on_a_quorum(&self, placement: PlacementId, replicas: &[(u64, &OnDisk)]) -> Result<(), String> {
        // The replica that had applied the most may have lost its power since.
        let last = self.states.range((placement, 0)..=(placement, u64::MAX)).next_back();
        let Some((_, state)) = last else { return Ok(()) };
        let later = replicas
            .iter()
            .flat_map(|(_, disk)| &disk.entries)
            .filter(|entry| entry.kind == EntryKind::Membership && Some((entry.term, entry.index)) > state.members_at);
        let later = later.map(|entry| PlacementState { members: entry.body.clone(), ..PlacementState::default() });
        let configurations: Vec<_> = [state.clone()].into_iter().chain(later).map(|state| state.voters()).collect();
        for (index, (term, _)) in &self.committed[&placement] {
            let keeps = |voter: &&u64| {
                let found = replicas.iter().find(|(node, _)| *node == node_of(**voter));
                found.is_none_or(|(_, disk)| disk.replica != **voter || disk.keeps(*index, *term))
            };
            let is_quorum = |voters: &BTreeSet<u64>| voters.iter().filter(keeps).count() * 2 > voters.len();
            if !configurations.iter().any(|sets| sets.iter().all(is_quorum)) {
                let seen = replicas.iter().map(|(node, disk)| {
                    format!("node {node} has {:?}, applied {}, is gone: {}", disk.bounds, disk.applied, disk.is_gone)
                });
                return Err(format!(
                    "entry {index} of term {term} is committed, and durable on no quorum of {configurations:?}: {}",
                    seen.collect::<Vec<_>>().join("; ")
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

/// A replica as a power cut now would leave it on its disk.
pub(super) fn look_at(node: &SimNode, shared: &Shared, placement: PlacementId) -> Result<OnDisk, String> {
    let crashed = node.disk.borrow().crash(below(u64::MAX));
    let log = open(node, shared, &crashed)?;
    read_placement(node, placement, log.as_ref(), &crashed)
}

/// Opens the entry log that a power cut left. `None` if the disk was changed so that it can't be read.
fn open(node: &SimNode, shared: &Shared, crashed: &SimDisk) -> Result<Option<EntryLog>, String> {
    match recover_entries(crashed, &shared.options, 0) {
        Ok((log, report)) if node.was_hit.get() || report.damaged.is_empty() => Ok(Some(log)),
        Ok((_, report)) => Err(format!("node {}: {}", node.id, report.damaged[0])),
        Err(_) if node.is_hit.get() => Ok(None),
        Err(error) => Err(format!("node {}: {error}", node.id)),
    }
}

fn read_placement(
    node: &SimNode,
    placement: PlacementId,
    log: Option<&EntryLog>,
    disk: &SimDisk,
) -> Result<OnDisk, String> {
    match log.filter(|log| log.damage(placement).is_none()) {
        Some(log) => read_disk(node, placement, log, disk)
            .map_err(|text| format!("node {}, placement {placement}: {text}", node.id)),
        None => Ok(OnDisk { replica: node.replica_id(placement), is_gone: true, ..OnDisk::default() }),
    }
}

/// A replica in the entry log that a power cut would leave.
fn read_disk(node: &SimNode, placement: PlacementId, log: &EntryLog, disk: &SimDisk) -> Result<OnDisk, String> {
    let vote = log.vote(placement);
    let answered = node.answered.borrow().get(&placement).copied();
    let holds = |(term, replica)| {
        vote.is_some_and(|vote| vote.term > term || vote.term == term && (vote.replica == replica || vote.is_leader))
    };
    if let Some((term, replica)) = answered.filter(|answered| !holds(*answered)) {
        return Err(format!("it answered a vote for {replica} in term {term}, and would have {vote:?}"));
    }
    let bounds = log.bounds(placement);
    let found = log.read(placement, bounds.first..bounds.end).map_err(|error| error.to_string())?;
    let entries = found.into_iter().map(|found| match found {
        FoundEntry::Here(entry) => Ok(entry),
        FoundEntry::OnDisk(read) => read.run(disk).map_err(|error| error.to_string()),
    });
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    let counter = node.counters.borrow().get(&placement).cloned().unwrap_or_default();
    let applied = counter.durable.borrow().next();
    if applied < bounds.first {
        return Err(format!("entries below {} are purged, and the store has those below {applied}", bounds.first));
    }
    Ok(OnDisk { replica: node.replica_id(placement), vote, bounds, entries, applied, is_gone: false })
}

/// Where two logs have an entry of the same term, they are equal up to there.
fn logs_match(replicas: &[(u64, &OnDisk)]) -> Result<(), String> {
    for (at, (a, one)) in replicas.iter().enumerate() {
        for (b, other) in &replicas[at + 1..] {
            let (first, end) = (one.bounds.first.max(other.bounds.first), one.bounds.end.min(other.bounds.end));
            let entry = |disk: &OnDisk, index: u64| disk.entries[(index - disk.bounds.first) as usize].clone();
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
