//! The consumers and queues that a channel's deliveries came from.

use leveret_queue::ConsumerId;
use rustc_hash::FxHashMap;

use leveret_broker::consumer_timeout::ConsumerTimeout;
use leveret_broker::log_lines::overdue::OverdueLines;
use leveret_broker::queue_handle::{QueueKey, QueueRef};

/// Below this number of entries, unused ones aren't looked for: it wouldn't pay.
const SWEEP_MIN: usize = 64;

/// The reason why a source is there that is asked for.
const STAYS: &str = "a source stays as long as its deliveries and its consumer";

/// A consumer, or a queue asked by `basic.get`.
#[derive(Clone)]
pub(crate) struct Source {
    pub queue: QueueRef,
    pub consumer: Option<ConsumerId>,
    /// The timeout of its deliveries.
    pub timeout: Option<ConsumerTimeout>,
}

/// Sources by the index that deliveries keep. Ended sources are removed when none of their deliveries is left, because
/// a channel may have any number of consumers in its life.
#[derive(Default)]
pub(crate) struct Sources {
    entries: Vec<Option<Entry>>,
    /// Indexes that are unused.
    free: Vec<u32>,
    /// Index of each queue read by `basic.get`, by the queue that its entry keeps.
    queues: FxHashMap<QueueKey, u32>,
    /// Number of entries above which unused ones are looked for.
    sweep_above: usize,
}

struct Entry {
    source: Source,
    /// It delivers nothing more.
    ended: bool,
    /// The log has a warning about its deliveries up to this tag.
    warned_to: u64,
    lines: OverdueLines,
}

impl Sources {
    /// The source with this index, which a delivery or a consumer has.
    pub(super) fn get(&self, index: u32) -> &Source {
        let entry = self.entries[index as usize].as_ref();
        &entry.expect(STAYS).source
    }

    /// The log lines about that source.
    pub(super) fn lines(&mut self, index: u32) -> &mut OverdueLines {
        let entry = self.entries[index as usize].as_mut();
        &mut entry.expect(STAYS).lines
    }

    /// Whether the log needs a warning about a delivery that is late; it then counts for all deliveries up to `last`.
    pub(super) fn warn_of(&mut self, index: u32, tag: u64, last: u64) -> bool {
        let Some(Some(entry)) = self.entries.get_mut(index as usize) else { return false };
        let is_new = tag > entry.warned_to;
        if is_new {
            entry.warned_to = last;
        }
        is_new
    }

    /// The index of a new consumer.
    pub(super) fn add_consumer(&mut self, queue: &QueueRef, id: ConsumerId, timeout: Option<ConsumerTimeout>) -> u32 {
        self.add(Source { queue: queue.clone(), consumer: Some(id), timeout }, false)
    }

    /// The index of a queue that `basic.get` reads from; it is added if it is new.
    pub(super) fn queue(&mut self, queue: &QueueRef) -> u32 {
        let key = queue.key();
        if let Some(index) = self.queues.get(&key) {
            return *index;
        }
        let timeout = ConsumerTimeout::of(queue.effective().options(queue.info()), None);
        let index = self.add(Source { queue: queue.clone(), consumer: None, timeout }, true);
        self.queues.insert(key, index);
        index
    }

    fn add(&mut self, source: Source, ended: bool) -> u32 {
        let entry = Some(Entry { source, ended, warned_to: 0, lines: OverdueLines::default() });
        match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        }
    }

    /// Ends a source. It is kept if some of its deliveries may be left.
    pub(super) fn end(&mut self, index: u32, may_be_left: bool) {
        if !may_be_left {
            self.forget(index);
        } else if let Some(Some(entry)) = self.entries.get_mut(index as usize) {
            entry.ended = true;
        }
    }

    fn forget(&mut self, index: u32) {
        if let Some(Entry { source, .. }) = self.entries.get_mut(index as usize).and_then(Option::take) {
            self.free.push(index);
            if source.consumer.is_none() {
                self.queues.remove(&source.queue.key());
            }
        }
    }

    /// Whether there are twice as many entries as the last sweep left.
    pub(super) fn want_sweep(&self) -> bool {
        self.free.is_empty() && self.entries.len() > self.sweep_above.max(SWEEP_MIN)
    }

    /// Removes ended sources without deliveries; `left` has the source index of each delivery that is left.
    pub(super) fn sweep(&mut self, left: impl Iterator<Item = u32>) {
        let mut is_left = vec![false; self.entries.len()];
        left.for_each(|index| is_left[index as usize] = true);
        for (index, is_left) in is_left.into_iter().enumerate() {
            let has_ended = self.entries[index].as_ref().is_some_and(|entry| entry.ended);
            if has_ended && !is_left {
                self.forget(index as u32);
            }
        }
        self.sweep_above = 2 * (self.entries.len() - self.free.len());
    }
}
