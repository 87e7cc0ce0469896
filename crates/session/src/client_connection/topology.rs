//! A client's permissions in its vhost, and the queues that it looks up and declares there.

use leveret_broker::Now;
use leveret_broker::asked::{Later, NowOrLater};
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::registry::{ChangeOutcome, ChangeRequest};
use leveret_model::{Action, Command, Permit, Refused, authorize};

use super::ClientConnection;
use crate::gone::GoneAt;

impl ClientConnection {
    /// The permit for an action of this connection's client in its vhost.
    ///
    /// # Errors
    /// The client lacks the permission, or its backend hasn't answered yet: see [`ClientConnection::parks`].
    pub fn authorize(&self, action: Action<'_>) -> Result<Permit, Refused> {
        self.authorize_in(&self.vhost, action)
    }

    /// The permit for an action of this connection's client in a vhost.
    ///
    /// # Errors
    /// As [`ClientConnection::authorize`].
    pub fn authorize_in(&self, vhost: &str, action: Action<'_>) -> Result<Permit, Refused> {
        let snapshot = self.broker.registry.snapshot();
        authorize(&snapshot.topology, &self.identity, vhost, action)
    }

    /// A queue that this connection may use for `action`.
    ///
    /// # Errors
    /// The user lacks the permission, there is no such queue, or it is exclusive to another connection.
    pub fn known_queue(&self, name: &str, action: Action<'_>) -> Result<QueueRef, Refused> {
        let snapshot = self.broker.registry.snapshot();
        authorize(&snapshot.topology, &self.identity, &self.vhost, action)?;
        let info = snapshot.topology.usable_queue(&self.vhost, name, Some(self.id))?;
        Ok(snapshot.queues.get(&info.id).expect("every queue of the topology is there").newest())
    }

    /// Asks for a change of the control plane. A later outcome is taken by [`ClientConnection::take_change`].
    pub fn change(&mut self, request: ChangeRequest, now: Now) -> NowOrLater<ChangeOutcome> {
        if let Command::DeclareQueue(declare) = &request.command {
            // Before the outcome is there: the queue may be declared when the client is gone already.
            self.has_exclusive_queues |= declare.exclusive;
        }
        match self.broker.registry.change(request, now.monotonic) {
            NowOrLater::Now(outcome) => {
                self.note_change(&outcome, now);
                NowOrLater::Now(outcome)
            }
            later => later,
        }
    }

    /// The outcome of a change, if it is there. It is there once only.
    pub fn take_change(&self, answer: &Later<ChangeOutcome>, now: Now) -> Option<ChangeOutcome> {
        let outcome = answer.take()?;
        self.note_change(&outcome, now);
        Some(outcome)
    }

    /// Writes to the log what a declaration differs in from its queue.
    fn note_change(&self, outcome: &ChangeOutcome, now: Now) {
        let Ok(changed) = outcome else { return };
        if let Some(mismatch) = &changed.mismatch {
            self.broker.redeclared.write(mismatch, self.identity.name(), &self.name, now.monotonic);
        }
    }

    /// Deletes an auto-delete queue with its last consumer, unless it has a new one by then; `left` is the number of
    /// consumers that are left.
    pub fn delete_if_unused(&self, queue: &QueueRef, left: NowOrLater<Option<usize>>, now: Now) -> GoneAt {
        self.broker.delete_if_unused(queue, left, now).into()
    }
}
