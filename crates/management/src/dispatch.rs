//! Dispatch of requests: finds the route, authenticates, checks access, then calls the handler.

use std::net::SocketAddr;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, Method as HttpMethod, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_lite::StreamExt;

use crate::accepted::codings_of;
use crate::api::Api;
use crate::asking::Original;
use crate::bodies::Share;
use crate::call::{Arrival, Call};
use crate::compression::compressed;
use crate::error::Error;
use crate::forwarded::routes;
use crate::forwarding;
use crate::identity::{OWN_REQUEST, Requester};
use crate::lookup::{check, matching};
use crate::missing_answers;
use crate::page;
use crate::percent::query_pairs;
use crate::route::{Access, Method, Route};
use crate::serve::HttpClient;

/// Limit of the body of an unauthenticated request, in bytes: public routes need none.
const PUBLIC_BODY_BYTES_MAX: u64 = 64 << 10;

/// Memory for a body is reserved at once up to this length, and as bytes arrive above it. A client that only
/// announces a large body takes no memory.
const BODY_ROOM: u64 = 1 << 20;

/// The route of the API's description, which may require authentication
/// (`management.require_auth_for_api_reference`).
const REFERENCE: &str = "/api/openapi.json";

/// The kind of listener that a request came in on.
#[derive(Clone)]
struct Door {
    api: Api,
    /// Whether it is the local socket, which only the node's own user can open: no password is required, and there
    /// are additional routes.
    is_local: bool,
}

/// The HTTP API.
pub fn api(api: Api) -> Router {
    api_under("", api)
}

/// The HTTP API for the node's local socket, and only for that: every client is an administrator.
pub fn local(api: Api) -> Router {
    Router::new().fallback(answer).with_state(Door { api, is_local: true })
}

/// As [`api`], with a prefix before every path, such as `/rabbitmq`. Paths without it don't exist, but for `/`, which leads there.
pub fn api_under(prefix: &str, state: Api) -> Router {
    state.set_path_prefix(prefix);
    Router::new().fallback(answer).with_state(Door { api: state, is_local: false })
}

async fn answer(State(door): State<Door>, request: Request) -> Response {
    let without_body = request.method() == HttpMethod::HEAD;
    let codings = codings_of(request.headers());
    // A browser's event stream can't have a header of its own.
    let takes_events = request.headers().get(header::ACCEPT).is_some_and(|accepted| accepted == "text/event-stream");
    let is_own = takes_events || request.headers().contains_key(OWN_REQUEST);
    let api = door.api.clone();
    let mut response = find(door, request).await.unwrap_or_else(Error::into_response);
    let status = response.status();
    let headers = response.headers_mut();
    for (name, value) in &api.rules().headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(*name, value);
        }
    }
    if api.rules().hide_allow_header && status != StatusCode::METHOD_NOT_ALLOWED {
        headers.remove(header::ALLOW);
    }
    if is_own {
        // With a challenge, browsers would open a dialogue of their own.
        headers.remove(header::WWW_AUTHENTICATE);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    if without_body {
        *response.body_mut() = Body::empty();
        return response;
    }
    compressed(&codings, response).await
}

async fn find(door: Door, request: Request) -> Result<Response, Error> {
    let mut path = request.uri().path();
    if !door.is_local {
        let prefix = door.api.path_prefix();
        path = match path.strip_prefix(prefix) {
            Some("") => return Ok(moved_to(prefix)),
            Some(below) if below.starts_with('/') => below,
            _ if path == "/" => return Ok(moved_to(prefix)),
            _ => return Err(Error::NotFound),
        };
        if let Some(part) = page::part_for(path) {
            return Ok(moved_to_part(prefix, part));
        }
        if let Some(response) = page::answer(request.method(), path, request.headers()) {
            return Ok(response);
        }
    }
    let path = path.to_owned();
    let mut found = matching(routes(door.is_local), &path)?;
    let asked = match request.method() {
        method if method == HttpMethod::OPTIONS => return Ok(allowed(StatusCode::OK, &found)),
        method if method == HttpMethod::HEAD => "GET",
        method => method.as_str(),
    };
    let Some(at) = found.iter().position(|(route, _)| route.method.name() == asked) else {
        return Ok(allowed(StatusCode::METHOD_NOT_ALLOWED, &found));
    };
    let (route, words) = found.swap_remove(at);
    let (parts, body) = request.into_parts();
    let api = door.api;
    let rules = api.rules();
    let is_public =
        route.access == Access::Public && !(rules.require_auth_for_api_reference && route.path == REFERENCE);
    let client = parts.extensions.get::<HttpClient>();
    let arrival = Arrival {
        peer: parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer),
        is_encrypted: client.is_some_and(HttpClient::is_encrypted),
        is_forwarded: false,
    };
    let identity = match is_public {
        _ if door.is_local => Requester::local_administrator(),
        true => Requester::nobody(),
        false => {
            let only_reads = matches!(parts.method, HttpMethod::GET | HttpMethod::HEAD);
            match Requester::of(&api, &parts.headers, arrival.peer, only_reads).await {
                // Logins catch up by themselves, but not with the tags of a user.
                Err(Error::Forbidden(_)) if api.catches_up().await => {
                    Requester::of(&api, &parts.headers, arrival.peer, only_reads).await?
                }
                other => other?,
            }
        }
    };
    if !is_public && let Some(client) = client {
        client.let_in();
    }
    let is_granted = || check(route, &words, &identity, &api.topology());
    let mut granted = is_granted();
    if missing_answers::ask(&api, &identity).await {
        granted = is_granted();
    }
    match granted {
        Err(error) if error.may_be_behind() && api.catches_up().await => is_granted()?,
        other => other?,
    }
    if route.method == Method::Get && route.parameter("vhost", &words).is_none() {
        missing_answers::ask_vhosts(&api, &identity).await;
    }
    let query_text = parts.uri.query().unwrap_or("").to_owned();
    let query = query_pairs(&query_text).collect::<Result<_, _>>()?;
    let takes_definitions = path.starts_with("/api/definitions") || path.starts_with("/api/all-configuration");
    let most = match takes_definitions {
        _ if is_public && !door.is_local => PUBLIC_BODY_BYTES_MAX,
        true => rules.max_definitions_size.max(rules.max_body_size),
        false => rules.max_body_size,
    };
    let all = api.clone();
    let mut share = all.bodies().share(all.rules().max_bodies_size);
    let body = read(body, most, &mut share).await?;
    let headers = parts.headers;
    let call = Call { api, identity, path: words, query, query_text, arrival, headers, body, absent: None };
    match is_public && !door.is_local {
        // It has no identity, on whose behalf another member could be asked.
        true => (route.run)(call).await,
        false => run(call, route, &Original { method: &parts.method, path: &path }).await,
    }
}

/// Answers a request, anew while a backend's answers were missing. A handler that changes something asks for its permit before.
async fn run(call: Call, route: &Route, original: &Original<'_>) -> Result<Response, Error> {
    if call.identity.who().asked().is_none() {
        return forwarding::run(call, route, original).await;
    }
    let is_read = matches!(*original.method, HttpMethod::GET | HttpMethod::HEAD);
    for _ in 0..missing_answers::ROUNDS_MAX {
        let answered = forwarding::run(call.clone(), route, original).await;
        let may_repeat = is_read || answered.is_err();
        if !may_repeat || !missing_answers::ask(&call.api, &call.identity).await {
            return answered;
        }
    }
    forwarding::run(call, route, original).await
}

/// Reads the body of a request into one buffer.
///
/// # Errors
/// It exceeds its limit or that of all bodies, or the client has gone.
async fn read(body: Body, most: u64, share: &mut Share<'_>) -> Result<Bytes, Error> {
    let too_long = || {
        let key = "management.http.max_body_size, and max_definitions_size for definitions";
        Error::BadRequest(format!("Exceeded HTTP request body size limit of {most} bytes ({key})"))
    };
    let announced = body.size_hint().lower();
    if announced > most {
        return Err(too_long());
    }
    let mut pieces = body.into_data_stream();
    let mut whole = Vec::with_capacity(usize::try_from(announced.min(BODY_ROOM)).unwrap_or_default());
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Error::BadRequest(format!("the body can't be read: {error}")))?;
        if (whole.len() + piece.len()) as u64 > most {
            return Err(too_long());
        }
        if !share.grow(piece.len() as u64) {
            return Err(Error::Unavailable(
                "the bodies of all requests that are under way would take more than management.http.max_bodies_size bytes; try again"
                    .to_owned(),
            ));
        }
        if whole.capacity() < whole.len() + piece.len() && announced > whole.len() as u64 {
            // Doubled, but never beyond the announced length.
            let twice = (whole.len() + piece.len()).saturating_mul(2);
            let room = twice.min(usize::try_from(announced).unwrap_or(usize::MAX));
            whole.reserve_exact(room.saturating_sub(whole.len()));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.into())
}

/// Leads to the page, whose own addresses are relative to its folder.
fn moved_to(prefix: &str) -> Response {
    (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, format!("{prefix}/"))]).into_response()
}

/// Leads to a part of the page. Only clients that follow links see these addresses, so that the prefix is all they need.
fn moved_to_part(prefix: &str, part: &str) -> Response {
    (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, format!("{prefix}/{part}"))]).into_response()
}

fn allowed(status: StatusCode, found: &[(&Route, Vec<String>)]) -> Response {
    let mut methods: Vec<&str> = found.iter().map(|(route, _)| route.method.name()).collect();
    if methods.contains(&"GET") {
        methods.insert(0, "HEAD");
    }
    methods.push("OPTIONS");
    (status, [(header::ALLOW, methods.join(", "))]).into_response()
}
