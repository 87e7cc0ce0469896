//! The end of a connection, from either side.

use leveret_model::QueueId;
use leveret_mqtt::{ConnAck, Disconnect, PropertyId, PropertyList, PropertyWriter, ReasonCode};
use leveret_queue::Taken;

use super::client_ids::{ClientKey, TAKEN_OVER};
use super::exchanges::{Unacknowledged, runs_of};
use super::failure::BrokenRule;
use super::session::{MqttPhase, Session};
use super::subscriptions::Level;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;

/// Longest text of a DISCONNECT, in bytes.
const REASON_BYTES_MAX: usize = 1000;

impl Session {
    /// DISCONNECT by the client.
    pub(crate) fn disconnected_by_client(&mut self, disconnect: &Disconnect<'_>, now: Now) {
        if let Some(expiry_s) = disconnect.properties.number(PropertyId::SessionExpiryInterval) {
            if !self.terms.outlives_connection() && expiry_s != 0 {
                let text = "DISCONNECT prolongs a session that was to end with its connection (3.14.2.2.2)";
                return self.fail(&BrokenRule::new(ReasonCode::PROTOCOL_ERROR, text), now);
            }
            let most = self.shared.settings.session_expiry_max_s.unwrap_or(u32::MAX);
            self.terms.expire_after(expiry_s.min(most));
        }
        if disconnect.reason != ReasonCode::DISCONNECT_WITH_WILL {
            // [MQTT-3.14.4-3]
            self.will.drop_it();
        }
        self.told().closed(now);
        self.begin_end(now);
        self.phase = MqttPhase::Finished;
    }

    /// Ends the connection because of what the client sent. A client of MQTT 5 is told why.
    pub(crate) fn fail(&mut self, failure: &BrokenRule, now: Now) {
        if matches!(self.phase, MqttPhase::Finished | MqttPhase::Refused(_)) {
            return;
        }
        self.told().failed(self.state(), &failure.text);
        self.end_with(failure.reason, &failure.text, now);
    }

    /// Ends the connection for a reason of this side.
    pub(crate) fn cut(&mut self, why: &str, now: Now) {
        if matches!(self.phase, MqttPhase::Finished | MqttPhase::Refused(_)) {
            return;
        }
        self.told().cut(why, now);
        let reason = match why {
            TAKEN_OVER => ReasonCode::SESSION_TAKEN_OVER,
            leveret_broker::settings::IN_MAINTENANCE => ReasonCode::SERVER_SHUTTING_DOWN,
            _ => ReasonCode::ADMINISTRATIVE_ACTION,
        };
        self.end_with(reason, why, now);
    }

    /// Ends the connection: with DISCONNECT in an open one of MQTT 5, with CONNACK in one that isn't open yet.
    pub(crate) fn end_with(&mut self, reason: ReasonCode, why: &str, now: Now) {
        let phase = self.phase;
        self.begin_end(now);
        match phase {
            MqttPhase::Open if self.terms.version().has_properties() => {
                let mut bytes = Vec::new();
                // [MQTT-3.14.2-3]: without the text where the client takes no packet of that size.
                if why.len() <= REASON_BYTES_MAX.min(self.terms.packet_max() as usize / 2) && !why.contains('\0') {
                    PropertyWriter::begin(&mut bytes).text(PropertyId::ReasonString, why);
                }
                let disconnect = Disconnect { reason, properties: PropertyList::written(&bytes) };
                disconnect.encode(self.terms.version(), self.client.output.buffer());
            }
            MqttPhase::Opening | MqttPhase::Begin => return self.end_refused(reason),
            _ => {}
        }
        self.phase = MqttPhase::Finished;
    }

    /// Answers a refused CONNECT, and ends the connection.
    pub(crate) fn end_refused(&mut self, reason: ReasonCode) {
        // Other packets than CONNECT aren't answered [MQTT-3.1.4-1].
        let is_connect = reason != ReasonCode::MALFORMED_PACKET && reason != ReasonCode::PROTOCOL_ERROR;
        // The others mean that a connection ends which is open.
        let is_of_connack = !matches!(
            reason,
            ReasonCode::SESSION_TAKEN_OVER | ReasonCode::ADMINISTRATIVE_ACTION | ReasonCode::MAXIMUM_CONNECT_TIME
        );
        if is_of_connack && (is_connect || self.terms.version().has_properties() && self.terms.has_connect()) {
            let connack = ConnAck { session_present: false, reason, properties: PropertyList::NONE };
            connack.encode(self.terms.version(), self.client.output.buffer());
        }
        self.phase = MqttPhase::Finished;
    }

    /// Ends everything that the connection has, except for its session if that outlives it.
    pub(crate) fn begin_end(&mut self, now: Now) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        self.flush_acks(now);
        if self.phase == MqttPhase::Open {
            self.publish_will(now);
        }
        self.end_recorded_will(now);
        self.end_run(now);
        self.end_hold();
        self.searches.clear();
        self.end_consumers(now);
        let mut next = QueueId(0);
        while self.client.delete_exclusive_queues(&mut next, now).is_some() {}
        let mut gone = WaitFor::default();
        if self.phase == MqttPhase::Open && !self.terms.outlives_connection() {
            gone = self.delete_queues(now);
        }
        if std::mem::take(&mut self.claims) {
            let key = self.key();
            if self.terms.outlives_connection() {
                self.keep_session(&key, now);
            } else if self.phase == MqttPhase::Open {
                self.end_session_records(now);
            }
            self.release(key, gone);
        }
        self.counted = None;
        if !self.client.vhost.is_empty() {
            self.client.left();
        }
    }

    /// Gives up the client id, once nobody finds the queues of a session that ends.
    fn release(&self, key: ClientKey, gone: WaitFor) {
        let (shared, id) = (self.shared.clone(), self.client.id);
        if self.client.broker.streams.have(&gone) {
            self.client.broker.registry.publish();
            return shared.client_ids.release(&key, id);
        }
        self.client.broker.call_after(gone, move |broker, _| {
            broker.registry.publish();
            shared.client_ids.release(&key, id);
        });
    }

    /// Ends the consumers: messages without an acknowledgement go back to their places.
    fn end_consumers(&mut self, now: Now) {
        let unsent = self.unsent_content();
        for level in Level::BOTH {
            let held: Vec<Unacknowledged> = match level {
                Level::Zero => Vec::new(),
                Level::One => self.exchanges.take_unacknowledged().into_iter().chain(unsent).collect(),
            };
            let Some(consumer) = self.forget_consumer(level) else { continue };
            let held = [(Some(consumer.id()), runs_of(held))];
            let held = if held[0].1.is_empty() { &held[..0] } else { &held[..] };
            let _left = consumer.queue().leave(&[consumer.id()], held, false, now.monotonic);
        }
    }

    /// The message whose body wasn't sent yet: it goes back to its queue.
    pub(crate) fn unsent_content(&mut self) -> Option<Unacknowledged> {
        let content = self.content.take().filter(|content| content.level() == Level::One)?;
        let Taken { batch, index, first, durable, .. } = content.taken();
        Some(Unacknowledged { number: *first, bytes: batch.body_length(*index as usize), durable: *durable })
    }
}
