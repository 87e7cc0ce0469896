//! Values that are summed over all queues. They are read under the queue's lock after every call, so each has to be
//! cheap.

use crate::wait::WaitReason;

/// A queue's present sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueGauges {
    /// Ready messages.
    pub ready: u64,
    /// Their body bytes.
    pub ready_bytes: u64,
    /// Messages that are delivered and not settled.
    pub unacknowledged: u64,
    /// Their body bytes.
    pub unacknowledged_bytes: u64,
    /// Messages that wait for a time.
    pub delayed: u64,
    /// Their body bytes.
    pub delayed_bytes: u64,
    /// Bytes of messages in memory.
    pub memory: u64,
    /// Number of its messages whose bodies are in memory.
    pub in_memory: u64,
    /// Number of its messages that don't survive a restart.
    pub volatile: u64,
    /// Number of consumers.
    pub consumers: u64,
    /// Number of consumers with link credit (AMQP 1.0).
    pub links: u64,
    /// Reasons why it waits.
    pub waits: Waits,
    /// Whether it has counted anything: unused queues have no rates.
    pub counted: bool,
    /// Whether it failed.
    pub failed: bool,
}

impl QueueGauges {
    /// Ready, unacknowledged and delayed messages.
    pub fn messages(&self) -> u64 {
        self.ready + self.unacknowledged + self.delayed
    }

    /// Their body bytes.
    pub fn message_bytes(&self) -> u64 {
        self.ready_bytes + self.unacknowledged_bytes + self.delayed_bytes
    }
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

    pub(crate) fn add_if(&mut self, holds: bool, reason: WaitReason) {
        self.0 |= u32::from(holds) << reason as u32;
    }
}
