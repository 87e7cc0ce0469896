//! `basic.ack`, `nack`, `reject`, `recover`: deliveries that are settled or go back.

use leveret_amqp091::{Method, encode_method, method::basic};
use leveret_log::Wait;
use leveret_queue::{Outcome, Run};

use super::channel::{ByQueue, OfQueue, Settled};
use super::error::{Result, not_implemented, precondition};
use super::session::Session;
use crate::stats::Stat;
use crate::time::Now;
use crate::transaction::Settlement;

/// What becomes of deliveries that aren't acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GiveBack {
    /// They leave their queues.
    Drop,
    /// They go back to their place.
    Requeue,
    /// So do they, and AMQP 1.0's delivery-count tells of one more that failed. RabbitMQ 4.3 counts
    /// `basic.reject` and the end of a channel so, `basic.nack` and `basic.recover` not.
    RequeueFailed,
}

impl Session {
    /// `basic.ack`: collected until the read's frames are used up.
    pub(crate) fn ack(&mut self, channel: u16, ack: &basic::Ack, now: Now) -> Result<()> {
        if self.transactions > 0
            && self.tx_settle(channel, (ack.delivery_tag, ack.multiple), Settlement::Acknowledge)?
        {
            return Ok(());
        }
        let entry = self.channel(channel)?;
        let Some(settled) = entry.settle(ack.delivery_tag, ack.multiple) else {
            return Err(unknown_tag(ack.delivery_tag));
        };
        let count = |settled: &Settled| settled.runs.iter().map(Run::count).sum::<u64>();
        let acked = settled.iter().map(count).sum();
        entry.stats.count(Stat::Ack, acked, now.monotonic);
        self.counters.acked.add(acked);
        for Settled { source, runs } in settled {
            let source = &self.channels[&channel].sources[source as usize];
            self.acks.add(source, runs);
        }
        self.settled_some(channel, now);
        Ok(())
    }

    /// Hands collected acknowledgements to their queues.
    pub(crate) fn flush_acks(&mut self, now: Now) {
        if self.acks.is_empty() {
            return;
        }
        for OfQueue { queue, settled, .. } in self.acks.take() {
            match &settled[..] {
                [(consumer, runs)] => {
                    queue.settle(*consumer, runs, Outcome::Settled, Wait::Lazy, now.monotonic);
                }
                _ => queue.acknowledge(&settled, now.monotonic),
            }
        }
    }

    /// `basic.nack`.
    pub(crate) fn nack(&mut self, channel: u16, nack: &basic::Nack, now: Now) -> Result<()> {
        let what = if nack.requeue { GiveBack::Requeue } else { GiveBack::Drop };
        self.not_acknowledged(channel, nack.delivery_tag, nack.multiple, what, now)
    }

    /// `basic.reject`.
    pub(crate) fn reject(&mut self, channel: u16, reject: &basic::Reject, now: Now) -> Result<()> {
        let what = if reject.requeue { GiveBack::RequeueFailed } else { GiveBack::Drop };
        self.not_acknowledged(channel, reject.delivery_tag, false, what, now)
    }

    fn not_acknowledged(&mut self, channel: u16, tag: u64, multiple: bool, what: GiveBack, now: Now) -> Result<()> {
        let settlement = match what {
            GiveBack::Drop => Settlement::Reject,
            GiveBack::Requeue => Settlement::Requeue { failed: false },
            GiveBack::RequeueFailed => Settlement::Requeue { failed: true },
        };
        if self.transactions > 0 && self.tx_settle(channel, (tag, multiple), settlement)? {
            return Ok(());
        }
        let Some(settled) = self.channel(channel)?.settle(tag, multiple) else { return Err(unknown_tag(tag)) };
        self.give_back(channel, settled, what, now);
        self.settled_some(channel, now);
        Ok(())
    }

    /// `basic.recover` and `basic.recover-async`: everything unacknowledged of the channel goes back.
    pub(crate) fn recover(&mut self, channel: u16, requeue: bool, answer: bool, now: Now) -> Result<()> {
        let settled = self.channel(channel)?;
        if !requeue {
            return Err(not_implemented("requeue=false"));
        }
        let settled = settled.settle_all();
        self.give_back(channel, settled, GiveBack::Requeue, now);
        self.settled_some(channel, now);
        if answer {
            encode_method(self.out(channel), channel, &Method::BasicRecoverOk(basic::RecoverOk {}));
        }
        Ok(())
    }

    /// Returns deliveries to their queues, or drops them for good.
    pub(crate) fn give_back(&mut self, channel: u16, settled: Vec<Settled>, what: GiveBack, now: Now) {
        let Some(entry) = self.channels.get(&channel) else { return };
        let mut by_queue = ByQueue::default();
        for Settled { source, runs } in settled {
            let source = &entry.sources[source as usize];
            match what {
                GiveBack::Drop => {
                    source.queue.settle(source.consumer, &runs, Outcome::Dropped, Wait::Lazy, now.monotonic);
                }
                GiveBack::Requeue | GiveBack::RequeueFailed => by_queue.add(source, runs),
            }
        }
        for OfQueue { queue, settled, .. } in by_queue.take() {
            queue.leave(&[], &settled, what == GiveBack::RequeueFailed, now.monotonic);
        }
    }
}

pub(super) fn unknown_tag(tag: u64) -> super::error::ProtocolError {
    precondition(format!("unknown delivery tag {tag}"))
}
