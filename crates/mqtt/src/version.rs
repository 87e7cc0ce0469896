//! Versions of the protocol.

/// A version of MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// MQTT 3.1, whose protocol name is `MQIsdp`.
    V310,
    /// MQTT 3.1.1.
    V311,
    /// MQTT 5.0.
    V50,
}

impl Version {
    /// All versions, the oldest first.
    pub const ALL: [Self; 3] = [Self::V310, Self::V311, Self::V50];

    /// The version of a CONNECT with this protocol name and level; `None` if there is no such version.
    pub fn of(name: &[u8], level: u8) -> Option<Self> {
        match (name, level) {
            (b"MQIsdp", 3) => Some(Self::V310),
            (b"MQTT", 4) => Some(Self::V311),
            (b"MQTT", 5) => Some(Self::V50),
            _ => None,
        }
    }

    /// The protocol name in a CONNECT.
    pub fn name(self) -> &'static str {
        match self {
            Self::V310 => "MQIsdp",
            Self::V311 | Self::V50 => "MQTT",
        }
    }

    /// The protocol level in a CONNECT.
    pub fn level(self) -> u8 {
        match self {
            Self::V310 => 3,
            Self::V311 => 4,
            Self::V50 => 5,
        }
    }

    /// Whether packets have properties and reason codes.
    #[inline]
    pub fn has_properties(self) -> bool {
        self == Self::V50
    }
}
