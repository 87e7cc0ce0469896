//! The HTTP API in RabbitMQ's form, and the metrics.
//!
//! [`api`] and [`metrics`] are routers over a [`NodeHandle`](leveret_node::NodeHandle); [`serve`] runs one on a
//! listener, on the runtime that it is awaited on, which must not be a core's.
//!
//! [`page`] is the web page, embedded; it uses nothing but the API.
//!
//! [`dispatch`] handles a request: its [`route`] is looked up in the one table of [`routes`], the requester's
//! [`identity`] is checked against the route's access, and the handler, in one module per kind of object, gets a
//! [`call`]. A [`change`] is answered once it is durable; a [`list`] is generated while it is sent.
//!
//! This crate must not know of frames or disks. It uses the broker as clients do, with the same permits.

mod accepted;
mod account;
mod api;
mod asking;
mod attention;
mod auth;
mod bindings;
mod bodies;
mod call;
mod change;
mod cluster;
mod columns;
mod command_line;
mod compression;
mod connections;
mod consumers;
mod damage;
mod definitions;
mod deprecated_features;
mod dispatch;
mod error;
mod etag;
mod event_stream;
mod exchanges;
mod feature_flags;
mod fields;
mod forwarded;
mod forwarding;
mod granted;
mod health;
mod history;
mod identity;
mod json_scan;
mod json_walk;
mod kept_file;
mod limits;
mod links;
mod list;
mod lookup;
mod maintenance;
mod members;
mod merged_pages;
mod merged_rows;
mod merging;
mod metrics;
mod missing;
mod missing_answers;
mod nodes;
mod openapi;
mod overview;
mod page;
mod page_sessions;
mod parameters;
mod part;
mod password_rule;
mod past;
mod payload;
mod percent;
mod permissions;
mod policies;
mod process;
mod publish;
mod query;
mod queues;
mod recording;
mod route;
mod routes;
mod row;
mod row_filter;
mod running_traces;
mod running_transfers;
mod sampling;
mod serve;
mod session_token;
mod sessions;
mod statistics;
mod stopped;
mod stream;
mod stream_clients;
mod streams_open;
mod super_streams;
mod tap;
mod time;
mod timeline;
mod topic_permissions;
mod traces;
mod transfers;
mod users;
mod vhosts;
mod watch;
mod why;

pub use api::Api;
pub use axum::Router;
pub use cluster::ClusterChange;
pub use definitions::{Definitions, LoadError};
pub use dispatch::{api, api_under, local};
pub use forwarded::answer_forwarded;
pub use health::missing_nodes;
pub use metrics::{MetricsOptions, metrics};
pub use password_rule::PasswordRule;
pub use serve::{HttpListener, serve, serve_local, serve_tls};
pub use stopped::{PendingChange, Stopped, stopped};
