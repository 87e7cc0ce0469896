//! `/api/health/checks`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use leveret_broker::AlarmSource;
use leveret_node::listener_kind::ALL;
use leveret_node::{ListenerKind, Listening, Tls};
use serde_json::{Value, json};

use crate::api::Api;
use crate::call::{Call, HandlerResult, json};
use crate::error::Error;
use crate::time::iso8601;

pub(crate) fn ok() -> HandlerResult {
    json(json!({"status": "ok"}))
}

pub(crate) fn failed(mut body: Value) -> HandlerResult {
    body["status"] = json!("failed");
    Ok((StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response())
}

/// Whether the cluster has as many members as the configuration asks for, whether they run or not.
pub(crate) async fn cluster_size(call: Call) -> HandlerResult {
    let (wanted, size) = (call.api.target_cluster_size(), call.api.cluster_size());
    let reason = match wanted {
        wanted if wanted <= size => return ok(),
        wanted if size > 1 || call.api.is_member() => not_reached(size, wanted),
        wanted => missing_nodes(wanted),
    };
    failed(json!({"reason": reason, "target": wanted, "online": size}))
}

/// RabbitMQ's words for a cluster that has too few members.
fn not_reached(size: u32, wanted: u32) -> String {
    format!("target cluster size not reached: {size} of {wanted} nodes are online")
}

/// The reason why a node isn't the cluster that its configuration asks for.
#[must_use]
pub fn missing_nodes(wanted: u32) -> String {
    format!(
        "{}: cluster_formation.target_cluster_size_hint asks for {wanted}, and this one isn't a member of a cluster. It serves no clients, \
         since it would be a broker of its own beside the others; name them (cluster_formation.peer_discovery_backend), or set the hint, or \
         the number of replicas, to 1",
        not_reached(1, wanted)
    )
}

/// Whether the node is out of maintenance. The node itself runs: a storage error ends it.
pub(crate) async fn in_service(call: Call) -> HandlerResult {
    match call.api.broker().is_in_maintenance() {
        true => failed(json!({"reason": "this rabbit node is not currently available to serve"})),
        false => ok(),
    }
}

/// Whether an alarm is raised on any node of the cluster.
pub(crate) async fn alarms(call: Call) -> HandlerResult {
    alarms_or(call.api.alarms_of_all(), "There are alarms in effect in the cluster")
}

/// Whether an alarm is raised on this node.
pub(crate) async fn local_alarms(call: Call) -> HandlerResult {
    let raised = call.api.broker().alarms.raised().map(|source| (source, call.api.name().to_owned()));
    alarms_or(raised.collect(), "There are alarms in effect on the node")
}

fn alarms_or(raised: Vec<(AlarmSource, String)>, reason: &str) -> HandlerResult {
    let alarm = |(source, node): (AlarmSource, String)| json!({"resource": source.resource(), "node": node});
    let raised: Vec<Value> = raised.into_iter().map(alarm).collect();
    if raised.is_empty() { ok() } else { failed(json!({"reason": reason, "alarms": raised})) }
}

/// Whether the node has the metadata: at once if it is alone, and as a member when the cluster has told it its members.
fn has_metadata(api: &Api) -> bool {
    !api.is_member() || api.topology().members().next().is_some()
}

/// Whether objects can be looked up.
pub(crate) async fn metadata(call: Call) -> HandlerResult {
    match has_metadata(&call.api) {
        true => ok(),
        false => failed(json!({"reason": "Metadata store has not yet reported as initialized"})),
    }
}

/// Whether objects can be looked up, and there is a virtual host.
pub(crate) async fn metadata_with_data(call: Call) -> HandlerResult {
    match has_metadata(&call.api) && call.api.topology().vhosts().next().is_some() {
        true => ok(),
        false => {
            let reason = "Metadata store has not yet been initialized: it reports to have no virtual hosts";
            failed(json!({"reason": reason}))
        }
    }
}

/// Whether no certificate of a listener expires within a time.
pub(crate) async fn certificates(call: Call) -> HandlerResult {
    let Ok(count) = call.word(0).parse::<u32>() else {
        return Err(Error::BadRequest("Invalid expiration value.".to_owned()));
    };
    let days = match call.word(1) {
        "days" => 1,
        "weeks" => 7,
        "months" => 30,
        "years" => 365,
        _ => {
            let text = "Time unit not recognised. Supported units: days, weeks, months, years.";
            return Err(Error::BadRequest(text.to_owned()));
        }
    };
    let now_s = call.api.node().clock().now().wall_ms / 1_000;
    let until_s = now_s + u64::from(count) * days * 86_400;
    let expiring: Vec<Value> =
        call.api.node().tls().iter().filter_map(|tls| expiring(&call.api, tls, until_s)).collect();
    match expiring.is_empty() {
        true => ok(),
        false => failed(json!({"reason": "Certificates expiring", "expired": expiring})),
    }
}

/// Protocol and address of a listener with TLS; the first if there are several.
pub(crate) fn listener_of(api: &Api, tls: &Tls) -> (&'static str, Option<Listening>) {
    let uses = |kind: &ListenerKind| kind.tls_options == Some(tls.prefix());
    let listening = api.node().listening().into_iter().find(|listening| uses(listening.kind));
    // One whose port can't be told is named by the first kind that has these options.
    let kind = listening.map(|listening| listening.kind).or_else(|| ALL.into_iter().find(|kind| uses(kind)));
    (kind.map_or("", |kind| kind.protocol), listening)
}

/// A listener with a certificate that expires before this time.
fn expiring(api: &Api, tls: &Tls, until_s: u64) -> Option<Value> {
    let (certificate, roots) = tls.ends();
    if ![certificate, roots].into_iter().flatten().any(|end| end < until_s) {
        return None;
    }
    let (protocol, listening) = listener_of(api, tls);
    let ends = |end: Option<u64>| end.map_or(json!("undefined"), |end| json!(iso8601(end * 1_000)));
    let options = tls.options();
    Some(json!({
        "node": api.name(),
        "protocol": protocol,
        "interface": listening.map(|listening| listening.interface()),
        "port": listening.map(|listening| listening.address.port()),
        "certfile": options.certfile,
        "certfile_expires_on": ends(certificate),
        "cacertfile": options.cacertfile,
        "cacertfile_expires_on": ends(roots),
    }))
}

/// Whether clients can be served: the node accepts connections.
pub(crate) async fn ready(call: Call) -> HandlerResult {
    if call.api.broker().is_in_maintenance() {
        return failed(json!({"reason": "the rabbit node is not currently available to serve"}));
    }
    match call.api.listeners().iter().any(|listening| listening.kind.labels.contains(&"amqp091")) {
        true => ok(),
        false => failed(json!({"reason": "No AMQP listener is open"})),
    }
}

/// Whether more connections are allowed than there are.
pub(crate) async fn connection_limit(call: Call) -> HandlerResult {
    let broker = call.api.broker();
    let (connections, limit) = (broker.connection_count() as u64, broker.settings.max_connections);
    match limit.map(|limit| limit as u64).filter(|limit| connections >= *limit) {
        Some(limit) => {
            failed(json!({"reason": "node connection limit is reached", "connections": connections, "limit": limit}))
        }
        None => ok(),
    }
}

/// Whether every vhost is up. A failed queue doesn't take its vhost down.
pub(crate) async fn virtual_hosts(_: Call) -> HandlerResult {
    ok()
}

/// Whether there is a listener on a port.
pub(crate) async fn port(call: Call) -> HandlerResult {
    let port: u16 = call.word(0).parse().map_err(|_| Error::BadRequest("Invalid port".to_owned()))?;
    let ports: Vec<u16> = call.api.listeners().into_iter().map(|listening| listening.address.port()).collect();
    match ports.contains(&port) {
        true => json(json!({"status": "ok", "port": port})),
        false => failed(json!({"reason": "No active listener", "missing": port, "ports": ports})),
    }
}

/// Whether there is a listener for each of these protocols.
pub(crate) async fn protocol(call: Call) -> HandlerResult {
    let spoken: Vec<&str> = call.api.listeners().into_iter().map(|listening| listening.kind.protocol).collect();
    let asked = call.word(0).to_lowercase();
    let missing: Vec<&str> =
        asked.split(',').map(|name| ListenerKind::name_of(name.trim())).filter(|name| !spoken.contains(name)).collect();
    match missing.is_empty() {
        true => json(json!({"status": "ok", "protocols": spoken})),
        false => failed(json!({"reason": "No active listener", "missing": missing, "protocols": spoken})),
    }
}

/// The old check of a vhost, which does nothing; monitors without any permission call it.
pub(crate) async fn aliveness(call: Call) -> HandlerResult {
    call.permit(call.word(0), leveret_model::Action::Enter)?;
    ok()
}

/// The old check of a node.
pub(crate) async fn node(call: Call) -> HandlerResult {
    match call.path.first().is_none_or(|name| name == call.api.name()) {
        true => ok(),
        false => Err(Error::NotFound),
    }
}
