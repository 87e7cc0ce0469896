//! The metrics port: RabbitMQ's pages in RabbitMQ's text format. Metrics that are meaningless here are absent rather
//! than zero; our own families begin with `leveret_`.
//!
//! The aggregated page reads counters and asks no queue. Pages with a line for each object are generated while they are
//! sent.

mod clients;
mod cluster;
mod detailed;
#[cfg(test)]
mod documentation;
mod exchanges;
mod family;
mod filters;
mod global;
mod identity;
mod memory;
mod node;
mod own;
mod page;
mod placements;
mod queues;
mod telemetry;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leveret_metrics::Text;

use crate::accepted::codings_of;
use crate::api::Api;
use crate::compression::compressed;
use crate::error::Error;
use crate::identity::Requester;
use crate::serve::HttpClient;
use clients::Clients;
use detailed::Query;
use filters::Filters;
use node::Node;
use page::Page;
use telemetry::Scrapes;

/// Settings of the metrics port.
#[derive(Debug, Clone)]
pub struct MetricsOptions {
    /// Path of the pages (`prometheus.path`).
    pub path: String,
    /// Whether the main page is the per-object one instead of the aggregated one
    /// (`prometheus.return_per_object_metrics`).
    pub per_object: bool,
    /// Whether the pages require a login with the tag `monitoring` or a higher one
    /// (`prometheus.authentication.enabled`).
    pub authentication: bool,
}

impl Default for MetricsOptions {
    fn default() -> Self {
        MetricsOptions { path: "/metrics".to_owned(), per_object: false, authentication: false }
    }
}

#[derive(Clone)]
struct Port {
    api: Api,
    options: Arc<MetricsOptions>,
    scrapes: Scrapes,
}

/// The routes of the metrics port.
pub fn metrics(api: Api, options: MetricsOptions) -> Router {
    let port = Port { api, options: Arc::new(options), scrapes: Scrapes::default() };
    Router::new().fallback(answer).with_state(port)
}

const PREFIX: &str = "rabbitmq_";

async fn answer(State(port): State<Port>, request: Request) -> Response {
    let codings = codings_of(request.headers());
    let response = found(port, request).await;
    compressed(&codings, response).await
}

async fn found(port: Port, request: Request) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let status = if request.method() == Method::OPTIONS { StatusCode::OK } else { StatusCode::METHOD_NOT_ALLOWED };
        return (status, [(header::ALLOW, "HEAD, GET, OPTIONS")]).into_response();
    }
    if port.options.authentication {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
        if let Err(refused) = check(&port.api, request.headers().clone(), peer).await {
            return refused.into_response();
        }
    }
    let path = request.uri().path();
    let Some(page) = path.strip_prefix(port.options.path.trim_end_matches('/')) else {
        return Error::NotFound.into_response();
    };
    // Authentication is off or succeeded. The client counts as logged in, so that its connection may stay idle until
    // the next scrape.
    if let Some(client) = request.extensions().get::<HttpClient>() {
        client.let_in();
    }
    match page {
        "" | "/" if port.options.per_object => port.per_object().await,
        "" | "/" => port.aggregated().await,
        "/per-object" => port.per_object().await,
        "/memory-breakdown" => port.memory().await,
        "/detailed" => match Query::parse(request.uri().query().unwrap_or("")) {
            Ok(query) => port.detailed(&query).await,
            Err(text) => (StatusCode::BAD_REQUEST, text).into_response(),
        },
        _ if page.starts_with('/') => (StatusCode::NOT_FOUND, "Unknown Registry").into_response(),
        _ => Error::NotFound.into_response(),
    }
}

/// Checks that the requester's tags allow monitoring.
async fn check(api: &Api, headers: HeaderMap, peer: Option<SocketAddr>) -> Result<(), Error> {
    match Requester::of(api, &headers, peer, true).await?.monitors() {
        true => Ok(()),
        false => Err(Error::Forbidden("Not monitor user".to_owned())),
    }
}

impl Port {
    async fn aggregated(&self) -> Response {
        let (began, mut page) = (Instant::now(), Page::new());
        let node = Node::read(&self.api, clients::read(&self.api, false).await.sums);
        page.write(|text| {
            write_node(&node, text);
            for group in [&queues::COARSE, &queues::SIZES, &queues::DELIVERY] {
                group.totals(PREFIX, &node, text);
            }
            for group in [&queues::PUBLISHED, &queues::PUBLISHED_BY_EXCHANGE, &queues::STREAM_CONSUMERS] {
                group.totals(PREFIX, &node, text);
            }
            for group in [&clients::BYTES, &clients::CONNECTIONS] {
                group.totals(PREFIX, &node, text);
            }
            for group in [&clients::CHANNEL_PUBLISHES, &clients::CHANNEL_DELIVERIES] {
                group.totals(PREFIX, &node, text);
            }
            clients::CHANNELS.totals(PREFIX, &node, text);
            exchanges::EXCHANGES.totals(PREFIX, &node, text);
            own::OF_QUEUES.totals(own::PREFIX, &node, text);
            placements::write_raft(PREFIX, &self.api, text);
        });
        self.finish(page, "aggregated", "default", began)
    }

    async fn per_object(&self) -> Response {
        let (began, mut page) = (Instant::now(), Page::new());
        let Clients { sums, connections, channels, counted } = clients::read(&self.api, true).await;
        let node = Node::read(&self.api, sums);
        page.write(|text| write_node(&node, text));
        let snapshot = self.api.broker().registry.snapshot_full();
        let rows = Arc::new(queues::rows(&snapshot, &Filters::default()));
        let groups = [&queues::COARSE, &queues::SIZES, &queues::INFO, &queues::DELIVERY, &queues::PUBLISHED];
        for group in groups.into_iter().chain([&queues::PUBLISHED_BY_EXCHANGE, &queues::STREAM_CONSUMERS]) {
            page.add(group.objects(PREFIX, rows.clone()));
        }
        let logs = Arc::new(queues::RaftLog::of(&rows));
        page.add(queues::RAFT.objects_behind(PREFIX, placements::samples(&self.api), logs));
        page.add(own::OF_QUEUES.objects(own::PREFIX, rows));
        let connections = Arc::new(connections);
        for group in [&clients::BYTES, &clients::CONNECTIONS] {
            page.add(group.objects(PREFIX, connections.clone()));
        }
        page.add(clients::CHANNELS.objects(PREFIX, Arc::new(channels)));
        page.add(clients::CHANNEL_PUBLISHES.objects(PREFIX, Arc::new(counted.exchanges)));
        page.add(clients::CHANNEL_DELIVERIES.objects(PREFIX, Arc::new(counted.queues)));
        page.add(exchanges::EXCHANGES.objects(PREFIX, Arc::new(exchanges::rows(&snapshot, &Filters::default()))));
        self.finish(page, "per-object", "per-object", began)
    }

    async fn detailed(&self, query: &Query) -> Response {
        let (began, mut page) = (Instant::now(), Page::new());
        let snapshot = self.api.broker().registry.snapshot_full();
        if let Err(reason) = query.filters.check(&snapshot) {
            return (StatusCode::BAD_REQUEST, reason).into_response();
        }
        detailed::add(&self.api, query, &snapshot, &mut page).await;
        self.finish(page, "detailed", "detailed", began)
    }

    async fn memory(&self) -> Response {
        let (began, mut page) = (Instant::now(), Page::new());
        let node = Node::read(&self.api, clients::ClientSums::default());
        page.write(|text| memory::MEMORY.totals(PREFIX, &node, text));
        self.finish(page, "memory-breakdown", "memory-breakdown", began)
    }

    /// `registry` is the page's name in RabbitMQ's client library.
    fn finish(&self, mut page: Page, endpoint: &str, registry: &'static str, began: Instant) -> Response {
        let telemetry = self.scrapes.of(registry);
        page.write(|text| {
            identity::write(&self.api, endpoint, text);
            telemetry.write(text);
        });
        page.send(telemetry, began)
    }
}

/// Writes the part that the aggregated page and the per-object page have in common.
fn write_node(node: &Node, text: &mut Text) {
    for group in [&node::CHURN, &node::COARSE, &node::LIMITS, &node::PERSISTER, &node::COUNTS] {
        group.totals(PREFIX, node, text);
    }
    global::write_logins(PREFIX, node, text);
    global::write(node, text);
    global::write_deaths(node, text);
    global::write_sizes(node, text);
    node::PLAIN.totals("", node, text);
    own::write(node, text);
    placements::write(&node.api, text);
}
