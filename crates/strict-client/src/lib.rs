//! Clients that assert the specification on everything they receive: for tests, the simulator and the load
//! generator.
//!
//! A client here is a state machine without a socket: whoever owns one writes [`output`](amqp091::Client::output)
//! to the peer and hands what it reads to [`receive`](amqp091::Client::receive), which answers with events, or with
//! the [`Violation`] that the peer committed. It checks more than an ordinary client: a delivery tag that was
//! skipped, a confirm given twice, one message beyond the prefetch or the link credit.
//!
//! What this crate must not know: sockets, threads, clocks, and anything of the broker beyond the protocol.

pub mod amqp091;
pub mod amqp10;
mod violation;

pub use violation::{Rule, Violation};
