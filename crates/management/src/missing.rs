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
