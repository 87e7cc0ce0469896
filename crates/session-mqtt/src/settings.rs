//! The operator's settings of the protocol, named as in rabbitmq.conf.

use std::sync::Arc;

/// Settings of MQTT. Defaults are RabbitMQ's.
#[derive(Debug, Clone)]
pub struct MqttSettings {
    /// The topic exchange that messages go to (`mqtt.exchange`).
    pub exchange: Arc<str>,
    /// The vhost of clients whose user name says none (`mqtt.vhost`).
    pub vhost: Arc<str>,
    /// Whether clients without credentials are the user of anonymous logins (`mqtt.allow_anonymous`).
    pub allow_anonymous: bool,
    /// Longest time for which a session is kept, in seconds; `None` for any (`mqtt.max_session_expiry_interval_seconds`).
    pub session_expiry_max_s: Option<u32>,
    /// Messages of QoS 1 and 2 that a client may leave unacknowledged (`mqtt.prefetch`).
    pub prefetch: u16,
    /// Largest packet before the login, in bytes (`mqtt.max_packet_size_unauthenticated`).
    pub packet_max_unauthenticated: u32,
    /// Largest packet afterwards, in bytes (`mqtt.max_packet_size_authenticated`).
    pub packet_max: u32,
    /// The highest topic alias of a client (`mqtt.topic_alias_maximum`).
    pub topic_alias_max: u16,
    /// Whether a client that may not do something is disconnected (`mqtt.disconnect_on_unauthorized`).
    pub disconnects_unauthorized: bool,
    /// Most connections at a time; `None` for any number (`mqtt.max_connections`).
    pub max_connections: Option<usize>,
    /// Whether the queues of sessions that outlive their connections are quorum queues (`mqtt.durable_queue_type`).
    pub quorum_queues: bool,
    /// Messages of QoS 0 that wait for a client that doesn't read; older ones are dropped (from `mqtt.mailbox_soft_limit`).
    pub waiting_max: u64,
    /// Bytes of these.
    pub waiting_bytes_max: u64,
    /// Most subscriptions of a client (`mqtt.max_subscriptions_per_client`).
    pub subscriptions_max: usize,
    /// Most retained messages of a vhost (`mqtt.retained_message_store.max_messages`); 0 keeps none.
    pub retained_max: usize,
    /// Most bytes of these (`mqtt.retained_message_store.max_size_bytes`).
    pub retained_bytes_max: u64,
}

/// Messages of QoS 0 that wait for a client, for each one of `mqtt.mailbox_soft_limit`. RabbitMQ drops above the limit once the socket
/// is busy; here all that one turn brings has to fit.
pub const WAITING_PER_MAILBOX: u64 = 50;

impl Default for MqttSettings {
    fn default() -> Self {
        Self {
            exchange: "amq.topic".into(),
            vhost: "/".into(),
            allow_anonymous: true,
            session_expiry_max_s: Some(86_400),
            prefetch: 10,
            packet_max_unauthenticated: 65_536,
            packet_max: 16 << 20,
            topic_alias_max: 16,
            disconnects_unauthorized: true,
            max_connections: None,
            quorum_queues: false,
            waiting_max: 200 * WAITING_PER_MAILBOX,
            waiting_bytes_max: 64 << 20,
            subscriptions_max: 10_000,
            retained_max: 100_000,
            retained_bytes_max: 1 << 30,
        }
    }
}
