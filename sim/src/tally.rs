//! How often each fault happened and each branch was taken: a zero means that nothing was shown about it.

use std::collections::BTreeMap;
use std::fmt;

/// Everything that is counted.
pub const NAMES: &[&str] = &[
    "acceptances answered",
    "batches torn by a power cut",
    "body files written or removed",
    "channel errors",
    "checkpoints restored",
    "clean restarts",
    "confirms",
    "connections dropped",
    "dead letters delivered",
    "dead letters found",
    "fan-outs",
    "files left over and removed",
    "large bodies",
    "links detached by the broker",
    "links detached midway",
    "links drained",
    "messages accepted",
    "messages published settled",
    "messages received in several transfers",
    "messages released as unroutable",
    "messages requeued",
    "messages sent in several transfers",
    "messages settled",
    "partial reads",
    "partial writes",
    "power cuts",
    "power cuts in recovery",
    "purges",
    "queues deleted",
    "reads from disk",
    "redelivered messages seen",
    "rejections answered",
    "retirements",
    "sends without credit or window",
    "sessions ended",
    "stalled sockets",
    "transactions committed",
    "transactions rolled back",
    "unconfirmed messages lost",
    "unconfirmed messages that survived",
    "volatile messages lost",
    "WAL files used again",
];

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Default for Tally {
    fn default() -> Self {
        Self(NAMES.iter().map(|name| (*name, 0)).collect())
    }
}

impl Tally {
    /// Counts one.
    pub fn hit(&mut self, name: &'static str) {
        self.add(name, 1);
    }

    /// Counts some.
    ///
    /// # Panics
    /// When the name isn't in [`NAMES`].
    pub fn add(&mut self, name: &'static str, count: u64) {
        *self.0.get_mut(name).unwrap_or_else(|| panic!("{name} isn't counted")) += count;
    }

    /// How often.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            self.add(name, *count);
        }
    }

    /// What never happened.
    #[must_use]
    pub fn zeros(&self) -> Vec<&'static str> {
        self.0.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect()
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
