//! The messages of a quorum queue with another priority than the default one, as they survive a restart.

use std::collections::BTreeMap;

use roaring::RoaringTreemap;

use crate::number_set::NumberSet;

/// The priority of a message without one.
pub(crate) const PRIORITY_DEFAULT: u8 = 4;
/// The highest priority; a message with a higher one has this.
pub(crate) const PRIORITY_MAX: u8 = 31;

/// Numbers of messages by priority.
#[derive(Debug, Default)]
pub struct Priorities(pub(crate) BTreeMap<u8, NumberSet>);

impl Priorities {
    /// Notes the publisher's priority of a message.
    pub fn note(&mut self, number: u64, priority: u8) {
        let priority = priority.min(PRIORITY_MAX);
        if priority != PRIORITY_DEFAULT {
            self.0.entry(priority).or_default().insert(number);
        }
    }

    /// Whether no message has another priority than the default one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps these messages only.
    pub fn keep(&mut self, live: impl Fn(u64) -> bool) {
        self.0.values_mut().for_each(|numbers| numbers.keep(&live));
        self.0.retain(|_, numbers| !numbers.is_empty());
    }

    /// Appends to `out`: 1 byte number of priorities, and for each 1 byte priority, 4 bytes length of a set, and the set.
    pub(crate) fn encode<'a>(levels: impl Iterator<Item = (u8, &'a NumberSet)>, out: &mut Vec<u8>) {
        let at = out.len();
        out.push(0);
        for (priority, numbers) in levels {
            out[at] += 1;
            out.push(priority);
            let mut set = Vec::new();
            numbers.write(&mut set);
            out.extend_from_slice(&(set.len() as u32).to_le_bytes());
            out.extend_from_slice(&set);
        }
    }

    /// Decodes priorities at the beginning of `bytes`, and returns them with the rest. `None` if they aren't whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (count, mut bytes) = bytes.split_first()?;
        let mut levels = BTreeMap::new();
        for _ in 0..*count {
            let (priority, rest) = bytes.split_first()?;
            let (length, rest) = rest.split_first_chunk()?;
            let (set, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            levels.insert(*priority, NumberSet::from(RoaringTreemap::deserialize_from(set).ok()?));
            bytes = rest;
        }
        Some((Self(levels), bytes))
    }
}
