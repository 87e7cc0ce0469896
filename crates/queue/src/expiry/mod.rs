//! When messages expire: what is known of their times without their bodies.
//!
//! A queue without any time to live has none of this. With `x-message-ttl` alone it keeps [`arrivals`], one mark
//! for ten milliseconds of messages, and for half a second of them once there are many marks. Messages with a time of their
//! own are kept one by one: the first 131,072 to the millisecond ([`soonest`]), more of them in four to ten bytes each, rounded
//! up to half a second ([`times`]), as a checkpoint keeps all. A message leaves late by that at most, and never early.

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

/// See the module. Times are milliseconds since the Unix epoch.
#[derive(Debug, Default)]
pub struct Expiry {
    arrivals: Arrivals,
    soonest: Soonest,
    times: Times,
    /// Their time came while a consumer had them: they go when they come back.
    overdue: RoaringTreemap,
}

/// What to do about messages whose time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// All that are left of these numbers, first and last.
    Range(u64, u64),
    /// This one, with this many body bytes.
    One(u64, u32),
}

impl Expiry {
    /// A message that expires at `expiry_ms`, with this many body bytes. Numbers ascend.
    pub fn expires(&mut self, number: u64, expiry_ms: u64, body_bytes: u32) {
        match self.soonest.is_full() {
            false => self.soonest.insert(number, expiry_ms, body_bytes),
            true => self.times.push(number, expiry_ms, body_bytes),
        }
    }

    /// Messages with consecutive numbers, received at `received_ms`. Numbers ascend. `low`: all below are gone.
    pub fn arrived(&mut self, first: u64, count: u64, received_ms: u64, low: u64) {
        self.arrivals.push(first, count, received_ms, low);
    }

    /// Forgets when messages came in: the queue has no time to live of its own.
    pub fn forget_arrivals(&mut self) {
        self.arrivals = Arrivals::default();
    }

    /// True when nothing is known of any message.
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty() && self.soonest.is_empty() && self.times.is_empty() && self.overdue.is_empty()
    }

    /// When something is due next; `ttl_ms` is the queue's time to live.
    pub(crate) fn next_ms(&self, ttl_ms: Option<u64>) -> Option<u64> {
        let arrival = ttl_ms.and_then(|ttl| Some(self.arrivals.next_ms()?.saturating_add(ttl)));
        [arrival, self.soonest.next_ms(), self.times.next_ms()].into_iter().flatten().min()
    }

    /// Takes out something that is due.
    pub(crate) fn pop_due(&mut self, now_ms: u64, ttl_ms: Option<u64>) -> Option<Due> {
        if let Some((number, bytes)) = self.soonest.pop_due(now_ms).or_else(|| self.times.pop_due(now_ms)) {
            return Some(Due::One(number, bytes));
        }
        let (first, last) = self.arrivals.pop_due(now_ms.checked_sub(ttl_ms?)?)?;
        Some(Due::Range(first, last))
    }

    /// The rest of a range whose time has come.
    pub(crate) fn push_back(&mut self, first: u64, last: u64) {
        self.arrivals.push_due(first, last);
    }

    /// The time of this one came, but a consumer has it.
    pub(crate) fn overdue(&mut self, number: u64) {
        self.overdue.insert(number);
    }

    /// Whether the time of this one came while it was out; it isn't any more.
    pub(crate) fn take_overdue(&mut self, number: u64) -> bool {
        !self.overdue.is_empty() && self.overdue.remove(number)
    }

    /// Messages left the queue.
    pub(crate) fn forget(&mut self, first: u64, last: u64) {
        if !self.overdue.is_empty() {
            self.overdue.remove_range(first..=last);
        }
    }

    /// Gives memory back that messages hold which are gone; `live` of them aren't.
    pub(crate) fn prune(&mut self, live: u64, low: u64, is_live: impl Fn(u64) -> bool) {
        self.soonest.prune(live, &is_live);
        self.times.prune(live, low, is_live);
    }

    /// Memory in bytes, about.
    pub fn memory(&self) -> usize {
        self.arrivals.memory() + self.soonest.memory() + self.times.memory() + self.overdue.serialized_size()
    }
}
