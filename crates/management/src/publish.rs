//! `POST /api/exchanges/:vhost/:name/publish`.

use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leveret_broker::direct::PlainPublish;
use leveret_model::{Action, Arguments, RefusedKind};
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, json};
use crate::error::Error;
use crate::fields::{self, exchange_named as named};

/// Properties that are numbers.
const NUMBERS: [&str; 3] = ["delivery_mode", "priority", "timestamp"];

/// POST: publishes a message; the response is sent once the message is durable.
pub(crate) async fn publish(call: Call) -> HandlerResult {
    let (vhost, exchange) = (call.word(0), named(call.word(1)));
    call.permit(vhost, Action::Enter)?;
    let body = call.object()?;
    fields::require(&body, &["properties", "routing_key", "payload", "payload_encoding"])?;
    let payload = fields::text(&body, "payload")?;
    let payload: Bytes = match fields::text(&body, "payload_encoding")? {
        "string" => payload.as_bytes().to_vec().into(),
        "base64" => STANDARD.decode(payload).map_err(|_| Error::BadRequestOf(json!(["not_base64", payload])))?.into(),
        other => return Err(Error::BadRequestOf(json!(["unsupported_encoding", other]))),
    };
    let routing_key = fields::text(&body, "routing_key")?;
    if call.api.topology().exchange(vhost, exchange).is_none() {
        return Err(Error::Missing("exchange_not_found".to_owned()));
    }
    let properties = properties(&body["properties"])?;
    let now = call.api.node().clock().now();
    let who = call.identity.who();
    let message = PlainPublish { who, vhost, exchange, routing_key, properties: &properties, body: payload };
    let published = call.api.broker().publish_directly(message, now);
    let published = published.map_err(|refused| match refused.kind {
        RefusedKind::PreconditionFailed => Error::BadRequest(format!("406 PRECONDITION_FAILED - {}", refused.text)),
        // Worded as if the message had been published over a channel, which is closed.
        RefusedKind::AccessRefused => Error::BadRequest(format!("403 ACCESS_REFUSED - {}", refused.text)),
        _ => refused.into(),
    })?;
    let is_routed = call.api.over(published.wait).await?;
    json(json!({"routed": published.routed && is_routed}))
}

fn properties(given: &Value) -> Result<Arguments, Error> {
    let object = match given {
        Value::Object(object) => object,
        Value::Array(list) if list.is_empty() => return Ok(Arguments::default()),
        _ => return Err(Error::BadRequest("properties is no object".to_owned())),
    };
    for (name, value) in object {
        if NUMBERS.contains(&name.as_str()) && value.as_u64().is_none() {
            return Err(Error::BadRequestOf(json!(["not_int", name])));
        }
        if has_null(value) {
            return Err(Error::BadRequest("null_not_allowed".to_owned()));
        }
    }
    Ok(Arguments::from_json(given))
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(object) => object.values().any(has_null),
        _ => false,
    }
}
