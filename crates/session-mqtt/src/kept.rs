//! Retained messages for new subscriptions (MQTT 5, 3.3.1.3). Those of QoS 0 are sent from the store as the client reads; others go
//! through the session's queue, so that they are acknowledged and survive a reconnect like every message.

use std::sync::Arc;

use leveret_broker::queue_handle::Audience;
use leveret_broker::settings::TURN_BYTES_MAX;
use leveret_broker::time::Now;
use leveret_message::mqtt::{MqttHead, is_told_by_key, routing_key};
use leveret_message::overlay::Overlay;
use leveret_message::{BatchBuilder, BatchPart, Encoding, Envelope, StoredMessage};
use leveret_mqtt::{PropertyId, PropertyList, PropertyWriter, QoS};

use super::deliver::kept_origin;
use super::retained::Retained;
use super::search::Search;
use super::session::Session;
use super::subscriptions::{Level, Matched};

/// Retained messages that are sent in one step.
const STEP_MESSAGES: usize = 100;

impl Session {
    /// Whether retained messages are to be sent.
    pub(crate) fn has_kept(&self) -> bool {
        !self.searches.is_empty() && self.client.output.len() < TURN_BYTES_MAX
    }

    /// Sends retained messages, as far as the turn allows.
    pub(crate) fn send_retained(&mut self, now: Now) {
        while self.has_kept()
            && !self.client.budget.is_spent()
            && let Some(mut search) = self.searches.pop_front()
        {
            let (streams, ledger) = (&self.client.broker.streams, self.shared.ledgers.of(&self.client.vhost).retained);
            let (found, more) = {
                let mut kept = ledger.records();
                kept.settle_changes(&|wait| streams.end(wait).map(|end| end.is_reached()));
                kept.matching(&search.filter, search.after.as_deref(), STEP_MESSAGES, now.wall_ms)
            };
            self.client.budget.spend(leveret_broker::turn_budget::CONTROL);
            let mut queued = BatchBuilder::default();
            for message in found {
                match search.qos.min(message.qos) {
                    QoS::AtMostOnce => self.send_at_once(&search, &message, now),
                    _ => push(&mut queued, &message, &self.shared.settings.exchange, now),
                }
            }
            self.queue_retained(queued, now);
            if more.is_some() {
                search.after = more;
                self.searches.push_front(search);
            }
        }
    }

    fn send_at_once(&mut self, search: &Search, message: &Retained, now: Now) {
        let mut properties = Vec::new();
        let mut writer = PropertyWriter::begin(&mut properties);
        if message.expiry_ms != 0 {
            let left_ms = message.expiry_ms.saturating_sub(now.wall_ms);
            let left_s = u32::try_from(left_ms.div_ceil(1000)).unwrap_or(u32::MAX);
            writer.number(PropertyId::MessageExpiryInterval, left_s);
        }
        writer.raw(&message.properties);
        let matched = Matched { qos: QoS::AtMostOnce, retain_as_published: true, ids: search.id.into_iter().collect() };
        self.send_kept(&kept_origin(&message.topic, message.qos), &matched, &properties, &message.payload);
    }

    fn queue_retained(&mut self, mut queued: BatchBuilder, now: Now) {
        let Some(consumer) = self.consumers.get(Level::One).filter(|_| !queued.is_empty()) else {
            return;
        };
        let batch = Arc::new(queued.finish());
        let published = consumer.queue().publish(BatchPart::whole(&batch), true, Audience::Alone, now.monotonic);
        self.client.undurable.note_published(&published, consumer.queue(), batch.memory() as u64);
    }
}

fn push(queued: &mut BatchBuilder, message: &Retained, exchange: &str, now: Now) {
    let mut properties = Vec::new();
    let head = MqttHead {
        qos: message.qos,
        retain: true,
        kept: true,
        client_id: &message.client_id,
        topic: (!is_told_by_key(&message.topic)).then_some(&*message.topic),
        properties: PropertyList::written(&message.properties),
    };
    head.write(&mut properties);
    let envelope = Envelope {
        durable: true,
        priority: None,
        exchange: exchange.as_bytes(),
        routing_key: &routing_key(&message.topic),
        received_ms: now.wall_ms,
        expiry_ms: message.expiry_ms,
    };
    let overlay = Overlay::new(&[]);
    queued.push_message(&StoredMessage {
        encoding: Encoding::Mqtt,
        envelope,
        overlay,
        properties: &properties,
        body: &message.payload,
    });
}
