//! What was done to a disk by force, counted.

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

/// How often what was done, by names of [`crate::tally::NAMES`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage(BTreeMap<&'static str, u64>);

impl Damage {
    pub(super) fn hit(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    /// All that was done at least once.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, count)| (*name, *count))
    }
}
