//! `/api/stream/connections`, `/api/stream/publishers` and `/api/stream/consumers`: clients of the stream protocol.

use std::sync::Arc;

use leveret_broker::registry::Snapshot;
use leveret_broker::views::{Client, ConnectionView, PublisherView, SubscriptionView};
use serde_json::{Value, json};

use crate::api::Api;
use crate::call::{Call, HandlerResult};
use crate::connections::{self, BATCH, STREAM, ask};
use crate::error::Error;
use crate::list;
use crate::queues::activity_name;

/// GET: the user's own connections; monitors see all.
pub(crate) async fn connections(call: Call) -> HandlerResult {
    connections::list_of(&call, seen(&call)).await
}

/// GET: connections in one vhost.
pub(crate) async fn connections_of_vhost(call: Call) -> HandlerResult {
    connections::list_of(&call, seen_in_vhost(&call)).await
}

/// GET of one connection.
pub(crate) async fn connection(call: Call) -> HandlerResult {
    connections::show(&call, find(&call)?).await
}

/// DELETE: closes a connection, with the reason in the header `X-Reason`.
pub(crate) async fn close(call: Call) -> HandlerResult {
    let client = of_path(&call)?;
    connections::close_one(&call, &client)
}

/// GET: the publishers of a connection.
pub(crate) async fn publishers_of(call: Call) -> HandlerResult {
    let clients = vec![find(&call)?];
    list::values(&call.query, publishers_in(&call.api, &clients, |_| true).await)
}

/// GET: the consumers of a connection.
pub(crate) async fn consumers_of(call: Call) -> HandlerResult {
    let clients = vec![find(&call)?];
    list::values(&call.query, consumers_in(&call.api, &clients).await)
}

/// GET: the publishers of all connections that the user sees.
pub(crate) async fn publishers(call: Call) -> HandlerResult {
    list::values(&call.query, publishers_in(&call.api, &seen(&call), |_| true).await)
}

/// GET: the publishers in one vhost.
pub(crate) async fn publishers_of_vhost(call: Call) -> HandlerResult {
    list::values(&call.query, publishers_in(&call.api, &seen_in_vhost(&call), |_| true).await)
}

/// GET: the publishers of one stream.
pub(crate) async fn publishers_of_stream(call: Call) -> HandlerResult {
    let snapshot: Arc<Snapshot> = call.api.broker().registry.snapshot_full();
    let stream = call.word(1);
    snapshot.queue(call.word(0), stream).ok_or(Error::NotFound)?;
    let of_stream = |publisher: &PublisherView| *publisher.stream == *stream;
    list::values(&call.query, publishers_in(&call.api, &seen_in_vhost(&call), of_stream).await)
}

/// GET: the consumers of all connections that the user sees.
pub(crate) async fn consumers(call: Call) -> HandlerResult {
    list::values(&call.query, consumers_in(&call.api, &seen(&call)).await)
}

/// GET: the consumers in one vhost.
pub(crate) async fn consumers_of_vhost(call: Call) -> HandlerResult {
    list::values(&call.query, consumers_in(&call.api, &seen_in_vhost(&call)).await)
}

fn seen(call: &Call) -> Vec<Arc<Client>> {
    let mut clients = connections::seen(call);
    clients.retain(|client| client.protocol.label == STREAM);
    clients
}

fn seen_in_vhost(call: &Call) -> Vec<Arc<Client>> {
    let mut clients = seen(call);
    clients.retain(|client| *client.vhost == *call.word(0));
    clients
}

/// The connection with the vhost and the name of the path.
fn of_path(call: &Call) -> Result<Arc<Client>, Error> {
    let client = call.api.broker().client(call.word(1));
    let is_meant = |client: &Arc<Client>| *client.vhost == *call.word(0) && client.protocol.label == STREAM;
    client.filter(is_meant).ok_or(Error::NotFound)
}

/// The same, if the user may see it.
fn find(call: &Call) -> Result<Arc<Client>, Error> {
    let client = of_path(call)?;
    connections::check_own(call, &client)?;
    Ok(client)
}

async fn publishers_in(api: &Api, clients: &[Arc<Client>], wanted: impl Fn(&PublisherView) -> bool) -> Vec<Value> {
    let mut shown = Vec::new();
    for asked in clients.chunks(BATCH) {
        for view in ask(api, asked).await {
            let publishers = view.publishers.iter().filter(|publisher| wanted(publisher));
            shown.extend(publishers.map(|publisher| self::publisher(api, &view, publisher)));
        }
    }
    shown
}

async fn consumers_in(api: &Api, clients: &[Arc<Client>]) -> Vec<Value> {
    let mut shown = Vec::new();
    for asked in clients.chunks(BATCH) {
        for view in ask(api, asked).await {
            shown.extend(view.subscriptions.iter().map(|subscription| consumer(api, &view, subscription)));
        }
    }
    shown
}

fn connection_details(api: &Api, view: &ConnectionView) -> Value {
    json!({
        "name": view.client.name,
        "node": api.name(),
        "user": view.client.user,
        "peer_host": view.peer.address.ip().to_string(),
        "peer_port": view.peer.address.port(),
    })
}

fn publisher(api: &Api, view: &ConnectionView, publisher: &PublisherView) -> Value {
    json!({
        "connection_details": connection_details(api, view),
        "publisher_id": publisher.id,
        "queue": {"name": publisher.stream, "vhost": view.client.vhost},
        "reference": publisher.reference.as_deref().unwrap_or(""),
        "published": publisher.published,
        "confirmed": publisher.confirmed,
        "errored": publisher.errored,
    })
}

fn consumer(api: &Api, view: &ConnectionView, subscription: &SubscriptionView) -> Value {
    json!({
        "connection_details": connection_details(api, view),
        "subscription_id": subscription.id,
        "queue": {"name": subscription.stream, "vhost": view.client.vhost},
        "consumed": subscription.consumed,
        "credits": subscription.credits,
        "offset": subscription.offset,
        "offset_lag": subscription.lag,
        "active": subscription.activity.is_active(),
        "activity_status": activity_name(subscription.activity),
        "properties": subscription.properties.to_json(),
    })
}
