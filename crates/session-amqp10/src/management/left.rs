//! Requests that their connection left unserved when it ended: they were received before that, so what they remove is removed,
//! after the changes that they waited for.

use std::sync::Arc;

use leveret_broker::asked::Later;
use leveret_broker::broker::Broker;
use leveret_broker::registry::{ChangeOutcome, ChangeRequest};
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_model::{ConnectionId, Permit};

use super::bindings::unbind;
use super::queues::purgeable;
use crate::connection::Connection;
use crate::pairs::Waiting;
use crate::pairs::location::Location;
use crate::pairs::path::{Path, decode};
use crate::pairs::refusal::Result;
use crate::pairs::request::Request;

/// A removal without a client that waits for its response.
struct Removal {
    vhost: Arc<str>,
    connection: ConnectionId,
    what: Removed,
    /// The time at which the connection ended.
    now: Now,
}

enum Removed {
    Messages { queue: String },
    Binding { location: Location, permit: Permit },
}

impl Removal {
    fn carry_out(self, broker: &Arc<Broker>) {
        let snapshot = broker.registry.snapshot_full();
        match self.what {
            Removed::Messages { queue } => {
                if let Ok(queue) = purgeable(&snapshot, &self.vhost, self.connection, &queue) {
                    // The number of messages is told to nobody.
                    drop(queue.purge(self.now.monotonic));
                }
            }
            Removed::Binding { location, permit } => {
                let unbind = unbind(&snapshot.topology, &self.vhost, self.connection, location);
                if let Some(unbind) = unbind {
                    // The outcome is told to nobody.
                    drop(broker.registry.change(ChangeRequest::new(permit, unbind), self.now.monotonic));
                }
            }
        }
    }
}

impl Connection {
    /// Ends what waits for a response: removals follow the changes before them.
    pub(crate) fn end_requests(&mut self, now: Now) {
        let (mut waits, mut answers, mut removals) = (Vec::new(), Vec::new(), Vec::new());
        for Waiting { mut response, .. } in std::mem::take(&mut self.responses) {
            if let Some(message) = response.take_unserved() {
                removals.extend(self.removal(&message, now));
                continue;
            }
            match response.into_awaited() {
                Ok(wait) => waits.push(wait),
                Err(answer) => answers.push(answer),
            }
        }
        if !removals.is_empty() {
            remove_after(&self.client.broker, answers, waits, removals);
        }
    }

    /// The removal that a request asked for. `None` if it isn't allowed to, or only looks.
    fn removal(&self, message: &[u8], now: Now) -> Option<Removal> {
        let request = Request::parse(message).ok().filter(|request| request.removes())?;
        let what = self.removed(request.target?).ok().flatten()?;
        Some(Removal { vhost: self.client.vhost.clone(), connection: self.client.id, what, now })
    }

    fn removed(&self, target: &str) -> Result<Option<Removed>> {
        Ok(Some(match Path::parse(target)?.segments() {
            ["bindings", segment] => {
                let location = Location::parse(segment)?;
                let permit = self.check_location(&location)?;
                Removed::Binding { location, permit }
            }
            ["queues", queue, "messages"] => {
                let queue = decode(queue)?;
                self.check_purge(&queue)?;
                Removed::Messages { queue }
            }
            _ => return Ok(None),
        }))
    }
}

/// Removes once these changes are made, and the condition is reached.
fn remove_after(
    broker: &Arc<Broker>,
    mut answers: Vec<Later<ChangeOutcome>>,
    mut waits: Vec<WaitFor>,
    removals: Vec<Removal>,
) {
    let Some(answer) = answers.pop() else {
        return broker.call_after(WaitFor::all(waits), move |broker, _| {
            broker.registry.publish();
            removals.into_iter().for_each(|removal| removal.carry_out(broker));
            broker.streams.announce();
        });
    };
    // Not the broker itself: a question that is never asked would keep it.
    let broker = Arc::downgrade(broker);
    answer.then(move |outcome| {
        if let Some(broker) = broker.upgrade() {
            if let Ok(changed) = outcome {
                waits.push(changed.ticket.into());
            }
            remove_after(&broker, answers, waits, removals);
        }
    });
}
