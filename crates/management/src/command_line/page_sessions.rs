//! Sessions of the page that this node keeps, for the other members.

use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::call::{Call, HandlerResult, no_content};
use crate::error::Error;
use crate::sessions::SessionId;

fn id(call: &Call) -> Result<SessionId, Error> {
    SessionId::of_hex(call.word(0)).ok_or(Error::NotFound)
}

/// GET: the identity of a session's user.
pub(crate) async fn show(call: Call) -> HandlerResult {
    let account = call.api.kept_account(id(&call)?).ok_or(Error::NotFound)?;
    let bytes = account.who.encode().ok_or(Error::NotFound)?;
    Ok(STANDARD.encode(bytes).into_response())
}

/// DELETE: ends a session.
pub(crate) async fn end(call: Call) -> HandlerResult {
    call.api.sessions().end(id(&call)?);
    no_content()
}
