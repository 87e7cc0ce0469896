//! From a request to its route's answer: method, login, access, then the handler.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, Method as HttpMethod, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leveret_model::Topology;

use crate::api::Api;
use crate::call::Call;
use crate::error::Error;
use crate::identity::Identity;
use crate::local::LOCAL_ROUTES;
use crate::route::{Access, Method, Route, query_pairs};
use crate::routes::ROUTES;

/// The largest body of a request, as RabbitMQ's `management.http.max_body_size` is by default.
const BODY_BYTES_MAX: usize = 10_000_000;

/// The largest definitions that may be imported: some 200,000 queues.
const DEFINITIONS_BYTES_MAX: usize = 64 << 20;

/// Where a request comes in.
#[derive(Clone)]
struct Door {
    api: Api,
    /// Only the user of the node can open it: nobody is asked for a password, and there are routes that others don't
    /// have.
    is_local: bool,
}

/// The HTTP API.
pub fn api(api: Api) -> Router {
    Router::new().fallback(answer).with_state(Door { api, is_local: false })
}

/// The HTTP API for the node's local socket, and only for that: everybody is an administrator.
pub fn local(api: Api) -> Router {
    Router::new().fallback(answer).with_state(Door { api, is_local: true })
}

/// The same with a prefix before every path, such as `/rabbitmq`; without it there is nothing.
pub fn api_under(prefix: &str, state: Api) -> Router {
    if prefix.is_empty() {
        return api(state);
    }
    Router::new().nest(prefix, api(state)).fallback(|| async { Error::NotFound })
}

async fn answer(State(door): State<Door>, request: Request) -> Response {
    let without_body = request.method() == HttpMethod::HEAD;
    let mut response = find(door, request).await.unwrap_or_else(Error::into_response);
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    if without_body {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn find(door: Door, request: Request) -> Result<Response, Error> {
    let path = request.uri().path();
    // Clients put a slash behind the names of lists, and RabbitMQ looks over it.
    let path = path.strip_suffix('/').unwrap_or(path).to_owned();
    let mut found: Vec<(&Route, Vec<String>)> =
        routes(door.is_local).filter_map(|route| Some((route, route.matches(&path)?))).collect();
    // `/api/users/without-permissions` is no user.
    let best = found.iter().map(|(route, _)| route.rank()).max().ok_or(Error::NotFound)?;
    found.retain(|(route, _)| route.rank() == best);
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
    let identity = match route.access {
        _ if door.is_local => Identity::local_administrator(),
        Access::Public => Identity::nobody(),
        _ => {
            let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
            Identity::of(&api, &parts.headers, peer)?
        }
    };
    check(route, &words, &identity, &api.broker().registry.staged_topology())?;
    let most = if path.starts_with("/api/definitions") { DEFINITIONS_BYTES_MAX } else { BODY_BYTES_MAX };
    let body = axum::body::to_bytes(body, most).await.map_err(|_| {
        Error::Of(StatusCode::BAD_REQUEST, "bad_request", format!("the body has more than {most} bytes"))
    })?;
    let query = parts.uri.query().unwrap_or("");
    let query = query_pairs(query).collect();
    (route.run)(Call { api, identity, path: words, query, headers: parts.headers, body }).await
}

/// The routes behind a door.
fn routes(is_local: bool) -> impl Iterator<Item = &'static Route> {
    let more = if is_local { LOCAL_ROUTES } else { &[] };
    ROUTES.iter().chain(more)
}

/// Whether this user may call the route with these words in its path.
///
/// # Errors
/// It may not. A vhost that it doesn't see doesn't exist for it.
fn check(route: &Route, words: &[String], identity: &Identity, topology: &Topology) -> Result<(), Error> {
    let unless = |allowed: bool, text: &str| if allowed { Ok(()) } else { Err(Error::Forbidden(text.to_owned())) };
    const NOT_AUTHORISED: &str = "User not authorised to access object";
    let itself = || route.parameter("user", words) == Some(identity.name());
    match route.access {
        Access::Public | Access::Management => {}
        Access::Monitor => unless(identity.monitors(), "Not monitor user")?,
        Access::Administrator => unless(identity.is_administrator(), "Not administrator user")?,
        Access::Policymaker => unless(identity.makes_policies(), NOT_AUTHORISED)?,
        Access::UserOrMonitor => unless(itself() || identity.monitors(), NOT_AUTHORISED)?,
        Access::UserOrAdministrator => unless(itself() || identity.is_administrator(), NOT_AUTHORISED)?,
        Access::Vhost | Access::VhostOrMonitor => {}
    }
    let Some(vhost) = route.parameter("vhost", words) else { return Ok(()) };
    let sees = match route.access {
        Access::Vhost => identity.sees(topology, vhost),
        Access::VhostOrMonitor => identity.sees(topology, vhost) || identity.monitors(),
        _ => return Ok(()),
    };
    match sees && topology.vhost(vhost).is_some() {
        true => Ok(()),
        // RabbitMQ's words where something would be made in it.
        false if route.method == Method::Put => Err(Error::Missing("vhost_not_found".to_owned())),
        false => Err(Error::NotFound),
    }
}

fn allowed(status: StatusCode, found: &[(&Route, Vec<String>)]) -> Response {
    let mut methods: Vec<&str> = found.iter().map(|(route, _)| route.method.name()).collect();
    if methods.contains(&"GET") {
        methods.insert(0, "HEAD");
    }
    methods.push("OPTIONS");
    (status, [(header::ALLOW, methods.join(", "))]).into_response()
}
