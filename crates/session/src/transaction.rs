//! Transactions: what a client publishes and settles takes effect together, or not at all. Whatever the protocol.
//!
//! Until the commit everything waits here, out of the queues' sight. The commit is one group of each commit stream that
//! its queues belong to, mostly one: after a crash all of a stream's is there, or nothing. It doesn't isolate: a consumer may see a message of it in one queue a moment before
//! another one sees the next.

use std::sync::Arc;

use leveret_log::Wait;
use leveret_message::Batch;
use leveret_queue::{ConsumerId, Outcome, QueueState, Run, push_run};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::undurable::Undurable;
use leveret_broker::group::Group;
use leveret_broker::outbox::Outbox;
use leveret_broker::queue_handle::{QueueRef, RECORD_RUNS_MAX, Reason};
use leveret_broker::settlement::Settlement;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;

/// Bytes of messages that the open transactions of one connection hold at most.
pub const TRANSACTION_BYTES_MAX: u64 = 64 << 20;
/// Bytes that one transaction writes to the log at most: each message counts once for each of its queues.
pub const TRANSACTION_LOG_BYTES_MAX: u64 = 256 << 20;

struct Publishing {
    queues: SmallVec<[QueueRef; 2]>,
    batch: Arc<Batch>,
    persistent: bool,
}

struct Settling {
    queue: QueueRef,
    consumer: Option<ConsumerId>,
    runs: Vec<Run>,
    settlement: Settlement,
}

/// See the module.
#[derive(Default)]
pub struct Transaction {
    publishes: Vec<Publishing>,
    settles: Vec<Settling>,
    /// Where each of those is, by the address of the queue that it keeps.
    settling: FxHashMap<(usize, Option<ConsumerId>, Settlement), usize>,
    bytes: u64,
    log_bytes: u64,
}

/// What a commit came to.
#[derive(Debug, Clone)]
pub struct Committed {
    /// What the answer waits for.
    pub wait: WaitFor,
    /// A queue refused a message (`x-overflow`).
    pub refused: bool,
}

impl Transaction {
    /// How many messages it publishes.
    pub fn message_count(&self) -> usize {
        self.publishes.iter().map(|publishing| publishing.batch.len()).sum()
    }

    /// Memory that its messages hold.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that its commit writes to the log, about.
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// A queue that it publishes to and that has stopped, so that it would refuse.
    pub fn stopped_target(&self) -> Option<&QueueRef> {
        let mut queues = self.publishes.iter().flat_map(|publishing| &publishing.queues);
        queues.find(|queue| matches!(queue.state(), QueueState::Failed(_)))
    }

    /// Messages for these queues, to be published in order.
    pub fn publish(&mut self, queues: &[QueueRef], batch: Arc<Batch>, persistent: bool) {
        let bytes = batch.memory() as u64;
        self.bytes += bytes;
        self.log_bytes += bytes * queues.len() as u64;
        self.publishes.push(Publishing { queues: queues.into(), batch, persistent });
    }

    /// Messages that a consumer holds. Those that share their fate are one step of the commit, however many calls
    /// they take: each step is a record of the log, or a move of dead letters that the answer waits for.
    pub fn settle(&mut self, queue: &QueueRef, consumer: Option<ConsumerId>, runs: Vec<Run>, settlement: Settlement) {
        let key = (Arc::as_ptr(queue).addr(), consumer, settlement);
        match self.settling.get(&key) {
            Some(at) => runs.into_iter().for_each(|run| push_run(&mut self.settles[*at].runs, run)),
            None => {
                self.settling.insert(key, self.settles.len());
                self.settles.push(Settling { queue: queue.clone(), consumer, runs, settlement });
            }
        }
    }

    /// Carries it out: publishes first, then what is settled. The queues are noted as having something on its way to
    /// the disk. The caller has asked whether the log has room; its outbox is told when moves of dead letters are
    /// durable.
    pub fn commit(mut self, undurable: &mut Undurable, outbox: &Arc<Outbox>, now: Now) -> Committed {
        // Times to live count from here: RabbitMQ's queues get the messages now.
        for publishing in &mut self.publishes {
            Arc::make_mut(&mut publishing.batch).receive_at(now.wall_ms);
        }
        let now = now.monotonic;
        let mut groups = Groups::default();
        let mut refused = false;
        for Publishing { queues, batch, persistent } in &self.publishes {
            let count = batch.len() as u32;
            for queue in queues {
                refused |= queue.publish_in(groups.of(queue), batch, 0, count, *persistent, now) < count;
            }
        }
        let (mut requeues, mut deaths) = (Vec::new(), Vec::new());
        for settling in self.settles {
            let Settling { queue, consumer, runs, settlement } = settling;
            let outcome = match settlement {
                Settlement::Acknowledge => Outcome::Settled,
                // Their move is a group of its own, which must not be written before this one.
                Settlement::Reject if queue.info().options.dead_letter.is_some() => {
                    deaths.push((queue, consumer, runs));
                    continue;
                }
                Settlement::Reject => Outcome::Dropped,
                Settlement::Requeue { failed } => {
                    requeues.push((queue, consumer, runs, failed));
                    continue;
                }
            };
            for runs in runs.chunks(RECORD_RUNS_MAX) {
                queue.settle_in(groups.of(&queue), consumer, runs, outcome, now);
            }
        }
        let closed: SmallVec<[_; 1]> = groups.0.into_iter().map(|group| group.close(Wait::Confirm)).collect();
        let count: usize = closed.iter().map(|(_, queues)| queues.len()).sum();
        for (ticket, queues) in closed.iter().filter(|(ticket, _)| !ticket.is_nothing()) {
            // Memory that the batches hold is counted once.
            queues.iter().for_each(|queue| undurable.note((*ticket).into(), queue, self.bytes / count as u64));
        }
        for (queue, consumer, runs, failed) in requeues {
            queue.requeue(consumer, &runs, failed, now);
        }
        let moves = deaths
            .into_iter()
            .map(|(queue, consumer, runs)| queue.reject(consumer, &runs, outbox, Reason::Transaction, now));
        let wait = WaitFor::all(closed.iter().map(|(ticket, _)| WaitFor::from(*ticket)).chain(moves));
        Committed { wait, refused }
    }
}

/// The groups of a commit, one for each stream.
#[derive(Default)]
struct Groups(SmallVec<[Group; 1]>);

impl Groups {
    fn of(&mut self, queue: &QueueRef) -> &mut Group {
        let at = match self.0.iter().position(|group| group.stream().id() == queue.stream().id()) {
            Some(at) => at,
            None => {
                self.0.push(Group::new(queue.stream()));
                self.0.len() - 1
            }
        };
        &mut self.0[at]
    }
}
