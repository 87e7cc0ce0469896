//! Expiry times of messages, known without their bodies.
//!
//! A queue without any time to live has none of this. With only `x-message-ttl` it keeps [`arrivals`]: one mark for ten
//! milliseconds of messages, or for half a second once there are many marks. Messages with a time of their own are kept
//! one by one. The first 131,072 are exact to the millisecond ([`soonest`]). Further ones take four to ten bytes each
//! and are rounded up to half a second ([`times`]), as are all in a checkpoint. A message leaves at most that much too
//! late, and never too early.

mod arrivals;
mod chunk;
mod soonest;
mod state;
mod times;

use roaring::RoaringTreemap;

pub use self::state::ExpiryStateError;

use self::arrivals::Arrivals;
use self::soonest::Soonest;
use self::times::Times;

/// Expiry times of a queue's messages, in milliseconds since the Unix epoch.
#[derive(Debug, Default)]
pub struct Expiry {
    arrivals: Arrivals,
    soonest: Soonest,
    times: Times,
    /// Messages that expired while a consumer had them: they leave when they come back.
    overdue: RoaringTreemap,
}

/// Messages that are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// All messages that are left of these numbers, first and last.
    Range(u64, u64),
    /// One message, with its body bytes.
    One(u64, u32),
}

impl Expiry {
    /// Adds a message that expires at `expiry_ms`, with its body bytes. Numbers ascend.
    pub fn expires(&mut self, number: u64, expiry_ms: u64, body_bytes: u32) {
        match self.soonest.is_full() {
            false => self.soonest.insert(number, expiry_ms, body_bytes),
            true => self.times.push(number, expiry_ms, body_bytes),
        }
    }

    /// Adds messages with consecutive numbers, received at `received_ms`. Numbers ascend. `low`: all lower numbers are
    /// gone.
    pub fn arrived(&mut self, first: u64, count: u64, received_ms: u64, low: u64) {
        self.arrivals.push(first, count, received_ms, low);
    }

    /// Forgets arrival times: the queue has no time to live of its own.
    pub fn forget_arrivals(&mut self) {
        self.arrivals = Arrivals::default();
    }

    /// Whether no time of any message is known.
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty() && self.soonest.is_empty() && self.times.is_empty() && self.overdue.is_empty()
    }

    /// The time at which messages are due next; `ttl_ms` is the queue's time to live.
    pub(crate) fn next_ms(&self, ttl_ms: Option<u64>) -> Option<u64> {
        let arrival = ttl_ms.and_then(|ttl| Some(self.arrivals.next_ms()?.saturating_add(ttl)));
        [arrival, self.soonest.next_ms(), self.times.next_ms()].into_iter().flatten().min()
    }

    /// Removes and returns messages that are due.
    pub(crate) fn pop_due(&mut self, now_ms: u64, ttl_ms: Option<u64>) -> Option<Due> {
        if let Some((number, bytes)) = self.soonest.pop_due(now_ms).or_else(|| self.times.pop_due(now_ms)) {
            return Some(Due::One(number, bytes));
        }
        let (first, last) = self.arrivals.pop_due(now_ms.checked_sub(ttl_ms?)?)?;
        Some(Due::Range(first, last))
    }

    /// Makes the rest of a due range due again.
    pub(crate) fn push_back(&mut self, first: u64, last: u64) {
        self.arrivals.push_due(first, last);
    }

    /// Marks a message that expired while a consumer had it.
    pub(crate) fn overdue(&mut self, number: u64) {
        self.overdue.insert(number);
    }

    /// Whether a message expired while it was delivered. Removes its mark.
    pub(crate) fn take_overdue(&mut self, number: u64) -> bool {
        !self.overdue.is_empty() && self.overdue.remove(number)
    }

    /// Forgets messages that left the queue.
    pub(crate) fn forget(&mut self, first: u64, last: u64) {
        if !self.overdue.is_empty() {
            self.overdue.remove_range(first..=last);
        }
    }

    /// Frees memory of messages that are gone; `live` messages remain.
    pub(crate) fn prune(&mut self, live: u64, low: u64, is_live: impl Fn(u64) -> bool) {
        self.soonest.prune(live, &is_live);
        self.times.prune(live, low, is_live);
    }

    /// Approximate memory in bytes.
    pub fn memory(&self) -> usize {
        self.arrivals.memory() + self.soonest.memory() + self.times.memory() + self.overdue.serialized_size()
    }
}
