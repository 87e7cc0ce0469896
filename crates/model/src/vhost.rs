use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::QueueType;

/// What a vhost was given beside its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VhostSettings {
    /// For people.
    pub description: Arc<str>,
    /// For tools.
    pub tags: Vec<Arc<str>>,
    /// The type of queues that are declared without one.
    pub default_queue_type: Arc<str>,
    /// Whether it may not be deleted.
    pub protected_from_deletion: bool,
}

impl Default for VhostSettings {
    fn default() -> Self {
        VhostSettings {
            description: "".into(),
            tags: Vec::new(),
            default_queue_type: QueueType::default().name().into(),
            protected_from_deletion: false,
        }
    }
}

/// Whom a limit is set for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitOwner {
    /// A vhost.
    Vhost(Arc<str>),
    /// A user.
    User(Arc<str>),
}

impl LimitOwner {
    /// The names of its limits.
    pub fn names(&self) -> &'static [&'static str] {
        match self {
            LimitOwner::Vhost(_) => &[MAX_CONNECTIONS, MAX_QUEUES],
            LimitOwner::User(_) => &[MAX_CONNECTIONS, MAX_CHANNELS],
        }
    }
}

/// The limit of open connections, of vhosts and users.
pub const MAX_CONNECTIONS: &str = "max-connections";
/// The limit of queues in a vhost.
pub const MAX_QUEUES: &str = "max-queues";
/// The limit of open channels of a user.
pub const MAX_CHANNELS: &str = "max-channels";

/// Limits by name; a negative one is none.
pub type LimitValues = std::collections::BTreeMap<Arc<str>, i64>;

/// The value of a limit that is one.
pub(crate) fn limit_of(values: Option<&LimitValues>, name: &str) -> Option<u64> {
    values.and_then(|values| values.get(name)).and_then(|value| u64::try_from(*value).ok())
}
