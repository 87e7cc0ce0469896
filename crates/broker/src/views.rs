//! What connections, channels, sessions and links say of themselves when they are asked.

use std::sync::Arc;

use leveret_metrics::Totals;
use leveret_model::{Arguments, ConnectionId};
use leveret_queue::QueueWait;

use crate::connection_state::ConnectionStatus;
use crate::peer::Peer;
use crate::protocol_info::ProtocolInfo;
use crate::stats::Stats;
use crate::time::Nanos;

/// An open connection, as far as others know it without asking.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its id.
    pub id: ConnectionId,
    /// RabbitMQ's name of it: addresses of both ends.
    pub name: Arc<str>,
    /// The user it belongs to.
    pub user: Arc<str>,
    /// The vhost that it is in.
    pub vhost: Arc<str>,
}

/// One open connection.
#[derive(Debug, Clone)]
pub struct ConnectionView {
    /// Who it is.
    pub client: Arc<Client>,
    /// Where it comes from.
    pub peer: Peer,
    /// What it speaks.
    pub protocol: &'static ProtocolInfo,
    /// How its user logged in.
    pub mechanism: Arc<str>,
    /// Running or held back, and why.
    pub status: ConnectionStatus,
    /// When it was accepted, by the monotonic clock.
    pub connected: Nanos,
    /// The highest channel number.
    pub channel_max: u16,
    /// The largest frame in bytes.
    pub frame_max: u32,
    /// Heartbeat or idle timeout in seconds; 0 for none.
    pub timeout_s: u64,
    /// What its client said of itself; nothing if it was asked briefly.
    pub client_properties: Arguments,
    /// The client's container-id (AMQP 1.0).
    pub container_id: Option<Arc<str>>,
    /// Everything it counted.
    pub totals: Totals,
    /// Bytes in and out per second.
    pub octet_rates: [f64; 2],
    /// Bytes that the socket hasn't taken.
    pub queued_bytes: usize,
    /// Deliveries and answers that wait for the socket or the client's window.
    pub pending_frames: usize,
    /// Channels (AMQP 0-9-1), by number.
    pub channels: Vec<ChannelView>,
    /// Sessions (AMQP 1.0), by channel.
    pub sessions: Vec<SessionView>,
}

impl ConnectionView {
    /// How many channels or sessions it has open.
    pub fn channel_count(&self) -> usize {
        self.channels.len() + self.sessions.len()
    }
}

/// A channel of AMQP 0-9-1.
#[derive(Debug, Clone)]
pub struct ChannelView {
    /// Its number.
    pub number: u16,
    /// Prefetch of consumers to come.
    pub prefetch: u16,
    /// Whether publishes are confirmed.
    pub confirms: bool,
    /// Whether it is transactional.
    pub transactional: bool,
    /// How many consumers it has.
    pub consumers: usize,
    /// Deliveries that the client hasn't settled.
    pub unacknowledged: usize,
    /// Publishes that aren't confirmed.
    pub unconfirmed: u64,
    /// Publishes that wait for `tx.commit`.
    pub uncommitted: usize,
    /// Acknowledgements that wait for `tx.commit`.
    pub acks_uncommitted: usize,
    /// What it counted.
    pub stats: Stats,
}

/// A session of AMQP 1.0.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// Its channel.
    pub channel: u16,
    /// The highest handle.
    pub handle_max: u32,
    /// Transfer-id that comes next.
    pub next_incoming_id: u32,
    /// Transfers that the client may still send.
    pub incoming_window: u32,
    /// Transfer-id that goes next.
    pub next_outgoing_id: u32,
    /// Transfers that we may still send.
    pub remote_incoming_window: u32,
    /// What the client's `begin` or last flow said.
    pub remote_outgoing_window: u32,
    /// Deliveries that the client hasn't settled.
    pub unsettled: usize,
    /// Deliveries that wait for the client's window.
    pub pending: usize,
    /// Links on which the client sends.
    pub incoming: Vec<IncomingView>,
    /// Links on which the client receives.
    pub outgoing: Vec<OutgoingView>,
}

/// A link on which the client sends.
#[derive(Debug, Clone)]
pub struct IncomingView {
    /// Its handle.
    pub handle: u32,
    /// Its name.
    pub name: Arc<str>,
    /// Where it goes, as the client said; none for the anonymous terminus.
    pub target: Option<Arc<str>>,
    /// `unsettled`, `settled` or `mixed`.
    pub settle_mode: &'static str,
    /// The largest message in bytes.
    pub max_message_size: u64,
    /// Deliveries so far, a serial number.
    pub delivery_count: u32,
    /// What the client may still send.
    pub credit: u32,
    /// Messages without an outcome.
    pub unconfirmed: u32,
}

/// A link on which the client receives.
#[derive(Debug, Clone)]
pub struct OutgoingView {
    /// Its handle.
    pub handle: u32,
    /// Its name.
    pub name: Arc<str>,
    /// Where it comes from, as the client said.
    pub source: Arc<str>,
    /// The queue behind it; none for answers without a queue.
    pub queue: Option<Arc<str>>,
    /// Whether deliveries are sent settled.
    pub settled: bool,
    /// The largest message in bytes; 0 for no limit.
    pub max_message_size: u64,
    /// Deliveries so far, a serial number.
    pub delivery_count: u32,
    /// What the client is still ready for.
    pub credit: u32,
    /// Why nothing is delivered, and since when.
    pub wait: Option<QueueWait>,
}
