//! Clients of AMQP 0-9-1: one end of a connection, a peer of the workload, a script, and a publisher.

mod end;
mod operate;
mod peer;
pub mod publisher;
pub mod script;

pub use end::{End, Heard, Received};
pub use peer::Peer;
