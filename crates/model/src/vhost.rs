use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{QueueType, RedeclareMismatch};

/// The settings of a vhost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VhostSettings {
    /// Description for people.
    pub description: Arc<str>,
    /// Tags for tools.
    pub tags: Vec<Arc<str>>,
    /// The type of queues that are declared without a type.
    pub default_queue_type: Arc<str>,
    /// Whether it is protected from deletion.
    pub protected_from_deletion: bool,
    /// The answer to declarations of queues that exist with other properties or arguments.
    #[serde(default, skip_serializing_if = "RedeclareMismatch::is_default")]
    pub redeclare_mismatch: RedeclareMismatch,
}

impl Default for VhostSettings {
    fn default() -> Self {
        VhostSettings {
            description: "".into(),
            tags: Vec::new(),
            default_queue_type: QueueType::default().name().into(),
            protected_from_deletion: false,
            redeclare_mismatch: RedeclareMismatch::default(),
        }
    }
}

/// The owner of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitOwner {
    /// A vhost.
    Vhost(Arc<str>),
    /// A user.
    User(Arc<str>),
}

impl LimitOwner {
    /// The names of the limits that such an owner can have.
    pub fn names(&self) -> &'static [&'static str] {
        match self {
            LimitOwner::Vhost(_) => &[MAX_CONNECTIONS, MAX_QUEUES],
            LimitOwner::User(_) => &[MAX_CONNECTIONS, MAX_CHANNELS],
        }
    }
}

/// The limit of open connections, for vhosts and users.
pub const MAX_CONNECTIONS: &str = "max-connections";
/// The limit of queues, for vhosts.
pub const MAX_QUEUES: &str = "max-queues";
/// The limit of open channels, for users.
pub const MAX_CHANNELS: &str = "max-channels";

/// Limits by name; a negative value means no limit.
pub type LimitValues = std::collections::BTreeMap<Arc<str>, i64>;

/// The value of a limit, if it is set and not negative.
pub(crate) fn limit_of(values: Option<&LimitValues>, name: &str) -> Option<u64> {
    values.and_then(|values| values.get(name)).and_then(|value| u64::try_from(*value).ok())
}
