//! Routes for commands on the node's machine, available only on its local socket: [`dispatch`](crate::dispatch)
//! doesn't find them over TCP, whatever the password.

mod connections;
mod limits;
mod log;
mod login;
mod node;
mod page_sessions;
mod process;
mod settings;
mod sizes;
mod streams;
mod tls;

use crate::route::{Route, route};

/// The routes.
#[rustfmt::skip]
pub(crate) static LOCAL_ROUTES: &[Route] = &[
    route!(Get "/local/node" Administrator node::show, "Name, versions, limits and listeners of the node"),
    route!(Get "/local/process" Administrator process::show, "Arguments and environment of the node"),
    route!(Get "/local/plugins" Administrator process::plugins, "The enabled plugins, and the file that lists them"),
    route!(Get "/local/tls" Administrator tls::show, "Versions, cipher suites and certificates of TLS"),
    route!(Get "/local/message-sizes" Administrator sizes::show, "Numbers of published messages by size"),
    route!(Post "/local/stop" Administrator node::stop, "Asks the node to stop"),
    route!(Post "/local/app/stop" Administrator node::stop_app, "Asks the node to stop and its process to continue"),
    route!(Post "/local/app/start" Administrator node::start_app, "Does nothing: the node runs"),
    route!(Post "/local/listeners/suspend" Administrator node::suspend, "Closes the listeners of AMQP"),
    route!(Post "/local/listeners/resume" Administrator node::resume, "Opens the listeners of AMQP again"),
    route!(Post "/local/authenticate" Administrator login::check, "Whether a user has this password"),
    route!(Delete "/local/login-cache" Administrator login::clear_cache, "Forgets the answers of backends of logins"),
    route!(Put "/local/alarm-limits/memory" Administrator limits::memory, "Sets the memory watermark until the node stops"),
    route!(Put "/local/alarm-limits/disk" Administrator limits::disk, "Sets the free disk limit until the node stops"),
    route!(Put "/local/alarms/{resource}" Administrator limits::raise, "Raises an alarm regardless of the measurement"),
    route!(Delete "/local/alarms/{resource}" Administrator limits::release, "Lets the measurement decide about an alarm again"),
    route!(Get "/local/settings" Administrator settings::show, "Settings that may change while the node runs"),
    route!(Put "/local/settings" Administrator settings::change, "Changes settings until the node stops"),
    route!(Post "/local/log/rotate" Administrator log::rotate, "Rotates the log files, or reopens them"),
    route!(Get "/local/log/tail" Administrator log::tail, "Lines of the log file"),
    route!(Put "/local/log-level" Administrator log::change, "Sets the log level until the node stops"),
    route!(Get "/local/streams/{vhost}/groups" Administrator streams::groups, "Groups of consumers of the stream protocol with their members"),
    route!(Post "/local/streams/{vhost}/{stream}/groups/{group}/activate" Administrator streams::activate, "Makes the member of a group active whose turn it is"),
    route!(Post "/local/streams/{vhost}/{stream}/restart" Administrator streams::restart, "Has clients of a stream look for its leader again"),
    route!(Post "/local/streams/{vhost}/{stream}/offsets/{name}/reset" Administrator streams::reset, "Sets the offset that a stream keeps for a name to 0"),
    route!(Get "/local/page-sessions/{session}" Administrator page_sessions::show, "The user of a session of the page that this node keeps"),
    route!(Delete "/local/page-sessions/{session}" Administrator page_sessions::end, "Ends a session of the page that this node keeps"),
    route!(Post "/local/connections/kill" Administrator connections::kill, "Ends a connection without a word to its client"),
    route!(Post "/local/connections/close" Administrator connections::close, "Closes connections of a virtual host, a user or all"),
];
