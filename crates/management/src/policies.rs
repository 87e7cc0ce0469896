//! Policies aren't supported yet: lists are empty, single policies don't exist, and changes are refused by name.

use axum::http::StatusCode;

use crate::call::{Call, HandlerResult};
use crate::error::Error;
use crate::list;

/// GET of a list.
pub(crate) async fn none(call: Call) -> HandlerResult {
    list::values(&call.query, Vec::new())
}

/// GET or DELETE of one.
pub(crate) async fn no_such(_: Call) -> HandlerResult {
    Err(Error::NotFound)
}

/// PUT of a policy.
pub(crate) async fn put(_: Call) -> HandlerResult {
    Err(Error::NotImplemented("policies aren't built yet".to_owned()))
}

/// PUT of an operator policy.
pub(crate) async fn put_operator(call: Call) -> HandlerResult {
    operator_policies_may_change(&call)?;
    Err(Error::NotImplemented("operator policies aren't built yet".to_owned()))
}

/// DELETE of an operator policy.
pub(crate) async fn delete_operator(call: Call) -> HandlerResult {
    operator_policies_may_change(&call)?;
    Err(Error::NotFound)
}

/// Checks that operator policies may be changed.
///
/// # Errors
/// The change is disabled by `management.restrictions.operator_policy_changes.disabled`.
fn operator_policies_may_change(call: &Call) -> Result<(), Error> {
    match call.api.rules().operator_policy_changes_disabled && !call.identity.is_local() {
        true => Err(restricted("Broker settings disallow editing of operator policies.", "operator_policy_changes")),
        false => Ok(()),
    }
}

fn restricted(what: &str, restriction: &str) -> Error {
    let reason = format!("{what} (management.restrictions.{restriction}.disabled)");
    Error::Of(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", reason)
}

/// Requests that change members of quorum queues. They may be disabled by the configuration, except for local tools.
pub(crate) async fn change_quorum(call: Call) -> HandlerResult {
    match call.api.rules().quorum_queue_replica_operations_disabled && !call.identity.is_local() {
        true => Err(restricted(
            "Broker settings disallow quorum queue replica operations.",
            "quorum_queue_replica_operations",
        )),
        false => Err(Error::NotImplemented("quorum queues of several members aren't built yet".to_owned())),
    }
}
