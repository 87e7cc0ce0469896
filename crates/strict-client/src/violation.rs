//! What the peer did wrong.

use leveret_amqp091::DecodeError;

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A rule of the protocol that was broken.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])* $name,)*
        }

        impl Rule {
            /// The rule in words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

rules! {
    /// Bytes that are no frame, method, header or table, or a frame beyond `frame_max`.
    WellFormed = "every frame is well formed and within frame_max",
    /// `connection.start`, `tune`, `open-ok` out of order, or with values out of range.
    Handshake = "the handshake is start, secure*, tune, open-ok with legal values",
    /// A frame after the connection was closed.
    ConnectionClosed = "nothing follows the end of a connection",
    /// A frame on a channel that isn't open.
    ChannelOpen = "frames come only on open channels",
    /// A method of the connection on another channel than 0, or the other way round.
    ChannelZero = "connection methods, and only these, use channel 0",
    /// A method that only clients send.
    ServerMethod = "a server sends only the methods of a server",
    /// A reply that wasn't asked for, or out of order.
    Reply = "each reply answers the oldest open request of its channel",
    /// A reply names another object than the request.
    ReplyValue = "a reply repeats the name that the request gave",
    /// A frame between method, header and bodies of a content, or a content frame without its method.
    ContentOrder = "method, header and bodies of a content follow each other on their channel",
    /// More body than the header announced.
    BodySize = "body frames add up to the size in the header",
    /// A delivery tag that isn't the last one plus one.
    DeliveryTag = "delivery tags of a channel count up by one from 1",
    /// A delivery to a consumer tag that isn't live.
    LiveConsumer = "deliveries go to live consumers",
    /// More unacknowledged messages than prefetch allows.
    Prefetch = "a consumer or channel holds at most its prefetch",
    /// A confirm for what wasn't published or was confirmed before, or without `confirm.select`.
    Confirm = "a confirm covers only tags that were published and not confirmed yet",
    /// `basic.cancel` or `connection.blocked` to a client that doesn't have the capability.
    Capability = "notifications go only to clients with the capability",
}

/// A rule that the peer broke, and what it sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the peer broke the rule \"{}\": received {received}", rule.text())]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What was received, with channel and values.
    pub received: String,
}

impl Violation {
    #[cold]
    pub(crate) fn new(rule: Rule, received: impl Into<String>) -> Self {
        Self { rule, received: received.into() }
    }
}

impl From<DecodeError> for Violation {
    fn from(error: DecodeError) -> Self {
        Self::new(Rule::WellFormed, error.to_string())
    }
}
