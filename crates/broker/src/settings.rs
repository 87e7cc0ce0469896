//! What the operator set, as far as sessions need to know it.

/// Limits and identity. Defaults are RabbitMQ's.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Largest frame in bytes that either side may send (`frame_max`).
    pub frame_max: u32,
    /// Channels per connection at most (`channel_max`).
    pub channel_max: u16,
    /// Proposed heartbeat interval in seconds (`heartbeat`); 0 switches it off.
    pub heartbeat_s: u16,
    /// Largest body in bytes (`max_message_size`).
    pub max_message_size: u64,
    /// Prefetch of channels that set none (`default_consumer_prefetch`); 0 is unlimited.
    pub default_prefetch: u16,
    /// A connection that isn't open after this long is closed (`handshake_timeout`), in milliseconds.
    pub handshake_timeout_ms: u64,
    /// Name of the cluster, shown to clients.
    pub cluster_name: String,
    /// `product` of the server properties.
    pub product: String,
    /// `version` of the server properties.
    pub version: String,
    /// `platform` of the server properties.
    pub platform: String,
    /// `information` of the server properties.
    pub information: String,
    /// Where names of server-named queues and consumers come from: random on a node, fixed in a simulation.
    pub name_seed: (u64, u64),
    /// Bytes of message bodies that all queues together keep in memory before they leave them on disk.
    pub queue_memory_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        let own = env!("CARGO_PKG_VERSION");
        Self {
            frame_max: 131_072,
            channel_max: 2047,
            heartbeat_s: 60,
            max_message_size: 16 << 20,
            default_prefetch: 0,
            handshake_timeout_ms: 10_000,
            cluster_name: "leveret@localhost".into(),
            product: "RabbitMQ".into(),
            version: "4.3.6".into(),
            platform: format!("Leveret {own}"),
            information: format!("Leveret {own}, a message broker that speaks RabbitMQ's protocols. Apache-2.0"),
            name_seed: (0, 0),
            queue_memory_bytes: 64 << 20,
        }
    }
}

/// A connection's published bytes that aren't durable yet: above this it isn't read.
pub const UNDURABLE_BYTES_MAX: u64 = 4 << 20;
/// Unread input that a connection may hold before it is open.
pub const PRE_LOGIN_FRAME_MAX: u32 = 16 << 10;
/// A turn stops above this many bytes of output, so that one write takes them.
pub const TURN_BYTES_MAX: usize = 128 << 10;
/// Messages that one turn of a consumer takes at most.
pub const TAKE_MESSAGES_MAX: u32 = 256;
/// Body bytes that one turn of a consumer takes at most.
pub const TAKE_BYTES_MAX: u64 = 64 << 10;
