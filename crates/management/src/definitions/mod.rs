//! Definitions: everything that is declared, as one JSON document, out and in.

mod document;
mod export;
mod form;
mod import;
mod load;
mod plan;

use axum::http::{HeaderValue, header};

pub use load::{Definitions, LoadError};

use crate::call::{Answer, Call, no_content};
use crate::error::Error;
use document::Scope;

/// GET: of the whole cluster.
pub(crate) async fn all(call: Call) -> Answer {
    let exported = export::cluster(&call.api);
    Ok(offered(&call, exported))
}

/// GET: of one vhost.
pub(crate) async fn of_vhost(call: Call) -> Answer {
    let exported = export::vhost(&call.api, call.word(0)).ok_or(Error::NotFound)?;
    Ok(offered(&call, exported))
}

/// POST: into the whole cluster.
pub(crate) async fn import(call: Call) -> Answer {
    imported(&call, Scope::Cluster).await
}

/// POST: into one vhost.
pub(crate) async fn import_into(call: Call) -> Answer {
    if call.staged().vhost(call.word(0)).is_none() {
        return Err(Error::Missing("vhost_not_found".to_owned()));
    }
    imported(&call, Scope::Vhost(call.word(0).to_owned())).await
}

async fn imported(call: &Call, scope: Scope) -> Answer {
    let content_type = call.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let text = match content_type.starts_with("multipart/form-data") {
        true => {
            form::file(content_type, &call.body).ok_or_else(|| Error::BadRequest("no file in the form".to_owned()))?
        }
        false => &call.body,
    };
    let document = document::parse(text).ok_or_else(|| Error::BadRequest("failed_to_parse_json".to_owned()))?;
    let permit = call.permit("", leveret_model::Action::ImportDefinitions)?;
    import::import(&call.api, &permit, &document, &scope, call.asks("skip_unsupported")).await?;
    no_content()
}

/// With `download` in the query, a browser saves it under that name.
fn offered(call: &Call, mut exported: axum::response::Response) -> axum::response::Response {
    if let Some(name) = call.query.get("download")
        && let Ok(value) = HeaderValue::from_str(&format!("attachment; filename={name}"))
    {
        exported.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    exported
}
