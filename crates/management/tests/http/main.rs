//! The HTTP API of a node in this process, seen through its sockets.

mod stage;

mod access;
mod alarms;
mod definitions;
mod everybody;
mod limits;
mod local;
mod messages;
mod metrics;
mod queues;
mod recorded;
mod topic_permissions;
