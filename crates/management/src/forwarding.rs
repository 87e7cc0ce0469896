//! Requests that another member of the cluster answers: those that name it, and those about a queue that it has. The user's rights are
//! checked again there.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use leveret_model::Member;

use crate::api::Api;
use crate::asking::{Original, answered, ask, request};
use crate::call::{Call, HandlerResult};
use crate::error::Error;
use crate::merging;
use crate::route::{Method, Route};

/// The header with the name of the member that a request is for.
const MEMBER_HEADER: &str = "leveret-node";

/// Longest time for the response of another member.
const WITHIN: Duration = Duration::from_secs(60);
/// The same for a row that this node has, too, with less in it.
const WITHIN_OF_ROW: Duration = Duration::from_secs(1);

/// The other member that a request names, if it names one.
fn named(api: &Api, headers: &HeaderMap) -> Result<Option<Arc<Member>>, Error> {
    let Some(name) = headers.get(MEMBER_HEADER) else { return Ok(None) };
    let name = name.to_str().unwrap_or_default();
    // The name without a host is enough, as in RabbitMQ's tools.
    let is_meant = |known: &str| known == name || known.split('@').next() == Some(name);
    if is_meant(api.name()) {
        return Ok(None);
    }
    let others = api.other_members();
    let exact = others.iter().find(|other| other.name() == name);
    let found = exact.or_else(|| others.iter().find(|other| is_meant(other.name())));
    match found {
        Some(other) => Ok(Some(other.member.clone())),
        None => Err(Error::Missing(format!("node '{name}' is no member of the cluster"))),
    }
}

/// The path of a node. What is below it, too, is that node's to tell.
const NODE: &str = "/api/nodes/{node}";

/// The other member that a question about a node concerns, if it runs.
fn other_node(call: &Call, route: &Route) -> Option<Arc<Member>> {
    let is_about_node = route.method == Method::Get && route.path.starts_with(NODE);
    let name = route.parameter("node", &call.path).filter(|_| is_about_node)?;
    call.api.running_members().find(|other| other.name() == name).map(|other| other.member)
}

/// The way of a request that concerns one queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OfQueue {
    /// The queue's node answers.
    AtHome,
    /// The queue's node answers, or this one if that can't be reached.
    AtHomeIfReached,
    /// Any node answers: it is about metadata.
    Anywhere,
}

fn way(route: &Route, query: &str) -> OfQueue {
    const QUEUE: &str = "/api/queues/{vhost}/{queue}";
    match (route.method, route.path) {
        (Method::Get, QUEUE | "/api/queues/{vhost}/{queue}/transfers") => OfQueue::AtHomeIfReached,
        // Only the queue's node knows whether it is empty or unused.
        (Method::Delete, QUEUE) if query.contains("if-") => OfQueue::AtHome,
        (_, QUEUE | "/api/queues/{vhost}/{queue}/bindings" | "/api/queues/{vhost}/{queue}/convert") => {
            OfQueue::Anywhere
        }
        (
            _,
            "/api/queues/quorum/{vhost}/{queue}/status"
            | "/api/queues/quorum/{vhost}/{queue}/replicas/leader"
            | "/api/stream/{vhost}/{queue}/tracking"
            | "/api/history/queues/{vhost}/{queue}",
        ) => OfQueue::AtHome,
        (_, path) if path.starts_with(QUEUE) => OfQueue::AtHome,
        _ => OfQueue::Anywhere,
    }
}

/// The member that has the queue of a request.
fn home(call: &Call, route: &Route) -> Option<Arc<Member>> {
    let (vhost, queue) = (route.parameter("vhost", &call.path)?, route.parameter("queue", &call.path)?);
    let snapshot = call.api.broker().registry.snapshot();
    let queue = snapshot.queue(vhost, queue).filter(|queue| queue.is_away())?;
    snapshot.topology.member(queue.member()?).cloned()
}

/// The way of a request that concerns connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OfConnections {
    /// The node that has the connection answers.
    One,
    /// Every node does its part.
    EveryNode,
}

fn of_connections(route: &Route) -> Option<OfConnections> {
    const CONNECTIONS: [&str; 3] =
        ["/api/connections/{connection}", "/api/channels/{channel}", "/api/stream/connections/{vhost}/{name}"];
    match (route.method, route.path) {
        (Method::Delete, "/api/connections/username/{user}") => Some(OfConnections::EveryNode),
        (_, path) if CONNECTIONS.iter().any(|connection| path.starts_with(connection)) => Some(OfConnections::One),
        _ => None,
    }
}

/// Answers a request about one connection. No node knows the others' connections, so they are asked in turn if this one hasn't got it.
async fn of_one_connection(call: Call, route: &Route, original: &Original<'_>) -> HandlerResult {
    let (others, asked) = (call.api.running_members(), call.clone());
    let missing = match (route.run)(call).await {
        Err(error @ Error::NotFound) => error,
        other => return other,
    };
    let mut unreached = None;
    for other in others {
        match forward(&asked, original, &other.member, WITHIN_OF_ROW).await {
            Ok(response) if response.status() == StatusCode::NOT_FOUND => {}
            Ok(response) => return Ok(response),
            Err(error) => unreached = Some(error),
        }
    }
    // A node that doesn't answer may have it.
    Err(unreached.unwrap_or(missing))
}

/// Answers a request, or has the members answer it that it concerns.
///
/// # Errors
/// As the handler, or a member can't be reached, or isn't known.
pub(crate) async fn run(call: Call, route: &Route, original: &Original<'_>) -> HandlerResult {
    if !call.api.is_member() {
        return run_once(call, route, original).await;
    }
    let (api, again) = (call.api.clone(), call.clone());
    match run_once(call, route, original).await {
        Err(error) if error.may_be_behind() && api.catches_up().await => run_once(again, route, original).await,
        other => other,
    }
}

async fn run_once(call: Call, route: &Route, original: &Original<'_>) -> HandlerResult {
    if let Some(member) = named(&call.api, &call.headers)? {
        return forward(&call, original, &member, WITHIN).await;
    }
    if !call.api.is_member() || call.arrival.is_forwarded {
        return (route.run)(call).await;
    }
    if merging::is_list(route) {
        return merging::of_all(call, route, original).await;
    }
    if let Some(member) = other_node(&call, route) {
        // Of a node that doesn't answer, this one shows what it knows.
        let within = if route.path == NODE { WITHIN_OF_ROW } else { WITHIN };
        match forward(&call, original, &member, within).await {
            Err(_) if route.path == NODE => {}
            forwarded => return forwarded,
        }
    }
    match of_connections(route) {
        Some(OfConnections::One) => return of_one_connection(call, route, original).await,
        Some(OfConnections::EveryNode) => {
            for other in call.api.running_members() {
                let response = forward(&call, original, &other.member, WITHIN).await?;
                if !response.status().is_success() {
                    return Ok(response);
                }
            }
        }
        None => {}
    }
    let way = way(route, &call.query_text);
    if way != OfQueue::Anywhere
        && let Some(member) = home(&call, route)
    {
        match forward(&call, original, &member, WITHIN).await {
            Err(_) if way == OfQueue::AtHomeIfReached => {}
            forwarded => return forwarded,
        }
    }
    (route.run)(call).await
}

/// Has a member answer a request.
async fn forward(call: &Call, original: &Original<'_>, member: &Member, within: Duration) -> Result<Response, Error> {
    let target = match call.query_text.is_empty() {
        true => original.path.to_owned(),
        false => format!("{}?{}", original.path, call.query_text),
    };
    let request = request(call, original.method, target);
    Ok(answered(&ask(&call.api, request, member, within).await?))
}

#[test]
fn requests_about_one_queue_go_to_its_node() {
    use crate::route::{Access, literal_length};
    let route = |method: &str, path: &'static str| {
        let methods = [Method::Get, Method::Put, Method::Post, Method::Delete];
        let method = methods.into_iter().find(|known| known.name() == method).expect("a method");
        let run = |_| -> crate::route::Handled { Box::pin(async { crate::call::no_content() }) };
        Route { method, path, literal: literal_length(path), access: Access::Vhost, summary: "", run }
    };
    let queue = "/api/queues/{vhost}/{queue}";
    assert!(way(&route("GET", queue), "") == OfQueue::AtHomeIfReached);
    assert!(way(&route("POST", "/api/queues/{vhost}/{queue}/get"), "") == OfQueue::AtHome);
    assert!(way(&route("DELETE", "/api/queues/{vhost}/{queue}/contents"), "") == OfQueue::AtHome);
    assert!(way(&route("GET", "/api/queues/quorum/{vhost}/{queue}/status"), "") == OfQueue::AtHome);
    assert!(way(&route("DELETE", queue), "if-empty=true") == OfQueue::AtHome);
    assert!(
        way(&route("DELETE", queue), "") == OfQueue::Anywhere && way(&route("PUT", queue), "") == OfQueue::Anywhere
    );
    assert!(way(&route("GET", "/api/queues/{vhost}/{queue}/bindings"), "") == OfQueue::Anywhere);
    assert!(way(&route("GET", "/api/queues"), "") == OfQueue::Anywhere);
}
