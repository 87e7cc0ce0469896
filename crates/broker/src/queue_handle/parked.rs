//! Parked messages of a quorum queue on their way to other queues, as part of a group.

use std::ops::RangeInclusive;
use std::sync::Arc;

use leveret_log::SettleReason;
use leveret_message::Batch;
use leveret_queue::ParkedMessage;

use super::QueueHandle;
use crate::group::Group;

impl QueueHandle {
    /// See [`leveret_queue::Queue::parked_ends`].
    pub(crate) fn parked_ends(&self, range: RangeInclusive<u64>) -> Option<(u64, u64)> {
        self.inner.lock().parked_ends(range)
    }

    /// See [`leveret_queue::Queue::claim_parked`].
    pub(crate) fn claim_parked(
        self: &Arc<Self>,
        read: &[(u64, Arc<Batch>)],
        range: RangeInclusive<u64>,
        most: usize,
    ) -> Vec<ParkedMessage> {
        self.with(|queue, _| queue.claim_parked(read, range, most)).unwrap_or_default()
    }

    /// The claimed messages with these numbers were published as part of this group, and leave the queue with it.
    pub(crate) fn parked_moved(self: &Arc<Self>, group: &mut Group, moved: &[u64]) {
        self.with(|queue, _| {
            let runs = queue.parked_moved(moved);
            self.log_settles_in(queue, group, &runs, SettleReason::Acknowledged);
        });
    }
}
