//! Listeners with TLS: messages through them, certificates that change, clients who come to the wrong port.

mod bench;
mod certificates;
mod external;
mod messages;
mod proxy_protocol;
mod scan;
mod stage;
mod wrong_port;
