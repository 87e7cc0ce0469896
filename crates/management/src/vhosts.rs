//! `/api/vhosts`.

use std::sync::Arc;

use leveret_broker::registry::ChangeRequest;
use leveret_model::{Command, QueueType, RedeclareMismatch, Topology, VhostDefaults, VhostSettings};
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::call::{Call, HandlerResult, json, no_content, put as created};
use crate::error::Error;
use crate::fields;
use crate::history::Ranges;
use crate::list;
use crate::statistics;

/// GET: vhosts visible to the user; monitors see all.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let (identity, api) = (&call.identity, &call.api);
    let vhosts = topology.vhosts().filter(|vhost| identity.monitors() || identity.sees(&topology, vhost));
    let mut shown: Vec<Value> = vhosts.map(|vhost| view(api, &topology, vhost)).collect();
    statistics::add_to_vhosts(api, &mut shown, Ranges::of(&call.query).as_ref());
    list::values(&call.query, shown)
}

/// GET of one.
pub(crate) async fn one(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let name = topology.vhost(call.word(0)).ok_or(Error::NotFound)?;
    let mut shown = [view(&call.api, &topology, name)];
    statistics::add_to_vhosts(&call.api, &mut shown, Ranges::of(&call.query).as_ref());
    let [shown] = shown;
    json(crate::columns::Columns::of(&call.query).pick(shown))
}

/// PUT: creates a vhost, or changes its metadata.
pub(crate) async fn put(call: Call) -> HandlerResult {
    let (name, body) = (call.word(0), call.object()?);
    let permit = call.administers()?;
    let topology = call.topology();
    let is_new = topology.vhost(name).is_none();
    if is_new {
        fields::check_name("virtual host", name)?;
    }
    let defaults = call.api.node().vhost_defaults();
    let settings = settings(topology.vhost_settings(name), defaults, &body)?;
    let mut commands = Vec::new();
    if is_new {
        commands.push(Command::CreateVhost { name: name.into() });
    }
    commands.push(Command::SetVhost { name: name.into(), settings });
    if is_new {
        commands.extend(defaults.commands(name, &topology, |_| false));
    }
    if is_new && !call.identity.is_local() {
        // The creator of a vhost gets access to it, as in RabbitMQ.
        commands.push(Command::SetPermissions(leveret_model::SetPermissions {
            user: call.identity.name().into(),
            vhost: name.into(),
            configure: ".*".to_owned(),
            write: ".*".to_owned(),
            read: ".*".to_owned(),
        }));
    }
    // Before anything is changed.
    let tracing = fields::optional_flag(&body, "tracing")?;
    call.api.submit_all(permit, commands).await?;
    if let Some(traced) = tracing {
        call.api.durable(call.api.broker().registry.set_tracing(name, traced)).await?;
    }
    created(is_new)
}

/// DELETE: deletes a vhost with everything in it.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let name = call.word(0);
    let permit = call.administers()?;
    if call.topology().vhost(name).is_none() {
        return Err(Error::NotFound);
    }
    call.api.delete(ChangeRequest::new(permit, Command::DeleteVhost { name: name.into() })).await?;
    call.api.close_where("vhost is deleted", |client| *client.vhost == *name);
    no_content()
}

/// POST: protects it from deletion.
pub(crate) async fn protect(call: Call) -> HandlerResult {
    set_protected(call, true).await
}

/// DELETE: removes the protection from deletion.
pub(crate) async fn unprotect(call: Call) -> HandlerResult {
    set_protected(call, false).await
}

async fn set_protected(call: Call, protected: bool) -> HandlerResult {
    let name = call.word(0);
    let permit = call.administers()?;
    let topology = call.topology();
    let current = topology.vhost_settings(name).ok_or(Error::NotFound)?;
    let settings = VhostSettings { protected_from_deletion: protected, ..VhostSettings::clone(current) };
    call.api.submit(permit, Command::SetVhost { name: name.into(), settings }).await?;
    no_content()
}

/// POST: starts a vhost on a node. All vhosts are up on ours.
pub(crate) async fn start(call: Call) -> HandlerResult {
    if call.topology().vhost(call.word(0)).is_none() {
        return Err(Error::NotFound);
    }
    match call.word(1) == call.api.name() {
        true => no_content(),
        false => Err(Error::BadRequest(format!("Unknown node: {}", call.word(1)))),
    }
}

/// The settings after applying a body to the current ones.
///
/// # Errors
/// The body asks for something unsupported or invalid.
pub(crate) fn settings(
    current: Option<&Arc<VhostSettings>>,
    defaults: &VhostDefaults,
    body: &Map<String, Value>,
) -> Result<VhostSettings, Error> {
    let mut settings = current.map_or_else(|| defaults.settings(), |current| VhostSettings::clone(current));
    if let Some(description) = body.get("description") {
        settings.description = match description {
            Value::String(text) => text.as_str().into(),
            Value::Null => "".into(),
            other => other.to_string().into(),
        };
    }
    if let Some(tags) = body.get("tags") {
        settings.tags = fields::tags(tags)?;
    }
    match fields::text_or(body, "default_queue_type", "undefined")? {
        "undefined" => {}
        kind => match QueueType::parse(kind) {
            // The present one may stay: declarations are refused.
            Some(queue_type) if current.is_some_and(|current| *current.default_queue_type == *queue_type.name()) => {}
            Some(queue_type) if !defaults.queue_types.has(queue_type) => {
                return Err(Error::BadRequest(format!("queue type {kind} is not enabled")));
            }
            Some(queue_type) => settings.default_queue_type = queue_type.name().into(),
            None => return Err(Error::BadRequest(format!("{kind} is not a valid queue type"))),
        },
    }
    match fields::text_or(body, "redeclare_mismatch", "undefined")? {
        "undefined" => {}
        name => match RedeclareMismatch::parse(name) {
            Some(rule) => settings.redeclare_mismatch = rule,
            None => {
                return Err(Error::BadRequest(format!(
                    "redeclare_mismatch is '{name}'; expected accept, warn or reject"
                )));
            }
        },
    }
    settings.protected_from_deletion =
        fields::flag_or(body, "protected_from_deletion", settings.protected_from_deletion)?;
    Ok(settings)
}

/// Description, tags and other metadata, also in exports.
pub(crate) fn metadata(settings: &VhostSettings) -> Value {
    let mut metadata = json!({
        "description": settings.description,
        "tags": settings.tags,
        "default_queue_type": settings.default_queue_type,
    });
    if !settings.redeclare_mismatch.is_default() {
        metadata["redeclare_mismatch"] = json!(settings.redeclare_mismatch.name());
    }
    if settings.protected_from_deletion {
        metadata["protected_from_deletion"] = json!(true);
    }
    metadata
}

fn view(api: &Api, topology: &Topology, name: &str) -> Value {
    let settings = topology.vhost_settings(name).cloned().unwrap_or_default();
    json!({
        "name": name,
        "description": settings.description,
        "tags": settings.tags,
        "default_queue_type": settings.default_queue_type,
        "protected_from_deletion": settings.protected_from_deletion,
        "metadata": metadata(&settings),
        "tracing": api.broker().registry.snapshot().traced.contains(name),
        "cluster_state": {api.name(): "running"},
    })
}
