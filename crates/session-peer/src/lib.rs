//! The sessions of a data link between two nodes of a cluster: clients' calls on queues of another node, and their outcomes.
//!
//! The node that dials has the clients: [`AskingSession`] sends the calls of one core's lane and passes on what comes back. The node that
//! accepts has the queues: [`HomeSession`] carries the calls out, as a client's session would. Frames are in [`frame`].
//!
//! It must not know: sockets, Raft, clients' protocols.
#![forbid(unsafe_code)]

mod asking;
mod calls;
#[cfg(test)]
mod examples;
mod fields;
pub mod frame;
mod home;
mod options;
mod replies;

pub use self::asking::AskingSession;
pub use self::home::HomeSession;
