//! The client of AMQP 0-9-1.
//!
//! ```
//! use leveret_strict_client::amqp091::{Client, Options};
//!
//! let mut client = Client::new(Options::default());
//! // The first thing to write is the protocol header; requests follow once `Event::Connected` was received.
//! assert_eq!(client.output(), b"AMQP\x00\x00\x09\x01");
//! client.output().clear();
//! let mut events = Vec::new();
//! assert_eq!(client.receive(b"", &mut events), Ok(0));
//! ```

mod channel;
mod client;
mod confirms;
mod content;
mod event;
mod operations;
mod options;
mod reply;
mod topology;
mod unacked;

pub use client::Client;
pub use event::{CloseReason, Delivery, Event, Span};
pub use operations::{Consume, Publication};
pub use options::Options;
pub use topology::QueueDeclare;
