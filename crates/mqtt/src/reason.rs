//! Reason codes (MQTT 5, 2.4), and their counterparts in the CONNACK of MQTT 3.

/// A reason code of MQTT 5. Codes below 0x80 are a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReasonCode(pub u8);

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $text:literal;)*) => {
        impl ReasonCode {
            $($(#[doc = $doc])* pub const $name: Self = Self($code);)*

            /// Its name in the specification.
            pub fn text(self) -> &'static str {
                match self.0 {
                    $($code => $text,)*
                    _ => "unknown reason code",
                }
            }
        }
    };
}

codes! {
    /// Success; granted QoS 0; normal disconnection.
    SUCCESS = 0x00, "Success";
    /// Granted QoS 1.
    GRANTED_QOS_1 = 0x01, "Granted QoS 1";
    /// Granted QoS 2.
    GRANTED_QOS_2 = 0x02, "Granted QoS 2";
    /// The will is wanted although the client disconnects.
    DISCONNECT_WITH_WILL = 0x04, "Disconnect with Will Message";
    /// The topic has no subscription.
    NO_MATCHING_SUBSCRIBERS = 0x10, "No matching subscribers";
    /// There was no such subscription.
    NO_SUBSCRIPTION_EXISTED = 0x11, "No subscription existed";
    /// A further step of authentication.
    CONTINUE_AUTHENTICATION = 0x18, "Continue authentication";
    /// The client authenticates anew.
    RE_AUTHENTICATE = 0x19, "Re-authenticate";
    /// The reason is not told.
    UNSPECIFIED_ERROR = 0x80, "Unspecified error";
    /// The packet can't be parsed.
    MALFORMED_PACKET = 0x81, "Malformed Packet";
    /// The packet isn't allowed here.
    PROTOCOL_ERROR = 0x82, "Protocol Error";
    /// The receiver doesn't accept it.
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83, "Implementation specific error";
    /// There is no such version.
    UNSUPPORTED_PROTOCOL_VERSION = 0x84, "Unsupported Protocol Version";
    /// The client id is not allowed.
    CLIENT_IDENTIFIER_NOT_VALID = 0x85, "Client Identifier not valid";
    /// User name or password are wrong.
    BAD_USER_NAME_OR_PASSWORD = 0x86, "Bad User Name or Password";
    /// The client may not do this.
    NOT_AUTHORIZED = 0x87, "Not authorized";
    /// The server isn't available.
    SERVER_UNAVAILABLE = 0x88, "Server unavailable";
    /// The server is busy.
    SERVER_BUSY = 0x89, "Server busy";
    /// The client is banned.
    BANNED = 0x8a, "Banned";
    /// The server stops.
    SERVER_SHUTTING_DOWN = 0x8b, "Server shutting down";
    /// There is no such method of authentication.
    BAD_AUTHENTICATION_METHOD = 0x8c, "Bad authentication method";
    /// The client was silent for too long.
    KEEP_ALIVE_TIMEOUT = 0x8d, "Keep Alive timeout";
    /// Another connection has the client id now.
    SESSION_TAKEN_OVER = 0x8e, "Session taken over";
    /// The topic filter is not allowed.
    TOPIC_FILTER_INVALID = 0x8f, "Topic TopicFilter invalid";
    /// The topic name is not allowed.
    TOPIC_NAME_INVALID = 0x90, "Topic Name invalid";
    /// The packet identifier is in use.
    PACKET_IDENTIFIER_IN_USE = 0x91, "Packet Identifier in use";
    /// The packet identifier is not known.
    PACKET_IDENTIFIER_NOT_FOUND = 0x92, "Packet Identifier not found";
    /// More messages are unacknowledged than allowed.
    RECEIVE_MAXIMUM_EXCEEDED = 0x93, "Receive Maximum exceeded";
    /// The topic alias is above the maximum, or stands for nothing.
    TOPIC_ALIAS_INVALID = 0x94, "Topic Alias invalid";
    /// The packet is too large.
    PACKET_TOO_LARGE = 0x95, "Packet too large";
    /// The client sends too much.
    MESSAGE_RATE_TOO_HIGH = 0x96, "Message rate too high";
    /// A limit is reached.
    QUOTA_EXCEEDED = 0x97, "Quota exceeded";
    /// An operator closed the connection.
    ADMINISTRATIVE_ACTION = 0x98, "Administrative action";
    /// The payload isn't what its format says.
    PAYLOAD_FORMAT_INVALID = 0x99, "Payload format invalid";
    /// The server keeps no messages.
    RETAIN_NOT_SUPPORTED = 0x9a, "Retain not supported";
    /// The server doesn't have this level.
    QOS_NOT_SUPPORTED = 0x9b, "QoS not supported";
    /// The client should use another server, this time.
    USE_ANOTHER_SERVER = 0x9c, "Use another server";
    /// The client should use another server, from now on.
    SERVER_MOVED = 0x9d, "Server moved";
    /// There are no shared subscriptions.
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9e, "Shared Subscriptions not supported";
    /// Too many connections come.
    CONNECTION_RATE_EXCEEDED = 0x9f, "Connection rate exceeded";
    /// The connection lasted for as long as it may.
    MAXIMUM_CONNECT_TIME = 0xa0, "Maximum connect time";
    /// There are no subscription identifiers.
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xa1, "Subscription Identifiers not supported";
    /// There are no subscriptions with wildcards.
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xa2, "Wildcard Subscriptions not supported";
}

impl ReasonCode {
    /// Whether it means a failure.
    #[inline]
    pub fn is_error(self) -> bool {
        self.0 >= 0x80
    }

    /// The return code of MQTT 3.1.1 (3.2.2.3) for a CONNACK with this reason.
    pub fn connect_return_code(self) -> u8 {
        match self {
            Self::SUCCESS => 0,
            Self::UNSUPPORTED_PROTOCOL_VERSION => 1,
            Self::CLIENT_IDENTIFIER_NOT_VALID => 2,
            Self::BAD_USER_NAME_OR_PASSWORD => 4,
            Self::NOT_AUTHORIZED | Self::BANNED | Self::BAD_AUTHENTICATION_METHOD => 5,
            _ => 3,
        }
    }
}

impl std::fmt::Display for ReasonCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:#04x} ({})", self.0, self.text())
    }
}
