//! `/api/overview` and other routes about the node as a whole.

use axum::response::IntoResponse;
use leveret_model::{ExchangeType, Grants};
use leveret_node::Listening;
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::call::{Call, HandlerResult, json, no_content};
use crate::columns::Columns;
use crate::history::{Ranges, Subject};
use crate::statistics::{CHURN, Lengths, MESSAGES, numbers};

/// GET `/api/whoami`.
pub(crate) async fn whoami(call: Call) -> HandlerResult {
    let identity = &call.identity;
    let is_internal = matches!(identity.who().grants(), Grants::Model);
    json(json!({"name": identity.name(), "tags": identity.tags(), "is_internal_user": is_internal}))
}

/// GET `/api/version`.
pub(crate) async fn version(call: Call) -> HandlerResult {
    json(json!(call.api.broker().settings.version))
}

/// GET `/api/extensions`: scripts of the web UI.
pub(crate) async fn extensions(_: Call) -> HandlerResult {
    json(json!([{"javascript": "dispatcher.js"}]))
}

/// DELETE `/api/reset`: accepted without effect, because counters only grow here.
pub(crate) async fn reset(call: Call) -> HandlerResult {
    match call.path.first().is_none_or(|node| node == call.api.name()) {
        true => no_content(),
        false => Err(crate::error::Error::NotFound),
    }
}

/// GET `/api/config/effective`: the node's configuration as text. RabbitMQ's is in Erlang terms.
pub(crate) async fn configuration(call: Call) -> HandlerResult {
    let text = call.api.configuration();
    Ok(([(axum::http::header::CONTENT_TYPE, "text/plain")], text).into_response())
}

/// GET `/api/overview`.
pub(crate) async fn overview(call: Call) -> HandlerResult {
    let (api, identity) = (&call.api, &call.identity);
    let broker = api.broker();
    let settings = &broker.settings;
    let topology = api.topology();
    let monitors = identity.monitors();
    let seen: Vec<&str> =
        topology.vhosts().filter(|vhost| monitors || identity.sees(&topology, vhost)).map(|vhost| &**vhost).collect();
    let lengths = match monitors {
        true => Lengths::of_node(api),
        false => Lengths::of(api, seen.iter().copied()),
    };
    let totals = broker.totals();
    let mut object_totals = json!({
        "connections": broker.clients().iter().filter(|client| monitors || *client.user == *identity.name()).count(),
        "exchanges": seen.iter().map(|vhost| topology.exchanges(vhost).count()).sum::<usize>(),
        "queues": seen.iter().map(|vhost| topology.queue_count_of(vhost)).sum::<usize>(),
        "channels": 0,
    });
    if monitors {
        object_totals["channels"] = json!(totals.channels_opened.saturating_sub(totals.channels_closed));
        object_totals["consumers"] = json!(lengths.consumers);
    }
    let mut body = json!({
        "management_version": settings.version,
        "rabbitmq_version": settings.version,
        "product_name": settings.product,
        "product_version": settings.version,
        "leveret_version": env!("CARGO_PKG_VERSION"),
        "erlang_version": "",
        "erlang_full_version": "",
        "crypto_lib_version": "",
        "durability": api.durability(),
        "cluster_name": api.cluster_name(),
        "cluster_tags": {},
        "node_tags": {},
        "default_queue_type": api.node().vhost_defaults().queue_type.name(),
        "disable_stats": false,
        "enable_queue_totals": false,
        "is_op_policy_updating_enabled": !api.rules().operator_policy_changes_disabled,
        "require_definition_json_extension": false,
        "rates_mode": "basic",
        "sample_retention_policies": {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]},
        "statistics_db_event_queue": 0,
        "exchange_types": exchange_types(),
        "object_totals": object_totals,
    });
    if let (Some(body), Value::Object(counted)) = (body.as_object_mut(), counted(api, &lengths)) {
        body.extend(counted);
    }
    if monitors {
        api.show_past(Subject::Overview, &mut body, Ranges::of(&call.query).as_ref());
        body["node"] = json!(api.name());
        body["listeners"] = listeners(api);
        body["contexts"] = contexts(api, true);
    }
    json(Columns::of(&call.query).pick(body))
}

/// The counters of an overview: totals, and `lengths` for queues.
pub(crate) fn counted(api: &Api, lengths: &Lengths) -> Value {
    let totals = api.broker().totals();
    let (before, seconds) = api.sampler().node_before(&totals);
    let mut queue_totals = Map::new();
    lengths.add_to(&mut queue_totals);
    let mut message_stats = numbers(MESSAGES, &totals, &before, seconds);
    for key in ["disk_reads", "disk_writes"] {
        // Clients require the keys; disk I/O is in the metrics.
        crate::statistics::put(&mut message_stats, key, 0, 0.0);
    }
    json!({
        "queue_totals": queue_totals,
        "message_stats": message_stats,
        "churn_rates": numbers(CHURN, &totals, &before, seconds),
    })
}

/// The exchange types that clients may declare.
pub(crate) fn exchange_types() -> Vec<Value> {
    let described =
        |kind: &ExchangeType| json!({"name": kind.name(), "description": kind.description(), "enabled": true});
    ExchangeType::ALL.iter().map(described).collect()
}

fn listeners(api: &Api) -> Value {
    let listener = |listening: Listening| {
        let Listening { kind, address } = listening;
        let (protocol, port) = (kind.protocol, address.port());
        json!({
            "node": api.name(),
            "protocol": protocol,
            "ip_address": address.ip().to_string(),
            "port": port,
            "socket_opts": {"backlog": 128, "nodelay": true, "port": port, "protocol": protocol},
            "tls": kind.has_tls(),
        })
    };
    api.listeners().into_iter().map(listener).collect()
}

/// The HTTP endpoints, in RabbitMQ's words.
pub(crate) fn contexts(api: &Api, with_node: bool) -> Value {
    let context = |Listening { kind, address }: Listening| {
        let (protocol, port) = (kind.protocol, address.port());
        let mut context = match protocol {
            "http" | "https" => json!({"description": "RabbitMQ Management", "path": "/", "port": port.to_string()}),
            _ => json!({
                "description": "RabbitMQ Prometheus",
                "path": "/",
                "port": port.to_string(),
                "protocol": format!("'{protocol}'"),
            }),
        };
        if with_node {
            context["node"] = json!(api.name());
            context["ssl_opts"] = json!([]);
        }
        context
    };
    api.listeners().into_iter().filter(|listening| listening.kind.protocol.starts_with("http")).map(context).collect()
}
