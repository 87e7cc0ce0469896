//! Converting a queue: another type or other arguments, with the messages that it has.

use std::time::Duration;

use axum::http::StatusCode;
use leveret_model::{Action, CommandOutcome, ConvertQueue, QueueType};
use serde_json::json;

use crate::call::{Call, HandlerResult, json};
use crate::error::Error;
use crate::fields;

/// Time between attempts while messages of the queue are being moved.
const AGAIN_AFTER: Duration = Duration::from_millis(5);
/// Number of attempts: for five seconds.
const ATTEMPTS: u32 = 1000;

/// POST: gives a queue the type and the arguments of the body, or only checks whether that is possible (`dry_run=true`).
pub(crate) async fn convert(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let body = call.object()?;
    let queue_type = match body.get("type").or_else(|| body.get("queue_type")) {
        None => None,
        Some(_) => {
            let key = if body.contains_key("type") { "type" } else { "queue_type" };
            let given = fields::text(&body, key)?;
            let known = QueueType::parse(given);
            Some(known.ok_or_else(|| {
                Error::BadRequest(format!("unknown queue type '{given}'; expected classic or quorum"))
            })?)
        }
    };
    let arguments = match body.contains_key("arguments") {
        true => Some(fields::arguments(&body)?),
        false => None,
    };
    if queue_type.is_none() && arguments.is_none() {
        return Err(Error::BadRequest("neither 'type' nor 'arguments' say what the queue is to become".to_owned()));
    }
    let topology = call.topology();
    let queue = topology.queue(vhost, name).ok_or(Error::NotFound)?;
    let before = queue.queue_type();
    let wanted = arguments.as_ref().unwrap_or(&queue.arguments);
    let dead_letter_exchange = wanted.get("x-dead-letter-exchange").and_then(|value| value.as_str());
    let permit = call.permit(vhost, Action::DeclareQueue { queue: name, dead_letter_exchange })?;
    // Its consumers lose it, and its messages come to others.
    call.permit(vhost, Action::Consume(name))?;
    let command = ConvertQueue {
        vhost: vhost.into(),
        name: name.into(),
        queue_type,
        arguments: arguments.clone(),
        earlier: None,
    };
    let dry_run = call.asks("dry_run");
    let mut converted = None;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        let now = call.api.node().clock().monotonic();
        let asked = call.api.broker().registry.convert_queue(permit.clone(), command.clone(), dry_run, now);
        converted = call.api.answer(asked).await??;
        if converted.is_some() {
            break;
        }
    }
    let changed = converted.ok_or_else(|| {
        let text = format!(
            "queue '{name}' in vhost '{vhost}' can't be converted while its messages are being moved to other queues; try again"
        );
        Error::Of(StatusCode::CONFLICT, "conflict", text)
    })?;
    call.api.durable(changed.ticket).await?;
    let after = queue_type.unwrap_or_else(|| match arguments.as_ref().and_then(|all| all.get("x-queue-type")) {
        Some(value) => value.as_str().and_then(QueueType::parse).unwrap_or(before),
        None => before,
    });
    json(json!({
        "vhost": vhost,
        "name": name,
        "from": before.name(),
        "to": after.name(),
        "converted": !dry_run && changed.outcome == CommandOutcome::Updated,
        "dry_run": dry_run,
    }))
}
