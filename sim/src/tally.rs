//! The number of times that each fault happened and each branch was taken: zero means that it wasn't tested.

use std::collections::BTreeMap;
use std::fmt;

/// The names of all counters.
pub const NAMES: &[&str] = &[
    "EIO on create, rename, remove, list or length",
    "EIO on directory sync",
    "EIO on read",
    "EIO on sync",
    "EIO on write",
    "ENOSPC",
    "WAL files that became segments",
    "WAL files used again",
    "WAL files without need removed",
    "acceptances answered",
    "batches torn by a power cut",
    "bits flipped on read",
    "body files left unfinished",
    "body files written or removed",
    "channel errors",
    "checkpoints restored",
    "chunks received",
    "clean restarts",
    "clients told that a stream is gone",
    "confirmed messages of the class os lost",
    "confirms",
    "connections closed for a stopped queue",
    "connections closed in the middle of a body",
    "connections dropped",
    "counts compared",
    "dead letters delivered",
    "dead letters found",
    "delayed messages delivered",
    "deliveries aborted for a stopped queue",
    "directory entries as they were before",
    "ends in parts",
    "failed syncs whose bytes were forgotten",
    "fan-outs",
    "filters compared with their queues",
    "flipped bits that a start reported",
    "flipped bits that changed nothing",
    "flows with deferral tokens",
    "gaps of streams",
    "full disks with space again",
    "kills",
    "large bodies",
    "links detached by the broker",
    "links detached midway",
    "links drained",
    "messages accepted",
    "messages delivered",
    "messages delivered to filters",
    "messages of open groups withdrawn",
    "messages of streams removed by retention",
    "messages published settled",
    "messages read from streams",
    "messages received in several transfers",
    "messages refused by a stopped queue",
    "messages released as unroutable",
    "messages requeued",
    "messages sent",
    "messages sent again",
    "messages sent in several transfers",
    "messages settled",
    "milliseconds of virtual time",
    "nodes stopped by their disk",
    "old checkpoints removed",
    "operations",
    "operations that failed again",
    "partial reads",
    "partial writes",
    "power cuts",
    "power cuts in recovery",
    "purges",
    "queues deleted",
    "queues stopped by a read",
    "read errors that a start survived",
    "readers overtaken by retention",
    "reads from disk",
    "records replayed",
    "receivers told whether they are active",
    "redelivered messages seen",
    "rejections answered",
    "retirements",
    "segments rewritten",
    "segments without a checkpoint removed",
    "sends without credit or window",
    "sessions ended",
    "short writes",
    "small writes",
    "stalled sockets",
    "starts refused by a broken disk",
    "starts refused by a flipped bit",
    "torn checkpoints passed over",
    "transactions committed",
    "transactions found whole, or not at all",
    "transactions refused by a stopped queue",
    "transactions rolled back",
    "unconfirmed messages lost",
    "unconfirmed messages that survived",
    "unsynced writes lost",
    "volatile messages lost",
    "writes kept that came after lost ones",
    "writes torn at 4 KiB",
    "writes torn at 512 bytes",
];

/// Counters that may be zero in a run of some hundred seeds.
const RARE: &[&str] = &[
    "gaps of streams",
    "connections closed for a stopped queue",
    "connections closed in the middle of a body",
    "deliveries aborted for a stopped queue",
    "flipped bits that changed nothing",
    "messages of open groups withdrawn",
    "sends without credit or window",
    "starts refused by a flipped bit",
];
/// Number of seeds from which on they may not be zero.
const SEEDS_FOR_RARE: u64 = 20_000;

/// The counters by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Default for Tally {
    fn default() -> Self {
        Self(NAMES.iter().map(|name| (*name, 0)).collect())
    }
}

impl Tally {
    /// Counts one event.
    pub fn hit(&mut self, name: &'static str) {
        self.add(name, 1);
    }

    /// Counts several events.
    ///
    /// # Panics
    /// If the name isn't in [`NAMES`].
    pub fn add(&mut self, name: &'static str, count: u64) {
        *self.0.get_mut(name).unwrap_or_else(|| panic!("{name} isn't counted")) += count;
    }

    /// The value of a counter.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Adds the counters of another tally.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            self.add(name, *count);
        }
    }

    /// The counters that are zero although they shouldn't be after this many seeds.
    #[must_use]
    pub fn zeros(&self, seeds: u64) -> Vec<&'static str> {
        let is_due = |name: &str| seeds >= SEEDS_FOR_RARE || !RARE.contains(&name);
        self.0.iter().filter(|(name, count)| **count == 0 && is_due(name)).map(|(name, _)| *name).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in &self.0 {
            writeln!(f, "{count:>10}  {name}")?;
        }
        Ok(())
    }
}
