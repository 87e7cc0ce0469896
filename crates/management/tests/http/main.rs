//! The HTTP API of a node in this process, seen through its sockets.

mod stage;

mod access;
mod alarms;
mod everybody;
mod metrics;
mod queues;
mod recorded;
mod topic_permissions;
