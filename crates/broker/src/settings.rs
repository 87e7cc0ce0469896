//! The operator's settings that sessions need.

pub use leveret_message::{IfPresent, Stamps};
use leveret_model::{Durability, Limits, MemberNumber};

pub use crate::names::NameSecret;
use crate::notices::NoticeVhosts;
use crate::quota::QuotaLimits;
use crate::time::Nanos;

/// Limits and identity. Defaults are RabbitMQ's.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Largest frame in bytes that either side may send (`frame_max`).
    pub frame_max: u32,
    /// Largest frame before AMQP 1.0's `open` and 0-9-1's `tune-ok`, in bytes: room for tokens (`initial_frame_max`).
    pub initial_frame_max: u32,
    /// Maximum number of channels per connection (`channel_max`).
    pub channel_max: u16,
    /// Proposed heartbeat interval in seconds (`heartbeat`); 0 switches it off.
    pub heartbeat_s: u16,
    /// Largest body in bytes (`max_message_size`).
    pub max_message_size: u64,
    /// Bytes of unfinished messages that one connection may hold; one message of the largest size always fits
    /// (`partial_message_bytes_max_per_connection`).
    pub partial_message_bytes_max: u64,
    /// Prefetch of channels that set none (`default_consumer_prefetch`); 0 is unlimited.
    pub default_prefetch: u16,
    /// Maximum number of connections of all protocols (`max_connections`); `None` for no limit.
    pub max_connections: Option<usize>,
    /// A connection that isn't open after this long is closed (`handshake_timeout`), in milliseconds.
    pub handshake_timeout_ms: u64,
    /// Bytes that all connections that haven't logged in may hold together (`unauthenticated_bytes_max_per_node`).
    pub unauthenticated_bytes_max: u64,
    /// SASL mechanisms in the order of preference (`auth_mechanisms`).
    pub auth_mechanisms: Vec<String>,
    /// User and password that ANONYMOUS logs in with (`anonymous_login_user`, `anonymous_login_pass`).
    pub anonymous_login: Option<(String, String)>,
    /// Delay before a refused login is answered, or before its socket is closed if the client expects no answer, in
    /// milliseconds.
    pub auth_failure_delay_ms: u64,
    /// The vhost of AMQP 1.0 connections that name none (`default_vhost`).
    pub default_vhost: String,
    /// The meaning of a confirm in queues that don't specify it (`default_queue_durability`).
    pub durability: Durability,
    /// Milliseconds for which a consumer of a quorum queue may leave a delivery unsettled (`consumer_timeout`).
    pub consumer_timeout_ms: u64,
    /// Milliseconds for which a replicated queue waits for its single active consumer while that one's node can't be reached
    /// (`consumer_disconnected_timeout`).
    pub consumer_disconnected_timeout_ms: u64,
    /// Limits of resources that live with connections.
    pub quota: QuotaLimits,
    /// Limits of declared objects.
    pub limits: Limits,
    /// Maximum number of consumers of an AMQP 0-9-1 channel (`consumer_max_per_channel`).
    pub consumers_per_channel_max: u64,
    /// Work that a connection does before others are served, in units of about 0.1 µs (see `turn_budget`). A single call that
    /// takes longer is done in parts.
    pub turn_work_max: u32,
    /// Deliveries of an AMQP 0-9-1 channel that its client may leave unacknowledged (`unsettled_max_per_channel`).
    pub unsettled_per_channel_max: u32,
    /// Maximum number of AMQP 1.0 sessions per connection (`session_max_per_connection`).
    pub session_max: u16,
    /// Maximum number of AMQP 1.0 links per session (`link_max_per_session`).
    pub link_max: u32,
    /// Deliveries of an AMQP 1.0 session that its client may leave unsettled (`unsettled_max_per_session`); also the deliveries
    /// of a connection that it may settle in open transactions.
    pub unsettled_max: u32,
    /// Transfers that an AMQP 1.0 session may send ahead (`max_incoming_window`).
    pub max_incoming_window: u32,
    /// Credit of AMQP 1.0 links that clients send on.
    pub link_credit: LinkCredit,
    /// Messages that an AMQP 1.0 link takes from its queue at once (`max_queue_credit`).
    pub max_queue_credit: u32,
    /// Whether addresses of RabbitMQ 3 are accepted (`deprecated_features.permit.amqp_address_v1`).
    pub amqp_address_v1: bool,
    /// The meaning of a prefetch with the flag `global` of AMQP 0-9-1 (`deprecated_features.permit.global_qos`).
    pub global_prefetch: GlobalPrefetch,
    /// Whether to behave like RabbitMQ 4.3 where we differ for our users' sake (`strict_compat`); listed in
    /// docs/differences.md.
    pub strict_compat: bool,
    /// Publishers are paced while messages stand in their queue for longer than this, although consumers take them without
    /// pause (`flow.standing_delay_target`), in nanoseconds; 0 if never.
    pub standing_delay_target: Nanos,
    /// Name of the node, shown to clients.
    pub node_name: String,
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
    /// The vhosts of the broker's own exchanges (`event_exchange.vhost`, `default_vhost`).
    pub notice_vhosts: NoticeVhosts,
    /// The form of events (`event_exchange.protocol`).
    pub event_form: EventForm,
    /// The node's member number in its cluster, which is in the ids of its connections and consumers.
    pub member: MemberNumber,
    /// The number of this start of the node. The ids of its consumers differ from those of earlier starts, which other nodes may still know.
    pub boot: u64,
    /// The secret that names of server-named queues, consumers and reply targets are derived from: random on a node, derived
    /// from the seed in a simulation.
    pub name_secret: NameSecret,
    /// Stamps that incoming messages get (`message_interceptors.incoming.*`).
    pub stamps: Option<Stamps>,
    /// Whether deliveries contain the time when they are sent (`message_interceptors.outgoing.timestamp.enabled`).
    pub sent_time: bool,
    /// Bytes of message bodies that all queues together keep in memory before they leave them on disk.
    pub queue_memory_bytes: u64,
    /// Bytes of transient messages that all queues together keep in memory. Beyond it, messages for durable queues are logged
    /// like persistent ones.
    pub volatile_memory_bytes: u64,
    /// A message to more durable queues than this is logged once for all of them, whatever its size.
    pub copied_to_queues_max: usize,
    /// Durable bodies of this many bytes or more get a file of their own, beside the log.
    pub body_file_from: usize,
    /// Bytes of such a body that are written and read together: [`leveret_log::BODY_PIECE_BYTES`], except in a simulation.
    pub body_piece_bytes: usize,
    /// Number of the first message of a new queue. A simulation starts close to where the encoding of sets of numbers changes.
    pub first_number: u64,
    /// Whether every queue gives the answers of [`crate::queue_handle::NowOrLater`] later, as one on another node does. Set by tests
    /// and simulations only.
    pub answers_late: bool,
}

/// The form of messages about events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventForm {
    /// Their properties are headers of AMQP 0-9-1.
    Amqp091,
    /// Their properties are message annotations of AMQP 1.0.
    Amqp10,
}

/// The link credit of a sending AMQP 1.0 client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkCredit {
    /// The first grant in messages, and the limit that credit never shrinks below (`max_link_credit`).
    pub start: u32,
    /// Whether credit grows while confirms keep pace with the disk (`link_credit.adaptive`).
    pub adaptive: bool,
    /// Unconfirmed messages that a link may have then (`link_credit.max_unconfirmed_messages`).
    pub unconfirmed_messages_max: u32,
    /// Unconfirmed bytes that a link may have then (`link_credit.max_unconfirmed_bytes`).
    pub unconfirmed_bytes_max: u64,
}

/// The meaning of a prefetch that an AMQP 0-9-1 client sets for a whole channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GlobalPrefetch {
    /// Consumers of classic queues share it, those of other queues get it each.
    #[default]
    Shared,
    /// The same, but other queues refuse consumers of such a channel, as RabbitMQ does if the feature is permitted.
    SharedStrictly,
    /// Each consumer gets it, as in RabbitMQ 4.3 by default.
    PerConsumer,
}

impl GlobalPrefetch {
    /// Whether the consumers of a channel may share a prefetch.
    pub fn is_shared(self) -> bool {
        self != GlobalPrefetch::PerConsumer
    }
}

impl Default for Settings {
    fn default() -> Self {
        let own = env!("CARGO_PKG_VERSION");
        Self {
            frame_max: 131_072,
            initial_frame_max: 73_728,
            channel_max: 2047,
            heartbeat_s: 60,
            max_message_size: 16 << 20,
            partial_message_bytes_max: 64 << 20,
            default_prefetch: 0,
            max_connections: Some(200_000),
            handshake_timeout_ms: 10_000,
            unauthenticated_bytes_max: 64 << 20,
            auth_mechanisms: ["PLAIN", "AMQPLAIN", "ANONYMOUS"].map(str::to_owned).to_vec(),
            anonymous_login: Some(("guest".into(), "guest".into())),
            auth_failure_delay_ms: 3000,
            default_vhost: "/".into(),
            durability: Durability::Synced,
            consumer_timeout_ms: 1_800_000,
            consumer_disconnected_timeout_ms: 60_000,
            quota: QuotaLimits::default(),
            limits: Limits::default(),
            consumers_per_channel_max: 65_536,
            turn_work_max: 25_000,
            unsettled_per_channel_max: 1 << 18,
            session_max: 64,
            link_max: 256,
            unsettled_max: 1 << 18,
            max_incoming_window: 400,
            link_credit: LinkCredit {
                start: 170,
                adaptive: true,
                unconfirmed_messages_max: 5000,
                unconfirmed_bytes_max: 1 << 20,
            },
            max_queue_credit: 256,
            amqp_address_v1: false,
            global_prefetch: GlobalPrefetch::default(),
            strict_compat: false,
            standing_delay_target: 1_000_000,
            node_name: "leveret@localhost".into(),
            cluster_name: "leveret@localhost".into(),
            product: "RabbitMQ".into(),
            version: "4.3.6".into(),
            platform: format!("Leveret {own}"),
            information: format!("Leveret {own}, a message broker that speaks RabbitMQ's protocols. Apache-2.0"),
            notice_vhosts: NoticeVhosts { events: "/".into(), lines: "/".into() },
            event_form: EventForm::Amqp091,
            member: MemberNumber::default(),
            boot: 0,
            name_secret: NameSecret::default(),
            stamps: None,
            sent_time: false,
            queue_memory_bytes: 64 << 20,
            volatile_memory_bytes: u64::MAX,
            copied_to_queues_max: 8,
            body_file_from: 256 << 10,
            body_piece_bytes: leveret_log::BODY_PIECE_BYTES,
            first_number: 0,
            answers_late: false,
        }
    }
}

/// The reason, in RabbitMQ's words, why connections are closed and refused while the node is in maintenance.
pub const IN_MAINTENANCE: &str = "Node was put into maintenance mode";

/// A connection's published bytes that aren't durable yet: above this, backpressure applies and its socket isn't read.
pub const UNDURABLE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of large bodies that one connection may have in flight to the disk threads: above this its socket isn't read.
pub const UNWRITTEN_BYTES_MAX: u64 = 1 << 20;
/// Bytes in flight at or below which its socket is read again.
pub const UNWRITTEN_BYTES_LOW: u64 = 512 << 10;
/// Bytes of bodies from files that are in memory as a whole at a time for conversion; a single one of any size always fits.
pub const WHOLE_BODIES_BYTES_MAX: u64 = 32 << 20;
/// A turn stops above this many bytes of output, so that one write takes them.
pub const TURN_BYTES_MAX: usize = 128 << 10;
/// Bytes that wait for a client to read its socket: above this, its requests aren't read. Deliveries stop at
/// [`TURN_BYTES_MAX`], so only answers to requests reach this limit.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of messages that one turn of a consumer takes.
pub const TAKE_MESSAGES_MAX: u32 = 256;
/// Maximum number of body bytes that one turn of a consumer takes.
pub const TAKE_BYTES_MAX: u64 = 64 << 10;
