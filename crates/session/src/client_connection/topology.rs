//! A client's permissions in its vhost, and the queues that it looks up and declares there.

use leveret_broker::Now;
use leveret_broker::queue_handle::{QueueAnswer, QueueRef};
use leveret_broker::registry::Submitted;
use leveret_model::{Action, Command, CommandOutcome, DeclareQueue, Permit, Refused, authorize};

use super::ClientConnection;
use crate::gone::GoneAt;

impl ClientConnection {
    /// The permit for an action of this connection's user in its vhost.
    ///
    /// # Errors
    /// The user lacks the permission.
    pub fn authorize(&self, action: Action<'_>) -> Result<Permit, Refused> {
        let snapshot = self.broker.registry.snapshot();
        authorize(&snapshot.topology, &self.user, &self.vhost, action)
    }

    /// A queue that this connection may use for `action`.
    ///
    /// # Errors
    /// The user lacks the permission, there is no such queue, or it is exclusive to another connection.
    pub fn known_queue(&self, name: &str, action: Action<'_>) -> Result<QueueRef, Refused> {
        let snapshot = self.broker.registry.snapshot();
        authorize(&snapshot.topology, &self.user, &self.vhost, action)?;
        let info = snapshot.topology.usable_queue(&self.vhost, name, Some(self.id))?;
        Ok(snapshot.queues.get(&info.id).expect("every queue of the topology is there").newest())
    }

    /// Declares a queue and counts the declaration. The answer waits for the position of the submitted change.
    ///
    /// # Errors
    /// As returned by the model.
    pub fn declare_queue(&mut self, permit: Permit, declare: DeclareQueue, now: Now) -> Result<Submitted, Refused> {
        let is_exclusive = declare.exclusive;
        let submitted = self.broker.registry.submit(permit, Command::DeclareQueue(declare), now.monotonic)?;
        if let Some(mismatch) = &submitted.mismatch {
            self.broker.redeclared.write(mismatch, &self.user, &self.name, now.monotonic);
        }
        self.counters.queues_declared.increment();
        if submitted.outcome == CommandOutcome::Created {
            self.counters.queues_created.increment();
        }
        self.has_exclusive_queues |= is_exclusive;
        Ok(submitted)
    }

    /// Deletes an auto-delete queue with its last consumer, unless it has a new one by then; `left` is the number of
    /// consumers that are left.
    pub fn delete_if_unused(&self, queue: &QueueRef, left: QueueAnswer<Option<usize>>, now: Now) -> GoneAt {
        self.broker.delete_if_unused(queue, left, &**self.counters, now).into()
    }
}
