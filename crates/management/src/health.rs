//! `/api/health/checks`.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leveret_broker::AlarmSource;
use serde_json::{Value, json};

use crate::api::Api;
use crate::error::Error;
use crate::identity::Identity;

fn ok() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

fn failed(mut body: Value) -> Response {
    body["status"] = json!("failed");
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

/// Whether the node isn't in maintenance. It runs: a storage error ends it.
pub(crate) async fn in_service(_: Identity, State(api): State<Api>) -> Response {
    match api.broker().is_in_maintenance() {
        true => failed(json!({"reason": "this rabbit node is not currently available to serve"})),
        false => ok(),
    }
}

/// Whether an alarm of any node holds publishers back.
pub(crate) async fn alarms(_: Identity, State(api): State<Api>) -> Response {
    alarms_or(&api, "There are alarms in effect in the cluster")
}

/// Whether an alarm of this node holds publishers back.
pub(crate) async fn local_alarms(_: Identity, State(api): State<Api>) -> Response {
    alarms_or(&api, "There are alarms in effect on the node")
}

fn alarms_or(api: &Api, reason: &str) -> Response {
    let alarm = |source: AlarmSource| json!({"resource": source.resource(), "node": api.name()});
    let raised: Vec<Value> = api.broker().alarms.raised().map(alarm).collect();
    if raised.is_empty() { ok() } else { failed(json!({"reason": reason, "alarms": raised})) }
}

/// A node that is alone is no member of a quorum that its stop could break.
pub(crate) async fn quorum_critical(_: Identity) -> Response {
    Json(json!({"status": "ok", "reason": "single node cluster"})).into_response()
}

/// Whether no certificate expires in a time; there is no listener with one.
pub(crate) async fn certificates(_: Identity, Path((within, unit)): Path<(String, String)>) -> Result<Response, Error> {
    if within.parse::<u32>().is_err() {
        return Err(Error::BadRequest("Invalid expiration value.".to_owned()));
    }
    match unit.as_str() {
        "days" | "weeks" | "months" | "years" => Ok(ok()),
        _ => Err(Error::BadRequest("Time unit not recognised. Use: days, weeks, months, years.".to_owned())),
    }
}

/// Whether clients can be served: the node accepts connections.
pub(crate) async fn ready(_: Identity, State(api): State<Api>) -> Response {
    if api.broker().is_in_maintenance() {
        return failed(json!({"reason": "the rabbit node is not currently available to serve"}));
    }
    match api.node().ports().amqp {
        Some(_) => ok(),
        None => failed(json!({"reason": "No AMQP listener is open"})),
    }
}

/// Whether every vhost is up. A queue that failed doesn't take its vhost down.
pub(crate) async fn virtual_hosts(_: Identity) -> Response {
    ok()
}

/// Whether somebody listens on a port.
pub(crate) async fn port(_: Identity, State(api): State<Api>, Path(port): Path<String>) -> Result<Response, Error> {
    let port: u16 = port.parse().map_err(|_| Error::BadRequest("Invalid port".to_owned()))?;
    let ports: Vec<u16> = api.listeners().into_iter().map(|(_, port)| port).collect();
    Ok(match ports.contains(&port) {
        true => Json(json!({"status": "ok", "port": port})).into_response(),
        false => failed(json!({"reason": "No active listener", "missing": port, "ports": ports})),
    })
}

/// Whether somebody speaks a protocol.
pub(crate) async fn protocol(_: Identity, State(api): State<Api>, Path(protocol): Path<String>) -> Response {
    let protocols: Vec<&str> = api.listeners().into_iter().map(|(protocol, _)| protocol).collect();
    let asked = match protocol.as_str() {
        "amqp091" | "amqp0.9.1" | "amqp0-9-1" => "amqp",
        other => other,
    };
    match protocols.contains(&asked) {
        true => Json(json!({"status": "ok", "protocols": protocols})).into_response(),
        false => failed(json!({"reason": "No active listener", "missing": [protocol], "protocols": protocols})),
    }
}
