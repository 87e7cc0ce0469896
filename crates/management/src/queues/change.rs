//! Declaring, deleting and purging. Answers wait until it is durable.

use std::collections::HashMap;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use leveret_model::{Action, Arguments, Command, DeclareQueue, DeleteQueue, Outcome, authorize};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::api::Api;
use crate::error::Error;
use crate::identity::Identity;

/// PUT: 201 if it is new, 204 if it was there.
pub(crate) async fn declare(
    identity: Identity,
    State(api): State<Api>,
    Path((vhost, name)): Path<(String, String)>,
    body: Bytes,
) -> Result<StatusCode, Error> {
    let topology = api.broker().registry.staged_topology();
    if topology.vhost(&vhost).is_none() {
        return Err(Error::Missing("vhost_not_found"));
    }
    let body = object(&body)?;
    let arguments = match body.get("arguments") {
        None | Some(Value::Null) => Arguments::default(),
        Some(json @ Value::Object(_)) => Arguments::from_json(json),
        // An empty table comes as an empty list from clients written in PHP.
        Some(Value::Array(list)) if list.is_empty() => Arguments::default(),
        Some(_) => return Err(Error::BadRequest("arguments is no object".to_owned())),
    };
    let dead_letter_exchange = arguments.get("x-dead-letter-exchange").and_then(|value| value.as_str());
    let action = Action::DeclareQueue { queue: &name, dead_letter_exchange };
    let permit = authorize(&topology, identity.name(), &vhost, action)?;
    let command = Command::DeclareQueue(DeclareQueue {
        vhost: vhost.into(),
        name: name.into(),
        server_named: false,
        durable: boolean(&body, "durable")?,
        auto_delete: boolean(&body, "auto_delete")?,
        exclusive: false,
        connection: None,
        arguments: arguments.clone(),
    });
    let now = api.node().clock().monotonic();
    let submitted = api.broker().registry.submit(permit, command, now)?;
    durable(&api, submitted.position).await?;
    Ok(match submitted.outcome {
        Outcome::Created => StatusCode::CREATED,
        _ => StatusCode::NO_CONTENT,
    })
}

/// DELETE, maybe only if it is unused or empty.
pub(crate) async fn delete(
    identity: Identity,
    State(api): State<Api>,
    Path((vhost, name)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<StatusCode, Error> {
    let registry = &api.broker().registry;
    let snapshot = registry.staged_snapshot();
    identity.check_sees(&snapshot.topology, &vhost)?;
    let permit = authorize(&snapshot.topology, identity.name(), &vhost, Action::DeleteQueue(&name))?;
    let queue = snapshot.queue(&vhost, &name).ok_or(Error::NotFound)?;
    snapshot.topology.usable_queue(&vhost, &name, None)?;
    let (messages, consumers) = queue.counts();
    let asks = |key: &str| query.get(key).is_some_and(|value| value == "true");
    if asks("if-unused") && consumers > 0 {
        return Err(Error::BadRequest(format!("queue '{name}' in vhost '{vhost}' in use")));
    }
    if asks("if-empty") && messages > 0 {
        return Err(Error::BadRequest(format!("queue '{name}' in vhost '{vhost}' not empty")));
    }
    let command = Command::DeleteQueue(DeleteQueue { vhost: vhost.into(), name: name.into(), connection: None });
    let submitted = registry.submit(permit, command, api.node().clock().monotonic())?;
    durable(&api, submitted.position).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// DELETE of the contents.
pub(crate) async fn purge(
    identity: Identity,
    State(api): State<Api>,
    Path((vhost, name)): Path<(String, String)>,
) -> Result<StatusCode, Error> {
    let snapshot = api.broker().registry.staged_snapshot();
    identity.check_sees(&snapshot.topology, &vhost)?;
    let queue = snapshot.queue(&vhost, &name).ok_or(Error::NotFound)?;
    authorize(&snapshot.topology, identity.name(), &vhost, Action::Consume(&name))?;
    snapshot.topology.usable_queue(&vhost, &name, None)?;
    let (_, position) = queue.purge(api.node().clock().monotonic());
    durable(&api, position).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Waits until everything up to `position` is on disk, and its changes are published.
pub(crate) async fn durable(api: &Api, position: u64) -> Result<(), Error> {
    let commit = &api.broker().commit;
    commit.announce();
    if commit.durable() < position {
        let (done, wait) = oneshot::channel();
        commit.when_durable(
            position,
            Box::new(move || {
                let _ = done.send(());
            }),
        );
        wait.await.map_err(|_| Error::Unavailable("the node stops".to_owned()))?;
    }
    api.broker().registry.publish();
    Ok(())
}

/// The body as an object; none means an empty one.
pub(crate) fn object(body: &[u8]) -> Result<serde_json::Map<String, Value>, Error> {
    if body.trim_ascii().is_empty() {
        return Ok(serde_json::Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(Error::BadRequest("not_json".to_owned())),
    }
}

/// A flag, which clients also send as text.
fn boolean(body: &serde_json::Map<String, Value>, key: &str) -> Result<bool, Error> {
    match body.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(text)) if text == "true" => Ok(true),
        Some(Value::String(text)) if text == "false" => Ok(false),
        Some(other) => Err(Error::BadRequest(format!("{key} is no boolean: {other}"))),
    }
}
