//! A run of messages on its way to the queues of its route.
//!
//! A route with very many queues would keep a core from everybody else, so that they get it in parts, each as large as the turn
//! allows (see [`leveret_broker::turn_budget`]). Until the last part the connection's input isn't read, so that its client never sees a
//! queue without a message that it published before. What has to be done before something else that the client says is done
//! whole; such runs are kept short.

use std::sync::Arc;

use leveret_message::Batch;

use crate::client_connection::ClientConnection;
use leveret_broker::bodies::BodyFile;
use leveret_broker::planted::{Bug, is_planted};
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::Route;
use leveret_broker::shared_messages::REFERENCE_BYTES;
use leveret_broker::time::Nanos;
use leveret_broker::turn_budget::{ENQUEUE, QUEUE_RUN};
use leveret_broker::wait_for::WaitFor;

/// Work that a run makes at most, in units of [`leveret_broker::turn_budget`], unless a single message makes more.
const RUN_WORK_MAX: u32 = 10_000;

/// So many messages that go this way make enough work to be handed on before more are collected, and one does in any case. Then
/// nothing else of its connection is at hand, and the run may go in parts.
pub fn messages_max(route: &Route) -> usize {
    match route.queues.len() as u32 {
        0 | 1 => usize::MAX,
        queues => ((RUN_WORK_MAX / queues).saturating_sub(QUEUE_RUN) / ENQUEUE).max(1) as usize,
    }
}

/// What a run of so many messages costs for each of several queues.
fn cost(messages: u32) -> u32 {
    QUEUE_RUN + messages * ENQUEUE
}

/// See the module.
pub struct FanOut {
    route: Arc<Route>,
    batch: Arc<Batch>,
    persistent: bool,
    /// Its number in the shared log.
    shared: Option<u64>,
    /// The next one of the route's queues.
    next: usize,
    /// Bytes that it holds until it is durable, for the next queue.
    bytes: u64,
    /// The disk had no room for its body: no queue gets it.
    is_refused: bool,
    accepted: u32,
    wait: WaitFor,
    refusing: Option<usize>,
    gone: usize,
}

/// What became of a run that all its queues were offered.
pub struct FannedOut {
    /// Its way.
    pub route: Arc<Route>,
    /// Its messages.
    pub batch: Arc<Batch>,
    /// So many messages, from the first on, were taken by every queue.
    pub accepted: u32,
    /// Their confirm waits for this.
    pub wait: WaitFor,
    /// A queue that took the fewest, if any refused some.
    pub refusing: Option<usize>,
    /// The disk had no room for its body.
    pub is_refused: bool,
    /// All its queues are being deleted, and no requester waits for it: as if it had come a moment later.
    pub reached_nobody: bool,
}

impl FanOut {
    /// Begins with a run that was routed; `file` is that of its only message's body. No queue has got it yet.
    pub fn new(
        client: &ClientConnection,
        route: Arc<Route>,
        batch: Arc<Batch>,
        persistent: bool,
        file: Option<BodyFile>,
    ) -> Self {
        let is_refused = file.as_ref().is_some_and(|file| !file.is_written());
        let shared = match is_refused {
            true => None,
            false => client.broker.shared.share(&batch, &route.queues, persistent, file),
        };
        let accepted = if is_refused { 0 } else { batch.len() as u32 };
        Self {
            bytes: batch.memory() as u64,
            route,
            batch,
            persistent,
            shared,
            next: 0,
            is_refused,
            accepted,
            wait: WaitFor::default(),
            refusing: None,
            gone: 0,
        }
    }

    /// Hands it to all queues that are left.
    pub fn whole(&mut self, client: &mut ClientConnection, now: Nanos) {
        while !self.part(client, now) {}
    }

    /// Hands it to the next queues, to one at least. True when none is left.
    pub fn part(&mut self, client: &mut ClientConnection, now: Nanos) -> bool {
        let Self { route, batch, persistent, shared, .. } = self;
        let queues: &[QueueRef] = if self.is_refused { &[] } else { &route.queues };
        let count = batch.len() as u32;
        // What a read asks of one queue is bounded by its bytes.
        let cost = if queues.len() > 1 { cost(count) } else { 0 };
        let begin = self.next;
        while let Some(queue) = queues.get(self.next) {
            if self.next > begin && client.budget.is_spent() {
                return false;
            }
            let published = queue.publish(batch, 0, count, *persistent, *shared, now);
            self.gone += usize::from(published.is_gone);
            if published.accepted < self.accepted {
                self.accepted = published.accepted;
                self.refusing = Some(self.next);
            }
            if self.wait.is_nothing() || !is_planted(Bug::FirstQueueConfirms) {
                self.wait.and(published.awaited);
            }
            if !published.awaited.is_nothing() {
                client.undurable.note_published(published, queue, self.bytes);
                if shared.is_some() {
                    self.bytes = REFERENCE_BYTES;
                }
            }
            self.next += 1;
            client.budget.spend(cost);
        }
        true
    }

    /// All queues were offered it: requesters that wait for it get it, and it is counted.
    pub fn end(self, client: &mut ClientConnection) -> FannedOut {
        let Self { route, batch, is_refused, accepted, wait, refusing, gone, .. } = self;
        if let Some(last) = route.queues.last().filter(|_| !is_refused) {
            client.undurable.note_confirm(&wait, last);
        }
        for reply in &route.replies {
            reply.send(&batch);
        }
        let messages = batch.len() as u64;
        client.counters.routed.add(messages);
        client.counters.enqueued.add(messages * (route.queues.len() - gone) as u64);
        // Any of its queues: the disk is full for all of them.
        let refusing = refusing.or_else(|| (is_refused && !route.queues.is_empty()).then_some(0));
        let reached_nobody = gone > 0 && gone == route.queues.len() && route.replies.is_empty();
        FannedOut { route, batch, accepted, wait, refusing, is_refused, reached_nobody }
    }
}
