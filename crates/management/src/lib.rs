//! The HTTP API in RabbitMQ's form, and the metrics.
//!
//! [`api`] and [`metrics`] are routers over a [`NodeHandle`](leveret_node::NodeHandle); [`serve`] runs one on a
//! listener, on whatever runtime it is awaited on, which must not be a core's.
//!
//! This crate must not know of frames or disks. It asks the broker what clients ask, with the same permits.

mod api;
mod error;
mod health;
mod identity;
mod maintenance;
mod metrics;
mod overview;
mod process;
mod queues;
mod routes;
mod serve;
mod time;
mod topic_permissions;

pub use api::Api;
pub use metrics::metrics;
pub use routes::api;
pub use serve::serve;
