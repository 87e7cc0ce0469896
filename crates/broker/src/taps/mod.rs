//! Live taps: somebody watches the messages of a queue or an exchange as they pass.
//!
//! A tap copies the beginning of a message now and then, as often as its rate allows, and counts those that it passes over: the
//! numbers that it gives add up to all messages that it saw. What it copied waits for its reader, up to a limit; beyond it the
//! oldest copy is dropped, and counts as passed over.
//!
//! While no tap is open, a run of messages costs one relaxed load. Taps are in no snapshot, so that opening one changes no route.
//!
//! A queue is tapped where messages come to its [`QueueRef`](crate::queue_handle::QueueRef), whoever puts them there, and where they
//! are handed out. An exchange is tapped where clients publish to it, as its rates are counted.

mod queues;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use leveret_message::chunk::SharedChunk;
use leveret_message::deliver::Delivery;
use leveret_message::own::Beginning;
use leveret_message::{Batch, BatchPart, StoredMessage};
use leveret_model::QueueId;
use parking_lot::Mutex;

use crate::exchange_counters::ExchangeCounters;
use crate::time::Nanos;

/// Most copies that wait for the reader of a tap.
pub const WAITING_MAX: usize = 256;
/// Most bytes of bodies and properties that wait for it.
pub const WAITING_BYTES_MAX: usize = 1 << 20;
/// Properties of more bytes are copied without headers.
const PROPERTIES_MAX: usize = 16 << 10;
/// Most routing keys that are copied of a message.
const KEYS_MAX: usize = 16;

const SECOND: u64 = 1_000_000_000;

/// The object that is tapped.
#[derive(Clone)]
pub enum Subject {
    /// A queue.
    Queue(QueueId),
    /// The exchange with these counters.
    Exchange(Arc<ExchangeCounters>),
}

/// The settings of a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapOptions {
    /// Most messages that it copies in a second. After a pause it copies as many at once.
    pub rate: u32,
    /// Most bytes that it copies of a body.
    pub body_bytes: usize,
}

/// The way of a message on which a tap saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// It was published to the tapped exchange, which routed it to so many queues.
    Published(u32),
    /// The tapped queue took it.
    Put,
    /// The tapped queue handed it out.
    Delivered {
        /// Whether it was, or may have been, handed out before.
        redelivered: bool,
    },
}

/// A copy of the beginning of a message.
#[derive(Debug, Clone)]
pub struct Tapped {
    /// Where it was seen.
    pub passage: Passage,
    /// When, by the monotonic clock.
    pub at: Nanos,
    /// The exchange that it was published to.
    pub exchange: Vec<u8>,
    /// Its routing keys, without those of blind copies.
    pub routing_keys: Vec<Vec<u8>>,
    /// Its properties, and the beginning of its body.
    pub beginning: Beginning,
    /// Number of messages that were passed over since the copy before.
    pub passed_over: u64,
}

impl Tapped {
    fn bytes(&self) -> usize {
        let keys: usize = self.routing_keys.iter().map(Vec::len).sum();
        self.beginning.properties.len() + self.beginning.body.len() + self.exchange.len() + keys
    }
}

/// All open taps of a broker.
#[derive(Default)]
pub struct Taps {
    /// Whether a queue is tapped.
    queues: AtomicBool,
    /// Whether an exchange is tapped.
    exchanges: AtomicBool,
    open: ArcSwap<Vec<Arc<Tap>>>,
    /// Serializes changes.
    changes: Mutex<()>,
}

/// An open tap.
struct Tap {
    subject: Subject,
    options: TapOptions,
    /// Messages that were passed over since the last copy.
    passed_over: AtomicU64,
    /// The time before which nothing can be copied: read without the lock.
    next: AtomicU64,
    allowance: Mutex<Allowance>,
    waiting: Mutex<Waiting>,
    /// Called when a copy waits that wasn't there before.
    wake: Box<dyn Fn() + Send + Sync>,
}

/// The copies that a tap may still make: a bucket that fills by `rate` each second, up to the copies of one second.
struct Allowance {
    /// In parts of a copy: a second's nanoseconds are one.
    credit: u64,
    at: Nanos,
}

#[derive(Default)]
struct Waiting {
    copies: VecDeque<Tapped>,
    bytes: usize,
}

/// The reader's end of a tap, which closes with it.
pub struct OpenTap {
    taps: Arc<Taps>,
    tap: Arc<Tap>,
}

impl Taps {
    /// Whether a queue is tapped.
    #[inline]
    pub fn watch_queues(&self) -> bool {
        self.queues.load(Ordering::Relaxed)
    }

    /// Whether an exchange is tapped.
    #[inline]
    pub fn watch_exchanges(&self) -> bool {
        self.exchanges.load(Ordering::Relaxed)
    }

    /// Number of open taps.
    pub fn count(&self) -> usize {
        self.open.load().len()
    }

    /// Opens a tap. `wake` is called from any core when there is something to read.
    pub fn open(
        self: &Arc<Self>,
        subject: Subject,
        options: TapOptions,
        wake: impl Fn() + Send + Sync + 'static,
        now: Nanos,
    ) -> OpenTap {
        let tap = Arc::new(Tap {
            subject,
            options,
            passed_over: AtomicU64::new(0),
            next: AtomicU64::new(0),
            allowance: Mutex::new(Allowance { credit: u64::from(options.rate) * SECOND, at: now }),
            waiting: Mutex::default(),
            wake: Box::new(wake),
        });
        let added = tap.clone();
        self.change(|open| open.push(added));
        OpenTap { taps: self.clone(), tap }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Tap>>)) {
        let _one = self.changes.lock();
        let mut open = Vec::clone(&self.open.load());
        change(&mut open);
        let is_tapped = |which: fn(&Subject) -> bool| open.iter().any(|tap| which(&tap.subject));
        let queues = is_tapped(|subject| matches!(subject, Subject::Queue(_)));
        let exchanges = is_tapped(|subject| matches!(subject, Subject::Exchange(_)));
        self.open.store(Arc::new(open));
        self.queues.store(queues, Ordering::Relaxed);
        self.exchanges.store(exchanges, Ordering::Relaxed);
    }

    fn each_of_queue(&self, id: QueueId, see: impl Fn(&Tap)) {
        self.open
            .load()
            .iter()
            .filter(|tap| matches!(tap.subject, Subject::Queue(own) if own == id))
            .for_each(|tap| see(tap));
    }

    /// Messages of a batch were put into a queue or handed out by it.
    #[cold]
    fn passed(&self, queue: QueueId, passage: Passage, part: BatchPart<'_>, delivery: &Delivery, now: Nanos) {
        let BatchPart { batch, index, count } = part;
        self.each_of_queue(queue, |tap| {
            tap.see(count.into(), now, |at| {
                // Offsets in a stream follow each other.
                let stream_offset = delivery.stream_offset.map(|first| first + at);
                let delivery = Delivery { stream_offset, ..*delivery };
                tap.copy_of(batch, index as usize + at as usize, passage, &delivery, now)
            });
        });
    }

    /// Messages of a chunk were put into a stream, or handed out by it, with this offset of the first. Those of a chunk that takes
    /// long to decode are passed over.
    #[cold]
    fn passed_chunk(&self, queue: QueueId, passage: Passage, chunk: &SharedChunk, first: Option<u64>, now: Nanos) {
        self.each_of_queue(queue, |tap| {
            let count = chunk.len();
            if !tap.may_copy(now) {
                return tap.pass_over(count);
            }
            let Some(batch) = chunk.messages_at_once() else { return tap.pass_over(count) };
            tap.see(count.min(batch.len() as u64), now, |at| {
                let stream_offset = first.map(|first| first + at);
                let delivery = Delivery { stream_offset, ..Delivery::default() };
                tap.copy_of(batch, at as usize, passage, &delivery, now)
            });
        });
    }

    fn each_of_exchange(&self, exchange: &Arc<ExchangeCounters>, see: impl Fn(&Tap)) {
        let is_own = |tap: &&Arc<Tap>| matches!(&tap.subject, Subject::Exchange(own) if Arc::ptr_eq(own, exchange));
        self.open.load().iter().filter(is_own).for_each(|tap| see(tap));
    }

    /// A client published messages to an exchange, which routed them to so many queues.
    #[cold]
    pub(crate) fn published(&self, exchange: &Arc<ExchangeCounters>, queues: usize, batch: &Batch, now: Nanos) {
        let passage = Passage::Published(u32::try_from(queues).unwrap_or(u32::MAX));
        self.each_of_exchange(exchange, |tap| {
            tap.see(batch.len() as u64, now, |at| tap.copy_of(batch, at as usize, passage, &Delivery::default(), now));
        });
    }

    /// The same of a message that isn't part of a batch.
    #[cold]
    pub(crate) fn published_single(
        &self,
        exchange: &Arc<ExchangeCounters>,
        queues: usize,
        message: &StoredMessage<'_>,
        now: Nanos,
    ) {
        let passage = Passage::Published(u32::try_from(queues).unwrap_or(u32::MAX));
        self.each_of_exchange(exchange, |tap| {
            tap.see(1, now, |_| {
                let beginning = Beginning::of(message, &Delivery::default(), PROPERTIES_MAX, tap.options.body_bytes);
                copy(message, passage, beginning, now)
            });
        });
    }
}

fn copy(message: &StoredMessage<'_>, passage: Passage, beginning: Beginning, now: Nanos) -> Tapped {
    // Blind ones are for nobody's eyes.
    let keys = std::iter::once(message.envelope.routing_key).chain(message.overlay.further_keys());
    Tapped {
        passage,
        at: now,
        exchange: message.envelope.exchange.to_vec(),
        routing_keys: keys.take(KEYS_MAX).map(<[u8]>::to_vec).collect(),
        beginning,
        passed_over: 0,
    }
}

impl Tap {
    /// Whether the rate may allow a copy.
    fn may_copy(&self, now: Nanos) -> bool {
        now >= self.next.load(Ordering::Relaxed)
    }

    fn pass_over(&self, count: u64) {
        self.passed_over.fetch_add(count, Ordering::Relaxed);
    }

    /// Sees messages, of which it copies as many as its rate allows. They are copied outside the locks.
    fn see(&self, count: u64, now: Nanos, copy: impl Fn(u64) -> Tapped) {
        let copied = if self.may_copy(now) { self.allow(count, now) } else { 0 };
        for at in 0..copied {
            self.keep(copy(at));
        }
        if count > copied {
            self.pass_over(count - copied);
        }
        if copied > 0 {
            (self.wake)();
        }
    }

    /// The number of these messages that may be copied.
    fn allow(&self, count: u64, now: Nanos) -> u64 {
        let rate = u64::from(self.options.rate);
        let mut allowance = self.allowance.lock();
        let since = now.saturating_sub(allowance.at).min(SECOND);
        allowance.at = allowance.at.max(now);
        allowance.credit = (allowance.credit + since * rate).min(SECOND * rate);
        let copied = count.min(allowance.credit / SECOND);
        allowance.credit -= copied * SECOND;
        let missing = SECOND.saturating_sub(allowance.credit);
        self.next.store(allowance.at + missing.div_ceil(rate.max(1)), Ordering::Relaxed);
        copied
    }

    fn copy_of(&self, batch: &Batch, index: usize, passage: Passage, delivery: &Delivery, now: Nanos) -> Tapped {
        let (beginning, view) = Beginning::of_batch(batch, index, delivery, PROPERTIES_MAX, self.options.body_bytes);
        copy(&view, passage, beginning, now)
    }

    fn keep(&self, mut copy: Tapped) {
        let mut waiting = self.waiting.lock();
        copy.passed_over = self.passed_over.swap(0, Ordering::Relaxed);
        waiting.bytes += copy.bytes();
        waiting.copies.push_back(copy);
        while waiting.copies.len() > WAITING_MAX || waiting.bytes > WAITING_BYTES_MAX && waiting.copies.len() > 1 {
            let Some(dropped) = waiting.copies.pop_front() else { break };
            waiting.bytes -= dropped.bytes();
            if let Some(next) = waiting.copies.front_mut() {
                next.passed_over += dropped.passed_over + 1;
            }
        }
    }
}

impl OpenTap {
    /// The oldest copy that waits.
    pub fn next(&self) -> Option<Tapped> {
        let mut waiting = self.tap.waiting.lock();
        let copy = waiting.copies.pop_front()?;
        waiting.bytes -= copy.bytes();
        Some(copy)
    }

    /// Number of messages that were passed over since the last copy, if none waits; they don't count for the next one any more.
    pub fn take_passed_over(&self) -> u64 {
        let waiting = self.tap.waiting.lock();
        if waiting.copies.is_empty() { self.tap.passed_over.swap(0, Ordering::Relaxed) } else { 0 }
    }

    /// Has messages that aren't shown count as passed over.
    pub fn pass_over(&self, count: u64) {
        self.tap.pass_over(count);
    }
}

impl Drop for OpenTap {
    fn drop(&mut self) {
        self.taps.change(|open| open.retain(|tap| !Arc::ptr_eq(tap, &self.tap)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use leveret_message::{BatchBuilder, Envelope};

    use super::*;

    const QUEUE: QueueId = QueueId(7);

    fn batch(count: usize, body: usize) -> Batch {
        let mut builder = BatchBuilder::default();
        for _ in 0..count {
            builder.push(&Envelope { routing_key: b"k", ..Envelope::default() }, &[0, 0], &vec![b'x'; body]);
        }
        builder.finish()
    }

    fn open(taps: &Arc<Taps>, rate: u32) -> (OpenTap, Arc<AtomicUsize>) {
        let woken = Arc::new(AtomicUsize::new(0));
        let wakes = woken.clone();
        let options = TapOptions { rate, body_bytes: 4 };
        let wake = move || {
            wakes.fetch_add(1, Ordering::Relaxed);
        };
        (taps.open(Subject::Queue(QUEUE), options, wake, 0), woken)
    }

    fn put(taps: &Taps, count: u32, now: Nanos) {
        let batch = Arc::new(batch(count as usize, 9));
        taps.passed(QUEUE, Passage::Put, BatchPart::of(&batch, 0, count), &Delivery::default(), now);
    }

    /// The numbers passed over before each copy that waits, and after the last.
    fn read(tap: &OpenTap) -> (Vec<u64>, u64) {
        let copies = std::iter::from_fn(|| tap.next()).map(|copy| copy.passed_over).collect();
        (copies, tap.take_passed_over())
    }

    #[test]
    fn the_flags_are_on_while_taps_are_open() {
        let taps = Arc::new(Taps::default());
        assert!(!taps.watch_queues() && !taps.watch_exchanges());
        let (first, _) = open(&taps, 1);
        let (second, _) = open(&taps, 1);
        assert!(taps.watch_queues() && !taps.watch_exchanges());
        drop(first);
        assert!(taps.watch_queues() && taps.count() == 1);
        let exchange = Subject::Exchange(Arc::default());
        let third = taps.open(exchange, TapOptions { rate: 1, body_bytes: 0 }, || {}, 0);
        assert!(taps.watch_exchanges());
        drop((second, third));
        assert!(!taps.watch_queues() && !taps.watch_exchanges() && taps.count() == 0);
    }

    #[test]
    fn a_tap_copies_at_its_rate_and_counts_the_others() {
        let taps = Arc::new(Taps::default());
        let (tap, woken) = open(&taps, 3);
        put(&taps, 5, 0);
        put(&taps, 4, SECOND / 10);
        assert_eq!(woken.load(Ordering::Relaxed), 1, "nothing was copied the second time");
        assert_eq!(read(&tap), (vec![0, 0, 0], 6));
        // A third of a second later there is one more.
        put(&taps, 4, SECOND / 3 + 1);
        put(&taps, 1, SECOND);
        assert_eq!(read(&tap), (vec![0, 3], 0));
        put(&taps, 10, 9 * SECOND);
        assert_eq!(read(&tap), (vec![0, 0, 0], 7));
    }

    #[test]
    fn only_the_beginning_is_copied_and_other_queues_are_not_seen() {
        let taps = Arc::new(Taps::default());
        let (tap, _) = open(&taps, 3);
        let one = Arc::new(batch(1, 9));
        taps.passed(QueueId(8), Passage::Put, BatchPart::of(&one, 0, 1), &Delivery::default(), 0);
        assert!(tap.next().is_none() && tap.take_passed_over() == 0);
        taps.passed(
            QUEUE,
            Passage::Delivered { redelivered: true },
            BatchPart::of(&one, 0, 1),
            &Delivery::default(),
            0,
        );
        let copy = tap.next().expect("a copy");
        assert_eq!((copy.beginning.body.as_slice(), copy.beginning.body_bytes), (b"xxxx".as_slice(), 9));
        assert_eq!((copy.passage, copy.routing_keys), (Passage::Delivered { redelivered: true }, vec![b"k".to_vec()]));
    }

    #[test]
    fn the_oldest_copies_are_dropped_and_counted() {
        let taps = Arc::new(Taps::default());
        let (tap, _) = open(&taps, 1000);
        put(&taps, WAITING_MAX as u32 + 44, 0);
        let (copies, after) = read(&tap);
        assert_eq!((copies.len(), copies[0], copies[1..].iter().sum::<u64>(), after), (WAITING_MAX, 44, 0, 0));
    }

    #[test]
    fn an_exchange_is_seen_by_its_own_tap() {
        let taps = Arc::new(Taps::default());
        let (own, other) = (Arc::new(ExchangeCounters::default()), Arc::new(ExchangeCounters::default()));
        let options = TapOptions { rate: 2, body_bytes: 4 };
        let tap = taps.open(Subject::Exchange(own.clone()), options, || {}, 0);
        let batch = batch(3, 1);
        taps.published(&other, 1, &batch, 0);
        assert!(tap.next().is_none());
        taps.published(&own, 2, &batch, 0);
        assert_eq!(tap.next().expect("a copy").passage, Passage::Published(2));
        taps.published_single(&own, 0, &batch.message(0).view(), SECOND);
        let copies: Vec<_> = std::iter::from_fn(|| tap.next()).map(|copy| (copy.passage, copy.passed_over)).collect();
        assert_eq!(copies, [(Passage::Published(2), 0), (Passage::Published(0), 1)]);
    }
}
