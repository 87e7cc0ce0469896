//! Events from the peer.

use leveret_amqp10::value::OwnedMap;
use leveret_amqp10::{Role, Serial};

use super::state::{PeerError, State};

/// Bytes that stay readable with [`Client::bytes`](super::Client::bytes) until the next `receive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub(crate) start: u32,
    pub(crate) length: u32,
}

impl Span {
    /// Number of bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.length as usize
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.length == 0
    }
}

/// A complete message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// The client's channel.
    pub channel: u16,
    /// The client's handle of the link.
    pub handle: u32,
    /// The delivery-id.
    pub delivery_id: Serial,
    /// The delivery-tag.
    pub tag: Span,
    /// The message format, 0 for that of the specification's part 3.
    pub message_format: u32,
    /// Whether the peer settled it.
    pub settled: bool,
    /// The message: the payloads of all its transfers.
    pub payload: Span,
    /// Number of its transfers.
    pub transfers: u32,
}

/// A valid event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The server's SASL mechanisms; the client's choice is in the output.
    Mechanisms(Vec<String>),
    /// A challenge of a mechanism unknown to the client; reply with
    /// [`Client::sasl_response`](super::Client::sasl_response).
    Challenge(Span),
    /// SASL failed with this code.
    SaslFailed(u8),
    /// `open`: sessions may be begun.
    Opened {
        /// The peer's name.
        container_id: String,
        /// Largest frame in bytes that the peer accepts.
        max_frame_size: u32,
        /// Highest channel number that may be used.
        channel_max: u16,
        /// Time without a frame after which the peer closes, in milliseconds.
        idle_time_out: Option<u32>,
        /// Extensions that the peer supports.
        offered_capabilities: Vec<String>,
        /// The peer's properties.
        properties: OwnedMap,
    },
    /// `begin`: links may be attached.
    Begun {
        /// The client's channel.
        channel: u16,
        /// Highest handle that may be used.
        handle_max: u32,
        /// Number of transfer frames that the peer accepts.
        incoming_window: u32,
    },
    /// `attach`: the other end of a link.
    Attached {
        /// The client's channel.
        channel: u16,
        /// The client's handle.
        handle: u32,
        /// The performative, for [`Performative::decode`](leveret_amqp10::Performative::decode).
        attach: Span,
    },
    /// `flow` of a session.
    SessionFlow {
        /// The client's channel.
        channel: u16,
        /// Number of transfer frames that may be sent from now on.
        window: u32,
        /// Whether the peer requested a reply, which is in the output.
        echo: bool,
    },
    /// `flow` of a link.
    LinkFlow {
        /// The client's channel.
        channel: u16,
        /// The client's handle.
        handle: u32,
        /// Number of deliveries that may be sent (of a sender), or that the peer may send (of a receiver).
        credit: u32,
        /// The link's delivery-count.
        delivery_count: Serial,
        /// Number of messages available at the peer.
        available: Option<u32>,
        /// Of a sender: whether the peer requested a drain. Of a receiver: whether the peer drained.
        drained: bool,
        /// Whether the peer requested a reply, which is in the output.
        echo: bool,
        /// Of a receiver: the property `rabbitmq:active`, whether it is the active consumer of its queue.
        active: Option<bool>,
    },
    /// A message.
    Delivered(Delivery),
    /// A delivery was aborted.
    Aborted {
        /// The client's channel.
        channel: u16,
        /// The client's handle.
        handle: u32,
        /// Its delivery-id.
        delivery_id: Serial,
    },
    /// `disposition`: the peer's state of deliveries, none of which was settled before.
    Disposition {
        /// The client's channel.
        channel: u16,
        /// The peer's role.
        role: Role,
        /// The first delivery.
        first: Serial,
        /// The last one.
        last: Serial,
        /// Whether the peer settled them.
        settled: bool,
        /// Their state.
        state: Option<State>,
    },
    /// `detach`; if the peer initiated it, the reply is in the output.
    Detached {
        /// The client's channel.
        channel: u16,
        /// The client's handle.
        handle: u32,
        /// Whether the link is closed for good.
        closed: bool,
        /// The peer's reason.
        error: Option<PeerError>,
        /// Whether the peer initiated it.
        by_peer: bool,
    },
    /// `end`; if the peer initiated it, the reply is in the output.
    Ended {
        /// The client's channel.
        channel: u16,
        /// The peer's reason.
        error: Option<PeerError>,
        /// Whether the peer initiated it.
        by_peer: bool,
    },
    /// `close`; if the peer initiated it, the reply is in the output.
    Closed {
        /// The peer's reason.
        error: Option<PeerError>,
        /// Whether the peer initiated it.
        by_peer: bool,
    },
    /// An empty frame, which keeps an idle connection open.
    Empty,
}
