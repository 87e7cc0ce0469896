//! Consumers are added, and what one never got returns.

use leveret_broker::asked::NowOrLater;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::remote::HomeAnswer;
use leveret_broker::settlement::Settlement;
use leveret_broker::time::Nanos;
use leveret_log::Wait;
use leveret_queue::{ConsumerId, ConsumerOptions, Deliveries, Run};

use super::HomeSession;

impl HomeSession {
    /// Takes over messages that a holder had when the leader changed.
    pub(super) fn take_over(&mut self, number: u64, queue: &QueueRef, consumer: Option<ConsumerId>, runs: &[Run]) {
        // It may have come before, to the same leadership.
        let mut held = self.consumers.settled(queue, consumer, runs);
        held.extend(queue.take_over(self.member, runs));
        self.consumers.hold(queue, consumer, held.clone());
        self.answer(number, NowOrLater::Now(held), HomeAnswer::TakenOver);
    }

    /// Adds a consumer.
    pub(super) fn consume(
        &mut self,
        number: u64,
        queue: &QueueRef,
        (id, options): (ConsumerId, ConsumerOptions),
        (held, registered): (&[Run], Option<u64>),
        now: Nanos,
    ) {
        // Of what it got here, or was [taken over](HomeQuestion::Hold), the other node doesn't have the rest, or never did.
        let kept = self.consumers.settled(queue, Some(id), held);
        let left = self.consumers.all_of(queue, Some(id));
        let is_known = self.consumers.is_known(id, queue);
        // Its node may register it again with a leader that it has lost sight of.
        let registered = registered.or_else(|| if is_known { queue.registration(id) } else { None });
        if is_known {
            queue.lose(&[id], now);
        }
        give_back(Some(id), queue, &left, now);
        if is_known {
            // It isn't gone, so that its queue isn't deleted with it.
            let _ = queue.cancel(id, now);
        }
        self.consumers.add(id, queue.clone(), &options);
        let answer = queue.consume_with(id, options, (&kept, registered), now);
        if matches!(answer, NowOrLater::Now(Err(_))) {
            self.consumers.remove(id);
        } else if !kept.is_empty() {
            self.consumers.hold(queue, Some(id), kept);
        }
        self.answer(number, answer, HomeAnswer::Consumed);
    }

    /// Messages return that a consumer's client never got.
    pub(super) fn requeue(&mut self, consumer: Option<ConsumerId>, queue: &QueueRef, runs: &[Run], now: Nanos) {
        let runs = self.consumers.settled(queue, consumer, runs);
        give_back(consumer, queue, &runs, now);
    }
}

/// Messages that a consumer had are ready again.
pub(super) fn give_back(consumer: Option<ConsumerId>, queue: &QueueRef, runs: &[Run], now: Nanos) {
    if !runs.is_empty() {
        let how = Settlement::Requeue { failed: false };
        queue.settle(Deliveries::of(consumer, runs), how, Wait::Lazy, now);
    }
}
