//! The numbers that a publisher gives its messages.

use smallvec::SmallVec;

/// Publishing ids in the order in which they came: mostly one follows the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishingIds(SmallVec<[(u64, u32); 1]>);

impl PublishingIds {
    /// Adds the next one.
    #[inline]
    pub fn push(&mut self, id: u64) {
        match self.0.last_mut() {
            Some((first, count)) if first.wrapping_add(u64::from(*count)) == id && *count < u32::MAX => *count += 1,
            _ => self.0.push((id, 1)),
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|(first, count)| (0..u64::from(*count)).map(|at| first.wrapping_add(at)))
    }

    /// The last one.
    pub fn last(&self) -> Option<u64> {
        self.0.last().map(|(first, count)| first.wrapping_add(u64::from(*count) - 1))
    }

    /// All of them as runs: the first one, and how many there are.
    pub fn runs(&self) -> &[(u64, u32)] {
        &self.0
    }

    /// The ids of these runs; one without any is left out.
    pub fn from_runs(runs: Vec<(u64, u32)>) -> Self {
        Self(runs.into_iter().filter(|(_, count)| *count > 0).collect())
    }

    /// Their number.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_in_their_order() {
        let mut ids = PublishingIds::default();
        let all = [5, 6, 7, 3, 4, 9, u64::MAX, 0];
        all.into_iter().for_each(|id| ids.push(id));
        assert_eq!(ids.iter().collect::<Vec<_>>(), all);
        assert_eq!((ids.len(), ids.0.len(), ids.is_empty()), (8, 4, false));
    }
}
