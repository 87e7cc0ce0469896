//! The query of `/metrics/detailed`: groups, vhosts and queue.

use std::sync::Arc;

use leveret_broker::registry::Snapshot;

use super::clients::{self, Clients};
use super::family::Group;
use super::filters::Filters;
use super::node::Node;
use super::page::Page;
use super::{cluster, exchanges, global, node, placements, queues};
use crate::api::Api;

/// A parsed query.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub families: Vec<String>,
    pub filters: Filters,
}

impl Query {
    /// Parses a query.
    ///
    /// # Errors
    /// The error in RabbitMQ's words.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut query = Query::default();
        for pair in crate::percent::query_pairs(text) {
            let (key, value) = pair.map_err(|_| "Query parameters have to be UTF-8 with valid percent signs")?;
            match &*key {
                "family" => query.families.push(value),
                "vhost" => query.filters.add_vhost(value),
                "queue" => query.filters.set_queue(&value)?,
                _ => {}
            }
        }
        Ok(query)
    }

    fn asks<R>(&self, group: &Group<R>) -> bool {
        self.has(group.name)
    }

    fn has(&self, family: &str) -> bool {
        self.families.iter().any(|asked| asked == family)
    }

    /// Whether connections have to be asked.
    pub(super) fn needs_clients(&self) -> bool {
        self.families.iter().any(|family| family.starts_with("channel_") || family.starts_with("connection_"))
    }
}

const PREFIX: &str = "rabbitmq_detailed_";
const CLUSTER_PREFIX: &str = "rabbitmq_cluster_";

/// Adds everything that the query asks for.
pub(super) async fn add(api: &Api, query: &Query, snapshot: &Snapshot, page: &mut Page) {
    let Clients { sums, connections, channels, counted } =
        if query.needs_clients() { clients::read(api, true).await } else { Clients::default() };
    let node = Node::read(api, sums);
    for group in [&node::CHURN, &node::COARSE, &node::LIMITS, &node::PERSISTER] {
        if query.asks(group) {
            page.write(|text| group.totals(PREFIX, &node, text));
        }
    }
    if query.has(global::LOGINS_GROUP) {
        page.write(|text| global::write_logins(PREFIX, &node, text));
    }
    let rows = Arc::new(queues::rows(snapshot, &query.filters));
    let mut of_queues = vec![&queues::COARSE, &queues::SIZES];
    if !query.asks(&queues::SIZES) {
        of_queues.push(&queues::CONSUMER_COUNT);
    }
    let asked: Vec<_> = of_queues.into_iter().filter(|group| query.asks(group)).collect();
    let has_info = !asked.is_empty();
    asked.into_iter().for_each(|group| page.add(group.objects(PREFIX, rows.clone())));
    if has_info {
        page.add(queues::INFO.objects(PREFIX, rows.clone()));
    }
    let others = [&queues::DELIVERY, &queues::PUBLISHED, &queues::PUBLISHED_BY_EXCHANGE, &queues::STREAM_CONSUMERS];
    for group in others {
        if query.asks(group) {
            page.add(group.objects(PREFIX, rows.clone()));
        }
    }
    if query.asks(&queues::RAFT) {
        let logs = Arc::new(queues::RaftLog::of(&rows));
        page.add(queues::RAFT.objects_behind(PREFIX, placements::samples(api), logs));
    }
    if query.asks(&exchanges::EXCHANGES) {
        let rows = Arc::new(exchanges::rows(snapshot, &query.filters));
        page.add(exchanges::EXCHANGES.objects(PREFIX, rows));
    }
    let connections = Arc::new(connections);
    for group in [&clients::BYTES, &clients::CONNECTIONS] {
        if query.asks(group) {
            page.add(group.objects(PREFIX, connections.clone()));
        }
    }
    if query.asks(&clients::CHANNELS) {
        page.add(clients::CHANNELS.objects(PREFIX, Arc::new(channels)));
    }
    if query.asks(&clients::CHANNEL_PUBLISHES) {
        page.add(clients::CHANNEL_PUBLISHES.objects(PREFIX, Arc::new(counted.exchanges)));
    }
    if query.asks(&clients::CHANNEL_DELIVERIES) {
        page.add(clients::CHANNEL_DELIVERIES.objects(PREFIX, Arc::new(counted.queues)));
    }
    if query.asks(&cluster::VHOSTS) {
        let vhosts = Arc::new(snapshot.topology.vhosts().cloned().collect());
        page.add(cluster::VHOSTS.objects(CLUSTER_PREFIX, vhosts));
    }
    let bound = Arc::new(if query.asks(&cluster::EXCHANGES) || query.asks(&cluster::BINDINGS) {
        cluster::rows(snapshot)
    } else {
        Vec::new()
    });
    for group in [&cluster::EXCHANGES, &cluster::BINDINGS] {
        if query.asks(group) {
            page.add(group.objects(CLUSTER_PREFIX, bound.clone()));
        }
    }
}
