//! Replicated queues: queues whose records are committed by several nodes of a cluster, a placement.
//!
//! Every member of a placement has a *replica* of each of its queues ([`crate::replicas`]). The member that leads has a machine beside it,
//! which clients use ([`queue`]). What the machine appends is a proposal ([`crate::replicas`]); once it is committed, each member appends it to its
//! store and to the replica, and the leader's machine applies it. So nothing is ever undone in a machine: when the leadership is lost it is
//! dropped, and the next leader opens one from its replica. Publishes are kept by the node of their client until they are committed
//! ([`writer`]).
//!
//! It must not know: how proposals are committed, and by whom.

mod consuming;
mod placement;
mod placements;
mod queue;
mod settling;
mod writer;

pub use self::placement::{Leading, PlacementHere};
pub use self::placements::Placements;
pub(crate) use self::queue::PlacedQueue;
