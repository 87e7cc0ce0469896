//! Ids of the logs in which this node has the messages of replicated queues: at first that of the queue, as on every member. A queue whose
//! state came from another member has a log of a *copy*, so that until its state is complete the one before it stays whole.

use leveret_log::LogId;

/// Ids of copies begin here: below those of marks, and above those of all queues of placements.
const FIRST_COPY: u64 = 1 << 61;
const QUEUE_BITS: u32 = 48;

/// The number of a copy, unlike that of all others of this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CopyNumber(pub u16);

impl CopyNumber {
    /// The highest one, after which they begin again.
    pub(super) const MAX: CopyNumber = CopyNumber((1 << 13) - 1);
}

/// The log of a queue's copy.
pub(super) fn log_of_copy(queue: LogId, CopyNumber(copy): CopyNumber) -> LogId {
    LogId(FIRST_COPY | u64::from(copy) << QUEUE_BITS | queue.0)
}

/// The queue and the copy that this is the log of, if it is a copy's.
pub(crate) fn copy_of(log: LogId) -> Option<(LogId, CopyNumber)> {
    (log.0 >> 61 == 1).then(|| {
        let copy = (log.0 >> QUEUE_BITS) as u16 & CopyNumber::MAX.0;
        (LogId(log.0 & ((1 << QUEUE_BITS) - 1)), CopyNumber(copy))
    })
}

/// The queue that this is a log of.
pub(crate) fn queue_of(log: LogId) -> LogId {
    copy_of(log).map_or(log, |(queue, _)| queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replicas::mark::{log_of, placement_of};

    #[test]
    fn a_copy_is_no_queue_and_no_mark() {
        for (queue, copy) in [(1, 1), (7, CopyNumber::MAX.0), ((1 << 48) - 1, 5)] {
            let log = log_of_copy(LogId(queue), CopyNumber(copy));
            assert_eq!(copy_of(log), Some((LogId(queue), CopyNumber(copy))));
            assert_eq!((queue_of(log), placement_of(log)), (LogId(queue), None));
        }
        let others = [LogId(7), LogId(0), LogId::SHARED, log_of(leveret_model::PlacementNumber(24))];
        assert!(others.iter().all(|log| copy_of(*log).is_none()));
    }
}
