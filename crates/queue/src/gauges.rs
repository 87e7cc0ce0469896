//! What is summed over all queues: read under the queue's lock after every call, so each costs a few loads.

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

    pub(crate) fn add_if(&mut self, holds: bool, reason: WaitReason) {
        self.0 |= u32::from(holds) << reason as u32;
    }
}
