//! Server-sent events: the common part of responses that go on.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_lite::{Stream, StreamExt};
use serde_json::json;

use crate::error::Error;
use crate::streams_open::StreamLimits;

/// Largest response; longer lists have pages and columns.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Time between two looks ...
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// ... which is longer if a look takes over a tenth of it: a watcher gets this share of the thread at most.
pub(crate) const SHARE: u32 = 10;
/// Longest time without a byte.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);
/// Time after which a browser connects again, in milliseconds.
pub(crate) const RETRY: &str = "retry: 2000\n\n";

/// The response that these events are.
pub(crate) fn respond_with(events: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(events)).into_response()
}

/// The last event.
pub(crate) async fn end(error: Error) -> String {
    let (status, body) = whole(error.into_response()).await;
    let mut data: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    data["status"] = json!(status.as_u16());
    format!("event: end\ndata: {data}\n\n")
}

/// Status and body of a response; the body is JSON on one line.
pub(crate) async fn whole(response: Response) -> (StatusCode, String) {
    let status = response.status();
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    let mut pieces = response.into_body().into_data_stream();
    let mut body = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.unwrap_or_default();
        if body.len() + piece.len() > BODY_BYTES_MAX {
            let reason = format!("the answer has over {BODY_BYTES_MAX} bytes: ask for a page, and for columns");
            return (StatusCode::PAYLOAD_TOO_LARGE, json!({"error": "too_large", "reason": reason}).to_string());
        }
        body.extend_from_slice(&piece);
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    match is_json && !text.contains(['\n', '\r']) {
        true => (status, text),
        false if text.is_empty() => (status, "null".to_owned()),
        false => (status, json!(text).to_string()),
    }
}

/// The refusal of one more response of a kind with these limits.
pub(crate) fn too_many(limits: StreamLimits) -> Error {
    let StreamLimits { of_user, all } = limits;
    Error::Unavailable(format!("{of_user} streams of this kind of a user or {all} of the node are open already"))
}
