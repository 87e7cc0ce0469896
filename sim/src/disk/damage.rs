//! Counts of the damage to a disk.

use std::collections::BTreeMap;

/// Bytes that survive a power cut together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Sector,
    Page,
}

impl Unit {
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Sector => super::SECTOR,
            Self::Page => super::PAGE,
        }
    }

    pub(super) fn torn(self) -> &'static str {
        match self {
            Self::Sector => "writes torn at 512 bytes",
            Self::Page => "writes torn at 4 KiB",
        }
    }
}

/// Counts of each kind of damage, by names of [`crate::tally::NAMES`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage(BTreeMap<&'static str, u64>);

impl Damage {
    pub(super) fn hit(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    /// All kinds of damage that happened, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, count)| (*name, *count))
    }
}
