use axum::Json;
use axum::extract::State;
use leveret_metrics::Totals;
use leveret_model::ExchangeType;
use serde_json::{Value, json};

use crate::api::Api;
use crate::identity::Identity;

/// `/api/whoami`.
pub(crate) async fn whoami(identity: Identity) -> Json<Value> {
    Json(json!({"name": identity.name(), "tags": identity.tags(), "is_internal_user": true}))
}

/// `/api/overview`.
pub(crate) async fn overview(identity: Identity, State(api): State<Api>) -> Json<Value> {
    let broker = api.broker();
    let settings = &broker.settings;
    let mut body = json!({
        "management_version": settings.version,
        "rabbitmq_version": settings.version,
        "product_name": settings.product,
        "product_version": settings.version,
        "leveret_version": env!("CARGO_PKG_VERSION"),
        "durability": api.durability(),
        "cluster_name": settings.cluster_name,
        "node": api.name(),
        "cluster_tags": {},
        "node_tags": {},
        "default_queue_type": "classic",
        "disable_stats": false,
        "enable_queue_totals": false,
        "rates_mode": "none",
        "exchange_types": exchange_types(),
        "object_totals": object_totals(&api, &identity),
        "queue_totals": queue_totals(&api, &identity),
    });
    if identity.monitors() {
        let totals = Totals::of(broker.counters().iter().map(|counters| &**counters));
        body["message_stats"] = message_stats(&totals);
        body["churn_rates"] = churn(&totals);
        body["listeners"] = listeners(&api);
        body["contexts"] = json!([]);
    }
    Json(body)
}

fn exchange_types() -> Vec<Value> {
    let described = |kind: &ExchangeType| {
        let description = format!("AMQP {kind} exchange, as per the AMQP specification");
        json!({"name": kind.name(), "description": description, "enabled": true})
    };
    ExchangeType::ALL.iter().map(described).collect()
}

fn object_totals(api: &Api, identity: &Identity) -> Value {
    let broker = api.broker();
    let topology = api.topology();
    let seen: Vec<_> = topology.vhosts().filter(|vhost| identity.sees(&topology, vhost)).collect();
    let queues: usize = seen.iter().map(|vhost| topology.queues(vhost).count()).sum();
    let exchanges: usize = seen.iter().map(|vhost| topology.exchanges(vhost).count()).sum();
    let totals = Totals::of(broker.counters().iter().map(|counters| &**counters));
    json!({
        "connections": broker.connection_count(),
        "channels": totals.channels_opened.saturating_sub(totals.channels_closed),
        "consumers": counts(api, identity).1,
        "exchanges": exchanges,
        "queues": queues,
    })
}

fn queue_totals(api: &Api, identity: &Identity) -> Value {
    let ((ready, unacknowledged), _) = counts(api, identity);
    json!({
        "messages": ready + unacknowledged,
        "messages_ready": ready,
        "messages_unacknowledged": unacknowledged,
    })
}

/// Ready and unacknowledged messages, and consumers, of all queues that the user sees.
fn counts(api: &Api, identity: &Identity) -> ((u64, u64), usize) {
    let snapshot = api.broker().registry.snapshot_full();
    let mut sums = ((0, 0), 0);
    for queue in snapshot.queues.values() {
        if !identity.sees(&snapshot.topology, &queue.info().vhost) {
            continue;
        }
        let status = queue.status();
        sums.0.0 += status.ready;
        sums.0.1 += status.unacknowledged;
        sums.1 += status.consumers.len();
    }
    sums
}

fn message_stats(totals: &Totals) -> Value {
    json!({
        "publish": totals.published,
        "confirm": totals.confirmed,
        "return_unroutable": totals.unroutable_returned,
        "drop_unroutable": totals.unroutable_dropped,
        "deliver": totals.delivered_ack,
        "deliver_no_ack": totals.delivered_no_ack,
        "get": totals.get_ack,
        "get_no_ack": totals.get_no_ack,
        "get_empty": totals.get_empty,
        "deliver_get": totals.delivered(),
        "redeliver": totals.redelivered,
        "ack": totals.acked,
    })
}

fn churn(totals: &Totals) -> Value {
    json!({
        "connection_created": totals.connections_opened,
        "connection_closed": totals.connections_closed,
        "channel_created": totals.channels_opened,
        "channel_closed": totals.channels_closed,
        "queue_declared": totals.queues_declared,
        "queue_created": totals.queues_created,
        "queue_deleted": totals.queues_deleted,
    })
}

fn listeners(api: &Api) -> Value {
    let listener =
        |(protocol, port): (&str, u16)| json!({"node": api.name(), "protocol": protocol, "port": port, "tls": false});
    api.listeners().into_iter().map(listener).collect()
}
