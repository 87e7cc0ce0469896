//! Queues without a node, shared by several tests.

use std::sync::Arc;

use leveret_queue::{Epoch, LedgerQueue, MemoryBudget, Place, Placement, Surroundings};
use roaring::RoaringTreemap;

/// A node whose clock begins with the epoch.
pub(crate) fn surroundings(budget: Arc<MemoryBudget>) -> Surroundings {
    Surroundings { budget, epoch: Epoch::default(), strict_compat: false, standing_delay_target: 0 }
}

/// A placement at this position of the log; volatile without one.
pub(crate) fn placement(position: Option<u64>) -> Placement<'static> {
    position.map_or(Placement::Volatile, |number| Placement::At(Place::new(number)))
}

/// The numbers that a checkpoint keeps as live, and their body bytes.
pub(crate) fn live(queue: &LedgerQueue) -> (RoaringTreemap, u64) {
    let checkpoint = queue.checkpoint();
    (checkpoint.live, checkpoint.bytes)
}
