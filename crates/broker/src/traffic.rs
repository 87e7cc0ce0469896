//! What one connection counts. Once a turn it is added to what its core counts for the protocol, and to what its vhost
//! counts: no two connections write to the same place for each message.

use std::ops::Deref;
use std::sync::Arc;

use leveret_metrics::{Counters, Rates, SizeHistogram, Sizes, Totals};

use crate::time::Nanos;

/// What a core counts: for sockets that haven't said what they speak, and for each protocol.
#[derive(Debug)]
pub(crate) struct CoreCounters {
    pub core: Arc<Counters>,
    /// In the order of the broker's protocols.
    pub by_protocol: Box<[OfProtocol]>,
}

/// What a core counts for one protocol.
#[derive(Debug, Default)]
pub(crate) struct OfProtocol {
    pub counters: Arc<Counters>,
    /// Of published messages.
    pub sizes: Arc<SizeHistogram>,
}

impl CoreCounters {
    /// Those of a core that serves so many protocols.
    pub(crate) fn new(core: Arc<Counters>, protocols: usize) -> Self {
        Self { core, by_protocol: (0..protocols).map(|_| OfProtocol::default()).collect() }
    }
}

/// See the module. It is the connection's own [`Counters`] to whoever counts.
pub struct Traffic {
    own: Counters,
    core: Arc<Counters>,
    vhost: Option<Arc<Counters>>,
    sizes: Sizes,
    core_sizes: Arc<SizeHistogram>,
    /// What was added elsewhere so far.
    flushed: Totals,
    /// Of bytes in and out.
    rates: Rates<2>,
}

impl Deref for Traffic {
    type Target = Counters;

    fn deref(&self) -> &Counters {
        &self.own
    }
}

impl Traffic {
    pub(crate) fn new(core: Arc<Counters>, core_sizes: Arc<SizeHistogram>, now: Nanos) -> Self {
        Self {
            own: Counters::default(),
            core,
            vhost: None,
            sizes: Sizes::default(),
            core_sizes,
            flushed: Totals::default(),
            rates: Rates::new(now, [0, 0]),
        }
    }

    /// A message of so many bytes was published.
    pub fn published(&mut self, bytes: u64) {
        self.own.published.increment_alone();
        self.sizes.count(bytes);
    }

    /// The connection is open: from here on it counts for this vhost too.
    pub fn enter(&mut self, vhost: Arc<Counters>) {
        self.flush();
        self.vhost = Some(vhost);
        self.own.connections_opened.increment();
        self.flush();
    }

    /// The connection is over. One that never was open isn't counted as closed.
    pub fn leave(&mut self) {
        if self.vhost.is_some() {
            self.own.connections_closed.increment();
        }
        self.flush();
    }

    /// Adds what was counted since the last time to what the core and the vhost count.
    pub fn flush(&mut self) {
        let totals = self.own.totals();
        let news = totals.since(&self.flushed);
        self.core.add(&news);
        if news.published > 0 {
            self.core_sizes.take(&mut self.sizes);
        }
        if let Some(vhost) = &self.vhost {
            vhost.add(&news);
        }
        self.flushed = totals;
    }

    /// A read or write of the socket. It is added at once, since nothing may come after it for long.
    pub fn transferred(&mut self, read: u64, written: u64, now: Nanos) {
        let octets = self.octets();
        self.rates.mark(now, || octets);
        let news = Totals {
            bytes_in: read,
            bytes_out: written,
            reads: u64::from(read > 0),
            writes: u64::from(written > 0),
            ..Totals::default()
        };
        self.own.add(&news);
        self.core.add(&news);
        if let Some(vhost) = &self.vhost {
            vhost.add(&news);
        }
        self.flushed = self.flushed.plus(&news);
    }

    /// Bytes in and out so far.
    pub(crate) fn octets(&self) -> [u64; 2] {
        [self.own.bytes_in.value(), self.own.bytes_out.value()]
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
    fn everything_is_added_once_and_to_the_vhost_from_its_entry_on() {
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
