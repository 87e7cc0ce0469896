//! Reads of bodies from their files: in pieces as room permits, or as a whole if a conversion needs that.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use leveret_log::{Disk, LogId};
use leveret_message::FileBody;
use parking_lot::{Mutex, RwLock};

use super::{Bodies, BodyPin};
use crate::outbox::{Event, Outbox, Wake};
use crate::settings::WHOLE_BODIES_BYTES_MAX;

/// Maximum number of pieces that a delivery has in memory.
const PIECES_MAX: usize = 2;

/// A body that is being read for a delivery.
pub enum BodyReader {
    /// It is delivered piece by piece.
    Pieces(Pieces),
    /// It is converted as a whole.
    Whole(WholeBody),
}

/// The result of a read: a piece, or the whole body.
type Slot = Mutex<Option<Result<(Bytes, Option<Permit>), String>>>;

/// Reads that wait for a disk thread.
#[derive(Default)]
pub(super) struct BodyReads {
    requests: Mutex<VecDeque<BodyRead>>,
    whole: Mutex<WholeBodies>,
    wake: RwLock<Option<Arc<dyn Wake>>>,
}

/// Bodies that are in memory as a whole, and reads that wait until fewer are.
#[derive(Default)]
pub(crate) struct WholeBodies {
    bytes: u64,
    waiting: VecDeque<BodyRead>,
}

/// The queue that has the message of a body.
pub trait BodyOwner: Send + Sync {
    /// Its log, named in errors.
    fn log_id(&self) -> LogId;

    /// Fails the queue: one of its bodies can't be read.
    fn fail(self: Arc<Self>, reason: String);
}

/// One read, to be run on a disk thread.
pub struct BodyRead {
    pin: Arc<BodyPin>,
    /// Index of the piece to read; `None` to read the whole body.
    place: Option<u64>,
    permit: Option<Permit>,
    /// Its queue, which fails if the body can't be read.
    queue: Arc<dyn BodyOwner>,
    slot: Arc<Slot>,
    outbox: Arc<Outbox>,
}

/// Permission to have one body in memory as a whole.
struct Permit {
    bytes: u64,
    bodies: Arc<Bodies>,
}

impl BodyReads {
    pub(super) fn set_wake(&self, wake: Arc<dyn Wake>) {
        *self.wake.write() = Some(wake);
    }

    fn push(&self, read: BodyRead) {
        self.requests.lock().push_back(read);
        if let Some(wake) = &*self.wake.read() {
            wake.wake();
        }
    }

    pub(super) fn next(&self, bodies: &Arc<Bodies>) -> Option<BodyRead> {
        if let Some(read) = self.requests.lock().pop_front() {
            return Some(read);
        }
        let mut whole = self.whole.lock();
        let bytes = whole.waiting.front()?.pin.length();
        if whole.bytes > 0 && whole.bytes + bytes > WHOLE_BODIES_BYTES_MAX {
            return None;
        }
        whole.bytes += bytes;
        let read = whole.waiting.pop_front()?;
        Some(BodyRead { permit: Some(Permit { bytes, bodies: bodies.clone() }), ..read })
    }

    fn push_whole(&self, read: BodyRead) {
        self.whole.lock().waiting.push_back(read);
        if let Some(wake) = &*self.wake.read() {
            wake.wake();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let reads = &self.bodies.reads;
        reads.whole.lock().bytes -= self.bytes;
        if let Some(wake) = &*reads.wake.read() {
            wake.wake();
        }
    }
}

impl BodyRead {
    /// Runs the read, and notifies the connection that waits for it.
    pub fn run(self, disk: &dyn Disk) {
        let Self { pin, place, permit, queue, slot, outbox } = self;
        let log = queue.log_id();
        if Arc::strong_count(&slot) == 1 {
            // The delivery was abandoned.
            return;
        }
        let read = match place {
            Some(place) => pin.open(disk, log).and_then(|body| body.piece(disk, place, log)),
            None => pin.read(disk, log),
        };
        let read = read.map(|bytes| (bytes, permit)).map_err(|error| error.to_string());
        let failure = read.as_ref().err().cloned();
        *slot.lock() = Some(read);
        // A connection in the middle of this delivery learns the reason before the queue's consumers are cancelled.
        outbox.send(Event::Body);
        if let Some(failure) = failure {
            queue.fail(failure);
        }
    }
}

/// A body that is delivered piece by piece.
pub struct Pieces {
    pin: Arc<BodyPin>,
    bodies: Arc<Bodies>,
    queue: Arc<dyn BodyOwner>,
    outbox: Arc<Outbox>,
    /// The next piece to request.
    place: u64,
    asked: Option<Arc<Slot>>,
    there: VecDeque<Bytes>,
    /// Bytes that haven't been consumed.
    left: u64,
    failure: Option<String>,
}

impl Pieces {
    /// Begins to read a body of a message in `queue`. `outbox` gets [`Event::Body`] for each result.
    pub fn new(body: &FileBody, bodies: &Arc<Bodies>, queue: Arc<dyn BodyOwner>, outbox: &Arc<Outbox>) -> Self {
        let pin = BodyPin::of(body);
        let mut pieces = Self {
            left: pin.length(),
            pin,
            bodies: bodies.clone(),
            queue,
            outbox: outbox.clone(),
            place: 0,
            asked: None,
            there: VecDeque::new(),
            failure: None,
        };
        pieces.look();
        pieces
    }

    /// Takes over pieces that were read, and requests more if there is room.
    pub fn look(&mut self) {
        if let Some(slot) = self.asked.take() {
            let came = slot.lock().take();
            match came {
                None => self.asked = Some(slot),
                Some(Ok((piece, _))) => self.there.push_back(piece),
                Some(Err(failure)) => self.failure = Some(failure),
            }
        }
        let is_more = self.place * (self.piece_bytes() as u64) < self.pin.length();
        if self.asked.is_none() && self.failure.is_none() && is_more && self.there.len() < PIECES_MAX {
            let slot = Arc::new(Slot::default());
            self.asked = Some(slot.clone());
            let (pin, outbox) = (self.pin.clone(), self.outbox.clone());
            let (place, queue) = (Some(self.place), self.queue.clone());
            self.place += 1;
            self.bodies.reads.push(BodyRead { pin, place, permit: None, queue, slot, outbox });
        }
    }

    /// Minimum number of bytes that are available at a time, if the body has as many left.
    pub fn piece_bytes(&self) -> usize {
        self.bodies.files.piece_bytes
    }

    /// Whether progress is possible: bytes are available, were read, or can't be read.
    pub fn has_news(&self) -> bool {
        let has_come = self.asked.as_ref().is_some_and(|slot| slot.lock().is_some());
        has_come || !self.there.is_empty() || self.failure.is_some() || self.left == 0
    }

    /// The reason why the rest can't be read.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The beginning of the body, if nothing was consumed yet; `None` if it hasn't been read.
    pub fn start(&self) -> Option<&[u8]> {
        self.there.front().map(|piece| &piece[..])
    }

    /// Bytes that can be consumed now.
    pub fn available(&self) -> usize {
        self.there.iter().map(Bytes::len).sum()
    }

    /// Bytes that haven't been consumed.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Skips available bytes.
    pub fn skip(&mut self, count: u64) {
        self.take(count as usize, |_| ());
    }

    /// Appends the next available bytes to `out`.
    pub fn append(&mut self, count: usize, out: &mut Vec<u8>) {
        self.take(count, |bytes| out.extend_from_slice(bytes));
    }

    fn take(&mut self, mut count: usize, mut use_bytes: impl FnMut(&[u8])) {
        self.left -= count as u64;
        while count > 0 {
            let piece = self.there.front_mut().expect("no more is taken than is there");
            let now = count.min(piece.len());
            use_bytes(&piece[..now]);
            piece.advance(now);
            count -= now;
            if piece.is_empty() {
                self.there.pop_front();
            }
        }
    }

    /// Reads the whole body instead; few bodies are in memory as a whole at a time.
    pub fn whole(&self) -> WholeBody {
        let slot = Arc::new(Slot::default());
        let (pin, outbox) = (self.pin.clone(), self.outbox.clone());
        let read = BodyRead { pin, place: None, permit: None, queue: self.queue.clone(), slot: slot.clone(), outbox };
        self.bodies.reads.push_whole(read);
        WholeBody { slot, body: None }
    }
}

/// A body that is read as a whole. The next one is read when this is dropped.
pub struct WholeBody {
    slot: Arc<Slot>,
    body: Option<Result<(Bytes, Option<Permit>), String>>,
}

impl WholeBody {
    /// Whether the read has finished.
    pub fn has_news(&self) -> bool {
        self.body.is_some() || self.slot.lock().is_some()
    }

    /// The body, or the reason why it can't be read; `None` while the read isn't finished.
    pub fn look(&mut self) -> Option<Result<&Bytes, &str>> {
        if self.body.is_none() {
            self.body = self.slot.lock().take();
        }
        self.body.as_ref().map(|body| match body {
            Ok((bytes, _)) => Ok(bytes),
            Err(failure) => Err(failure.as_str()),
        })
    }
}
