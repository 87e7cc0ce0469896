//! The answers to calls on a queue, whatever its type.

use std::ops::RangeInclusive;
use std::sync::Arc;

use leveret_message::Batch;

use crate::effects::Taken;

/// Whether a queue works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueState {
    /// It works normally.
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
    /// Number of accepted messages, counted from the first one; the length limit refused the rest.
    pub accepted: u32,
}

/// The outcome of rejected deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// There is no dead-letter exchange: nothing has happened, and the caller has to settle them as dropped.
    NoDeadLetters,
    /// They wait to be moved to the dead-letter exchange.
    Dying,
    /// The queue failed: they can't be moved before a restart, and stay in the log until then.
    Kept,
}

/// The reason why a queue can't get another type or other arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotConverted {
    /// It is being deleted, or was converted.
    Gone,
    /// It has failed, for this reason.
    Failed(String),
    /// Messages are being moved to other queues, which ends soon.
    Busy,
    /// So many dead letters wait until queues take them.
    DeadLetters(u64),
    /// It has so many parked messages, and the other queue would have none.
    Parked(u64),
    /// It has so many delayed messages, and the other queue delays none.
    Delayed(u64),
    /// So many messages have a priority, and the other queue delivers in the order of arrival.
    Priorities(u64),
    /// It is a stream, or would be one.
    Stream,
}

/// The reason why a queue refuses a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoConsumer {
    /// An exclusive consumer exists, or the new one asked to be exclusive and others exist.
    Exclusive,
    /// The queue is being deleted.
    Gone,
    /// The queue was converted to another one, which may have it.
    Converted,
    /// The queue has stopped for this reason.
    Failed(String),
    /// The stream keeps offsets of as many names as it may.
    TooManyNames,
    /// Its group is one of another partition.
    OtherPartition,
}

/// How a turn of a consumer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    /// It stays scheduled and should take again.
    More,
    /// It is signalled once messages are ready for it.
    Done,
}

/// The result of a get.
#[derive(Debug, Default)]
pub enum GetOutcome {
    /// One message, and the number of messages that remain ready.
    Message(Taken, u64),
    /// Nothing is ready.
    #[default]
    Empty,
    /// The message is being read from disk; [`crate::Signal::Loaded`] tells when to ask again.
    Wait,
    /// The queue was converted to another one, which has its messages: ask that.
    Converted,
    /// The queue has stopped for this reason.
    Failed(String),
}

/// Messages of a queue that are neither ready nor with a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetAside {
    /// Messages at their delivery limit.
    Parked,
    /// Messages that wait for a time.
    Delayed,
}

/// A parked message that is being moved.
#[derive(Debug, Clone)]
pub struct ParkedMessage {
    /// Its number.
    pub number: u64,
    /// A batch that has it, with all its annotations.
    pub batch: Arc<Batch>,
    /// Its index there.
    pub index: u32,
}

/// Messages that a move or a copy may take.
#[derive(Debug, Clone)]
pub struct Candidates<'a> {
    /// Messages that were read from disk for it: consecutive ones with the number of the first.
    pub read: &'a [(u64, Arc<Batch>)],
    /// Their numbers are among these.
    pub range: RangeInclusive<u64>,
    /// Most messages that it takes.
    pub most: usize,
}

/// Ready messages that were looked for by their numbers.
#[derive(Debug, Clone, Default)]
pub struct ReadyFound {
    /// One by one, in the order of their numbers, with all their annotations.
    pub messages: Vec<Taken>,
    /// The number from which on nothing was looked at; `None` at the end of the range.
    pub next: Option<u64>,
    /// The message there has to be read from disk first.
    pub unread: Option<u64>,
}

/// A message in a queue, as it would be delivered.
#[derive(Debug, Clone)]
pub struct Peeked {
    /// Its number.
    pub number: u64,
    /// It was, or may have been, delivered before.
    pub redelivered: bool,
    /// The batch that holds it, and its index there; `None` while it, or its body, is only on disk.
    pub held: Option<(Arc<Batch>, u32)>,
    /// When it is ready, in milliseconds since the Unix epoch, if it is delayed.
    pub due_ms: Option<u64>,
    /// The token by which it can be fetched before that, if it has one.
    pub token: Option<Box<str>>,
}

/// Conditions for deleting a queue. All conditions that are set have to hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteIf {
    /// It has no consumers.
    pub unused: bool,
    /// It has no messages that are ready or on their way to disk: their publishers are told that the queue has them.
    pub empty: bool,
    /// It has been unused for the time of its `x-expires`.
    pub expired: bool,
}

/// The reason why a queue wasn't deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotDeleted {
    /// It has consumers.
    InUse,
    /// It has messages.
    NotEmpty,
    /// It has been used in the meantime.
    Used,
}

impl DeleteIf {
    /// Whether any condition is set.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}
