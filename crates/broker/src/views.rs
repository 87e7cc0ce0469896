//! The state of connections, channels, sessions and links, as they report it on request.

use std::sync::Arc;

use leveret_metrics::Totals;
use leveret_model::{Arguments, ConnectionId, QueueId};
use leveret_queue::{Activity, QueueWait};

use crate::connection_state::ConnectionStatus;
use crate::peer::Peer;
use crate::protocol_info::ProtocolInfo;
use crate::stats::Stats;
use crate::time::Nanos;

/// The part of an open connection's state that is known without an inquiry.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its id.
    pub id: ConnectionId,
    /// Its name as in RabbitMQ: addresses of both ends.
    pub name: Arc<str>,
    /// Its user.
    pub user: Arc<str>,
    /// Its vhost.
    pub vhost: Arc<str>,
    /// The names of its protocol.
    pub protocol: &'static ProtocolInfo,
}

/// One open connection.
#[derive(Debug, Clone)]
pub struct ConnectionView {
    /// The part that is known without an inquiry.
    pub client: Arc<Client>,
    /// The other end.
    pub peer: Peer,
    /// The names of its protocol.
    pub protocol: &'static ProtocolInfo,
    /// The mechanism of its login.
    pub mechanism: Arc<str>,
    /// Whether it is running or held back, and why.
    pub status: ConnectionStatus,
    /// The queue that paces its publishes, if one does.
    pub paced_by: Option<QueueId>,
    /// Monotonic time when it was accepted.
    pub connected: Nanos,
    /// The highest channel number.
    pub channel_max: u16,
    /// The largest frame in bytes.
    pub frame_max: u32,
    /// Heartbeat or idle timeout in seconds; 0 for none.
    pub timeout_s: u64,
    /// Its client properties; empty if the inquiry was brief.
    pub client_properties: Arguments,
    /// The client's container-id (AMQP 1.0).
    pub container_id: Option<Arc<str>>,
    /// Totals of its counters.
    pub totals: Totals,
    /// Bytes in and out per second.
    pub octet_rates: [f64; 2],
    /// Bytes that wait for the socket.
    pub queued_bytes: usize,
    /// Deliveries and answers that wait for the socket or the client's window.
    pub pending_frames: usize,
    /// Channels (AMQP 0-9-1), by number.
    pub channels: Vec<ChannelView>,
    /// Sessions (AMQP 1.0), by channel.
    pub sessions: Vec<SessionView>,
    /// Publishers (stream protocol), by id.
    pub publishers: Vec<PublisherView>,
    /// Subscriptions (stream protocol), by id.
    pub subscriptions: Vec<SubscriptionView>,
}

impl ConnectionView {
    /// Number of open channels or sessions.
    pub fn channel_count(&self) -> usize {
        self.channels.len() + self.sessions.len()
    }
}

/// A channel of AMQP 0-9-1.
#[derive(Debug, Clone)]
pub struct ChannelView {
    /// Its number.
    pub number: u16,
    /// Prefetch of new consumers.
    pub prefetch: u16,
    /// Prefetch that the consumers share; 0 if they don't share one.
    pub shared_prefetch: u16,
    /// Whether publishes are confirmed.
    pub confirms: bool,
    /// Whether it is transactional.
    pub transactional: bool,
    /// Number of consumers.
    pub consumers: usize,
    /// Number of deliveries that the client hasn't settled.
    pub unacknowledged: usize,
    /// Number of publishes that aren't confirmed.
    pub unconfirmed: u64,
    /// Number of publishes that wait for `tx.commit`.
    pub uncommitted: usize,
    /// Number of acknowledgements that wait for `tx.commit`.
    pub acks_uncommitted: usize,
    /// Its counts.
    pub stats: Stats,
}

/// A session of AMQP 1.0.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// Its channel.
    pub channel: u16,
    /// The highest handle.
    pub handle_max: u32,
    /// Transfer-id of the next incoming transfer.
    pub next_incoming_id: u32,
    /// Transfers that the client may still send.
    pub incoming_window: u32,
    /// Transfer-id of the next outgoing transfer.
    pub next_outgoing_id: u32,
    /// Transfers that we may still send.
    pub remote_incoming_window: u32,
    /// The outgoing window of the client's `begin` or last flow.
    pub remote_outgoing_window: u32,
    /// Number of deliveries that the client hasn't settled.
    pub unsettled: usize,
    /// Number of deliveries that wait for the client's window.
    pub pending: usize,
    /// Links that the client sends on.
    pub incoming: Vec<IncomingView>,
    /// Links that the client receives on.
    pub outgoing: Vec<OutgoingView>,
}

/// A link that the client sends on.
#[derive(Debug, Clone)]
pub struct IncomingView {
    /// Its handle.
    pub handle: u32,
    /// Its name.
    pub name: Arc<str>,
    /// Its target, as given by the client; `None` for the anonymous terminus.
    pub target: Option<Arc<str>>,
    /// `unsettled`, `settled` or `mixed`.
    pub settle_mode: &'static str,
    /// The largest message in bytes.
    pub max_message_size: u64,
    /// Deliveries so far, a serial number.
    pub delivery_count: u32,
    /// Number of messages that the client may still send.
    pub credit: u32,
    /// Number of messages without an outcome.
    pub unconfirmed: u32,
}

/// A link that the client receives on.
#[derive(Debug, Clone)]
pub struct OutgoingView {
    /// Its handle.
    pub handle: u32,
    /// Its name.
    pub name: Arc<str>,
    /// Its source, as given by the client.
    pub source: Arc<str>,
    /// The queue behind it; `None` for answers without a queue.
    pub queue: Option<Arc<str>>,
    /// Whether deliveries are sent settled.
    pub settled: bool,
    /// The largest message in bytes; 0 for no limit.
    pub max_message_size: u64,
    /// Deliveries so far, a serial number.
    pub delivery_count: u32,
    /// Remaining credit.
    pub credit: u32,
    /// Milliseconds for which its receiver may leave a delivery unsettled, if it asked for that.
    pub timeout_ms: Option<u64>,
    /// The reason why nothing is delivered, and since when.
    pub wait: Option<QueueWait>,
}

/// A publisher of the stream protocol.
#[derive(Debug, Clone)]
pub struct PublisherView {
    /// Its id.
    pub id: u8,
    /// The stream that it publishes to.
    pub stream: Arc<str>,
    /// Its name, by which its messages are numbered.
    pub reference: Option<Arc<str>>,
    /// Messages received.
    pub published: u64,
    /// Messages confirmed.
    pub confirmed: u64,
    /// Messages refused.
    pub errored: u64,
}

/// A subscription of the stream protocol.
#[derive(Debug, Clone)]
pub struct SubscriptionView {
    /// Its id.
    pub id: u8,
    /// The stream that it reads.
    pub stream: Arc<str>,
    /// Chunks that the client has granted and that weren't sent.
    pub credits: u32,
    /// Messages sent.
    pub consumed: u64,
    /// Offset of the last message that was sent; of the first one to be sent before that.
    pub offset: u64,
    /// Number of messages behind that; 0 for a subscription that waits for its turn.
    pub lag: u64,
    /// Its part in its group.
    pub activity: Activity,
    /// Its properties.
    pub properties: Arguments,
}
