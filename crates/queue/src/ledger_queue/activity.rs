//! The single active consumer: its election, and the notice to receivers that became active or inactive.

use crate::consumer_id::ConsumerId;
use crate::dispatch::ConsumerMode;
use crate::effects::{Effects, Signal};
use crate::ledger_queue::LedgerQueue;
use crate::nanos::Nanos;
use crate::pending::{Awaited, Place, Watermarks};

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
        if let Some(id) = self.consumers.single().and_then(|single| single.to_be_named()) {
            effects.rare_mut().activate = Some(id);
        }
    }

    /// For a replicated queue, whose records name the active consumer: so far they name this one. If it doesn't come it is waited for.
    pub fn name_active(&mut self, id: Option<ConsumerId>) {
        if let Some(single) = self.consumers.single() {
            single.name(id);
        }
    }

    /// The record was appended that [`crate::RareEffects::activate`] asked for.
    pub fn active_logged(&mut self, place: Place) {
        if let Some(single) = self.consumers.single() {
            single.naming(Awaited::At(place));
        }
    }

    /// Has the consumer be served whose record is reached.
    pub(super) fn apply_active(&mut self, reached: Watermarks, effects: &mut Effects) {
        let Some(single) = self.consumers.single() else { return };
        let changes = single.apply(reached);
        if changes.is_empty() {
            return;
        }
        let now = self.changed;
        for id in self.consumers.change_activities(changes, now) {
            self.tell_activity(id, effects);
        }
        self.schedule(effects);
    }

    /// The consumer that the queue waits for, since it may be active elsewhere. Until it comes nobody is served.
    pub fn awaited_active(&self) -> Option<ConsumerId> {
        self.consumers.awaited_active()
    }

    /// The link to the node of these consumers has ended, and they are about to be removed. The active one among them may still be served
    /// there: it is waited for.
    pub fn lose(&mut self, consumers: &[ConsumerId]) {
        if let Some(single) = self.consumers.single() {
            consumers.iter().for_each(|id| single.lose(*id));
        }
    }

    /// The consumer that is waited for is gone: the next one is active.
    pub fn stop_awaiting(&mut self, id: ConsumerId, now: Nanos, effects: &mut Effects) {
        if self.consumers.single().is_some_and(|single| single.stop_awaiting(id)) {
            self.elect(now, effects);
            self.schedule(effects);
        }
    }

    /// The registration number of a consumer, by which it keeps its place in their order at another leader.
    pub fn registration(&self, id: ConsumerId) -> Option<u64> {
        self.consumers.look(id).map(|consumer| consumer.registered)
    }

    /// Registration numbers are higher than this one from now on.
    pub fn register_from(&mut self, number: u64) {
        self.consumers.register_from(number);
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
