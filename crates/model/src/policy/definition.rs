//! The keys of definitions, and the checks of their values with RabbitMQ's texts.

use serde_json::{Map, Value};

use super::{DEFINITION_BYTES_MAX, PolicyKind, term};
use crate::QueueType;
use crate::queue_arguments::stream::duration_ms;

/// A key of definitions.
struct Key {
    name: &'static str,
    /// Whether operator policies have it, too.
    of_operators: bool,
    is_valid: fn(&Value) -> bool,
    /// The error text behind the value.
    wrong: &'static str,
}

const fn key(name: &'static str, is_valid: fn(&Value) -> bool, wrong: &'static str) -> Key {
    Key { name, of_operators: false, is_valid, wrong }
}

/// A key that operator policies have, too.
const fn limit(name: &'static str, is_valid: fn(&Value) -> bool, wrong: &'static str) -> Key {
    Key { name, of_operators: true, is_valid, wrong }
}

/// All keys of RabbitMQ 4.3 without its plugins. RabbitMQ checks those of the second group behind the others.
#[rustfmt::skip]
const KEYS: [&[Key]; 2] = [
    &[
        key("alternate-exchange", Value::is_string, "is not a valid alternate exchange name"),
        key("consumer-disconnected-timeout", is_count, "is not a valid consumer disconnected timeout"),
        key("consumer-timeout", is_count, "is not a valid consumer timeout"),
        key("dead-letter-exchange", Value::is_string, "is not a valid dead letter exchange name"),
        key("dead-letter-routing-key", Value::is_string, "is not a valid dead letter routing key"),
        key("dead-letter-strategy", |value| is_one_of(value, &["at-most-once", "at-least-once"]), "is not a valid dead letter strategy"),
        limit("delivery-limit", is_integer, "is not a valid delivery limit"),
        limit("expires", is_positive, "is not a valid queue expiry"),
        key("initial-cluster-size", is_count, "is not a valid cluster size"),
        key("max-age", is_duration, "is not a valid max age"),
        limit("max-in-memory-bytes", is_count, "is not a valid maximum memory in bytes"),
        limit("max-in-memory-length", is_count, "is not a valid maximum memory in bytes"),
        limit("max-length", is_count, "is not a valid maximum length"),
        limit("max-length-bytes", is_count, "is not a valid maximum length in bytes"),
        limit("message-ttl", is_count, "is not a valid message TTL"),
        limit("overflow", |value| is_one_of(value, &["drop-head", "reject-publish", "reject-publish-dlx"]), "is not a valid overflow value"),
        key("queue-leader-locator", |value| is_one_of(value, &["client-local", "balanced", "random", "least-leaders"]), "is not a valid queue leader locator value"),
        key("queue-mode", |value| is_one_of(value, &["default", "lazy"]), "is not a valid queue-mode value"),
        limit("queue-version", |value| matches!(value.as_i64(), Some(1 | 2)), "is not a valid queue-version value"),
        key("stream-filter-size-bytes", |value| is_within(value, 16, 255), "is not a valid filter size. Valid range is 16-255"),
        key("stream-max-segment-size-bytes", |value| is_within(value, 0, 3_000_000_000), "is not a valid segment size"),
    ],
    &[
        limit("delayed-retry-max", is_positive, "is not a valid delayed retry maximum delay. Must be a positive integer"),
        limit("delayed-retry-min", is_positive, "is not a valid delayed retry minimum delay. Must be a positive integer"),
        limit("delayed-retry-type", |value| is_one_of(value, &["all", "failed", "returned", "disabled"]), "is not a valid delayed retry type. Must be one of: all, failed, returned, disabled"),
        limit("target-group-size", is_positive, "is not a valid qq target count value"),
    ],
];

/// Keys of RabbitMQ 3, whose classic queues had mirrors. They have no effect. An import keeps them, so that they are in the next export;
/// nobody can set them otherwise, as in RabbitMQ 4.3.
pub const OBSOLETE_KEYS: &[&str] = &[
    "ha-mode",
    "ha-params",
    "ha-promote-on-failure",
    "ha-promote-on-shutdown",
    "ha-sync-batch-size",
    "ha-sync-mode",
    "queue-master-locator",
];

fn is_obsolete(key: &str) -> bool {
    OBSOLETE_KEYS.contains(&key)
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

fn is_count(value: &Value) -> bool {
    value.is_u64()
}

fn is_positive(value: &Value) -> bool {
    value.as_u64().is_some_and(|number| number > 0)
}

fn is_within(value: &Value, least: u64, most: u64) -> bool {
    value.as_u64().is_some_and(|number| (least..=most).contains(&number))
}

fn is_one_of(value: &Value, texts: &[&str]) -> bool {
    value.as_str().is_some_and(|text| texts.contains(&text))
}

fn is_duration(value: &Value) -> bool {
    value.as_str().and_then(duration_ms).is_some()
}

/// Checks a definition.
///
/// # Errors
/// The first fault of it, in RabbitMQ's words.
pub(super) fn check(kind: PolicyKind, name: &str, definition: &Value, keeps_obsolete: bool) -> Result<(), String> {
    let Value::Object(definition) = definition else {
        return match definition {
            Value::Array(values) if values.is_empty() => Err("no policy provided".to_owned()),
            Value::Array(_) => Err(format!("definition must be a dictionary: {}", term::of(definition))),
            _ => Err(format!("parse error while reading policy {name}: {}", term::of(definition))),
        };
    };
    if definition.is_empty() {
        return Err("no policy provided".to_owned());
    }
    let is_known = |key: &Key| kind == PolicyKind::User || key.of_operators;
    for keys in KEYS {
        for (name, value) in definition {
            let key = keys.iter().find(|key| key.name == name && is_known(key));
            if let Some(key) = key.filter(|key| !(key.is_valid)(value)) {
                return Err(format!("{} {}", term::of(value), key.wrong));
            }
        }
    }
    let known = || KEYS.into_iter().flatten().filter(|key| is_known(key));
    let is_unknown = |name: &str| known().all(|key| key.name != name) && !(keeps_obsolete && is_obsolete(name));
    let mut unknown = definition.iter().filter(|(name, _)| is_unknown(name)).peekable();
    if unknown.peek().is_some() {
        return Err(format!("{} are not recognised policy settings", term::pairs(unknown)));
    }
    match Value::from(definition.clone()).to_string().len() {
        bytes if bytes > DEFINITION_BYTES_MAX => {
            Err(format!("definition has {bytes} bytes, at most {DEFINITION_BYTES_MAX} are allowed"))
        }
        _ => Ok(()),
    }
}

/// Whether a policy with this definition can apply to queues of this type. As in RabbitMQ, one with a key that such queues don't have
/// doesn't apply to them at all.
pub(super) fn fits(definition: &Map<String, Value>, queue_type: QueueType) -> bool {
    let missing: &[&str] = match queue_type {
        QueueType::Classic => &[
            "max-age",
            "stream-max-segment-size-bytes",
            "initial-cluster-size",
            "delivery-limit",
            "dead-letter-strategy",
            "max-in-memory-length",
            "max-in-memory-bytes",
            "target-group-size",
        ],
        QueueType::Quorum => &["queue-mode", "max-age", "stream-max-segment-size-bytes", "initial-cluster-size"],
        QueueType::Stream => &[
            "expires",
            "message-ttl",
            "dead-letter-exchange",
            "dead-letter-routing-key",
            "max-length",
            "max-in-memory-length",
            "max-in-memory-bytes",
            "overflow",
            "queue-mode",
            "delivery-limit",
            "dead-letter-strategy",
            "target-group-size",
        ],
    };
    // In RabbitMQ 3, policies of mirrors applied to classic queues alone.
    let takes_mirrors = queue_type == QueueType::Classic;
    !definition.keys().any(|key| missing.contains(&key.as_str()) || !takes_mirrors && is_obsolete(key))
}
