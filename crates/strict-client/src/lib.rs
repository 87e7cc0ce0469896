//! Clients that assert the specification on everything they receive: for tests, the simulator and the load
//! generator.
//!
//! A client here is a state machine without a socket: the socket's owner writes [`output`](amqp091::Client::output)
//! to the peer and passes received bytes to [`receive`](amqp091::Client::receive), which returns events, or the
//! [`Violation`] that the peer committed. It checks more than an ordinary client: a skipped delivery tag, a second
//! confirm, one message beyond the prefetch or the link credit.
//!
//! This crate must not know: sockets, threads, clocks, and anything of the broker beyond the protocol.

pub mod amqp091;
pub mod amqp10;
pub mod linear;
pub mod stream;
mod violation;

pub use violation::{Rule, Violation};
