//! Traffic counters of one connection. Once a turn they are added to the counters of its core for the protocol, and to those of
//! its vhost: connections don't write to shared counters for each message.

use std::ops::Deref;
use std::sync::Arc;

use leveret_metrics::{CountedQueue, Counters, LocalCounters, Rates, SizeHistogram, Sizes, Totals};
use leveret_model::{Queue, QueueType};

use crate::time::Nanos;

/// The type that counters know a queue by.
#[inline]
pub fn counted_as(queue: &Queue) -> CountedQueue {
    match queue.queue_type() {
        QueueType::Classic => CountedQueue::Classic,
        QueueType::Quorum => CountedQueue::Quorum,
        QueueType::Stream => CountedQueue::Stream,
    }
}

/// The counters of a core: for sockets whose protocol isn't known yet, and for each protocol.
#[derive(Debug)]
pub(crate) struct CoreCounters {
    pub core: Arc<Counters>,
    /// Counters in the order of the broker's protocols.
    pub by_protocol: Box<[OfProtocol]>,
}

/// The counters of a core for one protocol.
#[derive(Debug, Default)]
pub(crate) struct OfProtocol {
    pub counters: Arc<Counters>,
    /// Sizes of published messages.
    pub sizes: Arc<SizeHistogram>,
}

impl CoreCounters {
    /// Counters of a core for `protocols` protocols.
    pub(crate) fn new(core: Arc<Counters>, protocols: usize) -> Self {
        Self { core, by_protocol: (0..protocols).map(|_| OfProtocol::default()).collect() }
    }
}

/// Traffic counters of one connection. For counting, it is used as the connection's own [`LocalCounters`].
pub struct Traffic {
    news: LocalCounters,
    core: Arc<Counters>,
    vhost: Option<Arc<Counters>>,
    sizes: Sizes,
    core_sizes: Arc<SizeHistogram>,
    /// The counts that were added to shared counters.
    flushed: Totals,
    /// Rates of bytes in and out.
    rates: Rates<2>,
}

impl Deref for Traffic {
    type Target = LocalCounters;

    fn deref(&self) -> &LocalCounters {
        &self.news
    }
}

impl Traffic {
    pub(crate) fn new(core: Arc<Counters>, core_sizes: Arc<SizeHistogram>, now: Nanos) -> Self {
        Self {
            news: LocalCounters::default(),
            core,
            vhost: None,
            sizes: Sizes::default(),
            core_sizes,
            flushed: Totals::default(),
            rates: Rates::new(now, [0, 0]),
        }
    }

    /// Counts a published message of `bytes` bytes.
    #[inline]
    pub fn published(&mut self, bytes: u64) {
        self.news.published.increment();
        self.sizes.count(bytes);
    }

    /// The connection is open: from here on it also counts for this vhost.
    pub fn enter(&mut self, vhost: Arc<Counters>) {
        self.flush();
        self.vhost = Some(vhost);
        self.news.connections_opened.increment();
        self.flush();
    }

    /// The connection is over. It is only counted as closed if it was open.
    pub fn leave(&mut self) {
        if self.vhost.is_some() {
            self.news.connections_closed.increment();
        }
        self.flush();
    }

    /// Adds changes since the last call to the counters of the core and the vhost.
    pub fn flush(&mut self) {
        if self.news.published.value() > 0 {
            self.core_sizes.take(&mut self.sizes);
        }
        self.news.pass_on(&mut self.flushed, &self.core, self.vhost.as_deref());
    }

    /// Counts a read or write of the socket. It is added to shared counters at once, because the next event may be far away.
    pub fn transferred(&mut self, read: u64, written: u64, now: Nanos) {
        let octets = self.octets();
        self.rates.mark(now, || octets);
        let shared = [Some(&self.core), self.vhost.as_ref()].into_iter().flatten();
        if read > 0 {
            self.flushed.bytes_in += read;
            self.flushed.reads += 1;
            shared.clone().for_each(|counters| {
                counters.bytes_in.add(read);
                counters.reads.increment();
            });
        }
        if written > 0 {
            self.flushed.bytes_out += written;
            self.flushed.writes += 1;
            shared.for_each(|counters| {
                counters.bytes_out.add(written);
                counters.writes.increment();
            });
        }
    }

    /// The counts so far.
    pub fn totals(&self) -> Totals {
        self.flushed.plus(&self.news.totals())
    }

    /// Total bytes in and out. They are never news.
    pub(crate) fn octets(&self) -> [u64; 2] {
        [self.flushed.bytes_in, self.flushed.bytes_out]
    }

    /// Bytes in and out per second.
    pub fn octet_rates(&self, now: Nanos) -> [f64; 2] {
        self.rates.per_second(now, &self.octets())
    }
}

#[cfg(test)]
mod tests {
    use leveret_metrics::SizeTotals;

    use super::*;

    #[test]
    fn totals_are_added_once_and_to_the_vhost_once_it_is_entered() {
        let (core, vhost) = (Arc::new(Counters::default()), Arc::new(Counters::default()));
        let sizes = Arc::new(SizeHistogram::default());
        let mut traffic = Traffic::new(core.clone(), sizes.clone(), 0);
        traffic.auth_attempts.add(1);
        traffic.transferred(8, 0, 1);
        traffic.leave();
        assert_eq!(core.totals().connections_closed, 0);
        traffic.enter(vhost.clone());
        (0..5).for_each(|bytes| traffic.published(bytes));
        traffic.transferred(100, 30, 2);
        for _ in 0..2 {
            traffic.flush();
        }
        let (core, vhost) = (core.totals(), vhost.totals());
        assert_eq!((core.auth_attempts, core.published, core.bytes_in, core.bytes_out), (1, 5, 108, 30));
        assert_eq!((vhost.auth_attempts, vhost.published, vhost.bytes_in, vhost.reads), (0, 5, 100, 1));
        assert_eq!(traffic.octets(), [108, 30]);
        let mut totals = SizeTotals::default();
        totals.add(&sizes);
        assert_eq!((totals.messages(), totals.bytes()), (5, 10));
    }
}
