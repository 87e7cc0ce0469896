//! Earlier messages that a queue compares new ones with, as recovery finds them and a checkpoint keeps them.

use std::collections::VecDeque;
use std::collections::vec_deque::IntoIter;
use std::marker::PhantomData;

/// Bytes of an entry in a checkpoint.
const ENTRY_BYTES: usize = 32;

/// A message that later ones are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// The id of the message, or of its publisher.
    pub(crate) id: u128,
    /// Its number in the queue.
    pub(crate) number: u64,
    /// Of an id the time at which the message was received, in milliseconds since the Unix epoch; of a publisher the message's number
    /// there.
    pub(crate) value: u64,
    /// Whether it survives a restart.
    pub(crate) durable: bool,
}

/// A kind of comparison.
pub trait Comparison {
    /// Bounds what recovery holds. Newer entries may still be withdrawn.
    fn shorten(entries: &mut VecDeque<Compared>);
}

/// Messages to compare with as recovery finds them, in their order in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredCompared<C> {
    entries: VecDeque<Compared>,
    comparison: PhantomData<C>,
}

impl<C> Default for RecoveredCompared<C> {
    fn default() -> Self {
        VecDeque::new().into()
    }
}

impl<C> From<VecDeque<Compared>> for RecoveredCompared<C> {
    fn from(entries: VecDeque<Compared>) -> Self {
        Self { entries, comparison: PhantomData }
    }
}

impl<C> IntoIterator for RecoveredCompared<C> {
    type Item = Compared;
    type IntoIter = IntoIter<Compared>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<C: Comparison> RecoveredCompared<C> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Notes a message whose record is replayed. One that the checkpoint knows is passed over. `value` is the time at which it was
    /// received, or its number at its publisher.
    pub fn replay(&mut self, number: u64, id: u128, value: u64) {
        if self.entries.back().is_none_or(|last| last.number < number) {
            self.entries.push_back(Compared { id, number, value, durable: true });
            C::shorten(&mut self.entries);
        }
    }

    /// A message whose record was replayed isn't part of the queue, because its group isn't whole.
    pub fn withdraw(&mut self, number: u64) {
        if let Ok(place) = self.entries.binary_search_by_key(&number, |entry| entry.number) {
            self.entries.remove(place);
        }
    }

    /// Appends its form in a checkpoint: number of entries u32, and for each the id u128, number in the queue u64, value u64.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        for entry in &self.entries {
            out.extend_from_slice(&entry.id.to_le_bytes());
            out.extend_from_slice(&entry.number.to_le_bytes());
            out.extend_from_slice(&entry.value.to_le_bytes());
        }
    }

    /// The entries that these bytes begin with, and the bytes behind them.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(ENTRY_BYTES)?;
        let (mut entries, rest) = rest.split_at_checked(length)?;
        let mut all = Self::default();
        while let Some((id, behind)) = entries.split_first_chunk::<16>() {
            let (number, behind) = behind.split_first_chunk::<8>()?;
            let (value, behind) = behind.split_first_chunk::<8>()?;
            all.replay(u64::from_le_bytes(*number), u128::from_le_bytes(*id), u64::from_le_bytes(*value));
            entries = behind;
        }
        Some((all, rest))
    }
}
