//! From a login to an open session: taking over the client id, ending or resuming the session that there is, CONNACK.

use std::collections::VecDeque;

use leveret_model::{Action, DeleteQueue, Destination};
use leveret_mqtt::{AckKind, ConnAck, PropertyId, PropertyList, PropertyWriter, ReasonCode};
use leveret_queue::DeleteIf;

use super::changing::{ChangeFor, Then};
use super::client_ids::{Claim, SessionOver};
use super::exchanges::Exchanges;
use super::input_hold::MqttHold;
use super::session::{MqttPhase, Session};
use super::session_record::{RecordSlot, SessionRecord};
use super::stored_will;
use super::subscriptions::{Level, Subscription};
use leveret_broker::registry::ChangeRequest;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;

impl Session {
    /// Claims the client id, and goes on when it is this connection's.
    pub(crate) fn begin_opening(&mut self, now: Now) {
        self.phase = MqttPhase::Opening;
        self.claims = true;
        match self.shared.client_ids.claim(&self.key(), self.client.id, &self.client.outbox) {
            Claim::Taken => self.claimed(now),
            Claim::Waits => self.held = MqttHold::Claim,
        }
    }

    /// The client id is this connection's, and nobody else uses its queues.
    pub(crate) fn claimed(&mut self, now: Now) {
        self.held = MqttHold::No;
        if let Err(failure) = self.ledgers_are_read(now) {
            return self.fail(&failure, now);
        }
        if matches!(self.held, MqttHold::Ledger) {
            return;
        }
        let kept = self.shared.client_ids.take(&self.key(), now.monotonic);
        let snapshot = self.client.broker.registry.snapshot_full();
        let mut requests = VecDeque::new();
        let mut delete = |name: &str, level: Level| {
            let Some(info) = self.durable_queue(&snapshot.topology, name) else { return };
            let permit = self.authorize(Action::DeleteQueue(name));
            let command = DeleteQueue {
                vhost: info.vhost.clone(),
                name: info.name.clone(),
                connection: Some(self.client.id),
                id: Some(info.id),
            };
            // Users that may use the queue of a session but not delete it find its messages again.
            if let Ok(permit) = permit {
                let request = ChangeRequest::delete_queue(permit, command, DeleteIf::default());
                requests.push_back((ChangeFor::Queue(level), request));
            }
        };
        let mut wait;
        if self.terms.clean_start() {
            Level::BOTH.into_iter().for_each(|level| delete(&level.queue_name(self.terms.client_id()), level));
            self.exchanges = Exchanges::default();
            wait = self.end_session_records(now);
        } else {
            // The client is back before its will was due.
            delete(&stored_will::queue_name(self.terms.client_id()), Level::One);
            (self.exchanges, wait) = match kept {
                Ok(kept) => (kept, WaitFor::default()),
                Err(SessionOver) => (Exchanges::default(), self.end_session_records(now)),
            };
            if !self.exchanges.are_over() {
                // It isn't away any more.
                wait = WaitFor::all([wait, self.note_in_session(&SessionRecord::Over(RecordSlot::Away), now)]);
            }
        }
        let will = self.record_will(now);
        self.change_and(WaitFor::all([wait, will]), requests, Then::Open, now);
    }

    /// Resumes the session, if there is one, and answers the CONNECT.
    pub(crate) fn opened(&mut self, now: Now) {
        // A client whose session isn't present forgets what it sent: then nothing may be known of it here either.
        let session_present = !self.terms.clean_start() && (self.resume() || !self.exchanges.are_over());
        for level in Level::BOTH {
            let name = level.queue_name(self.terms.client_id());
            let snapshot = self.client.broker.registry.snapshot_full();
            if session_present
                && self.durable_queue(&snapshot.topology, &name).is_some()
                && let Err(reason) = self.consume(level, now)
            {
                self.begin_end(now);
                return self.end_refused(reason);
            }
        }
        self.phase = MqttPhase::Open;
        self.client.silence.opened(now);
        self.send_connack(session_present);
        self.told().opened();
        // [MQTT-4.4.0-1]: PUBREL, not PUBLISH, of messages whose PUBREC came.
        let released: Vec<u16> = self.exchanges.released().collect();
        released.into_iter().for_each(|id| self.send_ack(AckKind::PubRel, id, ReasonCode::SUCCESS));
    }

    /// Reads the subscriptions of the session from its bindings. False if there is no session.
    fn resume(&mut self) -> bool {
        let snapshot = self.client.broker.registry.snapshot_full();
        let exchange = &self.shared.settings.exchange;
        let mut is_there = false;
        for level in Level::BOTH {
            let name = level.queue_name(self.terms.client_id());
            let Some(queue) = self.durable_queue(&snapshot.topology, &name) else { continue };
            is_there = true;
            let destination = Destination::Queue { name: queue.name.clone(), id: queue.id };
            for binding in snapshot.topology.bindings_of_destination(&self.client.vhost, &destination) {
                if binding.source == *exchange
                    && let Some(subscription) = Subscription::of(binding, level)
                {
                    self.subscriptions.insert(subscription);
                }
            }
        }
        is_there
    }

    fn send_connack(&mut self, session_present: bool) {
        let mut bytes = Vec::new();
        let settings = &self.shared.settings;
        let mut writer = PropertyWriter::begin(&mut bytes);
        writer.number(PropertyId::SessionExpiryInterval, self.terms.session_expiry_s());
        if self.terms.has_assigned_id() {
            writer.text(PropertyId::AssignedClientIdentifier, self.terms.client_id());
        }
        writer.number(PropertyId::TopicAliasMaximum, settings.topic_alias_max.into());
        writer.number(PropertyId::MaximumPacketSize, settings.packet_max);
        writer.number(PropertyId::SharedSubscriptionAvailable, 0);
        if settings.retained_max == 0 {
            writer.number(PropertyId::RetainAvailable, 0);
        }
        let properties = PropertyList::written(&bytes);
        let connack = ConnAck { session_present, reason: ReasonCode::SUCCESS, properties };
        connack.encode(self.terms.version(), self.client.output.buffer());
    }

    /// A ledger is read, or can't be.
    pub(crate) fn ledger_is_read(&mut self, now: Now) {
        if !matches!(self.held, MqttHold::Ledger) {
            return;
        }
        self.held = MqttHold::No;
        if self.phase == MqttPhase::Opening {
            self.claimed(now);
        }
    }
}
