//! The settings of MQTT.

use std::collections::BTreeMap;

use crate::config::{Config, Listener};

/// The port of MQTT.
const PORT: u16 = 1883;

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

impl Config {
    /// The listeners for MQTT without TLS. If none is set and all listeners for AMQP take a free port, so does this one, at the same
    /// address: such a node is one of several on its machine.
    pub fn mqtt_tcp_listeners(&self) -> Vec<Listener> {
        if let Some(listeners) = &self.mqtt.tcp_listeners {
            return listeners.values().cloned().collect();
        }
        let amqp = [self.tcp_listeners(), self.ssl_listeners()].concat();
        match amqp.first().filter(|_| amqp.iter().all(|listener| listener.port == 0)) {
            Some(free) => vec![free.clone()],
            None => vec![Listener { host: None, port: PORT }],
        }
    }

    /// The listeners for MQTT with TLS.
    pub fn mqtt_ssl_listeners(&self) -> Vec<Listener> {
        self.mqtt.ssl_listeners.values().cloned().collect()
    }

    /// Whether a key or a file of plugins asks for MQTT. If not, its listener is left out when another program has its port.
    pub fn asks_for_mqtt(&self) -> bool {
        self.mqtt.tcp_listeners.is_some() || self.plugins.are_listed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Config {
        let mut config = Config::default();
        config.read("file", text).expect("is right");
        config
    }

    fn ports(text: &str) -> Vec<u16> {
        read(text).mqtt_tcp_listeners().iter().map(|listener| listener.port).collect()
    }

    #[test]
    fn a_node_with_free_ports_takes_one_for_mqtt_too() {
        assert_eq!(ports(""), [1883]);
        assert_eq!(ports("listeners.tcp.default = 127.0.0.1:0"), [0]);
        assert_eq!(ports("listeners.tcp.1 = 0\nlisteners.tcp.2 = 5672"), [1883]);
        assert_eq!(ports("listeners.tcp.default = 0\nmqtt.listeners.tcp.1 = 1884"), [1884]);
        assert_eq!(ports("mqtt.listeners.tcp = none"), [0; 0]);
    }

    #[test]
    fn keys_or_plugins_ask_for_mqtt() {
        assert!(!read("mqtt.vhost = /").asks_for_mqtt());
        assert!(read("mqtt.listeners.tcp.default = 1883").asks_for_mqtt());
        let mut listed = Config::default();
        listed.read_plugins("plugins", "[rabbitmq_mqtt].").expect("is right");
        assert!(listed.asks_for_mqtt());
    }
}
