//! Confirms: of every message of a publisher, once the disk has it.

use leveret_broker::time::Now;
use leveret_stream_protocol::{Confirms, ResponseCode, answers};
use smallvec::SmallVec;

use super::session::{Session, StreamPhase};

/// Bytes of a confirm besides the publishing ids: size, key, version, publisher and count.
const CONFIRM_HEAD: usize = 13;
/// Bytes of a publishing id.
const ID_BYTES: usize = 8;

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

impl Session {
    /// Sends the confirms that are due.
    pub(crate) fn confirm_durable(&mut self, _now: Now) {
        if self.phase != StreamPhase::Open {
            // Nothing may follow the broker's close.
            return;
        }
        let applied = self.client.applied();
        let ids_max = match self.frame_max as usize {
            0 => usize::MAX,
            frame_max => (frame_max.saturating_sub(CONFIRM_HEAD) / ID_BYTES).max(1),
        };
        let mut open: Option<(u8, Confirms, usize)> = None;
        let out = self.client.output.buffer();
        while let Some(Confirming { publisher, serial, ids }) = self.confirming.pop(&applied) {
            let count = ids.len();
            self.unconfirmed -= count;
            self.client.counters.confirmed.add(count);
            // A publisher that is gone doesn't want to know.
            let Some(known) = self.publishers.get_mut(&publisher).filter(|known| known.serial == serial) else {
                continue;
            };
            known.confirmed += count;
            for id in ids.iter() {
                if open.as_ref().is_some_and(|(of, _, length)| *of != publisher || *length >= ids_max)
                    && let Some((_, confirms, _)) = open.take()
                {
                    confirms.end(out);
                }
                let (_, confirms, length) = open.get_or_insert_with(|| (publisher, Confirms::begin(out, publisher), 0));
                confirms.push(out, id);
                *length += 1;
            }
        }
        if let Some((_, confirms, _)) = open {
            confirms.end(out);
        }
    }

    /// Answers messages that aren't part of the stream, and never will be.
    pub(crate) fn refuse_publishes(&mut self, publisher: u8, code: ResponseCode, ids: impl Iterator<Item = u64>) {
        self.refused.count(code);
        answers::publish_error(self.client.output.buffer(), publisher, code, ids);
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
