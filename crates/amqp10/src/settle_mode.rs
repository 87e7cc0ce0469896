//! Roles and settlement modes (2.8.1 to 2.8.3).

use crate::error::Problem;
use crate::field::{Field, number_choice};
use crate::wire::Reader;

/// The role of an end of a link (2.8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Role {
    /// `false` on the wire.
    #[default]
    Sender,
    /// `true` on the wire.
    Receiver,
}

impl Role {
    /// The other end.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}

impl<'a> Field<'a> for Role {
    #[inline(always)]
    fn read(code: u8, reader: &mut Reader<'a>) -> Result<Self, Problem> {
        bool::read(code, reader).map(|receiver| if receiver { Self::Receiver } else { Self::Sender })
    }

    #[inline(always)]
    fn write(&self, out: &mut Vec<u8>) {
        (*self == Self::Receiver).write(out);
    }
}

number_choice! {
    /// The settlement mode of a sender (2.8.2).
    SenderSettleMode: u8, "0 (unsettled), 1 (settled) or 2 (mixed)" {
        /// All deliveries are sent unsettled.
        Unsettled = 0,
        /// All deliveries are sent settled.
        Settled = 1,
        /// The sender decides for each delivery.
        #[default]
        Mixed = 2,
    }
}

number_choice! {
    /// The settlement mode of a receiver (2.8.3).
    ReceiverSettleMode: u8, "0 (first) or 1 (second)" {
        /// The receiver settles spontaneously.
        #[default]
        First = 0,
        /// The receiver settles after the sender.
        Second = 1,
    }
}
