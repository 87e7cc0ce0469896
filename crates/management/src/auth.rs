//! `/api/auth`, and sessions of the page.

use std::collections::HashMap;
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use leveret_broker::protocol::ProtocolTotals;
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, no_content};
use crate::error::Error;
use crate::identity::{OWN_REQUEST, SESSION_COOKIE, log_in, session_of};
use crate::list;
use crate::percent::query_pairs;
use crate::sessions::NoSession;

/// GET: logins by protocol since the node started.
pub(crate) async fn attempts(call: Call) -> HandlerResult {
    check_node(&call)?;
    let mut logins: Vec<(&str, u64, u64)> = Vec::new();
    for ProtocolTotals { info, totals, .. } in call.api.broker().totals_by_protocol() {
        // As in RabbitMQ, whose clients know no versions of MQTT here.
        let label = if info.label.starts_with("mqtt") { "mqtt" } else { info.label };
        match logins.iter_mut().find(|(known, ..)| *known == label) {
            Some((_, succeeded, failed)) => {
                (*succeeded, *failed) = (*succeeded + totals.auth_succeeded, *failed + totals.auth_failed);
            }
            None => logins.push((label, totals.auth_succeeded, totals.auth_failed)),
        }
    }
    let (succeeded, failed) = call.api.logins().totals();
    logins.push(("http", succeeded, failed));
    let shown = logins.into_iter().map(|(label, succeeded, failed)| view(label, succeeded, failed)).collect();
    list::values(&call.query, shown)
}

/// GET: logins by source. They aren't tracked, as in RabbitMQ by default.
pub(crate) async fn attempts_by_source(call: Call) -> HandlerResult {
    check_node(&call)?;
    list::values(&call.query, Vec::new())
}

/// DELETE: accepted without effect, because counters only grow here.
pub(crate) async fn forget_attempts(call: Call) -> HandlerResult {
    check_node(&call)?;
    no_content()
}

/// POST of a login form, or of the same as JSON: begins a session of the page. RabbitMQ's form has a
/// token of OAuth, which no user has here.
pub(crate) async fn login(call: Call) -> HandlerResult {
    check_origin(&call)?;
    let content_type = call.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let fields: HashMap<String, String> = match content_type.starts_with("application/json") {
        true => {
            let texts = call.object()?.into_iter();
            texts.filter_map(|(key, value)| Some((key, value.as_str()?.to_owned()))).collect()
        }
        false => {
            let body = std::str::from_utf8(&call.body).map_err(|_| Error::BadRequest("the form isn't UTF-8".into()))?;
            query_pairs(body.trim()).collect::<Result<_, _>>()?
        }
    };
    let (Some(name), Some(password)) = (fields.get("username"), fields.get("password")) else {
        // As RabbitMQ without OAuth answers, to whose form an access token belongs.
        return Err(Error::WrongPassword);
    };
    let account = log_in(&call.api, name.as_bytes(), password.as_bytes(), call.arrival.peer).await?;
    let minutes = call.api.rules().login_session_timeout_min;
    let begun = call.api.begin_session(account, Duration::from_secs(minutes * 60));
    let token = begun.map_err(|reason| match reason {
        NoSession::TooMany => Error::Unavailable("too many sessions are open".to_owned()),
        NoSession::NoToken(error) => Error::Unavailable(format!("the system gives no randomness: {error}")),
    })?;
    if let Some(earlier) = session_of(&call.headers) {
        call.api.end_session(&earlier).await;
    }
    with_cookie(&call, &token, minutes * 60)
}

/// POST: ends the session.
pub(crate) async fn logout(call: Call) -> HandlerResult {
    if let Some(session) = session_of(&call.headers) {
        if !call.headers.contains_key(OWN_REQUEST) {
            let reason = format!("a session ends only by a request with the header {OWN_REQUEST}: 1");
            return Err(Error::Of(StatusCode::FORBIDDEN, "forbidden", reason));
        }
        call.api.end_session(&session).await;
    }
    with_cookie(&call, "", 0)
}

/// Refuses a form of another page, which could log somebody in as somebody else.
fn check_origin(call: &Call) -> Result<(), Error> {
    match call.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        true => Err(Error::Of(StatusCode::FORBIDDEN, "forbidden", "the form is another page's".to_owned())),
        false => Ok(()),
    }
}

/// Responds with 204 and the cookie of a session.
fn with_cookie(call: &Call, token: &str, lasts_s: u64) -> HandlerResult {
    let prefix = call.api.path_prefix();
    let path = if prefix.is_empty() { "/" } else { prefix };
    let secure = if call.arrival.is_encrypted { "; Secure" } else { "" };
    let cookie = format!("{SESSION_COOKIE}={token}; Path={path}; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}");
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

fn check_node(call: &Call) -> Result<(), Error> {
    if call.word(0) == call.api.name() { Ok(()) } else { Err(Error::NotFound) }
}

fn view(protocol: &str, succeeded: u64, failed: u64) -> Value {
    json!({
        "protocol": protocol,
        "auth_attempts": succeeded + failed,
        "auth_attempts_failed": failed,
        "auth_attempts_succeeded": succeeded,
    })
}
