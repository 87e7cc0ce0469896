//! The arguments of streams.

use super::common::Wrong;
use super::{State, Table};
use crate::{Arguments, Durability, QueueType, Refused, RefusedKind, Value};

pub(super) const MAX_AGE: &str = "x-max-age";
const SEGMENT_BYTES: &str = "x-stream-max-segment-size-bytes";
const FILTER_SIZE: &str = "x-stream-filter-size-bytes";

pub(super) const TABLE: Table = Table {
    queue_type: QueueType::Stream,
    arguments: &[
        ("x-durability", State::Working),
        ("x-initial-cluster-size", State::Working),
        (MAX_AGE, State::Working),
        ("x-max-length-bytes", State::Working),
        ("x-queue-leader-locator", State::Working),
        ("x-queue-type", State::Working),
        (FILTER_SIZE, State::Working),
        (SEGMENT_BYTES, State::Working),
    ],
    compared: &[
        "x-max-length-bytes",
        "x-queue-type",
        MAX_AGE,
        SEGMENT_BYTES,
        FILTER_SIZE,
        "x-initial-cluster-size",
        "x-queue-leader-locator",
        "x-durability",
    ],
};

/// Bytes of a Bloom filter in a stream's chunks, unless `x-stream-filter-size-bytes` says otherwise.
const FILTER_BYTES: u8 = 16;

/// The milliseconds of a duration as streams have them, such as `12h`: a positive number, and a unit of Y, M, D, h, m and s. A
/// month has 30 days. `None` if it has another form.
pub fn duration_ms(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let seconds: u64 = match unit {
        "Y" => 365 * 86_400,
        "M" => 30 * 86_400,
        "D" => 86_400,
        "h" => 3600,
        "m" => 60,
        "s" => 1,
        _ => return None,
    };
    // More than a u64 has is forever.
    let number = number
        .bytes()
        .try_fold(0, |sum: u64, digit| Some(sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))?;
    (number > 0).then(|| number.saturating_mul(seconds).saturating_mul(1000))
}

/// Refuses to keep a stream in memory only.
pub(super) fn check_durability(arguments: &Arguments) -> Result<(), Wrong> {
    match arguments.get("x-durability").and_then(Value::as_str).and_then(Durability::parse) {
        Some(Durability::Memory) => {
            Err(Wrong::Reason("\"received 'memory', but a stream is on disk: it takes synced or os\"".to_owned()))
        }
        _ => Ok(()),
    }
}

/// The age at which messages leave a stream with these arguments, in milliseconds.
pub(crate) fn max_age_ms(arguments: &Arguments) -> Option<u64> {
    arguments.get(MAX_AGE).and_then(Value::as_str).and_then(duration_ms)
}

/// The age of these arguments as RabbitMQ compares and tells it: in milliseconds, but as a string.
pub(super) fn max_age_as_told(arguments: &Arguments) -> Option<Value> {
    let age = arguments.get(MAX_AGE)?;
    Some(max_age_ms(arguments).map_or_else(|| age.clone(), |ms| Value::from(ms.to_string().as_str())))
}

/// Largest size of a segment in RabbitMQ. Here it has no effect.
const SEGMENT_BYTES_MAX: i64 = 3_000_000_000;

/// Refuses sizes that are integers, and too large or too small.
pub(super) fn check_sizes(arguments: &Arguments) -> Result<(), Refused> {
    let integer = |key| arguments.get(key).and_then(Value::as_int);
    if integer(SEGMENT_BYTES).is_some_and(|bytes| bytes > SEGMENT_BYTES_MAX) {
        return Err(Refused::new(RefusedKind::WrongProperty, format!("Exceeded max value for {SEGMENT_BYTES}")));
    }
    match integer(FILTER_SIZE) {
        Some(bytes) if !(16..=255).contains(&bytes) => {
            Err(Refused::new(RefusedKind::WrongProperty, format!("Invalid value for {FILTER_SIZE}")))
        }
        _ => Ok(()),
    }
}

/// Bytes of the Bloom filters of a stream with these arguments.
pub(crate) fn filter_bytes(arguments: &Arguments) -> u8 {
    let bytes = arguments.get(FILTER_SIZE).and_then(Value::as_int);
    bytes.and_then(|bytes| u8::try_from(bytes).ok()).unwrap_or(FILTER_BYTES)
}
