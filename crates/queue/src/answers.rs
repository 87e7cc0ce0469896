//! The answers to calls on a queue, whatever its type.

use std::sync::Arc;

use leveret_message::Batch;
use roaring::RoaringTreemap;

use crate::effects::Taken;

/// Whether a queue works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueState {
    /// As it should be.
    Running,
    /// It stopped and has to be rebuilt from its log; everything is refused with this reason.
    Failed(String),
    /// It was deleted; late calls find nothing.
    Deleted,
}

/// Phase one's decision about messages offered together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    /// Number of the first accepted message.
    pub first: u64,
    /// How many, from the first on, were accepted; the rest is refused by the length limit.
    pub accepted: u32,
}

/// The outcome of rejected deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// There is no dead-letter exchange: nothing has happened, and they are to be settled as dropped.
    NoDeadLetters,
    /// They wait to be moved to the dead-letter exchange.
    Dying,
    /// The queue failed: they can't be moved before a restart, and stay in the log until then.
    Kept,
}

/// Why a queue has no new consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoConsumer {
    /// An exclusive one is in the way, or it wanted to be alone.
    Exclusive,
    /// The queue is being deleted.
    Gone,
}

/// How a turn of a consumer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    /// It stays scheduled and should take again.
    More,
    /// It will be signalled when there is something for it.
    Done,
}

/// The result of a get.
#[derive(Debug)]
pub enum GetOutcome {
    /// One message, and how many stay ready.
    Message(Taken, u64),
    /// Nothing is ready.
    Empty,
    /// The message is being read from disk; [`crate::Signal::Loaded`] comes when to ask again.
    Wait,
}

/// A ready message, as it would be delivered.
#[derive(Debug, Clone)]
pub struct Peeked {
    /// Its number.
    pub number: u64,
    /// It was, or may have been, delivered before.
    pub redelivered: bool,
    /// The batch that holds it, and where; none while it, or its body, is on disk only.
    pub held: Option<(Arc<Batch>, u32)>,
}

/// The part of a queue's state that outlives the process.
#[derive(Debug)]
pub struct Checkpoint {
    /// The number that the next message gets at the earliest.
    pub next: u64,
    /// Live durable messages, dead letters that wait to be moved among them.
    pub live: RoaringTreemap,
    /// Their body bytes.
    pub bytes: u64,
    /// Live messages that stand in the shared log.
    pub elsewhere: RoaringTreemap,
    /// Times and references, see [`crate::Kept`].
    pub state: Vec<u8>,
}

/// Conditions for deleting a queue. All that are set have to hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteIf {
    /// It has no consumers.
    pub unused: bool,
    /// It has no messages that are ready, or on their way to the disk: their publishers are told that they are in it.
    pub empty: bool,
    /// It has been unused for the time of its `x-expires`.
    pub expired: bool,
}

/// Why a queue stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotDeleted {
    /// It has consumers.
    InUse,
    /// It has messages.
    NotEmpty,
    /// It has been used meanwhile.
    Used,
}

impl DeleteIf {
    /// Whether anything has to hold.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}
