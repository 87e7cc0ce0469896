//! Settled deliveries grouped by their queues.

use leveret_queue::{ConsumerId, Run, push_sized};
use rustc_hash::FxHashMap;

use super::sources::Source;
use leveret_broker::queue_handle::{QueueKey, QueueRef};

/// Settled deliveries of one queue, grouped by the consumer that had them.
pub(crate) struct OfQueue {
    pub queue: QueueRef,
    pub settled: Vec<(Option<ConsumerId>, Vec<Run>)>,
    /// Consumers of the channel that end.
    pub ended: Vec<ConsumerId>,
}

/// Settled deliveries grouped by queue, so that each queue's lock is taken once.
#[derive(Default)]
pub(crate) struct ByQueue {
    queues: Vec<OfQueue>,
    /// Index of each entry, by the queue that it keeps.
    places: FxHashMap<QueueKey, usize>,
}

impl ByQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// The entry of this queue, which is added if it is missing.
    pub(super) fn of(&mut self, queue: &QueueRef) -> &mut OfQueue {
        let queues = &mut self.queues;
        let at = *self.places.entry(queue.key()).or_insert_with(|| {
            queues.push(OfQueue { queue: queue.clone(), settled: Vec::new(), ended: Vec::new() });
            queues.len() - 1
        });
        &mut self.queues[at]
    }

    pub(super) fn add(&mut self, source: &Source, runs: Vec<Run>) {
        let settled = &mut self.of(&source.queue).settled;
        match settled.last_mut() {
            Some((consumer, last)) if *consumer == source.consumer => {
                runs.into_iter().for_each(|run| push_sized(last, run));
            }
            _ => settled.push((source.consumer, runs)),
        }
    }

    /// Takes out all entries, in the order in which they were added.
    pub(super) fn take(&mut self) -> Vec<OfQueue> {
        self.places.clear();
        std::mem::take(&mut self.queues)
    }
}
