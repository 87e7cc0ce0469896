//! Expiry times of a queue's messages, and of the queue itself.
//!
//! Times of messages are wall times, and follow a clock that is set: see [`Epoch`]. How long a queue is unused is monotonic time.

use leveret_message::{Batch, BatchPart};
use leveret_model::QueueOptions;

use super::expiry::{Due, Expiry};
use crate::deadlines::Deadlines;
use crate::epoch::Epoch;
use crate::ledger::Ledger;
use crate::nanos::Nanos;
use crate::number_set::NumberSet;
use crate::records::Run;

const NANOS_PER_MS: u64 = 1_000_000;

/// The deadlines of a queue and its messages.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Time to live of every message, in milliseconds.
    message_ttl_ms: Option<u64>,
    /// Time to live of the queue while it isn't used, in milliseconds.
    expires_ms: Option<u64>,
    /// Wall time of monotonic zero.
    epoch: Epoch,
    /// Expiry times of messages; `None` while no message expires.
    expiry: Option<Box<Expiry>>,
    /// The last use of the queue: `x-expires` counts from there.
    used: Nanos,
    /// The deadlines that the owner of the timers knows.
    announced: Deadlines,
    /// Messages that were due on arrival (a time to live of 0): first and last number of each run.
    momentary: Vec<(u64, u64)>,
    /// Ready messages with an expiry time for which a consumer waited when they were published.
    awaited: NumberSet,
    /// The newest message that was here before there was a time to live, and the wall time from which that counts for it and
    /// all before it.
    earlier: Option<(u64, u64)>,
}

impl Clock {
    /// A clock with the wall time of monotonic zero, and the times of messages that recovery found.
    pub(crate) fn new(options: &QueueOptions, epoch: Epoch, mut expiry: Expiry, now: Nanos) -> Self {
        if options.message_ttl_ms.is_none() {
            expiry.forget_arrivals();
        }
        Self {
            message_ttl_ms: options.message_ttl_ms,
            expires_ms: options.expires_ms,
            epoch,
            expiry: (!expiry.is_empty()).then(|| Box::new(expiry)),
            used: now,
            announced: Deadlines::NONE,
            momentary: Vec::new(),
            awaited: NumberSet::default(),
            earlier: None,
        }
    }

    /// Takes over other times. A time to live counts for the messages that are there, the first and the last of which are `live`, from
    /// now on if there was none, and else from their arrival. The time for which the queue isn't used begins anew.
    pub(crate) fn configure(&mut self, options: &QueueOptions, live: Option<(u64, u64)>, now: Nanos) {
        if self.expires_ms != options.expires_ms {
            self.expires_ms = options.expires_ms;
            self.used = now;
        }
        match (self.message_ttl_ms, options.message_ttl_ms) {
            (None, Some(_)) => {
                let now_ms = self.wall_ms(now);
                if let Some((first, last)) = live {
                    self.expiry.get_or_insert_default().arrived_by(first, last, now_ms);
                    self.earlier = Some((last, now_ms));
                }
            }
            (Some(_), None) => {
                self.earlier = None;
                if let Some(expiry) = &mut self.expiry {
                    expiry.forget_arrivals();
                }
            }
            _ => {}
        }
        self.message_ttl_ms = options.message_ttl_ms;
        self.tidy();
    }

    /// Recovery found live messages from the first to the last of `live`. A checkpoint doesn't have the arrivals of those that came
    /// while there was no time to live: it counts from now on.
    pub(crate) fn recovered(&mut self, live: (u64, u64), now: Nanos) {
        if self.message_ttl_ms.is_none() {
            return;
        }
        let now_ms = self.wall_ms(now);
        let expiry = self.expiry.get_or_insert_default();
        if expiry.first_arrival().is_none_or(|first| first > live.0) {
            expiry.arrived_by(live.0, live.1, now_ms);
        }
    }

    /// Wall time in milliseconds since the Unix epoch.
    pub(crate) fn wall_ms(&self, now: Nanos) -> u64 {
        self.epoch.wall_ms(now)
    }

    /// Notes a use of the queue.
    pub(crate) fn used(&mut self, now: Nanos) {
        self.used = now;
    }

    /// When the queue expires if it isn't used until then; none if it has no such time.
    pub(crate) fn unused_at(&self) -> Option<Nanos> {
        Some(self.used.saturating_add(self.expires_ms?.saturating_mul(NANOS_PER_MS)))
    }

    /// Number of messages whose publishers gave them a time to live.
    pub(crate) fn timed(&self) -> u64 {
        self.expiry.as_ref().map_or(0, |expiry| expiry.timed())
    }

    /// Whether any message may expire.
    pub(crate) fn has_times(&self) -> bool {
        self.expiry.is_some()
    }

    /// The next deadlines, as far as they are sooner than those announced before. `in_use`: the queue itself can't expire now.
    /// `delayed_ms`: when the next delayed message is due, in wall time.
    pub(crate) fn announce(&mut self, in_use: bool, delayed_ms: Option<u64>) -> Deadlines {
        let message = self.expiry.as_ref().and_then(|expiry| expiry.next_ms(self.message_ttl_ms));
        let queue = self.unused_at().filter(|_| !in_use);
        let next = Deadlines::of([queue], [message, delayed_ms]).sooner_than(self.announced);
        self.announced = self.announced.and(next);
        next
    }

    /// Whether there may be a deadline to announce.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.expiry.is_some() || self.expires_ms.is_some()
    }

    /// The owner of the timers ran: it knows no deadline any more.
    pub(crate) fn forget_announced(&mut self) {
        self.announced = Deadlines::NONE;
    }

    /// The times for a checkpoint. The messages in `due` are due at once after a restart.
    pub(crate) fn encode(&self, due: impl Iterator<Item = Run>) -> Vec<u8> {
        match &self.expiry {
            Some(expiry) => expiry.encode(due),
            None => Expiry::default().encode(due),
        }
    }

    /// The expiry time of a message; 0 means never.
    fn deadline_ms(&self, batch: &Batch, index: usize, number: u64) -> u64 {
        let (mut received_ms, expiry_ms) = batch.times(index);
        if let Some((_, since_ms)) = self.earlier.filter(|(newest, _)| number <= *newest) {
            received_ms = since_ms;
        }
        match (expiry_ms, self.message_ttl_ms.map(|ttl| received_ms.saturating_add(ttl).max(1))) {
            (0, queue) => queue.unwrap_or(0),
            (own, queue) => queue.map_or(own, |queue| own.min(queue)),
        }
    }

    /// Notes the times of messages of a batch, which became part of the queue with consecutive
    /// numbers from `first` on. `is_awaited` tells, by place among them, whether a consumer waited for a message.
    pub(crate) fn note(
        &mut self,
        first: u64,
        part: BatchPart<'_>,
        mut is_awaited: impl FnMut(u32) -> bool,
        ledger: &Ledger,
    ) {
        let BatchPart { batch, index, count } = part;
        if self.message_ttl_ms.is_none() && !batch.any_expiry() {
            return;
        }
        let low = ledger.low();
        let mut expiry = self.expiry.take().unwrap_or_default();
        for at in 0..count {
            let is_awaited = is_awaited(at);
            let (number, index) = (first + u64::from(at), (index + at) as usize);
            let (received_ms, own_ms) = batch.times(index);
            let deadline = self.deadline_ms(batch, index, number);
            if self.message_ttl_ms.is_some() {
                expiry.arrived(number, 1, received_ms, low);
            }
            if own_ms != 0 && own_ms == deadline {
                expiry.expires(number, own_ms, batch.body_length(index));
            }
            if deadline != 0 && is_awaited {
                self.awaited.insert(number);
            } else if deadline != 0 && deadline <= received_ms.max(1) {
                match self.momentary.last_mut() {
                    Some((_, last)) if *last + 1 == number => *last = number,
                    _ => self.momentary.push((number, number)),
                }
            }
        }
        expiry.prune(ledger.len(), low, |number| ledger.is_live(number));
        self.expiry = Some(expiry);
    }

    /// Whether there are messages that were due on arrival.
    pub(crate) fn any_momentary(&self) -> bool {
        !self.momentary.is_empty()
    }

    /// Removes and returns the runs of messages that were due on arrival: first and last number of each run.
    pub(crate) fn take_momentary(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.momentary)
    }

    /// Whether a message has expired that no consumer waited for.
    pub(crate) fn is_over(&self, batch: &Batch, index: usize, number: u64, now_ms: u64) -> bool {
        let deadline = self.deadline_ms(batch, index, number);
        deadline != 0 && deadline <= now_ms && !self.awaited.contains(number)
    }

    /// Removes and returns messages that are due.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<Due> {
        self.expiry.as_mut()?.pop_due(now_ms, self.message_ttl_ms)
    }

    /// Makes the rest of a due range due again.
    pub(crate) fn push_back(&mut self, first: u64, last: u64) {
        if let Some(expiry) = &mut self.expiry {
            expiry.push_back(first, last);
        }
    }

    /// Frees memory once no expiry time is left.
    pub(crate) fn tidy(&mut self) {
        if self.expiry.as_ref().is_some_and(|expiry| expiry.is_empty()) {
            self.expiry = None;
        }
    }

    /// Marks a message that expired while a consumer had it, or waited for it.
    pub(crate) fn overdue(&mut self, number: u64, bytes: Option<u32>) {
        if let Some(expiry) = &mut self.expiry {
            expiry.overdue(number, bytes);
        }
    }

    /// Body bytes of a message with a time of its own.
    pub(crate) fn bytes_of(&self, number: u64) -> Option<u32> {
        self.expiry.as_ref()?.bytes_of(number)
    }

    /// Whether a message expired while it was delivered. Removes its mark.
    pub(crate) fn take_overdue(&mut self, number: u64) -> bool {
        self.expiry.as_mut().is_some_and(|expiry| expiry.take_overdue(number))
    }

    /// Whether a consumer waited for a message when it was published, and hasn't received it yet.
    pub(crate) fn is_awaited(&self, number: u64) -> bool {
        self.awaited.contains(number)
    }

    /// Whether any message is awaited in this sense.
    pub(crate) fn any_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Empties the set of awaited messages and returns it.
    pub(crate) fn take_awaited(&mut self) -> NumberSet {
        std::mem::take(&mut self.awaited)
    }

    /// Removes messages from the set of awaited ones.
    pub(crate) fn no_longer_awaited(&mut self, first: u64, last: u64) {
        if !self.awaited.is_empty() {
            self.awaited.remove_range(first, last);
        }
    }

    /// Forgets messages that left the queue.
    pub(crate) fn forget(&mut self, first: u64, last: u64) {
        self.no_longer_awaited(first, last);
        if let Some(expiry) = &mut self.expiry {
            expiry.forget(first, last);
        }
    }
}
