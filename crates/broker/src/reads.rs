//! Reads of queues' messages from disk: requested on any core, run by the reading disk thread.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use leveret_log::Disk;
use leveret_queue::{Scan, StoredRead, StreamRead};
use parking_lot::{Mutex, RwLock};

use crate::bodies::{Bodies, BodyRead};
use crate::gathering::stored;
pub use crate::gathering::{ChunksFor, MessagesFor, Peek, Purpose, READ_BYTES};
use crate::letters_in_memory::LettersInMemory;
use crate::outbox::Wake;
use crate::queue_handle::LocalQueue;
use crate::replicas::AnswerPlan;
use crate::scan::{self, Scanned};
use crate::stored_messages::into_runs;
use crate::time::Now;
use crate::unreadable::Unreadable;

/// Requests for reads of stored messages.
#[derive(Default)]
pub struct Reads {
    requests: Mutex<VecDeque<(LocalQueue, u64, Purpose)>>,
    answers: Mutex<VecDeque<AnswerRead>>,
    dead: Arc<Mutex<DeadBodies>>,
    wake: RwLock<Option<Arc<dyn Wake>>>,
    /// Messages of streams that can't be read.
    pub unreadable: Unreadable,
}

/// Reads of dead letters.
#[derive(Default)]
struct DeadBodies {
    read: LettersInMemory,
    /// Requests that wait until others are moved.
    waiting: VecDeque<(LocalQueue, u64, Purpose)>,
}

/// One read, to be run on a disk thread.
pub struct ReadJob(Work);

enum Work {
    Queue(QueueRead),
    Body(BodyRead),
    Answer(AnswerRead),
}

/// Messages for another member, which lacks them.
pub(crate) struct AnswerRead {
    /// The messages.
    pub plan: AnswerPlan,
    /// Is called with them.
    pub answer: Box<dyn FnOnce(Result<Bytes, String>) + Send>,
}

struct QueueRead {
    queue: LocalQueue,
    from: u64,
    purpose: Purpose,
    bodies: Arc<Bodies>,
    dead: Arc<Mutex<DeadBodies>>,
}

impl Reads {
    /// Sets the wake-up for requests.
    pub fn set_wake(&self, wake: Arc<dyn Wake>) {
        *self.wake.write() = Some(wake);
    }

    /// Requests the stored messages of `queue` from number `from` on.
    pub(crate) fn request(&self, queue: LocalQueue, from: u64, purpose: Purpose) {
        self.requests.lock().push_back((queue, from, purpose));
        if let Some(wake) = &*self.wake.read() {
            wake.wake();
        }
    }

    /// Requests messages for another member. Reads for this node's clients come first.
    pub(crate) fn request_answer(&self, read: AnswerRead) {
        self.answers.lock().push_back(read);
        if let Some(wake) = &*self.wake.read() {
            wake.wake();
        }
    }

    /// The next read to run.
    pub fn next(&self, bodies: &Arc<Bodies>) -> Option<ReadJob> {
        // A delivery is in the middle of these.
        if let Some(read) = bodies.next_read() {
            return Some(ReadJob(Work::Body(read)));
        }
        let Some((queue, from, purpose)) = self.next_request() else {
            return self.answers.lock().pop_front().map(|read| ReadJob(Work::Answer(read)));
        };
        let (bodies, dead) = (bodies.clone(), self.dead.clone());
        Some(ReadJob(Work::Queue(QueueRead { queue, from, purpose, bodies, dead })))
    }

    fn next_request(&self) -> Option<(LocalQueue, u64, Purpose)> {
        let mut dead = self.dead.lock();
        let is_full = dead.read.are_full();
        if !is_full && let Some(request) = dead.waiting.pop_front() {
            return Some(request);
        }
        loop {
            let request = self.requests.lock().pop_front()?;
            if !is_full || !matches!(request.2, Purpose::Messages(MessagesFor::DeadLetters(_))) {
                return Some(request);
            }
            dead.waiting.push_back(request);
        }
    }

    /// Dead letters that were read have been moved, or never will be: further ones may be read.
    pub(crate) fn dead_letters_left(&self) {
        let has_waiting = !self.dead.lock().waiting.is_empty();
        if has_waiting && let Some(wake) = &*self.wake.read() {
            wake.wake();
        }
    }
}

impl ReadJob {
    /// Reads, and passes the messages on. A queue whose messages can't be read fails, and nothing else does.
    pub fn run(self, disk: &dyn Disk, now: Now) {
        match self.0 {
            Work::Queue(read) => read.run(disk, now),
            Work::Body(read) => read.run(disk),
            Work::Answer(AnswerRead { plan, answer }) => {
                answer(plan.answer(|plan| plan.run(disk).map_err(|error| error.to_string())));
            }
        }
    }
}

impl QueueRead {
    fn run(self, disk: &dyn Disk, now: Now) {
        let Self { queue, from, purpose, bodies, dead } = self;
        let purpose = match purpose {
            Purpose::Messages(purpose) => purpose,
            Purpose::Chunks(purpose) => return scan_for(&queue, from, purpose, disk, now),
        };
        let runs = match stored(&*queue, from, &purpose, &bodies, disk) {
            Ok(messages) => into_runs(messages.into_iter()).map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        match (runs, purpose) {
            (Ok(runs), MessagesFor::Delivery(_)) => queue.loaded(StoredRead::Delivery, runs, now.monotonic),
            (Ok(runs), MessagesFor::Own(reader)) => queue.loaded(StoredRead::Own(reader, from), runs, now.monotonic),
            (Ok(runs), MessagesFor::DeadLetters(_)) => {
                dead.lock().read.note(&runs);
                queue.loaded(StoredRead::DeadLetters, runs, now.monotonic);
            }
            (runs, MessagesFor::Peeking(peek)) => peek(runs),
            (Err(reason), _) => queue.fail(reason),
        }
    }
}

/// Scans a stream for one of its readers, or for one who looks at it from outside.
fn scan_for(queue: &LocalQueue, from: u64, purpose: ChunksFor, disk: &dyn Disk, now: Now) {
    let place = (queue.store(), queue.log_id(), &*queue.info().name);
    let scanned = |scan: &Scan| {
        let scanned = scan::scan(place, from, scan, disk, now.wall_ms)?;
        queue.reads.unreadable.note(queue.info(), &scanned.skipped, now.monotonic);
        Ok(scanned)
    };
    match purpose {
        ChunksFor::Reader(reader) => {
            // A reader that is gone wants nothing.
            let Some(scan) = queue.scan(reader) else { return };
            match scanned(&scan) {
                Ok(Scanned { runs, chunks, end, since_ms, .. }) => {
                    let read = StreamRead { reader, from, end, since_ms };
                    match scan.whole_chunks {
                        true => queue.loaded_chunks(read, chunks, now.monotonic),
                        false => queue.loaded_of_stream(read, runs, now.monotonic),
                    }
                }
                Err(reason) => queue.fail(reason),
            }
        }
        ChunksFor::Peeking(peek) => peek(scanned(&Scan::default()).map(|scanned| scanned.runs)),
        ChunksFor::Searching(scan, found) => found(scanned(&scan)),
    }
}
