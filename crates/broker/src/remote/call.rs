//! Calls on a queue of another node, as plain data.

use std::sync::Arc;

use leveret_message::chunk::SharedChunk;
use leveret_message::{Added, Batch};
use leveret_model::{DeleteQueue, Permit, PlacementNumber, QueueId, Refused};
use leveret_queue::{
    ConsumerId, ConsumerOptions, CreditState, DeleteIf, GetOutcome, KeptOffset, NoConsumer, PublishingIds, QueueState,
    Run, SetAside, StreamFilter, StreamStart, Unsent,
};

use crate::publish_origin::PublishOrigin;
use crate::questions::StreamEnd;
use crate::replicas::HeldOfMember;
use crate::settlement::Settlement;

/// Messages that a consumer held; those of gets have none.
pub type HeldBy = (Option<ConsumerId>, Vec<Run>);
/// Messages that consumers held, by consumer.
pub type HeldRuns = Vec<HeldBy>;

/// A call.
pub struct LaneCall {
    /// The queue.
    pub queue: QueueId,
    /// Its number, if its outcome is waited for: the home says up to which number it has carried out all.
    pub number: Option<u64>,
    /// The call.
    pub what: CallKind,
}

/// The calls that a queue of another node takes, see [`crate::queue_handle::QueueRef`].
pub enum CallKind {
    /// Messages, which the home takes or refuses.
    Publish {
        /// They are in this batch.
        batch: Arc<Batch>,
        /// Index of the first.
        index: u32,
        /// Their number.
        count: u32,
        /// Whether they are persistent.
        persistent: bool,
        /// The group that they are part of.
        group: Option<u64>,
        /// The writer that sends them to a replicated queue.
        origin: Option<PublishOrigin>,
    },
    /// A chunk, which the home takes as a whole or not at all.
    PublishChunk {
        /// The chunk.
        chunk: Arc<SharedChunk>,
        /// The name of its publisher, and the numbers of its entries, if it has one.
        numbered: Option<(Arc<str>, PublishingIds)>,
    },
    /// A consumer's decision.
    Settle {
        /// The consumer that had them.
        consumer: Option<ConsumerId>,
        /// The messages.
        runs: Vec<Run>,
        /// The decision.
        how: Settlement,
        /// The group that it is part of.
        group: Option<u64>,
    },
    /// Acknowledgements of several consumers.
    Acknowledge(HeldRuns),
    /// Messages return with annotations.
    Modify {
        /// The consumer that had them.
        consumer: Option<ConsumerId>,
        /// The messages.
        runs: Vec<Run>,
        /// Whether their deliveries count as failed.
        failed: bool,
        /// The annotations.
        added: Arc<Added>,
    },
    /// Messages are taken back from a consumer that is overdue.
    TakeBack {
        /// The consumer.
        id: ConsumerId,
        /// The messages.
        runs: Vec<Run>,
        /// See [`crate::queue_handle::QueueRef::take_back`].
        unsent: Option<Unsent>,
    },
    /// A consumer is overdue, or is no longer.
    Overdue {
        /// The consumer.
        id: ConsumerId,
        /// Whether it is.
        overdue: bool,
    },
    /// Deferred messages are claimed.
    Claim {
        /// The consumer.
        id: ConsumerId,
        /// Their tokens.
        tokens: Vec<Box<str>>,
    },
    /// Messages that a consumer holds get annotations.
    Annotate {
        /// The messages.
        runs: Vec<Run>,
        /// The annotations.
        added: Arc<Added>,
    },
    /// A consumer's inbox has room again.
    Window {
        /// The consumer.
        id: ConsumerId,
        /// For so many messages,
        messages: u32,
        /// of so many bytes.
        bytes: u64,
    },
    /// The client of a member of a group of readers answered that it is active, or not any more.
    Activity {
        /// The consumer.
        id: ConsumerId,
        /// Whether it is active.
        active: bool,
        /// Its first message, if the client said so.
        start: Option<StreamStart>,
    },
    /// All of a group has been said.
    Commit(u64),
    /// A question, and the number of its answer.
    Ask(u64, HomeQuestion),
}

/// A call that is answered.
pub enum HomeQuestion {
    /// A consumer is added.
    Consume {
        /// The consumer.
        id: ConsumerId,
        /// Its options.
        options: Box<ConsumerOptions>,
        /// The messages that it holds, of those that it got here earlier or that were [taken over](Self::Hold) for it.
        held: Vec<Run>,
        /// The registration number that it has from an earlier leader.
        registered: Option<u64>,
        /// The leader's term, if the queue is replicated: an earlier or a later leadership of the same node refuses it.
        term: Option<u64>,
    },
    /// It is removed; these messages had come for it and were never sent.
    Cancel(ConsumerId, Vec<Run>),
    /// Consumers leave, with what they held.
    Leave {
        /// The consumers.
        consumers: Vec<ConsumerId>,
        /// Their messages.
        held: HeldRuns,
        /// Whether these deliveries count as failed.
        failed: bool,
    },
    /// Link credit.
    Grant {
        /// The consumer.
        id: ConsumerId,
        /// The receiver's delivery-count.
        delivery_count: u32,
        /// Its credit from there on.
        link_credit: u32,
        /// Whether unused credit is given up.
        drain: bool,
    },
    /// One message.
    Get {
        /// Whether it counts as settled.
        automatic_ack: bool,
    },
    /// All ready messages go.
    Purge,
    /// Messages that were set aside go.
    DropSetAside {
        /// How they were set aside.
        which: SetAside,
        /// The first number.
        first: u64,
        /// The last number.
        last: u64,
    },
    /// Its ready messages and consumers; with true, a client declared it again.
    Size(bool),
    /// Whether it runs.
    RunState,
    /// An offset is kept for a name.
    KeepOffset(KeptOffset),
    /// The offset that is kept for this name.
    KeptOffset(Arc<str>),
    /// The number of the last message that was published by this name, once it is durable.
    Sequence(Arc<str>),
    /// The offset at which a reader would begin.
    Search {
        /// Where it is to begin.
        start: StreamStart,
        /// The messages that are looked for, if not all are.
        filter: Option<Arc<StreamFilter>>,
    },
    /// The ends of a stream.
    StreamEnds,
    /// The member of this group whose turn it is becomes active.
    ActivateGroup(Arc<str>),
    /// The queue is deleted.
    Delete(Box<Deletion>),
    /// A consumer that is about to be added or has left, or those who get messages one by one, held these when the queue's leader changed.
    Hold {
        /// The consumer that had them.
        consumer: Option<ConsumerId>,
        /// The messages.
        runs: Vec<Run>,
        /// The leader's term.
        term: u64,
    },
    /// A rejection. It is answered by itself, once the messages have been dead-lettered: that may take as long as the target is full, and
    /// calls behind it go on.
    Reject {
        /// The consumer that had them.
        consumer: Option<ConsumerId>,
        /// The messages.
        runs: Vec<Run>,
        /// Whether their deliveries count as failed.
        failed: bool,
    },
    /// Whether everything that was said of the queue to the leader of this term is committed, once it is. It may wait to be written.
    Committed(u64),
    /// The asker is about to lead a placement in this term: what do clients hold of its queues? They get nothing more of its earlier leader.
    Held(PlacementNumber, u64),
    /// Whether a client of the asked node has this consumer of a replicated queue, which the asker leads.
    HasConsumer(QueueId, ConsumerId),
}

/// A deletion, whose condition the queue's home judges.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// The proof that it is allowed, with the name of the asker.
    pub permit: Permit,
    /// The queue.
    pub command: DeleteQueue,
    /// The condition.
    pub condition: DeleteIf,
}

/// The answer to a [`HomeQuestion`].
pub enum HomeAnswer {
    /// To [`HomeQuestion::Consume`], with the consumer's registration number; 0 if it has none.
    Consumed(Result<u64, NoConsumer>),
    /// To [`HomeQuestion::Cancel`] and [`HomeQuestion::Leave`]: the consumers that are left.
    Left(Option<usize>),
    /// To [`HomeQuestion::Grant`].
    Granted(Option<CreditState>),
    /// To [`HomeQuestion::Get`].
    Got(GetOutcome),
    /// To [`HomeQuestion::Purge`] and [`HomeQuestion::DropSetAside`], once that is durable.
    Removed(u64),
    /// To [`HomeQuestion::Size`].
    Size(u64, usize),
    /// To [`HomeQuestion::RunState`].
    RunState(QueueState),
    /// To [`HomeQuestion::KeepOffset`] and [`HomeQuestion::ActivateGroup`]: whether it could be done; to [`HomeQuestion::Committed`] and
    /// [`HomeQuestion::HasConsumer`].
    Carried(bool),
    /// To [`HomeQuestion::KeptOffset`], [`HomeQuestion::Sequence`] and [`HomeQuestion::Search`].
    Found(Option<u64>),
    /// To [`HomeQuestion::StreamEnds`].
    StreamEnds(Option<StreamEnd>),
    /// To [`HomeQuestion::Delete`]: the number of messages that were deleted with it, `None` if it wasn't there any more, or why it stays.
    Deleted(Result<Option<u64>, Refused>),
    /// To [`HomeQuestion::Held`].
    Held(HeldOfMember),
    /// To [`HomeQuestion::Hold`]: those of the messages that are kept for it. The others are in the queue, or were given to somebody else.
    TakenOver(Vec<Run>),
    /// To any: another node leads the replicated queue, or none does.
    Moved,
}
