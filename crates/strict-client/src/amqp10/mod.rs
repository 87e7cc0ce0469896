//! The client of AMQP 1.0.
//!
//! ```
//! use leveret_strict_client::amqp10::{Client, Options};
//!
//! let mut client = Client::new(Options::default());
//! // The first thing to write is the SASL header; sessions follow once `Event::Opened` was received.
//! assert_eq!(client.output(), b"AMQP\x03\x01\x00\x00");
//! client.output().clear();
//! let mut events = Vec::new();
//! assert_eq!(client.receive(b"", &mut events), Ok(0));
//! ```

mod attach;
mod client;
mod disposition;
mod event;
mod flow;
mod link;
mod management;
mod operations;
mod options;
mod send;
mod session;
mod state;
mod transfer;
mod window;

pub use client::Client;
pub use event::{Delivery, Event, Span};
pub use management::{ManagementRequest, Response};
pub use options::{Mechanism, Options, SessionOptions};
pub use send::Send;
pub use state::{PeerError, State};
