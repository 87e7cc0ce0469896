//! `basic.ack`, `nack`, `reject`, `recover`: deliveries that are settled or go back.

use leveret_amqp091::method::basic;
use leveret_log::Wait;
use leveret_queue::{Outcome, Run};

use super::channel::{ByQueue, Channel, OfQueue, Settled};
use super::error::{Result, no_channel, not_implemented, precondition};
use super::session::Session;
use super::unfinished::{Settling, Unfinished, Verdict};
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
        self.settle(channel, (ack.delivery_tag, ack.multiple), Verdict::Acknowledge, now)
    }

    /// Settles one delivery, or all up to it; of many, what this turn may.
    fn settle(&mut self, channel: u16, (tag, multiple): (u64, bool), verdict: Verdict, now: Now) -> Result<()> {
        let entry = self.channels.get_mut(&channel).ok_or_else(|| no_channel(channel))?;
        let (settled, up_to) = match entry.settle(tag, multiple, &mut self.client.budget) {
            Some(found) => found,
            None => return Err(unknown_tag(tag)),
        };
        self.settled(channel, settled, verdict, now);
        if let Some(up_to) = up_to {
            self.unfinished.push_back(Unfinished::Settling(Settling { channel, up_to, verdict, recover_ok: false }));
        }
        Ok(())
    }

    /// Deliveries that were taken out of a channel are acknowledged with the read's other ones, or go back.
    pub(super) fn settled(&mut self, channel: u16, settled: Vec<Settled>, verdict: Verdict, now: Now) {
        let Some(entry) = self.channels.get_mut(&channel) else { return };
        match verdict {
            Verdict::Acknowledge => {
                let count = |settled: &Settled| settled.runs.iter().map(Run::count).sum::<u64>();
                let acked = settled.iter().map(count).sum();
                entry.stats.count(Stat::Ack, acked, now.monotonic);
                self.client.counters.acked.add(acked);
                for Settled { source, runs } in settled {
                    self.acks.add(entry.source(source), runs);
                }
            }
            Verdict::GiveBack(what) => give_back(entry, settled, what, now),
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
        self.settle(channel, (tag, multiple), Verdict::GiveBack(what), now)
    }

    /// `basic.recover` and `basic.recover-async`: everything unacknowledged of the channel goes back.
    pub(crate) fn recover(&mut self, channel: u16, requeue: bool, answer: bool, now: Now) -> Result<()> {
        self.channel(channel)?;
        if !requeue {
            return Err(not_implemented("requeue=false"));
        }
        let verdict = Verdict::GiveBack(GiveBack::Requeue);
        let settling = Settling { channel, up_to: u64::MAX, verdict, recover_ok: answer };
        self.begin_work(Unfinished::Settling(settling), now);
        Ok(())
    }
}

/// Returns deliveries to their queues, or drops them for good.
fn give_back(channel: &Channel, settled: Vec<Settled>, what: GiveBack, now: Now) {
    let mut by_queue = ByQueue::default();
    for Settled { source, runs } in settled {
        let source = channel.source(source);
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

pub(super) fn unknown_tag(tag: u64) -> super::error::ProtocolError {
    precondition(format!("unknown delivery tag {tag}"))
}
