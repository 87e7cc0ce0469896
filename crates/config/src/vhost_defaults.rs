//! What every new vhost gets.

use std::collections::BTreeMap;

/// See [`crate::Config::vhost_defaults`]. Entries are in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VhostDefaults {
    /// `default_limits.vhosts.*`: the first whose pattern matches counts.
    pub limits: BTreeMap<String, DefaultVhostLimits>,
    /// `default_users.*`: all whose patterns match are let in.
    pub users: BTreeMap<String, DefaultVhostUser>,
}

/// Limits of new vhosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultVhostLimits {
    /// `pattern` of the vhost's name.
    pub pattern: String,
    /// `max_connections`; a negative one is no limit.
    pub max_connections: Option<i64>,
    /// `max_queues`; a negative one is no limit.
    pub max_queues: Option<i64>,
}

impl Default for DefaultVhostLimits {
    fn default() -> Self {
        Self { pattern: ".*".to_owned(), max_connections: None, max_queues: None }
    }
}

/// A user who is let into new vhosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultVhostUser {
    /// `vhost_pattern` of the vhost's name.
    pub vhost_pattern: String,
    /// `password`, of a user who isn't there yet; `None` for one who can't log in by it.
    pub password: Option<String>,
    /// `tags`, of a user who isn't there yet.
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
