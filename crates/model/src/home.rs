use serde::{Deserialize, Serialize};

use crate::{MemberNumber, PlacementNumber};

/// The place of a queue's messages, which decides how they are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// One node, whose log holds them.
    Owner(MemberNumber),
    /// The members of a placement, whose logs all hold them.
    Placement(PlacementNumber),
}

impl Home {
    /// The one node that has the messages; `None` if several have them.
    #[must_use]
    pub fn owner(self) -> Option<MemberNumber> {
        match self {
            Home::Owner(member) => Some(member),
            Home::Placement(_) => None,
        }
    }

    /// The placement of a replicated queue.
    #[must_use]
    pub fn placement(self) -> Option<PlacementNumber> {
        match self {
            Home::Owner(_) => None,
            Home::Placement(placement) => Some(placement),
        }
    }
}

impl Default for Home {
    /// The node itself, as long as it isn't part of a cluster.
    fn default() -> Self {
        Home::Owner(MemberNumber::default())
    }
}
