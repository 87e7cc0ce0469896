//! Queue state machines: what is in a queue, and who gets it next.
//!
//! A queue is two machines. The [`ledger`] knows which numbers are live and is rebuilt from the log;
//! the dispatcher ([`consumer`]) knows consumers, credit and what was handed out, and starts empty
//! after a restart. [`ledger_queue::ClassicQueue`] puts them together with [`contents`], the part of the
//! messages that is in memory.
//!
//! Every durable change has two phases: submit validates and reserves numbers, apply happens once the
//! record is durable, and only then come [`effects::Effects`]: who is to be woken, what the log is to
//! be told, what is to be read. The caller fires them after it released the queue's lock.
//!
//! This crate must not know the log, sessions, sockets, threads or a clock: time is a parameter.
#![forbid(unsafe_code)]

pub mod consumer;
mod consumer_id;
mod consumers;
pub mod contents;
mod counts;
pub mod dead_letter;
pub mod effects;
pub mod expiry;
mod failures;
mod gauges;
pub mod group;
mod held;
mod kept;
pub mod ledger;
pub mod ledger_queue;
mod limits;
mod number_set;
mod order;
pub mod planted;
pub mod shared;
pub mod status;
pub mod wait;

pub use consumer::{ConsumerFlow, ConsumerMode, ConsumerOptions, CreditState};
pub use consumer_id::ConsumerId;
pub use contents::MemoryBudget;
pub use counts::{Count, QueueCounts, QueueRates};
pub use dead_letter::{DeadRun, DeadTurn};
pub use effects::{Effects, Ended, Link, Run, Signal, Taken, push_run};
pub use expiry::{Expiry, ExpiryStateError};
pub use gauges::{QueueGauges, Waits};
pub use group::GroupPosition;
pub use kept::{Kept, KeptError};
pub use ledger::{Conservation, Ledger, Outcome};
pub use ledger_queue::close::{DeleteIf, NotDeleted};
pub use ledger_queue::get::GetOutcome;
pub use ledger_queue::peek::Peeked;
pub use ledger_queue::{ClassicQueue, QueueState, Submission, TurnEnd};
pub use shared::{References, SharedCounts};
pub use status::{ConsumerStatus, QueueStatus};
pub use wait::{QueueWait, WaitReason};

/// Monotonic nanoseconds, as the caller counts them.
pub type Nanos = u64;
/// Position in the commit stream; 0 is before everything.
pub type Position = u64;
