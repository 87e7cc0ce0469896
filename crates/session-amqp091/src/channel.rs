//! A channel: its consumers, its deliveries, and the answers that it owes.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use leveret_metrics::LocalCounters;
use leveret_queue::PublishSlot;

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
    closing: bool,
    incoming: Incoming,
    confirms: Option<Confirms>,
    /// The rate at which it publishes.
    own_rate: OwnRate,
    /// The channel is in the session's list of channels with confirms to come.
    is_confirming: bool,
    /// Publishes and settlements that wait for `tx.commit`; none before `tx.select`. In a box, since few channels have one.
    tx: Option<Box<Tx>>,
    /// The prefetch of consumers that are begun later.
    prefetch: u16,
    last_queue: Option<Arc<str>>,
    /// The channel's consumer of direct reply-to.
    reply: Option<ReplyConsumer>,
    /// Deliveries that the client hasn't settled.
    unsettled: Unsettled,
    /// Consumers that wait because too many deliveries are unsettled.
    parked: Parked,
    /// Keys of the consumers by tag. Not a hash map, which would rehash all tags at once when it grows.
    consumers: BTreeMap<Arc<[u8]>, u64>,
    /// The channel's counters.
    stats: Stats,
}

impl Channel {
    /// A channel that only waits for `channel.close-ok`.
    pub(crate) fn closing() -> Self {
        Self { closing: true, ..Self::default() }
    }

    /// Whether we sent `channel.close`: everything is ignored until its answer.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// The message that is coming in.
    #[inline]
    pub(crate) fn incoming(&self) -> &Incoming {
        &self.incoming
    }

    #[inline]
    pub(crate) fn incoming_mut(&mut self) -> &mut Incoming {
        &mut self.incoming
    }

    /// Its confirms, if it has any.
    pub(crate) fn confirms(&self) -> Option<&Confirms> {
        self.confirms.as_ref()
    }

    #[inline]
    pub(crate) fn confirms_mut(&mut self) -> Option<&mut Confirms> {
        self.confirms.as_mut()
    }

    /// `confirm.select`; a second one changes nothing.
    pub(crate) fn select_confirms(&mut self) {
        self.confirms.get_or_insert_with(Confirms::default);
    }

    /// Confirms are to come. Returns whether the session's list doesn't have the channel yet.
    pub(crate) fn begin_confirming(&mut self) -> bool {
        !std::mem::replace(&mut self.is_confirming, true)
    }

    /// Its confirms, if some are to come.
    pub(crate) fn confirming(&mut self) -> Option<&mut Confirms> {
        self.confirms.as_mut().filter(|_| self.is_confirming)
    }

    /// Counts confirms that were sent. Returns whether more are to come.
    pub(crate) fn confirmed(&mut self, count: u64, is_more: bool, now: Nanos) -> bool {
        self.stats.confirmed(count, now);
        self.is_confirming = is_more;
        is_more
    }

    /// Its queues gave it a slot for this many messages.
    pub(crate) fn paced(&mut self, slot: PublishSlot, queues: usize, messages: u32, now: Nanos) -> PublishSlot {
        self.own_rate.slot(slot, queues, messages, now)
    }

    /// Its open transaction, if it has transactions.
    pub(super) fn tx(&self) -> Option<&Tx> {
        self.tx.as_deref()
    }

    pub(super) fn tx_mut(&mut self) -> Option<&mut Tx> {
        self.tx.as_deref_mut()
    }

    /// `tx.select`. False if it has transactions already.
    pub(super) fn select_tx(&mut self) -> bool {
        let is_first = self.tx.is_none();
        self.tx.get_or_insert_default();
        is_first
    }

    /// Its transactions end.
    pub(super) fn take_tx(&mut self) -> Option<Box<Tx>> {
        self.tx.take()
    }

    /// The prefetch of consumers that are begun later.
    pub(crate) fn prefetch(&self) -> u16 {
        self.prefetch
    }

    pub(crate) fn set_prefetch(&mut self, prefetch: u16) {
        self.prefetch = prefetch;
    }

    /// The queue that was declared last.
    pub(crate) fn last_queue(&self) -> Option<&Arc<str>> {
        self.last_queue.as_ref()
    }

    pub(crate) fn declared(&mut self, queue: Arc<str>) {
        self.last_queue = Some(queue);
    }

    /// Its consumer of direct reply-to.
    pub(crate) fn reply(&self) -> Option<&ReplyConsumer> {
        self.reply.as_ref()
    }

    pub(crate) fn set_reply(&mut self, reply: ReplyConsumer) {
        self.reply = Some(reply);
    }

    /// Takes its consumer of direct reply-to, if that has this tag.
    pub(crate) fn take_reply_of(&mut self, tag: &[u8]) -> Option<ReplyConsumer> {
        self.reply.take_if(|reply| *reply.tag == *tag)
    }

    pub(crate) fn take_reply(&mut self) -> Option<ReplyConsumer> {
        self.reply.take()
    }

    /// Deliveries that the client hasn't settled.
    #[inline]
    pub(crate) fn unsettled(&self) -> &Unsettled {
        &self.unsettled
    }

    #[inline]
    pub(crate) fn unsettled_mut(&mut self) -> &mut Unsettled {
        &mut self.unsettled
    }

    /// Number of messages that a consumer may get out of `most`, and where it waits if that is none. Consumers of queues that
    /// are limited share a prefetch, if there is one.
    #[inline]
    pub(super) fn room_for(&mut self, most: u32, is_limited: impl FnOnce() -> bool) -> (u32, &mut Parked) {
        match self.unsettled.shared_mut().filter(|_| most > 0 && is_limited()) {
            Some(shared) => (most.min(shared.room()), shared.parked_mut()),
            None => (most, &mut self.parked),
        }
    }

    /// The consumers that wait, with the room that they wait for. Of their own, that is `room`.
    pub(super) fn waiting(&mut self, room: u32) -> impl Iterator<Item = (u32, &mut Parked)> {
        let shared = self.unsettled.shared_mut().map(|shared| (shared.room(), shared.parked_mut()));
        [(room, &mut self.parked)].into_iter().chain(shared)
    }

    /// The key of the consumer with this tag.
    pub(crate) fn consumer(&self, tag: &[u8]) -> Option<u64> {
        self.consumers.get(tag).copied()
    }

    /// Whether a consumer has this tag, that of direct reply-to included.
    pub(crate) fn has_tag(&self, tag: &[u8]) -> bool {
        self.reply.as_ref().is_some_and(|reply| *reply.tag == *tag) || self.consumers.contains_key(tag)
    }

    pub(crate) fn add_consumer(&mut self, tag: Arc<[u8]>, key: u64) {
        self.consumers.insert(tag, key);
    }

    pub(crate) fn remove_consumer(&mut self, tag: &[u8]) {
        self.consumers.remove(tag);
    }

    /// Number of its consumers, but for that of direct reply-to.
    pub(crate) fn consumers(&self) -> usize {
        self.consumers.len()
    }

    /// Takes the tags and keys of all its consumers.
    pub(crate) fn take_consumers(&mut self) -> btree_map::IntoIter<Arc<[u8]>, u64> {
        std::mem::take(&mut self.consumers).into_iter()
    }

    /// Its counters.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    #[inline]
    pub(crate) fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
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
            self.parked.append(parked);
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
