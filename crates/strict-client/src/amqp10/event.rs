//! What a client learns from its peer.

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
    /// How many bytes.
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

/// A message that arrived whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// The client's channel.
    pub channel: u16,
    /// The client's handle of the link.
    pub handle: u32,
    /// The delivery's number in its session.
    pub delivery_id: Serial,
    /// The delivery's name on its link.
    pub tag: Span,
    /// 0 for a message of sections.
    pub message_format: u32,
    /// Whether the peer settled it.
    pub settled: bool,
    /// The message: the payloads of all its transfers.
    pub payload: Span,
    /// How many transfers it took.
    pub transfers: u32,
}

/// Something that the peer sent and that was right.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The server's SASL mechanisms; the choice is in the output.
    Mechanisms(Vec<String>),
    /// A step of SASL that the client doesn't know; [`Client::sasl_response`](super::Client::sasl_response) answers.
    Challenge(Span),
    /// SASL ended without success, by its code.
    SaslFailed(u8),
    /// `open`: sessions may be begun.
    Opened {
        /// The peer's name.
        container_id: String,
        /// Largest frame in bytes that the peer takes.
        max_frame_size: u32,
        /// Highest channel number that may be used.
        channel_max: u16,
        /// The peer closes after this many milliseconds without a frame.
        idle_time_out: Option<u32>,
        /// Extensions that the peer has.
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
        /// Transfer frames that the peer takes.
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
        /// Transfer frames that may be sent from now on.
        window: u32,
        /// Whether the peer asked for an answer, which is in the output.
        echo: bool,
    },
    /// `flow` of a link.
    LinkFlow {
        /// The client's channel.
        channel: u16,
        /// The client's handle.
        handle: u32,
        /// Deliveries that may be sent (of a sender), or that the peer may send (of a receiver).
        credit: u32,
        /// The link's delivery-count.
        delivery_count: Serial,
        /// Messages that the peer has.
        available: Option<u32>,
        /// Of a sender: whether the peer asked to use up the credit. Of a receiver: whether the peer did so.
        drained: bool,
        /// Whether the peer asked for an answer, which is in the output.
        echo: bool,
    },
    /// A message.
    Delivered(Delivery),
    /// A delivery was aborted.
    Aborted {
        /// The client's channel.
        channel: u16,
        /// The client's handle.
        handle: u32,
        /// Its number.
        delivery_id: Serial,
    },
    /// `disposition`: the peer's view of deliveries, none of them settled before.
    Disposition {
        /// The client's channel.
        channel: u16,
        /// Which end the peer is.
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
    /// `detach`; if the peer began, the answer is in the output.
    Detached {
        /// The client's channel.
        channel: u16,
        /// The client's handle.
        handle: u32,
        /// Whether the link is closed for good.
        closed: bool,
        /// The peer's reason.
        error: Option<PeerError>,
        /// Whether the peer began.
        by_peer: bool,
    },
    /// `end`; if the peer began, the answer is in the output.
    Ended {
        /// The client's channel.
        channel: u16,
        /// The peer's reason.
        error: Option<PeerError>,
        /// Whether the peer began.
        by_peer: bool,
    },
    /// `close`; if the peer began, the answer is in the output.
    Closed {
        /// The peer's reason.
        error: Option<PeerError>,
        /// Whether the peer began.
        by_peer: bool,
    },
    /// An empty frame, which keeps an idle connection open.
    Empty,
}
