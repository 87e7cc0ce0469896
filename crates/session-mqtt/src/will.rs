//! The will of a connection. One with a delay waits in a queue of its own, as in RabbitMQ, and is dead-lettered to its topic: it outlives
//! a restart. While the client is connected its will is a record in the ledger of sessions, so that it outlives a crash.

use std::sync::Arc;

use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_message::mqtt::routing_key;
use leveret_model::{Action, Permit, Refused};
use leveret_mqtt::PropertyList;

use super::session::Session;
use super::session_record::{RecordSlot, RecordedWill, SessionRecord};
use super::stored_will::{StoredWill, queue_name};
use super::submitted::Submitted;
use super::wills::{self, DelayedWill};

impl Session {
    /// Records the will. Returns the condition under which it outlives a crash.
    pub(crate) fn record_will(&mut self, now: Now) -> WaitFor {
        let Some(will) = self.will.get() else { return WaitFor::default() };
        let recorded = RecordedWill {
            will: will.clone(),
            user: self.client.identity.name().clone(),
            session_expiry_s: self.terms.session_expiry_s(),
        };
        let noted = self.note(&SessionRecord::Will(Box::new(recorded)), now);
        self.will.set_recorded(noted.is_some());
        noted.unwrap_or_default()
    }

    /// Publishes the will, after its delay or with the end of the session, whichever comes first [MQTT-3.1.3-9].
    pub(crate) fn publish_will(&mut self, now: Now) {
        let Some(will) = self.will.take() else { return };
        let delay_s = will.delay_s.min(self.terms.session_expiry_s());
        if delay_s > 0 {
            return self.delay_will(&will, delay_s, now);
        }
        let submitted = Submitted {
            topic: &will.topic,
            qos: will.qos,
            retain: will.retain,
            properties: PropertyList::written(&will.properties),
            payload: &will.payload,
            packet_id: 0,
            is_will: true,
            ends_will: self.will.is_recorded(),
        };
        if let Err(failure) = self.submit(&submitted, now) {
            self.tell_refused(&format!("the will isn't published: {}", failure.text));
        }
    }

    /// The record of the will isn't in force any more: it was dropped.
    pub(crate) fn end_recorded_will(&mut self, now: Now) {
        if self.will.take_recorded() {
            self.note(&SessionRecord::Over(RecordSlot::Will), now);
        }
    }

    fn delay_will(&mut self, will: &StoredWill, delay_s: u32, now: Now) {
        let exchange = self.shared.settings.exchange.clone();
        if let Err(refused) = self.may_delay(&exchange, &will.topic) {
            return self.tell_refused(&format!("the will isn't published: {refused}"));
        }
        let batch = Arc::new(wills::batch_of(will, self.terms.client_id(), &exchange, true, now));
        let sessions = if self.will.take_recorded() { self.sessions().queue() } else { None };
        let delayed = DelayedWill { topic: &will.topic, exchange: &exchange, batch, sessions, delay_s };
        wills::delay(&self.client.broker, &self.key(), delayed, now);
    }

    fn may_delay(&self, exchange: &str, topic: &str) -> Result<Permit, Refused> {
        let key = routing_key(topic);
        self.authorize(Action::PublishWith { exchange, routing_key: &key })?;
        let queue = queue_name(self.terms.client_id());
        self.authorize(Action::DeclareQueue { queue: &queue, dead_letter_exchange: Some(exchange) })
    }
}
