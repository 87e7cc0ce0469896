//! Messages of publishers that wait for their confirms.

use smallvec::SmallVec;

/// Publishing ids in the order in which they came: mostly one follows the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PublishingIds(SmallVec<[(u64, u32); 1]>);

impl PublishingIds {
    #[inline]
    pub(crate) fn push(&mut self, id: u64) {
        match self.0.last_mut() {
            Some((first, count)) if first.wrapping_add(u64::from(*count)) == id && *count < u32::MAX => *count += 1,
            _ => self.0.push((id, 1)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|(first, count)| (0..u64::from(*count)).map(|at| first.wrapping_add(at)))
    }

    pub(crate) fn last(&self) -> Option<u64> {
        self.0.last().map(|(first, count)| first.wrapping_add(u64::from(*count) - 1))
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Messages of a publisher that are confirmed together.
#[derive(Debug)]
pub(crate) struct Confirming {
    pub publisher: u8,
    /// Tells it from an earlier publisher with its id.
    pub serial: u64,
    pub ids: PublishingIds,
}

/// Messages of a publisher that are becoming a chunk.
pub(crate) struct Run {
    pub publisher: u8,
    pub serial: u64,
    /// The ids of the chunk's entries.
    pub ids: PublishingIds,
    /// Messages that only have to be confirmed: they are in the stream already, by their numbers.
    pub known: PublishingIds,
    /// The same behind entries of the chunk: they may be in the chunk itself, and aren't safe before it is.
    pub repeated: PublishingIds,
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
