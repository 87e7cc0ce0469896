//! Queue state machines: what is in a queue, and who gets it next.
//!
//! A queue is two machines. The [`ledger`] knows which numbers are live and is rebuilt from the log;
//! the dispatcher ([`consumer`]) knows consumers, credit and what was handed out, and starts empty
//! after a restart. [`classic::ClassicQueue`] puts them together with [`contents`], the part of the
//! messages that is in memory.
//!
//! Every durable change has two phases: submit validates and reserves numbers, apply happens once the
//! record is durable, and only then come [`effects::Effects`]: who is to be woken, what the log is to
//! be told, what is to be read. The caller fires them after it released the queue's lock.
//!
//! This crate must not know the log, sessions, sockets, threads or a clock: time is a parameter.
#![forbid(unsafe_code)]

mod browse;
pub mod classic;
mod close;
pub mod consumer;
mod consumer_id;
mod consumers;
pub mod contents;
mod counts;
mod credit;
pub mod dead_letter;
mod dispatch;
pub mod effects;
mod expire;
pub mod expiry;
mod failures;
mod gauges;
mod get;
pub mod group;
mod held;
mod kept;
pub mod ledger;
mod limits;
mod loading;
mod number_set;
mod order;
mod overflow;
mod peek;
pub mod planted;
mod settle;
pub mod shared;
pub mod status;
pub mod wait;

pub use classic::{ClassicQueue, QueueState, Submission, TurnEnd};
pub use close::{DeleteIf, NotDeleted};
pub use consumer::{ConsumerFlow, ConsumerMode, ConsumerOptions, CreditState};
pub use consumer_id::ConsumerId;
pub use contents::MemoryBudget;
pub use counts::{Count, QueueCounts, QueueRates};
pub use dead_letter::{DeadRun, DeadTurn};
pub use effects::{Effects, Ended, Link, Run, Signal, Taken, push_run};
pub use expiry::{Expiry, ExpiryStateError};
pub use gauges::{QueueGauges, Waits};
pub use get::GetOutcome;
pub use group::GroupPosition;
pub use kept::{Kept, KeptError};
pub use ledger::{Conservation, Ledger, Outcome};
pub use peek::Peeked;
pub use shared::{References, SharedCounts};
pub use status::{ConsumerStatus, QueueStatus};
pub use wait::{QueueWait, WaitReason};

/// Monotonic nanoseconds, as the caller counts them.
pub type Nanos = u64;
/// Position in the commit stream; 0 is before everything.
pub type Position = u64;
