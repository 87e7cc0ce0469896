//! The store of replicated queues, which applies what isn't synced yet: a read waits for the sync.

use std::sync::Arc;
use std::sync::mpsc::channel;

use leveret_log::{Log, LogId, ReadPlan};

use super::placed_replicas::{PlacedReplicas, is_durable};
use crate::streams::{Store, StoreId, Waiter};
use crate::ticket::{Awaited, Ticket};

/// The node's log as the store of replicated queues.
pub(crate) struct PlacedStore {
    replicas: Arc<PlacedReplicas>,
}

impl PlacedStore {
    pub(crate) fn new(replicas: Arc<PlacedReplicas>) -> Self {
        Self { replicas }
    }

    /// Waits until everything that was applied so far can be read. Reads are made on disk threads of their own.
    fn wait(&self) {
        let store = self.replicas.store();
        let last = self.replicas.last_of_all();
        if is_durable(last, store.inspect(Log::durable)) {
            return;
        }
        let (sender, durable) = channel();
        // The receiver is there until it gets this.
        let told = Box::new(move || sender.send(()).unwrap_or_default());
        store.notify_soon(Awaited::durable(Ticket::new(last.stream(), last.place())), Waiter::Call(told));
        // The sender is only gone with the log, whose end is the node's.
        let _ = durable.recv();
    }
}

impl Store for PlacedStore {
    fn id(&self) -> StoreId {
        self.replicas.store().store_id()
    }

    fn plan_read(&self, log: LogId, from: u64, bytes: usize) -> Option<ReadPlan> {
        self.wait();
        Store::plan_read(&**self.replicas.store(), self.replicas.log_of(log), from, bytes)
    }

    fn plan_reads_of(&self, log: LogId, numbers: &[(u64, u64)], bytes: usize) -> Vec<ReadPlan> {
        self.wait();
        Store::plan_reads_of(&**self.replicas.store(), self.replicas.log_of(log), numbers, bytes)
    }

    /// Does nothing: the replica of a queue that is deleted is forgotten on every member, with a machine or without.
    fn forget(&self, _: LogId) {}
}
