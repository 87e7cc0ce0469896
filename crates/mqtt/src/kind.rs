//! Types of packets (MQTT 5, 2.1.2).

/// The type of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PacketKind {
    /// The client asks for a connection.
    Connect = 1,
    /// The answer to CONNECT.
    ConnAck = 2,
    /// A message.
    Publish = 3,
    /// The answer to a PUBLISH of QoS 1.
    PubAck = 4,
    /// The first answer to a PUBLISH of QoS 2.
    PubRec = 5,
    /// The answer to PUBREC.
    PubRel = 6,
    /// The answer to PUBREL.
    PubComp = 7,
    /// The client asks for subscriptions.
    Subscribe = 8,
    /// The answer to SUBSCRIBE.
    SubAck = 9,
    /// The client ends subscriptions.
    Unsubscribe = 10,
    /// The answer to UNSUBSCRIBE.
    UnsubAck = 11,
    /// The client shows that it is alive.
    PingReq = 12,
    /// The answer to PINGREQ.
    PingResp = 13,
    /// The sender ends the connection.
    Disconnect = 14,
    /// A step of extended authentication, in MQTT 5 only.
    Auth = 15,
}

impl PacketKind {
    /// The type with this number; `None` for 0, which is forbidden.
    #[inline]
    pub fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Connect,
            2 => Self::ConnAck,
            3 => Self::Publish,
            4 => Self::PubAck,
            5 => Self::PubRec,
            6 => Self::PubRel,
            7 => Self::PubComp,
            8 => Self::Subscribe,
            9 => Self::SubAck,
            10 => Self::Unsubscribe,
            11 => Self::UnsubAck,
            12 => Self::PingReq,
            13 => Self::PingResp,
            14 => Self::Disconnect,
            15 => Self::Auth,
            _ => return None,
        })
    }

    /// Its name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "CONNECT",
            Self::ConnAck => "CONNACK",
            Self::Publish => "PUBLISH",
            Self::PubAck => "PUBACK",
            Self::PubRec => "PUBREC",
            Self::PubRel => "PUBREL",
            Self::PubComp => "PUBCOMP",
            Self::Subscribe => "SUBSCRIBE",
            Self::SubAck => "SUBACK",
            Self::Unsubscribe => "UNSUBSCRIBE",
            Self::UnsubAck => "UNSUBACK",
            Self::PingReq => "PINGREQ",
            Self::PingResp => "PINGRESP",
            Self::Disconnect => "DISCONNECT",
            Self::Auth => "AUTH",
        }
    }

    /// The flags that its fixed header has to have (2.1.3); `None` for PUBLISH, whose flags mean something.
    #[inline]
    pub(crate) fn flags(self) -> Option<u8> {
        match self {
            Self::Publish => None,
            Self::PubRel | Self::Subscribe | Self::Unsubscribe => Some(0b0010),
            _ => Some(0),
        }
    }
}

impl std::fmt::Display for PacketKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}
