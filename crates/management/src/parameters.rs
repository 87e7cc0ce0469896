//! `/api/parameters` and `/api/global-parameters`. Components aren't supported yet; limits of vhosts are shown as
//! parameters, as in RabbitMQ.

use leveret_model::{Command, LimitOwner};
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, json, no_content, put as created};
use crate::error::Error;
use crate::{fields, limits, list};

/// The component of vhosts' limits.
const VHOST_LIMITS: &str = "vhost-limits";

/// GET: parameters of all components, or of `{component}`, optionally only in `{vhost}`.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let (component, vhost) = (call.path.first(), call.path.get(1));
    if component.is_some_and(|component| component != VHOST_LIMITS) {
        return list::values(&call.query, Vec::new());
    }
    let shown = topology.all_limits().filter_map(|(owner, values)| match owner {
        // A vhost whose last limit was cleared has an entry among limits, but no parameter.
        LimitOwner::Vhost(name)
            if !values.is_empty()
                && vhost.is_none_or(|vhost| **vhost == *name)
                && call.identity.sees(&topology, &name) =>
        {
            Some(limits::parameter(&name, values))
        }
        _ => None,
    });
    list::values(&call.query, shown.collect())
}

/// GET of one.
pub(crate) async fn one(call: Call) -> HandlerResult {
    let (component, vhost, name) = (call.word(0), call.word(1), call.word(2));
    let topology = call.api.topology();
    let values = topology.limits_of(&LimitOwner::Vhost(vhost.into()));
    match values.filter(|_| component == VHOST_LIMITS && name == "limits" && call.identity.sees(&topology, vhost)) {
        Some(values) => json(limits::parameter(vhost, values)),
        None => Err(Error::NotFound),
    }
}

/// PUT of one.
pub(crate) async fn put(call: Call) -> HandlerResult {
    let component = call.word(0);
    match component {
        "shovel" | "federation-upstream" | "federation-upstream-set" | "operator_policy" | "policy" => {
            Err(Error::NotImplemented(format!("parameters of component '{component}' aren't built yet")))
        }
        VHOST_LIMITS => Err(Error::NotImplemented("set limits with PUT /api/vhost-limits/:vhost/:name".to_owned())),
        _ => Err(Error::BadRequest(format!("Validation failed\n\ncomponent {component} not found\n"))),
    }
}

/// GET: global parameters.
pub(crate) async fn global(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let shown = topology.global_parameters().map(|(name, value)| view(name, value));
    list::values(&call.query, shown.collect())
}

/// GET of one global parameter.
pub(crate) async fn global_one(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    json(view(call.word(0), topology.global_parameter(call.word(0)).ok_or(Error::NotFound)?))
}

/// PUT of one global parameter.
pub(crate) async fn put_global(call: Call) -> HandlerResult {
    let mut body = call.object()?;
    fields::require(&body, &["value"])?;
    let (name, value) = (call.word(0), body.remove("value").unwrap_or_default());
    let is_new = call.staged().global_parameter(name).is_none();
    call.api.submit(call.sets_parameters()?, Command::PutGlobalParameter { name: name.into(), value }).await?;
    created(is_new)
}

/// DELETE of one global parameter.
pub(crate) async fn delete_global(call: Call) -> HandlerResult {
    let name = call.word(0);
    call.staged().global_parameter(name).ok_or(Error::NotFound)?;
    call.api.submit(call.sets_parameters()?, Command::DeleteGlobalParameter { name: name.into() }).await?;
    no_content()
}

/// GET of the cluster's name.
pub(crate) async fn cluster_name(call: Call) -> HandlerResult {
    json(json!({"name": call.api.cluster_name()}))
}

/// PUT of the cluster's name.
pub(crate) async fn put_cluster_name(call: Call) -> HandlerResult {
    let body = call.object()?;
    let name = fields::text(&body, "name")?;
    let command = Command::PutGlobalParameter { name: "cluster_name".into(), value: json!(name) };
    call.api.submit(call.administers()?, command).await?;
    no_content()
}

fn view(name: &str, value: &Value) -> Value {
    json!({"name": name, "value": value})
}
