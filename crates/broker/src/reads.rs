//! Messages that queues want back from disk: requests from any core, run by the reading disk thread.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use leveret_log::Disk;
use leveret_message::{Batch, BatchBuilder, StoredError};
use leveret_queue::ConsumerId;
use parking_lot::{Mutex, RwLock};

use crate::commit::Commit;
use crate::outbox::Wake;
use crate::queue_handle::QueueRef;
use crate::time::Now;

/// Bytes that one read asks for.
pub const READ_BYTES: usize = 256 << 10;

/// See the module.
#[derive(Default)]
pub struct Reads {
    requests: Mutex<VecDeque<(QueueRef, u64, Purpose)>>,
    wake: RwLock<Option<Arc<dyn Wake>>>,
}

/// What messages are read back for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be delivered.
    Delivery,
    /// To be looked at by this consumer.
    Browsing(ConsumerId),
    /// To be moved to a dead-letter exchange.
    DeadLetters,
}

/// One read, to be run on a disk thread.
pub struct ReadJob {
    queue: QueueRef,
    from: u64,
    purpose: Purpose,
    commit: Arc<Commit>,
}

impl Reads {
    /// Sets who is woken for a request.
    pub fn set_wake(&self, wake: Arc<dyn Wake>) {
        *self.wake.write() = Some(wake);
    }

    /// Asks for the stored messages of `queue` from number `from` on.
    pub fn request(&self, queue: QueueRef, from: u64, purpose: Purpose) {
        self.requests.lock().push_back((queue, from, purpose));
        if let Some(wake) = &*self.wake.read() {
            wake.wake();
        }
    }

    /// The next read to run.
    pub fn next(&self, commit: &Arc<Commit>) -> Option<ReadJob> {
        let (queue, from, purpose) = self.requests.lock().pop_front()?;
        Some(ReadJob { queue, from, purpose, commit: commit.clone() })
    }
}

impl ReadJob {
    /// Reads and gives the messages to their queue. A queue whose messages can't be read fails, and
    /// nothing else does.
    pub fn run(self, disk: &dyn Disk, now: Now) {
        let Self { queue, from, purpose, commit } = self;
        let plan = commit.inspect(|log| log.plan_read(queue.log_id(), from, READ_BYTES));
        let runs = match plan.map(|plan| plan.run(disk)) {
            None => Ok(Vec::new()),
            Some(Ok(messages)) => into_runs(messages.into_iter().map(|message| (message.number, message.payload)))
                .map_err(|error| error.to_string()),
            Some(Err(error)) => Err(error.to_string()),
        };
        match (runs, purpose) {
            (Ok(runs), Purpose::Delivery) => queue.loaded(runs, now.monotonic),
            (Ok(runs), Purpose::Browsing(reader)) => queue.browse_loaded(reader, runs, now.monotonic),
            (Ok(runs), Purpose::DeadLetters) => queue.dead_loaded(runs),
            (Err(reason), _) => queue.fail(reason),
        }
    }
}

/// Puts stored messages into batches of consecutive numbers.
///
/// # Errors
/// [`StoredError`] when one isn't a stored message.
pub fn into_runs(messages: impl Iterator<Item = (u64, Bytes)>) -> Result<Vec<(u64, Arc<Batch>)>, StoredError> {
    let mut runs = Vec::new();
    let mut builder = BatchBuilder::default();
    let mut first = 0;
    for (number, payload) in messages {
        if builder.is_empty() {
            first = number;
        } else if first + builder.len() as u64 != number || builder.is_full() {
            runs.push((first, Arc::new(builder.finish())));
            first = number;
        }
        builder.push_stored(&payload)?;
    }
    if !builder.is_empty() {
        runs.push((first, Arc::new(builder.finish())));
    }
    Ok(runs)
}
