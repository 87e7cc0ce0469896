//! Replicas of the queues of placements: what replay builds of their records, with their bytes in the node's own store; and the commit
//! streams of these queues, whose records are proposals.
//!
//! It must not know: machines, clients, and how entries are committed.

mod awaited;
mod command;
mod copies;
mod difference;
mod held_reports;
mod leaderless;
mod mark;
mod placed_replicas;
mod received;
mod store;
mod stream;

pub(crate) use self::awaited::Awaiting;
pub(crate) use self::copies::{copy_of, queue_of};
pub(crate) use self::difference::AnswerPlan;
pub use self::difference::Lacking;
#[cfg(feature = "testing")]
pub use self::difference::are_same;
pub use self::held_reports::HeldOfMember;
pub(crate) use self::leaderless::LeaderlessStream;
pub use self::mark::{AppliedMark, PlacedState};
pub(crate) use self::mark::{CONTROL_APPLIED, placement_of};
pub use self::placed_replicas::{AppliedHere, PlacedReplicas};
pub(crate) use self::received::OriginTurn;
pub(crate) use self::store::PlacedStore;
pub use self::stream::PlacedStream;
pub(crate) use self::stream::StreamCalls;
