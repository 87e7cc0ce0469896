//! Listeners with TLS: messages through them, certificates that change, clients who come to the wrong port.

mod certificates;
mod messages;
mod stage;
mod wrong_port;
