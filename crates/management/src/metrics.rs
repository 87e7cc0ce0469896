use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use leveret_broker::quota::Kind;
use leveret_broker::{AlarmSource, ConnectionState};
use leveret_metrics::{ByDurability, CONTENT_TYPE, Gauges, HistogramTotals, Scrape, Segments, encode};
use leveret_model::Durability;

use crate::api::Api;
use crate::process;

/// The routes of the metrics port, which asks for no password, as RabbitMQ's doesn't.
pub fn metrics(api: Api) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .route("/metrics/{*form}", get(not_built))
        .fallback(|| async { StatusCode::NOT_FOUND })
        .with_state(api)
}

async fn scrape(State(api): State<Api>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], encode(read(&api))).into_response()
}

async fn not_built(uri: axum::http::Uri) -> Response {
    (StatusCode::NOT_IMPLEMENTED, format!("{} is not built yet; /metrics is\n", uri.path())).into_response()
}

fn read(api: &Api) -> Scrape {
    let broker = api.broker();
    let totals = broker.totals();
    let statistics = broker.commit.inspect(|log| log.statistics().clone());
    let free = process::disk_free_bytes(api.data_directory());
    let handle = api.node();
    let limits = handle.alarm_limits();
    let statuses = broker.connection_statuses();
    let in_state = |state| statuses.iter().filter(|status| status.state == state).count() as u64;
    let mut gauges = Gauges {
        connections: broker.connection_count() as u64,
        channels: totals.channels_opened.saturating_sub(totals.channels_closed),
        links: broker.quota.used(Kind::Links),
        unauthenticated_bytes: broker.unauthenticated.bytes(),
        disk_space_available_bytes: free,
        disk_space_limit_bytes: limits.disk_free_bytes,
        resident_memory_bytes: process::resident_memory_bytes(),
        open_fds: process::open_descriptors(),
        resident_memory_limit_bytes: limits.memory_bytes.unwrap_or(u64::MAX),
        max_fds: api.node().descriptor_limit(),
        disk_alarm: broker.alarms.is_raised(AlarmSource::Disk),
        memory_alarm: broker.alarms.is_raised(AlarmSource::Memory),
        connections_blocked: in_state(ConnectionState::Blocked),
        connections_in_flow: in_state(ConnectionState::Flow),
        ..Gauges::default()
    };
    gauges.by_durability = Durability::ALL.map(|class| ByDurability { durability: class.name(), ..Default::default() });
    for queue in broker.registry.snapshot_full().queues.values() {
        let status = queue.status();
        gauges.queues += 1;
        let class = &mut gauges.by_durability[queue.durability() as usize];
        class.queues += 1;
        class.messages += status.ready + status.unacknowledged;
        gauges.consumers += status.consumers.len() as u64;
        gauges.messages_ready += status.ready;
        gauges.messages_unacked += status.unacknowledged;
    }
    Scrape {
        totals,
        gauges,
        node: api.name().to_owned(),
        cluster: broker.settings.cluster_name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rabbitmq_version: broker.settings.version.clone(),
        durability: api.durability().to_owned(),
        sync_us: HistogramTotals::estimated(&statistics.sync_histogram),
        log_bytes_written: statistics.bytes_written,
        segments: Segments {
            count: statistics.segments,
            bytes: statistics.segment_bytes,
            rewritten: statistics.segments_rewritten,
            bytes_reclaimed: statistics.bytes_reclaimed,
        },
        connections_shed: broker.unauthenticated.shed(),
    }
}
