use serde::{Deserialize, Serialize};

use crate::MemberNumber;

/// The place of a queue's messages, which decides how they are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// One node, whose log holds them.
    Owner(MemberNumber),
}

impl Default for Home {
    /// The node itself, as long as it isn't part of a cluster.
    fn default() -> Self {
        Home::Owner(MemberNumber::default())
    }
}
