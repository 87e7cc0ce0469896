//! Queues whose messages only this node has are given the other members that they are to have: those that were declared before others joined.
//!
//! Each member does this for its own queues, since it alone knows when one is ready: a queue with messages in the log that this node's queues
//! share stays until they have left it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leveret_model::{Command, CommandOutcome, MemberNumber, Permit, Queue, QueueId};
use parking_lot::Mutex;

use crate::broker::Broker;
use crate::queue_handle::QueueRef;
use crate::registry::ChangeRequest;
use crate::time::Nanos;

/// Interval at which it is looked which queues are ready.
const LOOK_NS: Nanos = 1_000_000_000;
/// Time after one request to the next, so that queues which become ready one by one share placements.
const BETWEEN_NS: Nanos = 5_000_000_000;

/// The state of a node's requests.
#[derive(Debug, Default)]
pub(crate) struct Spreading {
    next_look: Mutex<Nanos>,
    is_asked: Arc<AtomicBool>,
    /// Queues for which an operator asked, and the member that is to have them.
    wanted: Mutex<BTreeMap<QueueId, MemberNumber>>,
    /// Queues of which it was logged that they stay for now.
    staying: Mutex<BTreeSet<QueueId>>,
}

impl Broker {
    /// Has queues that only this node has be given other members, this one among them, as an operator has asked: those that `matches`.
    pub fn spread_queues(&self, with: MemberNumber, matches: impl Fn(&Queue) -> bool) {
        let mut queues = self.registry.queues_to_spread(true);
        queues.retain(|queue| matches(queue));
        self.spreading.wanted.lock().extend(queues.iter().map(|queue| (queue.id, with)));
        *self.spreading.next_look.lock() = 0;
    }

    /// Asks for other members of this node's queues that are ready for them. Called now and then.
    pub(crate) fn tend_spreading(&self, now: Nanos) {
        {
            let mut next_look = self.spreading.next_look.lock();
            if now < *next_look || self.spreading.is_asked.load(Ordering::Acquire) {
                return;
            }
            *next_look = now + LOOK_NS;
        }
        let is_for_all = self.registry.has_its_size();
        let wanted = self.spreading.wanted.lock().clone();
        if !is_for_all && wanted.is_empty() {
            return;
        }
        let mut queues = if is_for_all { self.registry.queues_to_spread(false) } else { Vec::new() };
        let mut ids: BTreeSet<_> = queues.iter().map(|queue| queue.id).collect();
        if !wanted.is_empty() {
            let asked = self.registry.queues_to_spread(true);
            queues.extend(asked.into_iter().filter(|queue| wanted.contains_key(&queue.id) && ids.insert(queue.id)));
        }
        self.spreading.wanted.lock().retain(|id, _| ids.contains(id));
        let snapshot = self.registry.snapshot_full();
        let home = |queue: &Queue| snapshot.queues.get(&queue.id).and_then(QueueRef::home);
        let begins = |queue: &&Arc<Queue>| home(queue).is_some_and(|home| home.share_nothing());
        let beginning: Vec<_> = queues.iter().filter(begins).map(|queue| queue.id).collect();
        if !beginning.is_empty() {
            // Messages that were routed before have come by the next look.
            return self.registry.renew(&beginning);
        }
        let is_ready = |queue: &Arc<Queue>| home(queue).is_some_and(|home| home.is_ready_to_spread());
        let (mut ready, staying): (Vec<_>, Vec<_>) = queues.into_iter().partition(is_ready);
        self.tell_of_staying(&staying);
        let Some(first) = ready.first() else { return };
        // Queues for another member come next time.
        let with = wanted.get(&first.id).copied();
        ready.retain(|queue| wanted.get(&queue.id).copied() == with);
        *self.spreading.next_look.lock() = now + BETWEEN_NS;
        self.spreading.is_asked.store(true, Ordering::Release);
        let command = Command::SpreadQueues { queues: ready.iter().map(|queue| queue.id).collect(), with };
        let asked = self.spreading.is_asked.clone();
        let changed = self.registry.change(ChangeRequest::new(Permit::system(), command), now);
        changed.then(move |outcome| {
            asked.store(false, Ordering::Release);
            let named = |queue: &Arc<Queue>| format!("'{}' in vhost '{}'", queue.name, queue.vhost);
            match outcome {
                Ok(changed) if changed.outcome == CommandOutcome::Updated => {
                    for queue in &ready {
                        tracing::info!(
                            "quorum queue {} is replicated from now on: other members get its messages",
                            named(queue)
                        );
                    }
                }
                Ok(_) => {}
                Err(refused) => {
                    let first = ready.first().map(named).unwrap_or_default();
                    tracing::warn!(
                        "{} quorum queues, the first one {first}, aren't given other members yet: {refused}",
                        ready.len()
                    );
                }
            }
        });
    }

    fn tell_of_staying(&self, queues: &[Arc<Queue>]) {
        let mut staying = self.spreading.staying.lock();
        staying.retain(|id| queues.iter().any(|queue| queue.id == *id));
        for queue in queues {
            if staying.insert(queue.id) {
                tracing::warn!(
                    "quorum queue '{}' in vhost '{}' stays on this node alone for now: it has stopped, or it has messages that lie in the log \
                     which the node's queues share; it is replicated when they have left it",
                    queue.name,
                    queue.vhost
                );
            }
        }
    }
}
