//! Messages that queues want back from disk: requests from any core, run by the reading disk thread.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use leveret_log::{Disk, LogId, StoredMessage};
use leveret_message::{Batch, BatchBuilder, FileBody, StoredError, stored};
use leveret_queue::ConsumerId;
use parking_lot::{Mutex, RwLock};

use crate::bodies::{Bodies, BodyPin, BodyRead};
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
#[derive(Clone)]
pub enum Purpose {
    /// To be delivered.
    Delivery,
    /// To be looked at by this consumer.
    Browsing(ConsumerId),
    /// To be moved to a dead-letter exchange.
    DeadLetters,
    /// To be looked at by somebody who is called with them.
    Peeking(Peek),
}

/// Who is called with messages, or with the reason why they can't be read.
pub type Peek = Arc<dyn Fn(Result<Vec<(u64, Arc<Batch>)>, String>) + Send + Sync>;

/// One read, to be run on a disk thread.
pub struct ReadJob(Work);

enum Work {
    Queue(QueueRead),
    Body(BodyRead),
}

struct QueueRead {
    queue: QueueRef,
    from: u64,
    purpose: Purpose,
    commit: Arc<Commit>,
    bodies: Arc<Bodies>,
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
    pub fn next(&self, commit: &Arc<Commit>, bodies: &Arc<Bodies>) -> Option<ReadJob> {
        // Somebody is in the middle of these.
        if let Some(read) = bodies.next_read() {
            return Some(ReadJob(Work::Body(read)));
        }
        let (queue, from, purpose) = self.requests.lock().pop_front()?;
        let (commit, bodies) = (commit.clone(), bodies.clone());
        Some(ReadJob(Work::Queue(QueueRead { queue, from, purpose, commit, bodies })))
    }
}

impl ReadJob {
    /// Reads and gives what it read to whom it is for. A queue whose messages can't be read fails, and
    /// nothing else does.
    pub fn run(self, disk: &dyn Disk, now: Now) {
        match self.0 {
            Work::Queue(read) => read.run(disk, now),
            Work::Body(read) => read.run(disk),
        }
    }
}

impl QueueRead {
    fn run(self, disk: &dyn Disk, now: Now) {
        let Self { queue, from, purpose, commit, bodies } = self;
        let runs = match stored(&queue, from, &purpose, &commit, &bodies, disk) {
            Ok(messages) => into_runs(messages.into_iter()).map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        match (runs, purpose) {
            (Ok(runs), Purpose::Delivery) => queue.loaded(runs, now.monotonic),
            (Ok(runs), Purpose::Browsing(reader)) => queue.browse_loaded(reader, runs, now.monotonic),
            (Ok(runs), Purpose::DeadLetters) => queue.dead_loaded(runs),
            (runs, Purpose::Peeking(peek)) => peek(runs),
            (Err(reason), _) => queue.fail(reason),
        }
    }
}

/// A message as it stands on disk.
struct Stored {
    number: u64,
    payload: Bytes,
    body: Body,
}

/// Where a message's body is.
enum Body {
    /// Behind its head.
    Here,
    /// It was read from its file.
    Read(Bytes),
    /// It stays in its file.
    File(FileBody),
}

impl From<StoredMessage> for Stored {
    fn from(message: StoredMessage) -> Self {
        Self { number: message.number, payload: message.payload, body: Body::Here }
    }
}

/// Messages of a queue from number `from` on, from its own log or the shared one: what stands together.
fn stored(
    queue: &QueueRef,
    mut from: u64,
    purpose: &Purpose,
    commit: &Commit,
    bodies: &Arc<Bodies>,
    disk: &dyn Disk,
) -> Result<Vec<Stored>, String> {
    let read = |log, from| {
        let plan = commit.inspect(|all| all.plan_read(log, from, READ_BYTES));
        plan.map_or(Ok(Vec::new()), |plan| plan.run(disk)).map_err(|error| error.to_string())
    };
    loop {
        let place = queue.shared_place(from);
        let shared_from = place.map_or(u64::MAX, |place| place.first);
        if shared_from > from {
            let own = read(queue.log_id(), from)?.into_iter().take_while(|message| message.number < shared_from);
            let own: Vec<_> = own.map(Stored::from).collect();
            if !own.is_empty() {
                return Ok(own);
            }
        }
        let Some(place) = place else { return Ok(Vec::new()) };
        let shared = read(LogId::SHARED, place.shared)?.into_iter();
        let ours = shared.take_while(|message| message.number - place.shared < place.count);
        let mut found = Vec::new();
        let mut bytes = 0;
        for message in ours {
            let number = place.first + message.number - place.shared;
            let payload = message.payload;
            let file = stored::body_file(&payload).map_err(|error| error.to_string())?;
            let Some((id, _, length)) = file else {
                found.push(Stored { number, payload, body: Body::Here });
                continue;
            };
            // Nobody removes the file from here on, unless that was decided before.
            let pin = BodyPin::new(id, length as u64, bodies);
            // What the queue let go of is still in the log for a while, and its file isn't.
            if !queue.holds_shared(number) {
                continue;
            }
            let read = match purpose {
                // Pieces pass when there is room for them. That the file is there is found out now.
                Purpose::Delivery | Purpose::Browsing(_) => pin.open(disk, queue.log_id()).map(|_| {
                    let length = u32::try_from(length).expect("lengths in heads have 32 bits");
                    Body::File(FileBody { length, handle: pin.clone() })
                }),
                // They are copied to the logs of other queues, or shown whole.
                Purpose::DeadLetters | Purpose::Peeking(_) => pin.read(disk, queue.log_id()).map(Body::Read),
            };
            let body = read.map_err(|error| error.to_string())?;
            if let Body::Read(_) = &body {
                bytes += length;
            }
            found.push(Stored { number, payload, body });
            if bytes >= READ_BYTES {
                break;
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
        from = place.first + place.count;
    }
}

/// Puts stored messages into batches of consecutive numbers.
///
/// # Errors
/// [`StoredError`] when one isn't a stored message.
fn into_runs(messages: impl Iterator<Item = Stored>) -> Result<Vec<(u64, Arc<Batch>)>, StoredError> {
    let mut runs = Vec::new();
    let mut builder = BatchBuilder::default();
    let mut first = 0;
    for Stored { number, payload, body } in messages {
        if builder.is_empty() {
            first = number;
        } else if first + builder.len() as u64 != number || builder.is_full() {
            runs.push((first, Arc::new(builder.finish())));
            first = number;
        }
        match body {
            Body::Here => builder.push_stored(&payload)?,
            Body::Read(body) => builder.push_stored_parts(&payload, body)?,
            Body::File(body) => builder.push_stored_file(&payload, body)?,
        }
    }
    if !builder.is_empty() {
        runs.push((first, Arc::new(builder.finish())));
    }
    Ok(runs)
}
