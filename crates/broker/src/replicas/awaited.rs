//! The single active consumers that a leader's queues wait for.
//!
//! The records of a queue name its active consumer. If that isn't registered at the leader, it may still be served where its client is,
//! by what it was given before: no other consumer becomes active until it is known to be gone, or a time is over.

use std::collections::BTreeMap;

use leveret_model::QueueId;
use leveret_queue::ConsumerId;
use parking_lot::Mutex;

use crate::time::Nanos;

/// The consumers that are waited for, by queue.
#[derive(Default)]
pub(crate) struct AwaitedConsumers(Mutex<BTreeMap<QueueId, Awaiting>>);

/// A consumer that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awaiting {
    pub(crate) id: ConsumerId,
    pub(crate) since: Nanos,
    /// Whether its node was asked for it and hasn't answered.
    is_asked: bool,
}

impl AwaitedConsumers {
    /// A queue waits for its active consumer.
    pub(crate) fn put(&self, queue: QueueId, id: ConsumerId, now: Nanos) {
        let mut all = self.0.lock();
        // One that has been waited for is asked for again, and isn't given more time.
        let since = all.get(&queue).filter(|before| before.id == id).map_or(now, |before| before.since);
        all.insert(queue, Awaiting { id, since, is_asked: false });
    }

    /// The queue doesn't wait for this one any more.
    pub(crate) fn remove(&self, queue: QueueId, id: ConsumerId) {
        let mut all = self.0.lock();
        if all.get(&queue).is_some_and(|awaiting| awaiting.id == id) {
            all.remove(&queue);
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<(QueueId, Awaiting)> {
        self.0.lock().iter().map(|(queue, awaiting)| (*queue, *awaiting)).collect()
    }

    /// The node of this one is about to be asked for it, or has answered. Returns whether that is news.
    pub(crate) fn asked(&self, queue: QueueId, id: ConsumerId, is_asked: bool) -> bool {
        let mut all = self.0.lock();
        let awaiting = all.get_mut(&queue).filter(|awaiting| awaiting.id == id);
        awaiting.is_some_and(|awaiting| std::mem::replace(&mut awaiting.is_asked, is_asked) != is_asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_is_asked_for_once_at_a_time() {
        let (all, queue, id) = (AwaitedConsumers::default(), QueueId(1), ConsumerId(7));
        all.put(queue, id, 5);
        assert!(all.asked(queue, id, true) && !all.asked(queue, id, true));
        assert!(!all.asked(queue, ConsumerId(8), false), "an answer about an earlier one");
        assert!(all.asked(queue, id, false) && all.asked(queue, id, true));
        all.put(queue, id, 9);
        assert_eq!(all.all(), [(queue, Awaiting { id, since: 5, is_asked: false })]);
        all.remove(queue, ConsumerId(8));
        assert_eq!(all.all().len(), 1);
        all.remove(queue, id);
        assert_eq!(all.all(), []);
    }
}
