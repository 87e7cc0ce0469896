//! Transactions of both protocols: a client's publishes and settlements take effect together or not at all.
//!
//! Until the commit everything waits here, invisible to the queues. The [commit](crate::commit) is one group in each commit
//! stream that its queues belong to, mostly one: after a crash either all of a stream's group is there, or none of it. Transactions
//! don't isolate: a consumer may see a message of one in a queue a moment before another consumer sees the next message
//! in another queue.

use std::sync::Arc;

use leveret_message::Batch;
use leveret_queue::{ConsumerId, Run, push_run, push_sized};
use rustc_hash::FxHashMap;

use leveret_broker::queue_handle::{QueueKey, QueueRef};
use leveret_broker::route::RouteQueues;
use leveret_broker::settlement::Settlement;
use leveret_broker::turn_budget::{DELIVERY, ENQUEUE, QUEUE_RUN};

/// Bytes of messages that the open transactions of one connection hold at most.
pub const TRANSACTION_BYTES_MAX: u64 = 64 << 20;
/// Bytes that one transaction writes to the log at most: each message counts once for each of its queues.
pub const TRANSACTION_LOG_BYTES_MAX: u64 = 256 << 20;

/// Cost of a run of deliveries that a commit settles.
pub(crate) const SETTLED_RUN: u32 = 3 * DELIVERY;

pub(crate) struct Publishing {
    pub queues: RouteQueues,
    pub batch: Arc<Batch>,
    pub persistent: bool,
}

pub(crate) struct Settling {
    pub queue: QueueRef,
    pub consumer: Option<ConsumerId>,
    pub runs: Vec<Run>,
    pub settlement: Settlement,
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
    publish_work: u32,
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

    /// An estimate of the work of its commit, in units of [`leveret_broker::turn_budget`].
    pub(crate) fn work(&self) -> u32 {
        let runs = self.settles.iter().map(|settling| QUEUE_RUN + settling.runs.len() as u32 * SETTLED_RUN);
        runs.fold(self.publish_work, u32::saturating_add)
    }

    /// The publish with this index, in the order in which they came.
    pub(crate) fn publishing(&self, index: usize) -> Option<&Publishing> {
        self.publishes.get(index)
    }

    /// Takes out what its commit does.
    pub(crate) fn take_steps(&mut self) -> (Vec<Publishing>, Vec<Settling>) {
        let Self { publishes, settles, .. } = std::mem::take(self);
        (publishes, settles)
    }

    /// Adds messages for these queues, to be published in order.
    pub fn publish(&mut self, queues: &RouteQueues, batch: Arc<Batch>, persistent: bool) {
        let bytes = batch.memory() as u64;
        self.bytes += bytes;
        self.log_bytes += bytes * queues.len() as u64;
        let work = (QUEUE_RUN + batch.len() as u32 * ENQUEUE).saturating_mul(queues.len() as u32);
        self.publish_work = self.publish_work.saturating_add(work);
        self.publishes.push(Publishing { queues: queues.clone(), batch, persistent });
    }

    /// Settles messages that a consumer holds. Messages with the same settlement are one step of the commit, however
    /// many calls they take: each step is a record of the log, or a move of dead letters that the answer waits for.
    pub fn settle(&mut self, queue: &QueueRef, consumer: Option<ConsumerId>, runs: Vec<Run>, settlement: Settlement) {
        let key = (queue.key(), consumer, settlement);
        let at = *self.settling.entry(key).or_insert_with(|| {
            self.settles.push(Settling { queue: queue.clone(), consumer, runs: Vec::new(), settlement });
            self.settles.len() - 1
        });
        let all = &mut self.settles[at].runs;
        match settlement {
            Settlement::Acknowledge => runs.into_iter().for_each(|run| push_run(all, run)),
            // Each of them leaves another time, with its own size.
            Settlement::Reject { .. } | Settlement::Requeue { .. } => {
                runs.into_iter().for_each(|run| push_sized(all, run))
            }
        }
    }
}
