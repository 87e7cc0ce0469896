//! Link credit (AMQP 1.0, 2.6.7): granted by the receiver, counted down by deliveries alone, drained on request.

use crate::consumer_id::ConsumerId;
use crate::dispatch::{ConsumerFlow, CreditState};
use crate::effects::{Effects, Signal};
use crate::ledger_queue::LedgerQueue;
use crate::nanos::Nanos;

impl LedgerQueue {
    /// Applies a receiver's flow, see [`crate::Flow::Credit`]. Returns the resulting state of the link; `None` if the consumer
    /// is gone.
    pub(super) fn grant(
        &mut self,
        id: ConsumerId,
        (delivery_count, link_credit): (u32, u32),
        drain: bool,
        now: Nanos,
        effects: &mut Effects,
    ) -> Option<CreditState> {
        let ready = self.available_to(self.consumers.look(id)?);
        let consumer = self.consumers.find(id)?;
        if matches!(consumer.options.flow, ConsumerFlow::Prefetch(_)) {
            return Some(CreditState::default());
        }
        let before = consumer.credit();
        consumer.grant(delivery_count, link_credit);
        let at_once = drain && (consumer.credit() == 0 || ready == 0);
        if at_once {
            consumer.use_up_credit();
        }
        if (before == 0) != (consumer.credit() == 0) {
            consumer.changed = now;
        }
        let state = consumer.credit_state(ready);
        self.consumers.credit_changed(id, drain && !at_once);
        self.tell_activity(id, effects);
        self.schedule(effects);
        Some(state)
    }

    /// Ends the drains of consumers that have no messages left to receive.
    pub(super) fn finish_drains(&mut self, effects: &mut Effects) {
        if !self.consumers.any_draining() {
            return;
        }
        let ready = self.ready.messages();
        let numbers = self.ready.numbers(&self.ledger);
        while let Some(id) = self.consumers.pop_drained(ready, |from| numbers.next(from).is_some()) {
            self.consumers.update(id, |consumer| {
                consumer.use_up_credit();
                let CreditState { delivery_count, available, .. } = consumer.credit_state(ready);
                let signal = Signal::Drained { key: consumer.options.key, delivery_count, available };
                effects.signals.push((consumer.options.link.clone(), signal));
            });
        }
    }
}
