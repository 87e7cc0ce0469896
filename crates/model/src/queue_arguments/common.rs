//! Every argument that RabbitMQ 4.3 knows for queues of any type, and the checks of their values.

use super::stream::duration_ms;
use crate::{Deduplication, Durability, LeaderLocator, Overflow, QueueType, Refused, Value};

/// An argument, and the check of its value for supported queue types that take it.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) check: fn(&Value) -> Result<(), Wrong>,
}

/// The reason why a value is wrong, worded as RabbitMQ's.
pub(super) enum Wrong {
    Reason(String),
    Type(&'static str),
}

impl Wrong {
    /// The refusal of the argument `key` of this queue.
    pub(super) fn refused(self, key: &str, vhost: &str, queue: &str) -> Refused {
        Refused::precondition(match self {
            Wrong::Reason(reason) => format!("invalid arg '{key}' for queue '{queue}' in vhost '{vhost}': {reason}"),
            Wrong::Type(name) => {
                format!("invalid type '{name}' for arg '{key}' in queue '{queue}' in vhost '{vhost}'")
            }
        })
    }
}

/// All known arguments by name. A queue whose type doesn't take one of these refuses it; other arguments are accepted
/// and ignored.
pub(super) const KNOWN: &[Known] = &[
    known("x-cache-size", cache_size),
    known("x-cache-ttl", expires),
    known("x-consumer-disconnected-timeout", not_negative),
    known("x-consumer-timeout", not_negative),
    known("x-dead-letter-exchange", name),
    known("x-dead-letter-routing-key", routing_key),
    known("x-dead-letter-strategy", strategy),
    known("x-deduplication-header", header),
    known("x-delayed-retry-max", any),
    known("x-delayed-retry-min", any),
    known("x-delayed-retry-type", any),
    known("x-delivery-limit", any),
    known("x-durability", durability),
    known("x-expires", expires),
    known("x-initial-cluster-size", positive),
    known("x-max-age", max_age),
    known("x-max-in-memory-bytes", not_negative),
    known("x-max-in-memory-length", not_negative),
    known("x-max-length", not_negative),
    known("x-max-length-bytes", not_negative),
    known("x-max-priority", priority),
    known("x-message-deduplication", boolean),
    known("x-message-ttl", milliseconds),
    known("x-overflow", overflow),
    known("x-parked-max", not_negative),
    known("x-publisher-deduplication", boolean),
    known("x-queue-leader-locator", locator),
    known("x-queue-master-locator", any),
    known("x-queue-mode", any),
    known("x-queue-type", queue_type),
    known("x-queue-version", version),
    known("x-quorum-initial-group-size", positive),
    known("x-return-order", return_order),
    known("x-single-active-consumer", boolean),
    known("x-stream-filter-size-bytes", not_negative),
    known("x-stream-max-segment-size-bytes", not_negative),
];

const fn known(name: &'static str, check: fn(&Value) -> Result<(), Wrong>) -> Known {
    Known { name, check }
}

pub(super) fn any(_: &Value) -> Result<(), Wrong> {
    Ok(())
}

pub(super) fn integer(value: &Value) -> Result<(), Wrong> {
    match value {
        Value::Int(_) | Value::UInt(_) => Ok(()),
        other => Err(Wrong::Reason(format!("\"expected integer, got {}\"", other.type_name()))),
    }
}

pub(super) fn unacceptable(value: &Value) -> Wrong {
    Wrong::Reason(format!("{{unacceptable_type,{}}}", value.type_name()))
}

pub(super) fn string(value: &Value) -> Result<(), Wrong> {
    matches!(value, Value::String(_)).then_some(()).ok_or_else(|| unacceptable(value))
}

/// Longest name of an exchange or routing key: short strings of 0-9-1. A message couldn't be moved to longer ones.
pub(super) const NAME_BYTES_MAX: usize = 255;

pub(super) fn short(value: &Value) -> Result<(), Wrong> {
    match value.as_str().map_or(0, str::len) {
        0..=NAME_BYTES_MAX => Ok(()),
        length => Err(Wrong::Reason(format!("\"{length} bytes, expected at most {NAME_BYTES_MAX}\""))),
    }
}

pub(super) fn routing_key(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    short(value)
}

pub(super) fn boolean(value: &Value) -> Result<(), Wrong> {
    matches!(value, Value::Bool(_)).then_some(()).ok_or_else(|| unacceptable(value))
}

pub(super) fn name(value: &Value) -> Result<(), Wrong> {
    matches!(value, Value::String(_)).then_some(()).ok_or_else(|| Wrong::Type(value.type_name()))?;
    short(value)
}

pub(super) fn not_negative(value: &Value) -> Result<(), Wrong> {
    integer(value)?;
    match value.as_int() {
        Some(n) if n < 0 => Err(Wrong::Reason(format!("{{value_negative,{n}}}"))),
        _ => Ok(()),
    }
}

pub(super) fn positive(value: &Value) -> Result<(), Wrong> {
    match value.as_int() {
        Some(0) => Err(Wrong::Reason("{value_zero,0}".to_owned())),
        _ => not_negative(value),
    }
}

/// RabbitMQ's longest time to live and longest expiry, ten years.
const TIMER_MS_MAX: i64 = 315_360_000_000;

pub(super) fn milliseconds(value: &Value) -> Result<(), Wrong> {
    not_negative(value)?;
    match value.as_int() {
        Some(n) if n <= TIMER_MS_MAX => Ok(()),
        _ => Err(Wrong::Reason(format!("{{value_too_large,{value}}}"))),
    }
}

pub(super) fn cache_size(value: &Value) -> Result<(), Wrong> {
    positive(value)?;
    match value.as_int() {
        Some(size) if size <= i64::from(Deduplication::SIZE_MAX) => Ok(()),
        _ => Err(Wrong::Reason(format!("{{max_value_exceeded,{value}}}"))),
    }
}

pub(super) fn header(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    short(value)
}

pub(super) fn expires(value: &Value) -> Result<(), Wrong> {
    positive(value)?;
    milliseconds(value)
}

pub(super) fn priority(value: &Value) -> Result<(), Wrong> {
    not_negative(value)?;
    match value.as_int() {
        Some(0..=255) => Ok(()),
        _ => Err(Wrong::Reason(format!("{{max_value_exceeded,{value}}}"))),
    }
}

pub(super) fn overflow(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    match value.as_str().and_then(Overflow::parse) {
        Some(_) => Ok(()),
        None => Err(Wrong::Reason("invalid_overflow".to_owned())),
    }
}

pub(super) fn strategy(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    match value.as_str() {
        Some("at-most-once" | "at-least-once") => Ok(()),
        _ => Err(Wrong::Reason("invalid_dlx_strategy".to_owned())),
    }
}

pub(super) fn max_age(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    match value.as_str().and_then(duration_ms) {
        Some(_) => Ok(()),
        None => Err(Wrong::Reason("invalid_max_age".to_owned())),
    }
}

/// An argument of ours.
pub(super) fn return_order(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    match value.as_str() {
        Some("returned" | "position") => Ok(()),
        _ => Err(Wrong::Reason(format!("\"expected returned or position, got '{value}'\""))),
    }
}

pub(super) fn durability(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    match value.as_str().and_then(Durability::parse) {
        Some(_) => Ok(()),
        None => Err(Wrong::Reason(format!("\"expected synced, os or memory, got '{value}'\""))),
    }
}

pub(super) fn locator(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    match value.as_str().and_then(LeaderLocator::parse) {
        Some(_) => Ok(()),
        None => Err(Wrong::Reason("invalid_queue_locator_arg".to_owned())),
    }
}

pub(super) fn queue_type(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    match value.as_str() {
        Some(name) if name.is_empty() || QueueType::parse(name).is_some() => Ok(()),
        _ => Err(Wrong::Reason(format!("\"unsupported queue type '{value}'\""))),
    }
}

pub(super) fn version(value: &Value) -> Result<(), Wrong> {
    integer(value)?;
    match value.as_int() {
        Some(2) => Ok(()),
        _ => Err(Wrong::Reason(format!("\"unsupported queue version '{value}'\""))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Table;
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_each_argument_once() {
        assert!(KNOWN.is_sorted_by(|a, b| a.name < b.name));
        for queue_type in [QueueType::Classic, QueueType::Quorum, QueueType::Stream] {
            assert!(Table::of(queue_type).arguments.is_sorted_by(|(a, _), (b, _)| a < b), "{queue_type:?}");
        }
    }
}
