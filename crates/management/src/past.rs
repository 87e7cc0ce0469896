//! `/api/history` and `/api/events`: the last hours of the node and of each queue.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, json};
use crate::error::Error;
use crate::timeline::{NODE_COLUMNS, QUEUE_COLUMNS, STEP_MS};

/// GET of the node's numbers.
pub(crate) async fn node(call: Call) -> HandlerResult {
    let range = range(&call)?;
    answer(&NODE_COLUMNS, call.api.timeline().node(minutes(&range)))
}

/// GET of a queue's numbers.
pub(crate) async fn queue(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    call.api.topology().queue(vhost, name).ok_or(Error::NotFound)?;
    let range = range(&call)?;
    answer(&QUEUE_COLUMNS, call.api.timeline().queue(vhost, name, minutes(&range)))
}

/// GET of events.
pub(crate) async fn events(call: Call) -> HandlerResult {
    json(json!(call.api.timeline().events(range(&call)?)))
}

fn answer(columns: &[&str], samples: Vec<(u32, Vec<f32>)>) -> HandlerResult {
    let row = |(minute, values): (u32, Vec<f32>)| {
        // Numbers of messages are whole, rates have digits that a binary fraction would make many.
        let rounded = values.into_iter().map(|value| json!((f64::from(value) * 1000.0).round() / 1000.0));
        let time = [json!(u64::from(minute) * STEP_MS)];
        time.into_iter().chain(rounded).collect::<Value>()
    };
    let rows: Vec<Value> = samples.into_iter().map(row).collect();
    json(json!({"step": STEP_MS, "columns": columns, "samples": rows}))
}

/// The milliseconds from `from` to `to`; everything without them.
fn range(call: &Call) -> Result<RangeInclusive<u64>, Error> {
    let number = |key: &str, default: u64| match call.query.get(key) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| Error::BadRequestOf(json!(["not_integer", text]))),
    };
    Ok(number("from", 0)?..=number("to", u64::MAX)?)
}

fn minutes(range: &RangeInclusive<u64>) -> RangeInclusive<u32> {
    let minute = |ms: u64| u32::try_from(ms / STEP_MS).unwrap_or(u32::MAX);
    minute(*range.start())..=minute(*range.end())
}
