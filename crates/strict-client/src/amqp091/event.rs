//! Events from the peer.

use leveret_amqp091::FieldTable;

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
    /// Channel it came on.
    pub channel: u16,
    /// Tag of the consumer; empty for `basic.get-ok` and `basic.return`.
    pub consumer_tag: Span,
    /// The tag to acknowledge it with; 0 for `basic.return`.
    pub delivery_tag: u64,
    /// The flag `redelivered`.
    pub redelivered: bool,
    /// Exchange it was published to.
    pub exchange: Span,
    /// Its routing key.
    pub routing_key: Span,
    /// Property flags and list, checked.
    pub properties: Span,
    /// The body.
    pub body: Span,
}

/// The reason of the server for closing a channel or connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseReason {
    /// Reply code.
    pub code: u16,
    /// Reply text.
    pub text: String,
    /// Class and method that caused it, or zeros.
    pub blamed: (u16, u16),
}

/// A valid event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// `connection.start`; the reply is in the output.
    Started {
        /// The server's properties.
        properties: FieldTable,
    },
    /// `connection.open-ok`: channels may be opened.
    Connected,
    /// The server stops reading publishes.
    Blocked {
        /// Its reason.
        reason: String,
    },
    /// The server reads publishes again.
    Unblocked,
    /// The server closed the connection; the reply is in the output.
    ConnectionClosed(CloseReason),
    /// The server confirmed our close.
    ConnectionCloseOk,
    /// The server closed a channel; the reply is in the output.
    ChannelClosed {
        /// The channel.
        channel: u16,
        /// The reason.
        reason: CloseReason,
    },
    /// A reply without fields, such as `queue.bind-ok`, by name.
    Reply {
        /// Channel.
        channel: u16,
        /// Name of the reply.
        method: &'static str,
    },
    /// `queue.declare-ok`.
    QueueDeclared {
        /// Channel.
        channel: u16,
        /// Name of the queue.
        queue: Vec<u8>,
        /// Messages that are ready.
        message_count: u32,
        /// Consumers.
        consumer_count: u32,
    },
    /// `queue.purge-ok` or `queue.delete-ok`.
    Removed {
        /// Channel.
        channel: u16,
        /// Name of the reply.
        method: &'static str,
        /// Number of messages removed.
        message_count: u32,
    },
    /// `basic.consume-ok`.
    ConsumeOk {
        /// Channel.
        channel: u16,
        /// The consumer's tag.
        consumer_tag: Vec<u8>,
    },
    /// `basic.cancel-ok`.
    CancelOk {
        /// Channel.
        channel: u16,
        /// The consumer's tag.
        consumer_tag: Vec<u8>,
    },
    /// The server cancelled a consumer.
    ConsumerCancelled {
        /// Channel.
        channel: u16,
        /// The consumer's tag.
        consumer_tag: Vec<u8>,
    },
    /// A message for a consumer.
    Delivered(Delivery),
    /// A message in reply to `basic.get`.
    Got {
        /// The message.
        delivery: Delivery,
        /// Messages left in the queue.
        message_count: u32,
    },
    /// `basic.get-empty`.
    GetEmpty {
        /// Channel.
        channel: u16,
    },
    /// A message was returned.
    Returned {
        /// The message.
        message: Delivery,
        /// Reply code.
        code: u16,
    },
    /// Publishes were confirmed, each tag of the range for the first and only time.
    Confirmed {
        /// Channel.
        channel: u16,
        /// First tag.
        first: u64,
        /// Last tag.
        last: u64,
        /// True for `basic.ack`, false for `basic.nack`.
        positive: bool,
    },
}
