//! Answers that are sent once the disk has what they tell.

use leveret_mqtt::{AckKind, ReasonCode};
use smallvec::SmallVec;

/// The acknowledgement of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub packet_id: u16,
    /// PUBACK or PUBREC.
    pub kind: AckKind,
    pub reason: ReasonCode,
}

/// Something that is sent once the disk has what it tells.
pub(crate) enum Confirming {
    /// The acknowledgements of a run of messages, by their index there.
    Publishes(SmallVec<[(u32, Acknowledged); 2]>),
    /// PUBREL of a message.
    Release(u16),
    /// PUBCOMP of a message.
    Complete(u16),
}
