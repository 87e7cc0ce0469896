//! A session's promises over crashes: messages of QoS 2 come and go once. The session's records say how far each has got.

use std::sync::Arc;

use leveret_message::{BatchBuilder, StoredMessage};
use leveret_mqtt::{Publish, QoS, ReasonCode};

use super::client_ids::ClientKey;
use super::confirming::{Acknowledged, Confirming};
use super::failure::BrokenRule;
use super::input_hold::MqttHold;
use super::ledger::{Prepared, RecordLedger};
use super::session::Session;
use super::session_record::{RecordSlot, SessionRecord};
use super::session_records::{SessionRecords, end_of};
use super::submitted::Submitted;
use super::together;
use leveret_broker::route::Route;
use leveret_broker::time::{Now, SECOND};
use leveret_broker::wait_for::WaitFor;

impl Session {
    /// The ledger of sessions.
    pub(crate) fn sessions(&self) -> Arc<RecordLedger<SessionRecords>> {
        self.shared.ledgers.of(&self.client.vhost).sessions
    }

    /// Reads the ledgers of the vhost before the session begins, and makes the one that a will needs. Input is held until then.
    pub(crate) fn ledgers_are_read(&mut self, now: Now) -> Result<(), BrokenRule> {
        let ledgers = self.shared.ledgers.of(&self.client.vhost);
        let (broker, outbox) = (&self.client.broker, Some(&self.client.outbox));
        let wants_sessions = self.will.get().is_some();
        let prepared = [
            ledgers.retained.prepare(broker, false, outbox, now),
            ledgers.sessions.prepare(broker, wants_sessions, outbox, now),
        ];
        if prepared.contains(&Prepared::Later) {
            self.held = MqttHold::Ledger;
        }
        // A session whose state can't be read isn't answered with an empty one. A clean one without a will has none.
        let needs_sessions = wants_sessions || !self.terms.clean_start() || self.terms.outlives_connection();
        match &prepared[1] {
            Prepared::Failed(why) if needs_sessions => {
                Err(BrokenRule::new(ReasonCode::SERVER_UNAVAILABLE, why.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a PUBLISH has to wait for a ledger that it needs.
    pub(crate) fn waits_for_ledgers(&mut self, publish: &Publish<'_>, now: Now) -> bool {
        let retains = publish.retain && !publish.payload.is_empty() && self.shared.settings.retained_max > 0;
        let is_of_session = publish.qos == QoS::ExactlyOnce && self.terms.outlives_connection();
        if !retains && !is_of_session {
            return false;
        }
        let ledgers = self.shared.ledgers.of(&self.client.vhost);
        let (broker, outbox) = (&self.client.broker, Some(&self.client.outbox));
        let waits = retains && ledgers.retained.prepare(broker, true, outbox, now) == Prepared::Later
            || is_of_session && ledgers.sessions.prepare(broker, true, outbox, now) == Prepared::Later;
        if waits {
            self.flush_run(now);
            self.held = MqttHold::Ledger;
        }
        waits
    }

    /// Whether a PUBREC has to wait for the ledger of sessions, in which its message is released.
    pub(crate) fn waits_for_sessions(&mut self, now: Now) -> bool {
        let (broker, outbox) = (&self.client.broker, Some(&self.client.outbox));
        let waits =
            self.terms.outlives_connection() && self.sessions().prepare(broker, true, outbox, now) == Prepared::Later;
        if waits {
            self.flush_run(now);
            self.held = MqttHold::Ledger;
        }
        waits
    }

    /// Appends a record of this client. `None` if it can't be written.
    pub(crate) fn note(&mut self, record: &SessionRecord, now: Now) -> Option<WaitFor> {
        self.sessions().note(&self.client.broker, self.terms.client_id(), record, now)
    }

    /// Appends a record, if the session outlives its connection. `None` if it can't be written.
    pub(crate) fn must_note_in_session(&mut self, record: &SessionRecord, now: Now) -> Option<WaitFor> {
        if !self.terms.outlives_connection() { Some(WaitFor::default()) } else { self.note(record, now) }
    }

    /// Appends a record, if the session outlives its connection. Returns the condition under which it outlives a crash.
    pub(crate) fn note_in_session(&mut self, record: &SessionRecord, now: Now) -> WaitFor {
        if !self.terms.outlives_connection() || self.sessions().queue().is_none() && record.slot().is_none() {
            return WaitFor::default();
        }
        self.note(record, now).unwrap_or_default()
    }

    /// The condition under which all records so far are safe.
    pub(crate) fn all_noted(&self) -> WaitFor {
        let mut wait = WaitFor::default();
        if let Some(queue) = self.sessions().queue().filter(|_| self.terms.outlives_connection()) {
            wait.and(queue.awaited());
        }
        wait
    }

    /// Ends the records of the session, if it has any: the client begins a new one.
    pub(crate) fn end_session_records(&mut self, now: Now) -> WaitFor {
        let sessions = self.sessions();
        let has_some = sessions.records().has_session(self.terms.client_id()) || !self.exchanges.are_over();
        if !has_some || sessions.queue().is_none() {
            return WaitFor::default();
        }
        self.note(&SessionRecord::SessionOver, now).unwrap_or_default()
    }

    /// Keeps the state of the session while its client is away.
    pub(crate) fn keep_session(&mut self, key: &ClientKey, now: Now) {
        let exchanges = std::mem::take(&mut self.exchanges);
        if exchanges.are_over() {
            return;
        }
        let until = match self.terms.session_expiry_s() {
            u32::MAX => u64::MAX,
            seconds => now.monotonic.saturating_add(u64::from(seconds) * SECOND),
        };
        let until_ms = match end_of(self.terms.session_expiry_s(), now.wall_ms) {
            u64::MAX => 0,
            until_ms => until_ms,
        };
        self.note_in_session(&SessionRecord::Away { until_ms }, now);
        self.shared.keep_session(&self.client.broker, key, exchanges, until, now);
    }

    /// Publishes a message together with its record: that it came, if it is one of QoS 2, or that it was published, if it is the will.
    pub(crate) fn publish_once(
        &mut self,
        submitted: &Submitted<'_>,
        message: &StoredMessage<'_>,
        route: Arc<Route>,
        kept: WaitFor,
        now: Now,
    ) {
        self.flush_run(now);
        let record = match submitted.ends_will {
            true => SessionRecord::Over(RecordSlot::Will),
            false => {
                SessionRecord::Received { id: submitted.packet_id, session_expiry_s: self.terms.session_expiry_s() }
            }
        };
        let Some(sessions) = self.sessions().queue() else {
            self.tell_refused("a message isn't published, since the ledger of sessions isn't there");
            self.exchanges.forget_received(submitted.packet_id);
            let ack = submitted.ack(ReasonCode::UNSPECIFIED_ERROR);
            return self.confirm(ack, kept);
        };
        let record = Arc::new(record.batch(self.terms.client_id(), now.wall_ms).finish());
        let mut builder = BatchBuilder::default();
        builder.push_message(message);
        let batch = Arc::new(builder.finish());
        route.count(1, now.monotonic);
        self.client.trace_published(0, &route, &batch, now);
        let bytes = batch.memory() as u64 / route.queues.len().max(1) as u64;
        let undurable = &mut self.client.undurable;
        let all = route.queues.iter().map(|queue| (queue, &batch)).chain([(&sessions, &record)]);
        let published = together::publish(all, now, |awaited, queue| undurable.note(awaited, queue, bytes));
        self.client.routes.keep(route);
        if submitted.ends_will {
            self.will.set_recorded(false);
        }
        let mut reason = ReasonCode::SUCCESS;
        if published.is_refused && submitted.packet_id != 0 {
            reason = ReasonCode::QUOTA_EXCEEDED;
            self.note_in_session(&SessionRecord::Over(RecordSlot::Received(submitted.packet_id)), now);
        }
        self.client.counters.published_with_confirm.increment();
        self.confirm(submitted.ack(reason), WaitFor::all([published.wait, kept]));
    }

    fn confirm(&mut self, ack: Option<Acknowledged>, wait: WaitFor) {
        if let Some(ack) = ack {
            self.confirming.push(wait, Confirming::Publishes([(0, ack)].into_iter().collect()));
        }
    }
}
