//! The effective arguments of a queue, which change with policies.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leveret_model::EffectiveQueue;

use super::QueueHandle;
use crate::time::Nanos;

impl QueueHandle {
    /// Its effective arguments.
    pub(crate) fn effective(&self) -> Arc<EffectiveQueue> {
        self.effective.load_full()
    }

    /// Takes over newer effective arguments.
    pub(crate) fn configure(self: &Arc<Self>, effective: EffectiveQueue, now: Nanos) {
        let is_same = self.effective.load().options(&self.info) == effective.options(&self.info);
        let effective = Arc::new(effective);
        if is_same {
            let _queue = self.inner.lock();
            return self.effective.store(effective);
        }
        self.with(|queue, effects| {
            self.effective.store(effective.clone());
            queue.configure(effective.options(&self.info), now, effects);
        });
    }

    /// From now on it may dead-letter what it refuses, so that bodies have to be in memory. Returns whether they didn't before.
    pub(crate) fn begin_to_copy_refused(&self) -> bool {
        !self.copies_refused.swap(true, Ordering::Relaxed)
    }
}
