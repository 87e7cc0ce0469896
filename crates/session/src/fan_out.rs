//! A run of messages that is being handed to the queues of its route.
//!
//! A route with very many queues would monopolize a core. The queues therefore get the run in parts, each as large as
//! the turn allows (see [`leveret_broker::turn_budget`]). Until the last part the connection's input isn't read, so
//! that its client never sees a queue without a message that it published before. A run that has to be finished before
//! the client's next command is handed over whole; such runs are kept short.

use std::sync::Arc;

use leveret_message::{Batch, BatchPart};
use leveret_model::QueueId;
use leveret_queue::PublishSlot;

use crate::client_connection::ClientConnection;
use leveret_broker::bodies::BodyFile;
use leveret_broker::planted::{Bug, is_planted};
use leveret_broker::queue_handle::{Acceptance, Audience};
use leveret_broker::route::Route;
use leveret_broker::shared_messages::REFERENCE_BYTES;
use leveret_broker::ticket::Awaited;
use leveret_broker::time::Nanos;
use leveret_broker::turn_budget::{ENQUEUE, QUEUE_RUN};
use leveret_broker::wait_for::WaitFor;

/// Largest work of a run, in units of [`leveret_broker::turn_budget`], unless a single message makes more.
const RUN_WORK_MAX: u32 = 10_000;

/// Number of messages with this route that make enough work to be handed on before more are collected; at least one. The
/// connection has nothing else to do at that moment, so the run may be handed over in parts.
pub fn messages_max(route: &Route) -> usize {
    match route.queues.len() as u32 {
        0 | 1 => usize::MAX,
        queues => ((RUN_WORK_MAX / queues).saturating_sub(QUEUE_RUN) / ENQUEUE).max(1) as usize,
    }
}

/// The cost of a run of this many messages for each of several queues.
fn cost(messages: u32) -> u32 {
    QUEUE_RUN + messages * ENQUEUE
}

/// A run of messages and how many of its queues already have it.
pub struct FanOut {
    route: Arc<Route>,
    batch: Arc<Batch>,
    persistent: bool,
    /// The run's number in the shared log.
    shared: Option<u64>,
    /// Index of the next queue of the route.
    next: usize,
    /// Bytes that the run counts for the next queue until it is durable.
    bytes: u64,
    /// The disk had no room for the body: no queue gets the run.
    is_refused: bool,
    accepted: u32,
    wait: WaitFor,
    refusing: Option<usize>,
    gone: usize,
    /// Number of queues that say later what became of the run.
    answers_later: usize,
    slot: PublishSlot,
    paced_by: Option<QueueId>,
}

/// The result of a run that was offered to all its queues.
pub struct FannedOut {
    /// The route of the run.
    pub route: Arc<Route>,
    /// The messages of the run.
    pub batch: Arc<Batch>,
    /// Number of messages, from the first on, that every queue took, but for those that answer later: the wait ends with their
    /// refusals.
    pub accepted: u32,
    /// The position that their confirm waits for.
    pub wait: WaitFor,
    /// The queue that took the fewest messages, if any refused some.
    pub refusing: Option<usize>,
    /// The disk had no room for the body.
    pub is_refused: bool,
    /// The slot of its last message, the latest of its queues'.
    pub slot: PublishSlot,
    /// The queue that gave this slot.
    pub paced_by: Option<QueueId>,
    /// All its queues are being deleted, and no requester waits for it. It is handled as if it had come a moment later.
    pub reached_nobody: bool,
    /// Whether that is told with the end of the wait.
    pub answers_later: bool,
}

impl FanOut {
    /// Begins with a run that was routed; `file` is the body file of its only message. No queue has the run yet.
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
            false => client.broker.shared.share(&batch, route.queues.logs(), persistent, file),
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
            answers_later: 0,
            slot: PublishSlot::default(),
            paced_by: None,
        }
    }

    /// Hands the run to all queues that are left.
    pub fn whole(&mut self, client: &mut ClientConnection, now: Nanos) {
        while !self.part(client, now) {}
    }

    /// Hands the run to the next queues, to one at least. True if none is left.
    pub fn part(&mut self, client: &mut ClientConnection, now: Nanos) -> bool {
        let Self { route, batch, persistent, shared, .. } = self;
        let len = if self.is_refused { 0 } else { route.queues.len() };
        let count = batch.len() as u32;
        // For a single queue, the bytes of a read already bound the work.
        let cost = if len > 1 { cost(count) } else { 0 };
        let audience = match (len, *shared) {
            (1, None) => Audience::Alone,
            (_, shared) => Audience::Several(shared),
        };
        let begin = self.next;
        while self.next < len
            && let Some(queue) = route.queues.get(self.next)
        {
            if self.next > begin && client.budget.is_spent() {
                return false;
            }
            let published = queue.publish(BatchPart::of(batch, 0, count), *persistent, audience, now);
            self.gone += usize::from(published.is_gone);
            if published.slot.at > self.slot.at {
                (self.slot, self.paced_by) = (published.slot, Some(queue.info().id));
            }
            match &published.acceptance {
                Acceptance::Known(accepted) => {
                    if *accepted < self.accepted {
                        self.accepted = *accepted;
                        self.refusing = Some(self.next);
                    }
                    if self.wait.is_nothing() || !is_planted(Bug::FirstQueueConfirms) {
                        self.wait.and(published.awaited);
                    }
                }
                Acceptance::Later(fate) => {
                    self.answers_later += 1;
                    self.wait.and_fate(published.awaited, fate.clone());
                }
            }
            if !published.awaited.is_nothing() {
                client.undurable.note_published(&published, queue, self.bytes);
                if shared.is_some() {
                    self.bytes = REFERENCE_BYTES;
                }
            }
            self.next += 1;
            client.budget.spend(cost);
        }
        true
    }

    /// Finishes a run that all queues were offered: requesters that wait for it get it, and it is counted.
    pub fn end(self, client: &mut ClientConnection) -> FannedOut {
        let Self {
            route, batch, is_refused, accepted, mut wait, refusing, gone, answers_later, slot, paced_by, ..
        } = self;
        if answers_later > 0 && (answers_later + gone < route.queues.len() || !route.replies.is_empty()) {
            // A queue or a requester has it, whatever the others will say.
            wait.and_fate(Awaited::default(), Arc::default());
        }
        if let Some(last) = route.queues.last().filter(|_| !is_refused) {
            client.undurable.note_confirm(&wait, last);
        }
        for reply in &route.replies {
            reply.send(&batch);
        }
        let messages = batch.len() as u64;
        client.counters.routed.add(messages);
        client.counters.enqueued.add(messages * (route.queues.len() - gone) as u64);
        // Any queue of the route will do: the disk is full for all of them.
        let refusing = refusing.or_else(|| (is_refused && !route.queues.is_empty()).then_some(0));
        let reached_nobody = gone > 0 && gone == route.queues.len() && route.replies.is_empty();
        let answers_later = answers_later > 0;
        FannedOut { route, batch, accepted, wait, refusing, is_refused, slot, paced_by, reached_nobody, answers_later }
    }
}
