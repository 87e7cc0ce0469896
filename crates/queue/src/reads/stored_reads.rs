//! Reads of stored messages that are to be handed out, one read at a time.

use std::sync::Arc;

use crate::consumer_id::ConsumerId;
use crate::effects::{Effects, Link, Signal};
use crate::nanos::Nanos;

/// The purpose of a read of stored messages, but of a stream: see [`StreamRead`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredRead {
    /// To be handed out: [`Effects::read`].
    Delivery,
    /// For this consumer alone, which browses, has a filter, or fetches deferred messages; with the number that the read began with:
    /// [`crate::RareEffects::own_reads`].
    Own(ConsumerId, u64),
    /// To be moved to the dead-letter exchange: [`Effects::read_dead`].
    DeadLetters,
}

/// A read of a stream for one of its readers: [`crate::RareEffects::own_reads`]. All messages from `from` up to `end` were looked through,
/// and those that the reader wants were loaded. A run has messages of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamRead {
    /// The reader.
    pub reader: ConsumerId,
    /// Number that the read began with.
    pub from: u64,
    /// Number behind the last message that was looked at; `from` if none was found.
    pub end: u64,
    /// [`crate::Scan::since_ms`] for the next scan.
    pub since_ms: Option<u64>,
}

/// The read of stored messages to be handed out, and the calls that wait for it.
#[derive(Default)]
pub(crate) struct StoredReads {
    /// The first number of the read that is under way.
    from: Option<u64>,
    /// Time since when no consumer can be served before the read returns.
    blocked_since: Option<Nanos>,
    /// Links of waiting `basic.get`s, each with its key.
    getters: Vec<(Arc<dyn Link>, u64)>,
}

impl StoredReads {
    pub(crate) fn is_under_way(&self) -> bool {
        self.from.is_some()
    }

    /// Asks for messages from `number` on, unless a read is under way. Returns whether it did.
    pub(crate) fn request(&mut self, number: u64, effects: &mut Effects) -> bool {
        let is_new = self.from.is_none();
        if is_new {
            self.from = Some(number);
            effects.read = Some(number);
        }
        is_new
    }

    /// Notes that consumers wait for the read.
    pub(crate) fn block(&mut self, now: Nanos) {
        self.blocked_since.get_or_insert(now);
    }

    pub(crate) fn blocked_since(&self) -> Option<Nanos> {
        self.blocked_since
    }

    /// Notes that consumers don't wait any more. Returns whether they did.
    pub(crate) fn unblock(&mut self) -> bool {
        self.blocked_since.take().is_some()
    }

    /// Registers a `basic.get` to be signalled when it should be tried again.
    pub(crate) fn wait(&mut self, link: &Arc<dyn Link>, key: u64) {
        self.getters.push((link.clone(), key));
    }

    /// The read has finished. Returns the number that it began with; `None` if there was no read.
    pub(crate) fn finish(&mut self) -> Option<u64> {
        self.from.take()
    }

    /// Signals every waiting `basic.get` to be tried again.
    pub(crate) fn signal_getters(&mut self, effects: &mut Effects) {
        for (link, key) in self.getters.drain(..) {
            effects.signals.push((link, Signal::Loaded(key)));
        }
    }
}
