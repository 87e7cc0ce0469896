//! Listeners with TLS: messages, changing certificates, clients on the wrong port.

mod bench;
mod certificates;
mod external;
mod messages;
mod proxy_protocol;
mod scan;
mod stage;
mod wrong_port;
