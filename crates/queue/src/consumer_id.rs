//! The name of a consumer.

use leveret_model::MemberNumber;

/// A consumer of one queue. Bits 48 to 62 are the member number of the node that its client is connected to, bits 0 to 47 a counter of the
/// node's process, so that it is unique among all nodes of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumerId(pub u64);

impl ConsumerId {
    /// The consumer of a record; `None` for 0, which is nobody's.
    pub fn or_none(id: u64) -> Option<Self> {
        (id != 0).then_some(Self(id))
    }

    /// The member that its client is connected to.
    pub fn member(self) -> MemberNumber {
        MemberNumber((self.0 >> 48) as u16 & 0x7fff)
    }
}
