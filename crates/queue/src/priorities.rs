//! The priorities of a queue's messages, and the messages with a priority as they survive a restart.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use roaring::RoaringTreemap;

use crate::number_set::NumberSet;

/// The priorities that a queue tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PriorityLevels {
    /// The priority of a message without one.
    pub(crate) default: u8,
    /// The highest priority; a message with a higher one has this.
    pub(crate) max: u8,
}

impl PriorityLevels {
    /// The priorities of quorum queues.
    pub(crate) const QUORUM: Self = Self { default: 4, max: 31 };

    /// The priorities of a classic queue with this `x-max-priority`.
    pub(crate) fn classic(max: u8) -> Self {
        Self { default: 0, max }
    }
}

/// Numbers of messages by the priority that their publisher gave them.
#[derive(Debug, Default)]
pub struct Priorities(pub(crate) BTreeMap<u8, NumberSet>);

impl Priorities {
    /// Notes the publisher's priority of a message. Which of them the queue tells apart is known later.
    pub fn note(&mut self, number: u64, priority: u8) {
        self.0.entry(priority).or_default().insert(number);
    }

    /// Whether no message has a priority.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives each message the priority that `of` finds by its number and its own priority; `None` for the default one.
    pub fn map(&mut self, of: impl Fn(u64, u8) -> Option<u8>) {
        for (priority, numbers) in std::mem::take(&mut self.0) {
            for number in numbers.iter() {
                if let Some(priority) = of(number, priority) {
                    self.note(number, priority);
                }
            }
        }
    }

    /// Keeps these messages only.
    pub fn keep(&mut self, live: impl Fn(u64) -> bool) {
        self.0.values_mut().for_each(|numbers| numbers.keep(&live));
        self.0.retain(|_, numbers| !numbers.is_empty());
    }

    /// Appends to `out`: 1 byte number of priorities, and for each 1 byte priority, 4 bytes length of a set, and the set.
    pub(crate) fn encode(levels: impl Iterator<Item = (u8, impl Borrow<NumberSet>)>, out: &mut Vec<u8>) {
        let at = out.len();
        out.push(0);
        for (priority, numbers) in levels {
            out[at] += 1;
            out.push(priority);
            let mut set = Vec::new();
            numbers.borrow().write(&mut set);
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
