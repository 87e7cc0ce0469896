//! A channel: its consumers, its deliveries, and the answers that it owes.

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_metrics::LocalCounters;

use super::content::Incoming;
use super::parked::Parked;
use super::reply_consumer::ReplyConsumer;
use super::tx::Tx;
use super::unsettled::Unsettled;
use leveret_broker::settlement::Settlement;
use leveret_broker::stats::{Stat, Stats};
use leveret_broker::time::Nanos;
use leveret_session::confirms::Confirms;
use leveret_session::pace::OwnRate;

#[derive(Default)]
pub(crate) struct Channel {
    /// We sent `channel.close` and ignore everything until its answer.
    pub closing: bool,
    pub incoming: Incoming,
    pub confirms: Option<Confirms>,
    /// The rate at which it publishes.
    pub own_rate: OwnRate,
    /// The channel is in the session's list of channels with confirms to come.
    pub is_confirming: bool,
    /// Publishes and settlements that wait for `tx.commit`; none before `tx.select`. In a box, since few channels have one.
    pub tx: Option<Box<Tx>>,
    /// The prefetch of consumers that are begun later.
    pub prefetch: u16,
    pub last_queue: Option<Arc<str>>,
    /// The channel's consumer of direct reply-to.
    pub reply: Option<ReplyConsumer>,
    /// Deliveries that the client hasn't settled.
    pub unsettled: Unsettled,
    /// Consumers that wait because too many deliveries are unsettled.
    pub(super) parked: Parked,
    /// Keys of the consumers by tag. Not a hash map, which would rehash all tags at once when it grows.
    pub consumers: BTreeMap<Arc<[u8]>, u64>,
    /// The channel's counters.
    pub stats: Stats,
}

impl Channel {
    /// A channel that only waits for `channel.close-ok`.
    pub(crate) fn closing() -> Self {
        Self { closing: true, ..Self::default() }
    }

    /// Counts messages that were published on this channel to an exchange.
    pub(crate) fn count_publishes(&mut self, exchange: &[u8], count: u64, counters: &LocalCounters, now: Nanos) {
        if !self.has_published() {
            counters.publishers_opened.increment();
        }
        self.stats.published_to(exchange, count, self.confirms.is_some(), now);
    }

    /// Whether anything was ever published on it: such a channel counts as a publisher.
    pub(crate) fn has_published(&self) -> bool {
        self.stats.total(Stat::Publish) > 0
    }

    /// Counts acknowledged deliveries of the source with this index.
    pub(crate) fn count_acked(&mut self, source: u32, count: u64, now: Nanos) {
        self.stats.count_of_queue(self.unsettled.source(source).queue.info(), Stat::Ack, count, now);
    }

    /// Sets the prefetch that its consumers of classic queues share; 0 ends it. Deliveries that they have count.
    pub(super) fn share_prefetch(&mut self, limit: u16) {
        let in_transaction = self.tx.iter_mut().flat_map(|tx| tx.deliveries_mut());
        if let Some(parked) = self.unsettled.share_prefetch(limit, in_transaction) {
            self.parked.keys.extend(parked.keys);
        }
    }

    /// Takes a delivery, or all up to it, into the open transaction. False if there is no such delivery, or no transaction.
    pub(super) fn settle_in_transaction(&mut self, tag: u64, multiple: bool, settlement: Settlement) -> bool {
        let Some(tx) = &mut self.tx else { return false };
        let taken = self.unsettled.take_into_transaction(tag, multiple);
        let is_there = taken.is_some();
        if let Some(deliveries) = taken {
            tx.settle(settlement, deliveries);
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::Session;
    use super::*;

    /// Allocators round up to sizes such as 768, 896, 1,024 and 1,536, 1,792, 2,048.
    #[test]
    fn an_idle_connection_and_its_channel_stay_small() {
        assert!(size_of::<Channel>() <= 768, "a channel has {} bytes", size_of::<Channel>());
        assert!(size_of::<Session>() <= 1792, "a connection has {} bytes", size_of::<Session>());
    }
}
