use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::MemberNumber;

/// Number of a placement, a group of members that have the messages of many queues together. That of the metadata is 0, which is no value
/// of this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlacementNumber(pub u32);

impl fmt::Display for PlacementNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A placement of replicated queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePlacement {
    /// Its number; never given twice.
    pub number: PlacementNumber,
    /// Its members. The first one is to lead it.
    pub members: Arc<[MemberNumber]>,
}

impl QueuePlacement {
    /// Whether a member has a replica.
    #[must_use]
    pub fn has(&self, member: MemberNumber) -> bool {
        self.members.contains(&member)
    }

    /// The member that is to lead it.
    ///
    /// # Panics
    /// If it has no members, which none has.
    #[must_use]
    pub fn preferred(&self) -> MemberNumber {
        *self.members.first().expect("a placement has members")
    }
}
