//! PUBLISH of the client.

use std::sync::Arc;

use leveret_broker::headers::MessageHeaders;
use leveret_broker::route::{Publisher, Route};
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_message::headers::Headers;
use leveret_message::mqtt::{MqttHead, is_told_by_key, routing_key};
use leveret_message::overlay::Overlay;
use leveret_message::{Encoding, Envelope, StoredMessage};
use leveret_model::{Action, Refused};
use leveret_mqtt::{PropertyId, Publish, QoS, ReasonCode};
use leveret_session::driven::Steps as _;

use super::confirming::{Acknowledged, Confirming};
use super::failure::{BrokenRule, KEY_BYTES_MAX, reason_of};
use super::retained::{NotKept, Retained};
use super::session::Session;
use super::submitted::Submitted;

impl Session {
    /// PUBLISH. False if it has to wait: nothing was done.
    pub(crate) fn publish(&mut self, publish: &Publish<'_>, now: Now) -> Result<bool, BrokenRule> {
        if self.alarm || self.publishes_wait() {
            self.flush_run(now);
            self.hold_publishes(now);
            return Ok(false);
        }
        let by_alias = self.resolve(publish)?;
        let topic = by_alias.as_deref().unwrap_or(publish.topic);
        if self.waits_for_ledgers(publish, now) {
            return Ok(false);
        }
        if self.client.identity.asked().is_some() && self.lacks_answer_to_publish(topic) && self.client.parks(now) {
            return Ok(false);
        }
        let submitted = Submitted {
            topic,
            qos: publish.qos,
            retain: publish.retain,
            properties: publish.properties,
            payload: publish.payload,
            packet_id: publish.packet_id,
            is_will: false,
            ends_will: false,
        };
        if publish.qos == QoS::ExactlyOnce && !self.exchanges.receive(publish.packet_id) {
            // It came again, and is in its queues, or will be when what came before is.
            self.flush_run(now);
            let wait = self.all_noted();
            self.answer_in_order(submitted.ack(ReasonCode::SUCCESS), wait);
            return Ok(true);
        }
        self.publishing.begin();
        self.client.counters.published(publish.payload.len() as u64);
        self.submit(&submitted, now).map(|()| true)
    }

    /// Whether a backend has to answer before a message to this topic is granted or refused.
    #[cold]
    pub(super) fn lacks_answer_to_publish(&self, topic: &str) -> bool {
        let (exchange, key) = (&*self.shared.settings.exchange, routing_key(topic));
        self.lacks_answer([Action::PublishWith { exchange, routing_key: &key }])
    }

    /// The topic that an alias stands for, if the message has an alias without a topic.
    fn resolve(&mut self, publish: &Publish<'_>) -> Result<Option<Arc<str>>, BrokenRule> {
        let Some(alias) = publish.properties.number(PropertyId::TopicAlias) else { return Ok(None) };
        let most = self.shared.settings.topic_alias_max;
        let alias = u16::try_from(alias).unwrap_or(u16::MAX);
        if alias > most {
            let text = format!("topic alias {alias}, the highest is {most} (mqtt.topic_alias_maximum)");
            return Err(BrokenRule::new(ReasonCode::TOPIC_ALIAS_INVALID, text));
        }
        if !publish.topic.is_empty() {
            self.aliases.set(alias, publish.topic);
            return Ok(None);
        }
        let known = self.aliases.get(alias).ok_or_else(|| {
            BrokenRule::new(ReasonCode::PROTOCOL_ERROR, format!("topic alias {alias} stands for no topic"))
        })?;
        Ok(Some(known))
    }

    /// Sends an acknowledgement behind those of earlier messages.
    fn answer_in_order(&mut self, ack: Option<Acknowledged>, wait: WaitFor) {
        if let Some(ack) = ack {
            self.confirming.push(wait, Confirming::Publishes([(0, ack)].into_iter().collect()));
        }
    }

    /// Routes a message, keeps it if that is wanted, and adds it to the run.
    pub(crate) fn submit(&mut self, submitted: &Submitted<'_>, now: Now) -> Result<(), BrokenRule> {
        let key = routing_key(submitted.topic);
        if key.len() > KEY_BYTES_MAX {
            let text = format!("a topic of {} bytes: at most {KEY_BYTES_MAX} are routed", key.len());
            return self.refuse(submitted, ReasonCode::TOPIC_NAME_INVALID, text, now);
        }
        let exchange = self.shared.settings.exchange.clone();
        let client_id = self.terms.client_id().clone();
        let told = is_told_by_key(submitted.topic);
        let head = MqttHead {
            qos: submitted.qos,
            retain: submitted.retain,
            kept: false,
            client_id: &client_id,
            topic: (!told).then_some(submitted.topic),
            properties: submitted.properties,
        };
        let mut properties = std::mem::take(&mut self.head);
        properties.clear();
        head.write(&mut properties);
        let routed = self.route(&exchange, &key, &properties);
        let outcome = match routed {
            Err(refused) => self.refuse(submitted, reason_of(&refused), refused.to_string(), now),
            Ok(route) => {
                let kept = match self.keep(submitted, now) {
                    Ok(kept) => kept,
                    Err(why) => {
                        self.head = properties;
                        return Err(BrokenRule::new(ReasonCode::UNSPECIFIED_ERROR, why));
                    }
                };
                let mut overlay = Vec::new();
                if let Some(stamps) = &self.client.broker.settings.stamps {
                    stamps.encode_mqtt(&head, now.wall_ms, &mut overlay);
                }
                let expiry_s = submitted.properties.number(PropertyId::MessageExpiryInterval);
                let envelope = Envelope {
                    durable: submitted.qos != QoS::AtMostOnce,
                    priority: None,
                    exchange: exchange.as_bytes(),
                    routing_key: &key,
                    received_ms: now.wall_ms,
                    expiry_ms: expiry_s.map_or(0, |expiry_s| Envelope::expiry(now.wall_ms, u64::from(expiry_s) * 1000)),
                };
                let message = StoredMessage {
                    encoding: Encoding::Mqtt,
                    envelope,
                    overlay: Overlay::new(&overlay),
                    properties: &properties,
                    body: submitted.payload,
                };
                self.hand_on(submitted, &message, route, kept, now);
                Ok(())
            }
        };
        self.head = properties;
        outcome
    }

    fn hand_on(
        &mut self,
        submitted: &Submitted<'_>,
        message: &StoredMessage<'_>,
        route: Arc<Route>,
        kept: WaitFor,
        now: Now,
    ) {
        if route.is_unroutable() {
            route.count_unroutable(false, now.monotonic);
            self.client.counters.unroutable_dropped.add(1);
            self.client.trace_single(0, &route, message, now);
            self.client.routes.keep(route);
            self.flush_run(now);
            return self.answer_in_order(submitted.ack(ReasonCode::NO_MATCHING_SUBSCRIBERS), kept);
        }
        let is_of_session = submitted.qos == QoS::ExactlyOnce && self.terms.outlives_connection();
        if submitted.ends_will || is_of_session && submitted.packet_id != 0 {
            return self.publish_once(submitted, message, route, kept, now);
        }
        self.push(message, route, submitted.ack(ReasonCode::SUCCESS), kept, now);
    }

    fn route(&mut self, exchange: &str, key: &[u8], head: &[u8]) -> Result<Arc<Route>, Refused> {
        let headers = Headers::mqtt(head);
        let generation = self.client.broker.registry.generation();
        if let Some(route) = self.client.routes.again(generation, exchange.as_bytes(), key, !headers.is_empty()) {
            return Ok(route);
        }
        let snapshot = self.client.broker.registry.snapshot();
        let client_id = Some(&**self.terms.client_id());
        let publisher = Publisher { who: &self.client.identity, vhost: &self.client.vhost, client_id };
        self.client.routes.find(&snapshot, &publisher, exchange.as_bytes(), key, &MessageHeaders(headers))
    }

    /// Keeps a message for clients that subscribe later. Returns the condition under which that outlives a crash.
    ///
    /// # Errors
    /// The log takes nothing: the message isn't acknowledged.
    fn keep(&mut self, submitted: &Submitted<'_>, now: Now) -> Result<WaitFor, String> {
        if !submitted.retain || self.shared.settings.retained_max == 0 {
            return Ok(WaitFor::default());
        }
        let payload = bytes::Bytes::copy_from_slice(submitted.payload);
        let Submitted { topic, qos, properties, .. } = *submitted;
        let retained = Retained::of_publish(topic, qos, self.terms.client_id(), properties, payload, now);
        let ledger = self.shared.ledgers.of(&self.client.vhost).retained;
        if ledger.queue().is_none() && (submitted.payload.is_empty() || submitted.is_will) {
            // There is none to be removed. A will comes at the end of its connection, which can't wait.
            if !submitted.payload.is_empty() {
                self.shared.keep_later(&self.client.broker, &self.client.vhost, retained, now);
            }
            return Ok(WaitFor::default());
        }
        let kept = ledger.keep(&self.client.broker, retained, self.shared.retained_limits(), now);
        match kept {
            Err(NotKept::Log(why)) => Err(format!("a message to topic '{topic}' isn't kept: {why}")),
            Err(limit) => {
                self.tell_refused(&format!("a message to topic '{topic}' isn't kept: {limit}"));
                Ok(WaitFor::default())
            }
            Ok(wait) => Ok(wait),
        }
    }

    /// Refuses a message: ends the connection, or answers it.
    fn refuse(
        &mut self,
        submitted: &Submitted<'_>,
        reason: ReasonCode,
        text: String,
        now: Now,
    ) -> Result<(), BrokenRule> {
        if reason != ReasonCode::NOT_AUTHORIZED || self.shared.settings.disconnects_unauthorized {
            return Err(BrokenRule::new(reason, text));
        }
        self.tell_refused(&text);
        if submitted.qos == QoS::ExactlyOnce {
            self.exchanges.forget_received(submitted.packet_id);
        }
        self.flush_run(now);
        // Before MQTT 5 a refusal can't be told: the message is acknowledged and dropped (MQTT 3.1.1, 3.3.5).
        let told = if self.terms.version().has_properties() { reason } else { ReasonCode::SUCCESS };
        self.answer_in_order(submitted.ack(told), WaitFor::default());
        Ok(())
    }
}
