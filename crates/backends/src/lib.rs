//! Backends of logins and permissions: users of the node, tokens, a service over HTTP, a cache before these, and the chain in which
//! they are asked.
//!
//! [`Backends`] is the [`Authenticate`](leveret_broker::Authenticate) of a node with a chain. Whatever takes no network is answered at
//! once, on the core that asks. Everything else goes on in one thread of its own, and no core waits for it. A chain of users of the node
//! alone is [`Passwords`], and has no thread.
//!
//! Modules use those below them: [`chain`] asks [`cached`] and [`direct`], which knows each backend: [`http_service`], [`oauth2`] and
//! [`internal`]. [`client`] makes requests, and [`attempt`] is what all of them are asked.

mod attempt;
mod cached;
mod chain;
mod client;
mod direct;
mod http_service;
mod internal;
mod oauth2;
mod runtime;

pub use chain::{Backends, BackendsError};
pub use client::ConnectTls;
pub use internal::{LoopbackUsers, Passwords};
