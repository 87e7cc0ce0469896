//! Requests to other members of the cluster on behalf of a requester.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderName, HeaderValue, Method as HttpMethod, StatusCode, header};
use axum::response::Response;
use futures_lite::StreamExt;
use leveret_model::{Grants, Member};
use leveret_node::{FORWARDED_BYTES_MAX, ForwardedIdentity, ForwardedRequest, ForwardedResponse};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::api::Api;
use crate::call::Call;
use crate::error::Error;
use crate::members::OtherMember;

/// Headers of requests that handlers look at.
const REQUEST_HEADERS: [HeaderName; 4] =
    [header::ACCEPT, header::CONTENT_TYPE, header::IF_NONE_MATCH, HeaderName::from_static("x-reason")];

/// Headers of responses that are the connection's.
const CONNECTION_HEADERS: [HeaderName; 3] = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION];

/// A request as it came, for another member.
pub(crate) struct Original<'a> {
    pub(crate) method: &'a HttpMethod,
    /// The path without the prefix of this node's addresses.
    pub(crate) path: &'a str,
}

/// A request on behalf of the requester.
pub(crate) fn request(call: &Call, method: &HttpMethod, target: String) -> ForwardedRequest {
    let who = call.identity.who();
    let identity = match who.grants() {
        _ if call.identity.is_local() => ForwardedIdentity::Machine,
        Grants::Model => ForwardedIdentity::User(who.name().to_string()),
        // One that is too long to be written is nobody elsewhere.
        Grants::Scopes(_) | Grants::Asked(_) => ForwardedIdentity::Encoded(who.encode().unwrap_or_default()),
    };
    let headers = REQUEST_HEADERS.into_iter().filter_map(|name| {
        let value = call.headers.get(&name)?.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    });
    let (method, headers) = (method.as_str().to_owned(), headers.collect());
    ForwardedRequest { identity, method, target, headers, body: call.body.clone() }
}

/// Asks a member.
///
/// # Errors
/// It can't be reached, or doesn't respond in time.
pub(crate) async fn ask(
    api: &Api,
    request: ForwardedRequest,
    member: &Member,
    within: Duration,
) -> Result<ForwardedResponse, Error> {
    let response = api.node().forward(member.number, request, within).await;
    response.map_err(|reason| Error::Unavailable(format!("node '{}' can't be asked: {reason}", member.name)))
}

/// Asks all other members that run for JSON on behalf of the requester. Returns the names and answers of those that gave one in time.
pub(crate) async fn ask_others(
    call: &Call,
    within: Duration,
    target: impl Fn(&OtherMember) -> String,
) -> Vec<(String, Value)> {
    let mut asked = JoinSet::new();
    for other in call.api.running_members() {
        let (api, request) = (call.api.clone(), request(call, &HttpMethod::GET, target(&other)));
        asked.spawn(async move {
            let response = ask(&api, request, &other.member, within).await.ok()?;
            let answer = serde_json::from_slice(&response.body).ok().filter(|_| response.status == 200)?;
            Some((other.name().to_owned(), answer))
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}

/// A gathered response as one for the client.
pub(crate) fn answered(response: &ForwardedResponse) -> Response {
    let mut answer = Response::new(Body::from(response.body.clone()));
    *answer.status_mut() = StatusCode::from_u16(response.status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in &response.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            answer.headers_mut().append(name, value);
        }
    }
    answer
}

/// Gathers a response.
///
/// # Errors
/// It is too large, or can't be read.
pub(crate) async fn gather(response: Response) -> Result<ForwardedResponse, Error> {
    let (parts, body) = response.into_parts();
    let mut whole = Vec::with_capacity(usize::try_from(body.size_hint().lower()).unwrap_or_default().min(1 << 20));
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Error::Unavailable(format!("the response can't be read: {error}")))?;
        if whole.len() + piece.len() > FORWARDED_BYTES_MAX {
            return Err(Error::Unavailable(format!(
                "the response has more than {FORWARDED_BYTES_MAX} bytes, which aren't forwarded: ask that node at its own address"
            )));
        }
        whole.extend_from_slice(&piece);
    }
    let headers = parts.headers.iter().filter(|(name, _)| !CONNECTION_HEADERS.contains(name));
    let headers = headers.filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())));
    Ok(ForwardedResponse { status: parts.status.as_u16(), headers: headers.collect(), body: whole.into() })
}
