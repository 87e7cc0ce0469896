//! Transactions of both protocols: a client's publishes and settlements take effect together or not at all.
//!
//! Until the commit everything waits here, invisible to the queues. The commit is one group in each commit stream that
//! its queues belong to, mostly one: after a crash either all of a stream's group is there, or none of it. Transactions
//! don't isolate: a consumer may see a message of one in a queue a moment before another consumer sees the next message
//! in another queue.

use std::sync::Arc;

use leveret_log::Wait;
use leveret_message::Batch;
use leveret_queue::{ConsumerId, Departure, QueueState, Run, push_run};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::undurable::Undurable;
use leveret_broker::group::Group;
use leveret_broker::outbox::Outbox;
use leveret_broker::queue_handle::{QueueKey, QueueRef, RECORD_RUNS_MAX, Reason};
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

/// An open transaction.
#[derive(Default)]
pub struct Transaction {
    publishes: Vec<Publishing>,
    settles: Vec<Settling>,
    /// Index of each entry of `settles`, by the queue that it keeps.
    settling: FxHashMap<(QueueKey, Option<ConsumerId>, Settlement), usize>,
    bytes: u64,
    log_bytes: u64,
}

/// The result of a commit.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The position that the answer waits for.
    pub wait: WaitFor,
    /// A queue refused a message (`x-overflow`).
    pub refused: bool,
}

impl Transaction {
    /// Number of messages that it publishes.
    pub fn message_count(&self) -> usize {
        self.publishes.iter().map(|publishing| publishing.batch.len()).sum()
    }

    /// Bytes of memory that its messages hold.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Approximate number of bytes that its commit writes to the log.
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// A stopped queue among its targets; the queue would refuse the publish.
    pub fn stopped_target(&self) -> Option<&QueueRef> {
        let mut queues = self.publishes.iter().flat_map(|publishing| &publishing.queues);
        queues.find(|queue| matches!(queue.state(), QueueState::Failed(_)))
    }

    /// Adds messages for these queues, to be published in order.
    pub fn publish(&mut self, queues: &[QueueRef], batch: Arc<Batch>, persistent: bool) {
        let bytes = batch.memory() as u64;
        self.bytes += bytes;
        self.log_bytes += bytes * queues.len() as u64;
        self.publishes.push(Publishing { queues: queues.into(), batch, persistent });
    }

    /// Settles messages that a consumer holds. Messages with the same settlement are one step of the commit, however
    /// many calls they take: each step is a record of the log, or a move of dead letters that the answer waits for.
    pub fn settle(&mut self, queue: &QueueRef, consumer: Option<ConsumerId>, runs: Vec<Run>, settlement: Settlement) {
        let key = (queue.key(), consumer, settlement);
        match self.settling.get(&key) {
            Some(at) => runs.into_iter().for_each(|run| push_run(&mut self.settles[*at].runs, run)),
            None => {
                self.settling.insert(key, self.settles.len());
                self.settles.push(Settling { queue: queue.clone(), consumer, runs, settlement });
            }
        }
    }

    /// Commits: publishes first, then settlements. Notes the queues that have something on its way to the disk. The
    /// caller has checked that the log has room; its outbox is notified when moves of dead letters are durable.
    pub fn commit(mut self, undurable: &mut Undurable, outbox: &Arc<Outbox>, now: Now) -> Committed {
        // The TTL counts from here: RabbitMQ's queues get the messages at this point, too.
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
                Settlement::Acknowledge => Departure::Settled,
                // The move of its dead letters is a group of its own, which must not be written before this one.
                Settlement::Reject if queue.info().options.dead_letter.is_some() => {
                    deaths.push((queue, consumer, runs));
                    continue;
                }
                Settlement::Reject => Departure::Dropped,
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
            // Memory that the batches hold is counted once, spread over the queues.
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
