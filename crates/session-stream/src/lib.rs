//! Sessions of RabbitMQ's stream protocol: frames in, calls on streams and the control plane, frames out.
//!
//! [`steps`] says in which order a connection works and where its commands go. Each file below holds one group of commands, methods of
//! [`session`], a connection's state, and calls only what stands below it. Below the state stand
//! [`publishers`] and [`subscriptions`], by ids of one byte that their client chose, and messages that are [`confirming`].

mod answered;
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
mod input_hold;
mod log_lines;
mod metadata;
mod nodes;
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
mod steps;
mod streams;
mod subscribe;
mod subscriptions;
mod super_streams;
mod tuned;
mod view;
mod watching;

pub use protocol::StreamProtocol;
pub use settings::{Advertised, StreamSettings};
