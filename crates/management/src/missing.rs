//! Objects that aren't supported yet: lists are empty, and changes are refused by name.

use axum::http::StatusCode;

use crate::call::{Call, HandlerResult};
use crate::error::Error;
use crate::list;

/// GET of a list.
pub(crate) async fn none(call: Call) -> HandlerResult {
    list::values(&call.query, Vec::new())
}

/// Something that the configuration disables.
pub(crate) fn restricted(what: &str, restriction: &str) -> Error {
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
