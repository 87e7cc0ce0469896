//! AMQP 0-9-1 sessions: frames in, calls on queues and the control plane, frames out.
//!
//! [`steps`] says in which order a connection works, [`methods`] where its client's methods go, [`answered`] where late answers go. Each
//! file below holds one group of methods of [`session`], a connection's state, and calls only what stands below it: publishing and
//! settling know nothing of [`closing`], which ends what they left. The parts of a connection stand below it, with their own fields: a
//! [`channel`] with its [`unsettled`] deliveries and its transaction ([`tx`]), a [`consumer`], the [`run`] that publishes are collected
//! in, large [`contents`], [`questions`] that are answered later, and [`unfinished`] work.

mod abandon;
mod acknowledge;
mod alarm_state;
mod amqplain;
mod answered;
mod answers;
mod arguments;
mod blocked;
mod by_queue;
mod cancel;
mod changes;
mod channel;
mod closing;
mod committing;
mod confirm;
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
mod named;
mod negotiated;
mod noted_channels;
mod overdue;
mod parked;
mod plain_form;
mod protocol;
mod publish;
mod questions;
mod queues;
mod recover;
mod replies;
mod reply_consumer;
mod reply_to;
mod run;
mod secret;
mod seen;
mod session;
mod shared_prefetch;
mod sources;
mod steps;
mod streams;
mod transacting;
mod transaction;
mod tx;
mod unfinished;
mod unsettled;
mod view;
mod waking;
mod work;

pub use protocol::Amqp091Protocol;
