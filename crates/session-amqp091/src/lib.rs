//! AMQP 0-9-1 sessions: frames in, calls on queues and the control plane, frames out.
//!
//! [`session`] drives a connection's states; each file above it holds one group of methods. Its parts stand below it, with their own
//! fields: a [`channel`] with its [`unsettled`] deliveries and its transaction ([`tx`]), a [`consumer`], the [`run`] that publishes are
//! collected in, large [`contents`], [`questions`] that are answered later, and [`unfinished`] work.

mod acknowledge;
mod amqplain;
mod arguments;
mod asked;
mod blocked;
mod by_queue;
mod changes;
mod channel;
mod closing;
mod consume;
mod consumer;
mod content;
mod contents;
mod deliver;
mod durable;
mod encode;
mod error;
mod exchanges;
mod field_tables;
mod get;
mod handshake;
mod held;
mod holding;
mod identity;
mod large;
mod log_lines;
mod methods;
mod overdue;
mod parked;
mod plain_form;
mod protocol;
mod publish;
mod questions;
mod queues;
mod reply_consumer;
mod reply_to;
mod run;
mod secret;
mod seen;
mod session;
mod shared_prefetch;
mod sources;
mod streams;
mod transaction;
mod tx;
mod unfinished;
mod unsettled;
mod view;
mod work;

pub use protocol::Amqp091Protocol;
