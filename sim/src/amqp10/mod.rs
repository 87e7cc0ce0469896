//! Clients of AMQP 1.0: one end of a connection, a peer of the workload, and a script.

mod end;
mod filter;
pub mod message;
mod operate;
mod peer;
pub mod script;
mod session;
mod transact;

pub use end::{End, Heard, Received};
pub use peer::Peer;
