//! `/api/parameters` and `/api/global-parameters`. As in RabbitMQ, limits of vhosts and operator policies are parameters. There
//! are no other components yet.

use leveret_broker::registry::ChangeRequest;
use leveret_model::{Command, CommandOutcome, LimitOwner, PolicyKind, Topology};
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, json, no_content, put as created};
use crate::error::Error;
use crate::running_transfers::parameter::is_transfer;
use crate::{fields, limits, list, policies};

/// The component of vhosts' limits.
const VHOST_LIMITS: &str = "vhost-limits";
/// The name of the parameter with all limits of a vhost.
const LIMITS: &str = "limits";

/// GET: parameters of all components, or of `{component}`, optionally only in `{vhost}`.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let (component, vhost) = (call.path.first(), call.path.get(1));
    let is_asked = |name: &str| component.is_none_or(|component| component == name);
    let is_shown = |name: &str| vhost.is_none_or(|vhost| vhost == name) && call.identity.sees(&topology, name);
    let mut shown = Vec::new();
    for kind in PolicyKind::ALL {
        // Policies aren't listed among all parameters, but operator policies are.
        let name = policies::component(kind);
        if is_asked(name) && (kind == PolicyKind::Operator || component.is_some()) {
            let vhosts = topology.vhosts().filter(|vhost| is_shown(vhost));
            let found = vhosts.flat_map(|vhost| topology.policies(kind, vhost));
            shown.extend(found.map(|policy| policies::parameter(policy)));
        }
    }
    if is_asked(VHOST_LIMITS) {
        shown.extend(topology.all_limits().filter_map(|(owner, values)| match owner {
            // A vhost whose last limit was cleared has an entry among limits, but no parameter.
            LimitOwner::Vhost(name) if !values.is_empty() && is_shown(&name) => Some(limits::parameter(&name, values)),
            _ => None,
        }));
    }
    list::values(&call.query, shown)
}

/// GET of one.
pub(crate) async fn one(call: Call) -> HandlerResult {
    let (component, vhost, name) = (call.word(0), call.word(1), call.word(2));
    let topology = call.api.topology();
    let shown = || match component {
        VHOST_LIMITS if name == LIMITS => {
            topology.limits_of(&LimitOwner::Vhost(vhost.into())).map(|values| limits::parameter(vhost, values))
        }
        _ => policy(&topology, component, vhost, name).map(policies::parameter),
    };
    json(call.identity.sees(&topology, vhost).then(shown).flatten().ok_or(Error::NotFound)?)
}

/// The policy that is this parameter.
fn policy<'a>(topology: &'a Topology, component: &str, vhost: &str, name: &str) -> Option<&'a leveret_model::Policy> {
    let kind = PolicyKind::ALL.into_iter().find(|kind| policies::component(*kind) == component)?;
    topology.policy(kind, vhost, name).map(|policy| &**policy)
}

/// PUT of one.
pub(crate) async fn put(call: Call) -> HandlerResult {
    let (component, vhost, name) = (call.word(0), call.word(1), call.word(2));
    match component {
        "policy" => Err(Error::BadRequest("policies may not be set using this method".to_owned())),
        "operator_policy" => {
            let permit = policies::permit(&call, PolicyKind::Operator, vhost)?;
            let body = call.object()?;
            fields::require(&body, &["value"])?;
            let value = body["value"].as_object().ok_or_else(|| {
                Error::BadRequest("the value of an operator policy is an object with pattern and definition".to_owned())
            })?;
            let policy = policies::parse(PolicyKind::Operator, vhost, name, value)?;
            created(policies::change(&call, permit, Command::SetPolicy(policy)).await? == CommandOutcome::Created)
        }
        "shovel" | "federation-upstream" | "federation-upstream-set" => {
            Err(Error::NotImplemented(format!("parameters of component '{component}' aren't built yet")))
        }
        VHOST_LIMITS => {
            if call.topology().vhost(vhost).is_none() {
                return Err(Error::Missing("vhost_not_found".to_owned()));
            }
            if name != LIMITS {
                return Err(Error::BadRequest(format!(
                    "the parameter of component '{VHOST_LIMITS}' is named '{LIMITS}', got '{name}'"
                )));
            }
            let body = call.object()?;
            fields::require(&body, &["value"])?;
            created(limits::replace(&call, vhost, &body["value"]).await?)
        }
        _ => Err(Error::BadRequest(format!("Validation failed\n\ncomponent {component} not found\n"))),
    }
}

/// DELETE of one.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let (component, vhost, name) = (call.word(0), call.word(1), call.word(2));
    if component == VHOST_LIMITS && name == LIMITS {
        let owner = LimitOwner::Vhost(vhost.into());
        call.topology().limits_of(&owner).filter(|values| !values.is_empty()).ok_or(Error::NotFound)?;
        limits::replace(&call, vhost, &json!({})).await?;
        return no_content();
    }
    policy(&call.topology(), component, vhost, name).ok_or(Error::NotFound)?;
    if component == policies::component(PolicyKind::User) {
        return Err(Error::BadRequest("policies may not be cleared using this method".to_owned()));
    }
    let kind = PolicyKind::Operator;
    let permit = policies::permit(&call, kind, vhost)?;
    let command = Command::ClearPolicy { kind, vhost: vhost.into(), name: name.into() };
    policies::change(&call, permit, command).await?;
    no_content()
}

/// GET: global parameters.
pub(crate) async fn global(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let shown =
        topology.global_parameters().filter(|(name, _)| !is_transfer(name)).map(|(name, value)| view(name, value));
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
    let command = Command::PutGlobalParameter { name: name.into(), value };
    created(call.api.submit(call.sets_parameters()?, command).await? == CommandOutcome::Created)
}

/// DELETE of one global parameter.
pub(crate) async fn delete_global(call: Call) -> HandlerResult {
    let name = call.word(0);
    call.topology().global_parameter(name).ok_or(Error::NotFound)?;
    let command = Command::DeleteGlobalParameter { name: name.into() };
    call.api.delete(ChangeRequest::new(call.sets_parameters()?, command)).await?;
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
