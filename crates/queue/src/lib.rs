//! Queue state machines: the messages of a queue, and the dispatch to its consumers.
//!
//! A [`Queue`] is one of a few machines, depending on its type. A machine begins with a [`Replica`], which the records of its log
//! build: the [`Ledger`] knows which numbers are live, and the other [`Parts`] know more of these. The dispatcher (`dispatch`) knows
//! consumers, credit and handed-out messages, and starts empty after a restart. `ledger_queue` combines them with `contents`, the
//! messages that are in memory.
//!
//! Every durable change has two phases: submit validates and reserves numbers, apply happens once the record is durable. Only
//! apply causes [`Effects`]: connections to be signalled, records to be logged, messages to be read. The caller fires them
//! after it has released the queue's lock.
//!
//! This crate must not know the log, sessions, sockets, threads or a clock: time is a parameter.
#![forbid(unsafe_code)]

mod annotations;
mod answers;
mod attempts;
mod consumer_id;
mod contents;
mod counts;
pub mod dead_letter;
mod deadlines;
mod dispatch;
mod effects;
mod epoch;
mod filters;
mod gauges;
mod held;
mod ledger;
mod ledger_queue;
mod limits;
mod nanos;
mod number_set;
mod pending;
pub mod planted;
mod priorities;
mod publishers;
mod queue;
mod reads;
mod records;
mod repeats;
mod replica;
mod set_aside;
pub mod shared;
mod status;
mod stream;
mod stream_start;
mod stream_state;
mod surroundings;
mod timing;
mod wait;

pub use annotations::Annotations;
pub use answers::{
    Candidates, DeleteIf, GetOutcome, NoConsumer, NotConverted, NotDeleted, ParkedMessage, Peeked, QueueState,
    ReadyFound, Rejection, SetAside, Submission, TurnEnd,
};
pub use attempts::Attempts;
pub use consumer_id::ConsumerId;
pub use contents::MemoryBudget;
pub use counts::{Count, QueueCounts, QueueRates};
pub use dead_letter::{DeadRun, DeadTurn, Dying};
pub use deadlines::Deadlines;
pub use dispatch::{
    Activity, ConsumerFlow, ConsumerMode, ConsumerOptions, CreditState, Deliveries, Flow, LatencyBuckets, Portion,
    Unsent,
};
pub use effects::{Effects, Ended, Link, RareEffects, Signal, Taken};
pub use epoch::Epoch;
pub use filters::{FilterFields, MessageFilter, StreamFilter};
pub use gauges::{QueueGauges, Waits};
pub use held::HeldSet;
pub use ledger::{Conservation, Departure, Ledger};
pub use ledger_queue::{Earlier, LedgerQueue};
pub use nanos::Nanos;
pub use pending::{ChunkPlacement, GroupPlace, LatestPlace, Place, Placement, Watermarks};
pub use priorities::Priorities;
pub use publishers::{PublishSlot, SmoothRate};
pub use queue::Queue;
pub use reads::{StoredRead, StreamRead};
pub use records::{
    Annotated, AttemptCounts, AttemptRun, DelayRun, DyingRun, KeptOffset, Run, joined, push_run, push_sized,
};
pub use repeats::{Offered, RecoveredIds, RecoveredRepeats, RecoveredSequences};
pub use replica::{Checkpoint, Control, ControlError, KeptError, Parts, QueueRecord, Replica, ReplicaError};
pub use set_aside::{Delayed, Parked};
pub use shared::{References, SharedCounts};
pub use status::{
    ConsumerStatus, GroupMemberStatus, GroupStatus, QueueStatus, QuorumStatus, ReaderPosition, StreamStatus,
};
pub use stream::{ChunkSubmission, ChunkTurn, OfferedChunk, Scan, StreamQueue, TakenChunk};
pub use stream_start::{GroupMember, StreamOptions, StreamStart};
pub use stream_state::{
    NAME_BYTES_MAX as TRACKING_NAME_BYTES_MAX, PublishingIds, StreamState, Stretches, Tracking, WriterRun, Writers,
};
pub use surroundings::Surroundings;
pub use timing::{Expiry, ExpiryStateError};
pub use wait::{QueueWait, WaitReason};
