//! The network between nodes, for worlds with brokers ([`crate::worlds`]) and for placements ([`crate::cluster`]): what may go wrong on
//! the way, and links that carry bytes.

mod faults;
mod link;
mod links;

pub use faults::LinkFaults;
pub use links::{LinkId, Links};

/// The number of a node, as a network sees it.
pub type NodeNumber = u64;
