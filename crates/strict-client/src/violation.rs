//! Violations of the protocol by the peer.

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A rule of the protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])* $name,)*
        }

        impl Rule {
            /// The text of the rule.
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
    /// The bytes are no valid frame, method, header or table, or a frame exceeds `frame_max`.
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
    /// More body bytes than the header announced.
    BodySize = "body frames add up to the size in the header",
    /// A delivery tag that isn't the last one plus one.
    DeliveryTag = "delivery tags of a channel count up by one from 1",
    /// A delivery to a consumer tag that isn't live.
    LiveConsumer = "deliveries go to live consumers",
    /// More unacknowledged messages than prefetch allows.
    Prefetch = "a consumer or channel holds at most its prefetch",
    /// A confirm for a publish that doesn't exist or was confirmed before, or without `confirm.select`.
    Confirm = "a confirm covers only tags that were published and not confirmed yet",
    /// AMQP 1.0: SASL frames, `open` or the protocol headers out of order, or with values out of range.
    OpenOrder = "the protocol headers, SASL and open come in their order",
    /// AMQP 1.0: a channel above the negotiated channel-max.
    ChannelMax = "channel numbers stay within channel-max",
    /// AMQP 1.0: a frame on a channel without a session, or after its end.
    SessionBegun = "frames come only in sessions that were begun and not ended",
    /// AMQP 1.0: a `begin` that answers no `begin`.
    BeginAnswer = "each begin answers one begin by its remote-channel",
    /// AMQP 1.0: an `attach` that answers no `attach`, or with wrong values.
    AttachAnswer = "each attach answers one attach by its name, from the other end",
    /// AMQP 1.0: a handle above handle-max.
    HandleMax = "handles stay within handle-max",
    /// AMQP 1.0: an `attach` with a handle that is attached.
    HandleInUse = "a handle names one link at a time",
    /// AMQP 1.0: a frame for a link that isn't attached, or for its other end.
    HandleAttached = "frames of links come only while the link is attached, and from the right end",
    /// AMQP 1.0: a `detach` that replies differently than requested.
    DetachAnswer = "a link that is closed is answered by closing it",
    /// AMQP 1.0: more transfers than the session's incoming window.
    SessionWindow = "transfers stay within the session's incoming window",
    /// AMQP 1.0: transfer-ids in a `flow` that don't count the transfers.
    TransferIds = "a flow's transfer-ids count the transfers of both sides",
    /// AMQP 1.0: a `flow` with fields of a link but no handle, or without those that it must have.
    FlowFields = "a flow has the fields that its kind needs, and no others",
    /// AMQP 1.0: a delivery beyond link credit.
    LinkCredit = "deliveries stay within link credit",
    /// AMQP 1.0: a delivery-count in a `flow` that doesn't count the deliveries.
    DeliveryCount = "a flow's delivery-count counts the deliveries",
    /// AMQP 1.0: a `flow` of a sender with a credit that was never granted.
    CreditEcho = "a sender's flow repeats a credit that was granted",
    /// AMQP 1.0: a sender that claims to have drained but keeps credit, or that advances without a request.
    Drain = "only a drained link skips deliveries, and it keeps no credit",
    /// AMQP 1.0: delivery-ids that aren't the last one plus one.
    DeliveryId = "the delivery-ids of a session count up by one",
    /// AMQP 1.0: a first transfer without delivery-tag, or with that of an unsettled delivery.
    UniqueTag = "each unsettled delivery of a link has a tag of its own",
    /// AMQP 1.0: a transfer that neither begins nor continues a delivery, or contradicts the first one.
    Continuation = "the transfers of a delivery follow each other on their link and agree",
    /// AMQP 1.0: a delivery settled differently than the link's sender announced.
    SettleMode = "deliveries are settled as the link's snd-settle-mode says",
    /// AMQP 1.0: a message above the link's max-message-size.
    MessageSize = "messages stay within max-message-size",
    /// AMQP 1.0: a disposition of deliveries that weren't sent.
    KnownDelivery = "a disposition names only deliveries that were sent",
    /// AMQP 1.0: a disposition of deliveries that are settled.
    SettledOnce = "a delivery is settled once, and has no state afterwards",
    /// AMQP 1.0: a disposition that ends before it begins.
    DispositionRange = "the last delivery of a disposition isn't before the first",
    /// `basic.cancel` or `connection.blocked` to a client without the capability.
    Capability = "notifications go only to clients with the capability",
}

/// A rule that the peer broke, and the bytes that broke it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the peer broke the rule \"{}\": received {received}", rule.text())]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The received data, with channel and values.
    pub received: String,
}

impl Violation {
    #[cold]
    pub(crate) fn new(rule: Rule, received: impl Into<String>) -> Self {
        Self { rule, received: received.into() }
    }
}

impl From<leveret_amqp10::DecodeError> for Violation {
    fn from(error: leveret_amqp10::DecodeError) -> Self {
        Self::new(Rule::WellFormed, error.to_string())
    }
}

impl From<leveret_amqp091::DecodeError> for Violation {
    fn from(error: leveret_amqp091::DecodeError) -> Self {
        Self::new(Rule::WellFormed, error.to_string())
    }
}
