//! Clients of the stream protocol: one end of a connection, and a script.

mod end;
pub mod script;

pub use end::{Heard, StreamEnd};
