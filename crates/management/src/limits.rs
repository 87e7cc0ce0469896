//! `/api/vhost-limits` and `/api/user-limits`.

use leveret_model::{Command, LimitOwner, LimitValues};
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, no_content};
use crate::error::Error;
use crate::{fields, list};

/// GET: limits of all vhosts visible to the user.
pub(crate) async fn of_vhosts(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let seen = topology.all_limits().filter_map(|(owner, values)| match owner {
        LimitOwner::Vhost(vhost) if call.identity.monitors() || call.identity.sees(&topology, &vhost) => {
            Some(json!({"vhost": vhost, "value": values}))
        }
        _ => None,
    });
    list::values(&call.query, seen.collect())
}

/// GET: limits of one vhost.
pub(crate) async fn of_vhost(call: Call) -> HandlerResult {
    let vhost = call.word(0);
    let topology = call.api.topology();
    let values = topology.limits_of(&LimitOwner::Vhost(vhost.into())).filter(|values| !values.is_empty());
    list::values(&call.query, values.map(|values| json!({"vhost": vhost, "value": values})).into_iter().collect())
}

/// GET: limits of all users that have some.
pub(crate) async fn of_users(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let users = topology.all_limits().filter_map(|(owner, values)| match owner {
        LimitOwner::User(user) if !values.is_empty() => Some(json!({"user": user, "value": values})),
        _ => None,
    });
    list::values(&call.query, users.collect())
}

/// GET: limits of one user.
pub(crate) async fn of_user(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let user = topology.user(call.word(0)).ok_or(Error::NotFound)?;
    let values = topology.limits_of(&LimitOwner::User(user.name.clone())).filter(|values| !values.is_empty());
    list::values(&call.query, values.map(|values| json!({"user": user.name, "value": values})).into_iter().collect())
}

/// PUT: sets one limit of a vhost.
pub(crate) async fn put_of_vhost(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    if call.topology().vhost(vhost).is_none() {
        return Err(Error::Missing("vhost_not_found".to_owned()));
    }
    put(&call, LimitOwner::Vhost(vhost.into()), name).await
}

/// PUT: sets one limit of a user.
pub(crate) async fn put_of_user(call: Call) -> HandlerResult {
    let (user, name) = (call.word(0), call.word(1));
    if call.topology().user(user).is_none() {
        return Err(Error::BadRequestOf(json!(["no_such_user", user])));
    }
    put(&call, LimitOwner::User(user.into()), name).await
}

/// DELETE: removes one limit of a vhost.
pub(crate) async fn delete_of_vhost(call: Call) -> HandlerResult {
    let vhost = call.word(0);
    call.topology().vhost(vhost).ok_or(Error::NotFound)?;
    clear(&call, LimitOwner::Vhost(vhost.into())).await
}

/// DELETE: removes one limit of a user.
pub(crate) async fn delete_of_user(call: Call) -> HandlerResult {
    let user = call.word(0);
    call.topology().user(user).ok_or(Error::NotFound)?;
    clear(&call, LimitOwner::User(user.into())).await
}

/// Sets the limits of a vhost to those of an object, and no others. Returns whether it had none before.
///
/// # Errors
/// It isn't an object of limits, or the user isn't an administrator.
pub(crate) async fn replace(call: &Call, vhost: &str, values: &Value) -> Result<bool, Error> {
    let permit = call.administers()?;
    let owner = LimitOwner::Vhost(vhost.into());
    let none = serde_json::Map::new();
    let values = match values {
        Value::Object(values) => values,
        // An empty list of Erlang.
        Value::Array(list) if list.is_empty() => &none,
        other => return Err(Error::BadRequest(framed(&owner, &format!("limits should be an object, got {other}")))),
    };
    let before = call.topology().limits_of(&owner).cloned().unwrap_or_default();
    let mut commands = Vec::new();
    for (name, value) in values {
        let value = checked(&owner, name, value).map_err(|reason| Error::BadRequest(framed(&owner, &reason)))?;
        commands.push(Command::SetLimit { owner: owner.clone(), name: name.as_str().into(), value: Some(value) });
    }
    let gone = before.keys().filter(|name| !values.contains_key(&***name));
    commands.extend(gone.map(|name| Command::SetLimit { owner: owner.clone(), name: name.clone(), value: None }));
    call.api.submit_all(permit, commands).await?;
    Ok(before.is_empty())
}

async fn put(call: &Call, owner: LimitOwner, name: &str) -> HandlerResult {
    let permit = call.administers()?;
    let body = call.object()?;
    fields::require(&body, &["value"])?;
    let value = checked(&owner, name, &body["value"]).map_err(|reason| Error::BadRequest(framed(&owner, &reason)))?;
    call.api.submit(permit, Command::SetLimit { owner, name: name.into(), value: Some(value) }).await?;
    no_content()
}

async fn clear(call: &Call, owner: LimitOwner) -> HandlerResult {
    let (permit, name) = (call.administers()?, call.word(1));
    if owner.names().contains(&name) {
        call.api.submit(permit, Command::SetLimit { owner, name: name.into(), value: None }).await?;
    }
    no_content()
}

/// RabbitMQ's format of a reason: limits of vhosts are parameters there.
fn framed(owner: &LimitOwner, reason: &str) -> String {
    match owner {
        LimitOwner::Vhost(_) => format!("Validation failed\n\n{reason}\n"),
        LimitOwner::User(_) => reason.to_owned(),
    }
}

/// Checks the value of a limit.
///
/// # Errors
/// The limit doesn't exist, or the value isn't a number.
pub(crate) fn checked(owner: &LimitOwner, name: &str, value: &Value) -> Result<i64, String> {
    let erlang = match value {
        Value::String(text) => format!("<<\"{text}\">>"),
        other => other.to_string(),
    };
    if !owner.names().contains(&name) {
        let kind = if matches!(owner, LimitOwner::Vhost(_)) { "limits" } else { "user-limits" };
        return Err(format!("Unrecognised terms [{{<<\"{name}\">>,{erlang}}}] in {kind}"));
    }
    value.as_i64().ok_or_else(|| format!("{name} should be a number, actually was {erlang}"))
}

/// Limits in the form of parameters and exports.
pub(crate) fn parameter(vhost: &str, values: &LimitValues) -> Value {
    json!({"vhost": vhost, "component": "vhost-limits", "name": "limits", "value": values})
}
