//! Consumers of streams: their arguments, and the conditions that RabbitMQ has for them.

use std::sync::Arc;

use leveret_model::{Arguments, Queue, QueueType, Value};
use leveret_queue::{StreamFilter, StreamOptions, StreamStart};
use leveret_session::stream_start::{FILTER, MATCH_UNFILTERED, OFFSET};

use super::error::{ProtocolError, Result, not_implemented, precondition};

/// As LavinMQ has it.
const TRACKING: &str = "x-stream-automatic-offset-tracking";
const STARTS: &str = "first, last, next, an offset, a timestamp, or an interval such as 10m";

/// The options of a consumer of this queue that only streams have; `None` for other queues.
///
/// # Errors
/// 406 without a prefetch, 540 for automatic acknowledgement: both would let a whole stream rush to its client. 406 for an argument
/// that has no meaning.
pub(super) fn options(
    queue: &Queue,
    arguments: &Arguments,
    (no_ack, prefetch, tag): (bool, u16, &[u8]),
    now_ms: u64,
) -> Result<Option<Box<StreamOptions>>> {
    if queue.queue_type() != QueueType::Stream {
        return Ok(None);
    }
    let place = format!("queue '{}' in vhost '{}'", queue.name, queue.vhost);
    if prefetch == 0 {
        return Err(precondition(format!("consumer prefetch count is not set for stream {place}")));
    }
    if no_ack {
        return Err(not_implemented(format!("automatic acknowledgement not supported by stream {place}")));
    }
    let wrong = |key: &str, value: &Value, expected: &str| -> ProtocolError {
        precondition(format!("invalid arg '{key}' for {place}: received '{value}', expected {expected}"))
    };
    let start = match arguments.get(OFFSET) {
        None => StreamStart::Next,
        Some(value) => start_of(value, now_ms).ok_or_else(|| match value.as_str() {
            Some(text) => precondition(format!(
                "invalid arg '{OFFSET}' for {place}: {{invalid_stream_offset_arg,{{longstr,<<\"{text}\">>}}}}, expected {STARTS}"
            )),
            None => wrong(OFFSET, value, STARTS),
        })?,
    };
    let values = match arguments.get(FILTER) {
        None => Vec::new(),
        Some(value) => values_of(value).ok_or_else(|| wrong(FILTER, value, "a string or a list of strings"))?,
    };
    let match_unfiltered = match arguments.get(MATCH_UNFILTERED) {
        None => false,
        Some(Value::Bool(matches)) => *matches,
        Some(value) => return Err(wrong(MATCH_UNFILTERED, value, "true or false")),
    };
    let tracking = match arguments.get(TRACKING) {
        None | Some(Value::Bool(false)) => None,
        Some(Value::Bool(true)) => match std::str::from_utf8(tag) {
            Ok(tag) if !tag.is_empty() => Some(tag.into()),
            _ => {
                return Err(precondition(format!(
                    "'{TRACKING}' for {place}: the offset is kept by the consumer tag; give the consumer one, in UTF-8"
                )));
            }
        },
        Some(value) => return Err(wrong(TRACKING, value, "true or false")),
    };
    let filter = StreamFilter { values, match_unfiltered, ..StreamFilter::default() };
    let filter = (!filter.values.is_empty()).then(|| Arc::new(filter));
    Ok(Some(Box::new(StreamOptions { start, filter, tracking, ..StreamOptions::default() })))
}

fn start_of(value: &Value, now_ms: u64) -> Option<StreamStart> {
    match value {
        Value::Timestamp(seconds) => Some(StreamStart::Timestamp(seconds.saturating_mul(1000))),
        Value::UInt(offset) => Some(StreamStart::Offset(*offset)),
        Value::Bytes(bytes) => StreamStart::of_text(std::str::from_utf8(bytes).ok()?, now_ms),
        value => match value.as_str() {
            Some(text) => StreamStart::of_text(text, now_ms),
            None => value.as_int().map(StreamStart::of_number),
        },
    }
}

fn values_of(value: &Value) -> Option<Vec<Box<str>>> {
    match value {
        Value::Array(values) if values.is_empty() => None,
        Value::Array(values) => values.iter().map(|value| value.as_str().map(Box::from)).collect(),
        value => Some(vec![value.as_str()?.into()]),
    }
}
