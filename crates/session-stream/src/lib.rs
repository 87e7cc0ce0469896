//! Sessions of RabbitMQ's stream protocol: frames in, calls on streams and the control plane, frames out.
//!
//! [`session`] drives a connection's states; each file beside it holds one group of commands. Below it stand
//! [`publishers`] and [`subscriptions`], by ids of one byte that their client chose, and messages that are [`confirming`].

mod asked;
mod changes;
mod closing;
mod commands;
mod confirming;
mod confirms;
mod declare_publisher;
mod deliver;
mod handshake;
mod held;
mod log_lines;
mod metadata;
mod offsets;
mod open_connections;
mod protocol;
mod publish;
mod publishers;
mod questions;
mod refusal;
mod refused;
mod session;
mod settings;
mod streams;
mod subscribe;
mod subscriptions;
mod super_streams;
mod view;

pub use protocol::StreamProtocol;
pub use settings::{Advertised, StreamSettings};
