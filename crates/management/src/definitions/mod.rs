//! Definitions: export and import of all declared objects as one JSON document.

mod document;
mod export;
mod form;
mod import;
mod known;
mod load;
mod obsolete;
mod plan;
mod raw_entry;
mod shape;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

pub use load::{Definitions, LoadError};

use crate::call::{Call, HandlerResult, json, no_content};
use crate::error::Error;
use crate::etag;
use document::{Scope, Wrong};

/// GET: exports the whole cluster.
pub(crate) async fn all(call: Call) -> HandlerResult {
    unless_known(&call, || Ok(export::cluster(&call.api)))
}

/// GET: exports one vhost.
pub(crate) async fn of_vhost(call: Call) -> HandlerResult {
    unless_known(&call, || export::vhost(&call.api, call.word(0)).ok_or(Error::NotFound))
}

/// POST: imports into the whole cluster.
pub(crate) async fn import(call: Call) -> HandlerResult {
    imported(&call, Scope::Cluster).await
}

/// POST: imports into one vhost.
pub(crate) async fn import_into(call: Call) -> HandlerResult {
    if call.topology().vhost(call.word(0)).is_none() {
        return Err(Error::Missing("vhost_not_found".to_owned()));
    }
    imported(&call, Scope::Vhost(call.word(0).to_owned())).await
}

async fn imported(call: &Call, scope: Scope) -> HandlerResult {
    let content_type = call.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let text = match content_type.starts_with("multipart/form-data") {
        true => {
            let file = form::file(content_type, &call.body);
            let file = file.ok_or_else(|| Error::BadRequest("no file in the form".to_owned()))?;
            if call.api.rules().require_json_extension && !file.is_called_json() {
                let reason = "the file's name has to end in .json (management.definitions.require_json_extension)";
                return Err(Error::BadRequest(reason.to_owned()));
            }
            file.text
        }
        false => &call.body,
    };
    let manner = Manner::of(call);
    let (document, ignored) = known::parse(text, &scope, &call.topology()).map_err(|wrong| match wrong {
        Wrong::Json(reason) => Error::BadRequest(format!("failed_to_parse_json: {reason}")),
        Wrong::Shape(reason) => Error::BadRequest(reason),
    })?;
    let permit = call.permit("", leveret_model::Action::ImportDefinitions)?;
    if call.asks("dry_run") {
        return json(import::preview(&call.api, permit, &document, &scope, &ignored).await?);
    }
    import::import(&call.api, permit, &document, &scope, manner).await?;
    tell_of_ignored("the request", &ignored);
    no_content()
}

/// The manner of an import.
#[derive(Debug, Clone, Copy)]
struct Manner {
    /// Whether objects that can't be imported are left out. Otherwise nothing is imported if there are any.
    skips_unsupported: bool,
    /// Whether the node is starting.
    is_start: bool,
}

impl Manner {
    fn of(call: &Call) -> Self {
        Manner { skips_unsupported: call.asks("skip_unsupported"), is_start: false }
    }

    /// The way out of a refusal.
    fn advice(self) -> &'static str {
        match self.is_start {
            true => "Take them out of the file, or set definitions.skip_unsupported = true",
            false => "With skip_unsupported=true all others are",
        }
    }
}

/// As RabbitMQ, we accept and ignore unknown parts; but we log them.
fn tell_of_ignored(source: &str, ignored: &[String]) {
    if !ignored.is_empty() {
        tracing::warn!("definitions from {source} contain entries that are ignored: {}", ignored.join(", "));
    }
}

/// An export with a tag, or 304 if the client has that one already: objects haven't changed since.
fn unless_known(call: &Call, export: impl FnOnce() -> Result<Response, Error>) -> HandlerResult {
    // A node counts changes anew after each start. The count is read before the objects: a change in between gives a new document with
    // an old tag, which is sent once more.
    let tag = format!("\"{:x}-{:x}\"", call.api.started_ms(), call.api.broker().registry.generation());
    let mut response = match etag::is_known(&call.headers, &tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => offered(call, export()?),
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

/// Makes browsers save it under the name in the query's `download`.
fn offered(call: &Call, mut exported: Response) -> Response {
    if let Some(name) = call.query.get("download")
        && let Ok(value) = HeaderValue::from_str(&format!("attachment; filename={name}"))
    {
        exported.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    exported
}
