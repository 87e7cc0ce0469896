//! Clients of the stream protocol: one end of a connection, a peer of the workload, and a script.

mod end;
mod peer;
pub mod script;

pub use end::{Heard, StreamEnd};
pub use peer::Peer;
