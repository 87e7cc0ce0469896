use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// Id of one incarnation of a queue: a queue that is deleted and declared again gets a new one. All come from one counter. What is
    /// logged says how far that was, so ids of logged queues are never reused, and those of the others not before a restart.
    QueueId
}
id! {
    /// Id of one incarnation of an exchange; numbered like [`QueueId`].
    ExchangeId
}
id! {
    /// Id of an open connection; exclusive queues are owned by it. Bits 48 to 62 are the [`MemberNumber`] of its node, bits 0 to 47 a counter
    /// of the node's process, so that it is unique among all nodes of a cluster.
    ConnectionId
}

/// Id of a cluster member in all replicated data; never reused. A node that never joined another one is member 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberNumber(pub u16);

/// Bits of the counter in an id that a member gives.
const COUNTER_BITS: u32 = 48;

impl MemberNumber {
    /// The id that a process of this member gives with a counter of its own, such as a [`ConnectionId`]: unique among all members, and below
    /// 2^63 since these are at most 32,767. A counter doesn't come to its end: a million a second would take it nine years.
    #[must_use]
    pub const fn id(self, counter: u64) -> u64 {
        (self.0 as u64) << COUNTER_BITS | counter_of(counter)
    }

    /// The member that gave such an id.
    #[must_use]
    pub const fn of_id(id: u64) -> Self {
        Self((id >> COUNTER_BITS) as u16)
    }
}

/// The counter in an id that a member gave: unique on its node.
const fn counter_of(id: u64) -> u64 {
    id & ((1 << COUNTER_BITS) - 1)
}

impl ConnectionId {
    /// The member whose node has the connection.
    #[must_use]
    pub const fn member(self) -> MemberNumber {
        MemberNumber::of_id(self.0)
    }

    /// The part that is shown where the node is known, in log lines and as a process of the node. Unlike the whole id it is exact in JSON.
    #[must_use]
    pub const fn counter(self) -> u64 {
        counter_of(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_its_member_and_a_counter_that_json_can_show() {
        let id = ConnectionId(MemberNumber(32_767).id((1 << 48) - 2));
        assert_eq!((id.member(), id.counter()), (MemberNumber(32_767), (1 << 48) - 2));
        assert!(id.0 < 1 << 63 && id.counter() < 1 << 53);
        assert_eq!(ConnectionId(MemberNumber(0).id(7)), ConnectionId(7), "a node that never joined another one");
        assert_ne!(MemberNumber(1).id(7), MemberNumber(2).id(7));
    }
}
