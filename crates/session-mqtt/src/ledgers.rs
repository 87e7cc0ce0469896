//! The ledgers of a node, by vhost.

use std::sync::{Arc, Weak};

use leveret_broker::broker::Broker;
use leveret_broker::outbox::Outbox;
use leveret_broker::time::Now;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use super::ledger::{Prepared, RecordLedger};
use super::node::Shared;
use super::retained::RetainedMessages;
use super::session_records::SessionRecords;

/// The ledgers of a vhost.
#[derive(Clone)]
pub(crate) struct OfVhost {
    pub retained: Arc<RecordLedger<RetainedMessages>>,
    pub sessions: Arc<RecordLedger<SessionRecords>>,
}

impl OfVhost {
    /// Reads both, if they have records.
    pub(crate) fn prepare(&self, broker: &Arc<Broker>, outbox: Option<&Arc<Outbox>>, now: Now) -> [Prepared; 2] {
        [self.retained.prepare(broker, false, outbox, now), self.sessions.prepare(broker, false, outbox, now)]
    }
}

/// The ledgers of a node.
pub(crate) struct Ledgers {
    of: RwLock<FxHashMap<Arc<str>, OfVhost>>,
    shared: Weak<Shared>,
}

impl Ledgers {
    pub(crate) fn new(shared: Weak<Shared>) -> Self {
        Self { of: RwLock::default(), shared }
    }

    /// The ledgers of a vhost.
    pub(crate) fn of(&self, vhost: &Arc<str>) -> OfVhost {
        if let Some(known) = self.of.read().get(vhost) {
            return known.clone();
        }
        let mut all = self.of.write();
        let new = || OfVhost {
            retained: RecordLedger::new(vhost.clone(), self.shared.clone()),
            sessions: RecordLedger::new(vhost.clone(), self.shared.clone()),
        };
        all.entry(vhost.clone()).or_insert_with(new).clone()
    }
}
