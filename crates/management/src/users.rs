//! `/api/users`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leveret_auth::{HASHING_SHA256, hash_password, is_hashing_algorithm, random_salt};
use leveret_broker::registry::ChangeRequest;
use leveret_model::{Command, CommandOutcome, LimitOwner, PutUser, Topology, User};
use serde_json::{Map, Value, json};

use crate::call::{Call, HandlerResult, json, no_content, put as created};
use crate::error::Error;
use crate::password_rule::PasswordRule;
use crate::{fields, list};

/// Users with this tag can't be changed over HTTP.
const PROTECTED: &str = "protected";

/// GET.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    list::values(&call.query, topology.users().map(|user| view(&topology, user)).collect())
}

/// GET: users without access to any vhost.
pub(crate) async fn without_permissions(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let locked_out = |user: &&Arc<User>| !topology.permissions().any(|permission| permission.user == user.name);
    list::values(&call.query, topology.users().filter(locked_out).map(|user| view(&topology, user)).collect())
}

/// GET of one.
pub(crate) async fn one(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    json(view(&topology, topology.user(call.word(0)).ok_or(Error::NotFound)?))
}

/// PUT: creates or changes a user.
pub(crate) async fn put(call: Call) -> HandlerResult {
    let (name, body) = (call.word(0), call.object()?);
    let permit = call.administers()?;
    let topology = call.topology();
    check_unprotected(&topology, name)?;
    if topology.user(name).is_none() {
        fields::check_name("user", name)?;
    }
    let user = parse(name, &body, call.api.password_rule())?;
    created(call.api.submit(permit, Command::PutUser(user)).await? == CommandOutcome::Created)
}

/// DELETE: deletes a user and closes its connections.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let name = call.word(0);
    let permit = call.administers()?;
    let topology = call.topology();
    check_unprotected(&topology, name)?;
    topology.user(name).ok_or(Error::NotFound)?;
    call.api.delete(ChangeRequest::new(permit, Command::DeleteUser { name: name.into() })).await?;
    call.api.close_where("user is deleted", |client| *client.user == *name);
    no_content()
}

/// POST: deletes several users. Missing ones are no error.
pub(crate) async fn delete_many(call: Call) -> HandlerResult {
    let body = call.object()?;
    fields::require(&body, &["users"])?;
    let wrong = || Error::BadRequest("users is no list of names".to_owned());
    let names = body["users"].as_array().ok_or_else(wrong)?;
    let names = names.iter().map(|name| name.as_str().ok_or_else(wrong)).collect::<Result<Vec<&str>, Error>>()?;
    let permit = call.administers()?;
    let topology = call.topology();
    names.iter().try_for_each(|name| check_unprotected(&topology, name))?;
    let commands = names.iter().map(|name| Command::DeleteUser { name: (*name).into() }).collect();
    call.api.submit_all(permit, commands).await?;
    call.api.close_where("user is deleted", |client| names.contains(&&*client.user));
    no_content()
}

/// GET: the hash of a password in the form used by definitions.
pub(crate) async fn hash(call: Call) -> HandlerResult {
    json(json!({"ok": hash_password(call.word(0).as_bytes(), random_salt())}))
}

fn check_unprotected(topology: &Topology, name: &str) -> Result<(), Error> {
    match topology.user(name).is_some_and(|user| user.has_tag(PROTECTED)) {
        true => Err(Error::BadRequest("Protected users cannot be modified via the HTTP API".to_owned())),
        false => Ok(()),
    }
}

/// Parses a body of the API or an entry of definitions.
///
/// # Errors
/// It doesn't describe a user, or its password breaks the rule.
pub(crate) fn parse(name: &str, body: &Map<String, Value>, rule: &PasswordRule) -> Result<PutUser, Error> {
    let bad = |reason: &str| Err(Error::BadRequest(reason.to_owned()));
    // The older name of the field.
    let Some(tags) = body.get("tags").or_else(|| body.get("administrator").map(|_| &Value::Null)) else {
        return bad("tags_not_present");
    };
    let mut tags = fields::tags(tags)?;
    if body.get("administrator").is_some_and(|flag| *flag == json!(true) || *flag == json!("true")) {
        tags.push("administrator".into());
    }
    let given = |key: &str| body.get(key).filter(|value| !value.is_null());
    let (hash, algorithm) = match (given("password"), given("password_hash")) {
        (Some(_), Some(_)) => return bad("both_password_and_password_hash_are_provided"),
        (Some(Value::String(password)), None) => {
            if let Err(reason) = rule.check(password) {
                return Err(Error::BadRequest(format!("credential_validation_failed: {reason}")));
            }
            (Some(hash_password(password.as_bytes(), random_salt())), HASHING_SHA256)
        }
        (None, Some(Value::String(hash))) => {
            let algorithm = fields::text_or(body, "hashing_algorithm", HASHING_SHA256)?;
            if !is_hashing_algorithm(algorithm) {
                return Err(Error::BadRequest(format!("unknown hashing_algorithm '{algorithm}'")));
            }
            if STANDARD.decode(hash).is_err() {
                return Err(Error::BadRequestOf(json!(["not_base64", hash])));
            }
            (Some(hash.clone()).filter(|hash| !hash.is_empty()), algorithm)
        }
        (None, None) => (None, HASHING_SHA256),
        _ => return bad("password is no text"),
    };
    Ok(PutUser { name: name.into(), password_hash: hash.map(Into::into), hashing_algorithm: algorithm.into(), tags })
}

/// A user in lists and exports.
pub(crate) fn view(topology: &Topology, user: &User) -> Value {
    let limits = topology.limits_of(&LimitOwner::User(user.name.clone())).cloned().unwrap_or_default();
    json!({
        "name": user.name,
        "password_hash": user.password_hash.as_deref().unwrap_or(""),
        "hashing_algorithm": user.hashing_algorithm,
        "tags": user.tags,
        "limits": limits,
    })
}
