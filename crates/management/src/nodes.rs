//! `/api/nodes`: this node, and what it knows of the other members of its cluster. Figures that only Erlang has are 0 or empty, because clients require the keys.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use leveret_broker::AlarmSource;
use leveret_config::LogLevel;
use leveret_node::{Log, RecentLine};
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::asking::ask_others;
use crate::call::{Call, HandlerResult, json};
use crate::columns::Columns;
use crate::error::Error;
use crate::health::missing_nodes;
use crate::history::{Ranges, Subject};
use crate::members::OtherMember;
use crate::overview::{contexts, exchange_types};
use crate::percent::{encoded_pairs, segment};
use crate::sampling::DiskWork;
use crate::statistics::{CHURN, numbers, put, rate};
use crate::time::iso8601;
use crate::{links, list, process};

/// Longest time for the figures of another member.
const WITHIN: Duration = Duration::from_secs(1);

/// The parameters of the list.
const OF_LIST: [&str; 9] =
    ["columns", "sort", "sort_reverse", "name", "use_regex", "page", "page_size", "pagination", "memory"];

/// GET. Each member tells its own figures; of one that doesn't answer, this node shows what it knows.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let only_names = Columns::of(&call.query).are_among(&["name"]);
    let own = if only_names { json!({"name": call.api.name()}) } else { with_past(&call) };
    let mut rows: BTreeMap<String, Value> =
        others(&call.api).into_iter().filter_map(|row| Some((row["name"].as_str()?.to_owned(), row))).collect();
    if !only_names && !call.arrival.is_forwarded {
        rows.extend(told_by_others(&call).await);
    }
    rows.insert(call.api.name().to_owned(), own);
    list::values(&call.query, rows.into_values().collect())
}

/// The rows of other members, by name, as these tell them.
async fn told_by_others(call: &Call) -> Vec<(String, Value)> {
    // The rows of all are filtered, sorted and cut here.
    let is_passed_on = |(key, _): &(&String, &String)| !OF_LIST.contains(&key.as_str());
    let query = encoded_pairs(call.query.iter().filter(is_passed_on));
    ask_others(call, WITHIN, |other| format!("/api/nodes/{}?{query}", segment(other.name()))).await
}

/// The other members of the cluster, as far as this node knows them: their figures are theirs to tell.
fn others(api: &Api) -> Vec<Value> {
    let now_ms = api.node().clock().now().wall_ms;
    let row = |other: OtherMember| {
        let mut row = json!({
            "name": other.name(),
            "type": "disc",
            "running": other.is_running(),
            "being_drained": false,
            "partitions": [],
            "cluster_links": [],
            "enabled_plugins": [],
            "applications": [],
        });
        if let Some(reason) = other.failure.as_ref().filter(|_| !other.is_running()) {
            row["reason"] = json!(reason);
        }
        if let Some(started_ms) = other.started_ms {
            row["uptime"] = json!(now_ms.saturating_sub(started_ms));
        }
        if let Some(told) = &other.told {
            row["being_drained"] = json!(told.words.is_in_maintenance.unwrap_or_default());
            row["rabbitmq_version"] = json!(told.words.version);
            row["processors"] = json!(told.words.cores);
            row["mem_alarm"] = json!(told.has_alarm(AlarmSource::Memory));
            row["disk_free_alarm"] = json!(told.has_alarm(AlarmSource::Disk));
        }
        row
    };
    api.other_members().into_iter().map(row).collect()
}

/// GET of one.
pub(crate) async fn one(call: Call) -> HandlerResult {
    if let Some(other) = of_other(&call) {
        return json(Columns::of(&call.query).pick(other));
    }
    check_name(&call)?;
    let mut body = with_past(&call);
    if call.asks("memory") {
        body["memory"] = breakdown(&call.api);
    }
    json(Columns::of(&call.query).pick(body))
}

/// GET: the node's memory by use.
pub(crate) async fn memory(call: Call) -> HandlerResult {
    check_name(&call)?;
    json(json!({"memory": breakdown(&call.api)}))
}

/// GET: Erlang's tables; there are none.
pub(crate) async fn tables(call: Call) -> HandlerResult {
    check_name(&call)?;
    json(json!({"ets_tables_memory": {"total": 0}}))
}

/// Lines of the log, unless asked for.
const LINES: usize = 100;
const LINES_MAX: usize = 1000;

/// GET: the last lines of the node's log, the oldest first. They aren't read from a file: the node keeps them whatever the outputs
/// are.
pub(crate) async fn log(call: Call) -> HandlerResult {
    check_name(&call)?;
    let lines = call.number("lines", LINES)?.min(LINES_MAX);
    let level = call.query.get("level").map_or("debug", String::as_str);
    let Some(level) = LogLevel::named(level) else {
        let reason = format!("level {level} isn't known: debug, info, warning, error and critical are");
        return Err(Error::BadRequest(reason));
    };
    let log = call.api.log().ok_or_else(|| Error::Unavailable("another program keeps this node's log".to_owned()))?;
    let shown = |line: &RecentLine| {
        let since = line.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({
            "number": line.number,
            "time": iso8601(u64::try_from(since.as_millis()).unwrap_or_default()),
            "level": line.level.name(),
            "category": line.category,
            "pid": line.pid,
            "text": line.text,
        })
    };
    json(json!({
        "locations": log.locations(),
        "lines": log.recent(lines, level).iter().map(shown).collect::<Vec<_>>(),
    }))
}

/// A row of another member.
fn of_other(call: &Call) -> Option<Value> {
    others(&call.api).into_iter().find(|row| row["name"] == call.word(0))
}

fn check_name(call: &Call) -> Result<(), Error> {
    if call.word(0) == call.api.name() { Ok(()) } else { Err(Error::NotFound) }
}

fn with_past(call: &Call) -> Value {
    let mut body = view(&call.api);
    call.api.show_past(Subject::Node, &mut body, Ranges::of(&call.query).as_ref());
    body
}

/// The counters of the log on the disk.
pub(crate) fn disk_work(api: &Api) -> DiskWork {
    api.broker().commit.inspect(|log| {
        let statistics = log.statistics();
        DiskWork { syncs: statistics.syncs, bytes_written: statistics.bytes_written }
    })
}

/// The node in a response, without its history.
pub(crate) fn view(api: &Api) -> Value {
    let broker = api.broker();
    let limits = api.node().alarm_limits();
    let statistics = broker.commit.inspect(|log| log.statistics().clone());
    let disk = DiskWork { syncs: statistics.syncs, bytes_written: statistics.bytes_written };
    let sync_us = leveret_metrics::HistogramTotals::estimated(&statistics.sync_histogram).sum;
    let totals = broker.totals();
    let (before, seconds) = api.sampler().node_before(&totals);
    let mut body = numbers(CHURN, &totals, &before, seconds);
    let (disk_before, seconds) = api.sampler().disk_before(disk);
    for (name, of) in [
        ("io_sync_count", (|disk| disk.syncs) as fn(DiskWork) -> u64),
        ("io_write_count", |disk| disk.syncs),
        ("io_write_bytes", |disk| disk.bytes_written),
    ] {
        put(&mut body, name, of(disk), rate(of(disk), of(disk_before), seconds));
    }
    let reads = |name: &str, body: &mut Map<String, Value>, value: u64| put(body, name, value, 0.0);
    for (name, value) in [
        ("mem_used", process::resident_memory_bytes()),
        ("disk_free", process::disk_free_bytes(api.data_directory())),
        ("fd_used", process::open_descriptors()),
        ("sockets_used", broker.connection_count() as u64),
        ("proc_used", 0),
        ("context_switches", process::context_switches()),
        ("gc_num", 0),
        ("gc_bytes_reclaimed", 0),
        ("io_sync_avg_time", sync_us / disk.syncs.max(1) / 1000),
        ("io_write_avg_time", 0),
        ("io_read_bytes", 0),
        ("io_read_count", 0),
        ("io_read_avg_time", 0),
        ("io_reopen_count", 0),
        ("io_seek_count", 0),
        ("io_seek_avg_time", 0),
        ("msg_store_read_count", 0),
        ("msg_store_write_count", 0),
        ("queue_index_read_count", 0),
        ("queue_index_write_count", 0),
        ("mnesia_disk_tx_count", 0),
        ("mnesia_ram_tx_count", 0),
    ] {
        reads(name, &mut body, value);
    }
    let described = json!({
        "name": api.name(),
        "type": "disc",
        "running": true,
        "being_drained": broker.is_in_maintenance(),
        "rabbitmq_version": broker.settings.version,
        "leveret_version": env!("CARGO_PKG_VERSION"),
        "erlang_version": "",
        "erlang_full_version": "",
        "crypto_lib_version": "",
        "uptime": api.uptime_ms(),
        "os_pid": std::process::id().to_string(),
        "processors": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "run_queue": 0,
        "rates_mode": "basic",
        "net_ticktime": 60,
        "db_dir": api.data_directory().display().to_string(),
        "config_files": [],
        "log_files": api.log().map(Log::locations).unwrap_or_default(),
        "enabled_plugins": api.plugins().explicit,
        "applications": [{
            "name": "rabbit",
            "description": "Leveret",
            "version": broker.settings.version,
        }],
        "auth_mechanisms": auth_mechanisms(api),
        "exchange_types": exchange_types(),
        "contexts": contexts(api, false),
        "partitions": [],
        "cluster_links": links::standing(api),
        "mem_alarm": broker.alarms.is_raised(AlarmSource::Memory),
        "mem_limit": limits.memory_bytes.unwrap_or(u64::MAX),
        "mem_calculation_strategy": "rss",
        "disk_free_alarm": broker.alarms.is_raised(AlarmSource::Disk),
        "disk_free_limit": api.node().disk_free_limit(),
        "fd_total": api.node().descriptor_limit(),
        "sockets_total": 0,
        "proc_total": 0,
        "metrics_gc_queue_length": {},
        "ra_open_file_metrics": {},
    });
    if let Value::Object(described) = described {
        body.extend(described);
    }
    if let wanted @ 2.. = api.target_cluster_size()
        && !api.is_member()
    {
        body.insert("maintenance_reason".to_owned(), json!(missing_nodes(wanted)));
    }
    // A key of our own, of members only.
    if api.is_member() {
        body.insert("links".to_owned(), json!(links::of_all(api)));
    }
    Value::Object(body)
}

fn auth_mechanisms(api: &Api) -> Vec<Value> {
    let names = api.broker().settings.auth_mechanisms.iter();
    let described = |name: &String| json!({"name": name, "description": format!("SASL {name} authentication mechanism"), "enabled": true});
    names.map(described).collect()
}

/// The node's memory by use: bodies of messages, and the rest.
fn breakdown(api: &Api) -> Value {
    let rss = process::resident_memory_bytes();
    let queues = api.broker().budget.used();
    let unauthenticated = api.broker().unauthenticated.bytes();
    let other = rss.saturating_sub(queues + unauthenticated);
    let mut memory = Map::new();
    // RabbitMQ's kinds that we don't distinguish.
    for kind in [
        "allocated_unused",
        "atom",
        "code",
        "connection_channels",
        "connection_writers",
        "connection_other",
        "metadata_store",
        "metadata_store_ets",
        "metrics",
        "mgmt_db",
        "mnesia",
        "msg_index",
        "other_ets",
        "other_proc",
        "plugins",
        "quorum_ets",
        "quorum_queue_dlx_procs",
        "quorum_queue_procs",
        "reserved_unallocated",
        "stream_queue_coordinator_procs",
        "stream_queue_procs",
        "stream_queue_replica_reader_procs",
        "queue_procs",
    ] {
        memory.insert(kind.to_owned(), json!(0));
    }
    memory.insert("binary".to_owned(), json!(queues));
    memory.insert("connection_readers".to_owned(), json!(unauthenticated));
    memory.insert("other_system".to_owned(), json!(other));
    memory.insert("strategy".to_owned(), json!("rss"));
    memory.insert("total".to_owned(), json!({"rss": rss, "allocated": rss, "erlang": rss}));
    Value::Object(memory)
}
