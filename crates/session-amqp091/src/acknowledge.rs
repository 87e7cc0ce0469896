//! `basic.ack`, `nack`, `reject`: settling and requeueing deliveries.

use leveret_amqp091::method::basic;
use leveret_log::Wait;
use leveret_queue::{Deliveries, Run};

use super::by_queue::{ByQueue, OfQueue};
use super::channel::Channel;
use super::error::{Result, no_channel};
use super::session::Session;
use super::transacting::unknown_tag;
use super::unfinished::{Settling, Unfinished};
use super::unsettled::Settled;
use leveret_broker::settlement::Settlement;
use leveret_broker::time::Now;
use leveret_broker::traffic::counted_as;
use leveret_broker::turn_budget::TurnBudget;

impl Session {
    /// `basic.ack`: acknowledgements are collected until the read's frames are used up.
    pub(crate) fn ack(&mut self, channel: u16, ack: &basic::Ack, now: Now) -> Result<()> {
        if self.transactions.any()
            && self.tx_settle(channel, (ack.delivery_tag, ack.multiple), Settlement::Acknowledge)?
        {
            return Ok(());
        }
        self.settle(channel, (ack.delivery_tag, ack.multiple), Settlement::Acknowledge, now)
    }

    /// Settles one delivery, or all up to it. If there are many, as many as this turn allows.
    fn settle(&mut self, channel: u16, (tag, multiple): (u64, bool), settlement: Settlement, now: Now) -> Result<()> {
        let entry = self.channels.get_mut(&channel).ok_or_else(|| no_channel(channel))?;
        let (settled, up_to) = match entry.unsettled_mut().settle(tag, multiple, &mut self.client.budget) {
            Some(found) => found,
            None => return Err(unknown_tag(tag)),
        };
        self.settled(channel, settled, settlement, now);
        if let Some(up_to) = up_to {
            self.unfinished.add(Unfinished::Settling(Settling { channel, up_to, settlement, recover_ok: false }));
        }
        Ok(())
    }

    /// Acknowledges deliveries that were taken out of a channel, together with the others of this read, or requeues
    /// them.
    pub(super) fn settled(&mut self, channel: u16, settled: Vec<Settled>, settlement: Settlement, now: Now) {
        let Some(entry) = self.channels.get_mut(&channel) else { return };
        match settlement {
            Settlement::Acknowledge => {
                for Settled { source, runs } in settled {
                    let count = runs.iter().map(Run::count).sum();
                    entry.count_acked(source, count, now.monotonic);
                    let source = entry.unsettled().source(source);
                    self.client.counters.acked_of(counted_as(source.queue.info())).add(count);
                    self.acks.add(source, runs);
                }
            }
            Settlement::Reject { .. } | Settlement::Requeue { .. } => give_back(entry, settled, settlement, now),
        }
        self.settled_some(channel, now);
    }

    /// Hands collected acknowledgements to their queues.
    pub(crate) fn flush_acks(&mut self, now: Now) {
        if self.acks.is_empty() {
            return;
        }
        for OfQueue { queue, settled, .. } in self.acks.take() {
            match &settled[..] {
                [(consumer, runs)] => {
                    queue.settle(Deliveries::of(*consumer, runs), Settlement::Acknowledge, Wait::Lazy, now.monotonic);
                }
                _ => queue.acknowledge(&settled, now.monotonic),
            }
        }
    }

    /// `basic.nack`.
    pub(crate) fn nack(&mut self, channel: u16, nack: &basic::Nack, now: Now) -> Result<()> {
        let settlement =
            if nack.requeue { Settlement::Requeue { failed: false } } else { Settlement::Reject { failed: false } };
        self.not_acknowledged(channel, nack.delivery_tag, nack.multiple, settlement, now)
    }

    /// `basic.reject`.
    pub(crate) fn reject(&mut self, channel: u16, reject: &basic::Reject, now: Now) -> Result<()> {
        let settlement =
            if reject.requeue { Settlement::Requeue { failed: true } } else { Settlement::Reject { failed: true } };
        self.not_acknowledged(channel, reject.delivery_tag, false, settlement, now)
    }

    fn not_acknowledged(
        &mut self,
        channel: u16,
        tag: u64,
        multiple: bool,
        settlement: Settlement,
        now: Now,
    ) -> Result<()> {
        if self.transactions.any() && self.tx_settle(channel, (tag, multiple), settlement)? {
            return Ok(());
        }
        self.settle(channel, (tag, multiple), settlement, now)
    }

    /// Requeues the messages of contents of which nothing was sent, because their channel or the connection ends: the client didn't get
    /// them, so that their delivery hasn't failed.
    pub(super) fn requeue_unsent(&mut self, channel: Option<u16>, now: Now) {
        for (channel, tag) in self.contents.unsent(channel) {
            let Some(entry) = self.channels.get_mut(&channel) else { continue };
            if let Some((settled, _)) = entry.unsettled_mut().settle(tag, false, &mut TurnBudget::unlimited()) {
                self.settled(channel, settled, Settlement::Requeue { failed: false }, now);
            }
        }
    }
}

/// Drops deliveries for good if they are rejected, or returns them to their queues.
fn give_back(channel: &Channel, settled: Vec<Settled>, settlement: Settlement, now: Now) {
    let mut by_queue = ByQueue::default();
    for Settled { source, runs } in settled {
        let source = channel.unsettled().source(source);
        if let Settlement::Reject { failed } = settlement {
            source.queue.settle(
                Deliveries::of(source.consumer, &runs),
                Settlement::Reject { failed },
                Wait::Lazy,
                now.monotonic,
            );
        } else {
            by_queue.add(source, runs);
        }
    }
    for OfQueue { queue, settled, .. } in by_queue.take() {
        let failed = settlement == Settlement::Requeue { failed: true };
        queue.leave(&[], &settled, failed, now.monotonic);
    }
}
