//! The queues of a session that outlives its connections.

use std::sync::Arc;

use leveret_model::{DeleteQueue, Permit, Queue, Topology};
use leveret_queue::DeleteIf;

use super::session::Session;
use super::subscriptions::Level;
use leveret_broker::registry::ChangeRequest;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;

impl Session {
    /// Deletes the queues of a session that ends with its connection, if they outlive that. Returns what the next session has to wait for.
    pub(crate) fn delete_queues(&mut self, now: Now) -> WaitFor {
        let mut wait = WaitFor::default();
        let snapshot = self.client.broker.registry.snapshot_full();
        for level in Level::BOTH {
            let name = level.queue_name(self.terms.client_id());
            let Some(info) = self.durable_queue(&snapshot.topology, &name) else { continue };
            let command = DeleteQueue {
                vhost: info.vhost.clone(),
                name: info.name.clone(),
                connection: Some(self.client.id),
                id: Some(info.id),
            };
            // Like the end of an exclusive queue, this is the node's own deed.
            let request = ChangeRequest::delete_queue(Permit::system(), command, DeleteIf::default());
            if let Some(Ok(changed)) = self.client.change(request, now).now() {
                wait.and(changed.ticket.into());
            }
        }
        wait
    }

    /// A queue of a session that outlives its connections. An exclusive one is that of an earlier connection, whose end isn't published
    /// yet.
    pub(super) fn durable_queue<'a>(&self, topology: &'a Topology, name: &str) -> Option<&'a Arc<Queue>> {
        topology.queue(&self.client.vhost, name).filter(|queue| queue.exclusive_owner.is_none())
    }
}
