//! The machine of a replicated queue while this node leads it.

use std::sync::Arc;

use leveret_message::BatchPart;
use leveret_model::{EffectiveQueue, Queue as QueueInfo};
use leveret_queue::{Effects, Queue, Replica};

use super::{Audience, LocalQueue, QueueHandle};
use crate::publish_origin::{self, OriginTurn, PublishOrigin};
use crate::published::PublishedHere;
use crate::queue_stream::QueueStream;
use crate::replicas::PlacedStream;
use crate::services::Services;
use crate::streams::StoreRef;
use crate::time::Nanos;

impl QueueHandle {
    /// The machine of a replicated queue, whose records are appended to this stream, and whose messages are in this store.
    pub(crate) fn open_in(
        info: Arc<QueueInfo>,
        effective: EffectiveQueue,
        replica: Replica,
        services: &Services,
        (stream, store): (Arc<PlacedStream>, StoreRef),
        now: Nanos,
    ) -> LocalQueue {
        let surroundings = Self::surroundings(services);
        let queue = Queue::new(effective.options(&info).clone(), true, replica, surroundings, now);
        Self::with_machine(info, effective, queue, services, (QueueStream::Placement(stream), store))
    }

    /// Offers messages of a writer to the machine of a replicated queue. `None` if it can't take them.
    pub(crate) fn publish_of(
        self: &Arc<Self>,
        origin: PublishOrigin,
        part: BatchPart<'_>,
        persistent: bool,
        audience: Audience,
        now: Nanos,
    ) -> Option<PublishedHere> {
        let placement = self.stream.placement()?;
        match placement.begin(origin) {
            OriginTurn::Lost => return None,
            OriginTurn::Repeated(ticket, accepted) => {
                let accepted = accepted.min(part.count);
                return Some(PublishedHere { accepted, awaited: ticket.into(), ..PublishedHere::none() });
            }
            OriginTurn::New => {}
        }
        let published =
            publish_origin::publishing(origin, part.count, || self.publish(part, persistent, audience, now));
        self.taps.put(&self.info, part.first(published.taken()), now);
        if published.accepted < part.count {
            if placement.is_over() {
                return None;
            }
            placement.refused(origin, published.accepted);
        }
        Some(published)
    }

    /// The node doesn't lead the queue's placement any more: the machine is over, and nobody is told. The messages are in the replicas, and
    /// the consumers are registered at the next leader.
    pub(crate) fn step_down(self: &Arc<Self>) {
        {
            let mut queue = self.inner.lock();
            // Its effects are dropped: nobody hears of it.
            queue.fail("another node leads the queue".to_owned(), &mut Effects::default());
        }
        self.place.vacate();
        self.deferred.forget(self);
        self.reads.dead_letters_left();
        self.fail_moves();
    }
}
