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
    /// Id of one incarnation of a queue: a queue that is deleted and declared again gets a new one. Ids of logged
    /// queues are never reused; see [`QueueId::is_transient`] for the others.
    QueueId
}
id! {
    /// Id of one incarnation of an exchange; numbered like [`QueueId`].
    ExchangeId
}
id! {
    /// Id of an open connection; exclusive queues are owned by it.
    ConnectionId
}

/// Id of a cluster member in all replicated data; never reused. A node that never joined another one is member 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberNumber(pub u16);

/// Ids of objects that aren't logged count from here, with a counter that restarts with the process. So the ids of
/// logged objects follow from the log alone.
pub(crate) const TRANSIENT: u64 = 1 << 63;

impl QueueId {
    /// Whether the queue was not logged, so that its id may be reused after a restart.
    pub fn is_transient(self) -> bool {
        self.0 & TRANSIENT != 0
    }
}

impl ExchangeId {
    /// Whether the exchange was not logged, so that its id may be reused after a restart.
    pub fn is_transient(self) -> bool {
        self.0 & TRANSIENT != 0
    }
}
