//! The single active consumer: its election, and the notice to receivers that became active or inactive.

use crate::consumer_id::ConsumerId;
use crate::dispatch::ConsumerMode;
use crate::effects::{Effects, Signal};
use crate::ledger_queue::LedgerQueue;
use crate::nanos::Nanos;

impl LedgerQueue {
    /// Elects the single active consumer, if the queue has one, after consumers came or left or deliveries were settled. Call
    /// [`LedgerQueue::schedule`] afterwards.
    #[inline]
    pub(super) fn elect(&mut self, now: Nanos, effects: &mut Effects) {
        if self.consumers.has_single_active() {
            self.elect_one(now, effects);
        }
    }

    #[inline(never)]
    fn elect_one(&mut self, now: Nanos, effects: &mut Effects) {
        for id in self.consumers.elect(now) {
            self.tell_activity(id, effects);
        }
    }

    /// Tells a receiver whether it is active, unless it was told so before.
    pub(super) fn tell_activity(&mut self, id: ConsumerId, effects: &mut Effects) {
        let Some(consumer) = self.consumers.look(id) else { return };
        let active = consumer.activity.is_active();
        let is_receiver = consumer.options.flow.is_credit() && consumer.options.mode == ConsumerMode::Move;
        if !self.rules.tells_activity || !is_receiver || consumer.told == Some(active) {
            return;
        }
        let available = u32::try_from(self.available_to(consumer)).unwrap_or(u32::MAX);
        let Some(consumer) = self.consumers.find(id) else { return };
        consumer.told = Some(active);
        consumer.activity_changes = consumer.activity_changes.wrapping_add(1);
        let (key, change) = (consumer.options.key, consumer.activity_changes);
        effects.signals.push((consumer.options.link.clone(), Signal::Activity { key, active, change, available }));
    }
}
