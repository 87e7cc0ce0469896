//! What is summed over all queues: read under the queue's lock after every call, so each costs a few loads.

use crate::ledger_queue::{ClassicQueue, QueueState};
use crate::wait::WaitReason;

/// A queue's present sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueGauges {
    /// Ready messages.
    pub ready: u64,
    /// Their body bytes.
    pub ready_bytes: u64,
    /// Delivered, not settled.
    pub unacknowledged: u64,
    /// Their body bytes.
    pub unacknowledged_bytes: u64,
    /// Bytes of messages in memory.
    pub memory: u64,
    /// Of its messages, those whose bodies are in memory.
    pub in_memory: u64,
    /// Of its messages, those that don't survive a restart.
    pub volatile: u64,
    /// How many consumers.
    pub consumers: u64,
    /// Of these, those with link credit (AMQP 1.0).
    pub links: u64,
    /// Why it waits.
    pub waits: Waits,
    /// It has counted something: queues that nobody used have no rates.
    pub counted: bool,
    /// It stopped.
    pub failed: bool,
}

/// A set of reasons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits(u32);

impl Waits {
    /// The set with this number, as [`Waits::bits`] gave it.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// A number for the set.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether the reason is among them.
    pub fn contains(self, reason: WaitReason) -> bool {
        self.0 & 1 << reason as u32 != 0
    }

    fn add_if(&mut self, holds: bool, reason: WaitReason) {
        self.0 |= u32::from(holds) << reason as u32;
    }
}

impl ClassicQueue {
    /// See [`QueueGauges`]; a queue that is deleted has none.
    pub fn gauges(&self) -> QueueGauges {
        if self.state == QueueState::Deleted {
            return QueueGauges::default();
        }
        let messages = self.ready.messages + self.unacknowledged.messages;
        QueueGauges {
            ready: self.ready.messages,
            ready_bytes: self.ready.bytes,
            unacknowledged: self.unacknowledged.messages,
            unacknowledged_bytes: self.unacknowledged.bytes,
            memory: self.contents.bytes(),
            in_memory: self.contents.messages().min(messages),
            volatile: self.contents.volatile_messages().min(messages),
            consumers: self.consumers.len() as u64,
            links: self.consumers.links() as u64,
            waits: self.wait_reasons(),
            counted: self.counts.any(),
            failed: matches!(self.state, QueueState::Failed(_)),
        }
    }

    /// The reasons of [`ClassicQueue::status`] without their beginnings, which cost a look at every consumer. So would it
    /// to see whether all are busy of those that wait for the disk too.
    fn wait_reasons(&self) -> Waits {
        let mut waits = Waits::default();
        waits.add_if(matches!(self.state, QueueState::Failed(_)), WaitReason::Failed);
        waits.add_if(!self.pending.is_empty(), WaitReason::Sync);
        waits.add_if(self.full_since.is_some(), WaitReason::Full);
        self.held_publishers.waits().for_each(|wait| waits.add_if(true, wait.reason));
        waits.add_if(self.disk_wait.is_some(), WaitReason::Disk);
        waits.add_if(self.consumers.exclusive().is_some(), WaitReason::ExclusiveConsumer);
        let (has_ready, has_movers) = (self.ready.messages > 0, self.consumers.movers() > 0);
        waits.add_if(has_ready && !has_movers, WaitReason::NoConsumers);
        let is_busy = self.disk_wait.is_none() && !self.consumers.any_scheduled();
        waits.add_if(has_ready && has_movers && is_busy, WaitReason::ConsumersBusy);
        waits.add_if(!has_ready && self.unacknowledged.messages > 0, WaitReason::Unacknowledged);
        waits
    }
}
