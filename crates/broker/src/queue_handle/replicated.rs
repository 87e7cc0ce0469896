//! The machine of a replicated queue while this node leads it.

use std::borrow::Cow;
use std::sync::Arc;

use leveret_log::Wait;
use leveret_message::BatchPart;
use leveret_model::{EffectiveQueue, MemberNumber, Queue as QueueInfo};
use leveret_queue::{
    ConsumerId, ConsumerOptions, Control, Deliveries, Earlier, Effects, LedgerQueue, NoConsumer, Queue, Replica, Run,
    Signal,
};

use super::{Audience, LocalQueue, QueueHandle};
use crate::claims::{Claims, latest_first};
use crate::planted::{Bug, is_planted};
use crate::publish_origin::{self, PublishOrigin};
use crate::published::PublishedHere;
use crate::queue_stream::QueueStream;
use crate::replicas::{OriginTurn, PlacedStream};
use crate::services::Services;
use crate::streams::StoreRef;
use crate::time::Nanos;

impl QueueHandle {
    /// The machine of a replicated queue, whose records are appended to this stream, and whose messages are in this store. The clients of
    /// these members hold some of them.
    pub(crate) fn open_in(
        info: Arc<QueueInfo>,
        effective: EffectiveQueue,
        replica: Replica,
        services: &Services,
        (stream, store): (Arc<PlacedStream>, StoreRef),
        held: &[(MemberNumber, Claims)],
        now: Nanos,
    ) -> LocalQueue {
        let surroundings = Self::surroundings(services);
        let (delivered_below, active) = (replica.delivered_below, replica.parts.active);
        let mut queue = Queue::new(effective.options(&info).clone(), true, replica, surroundings, now);
        if let Some(ledger) = queue.ledger_mut().filter(|_| !is_planted(Bug::IgnoreHeld)) {
            for (member, runs) in latest_first(held) {
                stream.reports.put(info.id, member, ledger.hold(&runs));
            }
        }
        if let Some(ledger) = queue.ledger_mut() {
            ledger.mark_deliveries(delivered_below);
            ledger.name_active(active);
            ledger.register_from(stream.term() << 32);
            if let Some(id) = ledger.awaited_active() {
                stream.awaited.put(info.id, id, now);
            }
        }
        Self::with_machine(info, effective, queue, services, (QueueStream::Placement(stream), store))
    }

    /// Logs that nothing was handed out behind what was, before another node leads.
    pub(crate) fn lower_mark(&self) {
        let mut queue = self.inner.lock();
        if let Some(below) = queue.ledger_mut().and_then(LedgerQueue::lower_mark) {
            self.log_control(&Control::Mark(Cow::Owned(below)), Wait::Confirm);
        }
    }

    /// The leader goes on after all: messages are handed out again.
    pub(crate) fn resume_mark(&self) {
        if let Some(ledger) = self.inner.lock().ledger_mut() {
            ledger.resume_mark();
        }
        self.wake_consumers();
    }

    /// Logs a mark that is to be reached before messages behind the present one are handed out.
    pub(super) fn log_mark(&self, queue: &mut Queue, below: u64) {
        let ticket = self.log_control(&Control::Mark(Cow::Owned(below)), Wait::Confirm);
        if let Some(ledger) = queue.ledger_mut() {
            ledger.mark_logged(below, ticket.place());
        }
    }

    /// Logs the active consumer, which is served once that is reached.
    pub(super) fn log_active(&self, queue: &mut Queue, id: Option<ConsumerId>) {
        // If nobody is active, nobody waits for it.
        let wait = if id.is_some() { Wait::Confirm } else { Wait::Lazy };
        let ticket = self.log_control(&Control::Active(Cow::Owned(id.map_or(0, |id| id.0))), wait);
        if let Some(ledger) = queue.ledger_mut() {
            ledger.active_logged(ticket.place());
        }
    }

    /// The link to the node of these consumers has ended, and they are about to leave.
    pub(crate) fn lose(&self, consumers: &[ConsumerId], now: Nanos) {
        let mut queue = self.inner.lock();
        let Some(ledger) = queue.ledger_mut() else { return };
        ledger.lose(consumers);
        if let (Some(id), Some(placement)) = (ledger.awaited_active(), self.stream.placement()) {
            placement.awaited.put(self.info.id, id, now);
        }
    }

    /// The consumer that nobody else is served for, since it may be served elsewhere.
    pub(crate) fn awaited_active(&self) -> Option<ConsumerId> {
        self.inner.lock().ledger()?.awaited_active()
    }

    /// That consumer is gone.
    pub(crate) fn stop_awaiting(self: &Arc<Self>, id: ConsumerId, now: Nanos) {
        self.with(|queue, effects| {
            if let Some(ledger) = queue.ledger_mut() {
                ledger.stop_awaiting(id, now, effects);
            }
        });
    }

    /// The registration number of a consumer; 0 if it isn't there.
    pub(crate) fn registration(&self, id: ConsumerId) -> u64 {
        self.inner.lock().ledger().and_then(|ledger| ledger.registration(id)).unwrap_or(0)
    }

    /// Hands messages out again once the record that was logged last is reached.
    pub(super) fn go_on_at_mark(self: &Arc<Self>) {
        if let Some(placement) = self.stream.placement() {
            let queue = Arc::downgrade(self);
            let apply = move || _ = queue.upgrade().map(|queue| queue.apply());
            placement.when_applied(self.last_record.get(), Box::new(apply));
        }
    }

    /// A consumer of a member comes with messages that it holds. Returns those of them that the member had reported, and that nobody else has.
    pub(crate) fn take_over(&self, member: MemberNumber, runs: &[Run]) -> Vec<Run> {
        let placement = self.stream.placement();
        placement.map_or_else(Vec::new, |placement| placement.reports.take(self.info.id, member, runs))
    }

    /// Adds a consumer that has taken these messages over, with its registration number from an earlier leader.
    pub(crate) fn add_consumer_with(
        self: &Arc<Self>,
        id: ConsumerId,
        options: ConsumerOptions,
        (runs, registered): (&[Run], Option<u64>),
        now: Nanos,
    ) -> Result<(), NoConsumer> {
        let holds: u64 = runs.iter().map(Run::count).sum();
        let earlier = Earlier { holds: u32::try_from(holds).unwrap_or(u32::MAX), registered };
        let added = self.add_consumer_again(id, options, earlier, now);
        if added.is_err() {
            self.requeue(Deliveries::of(None, runs), false, now);
        }
        added
    }

    /// Its consumers look for messages again.
    pub(crate) fn wake_consumers(&self) {
        let queue = self.inner.lock();
        for (_, options) in queue.ledger().into_iter().flat_map(LedgerQueue::consumers) {
            options.link.signal(Signal::Scheduled(options.key));
        }
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
        let _begun = match placement.begin(origin) {
            OriginTurn::Lost => return None,
            OriginTurn::Repeated(ticket, accepted) => {
                let accepted = accepted.min(part.count);
                return Some(PublishedHere { accepted, awaited: ticket.into(), ..PublishedHere::none() });
            }
            OriginTurn::New(begun) => begun,
        };
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
        let mut effects = Effects::default();
        self.inner.lock().fail("another node leads the queue".to_owned(), &mut effects);
        // Only those hear of it who wait for a message to be read: they ask again.
        for (link, signal) in effects.signals.drain(..) {
            if matches!(signal, Signal::Loaded(_)) {
                link.signal(signal);
            }
        }
        self.place.vacate();
        self.deferred.forget(self);
        self.reads.dead_letters_left();
        self.fail_moves();
    }
}
