//! AMQP 0-9-1 sessions: frames in, calls on queues and the control plane, frames out.
//!
//! [`session`] drives a connection's states; each file beside it holds one group of methods.

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
mod content;
mod contents;
mod deliver;
mod durable;
mod error;
mod exchanges;
mod field_tables;
mod get;
mod handshake;
mod held;
mod identity;
mod log_lines;
mod methods;
mod overdue;
mod parked;
mod plain_form;
mod protocol;
mod publish;
mod queues;
mod reply_to;
mod secret;
mod seen;
mod session;
mod shared_prefetch;
mod sources;
mod streams;
mod transaction;
mod unfinished;
mod unsettled;
mod view;

pub use protocol::Amqp091Protocol;
