//! Routing: the queues that a message goes to.
//!
//! A [`Router`] holds one table per exchange, follows the [`Change`](leveret_model::Change)s of the model and
//! is cheap to clone: a clone is a snapshot that routes without a lock while the original changes.
//!
//! This crate must not know more of a message than its routing key and a way to look up a [header](Headers) or property; it must
//! not know permissions or queues either.

mod exchange;
mod hash;
mod headers;
mod router;
mod targets;

pub use exchange::delay_ms;
pub use headers::{Header, Headers, NoHeaders};
pub use router::{NoExchange, RoutedBy, Router, Routes};
