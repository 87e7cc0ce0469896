//! The messages of a step, in runs with the same targets.

use std::sync::Arc;

use leveret_message::headers::Headers;
use leveret_message::{Batch, BatchBuilder, BatchPart, Envelope, MessageRef};
use leveret_routing::Routes;

use super::TransferTarget;
use crate::broker::Broker;
use crate::deferred::{Targets, are_same};
use crate::group::Group;
use crate::headers::MessageHeaders;
use crate::queue_handle::{Acceptance, Audience, LocalQueue, PublishedIn, QueueRef};
use crate::registry::Snapshot;
use crate::time::Now;
use crate::turn_budget::targets_max;
use crate::wait_for::WaitFor;

impl Broker {
    /// Offers a run to its targets. Returns how many of its messages, the first ones, at least one of these has.
    fn offer(&self, group: &mut Group, run: &LetterRun, now: Now) -> usize {
        let mut most = 0;
        for target in &run.targets {
            let part = BatchPart::whole(&run.batch);
            let offered = target.home().and_then(|home| home.offer_in(group, part, run.persistent, now.monotonic));
            let Some(PublishedIn { accepted, ticket }) = offered else { continue };
            if !ticket.is_nothing() {
                self.streams.notify(ticket.into(), target.waiter());
            }
            most = most.max(accepted as usize);
        }
        most
    }
}

/// The reason why none of these accepted a message.
fn refusal(targets: &Targets) -> String {
    let of_one = |target: &QueueRef| match target.check_runs() {
        Ok(()) => format!(
            "queue '{}' refuses it, because of its length limit or because it is being deleted",
            target.info().name
        ),
        Err(reason) => reason,
    };
    targets.iter().map(of_one).collect::<Vec<_>>().join("; ")
}

/// Messages with the same targets.
struct LetterRun {
    targets: Targets,
    persistent: bool,
    batch: Arc<Batch>,
}

/// The messages of a step, in runs with the same targets.
pub(super) struct Letters<'a> {
    snapshot: Arc<Snapshot>,
    queue: &'a LocalQueue,
    target: &'a TransferTarget,
    now: Now,
    /// Most targets of all messages together.
    targets_max: usize,
    target_count: usize,
    /// The run that isn't complete.
    targets: Targets,
    persistent: bool,
    builder: BatchBuilder,
    runs: Vec<LetterRun>,
    /// Number of messages in all runs.
    pub(super) pushed: usize,
    /// Whether targets may be in another log than the queue: no step is atomic then.
    may_leave: bool,
    /// Whether one is.
    pub(super) leaves: bool,
}

/// Messages that were published to their targets one by one.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// The condition under which all targets have them, or refuse them.
    pub(super) wait: WaitFor,
    /// Number of messages, the first ones, that weren't refused at once.
    pub(super) count: usize,
    /// Whether all of them are one run: the place at which a queue refuses one is known then.
    pub(super) is_one_run: bool,
    /// The reason why the next one was refused.
    pub(super) refused: Option<String>,
}

impl<'a> Letters<'a> {
    pub(super) fn new(broker: &Broker, queue: &'a LocalQueue, target: &'a TransferTarget, now: Now) -> Self {
        Self {
            snapshot: broker.registry.snapshot_full(),
            queue,
            target,
            now,
            targets_max: targets_max(broker.settings.turn_work_max),
            target_count: 0,
            targets: Targets::new(),
            persistent: false,
            builder: BatchBuilder::default(),
            runs: Vec::new(),
            pushed: 0,
            may_leave: false,
            leaves: false,
        }
    }

    /// Lets them go to queues of other logs, too.
    pub(super) fn leaving(self) -> Self {
        Self { may_leave: true, ..self }
    }

    /// A target in another log that takes nothing more now.
    pub(super) fn full_elsewhere(&self) -> Option<String> {
        let here = self.queue.stream().id();
        let mut targets = self.runs.iter().flat_map(|run| &run.targets);
        let full = targets.find(|target| target.stream().id() != here && !target.stream().has_room())?;
        Some(format!("queue '{}' takes no more messages at the moment", full.info().name))
    }

    /// Publishes them to their targets, which are in several logs, up to the first one that a queue refuses at once.
    pub(super) fn send(&mut self, broker: &Broker) -> Sent {
        let mut sent = Sent { is_one_run: self.runs.len() == 1, ..Sent::default() };
        for run in std::mem::take(&mut self.runs) {
            let count = run.batch.len() as u32;
            let mut accepted = count;
            for target in &run.targets {
                let part = BatchPart::of(&run.batch, 0, count);
                let published = target.publish(part, run.persistent, Audience::Unpaced(None), self.now.monotonic);
                let synced = published.awaited.synced();
                sent.wait.and_publish(synced, &published.acceptance);
                if !synced.is_nothing() {
                    broker.streams.notify(synced, target.waiter());
                }
                accepted = match published.acceptance {
                    _ if published.is_gone => 0,
                    Acceptance::Known(known) => accepted.min(known),
                    Acceptance::Later(_) => accepted,
                };
            }
            sent.count += accepted as usize;
            if accepted < count {
                sent.refused = Some(refusal(&run.targets));
                break;
            }
        }
        sent
    }

    /// Adds messages until they have as many targets as a turn has work for. Returns the reason if one can't be moved.
    pub(super) fn push_all<'m>(&mut self, messages: impl Iterator<Item = (&'m Batch, u32)>) -> Option<String> {
        let mut stopped = None;
        for (batch, index) in messages {
            let message = batch.message(index as usize);
            match self.targets_of(&message) {
                Ok(targets) if self.pushed > 0 && self.target_count + targets.len() > self.targets_max => break,
                Ok(targets) => self.push(&message, targets),
                Err(reason) => {
                    stopped = Some(reason);
                    break;
                }
            }
        }
        self.end_run();
        stopped
    }

    /// Offers them to their targets, up to the first one that none takes. Returns how many are in at least one of these, and the reason
    /// why the next one isn't.
    pub(super) fn offer(&mut self, broker: &Broker, group: &mut Group) -> (usize, Option<String>) {
        let mut moved = 0;
        for run in std::mem::take(&mut self.runs) {
            let accepted = broker.offer(group, &run, self.now);
            moved += accepted;
            if accepted < run.batch.len() {
                return (moved, Some(refusal(&run.targets)));
            }
        }
        (moved, None)
    }

    fn push(&mut self, message: &MessageRef<'_>, targets: Targets) {
        let view = message.view();
        let persistent = view.envelope.durable;
        if self.persistent != persistent || !are_same(&self.targets, &targets) || self.builder.is_full() {
            self.end_run();
        }
        self.target_count += targets.len();
        (self.targets, self.persistent) = (targets, persistent);
        let mut envelope = view.envelope.received_again(self.now.wall_ms);
        if let TransferTarget::Exchange { name, routing_key } = self.target {
            envelope = Envelope { exchange: name.as_bytes(), routing_key: routing_key.as_bytes(), ..envelope };
        }
        self.builder.push_sent_on(message, envelope);
        self.pushed += 1;
    }

    fn end_run(&mut self) {
        if !self.builder.is_empty() {
            let (targets, persistent) = (std::mem::take(&mut self.targets), self.persistent);
            self.runs.push(LetterRun { targets, persistent, batch: Arc::new(self.builder.finish()) });
        }
    }

    /// The queues that a message goes to, or the reason why it can't be moved.
    fn targets_of(&mut self, message: &MessageRef<'_>) -> Result<Targets, String> {
        let vhost = &self.queue.info().vhost;
        let targets: Targets = match self.target {
            TransferTarget::Queue(name) => self.snapshot.queue(vhost, name).into_iter().cloned().collect(),
            TransferTarget::Exchange { name, routing_key } => {
                let view = message.view();
                let headers = MessageHeaders(Headers::stored(&view));
                let mut routes = Routes::new();
                let keys = [routing_key.as_bytes()];
                let routed = self.snapshot.router.route_by(vhost, name, &keys, &headers, &mut routes);
                routed.map_err(|_| format!("no exchange '{name}' in vhost '{vhost}'"))?;
                routes.iter().filter_map(|id| self.snapshot.queues.get(id).cloned()).collect()
            }
        };
        if targets.is_empty() {
            return Err(match self.target {
                TransferTarget::Queue(name) => format!("no queue '{name}' in vhost '{vhost}'"),
                TransferTarget::Exchange { name, routing_key } => {
                    format!("exchange '{name}' leads it to no queue with the routing key '{routing_key}'")
                }
            });
        }
        if targets.len() > self.targets_max {
            return Err(format!("it would go to {} queues; at most {} are possible", targets.len(), self.targets_max));
        }
        let here = self.queue.stream().id();
        match targets.iter().find(|target| target.stream().id() != here) {
            Some(_) if self.may_leave => {
                self.leaves = true;
                Ok(targets)
            }
            Some(target) => {
                Err(format!("queue '{}' is in another log: it can't go there in one step", target.info().name))
            }
            None => Ok(targets),
        }
    }
}
