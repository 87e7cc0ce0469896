//! Settings of the stream protocol.

use std::collections::BTreeMap;

use crate::listener::Listener;

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
