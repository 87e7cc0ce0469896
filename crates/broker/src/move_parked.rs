//! Moves parked messages of a quorum queue on, at the request of an operator.
//!
//! Each step is one group of the log, as a move of dead letters is: after a crash, a message is either parked or in its targets.
//! A step is made in a turn of the queue's home core and takes a bounded number of messages, which the caller has read from
//! disk. It ends at the first message that can't be moved, which stays parked with all behind it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use leveret_log::Wait;
use leveret_message::headers::Headers;
use leveret_message::{Batch, BatchBuilder, Envelope, MessageRef};
use leveret_queue::{ParkedMessage, QueueState};
use leveret_routing::Routes;

use crate::broker::Broker;
use crate::deferred::{Targets, are_same};
use crate::group::Group;
use crate::headers::MessageHeaders;
use crate::queue_handle::{LocalQueue, PublishedIn, QueueAnswer, QueueRef};
use crate::registry::Snapshot;
use crate::ticket::Ticket;
use crate::time::Now;
use crate::turn_budget::targets_max;

/// Most messages that a step moves.
const STEP_MESSAGES_MAX: usize = 1000;

/// The place that parked messages are moved to, in their own vhost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParkedTarget {
    /// This queue, with the exchange and routing key that they have.
    Queue(String),
    /// The queues that this exchange leads to, with this routing key.
    Exchange {
        /// The exchange.
        name: String,
        /// The routing key.
        routing_key: String,
    },
}

/// Messages that were read from a queue's log: runs by the number of their first, in ascending order.
pub type StoredRuns = Vec<(u64, Arc<Batch>)>;

/// A step of a move.
#[derive(Debug)]
pub struct MoveStep {
    /// The place that the messages are moved to.
    pub target: ParkedTarget,
    /// Numbers of the messages to be moved.
    pub range: RangeInclusive<u64>,
    /// Messages that were read from the queue.
    pub read: StoredRuns,
}

/// The result of a step.
#[derive(Debug, Default)]
pub struct MovedStep {
    /// Number of messages that were moved.
    pub moved: u64,
    /// The end of the group; nothing if none was moved.
    pub ticket: Ticket,
    /// Number that the next step begins at; `None` if the queue is gone.
    pub next: Option<u64>,
    /// The message at which the move ended, and the reason why it couldn't be moved.
    pub stopped: Option<(u64, String)>,
}

impl Broker {
    /// Moves parked messages of `queue` out of those that were read. The answer is the default value if the queue is gone.
    pub fn move_parked(self: &Arc<Self>, queue: &QueueRef, step: MoveStep, now: Now) -> QueueAnswer<MovedStep> {
        let broker = self.clone();
        queue.in_turn(move |queue| broker.move_parked_now(queue, &step, now))
    }

    fn move_parked_now(&self, queue: &LocalQueue, step: &MoveStep, now: Now) -> MovedStep {
        let from = *step.range.start();
        if self.alarms.publishing_blocked() {
            let stopped = Some((from, "publishing is blocked by an alarm".to_owned()));
            return MovedStep { next: Some(from), stopped, ..MovedStep::default() };
        }
        let claimed = queue.claim_parked(&step.read, step.range.clone(), STEP_MESSAGES_MAX);
        if claimed.is_empty() && queue.parked_ends(from..=from).is_some() && queue.state() == QueueState::Running {
            let stopped = Some((from, "it was not read from the message store".to_owned()));
            return MovedStep { next: Some(from), stopped, ..MovedStep::default() };
        }
        let mut letters = Letters::new(self, queue, &step.target, now);
        let mut stopped = letters.push_all(&claimed).map(|reason| (letters.pushed, reason));
        let mut group = Group::new(queue.stream());
        let mut moved = 0;
        for run in std::mem::take(&mut letters.runs) {
            let accepted = self.offer(&mut group, &run, now);
            moved += accepted;
            if accepted < run.batch.len() {
                stopped = Some((moved, refusal(&run.targets)));
                break;
            }
        }
        let numbers: Vec<u64> = claimed[..moved].iter().map(|message| message.number).collect();
        queue.parked_moved(&mut group, &numbers);
        let ticket = group.close(Wait::Confirm);
        let number_of = |at: usize| claimed.get(at).map(|message| message.number);
        let end_of_read = step.read.last().map_or(from, |(first, batch)| first + batch.len() as u64);
        let is_whole = claimed.len() < STEP_MESSAGES_MAX && letters.pushed == claimed.len();
        let behind = match is_whole {
            true => Some(end_of_read),
            false => number_of(letters.pushed).or_else(|| claimed.last().map(|message| message.number + 1)),
        };
        let next = behind.map(|next| next.max(from));
        MovedStep {
            moved: moved as u64,
            ticket,
            next,
            stopped: stopped.and_then(|(at, reason)| Some((number_of(at)?, reason))),
        }
    }

    /// Offers a run to its targets. Returns how many of its messages, the first ones, at least one of these has.
    fn offer(&self, group: &mut Group, run: &LetterRun, now: Now) -> usize {
        let mut most = 0;
        for target in &run.targets {
            let offered = target.offer_in(group, &run.batch, run.persistent, now.monotonic);
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
struct Letters<'a> {
    snapshot: Arc<Snapshot>,
    queue: &'a LocalQueue,
    target: &'a ParkedTarget,
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
    pushed: usize,
}

impl<'a> Letters<'a> {
    fn new(broker: &Broker, queue: &'a LocalQueue, target: &'a ParkedTarget, now: Now) -> Self {
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
        }
    }

    /// Adds messages until they have as many targets as a turn has work for. Returns the reason if one can't be moved.
    fn push_all(&mut self, claimed: &[ParkedMessage]) -> Option<String> {
        let mut stopped = None;
        for message in claimed {
            let message = message.batch.message(message.index as usize);
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

    fn push(&mut self, message: &MessageRef<'_>, targets: Targets) {
        let view = message.view();
        let persistent = view.envelope.durable;
        if self.persistent != persistent || !are_same(&self.targets, &targets) || self.builder.is_full() {
            self.end_run();
        }
        self.target_count += targets.len();
        (self.targets, self.persistent) = (targets, persistent);
        let mut envelope = view.envelope.received_again(self.now.wall_ms);
        if let ParkedTarget::Exchange { name, routing_key } = self.target {
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
    fn targets_of(&self, message: &MessageRef<'_>) -> Result<Targets, String> {
        let vhost = &self.queue.info().vhost;
        let targets: Targets = match self.target {
            ParkedTarget::Queue(name) => self.snapshot.queue(vhost, name).into_iter().cloned().collect(),
            ParkedTarget::Exchange { name, routing_key } => {
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
                ParkedTarget::Queue(name) => format!("no queue '{name}' in vhost '{vhost}'"),
                ParkedTarget::Exchange { name, routing_key } => {
                    format!("exchange '{name}' leads it to no queue with the routing key '{routing_key}'")
                }
            });
        }
        if targets.len() > self.targets_max {
            return Err(format!("it would go to {} queues; at most {} are possible", targets.len(), self.targets_max));
        }
        let here = self.queue.stream().id();
        match targets.iter().find(|target| target.stream().id() != here) {
            Some(target) => {
                Err(format!("queue '{}' is in another log: it can't go there in one step", target.info().name))
            }
            None => Ok(targets),
        }
    }
}
