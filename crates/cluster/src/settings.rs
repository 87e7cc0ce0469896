//! The engine's settings.

use leveret_log::PlacementId;
use openraft::{Config, SnapshotPolicy};

/// Longest time that a state takes to be sent and replaced, in milliseconds.
const SNAPSHOT_MS: u64 = 60_000;

/// The engine's times, in milliseconds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interval of a leader's heartbeats.
    pub heartbeat: u64,
    /// Shortest and longest time without a leader before a follower stands for election.
    pub election: (u64, u64),
    /// Time without answers of a quorum after which a leader asks, and steps down.
    pub quorum_probe: u64,
    /// Most entries in one frame.
    pub entries_max: u64,
    /// Bytes of entries of all placements that a node keeps for replicas which lag behind.
    pub catch_up_bytes: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { heartbeat: 100, election: (300, 500), quorum_probe: 1000, entries_max: 300, catch_up_bytes: 1 << 30 }
    }
}

impl Settings {
    pub(crate) fn config(&self, placement: PlacementId) -> Config {
        Config {
            cluster_name: format!("placement {placement}"),
            heartbeat_interval: self.heartbeat,
            election_timeout_min: self.election.0,
            election_timeout_max: self.election.1,
            max_payload_entries: self.entries_max,
            // A state is made when a follower needs one.
            snapshot_policy: SnapshotPolicy::Never,
            // Only what its owner says is purged, and not all that a state covers.
            max_in_snapshot_log_to_keep: u64::MAX,
            // It is sent whole, and durable when it is answered.
            install_snapshot_timeout: SNAPSHOT_MS,
            // A leader that sends but hears nothing would stay for ever.
            quorum_loss_probe_interval: (!planted!(LeadUnheard)).then_some(self.quorum_probe),
            enable_pre_vote: Some(true),
            // A log that went back is damage, and never repaired by others' logs under the same id.
            allow_log_reversion: Some(false),
            // After a start the machines of its queues are empty: leading needs a new term.
            enable_leader_restore: Some(false),
            ..Config::default()
        }
    }
}

/// A replica couldn't be started, or can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(pub String);

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}
