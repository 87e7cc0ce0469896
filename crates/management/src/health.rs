//! `/api/health/checks`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use leveret_broker::AlarmSource;
use serde_json::{Value, json};

use crate::api::Api;
use crate::call::{Answer, Call, json};
use crate::error::Error;

fn ok() -> Answer {
    json(json!({"status": "ok"}))
}

fn failed(mut body: Value) -> Answer {
    body["status"] = json!("failed");
    Ok((StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response())
}

/// What is always so where one node is the cluster.
pub(crate) async fn always(_: Call) -> Answer {
    ok()
}

/// Whether the node isn't in maintenance. It runs: a storage error ends it.
pub(crate) async fn in_service(call: Call) -> Answer {
    match call.api.broker().is_in_maintenance() {
        true => failed(json!({"reason": "this rabbit node is not currently available to serve"})),
        false => ok(),
    }
}

/// Whether an alarm of any node holds publishers back.
pub(crate) async fn alarms(call: Call) -> Answer {
    alarms_or(&call.api, "There are alarms in effect in the cluster")
}

/// Whether an alarm of this node holds publishers back.
pub(crate) async fn local_alarms(call: Call) -> Answer {
    alarms_or(&call.api, "There are alarms in effect on the node")
}

fn alarms_or(api: &Api, reason: &str) -> Answer {
    let alarm = |source: AlarmSource| json!({"resource": source.resource(), "node": api.name()});
    let raised: Vec<Value> = api.broker().alarms.raised().map(alarm).collect();
    if raised.is_empty() { ok() } else { failed(json!({"reason": reason, "alarms": raised})) }
}

/// A node that is alone is no member of a quorum that its stop could break.
pub(crate) async fn quorum_critical(_: Call) -> Answer {
    json(json!({"status": "ok", "reason": "single node cluster"}))
}

/// Whether no certificate expires in a time; there is no listener with one.
pub(crate) async fn certificates(call: Call) -> Answer {
    if call.word(0).parse::<u32>().is_err() {
        return Err(Error::BadRequest("Invalid expiration value.".to_owned()));
    }
    match call.word(1) {
        "days" | "weeks" | "months" | "years" => ok(),
        _ => {
            Err(Error::BadRequest("Time unit not recognised. Supported units: days, weeks, months, years.".to_owned()))
        }
    }
}

/// Whether clients can be served: the node accepts connections.
pub(crate) async fn ready(call: Call) -> Answer {
    if call.api.broker().is_in_maintenance() {
        return failed(json!({"reason": "the rabbit node is not currently available to serve"}));
    }
    let ports = call.api.node().ports();
    match ports.amqp.or(ports.amqps) {
        Some(_) => ok(),
        None => failed(json!({"reason": "No AMQP listener is open"})),
    }
}

/// Whether there may be more connections than there are.
pub(crate) async fn connection_limit(call: Call) -> Answer {
    let broker = call.api.broker();
    let (connections, limit) = (broker.connection_count() as u64, broker.settings.max_connections);
    match limit.map(|limit| limit as u64).filter(|limit| connections >= *limit) {
        Some(limit) => {
            failed(json!({"reason": "node connection limit is reached", "connections": connections, "limit": limit}))
        }
        None => ok(),
    }
}

/// Whether every vhost is up. A queue that failed doesn't take its vhost down.
pub(crate) async fn virtual_hosts(_: Call) -> Answer {
    ok()
}

/// Whether somebody listens on a port.
pub(crate) async fn port(call: Call) -> Answer {
    let port: u16 = call.word(0).parse().map_err(|_| Error::BadRequest("Invalid port".to_owned()))?;
    let ports: Vec<u16> = call.api.listeners().into_iter().map(|(_, port)| port).collect();
    match ports.contains(&port) {
        true => json(json!({"status": "ok", "port": port})),
        false => failed(json!({"reason": "No active listener", "missing": port, "ports": ports})),
    }
}

/// Whether somebody speaks one of these protocols.
pub(crate) async fn protocol(call: Call) -> Answer {
    let protocols: Vec<&str> = call.api.listeners().into_iter().map(|(protocol, _)| protocol).collect();
    let asked: Vec<&str> = call.word(0).split(',').map(str::trim).collect();
    let known = |asked: &&&str| {
        let asked = match **asked {
            "amqp091" | "amqp0.9.1" | "amqp0-9-1" => "amqp",
            other => other,
        };
        protocols.contains(&asked)
    };
    match asked.iter().any(|asked| known(&asked)) {
        true => json(json!({"status": "ok", "protocols": protocols})),
        false => failed(json!({"reason": "No active listener", "missing": asked, "protocols": protocols})),
    }
}

/// The old check of a vhost. It needs what it once needed, and does nothing.
pub(crate) async fn aliveness(call: Call) -> Answer {
    let queue = leveret_model::Resource::Queue("aliveness-test");
    call.permit(call.word(0), leveret_model::Action::Configure(queue))?;
    ok()
}

/// The old check of a node.
pub(crate) async fn node(call: Call) -> Answer {
    match call.path.first().is_none_or(|name| name == call.api.name()) {
        true => ok(),
        false => Err(Error::NotFound),
    }
}
