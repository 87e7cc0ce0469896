//! Link credit (AMQP 1.0, 2.6.7): granted by the receiver, counted down by deliveries alone, drained on request.

use crate::Nanos;
use crate::consumer::{ConsumerFlow, CreditState};
use crate::consumer_id::ConsumerId;
use crate::effects::{Effects, Signal};
use crate::ledger_queue::ClassicQueue;
use crate::ledger_queue::browse::Ready;

impl ClassicQueue {
    /// A receiver's flow: it counted `delivery_count` deliveries (the link's initial delivery-count while it
    /// knows of none) and allows `link_credit` more. Returns the link's state as of then.
    ///
    /// With `drain`, what is ready is delivered as far as the credit goes, and then the rest of the credit is
    /// used up. A returned credit of 0 says that this is done; otherwise [`Signal::Drained`] follows, after the
    /// last delivery. A consumer with a prefetch has no link credit, and nothing changes.
    pub fn grant(
        &mut self,
        id: ConsumerId,
        delivery_count: u32,
        link_credit: u32,
        drain: bool,
        now: Nanos,
        effects: &mut Effects,
    ) -> CreditState {
        let Some(consumer) = self.consumers.look(id) else { return CreditState::default() };
        let ready = self.available_to(consumer);
        let Some(consumer) = self.consumers.find(id) else { return CreditState::default() };
        if matches!(consumer.options.flow, ConsumerFlow::Prefetch(_)) {
            return CreditState::default();
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
        self.schedule(effects);
        state
    }

    /// Ends the drains of consumers that nothing is left for.
    pub(crate) fn finish_drains(&mut self, effects: &mut Effects) {
        if !self.consumers.any_draining() {
            return;
        }
        let ready = self.ready.messages;
        let numbers = Ready { ledger: &self.ledger, returned: &self.returned, cursor: self.cursor };
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
