//! Clients of AMQP 0-9-1: one end of a connection, a peer of the workload, and a script.

mod end;
mod operate;
mod peer;
pub mod script;

pub use end::{End, Heard, Received};
pub use peer::Peer;
