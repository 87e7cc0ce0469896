//! Traces of damage of the disk: queues that were stopped, and logs that no queue owns.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use leveret_broker::queue_handle::RunState;
use leveret_broker::{QueueState, UnownedLog};
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, json};
use crate::error::Error;
use crate::health;

/// Most stopped queues that a check names. The rest is counted.
const NAMED_MAX: usize = 100;

/// GET of a health check: no queue is stopped, and every log has an owner.
pub(crate) async fn check(call: Call) -> HandlerResult {
    let broker = call.api.broker();
    let snapshot = broker.registry.snapshot_full();
    let stopped: Vec<_> = snapshot.queues.values().filter(|queue| queue.gauges().failed).collect();
    let unowned: Vec<Value> = broker.unowned().iter().map(view).collect();
    let reason = match (stopped.len(), unowned.len()) {
        (0, 0) => return health::ok(),
        (0, logs) => format!("{logs} logs have messages and no queue in the metadata owns them"),
        (queues, 0) => format!("{queues} queues have stopped"),
        (queues, logs) => format!("{queues} queues have stopped, and {logs} logs have messages and no owner"),
    };
    let mut queues: Vec<Value> = Vec::new();
    for queue in stopped.iter().take(NAMED_MAX) {
        let failure = match call.api.answer(queue.ask(RunState)).await? {
            QueueState::Failed(reason) => reason,
            _ => String::new(),
        };
        queues.push(json!({"vhost": &*queue.info().vhost, "name": &*queue.info().name, "reason": failure}));
    }
    health::failed(json!({"reason": reason, "stopped": stopped.len(), "queues": queues, "unowned_logs": unowned}))
}

/// GET of the logs that no queue owns.
pub(crate) async fn unowned(call: Call) -> HandlerResult {
    json(call.api.broker().unowned().iter().map(view).collect())
}

fn view(log: &UnownedLog) -> Value {
    json!({"log": log.log, "messages": log.messages, "message_bytes": log.bytes})
}

/// DELETE of a log that no queue owns, with its messages.
pub(crate) async fn delete_unowned(call: Call) -> HandlerResult {
    let log = call.word(0).parse().map_err(|_| Error::NotFound)?;
    match call.api.broker().delete_unowned(log) {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(Error::NotFound),
    }
}
