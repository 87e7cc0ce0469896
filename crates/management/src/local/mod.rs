//! Routes for commands on the node's machine, available only on its local socket: [`dispatch`](crate::dispatch)
//! doesn't find them over TCP, whatever the password.

mod connections;
mod limits;
mod log;
mod login;
mod node;
mod process;
mod settings;
mod sizes;
mod tls;

use crate::route::{Route, route};

/// The routes.
#[rustfmt::skip]
pub(crate) static LOCAL_ROUTES: &[Route] = &[
    route!(Get "/local/node" Administrator node::show, "Who the node is, and where"),
    route!(Get "/local/process" Administrator process::show, "How the node was started"),
    route!(Get "/local/plugins" Administrator process::plugins, "Which plugins of RabbitMQ the node stands for"),
    route!(Get "/local/tls" Administrator tls::show, "What the node can speak with TLS, and with which certificates"),
    route!(Get "/local/message-sizes" Administrator sizes::show, "How many messages of which sizes were published"),
    route!(Post "/local/stop" Administrator node::stop, "Asks the node to stop"),
    route!(Post "/local/app/stop" Administrator node::stop_app, "Asks the node to stop, and its process to stay"),
    route!(Post "/local/app/start" Administrator node::start_app, "Does nothing: the node runs"),
    route!(Post "/local/listeners/suspend" Administrator node::suspend, "Closes the listeners of AMQP"),
    route!(Post "/local/listeners/resume" Administrator node::resume, "Opens them again"),
    route!(Post "/local/authenticate" Administrator login::check, "Whether a user has this password"),
    route!(Put "/local/alarm-limits/memory" Administrator limits::memory, "Sets the memory watermark until the node stops"),
    route!(Put "/local/alarm-limits/disk" Administrator limits::disk, "Sets the least free disk until the node stops"),
    route!(Put "/local/alarms/{resource}" Administrator limits::raise, "Raises an alarm whatever is measured"),
    route!(Delete "/local/alarms/{resource}" Administrator limits::release, "Leaves an alarm to what is measured again"),
    route!(Get "/local/settings" Administrator settings::show, "Settings that may change while the node runs"),
    route!(Put "/local/settings" Administrator settings::change, "Changes them until the node stops"),
    route!(Post "/local/log/rotate" Administrator log::rotate, "Rotates the log files, or reopens them"),
    route!(Get "/local/log/tail" Administrator log::tail, "Lines of the log's file"),
    route!(Put "/local/log-level" Administrator log::change, "Sets the log level until the node stops"),
    route!(Post "/local/connections/close" Administrator connections::close, "Closes connections of a virtual host, a user or all"),
];
