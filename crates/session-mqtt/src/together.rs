//! Messages for several queues that are there together after a crash, or not at all: a message and the record that it came.

use std::sync::Arc;

use leveret_broker::broker::Broker;
use leveret_broker::group::Group;
use leveret_broker::queue_handle::{Acceptance, QueueRef};
use leveret_broker::ticket::Awaited;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_log::Wait;
use leveret_message::{Batch, BatchPart};
use smallvec::SmallVec;

/// The result of publishing together.
pub(crate) struct Together {
    /// The condition under which all is safe.
    pub wait: WaitFor,
    /// Whether a queue is known not to have taken its message.
    pub is_refused: bool,
}

/// Publishes to each queue its batch, as one group in each commit stream. `applied_at` gets the place at which a queue has to be applied.
pub(crate) fn publish<'a>(
    all: impl IntoIterator<Item = (&'a QueueRef, &'a Arc<Batch>)>,
    now: Now,
    mut applied_at: impl FnMut(Awaited, &QueueRef),
) -> Together {
    let mut groups: SmallVec<[Group; 1]> = SmallVec::new();
    let mut offered: SmallVec<[(&QueueRef, Awaited); 4]> = SmallVec::new();
    let mut together = Together { wait: WaitFor::default(), is_refused: false };
    for (queue, batch) in all {
        let at = groups.iter().position(|group| group.stream() == queue.stream().id()).unwrap_or_else(|| {
            groups.push(Group::new(queue.stream().id()));
            groups.len() - 1
        });
        let published = queue.publish_in(&mut groups[at], BatchPart::whole(batch), true, now.monotonic);
        together.is_refused |=
            matches!(published.acceptance, Acceptance::Known(accepted) if (accepted as usize) < batch.len());
        together.wait.and_publish(published.awaited, &published.acceptance);
        offered.push((queue, published.awaited));
    }
    for group in groups {
        together.wait.and(group.close(Wait::Confirm).into());
    }
    for (queue, awaited) in offered {
        if !awaited.is_nothing() {
            applied_at(awaited, queue);
        }
    }
    together
}

/// As [`publish`], without a connection that applies the queues.
pub(crate) fn publish_alone<'a>(
    broker: &Arc<Broker>,
    all: impl IntoIterator<Item = (&'a QueueRef, &'a Arc<Batch>)>,
    now: Now,
) {
    publish(all, now, |awaited, queue| broker.streams.notify(awaited.synced(), queue.waiter()));
    broker.streams.announce();
}
