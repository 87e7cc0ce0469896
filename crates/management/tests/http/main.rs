//! Tests the HTTP API of a node in this process through its sockets.

mod stage;

mod access;
mod alarms;
mod columns;
mod compression;
mod connections;
mod definitions;
mod everybody;
mod exchange;
mod forwarded;
mod limits;
mod listeners;
mod local;
mod matrix;
mod messages;
mod metrics;
mod migration;
mod page;
mod parked;
mod past;
mod patterns;
mod policies;
mod queues;
mod quorum;
mod racing;
mod recorded;
mod rules;
mod sessions;
mod stream_client;
mod stream_clients;
mod streams;
mod tap;
mod topic_permissions;
mod transfers;
mod watch;
