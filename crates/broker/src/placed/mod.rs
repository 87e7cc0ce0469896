//! Replicated queues: queues whose records are committed by several nodes of a cluster, a placement.
//!
//! Every member of a placement has a *replica* of each of its queues: what replay builds of the records, with their bytes in the node's own
//! store ([`replicas`]). The member that leads has a machine beside it, which clients use ([`queue`]). What the machine appends is a
//! proposal ([`stream`]); once it is committed, each member appends it to its store and to the replica, and the leader's machine applies it.
//! So nothing is ever undone in a machine: when the leadership is lost it is dropped, and the next leader opens one from its replica.
//!
//! It must not know: how proposals are committed, and by whom.

mod command;
mod leaderless;
mod mark;
mod origin;
mod placement;
mod placements;
mod queue;
mod replicas;
mod store;
mod stream;
mod writer;

pub use self::mark::{AppliedMark, PlacedState};
pub(crate) use self::mark::{CONTROL_APPLIED, placement_of};
pub use self::origin::{Origin, OriginTurn};
pub(crate) use self::origin::{leaves_out_known, publishing};
pub use self::placement::{Leading, PlacementHere};
pub use self::placements::Placements;
pub(crate) use self::queue::PlacedQueue;
pub use self::replicas::{AppliedHere, PlacedReplicas};
pub use self::stream::PlacedStream;
