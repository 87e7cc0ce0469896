use super::Key;
use super::working::key;
use crate::config::Config;
use crate::vhost_defaults::{DefaultVhostLimits, DefaultVhostUser};

fn limits<'a>(config: &'a mut Config, id: &str) -> &'a mut DefaultVhostLimits {
    config.vhost_defaults.limits.entry(id.to_owned()).or_default()
}

fn user<'a>(config: &'a mut Config, name: &str) -> &'a mut DefaultVhostUser {
    config.vhost_defaults.users.entry(name.to_owned()).or_default()
}

fn limit(value: &str) -> Result<Option<i64>, String> {
    value.parse().map(Some).map_err(|_| format!("expected a whole number, got '{value}'"))
}

/// The keys of new vhosts' defaults.
pub(super) const KEYS: &[Key] = &[
    key(
        "default_limits.vhosts.$id.pattern",
        "pattern",
        ".*",
        "names of new vhosts that get these limits; the first pattern that matches counts",
        |config, id, value| {
            limits(config, id).pattern = value.to_owned();
            Ok(())
        },
    ),
    key(
        "default_limits.vhosts.$id.max_connections",
        "integer",
        "",
        "connections of such a vhost",
        |config, id, value| {
            limits(config, id).max_connections = limit(value)?;
            Ok(())
        },
    ),
    key("default_limits.vhosts.$id.max_queues", "integer", "", "queues of such a vhost", |config, id, value| {
        limits(config, id).max_queues = limit(value)?;
        Ok(())
    }),
    key(
        "default_users.$name.vhost_pattern",
        "pattern",
        ".*",
        "names of new vhosts in which the user gets permissions; the user is created if it doesn't exist",
        |config, name, value| {
            user(config, name).vhost_pattern = value.to_owned();
            Ok(())
        },
    ),
    key(
        "default_users.$name.password",
        "text",
        "",
        "password of that user; without one it can't log in",
        |config, name, value| {
            user(config, name).password = Some(value.to_owned());
            Ok(())
        },
    ),
    key("default_users.$name.tags", "tags with commas", "", "its tags", |config, name, value| {
        let tags = value.split(',').map(str::trim).filter(|tag| !tag.is_empty());
        user(config, name).tags = tags.map(str::to_owned).collect();
        Ok(())
    }),
    key(
        "default_users.$name.configure",
        "pattern",
        ".*",
        "names of objects that this user may declare and delete in such a vhost",
        |config, name, value| {
            user(config, name).configure = value.to_owned();
            Ok(())
        },
    ),
    key(
        "default_users.$name.write",
        "pattern",
        ".*",
        "names of objects that this user may publish to",
        |config, name, value| {
            user(config, name).write = value.to_owned();
            Ok(())
        },
    ),
    key(
        "default_users.$name.read",
        "pattern",
        ".*",
        "names of objects that this user may consume from",
        |config, name, value| {
            user(config, name).read = value.to_owned();
            Ok(())
        },
    ),
];
