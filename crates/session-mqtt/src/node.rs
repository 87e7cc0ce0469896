//! State that all MQTT connections of a node share.

use std::sync::{Arc, Weak};

use leveret_broker::broker::Broker;
use leveret_broker::time::{Nanos, Now};

use parking_lot::Mutex;

use super::client_ids::{ClientIds, ClientKey};
use super::exchanges::Exchanges;
use super::ledger::{Prepared, RecordLedger};
use super::ledgers::Ledgers;
use super::open_connections::OpenConnections;
use super::retained::{Retained, RetainedLimits, RetainedMessages};
use super::session_record::SessionRecord;
use super::settings::MqttSettings;

/// Settings, client ids, and ledgers.
pub(crate) struct Shared {
    pub settings: MqttSettings,
    pub client_ids: ClientIds,
    pub ledgers: Ledgers,
    pub open: OpenConnections,
    /// Retained messages of wills whose ledger isn't read yet.
    waiting: Mutex<Vec<(Arc<str>, Retained)>>,
}

impl Shared {
    pub(crate) fn new(settings: MqttSettings) -> Arc<Self> {
        Arc::new_cyclic(|me: &Weak<Self>| Self {
            settings,
            client_ids: ClientIds::default(),
            ledgers: Ledgers::new(me.clone()),
            open: OpenConnections::default(),
            waiting: Mutex::default(),
        })
    }

    /// Reads the ledgers that the vhosts have.
    pub(crate) fn start(&self, broker: &Arc<Broker>, now: Now) {
        let snapshot = broker.registry.snapshot_full();
        for vhost in snapshot.topology.vhosts() {
            self.ledgers.of(vhost).prepare(broker, None, now);
        }
    }

    /// The bounds of retained messages.
    pub(crate) fn retained_limits(&self) -> RetainedLimits {
        RetainedLimits { messages: self.settings.retained_max, bytes: self.settings.retained_bytes_max }
    }

    /// Keeps the state of a session while its client is away, and ends the records of some that are over.
    pub(crate) fn keep_session(
        &self,
        broker: &Arc<Broker>,
        key: &ClientKey,
        exchanges: Exchanges,
        until: Nanos,
        now: Now,
    ) {
        for over in self.client_ids.keep(key, exchanges, until, now.monotonic) {
            self.ledgers.of(&over.vhost).sessions.note(broker, &over.client_id, &SessionRecord::SessionOver, now);
        }
    }

    /// Keeps a retained message of a will, as soon as its ledger is read.
    pub(crate) fn keep_later(&self, broker: &Arc<Broker>, vhost: &Arc<str>, retained: Retained, now: Now) {
        self.waiting.lock().push((vhost.clone(), retained));
        let ledger = self.ledgers.of(vhost).retained;
        if ledger.prepare(broker, true, None, now) == Prepared::Ready {
            self.keep_waiting(&ledger, broker, now);
        }
    }

    /// Keeps the retained messages that waited for this ledger.
    pub(crate) fn keep_waiting(&self, ledger: &RecordLedger<RetainedMessages>, broker: &Arc<Broker>, now: Now) {
        let waiting: Vec<_> = self.waiting.lock().extract_if(.., |(vhost, _)| *vhost == ledger.vhost).collect();
        for (vhost, retained) in waiting {
            if let Err(why) = ledger.keep(broker, retained, self.retained_limits(), now) {
                tracing::warn!("MQTT: a will isn't kept for later subscribers in vhost '{vhost}': {why}");
            }
        }
    }
}
