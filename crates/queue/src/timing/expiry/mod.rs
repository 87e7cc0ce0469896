//! Expiry times of messages, known without their bodies.
//!
//! A queue without any time to live has none of this. With only `x-message-ttl` it keeps [`arrivals`]: one mark for ten
//! milliseconds of messages, or for half a second once there are many marks. A message leaves at most that much too late, and
//! never too early. Messages with a time of their own are kept one by one ([`crate::timing::times`]), exact to the millisecond.

mod arrivals;
mod state;

use std::collections::BTreeMap;

use roaring::RoaringTreemap;

pub use self::state::ExpiryStateError;

use self::arrivals::Arrivals;
use crate::timing::times::Times;

/// Expiry times of a queue's messages, in milliseconds since the Unix epoch.
#[derive(Debug, Default)]
pub struct Expiry {
    arrivals: Arrivals,
    times: Times,
    /// Messages that have been due since a restart.
    due: RoaringTreemap,
    /// Messages that expired while a consumer had them: they leave when they come back.
    overdue: RoaringTreemap,
    /// Body bytes of those of them that had a time of their own: after a restart they leave without being read.
    overdue_bytes: BTreeMap<u64, u32>,
}

/// Messages that are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// All messages that are left of these numbers, first and last.
    Range(u64, u64),
    /// One message, with its body bytes as far as they are known.
    One(u64, Option<u32>),
}

impl Expiry {
    /// Adds a message that expires at `expiry_ms`, with its body bytes. Numbers ascend.
    pub fn expires(&mut self, number: u64, expiry_ms: u64, body_bytes: u32) {
        self.times.insert(number, expiry_ms, body_bytes);
    }

    /// Adds messages with consecutive numbers, received at `received_ms`. Numbers ascend. `low`: all lower numbers are
    /// gone.
    pub fn arrived(&mut self, first: u64, count: u64, received_ms: u64, low: u64) {
        self.arrivals.push(first, count, received_ms, low);
    }

    /// Adds messages of which it isn't known when they arrived, other than before this time.
    pub(crate) fn arrived_by(&mut self, first: u64, last: u64, now_ms: u64) {
        self.arrivals.restore(now_ms, first, last);
    }

    /// The lowest number of a message whose arrival is known.
    pub(crate) fn first_arrival(&self) -> Option<u64> {
        self.arrivals.iter().map(|(_, first, _)| first).min()
    }

    /// Forgets arrival times: the queue has no time to live of its own.
    pub fn forget_arrivals(&mut self) {
        self.arrivals = Arrivals::default();
    }

    /// Whether no time of any message is known.
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty() && self.times.is_empty() && self.due.is_empty() && self.overdue.is_empty()
    }

    /// Number of messages with a time of their own.
    pub(crate) fn timed(&self) -> u64 {
        self.times.len()
    }

    /// The time at which messages are due next; `ttl_ms` is the queue's time to live.
    pub(crate) fn next_ms(&self, ttl_ms: Option<u64>) -> Option<u64> {
        let arrival = ttl_ms.and_then(|ttl| Some(self.arrivals.next_ms()?.saturating_add(ttl)));
        let at_once = (!self.due.is_empty()).then_some(0);
        [arrival, at_once, self.times.next_ms()].into_iter().flatten().min()
    }

    /// Removes and returns messages that are due.
    pub(crate) fn pop_due(&mut self, now_ms: u64, ttl_ms: Option<u64>) -> Option<Due> {
        if let Some(number) = self.due.min() {
            self.due.remove(number);
            let bytes = self.times.remove(number).map(|(_, bytes)| bytes);
            return Some(Due::One(number, bytes));
        }
        if let Some((number, bytes)) = self.times.pop_due(now_ms) {
            return Some(Due::One(number, Some(bytes)));
        }
        let (first, last) = self.arrivals.pop_due(now_ms.checked_sub(ttl_ms?)?)?;
        Some(Due::Range(first, last))
    }

    /// Body bytes of a message with a time of its own.
    pub(crate) fn bytes_of(&self, number: u64) -> Option<u32> {
        self.overdue_bytes.get(&number).copied().or_else(|| self.times.get(number).map(|(_, bytes)| bytes))
    }

    /// Makes the rest of a due range due again.
    pub(crate) fn push_back(&mut self, first: u64, last: u64) {
        self.arrivals.push_due(first, last);
    }

    /// Marks a message that expired while a consumer had it, with its body bytes if they are known.
    pub(crate) fn overdue(&mut self, number: u64, bytes: Option<u32>) {
        self.overdue.insert(number);
        bytes.map(|bytes| self.overdue_bytes.insert(number, bytes));
    }

    /// Whether a message expired while it was delivered. Removes its mark.
    pub(crate) fn take_overdue(&mut self, number: u64) -> bool {
        !self.overdue.is_empty() && {
            self.overdue_bytes.remove(&number);
            self.overdue.remove(number)
        }
    }

    /// Forgets messages that left the queue.
    pub(crate) fn forget(&mut self, first: u64, last: u64) {
        if !self.overdue.is_empty() {
            self.overdue.remove_range(first..=last);
            self.overdue_bytes.extract_if(first..=last, |_, _| true).for_each(drop);
        }
    }

    /// Frees memory of messages that are gone; `live` messages remain.
    pub(crate) fn prune(&mut self, live: u64, low: u64, is_live: impl Fn(u64) -> bool) {
        self.times.prune(live, low, is_live);
    }

    /// Approximate memory in bytes.
    pub fn memory(&self) -> usize {
        let sets = self.due.serialized_size() + self.overdue.serialized_size();
        self.arrivals.memory() + self.times.memory() + sets + self.overdue_bytes.len() * size_of::<(u64, u32)>()
    }
}
