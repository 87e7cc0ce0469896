//! Sums over all queues without visiting each of them: every queue writes its gauges to its own place in one array, under its
//! lock. Sums are computed by a scan of the array.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use leveret_message::Reason;
use leveret_metrics::Counter;
use leveret_model::{Durability, QueueType};
use leveret_queue::{QueueGauges, WaitReason, Waits};
use parking_lot::{Mutex, RwLock};

/// Number of places that are allocated at once.
const CHUNK: usize = 512;
/// Number of reasons why a queue waits.
const REASONS: usize = WaitReason::ALL.len();

/// The gauges of all queues.
#[derive(Default)]
pub struct QueueMetrics {
    chunks: RwLock<Vec<Arc<Chunk>>>,
    free: Mutex<Vec<(usize, usize)>>,
    /// Messages that died and went to a dead-letter exchange.
    pub dead_lettered: Deaths,
    /// Messages that moved out of queues which keep their dead letters until other queues have them (`x-dead-letter-strategy`).
    pub kept_dead_letters: Deaths,
    /// Messages that died in queues without a dead-letter exchange.
    pub dropped: Deaths,
    duplicates: AtomicU64,
}

/// Messages by the type of their queue and the reason of their death.
#[derive(Debug, Default)]
pub struct Deaths([[Counter; 4]; QueueType::ALL.len()]);

impl Deaths {
    pub(crate) fn add(&self, queue_type: QueueType, reason: Reason, count: u64) {
        if count > 0 {
            self.0[queue_type as usize][reason as usize].add(count);
        }
    }

    /// Number of messages in queues of this type that died for this reason.
    pub fn of(&self, queue_type: QueueType, reason: Reason) -> u64 {
        self.0[queue_type as usize][reason as usize].value()
    }
}

struct Chunk {
    lines: [QueueLine; CHUNK],
    delayed: [Delayed; CHUNK],
}

/// The delayed messages of one queue. Most queues never have any, and don't touch this.
#[derive(Default)]
struct Delayed {
    messages: AtomicU64,
    bytes: AtomicU64,
}

/// The gauges of one queue: 64 bytes, a cache line. Stores are relaxed: only the queue writes them, under its lock.
#[derive(Default)]
#[repr(align(64))]
struct QueueLine {
    ready: AtomicU64,
    ready_bytes: AtomicU64,
    unacknowledged: AtomicU64,
    unacknowledged_bytes: AtomicU64,
    memory: AtomicU64,
    in_memory: AtomicU32,
    volatile: AtomicU32,
    consumers: AtomicU32,
    links: AtomicU32,
    waits: AtomicU32,
    /// The queue's durability, from 1 on, in the lowest byte, 0 for an unused place; and flags.
    kind: AtomicU32,
}

const DURABILITY: u32 = 0xff;
const COUNTED: u32 = 1 << 8;
const FAILED: u32 = 1 << 9;
const HAS_DELAYED: u32 = 1 << 10;

impl QueueLine {
    fn read(&self, delayed: &Delayed) -> QueueGauges {
        let long = |gauge: &AtomicU64| gauge.load(Ordering::Relaxed);
        let short = |gauge: &AtomicU32| u64::from(gauge.load(Ordering::Relaxed));
        let kind = self.kind.load(Ordering::Relaxed);
        let delayed = (kind & HAS_DELAYED != 0).then_some(delayed);
        QueueGauges {
            ready: long(&self.ready),
            ready_bytes: long(&self.ready_bytes),
            unacknowledged: long(&self.unacknowledged),
            unacknowledged_bytes: long(&self.unacknowledged_bytes),
            delayed: delayed.map_or(0, |delayed| long(&delayed.messages)),
            delayed_bytes: delayed.map_or(0, |delayed| long(&delayed.bytes)),
            memory: long(&self.memory),
            in_memory: short(&self.in_memory),
            volatile: short(&self.volatile),
            consumers: short(&self.consumers),
            links: short(&self.links),
            waits: Waits::from_bits(self.waits.load(Ordering::Relaxed)),
            counted: kind & COUNTED != 0,
            failed: kind & FAILED != 0,
        }
    }

    fn write(&self, delayed: &Delayed, gauges: &QueueGauges) {
        let long = |gauge: &AtomicU64, value| gauge.store(value, Ordering::Relaxed);
        let short = |gauge: &AtomicU32, value| {
            gauge.store(u32::try_from(value).unwrap_or(u32::MAX), Ordering::Relaxed);
        };
        long(&self.ready, gauges.ready);
        long(&self.ready_bytes, gauges.ready_bytes);
        long(&self.unacknowledged, gauges.unacknowledged);
        long(&self.unacknowledged_bytes, gauges.unacknowledged_bytes);
        long(&self.memory, gauges.memory);
        short(&self.in_memory, gauges.in_memory);
        short(&self.volatile, gauges.volatile);
        short(&self.consumers, gauges.consumers);
        short(&self.links, gauges.links);
        self.waits.store(gauges.waits.bits(), Ordering::Relaxed);
        if gauges.delayed > 0 {
            long(&delayed.messages, gauges.delayed);
            long(&delayed.bytes, gauges.delayed_bytes);
        }
        let flags = if gauges.counted { COUNTED } else { 0 } | if gauges.failed { FAILED } else { 0 };
        let flags = flags | if gauges.delayed > 0 { HAS_DELAYED } else { 0 };
        let kind = self.kind.load(Ordering::Relaxed);
        if kind & !DURABILITY != flags {
            self.kind.store(kind & DURABILITY | flags, Ordering::Relaxed);
        }
    }

    fn durability(&self) -> Option<usize> {
        (self.kind.load(Ordering::Relaxed) & DURABILITY).checked_sub(1).map(|durability| durability as usize)
    }
}

/// A queue's own place, returned when dropped.
pub(crate) struct OwnPlace {
    all: Arc<QueueMetrics>,
    chunk: Arc<Chunk>,
    at: (usize, usize),
}

impl OwnPlace {
    pub(crate) fn write(&self, gauges: &QueueGauges) {
        self.place().write(&self.chunk.delayed[self.at.1], gauges);
    }

    pub(crate) fn read(&self) -> QueueGauges {
        self.place().read(&self.chunk.delayed[self.at.1])
    }

    pub(crate) fn metrics(&self) -> &QueueMetrics {
        &self.all
    }

    /// The queue is deleted, although references to it may remain.
    pub(crate) fn vacate(&self) {
        self.write(&QueueGauges::default());
        self.place().kind.store(0, Ordering::Relaxed);
    }

    fn place(&self) -> &QueueLine {
        &self.chunk.lines[self.at.1]
    }
}

impl Drop for OwnPlace {
    fn drop(&mut self) {
        self.vacate();
        self.all.free.lock().push(self.at);
    }
}

/// Sums over all queues at approximately one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueSums {
    /// The sums of their gauges. Its `waits` are empty.
    pub gauges: QueueGauges,
    /// Body bytes of messages that survive a restart; estimated for queues that hold both kinds.
    pub persistent_bytes: u64,
    /// Body bytes in memory; estimated if only a part of a queue's messages is in memory.
    pub in_memory_bytes: u64,
    /// Number of messages in memory that are ready.
    pub in_memory_ready: u64,
    /// Numbers of queues and of their ready and unacknowledged messages, by [`Durability`].
    pub by_durability: [(u64, u64); 3],
    /// Number of waiting queues, by reason.
    pub waiting: [u64; REASONS],
}

impl QueueSums {
    fn add(&mut self, gauges: &QueueGauges, durability: usize) {
        let sum = &mut self.gauges;
        sum.ready += gauges.ready;
        sum.ready_bytes += gauges.ready_bytes;
        sum.unacknowledged += gauges.unacknowledged;
        sum.unacknowledged_bytes += gauges.unacknowledged_bytes;
        sum.delayed += gauges.delayed;
        sum.delayed_bytes += gauges.delayed_bytes;
        sum.memory += gauges.memory;
        sum.in_memory += gauges.in_memory;
        sum.volatile += gauges.volatile;
        sum.consumers += gauges.consumers;
        sum.links += gauges.links;
        self.persistent_bytes += persistent_bytes(gauges);
        self.in_memory_bytes += in_memory_bytes(gauges);
        self.in_memory_ready += gauges.in_memory.min(gauges.ready);
        let (queues, messages) = &mut self.by_durability[durability];
        *queues += 1;
        *messages += gauges.messages();
        let mut waits = gauges.waits.bits();
        while waits != 0 {
            self.waiting[waits.trailing_zeros() as usize] += 1;
            waits &= waits - 1;
        }
    }
}

/// Body bytes of a queue's messages that survive a restart; estimated if it has others, too.
pub fn persistent_bytes(gauges: &QueueGauges) -> u64 {
    let messages = gauges.messages();
    share(gauges, messages - gauges.volatile.min(messages))
}

/// Body bytes of a queue's messages in memory; estimated if it has others, too.
pub fn in_memory_bytes(gauges: &QueueGauges) -> u64 {
    share(gauges, gauges.in_memory)
}

fn share(gauges: &QueueGauges, part: u64) -> u64 {
    let (messages, bytes) = (gauges.messages(), gauges.message_bytes());
    match part {
        0 => 0,
        _ if part >= messages => bytes,
        _ => (bytes as f64 * part as f64 / messages as f64).round() as u64,
    }
}

impl QueueMetrics {
    /// Number of duplicates that queues and exchanges dropped.
    pub fn duplicates(&self) -> u64 {
        self.duplicates.load(Ordering::Relaxed)
    }

    pub(crate) fn count_duplicates(&self, count: u64) {
        self.duplicates.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn place(self: &Arc<Self>, durability: Durability) -> OwnPlace {
        let mut free = self.free.lock();
        let mut chunks = self.chunks.write();
        let at = free.pop().unwrap_or_else(|| {
            let chunk = chunks.len();
            let (lines, delayed) = (|_| QueueLine::default(), |_| Delayed::default());
            let chunk_of_places = Chunk { lines: std::array::from_fn(lines), delayed: std::array::from_fn(delayed) };
            chunks.push(Arc::new(chunk_of_places));
            free.extend((1..CHUNK).rev().map(|place| (chunk, place)));
            (chunk, 0)
        });
        let chunk = chunks[at.0].clone();
        chunk.lines[at.1].kind.store(durability as u32 + 1, Ordering::Relaxed);
        OwnPlace { all: self.clone(), chunk, at }
    }

    /// The current sums.
    pub fn sums(&self) -> QueueSums {
        let mut sums = QueueSums::default();
        for chunk in self.chunks.read().iter() {
            for (place, delayed) in chunk.lines.iter().zip(&chunk.delayed) {
                if let Some(durability) = place.durability() {
                    sums.add(&place.read(delayed), durability);
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_cache_line() {
        assert_eq!(size_of::<QueueLine>(), 64);
    }

    #[test]
    fn sums_are_of_the_places_in_use() {
        let metrics = Arc::new(QueueMetrics::default());
        let gauges = QueueGauges {
            ready: 4,
            ready_bytes: 40,
            unacknowledged: 4,
            unacknowledged_bytes: 60,
            in_memory: 2,
            volatile: 6,
            delayed: 2,
            delayed_bytes: 20,
            consumers: 3,
            links: 1,
            ..QueueGauges::default()
        };
        let mut places: Vec<OwnPlace> = (0..CHUNK + 1).map(|_| metrics.place(Durability::Synced)).collect();
        places.iter().for_each(|place| place.write(&gauges));
        let sums = metrics.sums();
        let count = CHUNK as u64 + 1;
        assert_eq!((sums.gauges.ready, sums.gauges.consumers, sums.gauges.links), (4 * count, 3 * count, count));
        assert_eq!(
            (sums.persistent_bytes, sums.in_memory_bytes, sums.in_memory_ready),
            (48 * count, 24 * count, 2 * count)
        );
        assert_eq!(sums.by_durability[Durability::Synced as usize], (count, 10 * count));
        assert_eq!((sums.gauges.delayed, sums.gauges.delayed_bytes), (2 * count, 20 * count));
        places.truncate(1);
        assert_eq!(metrics.sums().gauges.ready, 4);
        // Places are reused.
        places.extend((0..CHUNK).map(|_| metrics.place(Durability::Memory)));
        assert_eq!(metrics.sums().by_durability, [(1, 10), (0, 0), (CHUNK as u64, 0)]);
        assert_eq!(metrics.chunks.read().len(), 2);
        drop(places);
        assert_eq!(metrics.sums(), QueueSums::default());
    }
}
