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
    /// The members that it was made with. Those that came later take its state from the others.
    pub founders: Arc<[MemberNumber]>,
    /// The number of members that it is to have.
    pub size: usize,
}

impl QueuePlacement {
    /// A new placement, which is to have `size` members.
    #[must_use]
    pub fn new(number: PlacementNumber, members: Arc<[MemberNumber]>, size: usize) -> Self {
        Self { number, founders: members.clone(), members, size }
    }

    /// A placement that one member makes alone. The others take its state from that one.
    #[must_use]
    pub fn of_one(number: PlacementNumber, members: Arc<[MemberNumber]>, size: usize) -> Self {
        let founders = members.iter().copied().take(1).collect();
        Self { number, founders, members, size }
    }

    /// The placement with these members.
    #[must_use]
    pub fn with(&self, members: Arc<[MemberNumber]>) -> Self {
        Self { members, ..self.clone() }
    }

    /// Whether these are its members, and the first one is to lead it.
    pub(crate) fn is_of(&self, members: &[MemberNumber]) -> bool {
        self.members.first() == members.first()
            && self.members.len() == members.len()
            && members.iter().all(|member| self.has(*member))
    }

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
