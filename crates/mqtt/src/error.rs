//! Errors in the peer's bytes.

use crate::kind::PacketKind;
use crate::properties::PropertyId;
use crate::reason::ReasonCode;

/// The bytes are no packet, or one that is never allowed. The text says what was received and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The packet type 0 is forbidden.
    #[error("cannot decode a packet: type 0 is forbidden (MQTT 5, 2.1.2)")]
    ForbiddenKind,
    /// The flags of the fixed header aren't those of the packet's type [MQTT-2.1.3-1].
    #[error("cannot decode {kind}: flags {received:#06b}, expected {expected:#06b} [MQTT-2.1.3-1]")]
    Flags {
        /// The type of the packet.
        kind: PacketKind,
        /// The flags received.
        received: u8,
        /// The only ones allowed.
        expected: u8,
    },
    /// A variable byte integer is longer than four bytes (1.5.5).
    #[error("cannot decode {field}: a variable byte integer has more than four bytes (MQTT 5, 1.5.5)")]
    VariableInteger {
        /// The field that was being read.
        field: &'static str,
    },
    /// A variable byte integer isn't written in as few bytes as possible [MQTT-1.5.5-1].
    #[error("cannot decode {field}: a variable byte integer is longer than needed [MQTT-1.5.5-1]")]
    LongVariableInteger {
        /// The field that was being read.
        field: &'static str,
    },
    /// The packet is larger than its receiver allows.
    #[error("packet too large: {size} bytes, the limit is {max}")]
    TooLarge {
        /// The size of the whole packet in bytes.
        size: u32,
        /// The limit in bytes.
        max: u32,
    },
    /// The packet ends within a field.
    #[error("cannot decode {kind}: {field} needs {needed} bytes, {available} are left")]
    Truncated {
        /// The type of the packet.
        kind: PacketKind,
        /// The field that was being read.
        field: &'static str,
        /// Bytes that the field needs.
        needed: u32,
        /// Bytes available.
        available: u32,
    },
    /// Bytes follow the last field.
    #[error("cannot decode {kind}: {count} bytes follow its last field")]
    Excess {
        /// The type of the packet.
        kind: PacketKind,
        /// Number of bytes.
        count: u32,
    },
    /// A string isn't UTF-8 [MQTT-1.5.4-1].
    #[error("cannot decode {kind}: {field} isn't UTF-8 behind its first {valid_up_to} bytes [MQTT-1.5.4-1]")]
    NotUtf8 {
        /// The type of the packet.
        kind: PacketKind,
        /// The field that was being read.
        field: &'static str,
        /// Bytes that are UTF-8.
        valid_up_to: u16,
    },
    /// A string has the character U+0000 [MQTT-1.5.4-2].
    #[error("cannot decode {kind}: {field} has the character U+0000 [MQTT-1.5.4-2]")]
    NullCharacter {
        /// The type of the packet.
        kind: PacketKind,
        /// The field that was being read.
        field: &'static str,
    },
    /// A packet identifier is 0 [MQTT-2.2.1-3].
    #[error("cannot decode {kind}: packet identifier 0 [MQTT-2.2.1-3]")]
    PacketIdZero {
        /// The type of the packet.
        kind: PacketKind,
    },
    /// The protocol name isn't MQTT's [MQTT-3.1.2-1], or there is no such level of it [MQTT-3.1.2-2].
    #[error(
        "cannot decode CONNECT: unacceptable protocol version, level {level} of a protocol that isn't MQIsdp 3, MQTT 4 or MQTT 5"
    )]
    ProtocolVersion {
        /// The level received.
        level: u8,
    },
    /// The connect flags contradict each other, or the reserved one is set [MQTT-3.1.2-3].
    #[error("cannot decode CONNECT: connect flags {flags:#010b}: {why}")]
    ConnectFlags {
        /// The flags received.
        flags: u8,
        /// The rule that they break.
        why: &'static str,
    },
    /// The client id is longer than MQTT 3.1 allows, or empty there.
    #[error("cannot decode CONNECT: a client identifier of {length} bytes, MQTT 3.1 has 1 to 23")]
    ClientIdLength {
        /// Its length in bytes.
        length: u16,
    },
    /// Both bits of the QoS are set [MQTT-3.3.1-4].
    #[error("cannot decode {kind}: QoS 3 [MQTT-3.3.1-4]")]
    QoS {
        /// The type of the packet.
        kind: PacketKind,
    },
    /// A message of QoS 0 has DUP set [MQTT-3.3.1-2].
    #[error("cannot decode PUBLISH: DUP is set in a message of QoS 0 [MQTT-3.3.1-2]")]
    DuplicateOfQoS0,
    /// A topic name is empty, although no alias stands for it [MQTT-4.7.3-1].
    #[error("cannot decode {kind}: an empty topic name [MQTT-4.7.3-1]")]
    EmptyTopic {
        /// The type of the packet.
        kind: PacketKind,
    },
    /// A topic name has a wildcard [MQTT-3.3.2-2].
    #[error("cannot decode {kind}: a topic name with a wildcard [MQTT-3.3.2-2]")]
    WildcardInTopic {
        /// The type of the packet.
        kind: PacketKind,
    },
    /// A topic filter is empty, or has a wildcard where none may be [MQTT-4.7.1-1] [MQTT-4.7.1-2].
    #[error("cannot decode {kind}: topic filter number {number} is invalid: {why}")]
    TopicFilter {
        /// The type of the packet.
        kind: PacketKind,
        /// Its number in the packet, from 1.
        number: u32,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// SUBSCRIBE or UNSUBSCRIBE has no topic filter [MQTT-3.8.3-2] [MQTT-3.10.3-2].
    #[error("cannot decode {kind}: no topic filter")]
    NoTopicFilter {
        /// The type of the packet.
        kind: PacketKind,
    },
    /// Subscription options have a reserved bit or value [MQTT-3.8.3-5].
    #[error("cannot decode SUBSCRIBE: subscription options {options:#010b}: {why}")]
    SubscriptionOptions {
        /// The options received.
        options: u8,
        /// The rule that they break.
        why: &'static str,
    },
    /// There is no property with this identifier.
    #[error("cannot decode {kind}: unknown property {id:#04x}")]
    UnknownProperty {
        /// The type of the packet.
        kind: PacketKind,
        /// The identifier received.
        id: u32,
    },
    /// The property isn't one of this type of packet (2.2.2.2).
    #[error("cannot decode {kind}: property {id} doesn't belong there")]
    MisplacedProperty {
        /// The type of the packet.
        kind: PacketKind,
        /// The property.
        id: PropertyId,
    },
    /// The property may be there once only.
    #[error("cannot decode {kind}: property {id} is there twice")]
    RepeatedProperty {
        /// The type of the packet.
        kind: PacketKind,
        /// The property.
        id: PropertyId,
    },
    /// The property has a value that is never allowed.
    #[error("cannot decode {kind}: property {id} has the value {value}")]
    PropertyValue {
        /// The type of the packet.
        kind: PacketKind,
        /// The property.
        id: PropertyId,
        /// The value received.
        value: u32,
    },
    /// The property depends on another one that isn't there.
    #[error("cannot decode {kind}: property {id} without {without}")]
    LonelyProperty {
        /// The type of the packet.
        kind: PacketKind,
        /// The property.
        id: PropertyId,
        /// The property that is missing.
        without: PropertyId,
    },
    /// The version of the protocol has no such packet.
    #[error("cannot decode {kind}: this version of MQTT has no such packet")]
    NotInVersion {
        /// The type of the packet.
        kind: PacketKind,
    },
    /// The packet's type doesn't have this reason code, or a reserved flag of CONNACK is set.
    #[error("cannot decode {kind}: {code:#04x} isn't a code of such a packet")]
    Code {
        /// The type of the packet.
        kind: PacketKind,
        /// The code received.
        code: u8,
    },
}

impl DecodeError {
    /// The reason code that MQTT 5 has for it.
    pub fn reason(&self) -> ReasonCode {
        match self {
            Self::TooLarge { .. } => ReasonCode::PACKET_TOO_LARGE,
            Self::ProtocolVersion { .. } => ReasonCode::UNSUPPORTED_PROTOCOL_VERSION,
            Self::ClientIdLength { .. } => ReasonCode::CLIENT_IDENTIFIER_NOT_VALID,
            Self::WildcardInTopic { .. } => ReasonCode::TOPIC_NAME_INVALID,
            Self::TopicFilter { .. } => ReasonCode::TOPIC_FILTER_INVALID,
            Self::PropertyValue { id: PropertyId::TopicAlias, .. } => ReasonCode::TOPIC_ALIAS_INVALID,
            Self::EmptyTopic { .. }
            | Self::NoTopicFilter { .. }
            | Self::RepeatedProperty { .. }
            | Self::PropertyValue { .. }
            | Self::LonelyProperty { .. }
            | Self::PacketIdZero { .. }
            | Self::NotInVersion { .. }
            | Self::Code { .. } => ReasonCode::PROTOCOL_ERROR,
            _ => ReasonCode::MALFORMED_PACKET,
        }
    }
}

/// Decoding fails with the first error.
pub(crate) type Decoded<T> = Result<T, DecodeError>;
