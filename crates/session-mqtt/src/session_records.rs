//! The records of sessions in their vhost's ledger: what clients of QoS 2 rely on, and the wills of connected clients. While a
//! client is connected its session knows them; after a start they are read back here.

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_broker::broker::Broker;
use leveret_broker::time::{Now, SECOND};
use leveret_broker::wait_for::WaitFor;
use leveret_message::StoredMessage;
use rustc_hash::FxHashMap;

use super::client_ids::ClientKey;
use super::exchanges::{Exchanges, Unacknowledged};
use super::ledger::{RecordLedger, Records};
use super::node::Shared;
use super::session_record::{RecordSlot, SessionRecord};
use super::wills;

/// Session records of a vhost.
#[derive(Default)]
pub(crate) struct SessionRecords {
    /// The record of each slot, by client id.
    records: FxHashMap<Arc<str>, BTreeMap<RecordSlot, Unacknowledged>>,
    /// Records that were read at the start.
    loaded: FxHashMap<Arc<str>, BTreeMap<RecordSlot, SessionRecord>>,
}

impl SessionRecords {
    /// Whether the client has records of its session, apart from a will, that are known to be durable.
    pub(crate) fn has_session(&self, client_id: &str) -> bool {
        let slots = self.records.get(client_id);
        slots.is_some_and(|slots| slots.keys().any(|slot| *slot != RecordSlot::Will))
    }
}

impl Records for SessionRecords {
    const QUEUE: &'static str = "amq.mqtt.sessions";

    fn take(
        &mut self,
        record: Unacknowledged,
        message: &StoredMessage<'_>,
        is_loaded: bool,
        over: &mut Vec<Unacknowledged>,
    ) {
        let Some((client_id, content)) = SessionRecord::read(message) else {
            tracing::error!(
                "MQTT: record {} of queue '{}' has an unknown form and is left alone",
                record.number,
                Self::QUEUE
            );
            return;
        };
        if let Some(slot) = content.slot() {
            let key: Arc<str> = client_id.into();
            over.extend(self.records.entry(key.clone()).or_default().insert(slot, record));
            if !is_loaded {
                self.loaded.entry(key).or_default().insert(slot, content);
            }
            return;
        }
        let is_over = |slot: &RecordSlot| match &content {
            SessionRecord::Over(ended) => slot == ended,
            _ => *slot != RecordSlot::Will,
        };
        if let Some(slots) = self.records.get_mut(client_id) {
            over.extend(slots.extract_if(.., |slot, _| is_over(slot)).map(|(_, ended)| ended));
            if slots.is_empty() {
                self.records.remove(client_id);
            }
        }
        if let Some(slots) = self.loaded.get_mut(client_id) {
            slots.retain(|slot, _| !is_over(slot));
        }
        over.push(record);
    }

    /// Keeps the state of sessions for their clients, ends those that are over, and publishes wills: their clients' connections ended
    /// with the process before.
    fn loaded(ledger: &RecordLedger<Self>, shared: &Arc<Shared>, broker: &Arc<Broker>, now: Now) {
        let loaded = std::mem::take(&mut ledger.records().loaded);
        for (client_id, slots) in loaded {
            let key = ClientKey { vhost: ledger.vhost.clone(), client_id };
            let (mut exchanges, mut until_ms, mut away_ms) = (Exchanges::default(), 0, None);
            let mut ends = |session_expiry_s: u32| until_ms = until_ms.max(end_of(session_expiry_s, now.wall_ms));
            for record in slots.into_values() {
                match record {
                    SessionRecord::Received { id, session_expiry_s } => {
                        exchanges.receive(id);
                        ends(session_expiry_s);
                    }
                    SessionRecord::Released { id, number, session_expiry_s } => {
                        exchanges.release(id, number);
                        ends(session_expiry_s);
                    }
                    SessionRecord::Away { until_ms } => away_ms = Some(if until_ms == 0 { u64::MAX } else { until_ms }),
                    SessionRecord::Will(recorded) => wills::publish_recorded(ledger, broker, &key, *recorded, now),
                    SessionRecord::Over(_) | SessionRecord::SessionOver => {}
                }
            }
            // A client that was connected has been away since the process ended, which was a moment ago.
            let until_ms = away_ms.unwrap_or(until_ms);
            if until_ms > now.wall_ms && !exchanges.are_over() {
                if away_ms.is_none() {
                    // Further starts don't prolong the session.
                    let until_ms = if until_ms == u64::MAX { 0 } else { until_ms };
                    ledger.note(broker, &key.client_id, &SessionRecord::Away { until_ms }, now);
                }
                let left_ms = until_ms - now.wall_ms;
                let until = now.monotonic.saturating_add(left_ms.saturating_mul(SECOND / 1000));
                shared.keep_session(broker, &key, exchanges, until, now);
            } else if ledger.records().has_session(&key.client_id) {
                ledger.note(broker, &key.client_id, &SessionRecord::SessionOver, now);
            }
        }
    }
}

/// The wall time in milliseconds at which a session ends whose client leaves now; `u64::MAX` is never.
pub(crate) fn end_of(session_expiry_s: u32, now_ms: u64) -> u64 {
    match session_expiry_s {
        u32::MAX => u64::MAX,
        seconds => now_ms + u64::from(seconds) * 1000,
    }
}

impl RecordLedger<SessionRecords> {
    /// Appends a record of a client. Returns the condition under which it is safe; what can't be written is logged.
    pub(crate) fn note(
        &self,
        broker: &Arc<Broker>,
        client_id: &str,
        record: &SessionRecord,
        now: Now,
    ) -> Option<WaitFor> {
        let noted = self.append(broker, record.batch(client_id, now.wall_ms), now);
        noted
            .inspect_err(|why| tracing::error!("MQTT: a record of client '{client_id}', vhost '{}': {why}", self.vhost))
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(records: &mut SessionRecords, first: u64, all: &[SessionRecord]) -> Vec<u64> {
        let mut over = Vec::new();
        for (number, record) in (first..).zip(all) {
            let batch = record.batch("c", 5).finish();
            let held = Unacknowledged { number, bytes: 1, durable: true };
            records.take(held, &batch.message(0).view(), false, &mut over);
        }
        over.iter().map(|record| record.number).collect()
    }

    #[test]
    fn a_slot_has_its_last_record_only() {
        let mut records = SessionRecords::default();
        let received = |id| SessionRecord::Received { id, session_expiry_s: 5 };
        let over = take(
            &mut records,
            0,
            &[received(1), received(2), SessionRecord::Over(RecordSlot::Received(1)), received(1)],
        );
        assert_eq!(over, [0, 2]);
        let released = SessionRecord::Released { id: 1, number: 9, session_expiry_s: 5 };
        assert_eq!(
            take(&mut records, 4, &[released, SessionRecord::Over(RecordSlot::Received(9))]),
            [5],
            "it ends nothing"
        );
        assert!(records.has_session("c"));
        assert_eq!(records.loaded["c"].len(), 3);
        assert_eq!(take(&mut records, 6, &[SessionRecord::SessionOver]), [3, 1, 4, 6]);
        assert!(!records.has_session("c") && records.records.is_empty() && records.loaded["c"].is_empty());
    }

    #[test]
    fn sessions_for_ever_have_no_end() {
        assert_eq!([end_of(u32::MAX, 7), end_of(2, 7)], [u64::MAX, 2007]);
    }
}
