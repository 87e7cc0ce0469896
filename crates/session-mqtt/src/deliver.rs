//! Deliveries: messages that the queues have, as PUBLISH.

use std::borrow::Cow;

use leveret_log::Wait;
use leveret_message::deliver::{Delivery, MqttOrigin, mqtt_origin, to_mqtt};
use leveret_message::{Encoding, StoredMessage};
use leveret_mqtt::{PropertyId, PropertyList, PropertyWriter, Publish, QoS};
use leveret_queue::{Portion, Taken, TurnEnd};

use super::content::LargeDelivery;
use super::exchanges::Unacknowledged;
use super::session::Session;
use super::subscriptions::{Candidate, Level, Matched};
use leveret_broker::bodies::Pieces;
use leveret_broker::settings::{TAKE_BYTES_MAX, TAKE_MESSAGES_MAX, TURN_BYTES_MAX};
use leveret_broker::time::Now;
use leveret_broker::traffic::counted_as;

impl Session {
    /// Serves scheduled consumers until the output holds one write's worth.
    pub(crate) fn serve_consumers(&mut self, now: Now) {
        self.go_on_with_content(now);
        if self.client.turns.are_over() && !self.client.turns.any_starved() {
            return;
        }
        let consumers = &self.consumers;
        let takes_more = self.client.tell_room(|key, has_room| consumers.tell_room(key, has_room, now.monotonic));
        while takes_more && let Some(key) = self.client.next_scheduled() {
            if self.serve(key, now) == TurnEnd::More {
                self.client.turns.schedule(key);
            }
        }
    }

    /// One turn of one consumer.
    fn serve(&mut self, key: u64, now: Now) -> TurnEnd {
        let Some(level) = self.level_of(key) else { return TurnEnd::Done };
        let mut most = TAKE_MESSAGES_MAX;
        if level == Level::One {
            let window = usize::from(self.shared.settings.prefetch.min(self.terms.receive_max()));
            most = most.min(window.saturating_sub(self.exchanges.outgoing()) as u32);
        }
        let is_blocked = most == 0 || self.content.is_some();
        let Some(consumer) = self.consumers.get_mut(level) else { return TurnEnd::Done };
        if is_blocked {
            consumer.park(now.monotonic);
            return TurnEnd::Done;
        }
        let mut taken = std::mem::take(&mut self.client.taken);
        let portion = Portion { messages: most, bytes: TAKE_BYTES_MAX };
        let end = consumer.queue().take(consumer.id(), portion, now.monotonic, &mut taken);
        for run in taken.drain(..) {
            self.send_run(level, run, now);
        }
        self.client.taken = taken;
        end
    }

    fn send_run(&mut self, level: Level, taken: Taken, now: Now) {
        let mut unwanted = Vec::new();
        for at in 0..taken.count {
            let index = (taken.index + at) as usize;
            if taken.batch.is_in_file(index) {
                // This is the last message that was taken.
                self.begin_content(level, taken.rest(at));
                break;
            }
            let message = taken.batch.message(index).view();
            unwanted.extend(self.send_message(level, &taken, at, &message, now));
        }
        if level == Level::One && !unwanted.is_empty() {
            self.settle(unwanted, Wait::Lazy, now);
        }
        let Some(consumer) = self.consumers.get(level) else { return };
        let count = u64::from(taken.count);
        let (name, is_quorum) = (consumer.queue().info().name.clone(), consumer.queue().is_quorum());
        self.client.counters.delivered_of(counted_as(consumer.queue().info()), level == Level::Zero).add(count);
        if taken.redelivered {
            self.client.counters.redelivered_of(is_quorum).add(count);
        }
        let delivery = self.delivery_of(&taken, now);
        self.client.trace_delivered(0, &name, taken.part(), &delivery, now);
    }

    fn delivery_of(&self, taken: &Taken, now: Now) -> Delivery {
        Delivery {
            redelivered: taken.redelivered,
            delivery_count: taken.attempts.failed,
            acquired_count: taken.attempts.acquired,
            now_ms: now.wall_ms,
            sent_time: self.client.broker.settings.sent_time,
            stream_offset: None,
        }
    }

    /// Sends a message. It is returned if the client has nothing to acknowledge.
    fn send_message(
        &mut self,
        level: Level,
        taken: &Taken,
        at: u32,
        message: &StoredMessage<'_>,
        now: Now,
    ) -> Option<Unacknowledged> {
        let unacknowledged = Unacknowledged {
            number: taken.first + u64::from(at),
            bytes: taken.batch.body_length((taken.index + at) as usize),
            durable: taken.durable,
        };
        if level == Level::One && self.exchanges.has_released(unacknowledged.number) {
            // The crash came before it left its queue.
            return Some(unacknowledged);
        }
        let origin = mqtt_origin(message);
        let candidate = Candidate {
            topic: &origin.topic,
            qos: origin.qos,
            came_over_mqtt: message.encoding == Encoding::Mqtt,
            is_own: origin.client_id == Some(&**self.terms.client_id()),
            was_kept: origin.kept,
        };
        let Some(matched) = self.subscriptions.matching(level, &candidate) else { return Some(unacknowledged) };
        let mut properties = std::mem::take(&mut self.head);
        properties.clear();
        let delivery = self.delivery_of(taken, now);
        write_ids(&mut properties, &matched);
        let payload = to_mqtt(message, &delivery, &mut properties);
        let is_sent = self.send_publish(&origin, &matched, &properties, &payload, (taken.redelivered, unacknowledged));
        self.head = properties;
        (!is_sent || matched.qos == QoS::AtMostOnce).then_some(unacknowledged)
    }

    /// Encodes a PUBLISH. False if it is larger than the client takes: it counts as delivered [MQTT-3.1.2-25].
    fn send_publish(
        &mut self,
        origin: &MqttOrigin<'_>,
        matched: &Matched,
        properties: &[u8],
        payload: &[u8],
        (redelivered, message): (bool, Unacknowledged),
    ) -> bool {
        let mut publish = Publish {
            dup: redelivered && matched.qos != QoS::AtMostOnce,
            qos: matched.qos,
            retain: origin.kept || origin.retain && matched.retain_as_published,
            topic: &origin.topic,
            packet_id: 1,
            properties: if self.terms.version().has_properties() {
                PropertyList::written(properties)
            } else {
                PropertyList::NONE
            },
            payload,
        };
        if publish.encoded_length(self.terms.version()) > self.terms.packet_max() as usize {
            self.tell_refused(&format!(
                "a message of topic '{}' is larger than the {} bytes that the client takes",
                origin.topic,
                self.terms.packet_max()
            ));
            return false;
        }
        publish.packet_id = match matched.qos {
            QoS::AtMostOnce => 0,
            qos => self.exchanges.send(message, qos == QoS::ExactlyOnce),
        };
        publish.encode(self.terms.version(), self.client.output.buffer());
        true
    }

    /// Begins to read a message whose body is in a file.
    fn begin_content(&mut self, level: Level, taken: Taken) {
        let Some(consumer) = self.consumers.get(level) else { return };
        let message = taken.batch.message(taken.index as usize);
        let Some(file) = message.file else { return };
        let broker = &self.client.broker;
        let pieces = Pieces::new(file, &broker.bodies, consumer.queue().body_owner(), &self.client.outbox);
        self.content = Some(Box::new(LargeDelivery::new(level, taken, pieces.whole())));
    }

    /// Whether a body was read.
    pub(crate) fn has_content(&self) -> bool {
        self.content.as_deref().is_some_and(LargeDelivery::has_news) && self.client.output.len() < TURN_BYTES_MAX
    }

    /// Sends the message whose body was read.
    fn go_on_with_content(&mut self, now: Now) {
        if !self.has_content() {
            return;
        }
        let Some(mut content) = self.content.take() else { return };
        let level = content.level();
        match content.look() {
            None => self.content = Some(content),
            // The queue has failed for it, and says so to its consumers.
            Some((_, Err(_))) => {}
            Some((taken, Ok(body))) => {
                let message = taken.batch.message(taken.index as usize).view();
                let unwanted = self.send_message(level, taken, 0, &StoredMessage { body, ..message }, now);
                if level == Level::One {
                    self.settle(unwanted.into_iter().collect(), Wait::Lazy, now);
                }
                self.consumers.unpark(now.monotonic);
            }
        }
    }

    /// Sends a retained message of QoS 0. False if it is too large for the client.
    pub(crate) fn send_kept(
        &mut self,
        origin: &MqttOrigin<'_>,
        matched: &Matched,
        properties: &[u8],
        payload: &[u8],
    ) -> bool {
        let mut all = Vec::new();
        write_ids(&mut all, matched);
        all.extend_from_slice(properties);
        self.send_publish(
            origin,
            matched,
            &all,
            payload,
            (false, Unacknowledged { number: 0, bytes: 0, durable: false }),
        )
    }
}

fn write_ids(properties: &mut Vec<u8>, matched: &Matched) {
    let mut writer = PropertyWriter::begin(properties);
    for id in &matched.ids {
        writer.number(PropertyId::SubscriptionIdentifier, *id);
    }
}

/// The topic of a retained message as deliveries have it.
pub(crate) fn kept_origin(topic: &str, qos: QoS) -> MqttOrigin<'_> {
    MqttOrigin { topic: Cow::Borrowed(topic), qos, retain: true, kept: true, client_id: None }
}
