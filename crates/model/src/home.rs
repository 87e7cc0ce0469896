use serde::{Deserialize, Serialize};

use crate::MemberNumber;

/// The place of a queue's messages, which decides what happens to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// One node, in whose log they are.
    Owner(MemberNumber),
}

impl Default for Home {
    /// The node itself, before it joins another one.
    fn default() -> Self {
        Home::Owner(MemberNumber::default())
    }
}
