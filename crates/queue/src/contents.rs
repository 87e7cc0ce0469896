//! The messages of a queue that are in memory.
//!
//! A queue holds its head in memory; messages beyond a limit are left on disk, and read back when a consumer gets near
//! them. Volatile messages exist only in memory and are always held.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leveret_message::{Batch, BatchBuilder};

use crate::nanos::Nanos;

/// Bytes that a queue without consumers may hold before it leaves new messages on disk.
pub(crate) const QUEUE_BYTES_MAX: u64 = 16 << 20;
/// Bytes that a queue with consumers may hold. Its backlog comes and goes, and messages left on disk have to be read
/// back, as do all that arrive before consumers have caught up. Two publishers' windows of 3000 messages of 5 kB fit
/// in.
pub(crate) const CONSUMED_BYTES_MAX: u64 = 48 << 20;
/// A queue that holds more than this in memory although its consumers could take it is behind. This is twice the volume
/// that two publishers have in flight to a slow disk, and that arrives at once after a sync.
pub(crate) const BEHIND_BYTES: u64 = 16 << 20;
/// Bytes that a queue may hold when the node's budget is used up. The limit applies until twice the budget is used, and
/// beyond that while a consumer waits for new messages. Other queues only hold their head then, or a node with many
/// queues would hold far more than its budget.
pub(crate) const QUEUE_BYTES_MIN: u64 = 128 << 10;
/// A consumer nearer than this to the end of what is in memory starts the next read.
pub(crate) const READ_AHEAD_BYTES: u64 = 512 << 10;

/// Memory of an entry apart from its messages: its share of the batch, of allocations and of the map.
const ENTRY_BYTES: u64 = 256;

/// The demand for new messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    Nobody,
    /// Consumers exist, but can't take more at the moment.
    Later,
    Now,
}

/// Bytes that all queues of a node hold, with limits.
#[derive(Debug)]
pub struct MemoryBudget {
    used: AtomicU64,
    limit: u64,
    /// The part of the used bytes that belongs to volatile messages, which exist only in memory.
    volatile: AtomicU64,
    volatile_limit: u64,
}

impl MemoryBudget {
    /// A budget of `limit` bytes, all of which volatile messages may use.
    pub fn new(limit: u64) -> Self {
        Self { used: AtomicU64::new(0), limit, volatile: AtomicU64::new(0), volatile_limit: u64::MAX }
    }

    /// Limits volatile messages to `limit` bytes.
    #[must_use]
    pub fn with_volatile_limit(self, limit: u64) -> Self {
        Self { volatile_limit: limit, ..self }
    }

    /// Whether volatile messages hold as many bytes as they may: messages that can be on disk instead go there.
    pub fn is_volatile_full(&self) -> bool {
        self.volatile.load(Ordering::Relaxed) >= self.volatile_limit
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

/// Consecutive messages of one batch.
#[derive(Debug)]
pub(crate) struct HeldBatch {
    pub batch: Arc<Batch>,
    pub index: u32,
    pub count: u32,
    pub durable: bool,
    /// Time when they were submitted, or read back.
    pub submitted: Nanos,
    /// Number of unsettled messages; counted for volatile messages only.
    left: u32,
    memory: u64,
}

impl HeldBatch {
    /// `count` messages of a batch, from `index` on, none of which is settled.
    pub(crate) fn new(batch: Arc<Batch>, index: u32, count: u32, durable: bool, submitted: Nanos) -> Self {
        let memory = batch.memory() as u64 * u64::from(count) / (batch.len() as u64).max(1) + ENTRY_BYTES;
        Self { batch, index, count, durable, submitted, left: count, memory }
    }

    pub(crate) fn end(&self, first: u64) -> u64 {
        first + u64::from(self.count)
    }
}

#[derive(Debug)]
pub(crate) struct Contents {
    held: BTreeMap<u64, HeldBatch>,
    bytes: u64,
    /// Unsettled messages of volatile entries, and of durable ones.
    left: [u64; 2],
    budget: Arc<MemoryBudget>,
    /// Durable messages from this number on are only on disk.
    pub spilled_from: Option<u64>,
}

impl Drop for Contents {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Contents {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { held: BTreeMap::new(), bytes: 0, left: [0; 2], budget, spilled_from: None }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    fn is_over_limit(&self, demand: impl Fn() -> Demand) -> bool {
        let (used, limit) = (self.budget.used(), self.budget.limit);
        let most = match () {
            () if used <= limit && self.bytes <= QUEUE_BYTES_MAX => return false,
            () if used <= limit && demand() == Demand::Nobody => QUEUE_BYTES_MAX,
            () if used <= limit => CONSUMED_BYTES_MAX,
            () if used <= limit.saturating_mul(2) || demand() == Demand::Now => QUEUE_BYTES_MIN,
            () => 0,
        };
        self.bytes > most
    }

    /// Whether volatile messages hold as many bytes as they may, and this queue holds its share.
    pub(crate) fn is_volatile_full(&self) -> bool {
        self.budget.is_volatile_full() && self.bytes > QUEUE_BYTES_MIN
    }

    /// Holds messages that just became part of the queue, or leaves them on disk.
    pub(crate) fn admit(&mut self, first: u64, held: HeldBatch, demand: impl Fn() -> Demand) {
        if held.durable {
            if self.spilled_from.is_some() {
                return;
            }
            if self.is_over_limit(demand) {
                self.spilled_from = Some(first);
                return;
            }
        }
        self.insert(first, held);
    }

    /// Holds messages that are needed now.
    pub(crate) fn insert(&mut self, first: u64, held: HeldBatch) {
        self.bytes += held.memory;
        self.left[usize::from(held.durable)] += u64::from(held.count);
        self.budget.take(held.memory);
        if !held.durable {
            self.budget.volatile.fetch_add(held.memory, Ordering::Relaxed);
        }
        if let Some(old) = self.held.insert(first, held) {
            self.release(&old);
        }
    }

    pub(crate) fn release(&mut self, held: &HeldBatch) {
        self.bytes -= held.memory;
        self.left[usize::from(held.durable)] -= u64::from(held.left);
        self.budget.give_back(held.memory);
        if !held.durable {
            self.budget.volatile.fetch_sub(held.memory, Ordering::Relaxed);
        }
    }

    /// The entry that holds `number`.
    pub(crate) fn find(&self, number: u64) -> Option<(u64, &HeldBatch)> {
        let (first, held) = self.held.range(..=number).next_back()?;
        (number < held.end(*first)).then_some((*first, held))
    }

    /// The beginning of the first entry after `number`, which no entry holds.
    pub(crate) fn next_held(&self, number: u64) -> Option<u64> {
        self.held.range(number..).next().map(|(first, _)| *first)
    }

    /// The runs of these numbers that no entry holds.
    pub(crate) fn absent(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, u64)> {
        let mut from = first;
        std::iter::from_fn(move || {
            while from <= last {
                if let Some((start, held)) = self.find(from) {
                    from = held.end(start);
                    continue;
                }
                let until = self.next_held(from).map_or(last, |next| last.min(next - 1));
                return Some((std::mem::replace(&mut from, until + 1), until));
            }
            None
        })
    }

    /// Forgets the entry that begins at `first`.
    pub(crate) fn remove(&mut self, first: u64) {
        if let Some(held) = self.held.remove(&first) {
            self.release(&held);
        }
    }

    /// Volatile messages were settled: frees their memory when a whole entry is dead, and copies the survivors out when
    /// less than a quarter of an entry is live.
    pub(crate) fn settled(&mut self, first: u64, last: u64, is_live: impl Fn(u64) -> bool) {
        let mut at = first;
        while at <= last {
            let Some((&start, held)) = self.held.range_mut(..=at).next_back() else { return };
            let end = held.end(start);
            if at >= end {
                let Some((&next, _)) = self.held.range(at..=last).next() else { return };
                at = next;
                continue;
            }
            let until = end.min(last + 1);
            let settled = held.left.min((until - at) as u32);
            held.left -= settled;
            self.left[usize::from(held.durable)] -= u64::from(settled);
            let (left, count, durable) = (held.left, held.count, held.durable);
            at = until;
            if left == 0 {
                self.remove(start);
            } else if !durable && count >= 16 && left < count / 4 {
                self.copy_out(start, &is_live);
            }
        }
    }

    fn copy_out(&mut self, start: u64, is_live: &impl Fn(u64) -> bool) {
        let Some(old) = self.held.remove(&start) else { return };
        self.release(&old);
        let mut survivors = (start..old.end(start)).filter(|number| is_live(*number)).peekable();
        while let Some(first) = survivors.next() {
            let mut builder = BatchBuilder::default();
            let mut number = first;
            loop {
                builder.push_copy(&old.batch.message(old.index as usize + (number - start) as usize));
                match survivors.next_if_eq(&(number + 1)) {
                    Some(next) => number = next,
                    None => break,
                }
            }
            let batch = Arc::new(builder.finish());
            let count = batch.len() as u32;
            self.insert(first, HeldBatch::new(batch, 0, count, old.durable, old.submitted));
        }
    }

    /// Forgets the durable messages, which are on disk.
    pub(crate) fn keep_volatile(&mut self) {
        let durable: Vec<u64> = self.held.iter().filter(|(_, held)| held.durable).map(|(first, _)| *first).collect();
        durable.into_iter().for_each(|first| self.remove(first));
    }

    /// The held volatile messages: first number and entry.
    pub(crate) fn volatile(&self) -> impl Iterator<Item = (u64, &HeldBatch)> {
        self.held.iter().filter(|(_, held)| !held.durable).map(|(first, held)| (*first, held))
    }

    /// Number of live volatile messages in memory.
    pub(crate) fn volatile_messages(&self) -> u64 {
        self.left[0]
    }

    /// Upper bound of the number of messages in memory: some of the durable ones may have left the queue.
    pub(crate) fn messages(&self) -> u64 {
        self.left.iter().sum()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        for held in std::mem::take(&mut self.held).into_values() {
            self.release(&held);
        }
        self.spilled_from = None;
    }
}

#[cfg(test)]
mod tests {
    use leveret_message::Envelope;

    use super::*;

    fn batch(count: usize) -> Arc<Batch> {
        let mut builder = BatchBuilder::default();
        for at in 0..count {
            let envelope = Envelope { routing_key: b"k", expiry_ms: at as u64, ..Envelope::default() };
            builder.push(&envelope, b"\0\0", b"body");
        }
        Arc::new(builder.finish())
    }

    #[test]
    fn memory_returns_to_the_budget() {
        let budget = Arc::new(MemoryBudget::new(1 << 20));
        let mut contents = Contents::new(budget.clone());
        contents.admit(1, HeldBatch::new(batch(10), 0, 10, false, 0), || Demand::Nobody);
        contents.admit(11, HeldBatch::new(batch(5), 0, 5, true, 0), || Demand::Nobody);
        assert!(budget.used() > 0);
        assert_eq!((contents.messages(), contents.volatile_messages()), (15, 10));
        contents.settled(1, 4, |number| number > 4);
        assert_eq!((contents.messages(), contents.volatile_messages()), (11, 6));
        contents.settled(5, 10, |_| false);
        assert_eq!((contents.messages(), contents.volatile_messages()), (5, 0));
        assert!(contents.find(1).is_none());
        contents.remove(11);
        assert_eq!((budget.used(), contents.messages()), (0, 0));
    }

    #[test]
    fn live_messages_are_counted_as_they_come_and_go() {
        let mut contents = Contents::new(Arc::new(MemoryBudget::new(1 << 20)));
        let counted = |contents: &Contents| (contents.messages(), contents.volatile_messages());
        contents.admit(1, HeldBatch::new(batch(10), 0, 10, true, 0), || Demand::Now);
        contents.admit(11, HeldBatch::new(batch(100), 0, 100, false, 0), || Demand::Now);
        assert_eq!(counted(&contents), (110, 100));
        contents.settled(11, 20, |number| number > 20);
        assert_eq!(counted(&contents), (100, 90));
        // The rest is copied out.
        contents.settled(21, 100, |number| number > 100);
        assert_eq!(counted(&contents), (20, 10));
        contents.remove(1);
        assert_eq!(counted(&contents), (10, 10));
        contents.clear();
        assert_eq!(counted(&contents), (0, 0));
    }

    #[test]
    fn memory_of_volatile_messages_is_counted() {
        let budget = Arc::new(MemoryBudget::new(1 << 20).with_volatile_limit(10_000));
        let mut contents = Contents::new(budget.clone());
        contents.admit(1, HeldBatch::new(batch(1_000), 0, 1_000, true, 0), || Demand::Now);
        assert!(!budget.is_volatile_full());
        contents.admit(1_001, HeldBatch::new(batch(1_000), 0, 1_000, false, 0), || Demand::Now);
        assert!(budget.is_volatile_full());
        contents.settled(1_001, 1_990, |number| number > 1_990);
        assert!(!budget.is_volatile_full());
        drop(contents);
        assert_eq!((budget.used(), budget.volatile.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn survivors_are_copied_out_of_a_nearly_dead_batch() {
        let mut contents = Contents::new(Arc::new(MemoryBudget::new(1 << 20)));
        contents.admit(100, HeldBatch::new(batch(100), 0, 100, false, 0), || Demand::Nobody);
        let before = contents.bytes();
        contents.settled(100, 149, |_| true);
        assert_eq!(contents.bytes(), before);
        contents.settled(151, 180, |number| number == 150 || number > 180);
        assert!(contents.bytes() < before / 3);
        assert_eq!(contents.volatile_messages(), 20);
        let (first, held) = contents.find(150).unwrap();
        assert_eq!((first, held.count), (150, 1));
        assert_eq!(held.batch.message(0).view().envelope.expiry_ms, 50);
        assert!(contents.find(151).is_none());
        let (first, held) = contents.find(199).unwrap();
        assert_eq!(held.batch.message((199 - first) as usize).view().envelope.expiry_ms, 99);
    }

    #[test]
    fn above_the_limit_durable_messages_stay_on_disk() {
        let mut contents = Contents::new(Arc::new(MemoryBudget::new(0)));
        let mut number = 0;
        while contents.spilled_from.is_none() {
            contents.admit(number, HeldBatch::new(batch(100), 0, 100, true, 0), || Demand::Now);
            number += 100;
        }
        assert!(contents.bytes() <= QUEUE_BYTES_MIN + 20_000);
        let spilled = contents.spilled_from.unwrap();
        assert!(contents.find(spilled).is_none());
        contents.admit(number, HeldBatch::new(batch(1), 0, 1, false, 0), || Demand::Nobody);
        assert!(contents.find(number).is_some(), "volatile messages are always held");
    }

    #[test]
    fn a_queue_with_consumers_holds_more() {
        let held = |demand: Demand| {
            let mut contents = Contents::new(Arc::new(MemoryBudget::new(1 << 30)));
            for number in 0.. {
                contents.admit(number * 1_000, HeldBatch::new(batch(1_000), 0, 1_000, true, 0), || demand);
                if contents.spilled_from.is_some() {
                    break;
                }
            }
            contents.bytes() >> 20
        };
        assert_eq!([Demand::Nobody, Demand::Later, Demand::Now].map(held), [16, 48, 48]);
    }

    #[test]
    fn many_queues_hold_little_more_than_twice_the_budget() {
        let budget = Arc::new(MemoryBudget::new(1 << 20));
        let mut queues: Vec<_> = (0..1_000).map(|_| Contents::new(budget.clone())).collect();
        for number in 0..100 {
            for contents in &mut queues {
                contents.admit(number, HeldBatch::new(batch(20), 0, 20, true, 0), || Demand::Nobody);
            }
        }
        let (used, heads) = (budget.used(), queues.iter().map(Contents::bytes).max().unwrap_or(0) * 1_000);
        assert!(used <= (2 << 20) + heads, "{used} bytes");
        assert!(queues.iter().all(|contents| contents.bytes() > 0), "each has its head");
        assert!(used < 5 << 20, "{used} bytes");
    }
}
