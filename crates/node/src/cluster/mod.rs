//! The node's part of a cluster: one thread with all placements, the links to other nodes, and the entry log's disk threads.
//!
//! Everything in [`ClusterThread`] shares memory without locks. It never waits for a disk or a name server: both have threads of their own.
//!
//! It must not know what requests between nodes mean: that is [`links::Service`]'s.

pub(crate) mod agreed_time;
pub(crate) mod cookie;
pub(crate) mod discovery;
pub(crate) mod forwarded;
pub(crate) mod gossip;
pub(crate) mod host;
pub(crate) mod links;
pub(crate) mod log_driver;
pub(crate) mod member;
pub(crate) mod page_sessions;
pub(crate) mod placements;
mod returning;
pub(crate) mod runtime;
pub(crate) mod thread;
pub(crate) mod tls;
pub(crate) mod view;

pub(crate) use self::thread::ClusterRemote;

#[cfg(test)]
mod tests;
