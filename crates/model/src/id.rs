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
    /// Names one incarnation of a queue: a queue that is deleted and declared again has a new one.
    /// Ids of logged queues are never used again; see [`QueueId::is_transient`] for the others.
    QueueId
}
id! {
    /// Names one incarnation of an exchange; numbered like [`QueueId`].
    ExchangeId
}
id! {
    /// Names a connection while it lives; the owner of exclusive queues.
    ConnectionId
}

/// Names a member of a cluster in all that is replicated; never given twice. A node that never joined another one is
/// member 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberNumber(pub u16);

/// Objects that aren't logged count from here, with a counter that starts again with the process, so
/// that the numbers of logged objects follow from the log alone.
pub(crate) const TRANSIENT: u64 = 1 << 63;

impl QueueId {
    /// Whether the queue was not logged, so that the number may come again after a restart.
    pub fn is_transient(self) -> bool {
        self.0 & TRANSIENT != 0
    }
}

impl ExchangeId {
    /// Whether the exchange was not logged, so that the number may come again after a restart.
    pub fn is_transient(self) -> bool {
        self.0 & TRANSIENT != 0
    }
}
