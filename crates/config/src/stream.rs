//! Settings of the stream protocol.

use std::collections::BTreeMap;

use crate::config::{Config, Listener};

/// The port of the stream protocol.
const PORT: u16 = 5552;

/// Settings of the stream protocol: the keys `stream.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// `stream.listeners.tcp.*` by the last part of their key; `None` if unset, which means port 5552 at all addresses.
    pub(crate) tcp_listeners: Option<BTreeMap<String, Listener>>,
    /// `stream.listeners.ssl.*` by the last part of their key.
    pub(crate) ssl_listeners: BTreeMap<String, Listener>,
    /// `stream.proxy_protocol`: whether connections begin with the header of a proxy.
    pub proxy_protocol: bool,
    /// `stream.max_connections`; `None` for no limit.
    pub max_connections: Option<u32>,
    /// `stream.frame_max` in bytes; 0 is no limit.
    pub frame_max: u32,
    /// `stream.initial_frame_max` in bytes.
    pub initial_frame_max: u32,
    /// `stream.heartbeat` in seconds; 0 is off.
    pub heartbeat_s: u32,
    /// `stream.max_uncompressed_sub_entry_batch_size` in bytes.
    pub uncompressed_max: u32,
    /// `stream.max_super_stream_partitions`.
    pub partitions_max: u32,
    /// `stream.advertised_host`.
    pub advertised_host: Option<String>,
    /// `stream.advertised_port`.
    pub advertised_port: Option<u16>,
    /// `stream.advertised_tls_host`.
    pub advertised_tls_host: Option<String>,
    /// `stream.advertised_tls_port`.
    pub advertised_tls_port: Option<u16>,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            tcp_listeners: None,
            ssl_listeners: BTreeMap::new(),
            proxy_protocol: false,
            max_connections: None,
            frame_max: 1 << 20,
            initial_frame_max: 73_728,
            heartbeat_s: 60,
            uncompressed_max: 64 << 20,
            partitions_max: 1000,
            advertised_host: None,
            advertised_port: None,
            advertised_tls_host: None,
            advertised_tls_port: None,
        }
    }
}

impl Config {
    /// The listeners for the stream protocol without TLS. If none is set and all listeners for AMQP take a free port, so does this one,
    /// at the same address: such a node is one of several on its machine.
    pub fn stream_tcp_listeners(&self) -> Vec<Listener> {
        if let Some(listeners) = &self.stream.tcp_listeners {
            return listeners.values().cloned().collect();
        }
        let amqp = [self.tcp_listeners(), self.ssl_listeners()].concat();
        match amqp.first().filter(|_| amqp.iter().all(|listener| listener.port == 0)) {
            Some(free) => vec![free.clone()],
            None => vec![Listener { host: None, port: PORT }],
        }
    }

    /// The listeners for the stream protocol with TLS.
    pub fn stream_ssl_listeners(&self) -> Vec<Listener> {
        self.stream.ssl_listeners.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(text: &str) -> Vec<u16> {
        let mut config = Config::default();
        config.read("file", text).expect("is right");
        config.stream_tcp_listeners().iter().map(|listener| listener.port).collect()
    }

    #[test]
    fn a_node_with_free_ports_takes_one_for_streams_too() {
        assert_eq!(ports(""), [5552]);
        assert_eq!(ports("listeners.tcp.default = 127.0.0.1:0"), [0]);
        assert_eq!(ports("listeners.tcp.1 = 0\nlisteners.tcp.2 = 5672"), [5552]);
        assert_eq!(ports("listeners.tcp = none\nlisteners.ssl.1 = 0"), [0]);
        assert_eq!(ports("listeners.tcp = none"), [5552]);
        assert_eq!(ports("listeners.tcp.default = 0\nstream.listeners.tcp.1 = 5553"), [5553]);
        assert_eq!(ports("stream.listeners.tcp = none"), [0; 0]);
    }
}
