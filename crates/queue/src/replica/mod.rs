//! A replica of a queue: what the records of its log make of it, applied one by one.
//!
//! A start replays a queue's log into a replica and [opens](crate::Queue::new) a machine with it. A checkpoint is the short form of a
//! replica, a conversion gives the replica of one machine to another one, and a member of a cluster that doesn't lead a queue has a
//! replica and no machine. A replica decides nothing: each record contains the outcome of its decision.
//!
//! [`Parts`] is the one list of what a queue keeps beside its live messages, and [`Control`] that of the records that only
//! one of the parts knows.

mod apply;
mod control;
mod kept;
mod parts;
mod record;
mod state;
mod whole;

pub use control::{Control, ControlError};
pub use kept::KeptError;
pub(crate) use kept::{QuorumState, encode, encode_stream, with_repeats};
pub use parts::Parts;
pub use record::{QueueRecord, ReplicaError};
pub use state::{Checkpoint, Replica};
