//! Defaults of new vhosts.

use std::collections::BTreeMap;

/// Settings in [`crate::Config::vhost_defaults`]. Entries are in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VhostDefaults {
    /// `default_queue_type`: the type of queues that are declared without one.
    pub queue_type: DefaultQueueType,
    /// `queue_types.*.enabled`: the types of which queues can be declared.
    pub queue_types: QueueTypes,
    /// `default_limits.vhosts.*`: the first entry whose pattern matches applies.
    pub limits: BTreeMap<String, DefaultVhostLimits>,
    /// `default_policies.operator.*`: all entries whose patterns match apply.
    pub operator_policies: BTreeMap<String, DefaultOperatorPolicy>,
    /// `default_users.*`: all entries whose patterns match apply.
    pub users: BTreeMap<String, DefaultVhostUser>,
}

/// The types of which queues can be declared. Queues that exist stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTypes {
    /// Classic queues.
    pub classic: bool,
    /// Quorum queues.
    pub quorum: bool,
    /// Streams, which can't be declared yet.
    pub stream: bool,
}

impl Default for QueueTypes {
    fn default() -> Self {
        Self { classic: true, quorum: true, stream: true }
    }
}

/// A type of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultQueueType {
    /// Classic queues.
    #[default]
    Classic,
    /// Quorum queues, where durability, auto-delete and exclusiveness of the queue allow it.
    Quorum,
    /// Streams, under the same condition.
    Stream,
}

/// Limits of new vhosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultVhostLimits {
    /// `pattern`: pattern of the vhost's name.
    pub pattern: String,
    /// `max_connections`; a negative value means no limit.
    pub max_connections: Option<i64>,
    /// `max_queues`; a negative value means no limit.
    pub max_queues: Option<i64>,
}

impl Default for DefaultVhostLimits {
    fn default() -> Self {
        Self { pattern: ".*".to_owned(), max_connections: None, max_queues: None }
    }
}

/// An operator policy of new vhosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultOperatorPolicy {
    /// `vhost_pattern`: pattern of the vhost's name.
    pub vhost_pattern: String,
    /// `queue_pattern`: pattern of the names of queues.
    pub queue_pattern: String,
    /// `apply_to`.
    pub apply_to: String,
    /// The limits, with the keys of policies.
    pub definition: BTreeMap<&'static str, u64>,
}

impl Default for DefaultOperatorPolicy {
    fn default() -> Self {
        let everything = || ".*".to_owned();
        Self {
            vhost_pattern: everything(),
            queue_pattern: everything(),
            apply_to: "all".to_owned(),
            definition: BTreeMap::new(),
        }
    }
}

/// A user who gets permissions in new vhosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultVhostUser {
    /// `vhost_pattern`: pattern of the vhost's name.
    pub vhost_pattern: String,
    /// `password`, for a user who doesn't exist yet; `None` if the user can't log in with a password.
    pub password: Option<String>,
    /// `tags`, for a user who doesn't exist yet.
    pub tags: Vec<String>,
    /// `configure`.
    pub configure: String,
    /// `write`.
    pub write: String,
    /// `read`.
    pub read: String,
}

impl Default for DefaultVhostUser {
    fn default() -> Self {
        let everything = || ".*".to_owned();
        Self {
            vhost_pattern: everything(),
            password: None,
            tags: Vec::new(),
            configure: everything(),
            write: everything(),
            read: everything(),
        }
    }
}
