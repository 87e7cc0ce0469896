//! Identifiers of properties (MQTT 5, 2.2.2.2).

use super::Place;
use crate::kind::PacketKind;

/// The form of a property's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Byte,
    Two,
    Four,
    Variable,
    Text,
    Binary,
    Pair,
}

macro_rules! properties {
    ($($(#[doc = $doc:literal])* $id:ident = $number:literal, $name:literal, $form:ident;)*) => {
        /// The identifier of a property.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum PropertyId {
            $($(#[doc = $doc])* $id = $number,)*
        }

        impl PropertyId {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$id,)*];

            /// The property with this number.
            #[inline]
            pub fn of(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$id),)*
                    _ => None,
                }
            }

            /// Its name in the specification.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$id => $name,)*
                }
            }

            #[inline]
            pub(super) fn form(self) -> Form {
                match self {
                    $(Self::$id => Form::$form,)*
                }
            }
        }
    };
}

properties! {
    /// 1 if the payload is UTF-8.
    PayloadFormatIndicator = 0x01, "Payload Format Indicator", Byte;
    /// Time to live in seconds.
    MessageExpiryInterval = 0x02, "Message Expiry Interval", Four;
    /// The MIME type of the payload.
    ContentType = 0x03, "Content Type", Text;
    /// The topic for responses.
    ResponseTopic = 0x08, "Response Topic", Text;
    /// Data by which a response is recognised.
    CorrelationData = 0x09, "Correlation Data", Binary;
    /// The number of a subscription.
    SubscriptionIdentifier = 0x0b, "Subscription Identifier", Variable;
    /// Seconds for which a session is kept.
    SessionExpiryInterval = 0x11, "Session Expiry Interval", Four;
    /// The client id that the server chose.
    AssignedClientIdentifier = 0x12, "Assigned Client Identifier", Text;
    /// The keep alive that the server wants, in seconds.
    ServerKeepAlive = 0x13, "Server Keep Alive", Two;
    /// The method of extended authentication.
    AuthenticationMethod = 0x15, "Authentication Method", Text;
    /// Its data.
    AuthenticationData = 0x16, "Authentication Data", Binary;
    /// Whether reasons may be told in words.
    RequestProblemInformation = 0x17, "Request Problem Information", Byte;
    /// Seconds by which a will is delayed.
    WillDelayInterval = 0x18, "Will Delay Interval", Four;
    /// Whether the client wants information for response topics.
    RequestResponseInformation = 0x19, "Request Response Information", Byte;
    /// Information for response topics.
    ResponseInformation = 0x1a, "Response Information", Text;
    /// Another server.
    ServerReference = 0x1c, "Server Reference", Text;
    /// The reason in words.
    ReasonString = 0x1f, "Reason String", Text;
    /// Number of messages that may be unacknowledged.
    ReceiveMaximum = 0x21, "Receive Maximum", Two;
    /// The highest topic alias.
    TopicAliasMaximum = 0x22, "Topic Alias Maximum", Two;
    /// The number that stands for a topic.
    TopicAlias = 0x23, "Topic Alias", Two;
    /// The highest QoS that the server has.
    MaximumQoS = 0x24, "Maximum QoS", Byte;
    /// Whether the server has retained messages.
    RetainAvailable = 0x25, "Retain Available", Byte;
    /// A name and a value of the sender's own.
    UserProperty = 0x26, "User Property", Pair;
    /// The largest packet in bytes.
    MaximumPacketSize = 0x27, "Maximum Packet Size", Four;
    /// Whether the server has subscriptions with wildcards.
    WildcardSubscriptionAvailable = 0x28, "Wildcard Subscription Available", Byte;
    /// Whether the server has subscription identifiers.
    SubscriptionIdentifierAvailable = 0x29, "Subscription Identifier Available", Byte;
    /// Whether the server has shared subscriptions.
    SharedSubscriptionAvailable = 0x2a, "Shared Subscription Available", Byte;
}

impl PropertyId {
    /// Whether it may be in this place.
    pub(super) fn belongs(self, place: Place) -> bool {
        use PacketKind as Kind;
        let kind = match place {
            Place::Packet(kind) => kind,
            Place::Will => {
                return matches!(
                    self,
                    Self::WillDelayInterval
                        | Self::PayloadFormatIndicator
                        | Self::MessageExpiryInterval
                        | Self::ContentType
                        | Self::ResponseTopic
                        | Self::CorrelationData
                        | Self::UserProperty
                );
            }
        };
        match self {
            Self::PayloadFormatIndicator
            | Self::MessageExpiryInterval
            | Self::ContentType
            | Self::ResponseTopic
            | Self::CorrelationData
            | Self::TopicAlias => kind == Kind::Publish,
            Self::SubscriptionIdentifier => matches!(kind, Kind::Publish | Kind::Subscribe),
            Self::SessionExpiryInterval => matches!(kind, Kind::Connect | Kind::ConnAck | Kind::Disconnect),
            Self::AuthenticationMethod | Self::AuthenticationData => {
                matches!(kind, Kind::Connect | Kind::ConnAck | Kind::Auth)
            }
            Self::RequestProblemInformation | Self::RequestResponseInformation => kind == Kind::Connect,
            Self::WillDelayInterval => false,
            Self::ServerReference => matches!(kind, Kind::ConnAck | Kind::Disconnect),
            Self::ReceiveMaximum | Self::TopicAliasMaximum | Self::MaximumPacketSize => {
                matches!(kind, Kind::Connect | Kind::ConnAck)
            }
            Self::ReasonString => !matches!(kind, Kind::Connect | Kind::Publish | Kind::Subscribe | Kind::Unsubscribe),
            Self::UserProperty => true,
            Self::AssignedClientIdentifier
            | Self::ServerKeepAlive
            | Self::ResponseInformation
            | Self::MaximumQoS
            | Self::RetainAvailable
            | Self::WildcardSubscriptionAvailable
            | Self::SubscriptionIdentifierAvailable
            | Self::SharedSubscriptionAvailable => kind == Kind::ConnAck,
        }
    }

    /// Whether it may be in this place several times.
    pub(super) fn repeats(self, place: Place) -> bool {
        match self {
            Self::UserProperty => true,
            // A message may match several subscriptions.
            Self::SubscriptionIdentifier => place == Place::Packet(PacketKind::Publish),
            _ => false,
        }
    }

    /// Whether a number may be its value.
    pub(super) fn allows(self, value: u32) -> bool {
        match self {
            Self::PayloadFormatIndicator
            | Self::RequestProblemInformation
            | Self::RequestResponseInformation
            | Self::MaximumQoS
            | Self::RetainAvailable
            | Self::WildcardSubscriptionAvailable
            | Self::SubscriptionIdentifierAvailable
            | Self::SharedSubscriptionAvailable => value <= 1,
            Self::SubscriptionIdentifier | Self::ReceiveMaximum | Self::TopicAlias | Self::MaximumPacketSize => {
                value > 0
            }
            _ => true,
        }
    }
}

impl std::fmt::Display for PropertyId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}
