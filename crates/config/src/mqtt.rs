//! The settings of MQTT.

use std::collections::BTreeMap;

use crate::listener::Listener;

/// The keys `mqtt.*`.
#[derive(Debug, Clone, PartialEq)]
pub struct MqttConfig {
    /// `mqtt.listeners.tcp.*` by the last part of their key; `None` if unset, which means port 1883 at all addresses.
    pub(crate) tcp_listeners: Option<BTreeMap<String, Listener>>,
    /// `mqtt.listeners.ssl.*` by the last part of their key.
    pub(crate) ssl_listeners: BTreeMap<String, Listener>,
    /// `mqtt.proxy_protocol`: whether connections begin with the header of a proxy.
    pub proxy_protocol: bool,
    /// `mqtt.exchange`.
    pub exchange: String,
    /// `mqtt.vhost`.
    pub vhost: String,
    /// `mqtt.allow_anonymous`.
    pub allow_anonymous: bool,
    /// `mqtt.max_session_expiry_interval_seconds`; `None` for any.
    pub session_expiry_max_s: Option<u32>,
    /// `mqtt.prefetch`.
    pub prefetch: u16,
    /// `mqtt.max_packet_size_unauthenticated` in bytes.
    pub packet_max_unauthenticated: u32,
    /// `mqtt.max_packet_size_authenticated` in bytes.
    pub packet_max: u32,
    /// `mqtt.topic_alias_maximum`.
    pub topic_alias_max: u16,
    /// `mqtt.disconnect_on_unauthorized`.
    pub disconnects_unauthorized: bool,
    /// `mqtt.max_connections`; `None` for no limit.
    pub max_connections: Option<u32>,
    /// `mqtt.durable_queue_type`: whether it is quorum.
    pub quorum_queues: bool,
    /// `mqtt.mailbox_soft_limit`.
    pub mailbox_soft_limit: u32,
    /// `mqtt.max_subscriptions_per_client`.
    pub subscriptions_max: u32,
    /// `mqtt.retained_message_store`: whether messages are retained.
    pub retains: bool,
    /// `mqtt.retained_message_store.max_messages`.
    pub retained_max: u32,
    /// `mqtt.retained_message_store.max_size_bytes`.
    pub retained_bytes_max: u64,
}

impl Default for MqttConfig {
    fn default() -> Self {
        Self {
            tcp_listeners: None,
            ssl_listeners: BTreeMap::new(),
            proxy_protocol: false,
            exchange: "amq.topic".to_owned(),
            vhost: "/".to_owned(),
            allow_anonymous: true,
            session_expiry_max_s: Some(86_400),
            prefetch: 10,
            packet_max_unauthenticated: 65_536,
            packet_max: 16 << 20,
            topic_alias_max: 16,
            disconnects_unauthorized: true,
            max_connections: None,
            quorum_queues: false,
            mailbox_soft_limit: 200,
            subscriptions_max: 10_000,
            retains: true,
            retained_max: 100_000,
            retained_bytes_max: 1 << 30,
        }
    }
}
