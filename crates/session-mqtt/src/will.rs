//! Wills. One with a delay waits in a queue of its own, as in RabbitMQ, and is dead-lettered to its topic: it outlives a restart.

use std::sync::Arc;

use leveret_broker::queue_handle::Audience;
use leveret_broker::registry::ChangeRequest;
use leveret_broker::time::Now;
use leveret_message::mqtt::{MqttHead, is_told_by_key, routing_key};
use leveret_message::overlay::Overlay;
use leveret_message::{BatchBuilder, BatchPart, Encoding, Envelope, StoredMessage};
use leveret_model::{Action, Arguments, Command, DeclareQueue, Value};
use leveret_mqtt::PropertyList;

use super::session::Session;
use super::stored_will::{StoredWill, queue_name};
use super::submitted::Submitted;

/// Milliseconds for which the queue of a will stays after its message left.
const QUEUE_STAYS_MS: i64 = 600_000;

impl Session {
    /// Publishes the will, after its delay or with the end of the session, whichever comes first [MQTT-3.1.3-9].
    pub(crate) fn publish_will(&mut self, now: Now) {
        let Some(will) = self.will.take() else { return };
        let delay_s = will.delay_s.min(self.expiry_s);
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
        };
        if let Err(failure) = self.submit(&submitted, now) {
            self.tell_refused(&format!("the will isn't published: {}", failure.text));
        }
    }

    fn delay_will(&mut self, will: &StoredWill, delay_s: u32, now: Now) {
        let exchange = self.shared.settings.exchange.clone();
        let (queue, key) = (queue_name(&self.client_id), routing_key(&will.topic));
        let publish = Action::PublishWith { exchange: &exchange, routing_key: &key };
        let declare = Action::DeclareQueue { queue: &queue, dead_letter_exchange: Some(&exchange) };
        let permit = match self.authorize(publish).and_then(|_| self.authorize(declare)) {
            Ok(permit) => permit,
            Err(refused) => return self.tell_refused(&format!("the will isn't published: {refused}")),
        };
        let delay_ms = i64::from(delay_s) * 1000;
        let arguments = Arguments::from_iter([
            ("x-message-ttl", Value::Int(delay_ms)),
            ("x-expires", Value::Int(delay_ms + QUEUE_STAYS_MS)),
            ("x-dead-letter-exchange", Value::from(&*exchange)),
            ("x-dead-letter-routing-key", Value::string(&key)),
        ]);
        let declare = DeclareQueue::durable(self.client.vhost.clone(), queue, arguments);
        let request = ChangeRequest::new(permit, Command::DeclareQueue(declare));
        let batch = Arc::new(self.delayed(will, &exchange, &key, now).finish());
        let broker = self.client.broker.clone();
        // The connection may be gone by then.
        self.client.broker.registry.change(request, now.monotonic).then(move |outcome| {
            let Some(queue) = outcome.ok().and_then(|changed| changed.declared) else { return };
            let published = queue.publish(BatchPart::whole(&batch), true, Audience::Alone, now.monotonic);
            broker.call_after(published.awaited.into(), move |_| queue.apply());
        });
    }

    fn delayed(&self, will: &StoredWill, exchange: &str, key: &[u8], now: Now) -> BatchBuilder {
        let given = PropertyList::written(&will.properties);
        let head = MqttHead {
            qos: will.qos,
            retain: will.retain,
            kept: false,
            client_id: &self.client_id,
            topic: (!is_told_by_key(&will.topic)).then_some(&*will.topic),
            properties: given,
        };
        let mut properties = Vec::new();
        head.write(&mut properties);
        let envelope = Envelope {
            durable: true,
            priority: None,
            exchange: exchange.as_bytes(),
            routing_key: key,
            received_ms: now.wall_ms,
            // Its own time to live would end it in its queue.
            expiry_ms: 0,
        };
        let mut builder = BatchBuilder::default();
        builder.push_message(&StoredMessage {
            encoding: Encoding::Mqtt,
            envelope,
            overlay: Overlay::new(&[]),
            properties: &properties,
            body: &will.payload,
        });
        builder
    }
}
