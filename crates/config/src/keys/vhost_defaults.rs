use super::Key;
use super::working::key;
use crate::config::Config;
use crate::units;
use crate::vhost_defaults::{DefaultOperatorPolicy, DefaultVhostLimits, DefaultVhostUser};

fn limits<'a>(config: &'a mut Config, id: &str) -> &'a mut DefaultVhostLimits {
    config.vhost_defaults.limits.entry(id.to_owned()).or_default()
}

fn user<'a>(config: &'a mut Config, name: &str) -> &'a mut DefaultVhostUser {
    config.vhost_defaults.users.entry(name.to_owned()).or_default()
}

fn limit(value: &str) -> Result<Option<i64>, String> {
    value.parse().map(Some).map_err(|_| format!("expected a whole number, got '{value}'"))
}

fn policy<'a>(config: &'a mut Config, id: &str) -> &'a mut DefaultOperatorPolicy {
    config.vhost_defaults.operator_policies.entry(id.to_owned()).or_default()
}

/// A limit of an operator policy.
macro_rules! limit_key {
    ($name:literal, $kind:literal, $key:literal, $parse:expr, $doc:literal) => {
        key(concat!("default_policies.operator.$id.", $name), $kind, "", $doc, |config, id, value| {
            let parse: fn(&str) -> Result<u64, String> = $parse;
            policy(config, id).definition.insert($key, parse(value)?);
            Ok(())
        })
    };
}

fn positive(text: &str) -> Result<u64, String> {
    units::integer(text, 1, i64::MAX as u64)
}

fn time(text: &str) -> Result<u64, String> {
    units::milliseconds(text, 1)
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
        "default_policies.operator.$id.vhost_pattern",
        "pattern",
        ".*",
        "names of new vhosts that get this operator policy, which is called like the id",
        |config, id, value| {
            policy(config, id).vhost_pattern = value.to_owned();
            Ok(())
        },
    ),
    key(
        "default_policies.operator.$id.queue_pattern",
        "pattern",
        ".*",
        "names of objects that it applies to",
        |config, id, value| {
            policy(config, id).queue_pattern = value.to_owned();
            Ok(())
        },
    ),
    key(
        "default_policies.operator.$id.apply_to",
        "all, queues, classic_queues, quorum_queues, streams or exchanges",
        "all",
        "objects that it applies to",
        |config, id, value| {
            policy(config, id).apply_to = value.to_owned();
            Ok(())
        },
    ),
    limit_key!("delivery_limit", "integer", "delivery-limit", positive, "highest delivery limit"),
    limit_key!(
        "expires",
        "time",
        "expires",
        time,
        "longest time for which a queue stays unused, in milliseconds without a unit"
    ),
    limit_key!("max_in_memory_bytes", "bytes", "max-in-memory-bytes", units::bytes, "accepted, without effect"),
    limit_key!("max_in_memory_length", "integer", "max-in-memory-length", positive, "accepted, without effect"),
    limit_key!("max_length", "integer", "max-length", positive, "highest number of messages in a queue"),
    limit_key!("max_length_bytes", "bytes", "max-length-bytes", units::bytes, "highest number of bytes in a queue"),
    limit_key!(
        "message_ttl",
        "time",
        "message-ttl",
        time,
        "longest time to live of messages, in milliseconds without a unit"
    ),
    limit_key!(
        "classic_queues.queue_version",
        "integer",
        "queue-version",
        positive,
        "version of classic queues, 1 or 2; accepted, without effect"
    ),
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
