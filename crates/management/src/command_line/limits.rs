//! Limits of alarms, valid until the node stops: a start uses its configuration.

use leveret_broker::AlarmSource;
use serde_json::{Map, Value, json};

use crate::call::{Call, HandlerResult, json, no_content};
use crate::error::Error;

/// PUT of `bytes`, or of `factor` of the available memory.
pub(crate) async fn memory(call: Call) -> HandlerResult {
    let (bytes, factor) = limit(&call, &call.object()?)?;
    call.api.node().change_alarm_limits(|limits| {
        limits.memory_bytes = Some(bytes);
        limits.memory_factor = factor;
    });
    tracing::info!("Memory high watermark set to {bytes} bytes");
    json(json!({"bytes": bytes}))
}

/// PUT of `bytes`, or of `factor` of the available memory.
pub(crate) async fn disk(call: Call) -> HandlerResult {
    let (bytes, factor) = limit(&call, &call.object()?)?;
    call.api.node().change_alarm_limits(|limits| {
        limits.disk_free_bytes = bytes;
        limits.disk_free_factor = factor;
    });
    tracing::info!("Disk free limit set to {bytes} bytes");
    json(json!({"bytes": bytes}))
}

/// PUT: raises an alarm, which blocks publishers until it is cleared.
pub(crate) async fn raise(call: Call) -> HandlerResult {
    force(&call, true)
}

/// DELETE: clears the alarm, unless the measured value keeps it raised.
pub(crate) async fn release(call: Call) -> HandlerResult {
    force(&call, false)
}

fn force(call: &Call, is_forced: bool) -> HandlerResult {
    let source = AlarmSource::ALL.into_iter().find(|source| source.name() == call.word(0)).ok_or(Error::NotFound)?;
    call.api.node().force_alarm(source, is_forced);
    no_content()
}

/// A limit in bytes, and the factor that it was given by.
fn limit(call: &Call, body: &Map<String, Value>) -> Result<(u64, Option<f64>), Error> {
    let total = call.api.node().alarm_limits().total_memory_bytes;
    let given = |key: &str| body.get(key);
    match (given("bytes").and_then(Value::as_u64), given("factor").and_then(Value::as_f64)) {
        (Some(bytes), None) => Ok((bytes, None)),
        (None, Some(factor)) if (0.0..=1000.0).contains(&factor) => Ok(((factor * total as f64) as u64, Some(factor))),
        _ => Err(Error::BadRequest("a limit is bytes, or a factor from 0 to 1000".to_owned())),
    }
}
