//! Quality of service.

/// The quality of service of a message or a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum QoS {
    /// 0: sent once, and not acknowledged.
    #[default]
    AtMostOnce,
    /// 1: sent until it is acknowledged.
    AtLeastOnce,
    /// 2: as 1, and the receiver drops what it has already.
    ExactlyOnce,
}

impl QoS {
    /// The level with this number; `None` above 2.
    #[inline]
    pub fn of(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }

    /// The number of the level.
    #[inline]
    pub fn bits(self) -> u8 {
        self as u8
    }
}
