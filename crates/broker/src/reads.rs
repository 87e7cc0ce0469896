//! Messages that queues want back from disk: requests from any core, run by the reading disk thread.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use leveret_log::{Disk, LogId, ReadError};
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
        let runs = match stored(&queue, from, &commit, disk) {
            Ok(messages) => into_runs(messages.into_iter()).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match (runs, purpose) {
            (Ok(runs), Purpose::Delivery) => queue.loaded(runs, now.monotonic),
            (Ok(runs), Purpose::Browsing(reader)) => queue.browse_loaded(reader, runs, now.monotonic),
            (Ok(runs), Purpose::DeadLetters) => queue.dead_loaded(runs),
            (Err(reason), _) => queue.fail(reason),
        }
    }
}

/// Messages of a queue from number `from` on, from its own log or the shared one: what stands together.
fn stored(queue: &QueueRef, mut from: u64, commit: &Commit, disk: &dyn Disk) -> Result<Vec<(u64, Bytes)>, ReadError> {
    let read = |log, from| {
        let plan = commit.inspect(|all| all.plan_read(log, from, READ_BYTES));
        plan.map_or(Ok(Vec::new()), |plan| plan.run(disk))
    };
    loop {
        let place = queue.shared_place(from);
        let shared_from = place.map_or(u64::MAX, |place| place.first);
        if shared_from > from {
            let own = read(queue.log_id(), from)?.into_iter().map(|message| (message.number, message.payload));
            let own: Vec<_> = own.take_while(|(number, _)| *number < shared_from).collect();
            if !own.is_empty() {
                return Ok(own);
            }
        }
        let Some(place) = place else { return Ok(Vec::new()) };
        let shared = read(LogId::SHARED, place.shared)?.into_iter();
        let ours = shared.take_while(|message| message.number - place.shared < place.count);
        let ours: Vec<_> = ours.map(|message| (place.first + message.number - place.shared, message.payload)).collect();
        if !ours.is_empty() {
            return Ok(ours);
        }
        from = place.first + place.count;
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
