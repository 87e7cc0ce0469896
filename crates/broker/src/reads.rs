//! Reads of queues' messages from disk: requested on any core, run by the reading disk thread.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::sync::Arc;

use bytes::Bytes;
use leveret_log::{BODY_PIECE_BYTES, Disk, LogId, StoredMessage};
use leveret_message::{Batch, stored};
use leveret_queue::shared::SharedPlace;
use leveret_queue::{ConsumerId, Scan, StoredRead};
use parking_lot::{Mutex, RwLock};

use crate::bodies::{Bodies, BodyPin, BodyRead};
use crate::letters_in_memory::LettersInMemory;
use crate::outbox::Wake;
use crate::queue_handle::LocalQueue;
use crate::read_messages::{Body, Stored, into_runs};
use crate::scan::{self, PassFound, Scanned};
use crate::streams::StreamRef;
use crate::time::Now;

/// Number of bytes that one read requests.
pub const READ_BYTES: usize = 256 << 10;

/// Requests for reads of stored messages.
#[derive(Default)]
pub struct Reads {
    requests: Mutex<VecDeque<(LocalQueue, u64, Purpose)>>,
    dead: Arc<Mutex<DeadBodies>>,
    wake: RwLock<Option<Arc<dyn Wake>>>,
}

/// Reads of dead letters.
#[derive(Default)]
struct DeadBodies {
    read: LettersInMemory,
    /// Requests that wait until others are moved.
    waiting: VecDeque<(LocalQueue, u64)>,
}

/// The purpose of a read.
#[derive(Clone)]
pub enum Purpose {
    /// To be delivered.
    Delivery,
    /// For this consumer alone, which browses, or fetches deferred messages.
    Own(ConsumerId),
    /// To be moved to a dead-letter exchange.
    DeadLetters,
    /// To be passed to this function.
    Peeking(Peek),
    /// Chunks of a stream that were searched, for this function.
    Searching(Box<Scan>, PassFound),
}

/// A function that is called with messages, or with the reason why they can't be read.
pub type Peek = Arc<dyn Fn(Result<Vec<(u64, Arc<Batch>)>, String>) + Send + Sync>;

/// One read, to be run on a disk thread.
pub struct ReadJob(Work);

enum Work {
    Queue(QueueRead),
    Body(BodyRead),
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

    /// The next read to run.
    pub fn next(&self, bodies: &Arc<Bodies>) -> Option<ReadJob> {
        // A delivery is in the middle of these.
        if let Some(read) = bodies.next_read() {
            return Some(ReadJob(Work::Body(read)));
        }
        let (queue, from, purpose) = self.next_request()?;
        let (bodies, dead) = (bodies.clone(), self.dead.clone());
        Some(ReadJob(Work::Queue(QueueRead { queue, from, purpose, bodies, dead })))
    }

    fn next_request(&self) -> Option<(LocalQueue, u64, Purpose)> {
        let mut dead = self.dead.lock();
        let is_full = dead.read.are_full();
        if !is_full && let Some((queue, from)) = dead.waiting.pop_front() {
            return Some((queue, from, Purpose::DeadLetters));
        }
        loop {
            let (queue, from, purpose) = self.requests.lock().pop_front()?;
            if !is_full || !matches!(purpose, Purpose::DeadLetters) {
                return Some((queue, from, purpose));
            }
            dead.waiting.push_back((queue, from));
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
        }
    }
}

impl QueueRead {
    fn run(self, disk: &dyn Disk, now: Now) {
        let Self { queue, from, purpose, bodies, dead } = self;
        if queue.is_stream() {
            return scan_for(&queue, from, purpose, disk, now);
        }
        let runs = match stored(&queue, from, &purpose, &bodies, disk) {
            Ok(messages) => into_runs(messages.into_iter()).map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        match (runs, purpose) {
            (Ok(runs), Purpose::Delivery) => queue.loaded(StoredRead::Delivery, runs, now.monotonic),
            (Ok(runs), Purpose::Own(reader)) => queue.loaded(StoredRead::Own(reader, from), runs, now.monotonic),
            (Ok(runs), Purpose::DeadLetters) => {
                dead.lock().read.note(&runs);
                queue.loaded(StoredRead::DeadLetters, runs, now.monotonic);
            }
            (runs, Purpose::Peeking(peek)) => peek(runs),
            (_, Purpose::Searching(..)) => unreachable!("only a stream is searched"),
            (Err(reason), _) => queue.fail(reason),
        }
    }
}

/// Scans a stream for one of its readers, or for one who looks at it from outside.
fn scan_for(queue: &LocalQueue, from: u64, purpose: Purpose, disk: &dyn Disk, now: Now) {
    let place = (queue.stream(), queue.log_id());
    let scanned = |scan: &Scan| scan::scan(place, from, scan, disk, now.wall_ms);
    match purpose {
        Purpose::Own(reader) => {
            // A reader that is gone wants nothing.
            let Some(scan) = queue.scan(reader) else { return };
            match scanned(&scan) {
                Ok(Scanned { runs, chunks, end, since_ms }) => {
                    let read = StoredRead::Scan { reader, from, end, since_ms };
                    match scan.whole_chunks {
                        true => queue.loaded_chunks(read, chunks, now.monotonic),
                        false => queue.loaded(read, runs, now.monotonic),
                    }
                }
                Err(reason) => queue.fail(reason),
            }
        }
        Purpose::Peeking(peek) => peek(scanned(&Scan::default()).map(|scanned| scanned.runs)),
        Purpose::Searching(scan, found) => found(scanned(&scan)),
        Purpose::Delivery | Purpose::DeadLetters => unreachable!("a stream has readers only"),
    }
}

/// The messages of a log that were read at once: all that it has between the first and the last of these.
struct Ahead {
    log: LogId,
    messages: Peekable<std::vec::IntoIter<StoredMessage>>,
    was_read: bool,
}

impl Ahead {
    fn of(log: LogId) -> Self {
        Self { log, messages: Vec::new().into_iter().peekable(), was_read: false }
    }

    /// Whether a message from number `from` on can't be found without another read.
    fn is_used_up(&mut self, from: u64) -> bool {
        while self.messages.next_if(|message| message.last() < from).is_some() {}
        self.messages.peek().is_none()
    }

    /// Reads on from this number.
    fn read(&mut self, from: u64, stream: &StreamRef, disk: &dyn Disk) -> Result<(), String> {
        self.was_read = true;
        let plan = stream.plan_read(self.log, from, READ_BYTES);
        let messages = plan.map_or(Ok(Vec::new()), |plan| plan.run(disk)).map_err(|error| error.to_string())?;
        self.messages = messages.into_iter().peekable();
        Ok(())
    }

    /// The next message before number `end`.
    fn next_before(&mut self, end: u64) -> Option<StoredMessage> {
        self.messages.next_if(|message| message.number < end)
    }
}

/// A read of a queue's messages, some of which are stored in its own log and some in the shared one.
struct Gathering<'a> {
    queue: &'a LocalQueue,
    purpose: &'a Purpose,
    bodies: &'a Arc<Bodies>,
    disk: &'a dyn Disk,
    own: Ahead,
    shared: Ahead,
    found: Vec<Stored>,
    bytes: usize,
}

/// Messages of a queue from number `from` on, until [`READ_BYTES`] are found, or another read of one of the logs is needed.
fn stored(
    queue: &LocalQueue,
    mut from: u64,
    purpose: &Purpose,
    bodies: &Arc<Bodies>,
    disk: &dyn Disk,
) -> Result<Vec<Stored>, String> {
    let (own, shared) = (Ahead::of(queue.log_id()), Ahead::of(LogId::SHARED));
    let mut gathering = Gathering { queue, purpose, bodies, disk, own, shared, found: Vec::new(), bytes: 0 };
    loop {
        match gathering.stretch(from) {
            Ok(Some(next)) if gathering.bytes < READ_BYTES => from = next,
            // Messages found before the error are used; the next read begins with the error.
            Err(error) if gathering.found.is_empty() => return Err(error),
            Ok(_) | Err(_) => return Ok(gathering.found),
        }
    }
}

impl Gathering<'_> {
    /// Takes contiguous messages of one of the logs. Returns where to continue, unless that log has to be read again.
    fn stretch(&mut self, from: u64) -> Result<Option<u64>, String> {
        let place = self.queue.shared_place(from);
        let shared_from = place.map_or(u64::MAX, |place| place.first);
        if shared_from > from {
            if self.own.is_used_up(from) {
                if self.own.was_read && !self.found.is_empty() {
                    return Ok(None);
                }
                self.own.read(from, self.queue.stream(), self.disk)?;
            }
            let mut next = None;
            while let Some(message) = self.own.next_before(shared_from) {
                next = Some(message.last() + 1);
                self.keep(message.into());
            }
            // Another file may contain more of them.
            if next.is_some() && self.own.messages.peek().is_none() {
                return Ok(next);
            }
        }
        place.map_or(Ok(None), |place| self.stretch_of_shared(place))
    }

    fn stretch_of_shared(&mut self, place: SharedPlace) -> Result<Option<u64>, String> {
        if self.shared.is_used_up(place.shared) {
            if self.shared.was_read && !self.found.is_empty() {
                return Ok(None);
            }
            self.shared.read(place.shared, self.queue.stream(), self.disk)?;
        }
        let mut next = None;
        while let Some(message) = self.shared.next_before(place.shared + place.count) {
            let number = place.first + message.number - place.shared;
            next = Some(number + 1);
            self.take_shared(number, message.payload)?;
            if self.bytes >= READ_BYTES {
                return Ok(next);
            }
        }
        let is_at_end = self.shared.messages.peek().is_none();
        Ok(next.filter(|_| is_at_end).or(Some(place.first + place.count)))
    }

    fn take_shared(&mut self, number: u64, payload: Bytes) -> Result<(), String> {
        let file = stored::body_file(&payload).map_err(|error| error.to_string())?;
        let Some((id, _, length)) = file else {
            self.keep(Stored { number, payload, body: Body::Here });
            return Ok(());
        };
        // The file isn't removed from here on, unless that was decided before.
        let pin = BodyPin::new(id, length as u64, self.bodies);
        // A message that the queue released is still in the log for a while, but its file may not be.
        if !self.queue.holds_shared(number) {
            return Ok(());
        }
        let body = match self.purpose {
            // Pieces are read later, when there is room for them. Whether the file exists is checked now.
            Purpose::Delivery => pin.open(self.disk, self.queue.log_id()).map(|_| Body::in_file(&pin, None)),
            // Its consumer may have a filter, which looks at the fields.
            Purpose::Own(_) => {
                let fields = match stored::is_amqp10(&payload) {
                    true => pin.fields(self.disk, self.queue.log_id()),
                    false => pin.open(self.disk, self.queue.log_id()).map(|_| Bytes::new()),
                };
                self.bytes += fields.as_ref().map_or(0, |_| BODY_PIECE_BYTES);
                fields.map(|fields| Body::in_file(&pin, Some(fields)))
            }
            // They are copied to the logs of other queues, or shown as a whole.
            Purpose::DeadLetters | Purpose::Peeking(_) | Purpose::Searching(..) => {
                pin.read(self.disk, self.queue.log_id()).map(Body::Read)
            }
        };
        let body = body.map_err(|error| error.to_string())?;
        self.keep(Stored { number, payload, body });
        Ok(())
    }

    fn keep(&mut self, message: Stored) {
        self.bytes += message.payload.len();
        if let Body::Read(body) = &message.body {
            self.bytes += body.len();
        }
        self.found.push(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_found_by_any_of_its_numbers() {
        let chunk = |number| StoredMessage { number, messages: 10, payload: Bytes::new() };
        let messages = vec![chunk(0), chunk(10)].into_iter().peekable();
        let mut ahead = Ahead { messages, ..Ahead::of(LogId(7)) };
        assert!(!ahead.is_used_up(19));
        assert_eq!(ahead.next_before(20).map(|chunk| chunk.number), Some(10));
        assert!(ahead.is_used_up(20));
    }
}
