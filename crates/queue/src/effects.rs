//! Effects of a call on a queue, collected under the lock and carried out after it is released.

use std::sync::Arc;

use leveret_message::{Batch, BatchPart};
use smallvec::SmallVec;

use crate::consumer_id::ConsumerId;
use crate::deadlines::Deadlines;
use crate::records::{Annotated, AttemptCounts, AttemptRun, DelayRun, DyingRun, KeptOffset, Run, push_sized};

/// Consecutive messages handed to a consumer: `count` messages of `batch` from `index` on.
#[derive(Debug, Clone)]
pub struct Taken {
    /// The messages.
    pub batch: Arc<Batch>,
    /// Index of the first in the batch.
    pub index: u32,
    /// Number of messages.
    pub count: u32,
    /// Number of the first in the queue.
    pub first: u64,
    /// Whether they were, or may have been, delivered before.
    pub redelivered: bool,
    /// How often each of them was delivered before and how often that failed, as far as this process knows.
    pub attempts: AttemptCounts,
    /// Whether settling them has to be logged.
    pub durable: bool,
}

impl Taken {
    /// Its messages.
    #[inline]
    pub fn part(&self) -> BatchPart<'_> {
        BatchPart::of(&self.batch, self.index, self.count)
    }

    /// The messages from index `at` on.
    pub fn rest(&self, at: u32) -> Self {
        Self {
            batch: self.batch.clone(),
            index: self.index + at,
            count: self.count - at,
            first: self.first + u64::from(at),
            ..*self
        }
    }

    /// Whether the body of the last one is in a file of its own.
    pub fn ends_in_file(&self) -> bool {
        self.batch.is_in_file((self.index + self.count - 1) as usize)
    }

    /// Shortens it to about `bytes`, but at least one message; returns its body bytes. A message whose body is in a
    /// file becomes the last one: its delivery takes as long as the file is read.
    pub(crate) fn clip(&mut self, bytes: u64) -> u64 {
        let mut size = 0;
        for at in 0..self.count {
            let index = (self.index + at) as usize;
            size += u64::from(self.batch.body_length(index));
            if size + 64 * u64::from(at + 1) >= bytes || self.batch.is_in_file(index) {
                self.count = at + 1;
                return size;
            }
        }
        size
    }

    /// The part of `bytes` that is left after these messages of `size` body bytes: none behind a body in a file.
    pub(crate) fn left_of(&self, bytes: u64, size: u64) -> u64 {
        if self.ends_in_file() { 0 } else { bytes.saturating_sub(size + 64 * u64::from(self.count)) }
    }

    /// Their numbers, as runs that return to the queue, each with messages of one size.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for at in 0..self.count {
            let number = self.first + u64::from(at);
            let bytes = u64::from(self.batch.body_length((self.index + at) as usize));
            push_sized(&mut runs, Run { first: number, last: number, bytes, durable: self.durable });
        }
        runs
    }

    /// Their numbers, as a run that leaves the queue.
    pub fn run(&self) -> Run {
        Run {
            first: self.first,
            last: self.first + u64::from(self.count) - 1,
            bytes: self.batch.body_bytes(self.index as usize, self.count as usize),
            durable: self.durable,
        }
    }
}

/// The other end of a consumer or of a waiting call: an outbox of its connection.
pub trait Link: Send + Sync {
    /// Must not call back into a queue; it is called outside the queue's lock.
    fn signal(&self, signal: Signal);
}

/// A notification for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The consumer with this key may take.
    Scheduled(u64),
    /// The consumer with this key is gone, since its queue was deleted or failed.
    Cancelled(u64),
    /// The message that a `get` with this key waited for is in memory now.
    Loaded(u64),
    /// The answer to the question with this key is there.
    Answered(u64),
    /// A consumer with link credit became active, or stopped being so, or was granted its first credit.
    Activity {
        /// The consumer's key.
        key: u64,
        /// Whether it is active.
        active: bool,
        /// Number of such signals for it so far: those of several calls may come in another order.
        change: u32,
        /// Messages that are ready for it.
        available: u32,
    },
    /// The drain of a consumer with link credit is over: its credit is used up.
    Drained {
        /// The consumer's key.
        key: u64,
        /// The link's delivery-count, its unused credit included.
        delivery_count: u32,
        /// Messages that are ready, for other consumers.
        available: u32,
    },
}

/// If a queue with more consumers than this ends, they aren't all notified at once, which would take milliseconds.
pub(crate) const TOLD_AT_ONCE_MAX: usize = 1000;

/// Links of consumers, and the consumers' keys.
type Links = dyn ExactSizeIterator<Item = (Arc<dyn Link>, u64)> + Send + Sync;

/// Many consumers whose queue is gone, to be notified a few at a time.
#[derive(Default)]
pub struct Ended {
    left: Option<Box<Links>>,
}

impl Ended {
    pub(crate) fn new(consumers: Box<Links>) -> Self {
        Self { left: Some(consumers) }
    }

    /// Whether all have been notified.
    pub fn is_empty(&self) -> bool {
        self.left.as_ref().is_none_or(|left| left.len() == 0)
    }

    /// Notifies some of them that they are cancelled. Call it without any queue lock.
    pub fn tell(&mut self) {
        for (link, key) in self.left.iter_mut().flatten().take(TOLD_AT_ONCE_MAX) {
            link.signal(Signal::Cancelled(key));
        }
    }
}

/// The effects of a call on a queue.
#[derive(Default)]
pub struct Effects {
    /// Signals in order.
    pub signals: SmallVec<[(Arc<dyn Link>, Signal); 4]>,
    /// Messages that were handed out to automatic acknowledgement: to be logged as settled.
    pub settled: Vec<Run>,
    /// The times at which [`crate::Queue::run_timers`] has to be called.
    pub deadlines: Deadlines,
    /// The queue wants stored messages from this number on.
    pub read: Option<u64>,
    /// Dead letters wait to be moved.
    pub dead_letters: bool,
    /// Effects that few calls have: beside the others they would cost every call.
    rare: Option<Box<RareEffects>>,
}

/// Effects that few calls have.
#[derive(Default)]
pub struct RareEffects {
    /// Messages that a length limit dropped: to be logged as dropped.
    pub drops: Vec<Run>,
    /// Messages whose delivery failed, with counts that have to be logged.
    pub attempts: Vec<AttemptRun>,
    /// Messages that came back otherwise, with counts that are logged while there is room: a client can return messages as often
    /// as it likes.
    pub returns: Vec<AttemptRun>,
    /// Messages that were set aside at their delivery limit: to be logged as parked.
    pub parked: Vec<Run>,
    /// Messages to which a consumer added annotations, which have to be logged.
    pub annotated: Vec<Annotated>,
    /// Messages that came back and wait for a time: to be logged as delayed.
    pub delayed: Vec<DelayRun>,
    /// Dead letters that no queue takes now: to be logged as dying.
    pub dying: Vec<DyingRun>,
    /// Messages beyond a delivery limit, or too many parked ones: to be logged as dropped.
    pub over_limit: Vec<Run>,
    /// Messages that expired: to be logged as expired.
    pub expired: Vec<Run>,
    /// Offsets of consumers that a stream keeps: to be logged.
    pub offsets: Vec<KeptOffset>,
    /// Reads for consumers that browse, or fetch deferred messages: each wants stored messages from a number on.
    pub own_reads: Vec<(ConsumerId, u64)>,
    /// If there are some, these are the only numbers for which the read of [`Effects::read`] is: runs of first and last number, in the
    /// order in which they are read.
    pub read_numbers: Vec<(u64, u64)>,
    /// The queue wants stored dead letters, and first the one with this number.
    pub read_dead: Option<u64>,
    /// The numbers for which that read is, as [`RareEffects::read_numbers`].
    pub dead_numbers: Vec<(u64, u64)>,
    /// A replicated queue may hand messages out below this number once that is logged and the record is reached; see
    /// [`crate::LedgerQueue::mark_logged`].
    pub deliver_below: Option<u64>,
    /// A replicated queue has this consumer be active, or nobody, once that is logged and the record is reached; see
    /// [`crate::LedgerQueue::active_logged`].
    pub activate: Option<Option<ConsumerId>>,
    /// Consumers that have to be notified that the queue is gone.
    pub ended: Ended,
}

impl RareEffects {
    fn is_empty(&self) -> bool {
        self.drops.is_empty()
            && self.expired.is_empty()
            && self.attempts.is_empty()
            && self.returns.is_empty()
            && self.parked.is_empty()
            && self.delayed.is_empty()
            && self.annotated.is_empty()
            && self.dying.is_empty()
            && self.over_limit.is_empty()
            && self.offsets.is_empty()
            && self.own_reads.is_empty()
            && self.read_numbers.is_empty()
            && self.read_dead.is_none()
            && self.deliver_below.is_none()
            && self.activate.is_none()
            && self.ended.is_empty()
    }
}

impl Effects {
    /// The rare effects, if there are any.
    #[inline]
    pub fn rare(&self) -> Option<&RareEffects> {
        self.rare.as_deref()
    }

    /// The rare effects, to be added to.
    pub fn rare_mut(&mut self) -> &mut RareEffects {
        self.rare.get_or_insert_default()
    }

    /// Takes out the read for deliveries: its first number, and [`RareEffects::read_numbers`].
    #[inline]
    pub fn take_read(&mut self) -> Option<(u64, Vec<(u64, u64)>)> {
        let from = self.read.take()?;
        let numbers = self.rare.as_mut().map_or_else(Vec::new, |rare| std::mem::take(&mut rare.read_numbers));
        Some((from, numbers))
    }

    /// Takes the rare effects out.
    #[inline]
    pub fn take_rare(&mut self) -> Option<Box<RareEffects>> {
        self.rare.take()
    }

    /// Passes every signal on. Call it without any queue lock.
    pub fn fire(&mut self) {
        for (link, signal) in self.signals.drain(..) {
            link.signal(signal);
        }
    }

    /// True when there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.signals.is_empty()
            && self.settled.is_empty()
            && self.deadlines.is_none()
            && self.read.is_none()
            && !self.dead_letters
            && self.rare().is_none_or(RareEffects::is_empty)
    }
}
