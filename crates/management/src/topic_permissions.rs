//! `/api/topic-permissions`: which routing keys users may use at topic exchanges. For administrators.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use leveret_model::{Command, SetTopicPermissions, TopicPermission};
use serde_json::{Value, json};

use crate::api::Api;
use crate::error::Error;
use crate::identity::Identity;
use crate::queues::{durable, object};

/// All of them.
pub(crate) async fn list(identity: Identity, State(api): State<Api>) -> Result<Json<Value>, Error> {
    shown(&identity, &api, |_| true)
}

/// Those in one vhost.
pub(crate) async fn list_of_vhost(
    identity: Identity,
    State(api): State<Api>,
    Path(vhost): Path<String>,
) -> Result<Json<Value>, Error> {
    identity.administers(&api.topology())?;
    if api.topology().vhost(&vhost).is_none() {
        return Err(Error::NotFound);
    }
    shown(&identity, &api, |permission| *permission.vhost == *vhost)
}

/// Those of one user.
pub(crate) async fn list_of_user(
    identity: Identity,
    State(api): State<Api>,
    Path(user): Path<String>,
) -> Result<Json<Value>, Error> {
    identity.administers(&api.topology())?;
    if api.topology().user(&user).is_none() {
        return Err(Error::NotFound);
    }
    shown(&identity, &api, |permission| *permission.user == *user)
}

/// Those of one user in one vhost; there is nothing if there are none.
pub(crate) async fn show(
    identity: Identity,
    State(api): State<Api>,
    Path((vhost, user)): Path<(String, String)>,
) -> Result<Json<Value>, Error> {
    let found = shown(&identity, &api, |permission| *permission.vhost == *vhost && *permission.user == *user)?;
    if found.0.as_array().is_some_and(Vec::is_empty) { Err(Error::NotFound) } else { Ok(found) }
}

/// PUT of one exchange's: 201 if they are the user's first in this vhost, 204 otherwise.
pub(crate) async fn put(
    identity: Identity,
    State(api): State<Api>,
    Path((vhost, user)): Path<(String, String)>,
    body: Bytes,
) -> Result<StatusCode, Error> {
    let topology = api.broker().registry.staged_topology();
    let permit = identity.administers(&topology)?;
    let body = object(&body)?;
    let text = |key: &str| match body.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(Error::BadRequest(format!("{key} is no text: {other}"))),
        None => Err(Error::BadRequest(format!("[{{key_missing,{key}}}]"))),
    };
    let (exchange, write, read) = (text("exchange")?, text("write")?, text("read")?);
    if topology.user(&user).is_none() || topology.vhost(&vhost).is_none() {
        return Err(Error::BadRequest("vhost_or_user_not_found".to_owned()));
    }
    if topology.exchange(&vhost, &exchange).is_none() {
        return Err(Error::BadRequestOf(json!(["no_such_exchange", exchange])));
    }
    let first = !topology.topic_permissions_of(&user).any(|permission| *permission.vhost == *vhost);
    let (user, vhost, exchange) = (user.into(), vhost.into(), exchange.into());
    let command = Command::SetTopicPermissions(SetTopicPermissions { user, vhost, exchange, write, read });
    let submitted = api.broker().registry.submit(permit, command, api.node().clock().monotonic())?;
    durable(&api, submitted.position).await?;
    Ok(if first { StatusCode::CREATED } else { StatusCode::NO_CONTENT })
}

/// DELETE of all that the user has in this vhost.
pub(crate) async fn delete(
    identity: Identity,
    State(api): State<Api>,
    Path((vhost, user)): Path<(String, String)>,
) -> Result<StatusCode, Error> {
    let topology = api.broker().registry.staged_topology();
    let permit = identity.administers(&topology)?;
    if !topology.topic_permissions_of(&user).any(|permission| *permission.vhost == *vhost) {
        return Err(Error::NotFound);
    }
    let command = Command::ClearTopicPermissions { user: user.into(), vhost: vhost.into(), exchange: None };
    let submitted = api.broker().registry.submit(permit, command, api.node().clock().monotonic())?;
    durable(&api, submitted.position).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn shown(identity: &Identity, api: &Api, wanted: impl Fn(&TopicPermission) -> bool) -> Result<Json<Value>, Error> {
    let topology = api.topology();
    identity.administers(&topology)?;
    let view = |permission: &TopicPermission| {
        json!({
            "user": permission.user,
            "vhost": permission.vhost,
            "exchange": permission.exchange,
            "write": permission.write.as_str(),
            "read": permission.read.as_str(),
        })
    };
    let found = topology.topic_permissions().filter(|permission| wanted(permission));
    Ok(Json(found.map(|permission| view(permission)).collect()))
}
