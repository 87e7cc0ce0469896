//! A request, as passed to handlers.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use leveret_model::{Action, MemberNumber, Permit, Topology};
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::error::Error;
use crate::identity::Requester;
use crate::json_walk::takes_too_much;
use crate::query::Query;

/// The result of a handler.
pub(crate) type HandlerResult = Result<Response, Error>;

/// The connection that a request came over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrival {
    /// The client's address; `None` on the local socket.
    pub(crate) peer: Option<SocketAddr>,
    /// Whether it is one of TLS.
    pub(crate) is_encrypted: bool,
    /// Whether another member of the cluster has forwarded it.
    pub(crate) is_forwarded: bool,
}

/// A request, as passed to handlers.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) api: Api,
    pub(crate) identity: Requester,
    /// Values of the parameters in the route's path, in order.
    pub(crate) path: Vec<String>,
    pub(crate) query: Query,
    /// The query as it was sent, for parameters that it has several times.
    pub(crate) query_text: String,
    pub(crate) arrival: Arrival,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The members that don't answer themselves, where this node's rows are put together with those of others. Of their queues, and of those
    /// that nobody leads, it shows what it knows.
    pub(crate) absent: Option<Vec<MemberNumber>>,
}

impl Call {
    /// The value of the path parameter with this index.
    pub(crate) fn word(&self, at: usize) -> &str {
        self.path.get(at).map_or("", String::as_str)
    }

    /// Whether a parameter of the query is `true`.
    pub(crate) fn asks(&self, key: &str) -> bool {
        self.query.get(key).is_some_and(|value| value == "true")
    }

    /// A number in the query.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn number<N: FromStr>(&self, key: &str, default: N) -> Result<N, Error> {
        match self.query.get(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| Error::BadRequestOf(json!(["not_integer", text]))),
        }
    }

    /// The body as an object; an empty body is an empty object.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn object(&self) -> Result<Map<String, Value>, Error> {
        object(&self.body)
    }

    /// The objects.
    pub(crate) fn topology(&self) -> Arc<Topology> {
        self.api.topology()
    }

    /// The permit for administrators.
    ///
    /// # Errors
    /// The user isn't one.
    pub(crate) fn administers(&self) -> Result<Permit, Error> {
        self.identity.administers(&self.topology())
    }

    /// The permit for policymakers.
    ///
    /// # Errors
    /// The user isn't one.
    pub(crate) fn sets_parameters(&self) -> Result<Permit, Error> {
        Ok(self.identity.permit(&self.topology(), "", Action::SetParameters)?)
    }

    /// The permit for an action in a vhost.
    ///
    /// # Errors
    /// The user may not do it.
    pub(crate) fn permit(&self, vhost: &str, action: Action<'_>) -> Result<Permit, Error> {
        Ok(self.identity.permit(&self.topology(), vhost, action)?)
    }
}

/// The body as an object; an empty body is an empty object.
///
/// # Errors
/// It is something else.
pub(crate) fn object(body: &[u8]) -> Result<Map<String, Value>, Error> {
    if body.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    if let Some(reason) = takes_too_much(body, body.len()) {
        return Err(Error::BadRequest(reason));
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(Error::BadRequest("not_json".to_owned())),
    }
}

/// Responds with 200 and a JSON body.
pub(crate) fn json(body: Value) -> HandlerResult {
    Ok(Json(body).into_response())
}

/// Responds with 204.
pub(crate) fn no_content() -> HandlerResult {
    status(StatusCode::NO_CONTENT)
}

/// Responds with 201 for a new object, 204 for an existing one.
pub(crate) fn put(is_new: bool) -> HandlerResult {
    status(if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT })
}

/// Responds with a status without a body.
pub(crate) fn status(status: StatusCode) -> HandlerResult {
    Ok(status.into_response())
}
