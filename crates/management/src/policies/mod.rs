//! `/api/policies` and `/api/operator-policies`.

mod preview;

use leveret_model::{Action, Command, CommandOutcome, Permit, Policy, PolicyKind, SetPolicy};
use serde_json::{Map, Value, json};

use crate::call::{Call, HandlerResult, json, no_content, put as created};
use crate::error::Error;
use crate::missing::restricted;
use crate::{fields, list};

/// GET: policies of all vhosts visible to the user, or of `{vhost}`.
pub(crate) async fn list(call: Call) -> HandlerResult {
    listed(&call, PolicyKind::User)
}

/// GET of one.
pub(crate) async fn one(call: Call) -> HandlerResult {
    found(&call, PolicyKind::User)
}

/// PUT: responds with 201 for a new policy, 204 for an existing one, once it has taken effect.
pub(crate) async fn put(call: Call) -> HandlerResult {
    set(call, PolicyKind::User).await
}

/// DELETE.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    clear(call, PolicyKind::User).await
}

/// GET: operator policies of all vhosts visible to the user, or of `{vhost}`.
pub(crate) async fn list_operator(call: Call) -> HandlerResult {
    listed(&call, PolicyKind::Operator)
}

/// GET of an operator policy.
pub(crate) async fn one_operator(call: Call) -> HandlerResult {
    operator_policies_may_change(&call)?;
    found(&call, PolicyKind::Operator)
}

/// PUT of an operator policy.
pub(crate) async fn put_operator(call: Call) -> HandlerResult {
    set(call, PolicyKind::Operator).await
}

/// DELETE of an operator policy.
pub(crate) async fn delete_operator(call: Call) -> HandlerResult {
    clear(call, PolicyKind::Operator).await
}

/// A policy in responses and definitions.
pub(crate) fn view(policy: &Policy) -> Value {
    let mut body = value(policy);
    body["vhost"] = json!(policy.vhost);
    body["name"] = json!(policy.name);
    body
}

/// The part of a policy that parameters have as their value.
fn value(policy: &Policy) -> Value {
    json!({
        "pattern": policy.pattern.as_str(),
        "apply-to": policy.apply_to.name(),
        "priority": policy.priority,
        "definition": policy.definition,
    })
}

/// A policy as a parameter.
pub(crate) fn parameter(policy: &Policy) -> Value {
    let component = component(policy.kind);
    json!({"component": component, "name": policy.name, "value": value(policy), "vhost": policy.vhost})
}

/// The component of parameters that these policies are.
pub(crate) fn component(kind: PolicyKind) -> &'static str {
    match kind {
        PolicyKind::User => "policy",
        PolicyKind::Operator => "operator_policy",
    }
}

/// Parses a body of the API or an entry of definitions. The model checks the values.
///
/// # Errors
/// Pattern or definition is missing.
pub(crate) fn parse(kind: PolicyKind, vhost: &str, name: &str, body: &Map<String, Value>) -> Result<SetPolicy, Error> {
    fields::require(body, &["pattern", "definition"])?;
    let field = |key: &str| body.get(key).cloned();
    Ok(SetPolicy {
        kind,
        vhost: vhost.into(),
        name: name.into(),
        pattern: field("pattern").unwrap_or_default(),
        apply_to: field("apply-to"),
        priority: field("priority"),
        definition: field("definition").unwrap_or_default(),
    })
}

/// Carries out a change of policies. Returns once it has taken effect on all queues.
///
/// # Errors
/// It is refused, or the node stops.
pub(crate) async fn change(call: &Call, permit: Permit, command: Command) -> Result<CommandOutcome, Error> {
    let event = match &command {
        Command::SetPolicy(policy) => Some(("policy_set", policy.kind, policy.vhost.clone(), policy.name.clone())),
        Command::ClearPolicy { kind, vhost, name } => Some(("policy_deleted", *kind, vhost.clone(), name.clone())),
        _ => None,
    };
    let outcome = call.api.submit(permit, command).await?;
    if outcome == CommandOutcome::Absent {
        // Another request deleted it first.
        return Err(Error::NotFound);
    }
    call.api.policies_apply().await?;
    if let Some((event, kind, vhost, name)) = event {
        call.api.happened(event, &format!("{} '{name}' in vhost '{vhost}'", component(kind)));
    }
    Ok(outcome)
}

/// The permit to change policies of a kind in a vhost.
///
/// # Errors
/// The vhost doesn't exist, the user may not, or the change is disabled by
/// `management.restrictions.operator_policy_changes.disabled`.
pub(crate) fn permit(call: &Call, kind: PolicyKind, vhost: &str) -> Result<Permit, Error> {
    let permit = match kind {
        PolicyKind::User => call
            .permit(vhost, Action::SetPolicies)
            .map_err(|_| Error::Forbidden("User not authorised to access object".to_owned()))?,
        PolicyKind::Operator => {
            operator_policies_may_change(call)?;
            call.administers()?
        }
    };
    match call.topology().vhost(vhost) {
        Some(_) => Ok(permit),
        None => Err(Error::Missing("vhost_not_found".to_owned())),
    }
}

fn operator_policies_may_change(call: &Call) -> Result<(), Error> {
    match call.api.rules().operator_policy_changes_disabled && !call.identity.is_local() {
        true => Err(restricted("Broker settings disallow editing of operator policies.", "operator_policy_changes")),
        false => Ok(()),
    }
}

fn listed(call: &Call, kind: PolicyKind) -> HandlerResult {
    let topology = call.api.topology();
    let asked = call.path.first();
    // An addition of ours: those that match one object, the one that applies first.
    let matching = match (asked, call.query.get("queue"), call.query.get("exchange")) {
        (Some(vhost), Some(queue), _) => {
            let queue = topology.queue(vhost, queue).ok_or(Error::NotFound)?;
            Some(topology.policies_matching_queue(kind, queue))
        }
        (Some(vhost), None, Some(exchange)) => {
            let exchange = topology.exchange(vhost, fields::exchange_named(exchange)).ok_or(Error::NotFound)?;
            Some(topology.policies_matching_exchange(kind, exchange))
        }
        _ => None,
    };
    if let Some(matching) = matching {
        return list::values(&call.query, matching.iter().map(|policy| view(policy)).collect());
    }
    let vhosts = call.identity.vhosts(&topology).filter(|vhost| asked.is_none_or(|asked| **asked == ***vhost));
    let mut found: Vec<_> = vhosts.flat_map(|vhost| topology.policies(kind, vhost)).collect();
    found.sort_by_key(|policy| policy.priority);
    list::values(&call.query, found.into_iter().map(|policy| view(policy)).collect())
}

fn found(call: &Call, kind: PolicyKind) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let topology = call.api.topology();
    if !call.identity.sees(&topology, vhost) {
        return Err(Error::Forbidden("User not authorised to access object".to_owned()));
    }
    json(view(topology.policy(kind, vhost, name).ok_or(Error::NotFound)?))
}

async fn set(call: Call, kind: PolicyKind) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let permit = permit(&call, kind, vhost)?;
    let policy = parse(kind, vhost, name, &call.object()?)?;
    if call.asks("dry_run") {
        let before = call.topology();
        let after = before.with_policy(policy)?;
        return json(preview::of(&before, &after, vhost, (kind, name)));
    }
    created(change(&call, permit, Command::SetPolicy(policy)).await? == CommandOutcome::Created)
}

async fn clear(call: Call, kind: PolicyKind) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let permit = permit(&call, kind, vhost).map_err(|error| match error {
        Error::Missing(_) => Error::NotFound,
        other => other,
    })?;
    let before = call.topology();
    before.policy(kind, vhost, name).ok_or(Error::NotFound)?;
    if call.asks("dry_run") {
        let after = before.without_policy(kind, vhost, name);
        return json(preview::of(&before, &after, vhost, (kind, name)));
    }
    change(&call, permit, Command::ClearPolicy { kind, vhost: vhost.into(), name: name.into() }).await?;
    no_content()
}
