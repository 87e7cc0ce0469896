//! A node: raft-rs over a disk that takes its time.

use leveret_sim::random::Random;
use raft::eraftpb::{Entry, Message};
use raft::storage::MemStorage;
use raft::{Config, RawNode, Ready, StateRole};
use slog::{Discard, Logger, o};

/// Nanoseconds between ticks.
pub(crate) const TICK: u64 = 20_000_000;
/// Ticks between heartbeats, and the shortest and longest time until an election: those of placements.
const HEARTBEAT_TICKS: usize = 5;
const ELECTION_TICKS: (usize, usize) = (15, 25);
/// Nanoseconds that a sync takes, unless the disk is slow.
const SYNC: u64 = 1_000_000;

/// Records under way to the disk.
struct Writing {
    ready: Ready,
    /// Messages that may be sent once it is synced.
    behind: Vec<Message>,
}

/// A node, in several lives.
pub(crate) struct RaftNode {
    id: u64,
    voters: u64,
    /// Everything that is synced.
    disk: MemStorage,
    raw: Option<RawNode<MemStorage>>,
    /// Counted up at each end of a life: what was meant for an earlier one is dropped.
    pub life: u64,
    pub paused_until: u64,
    pub sync_time: u64,
    writing: Option<Writing>,
    /// When its sync ends. The engine takes nothing before: it is told what became durable before it goes on.
    pub writing_until: u64,
    /// Term and data of applied entries, from index 1 on.
    pub applied: Vec<(u64, Vec<u8>)>,
}

/// The consequences of a step of a node.
#[derive(Default)]
pub(crate) struct NodeStep {
    pub send: Vec<Message>,
    /// A sync was begun, which ends after so many nanoseconds.
    pub sync: Option<u64>,
    /// Entries that were applied.
    pub applied: Vec<(u64, u64, Vec<u8>)>,
}

impl RaftNode {
    pub fn new(id: u64, voters: u64) -> RaftNode {
        let disk = MemStorage::new_with_conf_state(((1..=voters).collect::<Vec<u64>>(), Vec::new()));
        let (raw, writing, applied) = (None, None, Vec::new());
        let mut node = RaftNode {
            id,
            voters,
            disk,
            raw,
            life: 0,
            paused_until: 0,
            sync_time: SYNC,
            writing,
            writing_until: 0,
            applied,
        };
        node.start();
        node
    }

    pub fn is_alive(&self) -> bool {
        self.raw.is_some()
    }

    pub fn start(&mut self) {
        let config = Config {
            id: self.id,
            election_tick: ELECTION_TICKS.0,
            min_election_tick: ELECTION_TICKS.0,
            max_election_tick: ELECTION_TICKS.1,
            heartbeat_tick: HEARTBEAT_TICKS,
            max_size_per_msg: 1 << 20,
            max_inflight_msgs: 256,
            check_quorum: true,
            pre_vote: true,
            ..Config::default()
        };
        let disk = self.disk.clone();
        self.applied.clear();
        self.raw = Some(RawNode::new(&config, disk, &Logger::root(Discard, o!())).expect("the settings are right"));
    }

    /// Ends the life. What is being written is lost at a power cut, and isn't at a kill.
    pub fn end(&mut self, loses_power: bool) {
        if let Some(writing) = self.writing.take()
            && !loses_power
        {
            self.write(&writing.ready);
        }
        self.raw = None;
        self.life += 1;
        (self.paused_until, self.writing_until) = (0, 0);
    }

    pub fn mend_disk(&mut self) {
        self.sync_time = SYNC;
    }

    /// When it takes its next event, if not `now`: behind the end of its sync, also if that is due now.
    pub fn busy_until(&self, now: u64) -> Option<u64> {
        let until = self.paused_until.max(self.writing_until);
        (until > now || self.writing.is_some()).then_some(until.max(now))
    }

    /// Its term, if it leads.
    pub fn leads(&self) -> Option<u64> {
        let raft = &self.raw.as_ref()?.raft;
        (raft.state == StateRole::Leader).then_some(raft.term)
    }

    /// The node that leads, as far as this one knows.
    pub fn leader(&self) -> Option<u64> {
        self.raw.as_ref().map(|raw| raw.raft.leader_id).filter(|leader| *leader != 0)
    }

    pub fn commit(&self) -> u64 {
        self.raw.as_ref().map_or(0, |raw| raw.raft.raft_log.committed)
    }

    pub fn tick(&mut self) {
        let (id, voters) = (self.id, self.voters);
        if let Some(raw) = &mut self.raw {
            // The engine draws its timeouts from the system's random numbers: a seed has to repeat itself.
            let range = (ELECTION_TICKS.1 - ELECTION_TICKS.0) as u64;
            let timeout = Random::new(raw.raft.term * voters + id).below(range);
            raw.raft.set_randomized_election_timeout(ELECTION_TICKS.0 + timeout as usize);
            raw.tick();
        }
    }

    pub fn receive(&mut self, message: Message) {
        if let Some(raw) = &mut self.raw {
            // A message of another time is refused, and that is all.
            let _ = raw.step(message);
        }
    }

    /// Whether the node took the command as a proposal.
    pub fn propose(&mut self, command: Vec<u8>) -> bool {
        let leads = self.leads().is_some();
        leads && self.raw.as_mut().is_some_and(|raw| raw.propose(Vec::new(), command).is_ok())
    }

    /// The sync that was begun has ended.
    pub fn synced(&mut self) -> NodeStep {
        let mut step = NodeStep::default();
        let Some(Writing { ready, behind }) = self.writing.take() else { return step };
        self.write(&ready);
        step.send = behind;
        let Some(raw) = &mut self.raw else { return step };
        let mut light = raw.advance(ready);
        step.send.extend(light.take_messages());
        if let Some(commit) = light.commit_index() {
            raw.mut_store().wl().mut_hard_state().commit = commit;
        }
        let committed = light.take_committed_entries();
        raw.advance_apply();
        self.apply(committed, &mut step);
        step
    }

    /// Takes what the engine has ready, unless the disk is still busy.
    pub fn work(&mut self) -> NodeStep {
        let mut step = NodeStep::default();
        if self.writing.is_some() {
            return step;
        }
        let Some(raw) = self.raw.as_mut().filter(|raw| raw.has_ready()) else { return step };
        let mut ready = raw.ready();
        assert!(ready.snapshot().is_empty(), "nothing is compacted");
        step.send = ready.take_messages();
        let (committed, behind) = (ready.take_committed_entries(), ready.take_persisted_messages());
        step.sync = Some(if ready.must_sync() { self.sync_time } else { 0 });
        self.writing = Some(Writing { ready, behind });
        self.apply(committed, &mut step);
        step
    }

    fn write(&self, ready: &Ready) {
        let mut disk = self.disk.wl();
        disk.append(ready.entries()).expect("entries follow each other");
        if let Some(state) = ready.hs() {
            disk.set_hardstate(state.clone());
        }
    }

    fn apply(&mut self, entries: Vec<Entry>, step: &mut NodeStep) {
        for entry in entries {
            assert_eq!(entry.index, self.applied.len() as u64 + 1, "entries are applied in order");
            self.applied.push((entry.term, entry.data.to_vec()));
            step.applied.push((entry.index, entry.term, entry.data.to_vec()));
        }
    }
}
