//! `/api/cluster`: the members of the cluster.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use leveret_broker::registry::ChangeRequest;
use leveret_model::Command;
use leveret_node::{Listening, NextStart};
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, json, no_content};
use crate::error::Error;
use crate::fields;

/// GET: the members, and which of them run.
pub(crate) async fn status(call: Call) -> HandlerResult {
    let api = &call.api;
    let topology = api.broker().registry.snapshot().topology.clone();
    let seen = api.node().cluster().map(|cluster| cluster.seen()).unwrap_or_default();
    let own = json!({
        "name": api.name(),
        "running": true,
        "version": api.broker().settings.version,
        "cores": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "maintenance": api.broker().is_in_maintenance(),
        "alarms": api.broker().alarms.raised().map(|source| source.name()).collect::<Vec<_>>(),
        "listeners": api.listeners().iter().map(listener).collect::<Vec<_>>(),
    });
    let mut nodes = vec![own];
    for member in topology.members().filter(|member| Some(member.number) != seen.member) {
        nodes.push(json!({
            "name": member.name,
            "running": seen.reached.contains_key(&member.number),
            "version": api.broker().settings.version,
        }));
    }
    let leader = seen.leader.and_then(|leader| Some(topology.member(leader)?.name.clone()));
    json(json!({
        "cluster_name": api.cluster_name(),
        "nodes": nodes,
        "leader": leader,
        "term": seen.term,
        "applied": seen.applied,
    }))
}

fn listener(listening: &Listening) -> Value {
    let Listening { kind, address } = listening;
    let (interface, port) = (listening.interface(), address.port());
    json!({"interface": interface, "port": port, "protocol": kind.protocol, "purpose": kind.purpose})
}

/// PUT: makes the node a member of another one's cluster; its own data goes.
pub(crate) async fn join(call: Call) -> HandlerResult {
    let body = call.object()?;
    fields::require(&body, &["node"])?;
    let Some(name) = body["node"].as_str() else { return Err(Error::BadRequest("node is no name".to_owned())) };
    let broker = call.api.broker();
    let topology = broker.registry.snapshot().topology.clone();
    if topology.member_named(name).is_some() {
        return json(json!({"already_member": true}));
    }
    if call.api.cluster_size() > 1 {
        let text = format!(
            "the node is a member of another cluster; 'rabbitmqctl reset' takes it out of that before it can join {name}"
        );
        return Err(Error::BadRequest(text));
    }
    let snapshot = broker.registry.snapshot_full();
    let held: u64 =
        snapshot.queues.values().filter(|queue| queue.info().is_logged()).map(|queue| queue.gauges().messages()).sum();
    if held > 0 {
        let text = format!(
            "the node holds {held} messages in durable queues, which joining {name} would delete: move them away, or call 'rabbitmqctl reset' \
             first"
        );
        return Err(Error::BadRequest(text));
    }
    let next = call.api.node().join_cluster(name).await.map_err(Error::BadRequest)?;
    call.api.node().start_anew(next);
    status_accepted()
}

/// PUT: removes the node from its cluster, and all its data.
pub(crate) async fn reset(call: Call) -> HandlerResult {
    let body = call.object()?;
    let is_forced = body.get("force").and_then(Value::as_bool).unwrap_or(false);
    if call.api.cluster_size() > 1 && !is_forced {
        let permit = call.administers()?;
        let forgotten = Command::ForgetMember { name: call.api.name().into() };
        call.api.delete(ChangeRequest::new(permit, forgotten)).await?;
    }
    call.api.node().start_anew(NextStart::Reset);
    status_accepted()
}

/// GET: a change that restarts the node is done when the node answers again.
pub(crate) async fn change(call: Call) -> HandlerResult {
    let state = if call.api.node().next_start().is_some() { "running" } else { "done" };
    json(json!({"state": state}))
}

fn status_accepted() -> HandlerResult {
    Ok(StatusCode::ACCEPTED.into_response())
}

/// DELETE: strikes a member that doesn't run.
pub(crate) async fn forget(call: Call) -> HandlerResult {
    let name = call.word(0).to_owned();
    let broker = call.api.broker().clone();
    let topology = broker.registry.snapshot().topology.clone();
    let Some(member) = topology.member_named(&name).cloned() else {
        return Err(Error::NotFound);
    };
    let seen = call.api.node().cluster().map(|cluster| cluster.seen()).unwrap_or_default();
    if Some(member.number) == seen.member || seen.reached.contains_key(&member.number) {
        let text =
            format!("node '{name}' runs: stop it first, or 'rabbitmqctl reset' it, which takes it out of the cluster");
        return Err(Error::BadRequest(text));
    }
    let permit = call.administers()?;
    call.api.delete(ChangeRequest::new(permit, Command::ForgetMember { name: name.as_str().into() })).await?;
    tracing::info!("Removed node {name} from the cluster");
    no_content()
}
