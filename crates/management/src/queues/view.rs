//! A queue as JSON. Keys are RabbitMQ's, except our own `durability`, `conservation`, `waits`, `wait`, `why`, `pending`,
//! `effective_arguments`, `moving`, `parked`, `parked_bytes`, `delayed_bytes`, `chunk_bytes`, `first_offset`, `last_chunk_offset`,
//! `next_offset`, `link_credit`, `priority`, `latency_us`, and `messages_by_priority` of classic queues with priorities.

use std::sync::Arc;

use leveret_broker::queue_handle::{HeadTimestamp, QueueRef, Status};
use leveret_broker::{
    Activity, ConsumerStatus, Now, QueueCount, QueueState, QueueStatus, QueueWait, QuorumStatus, StreamStatus,
};
use leveret_model::{DelayedRetry, MemberNumber, QueueOptions, QueueType};
use serde_json::{Value, json};

use crate::api::Api;
use crate::columns::Cell;
use crate::history::{Ranges, Subject};
use crate::row::Row;
use crate::statistics::put;
use crate::time::{idle_since, iso8601};
use crate::why;

/// The counters summed up in `deliver_get`.
pub(super) const HANDED_OUT: [QueueCount; 4] =
    [QueueCount::Deliver, QueueCount::DeliverNoAck, QueueCount::Get, QueueCount::GetNoAck];

/// A queue in a list.
pub(crate) fn usual(api: &Api, queue: &QueueRef) -> Row {
    match queue.look(Status) {
        Some(status) => basic(api, queue, &status),
        None => plain(api, queue, false),
    }
}

/// A queue in a list without statistics.
pub(crate) fn plain(api: &Api, queue: &QueueRef, totals: bool) -> Row {
    let (info, mut body) = (queue.info(), declared(api, queue));
    match info.queue_type() {
        QueueType::Classic => body.add("online", Value::Null),
        QueueType::Quorum => {
            body.add("delivery_limit", delivery_limit(queue.effective().options(info).delivery_limit));
        }
        QueueType::Stream => {}
    }
    if totals {
        let gauges = queue.gauges();
        body.add("messages", json!(gauges.messages()));
        body.add("messages_ready", json!(gauges.ready));
        body.add("messages_unacknowledged", json!(gauges.unacknowledged));
    }
    body
}

/// A queue in a detailed list.
pub(crate) fn detailed(api: &Api, queue: &QueueRef) -> Row {
    let Some(status) = queue.look(Status) else { return plain(api, queue, false) };
    let mut body = basic(api, queue, &status);
    add_details(api, queue, &mut body, (&status, queue.look(HeadTimestamp)));
    body
}

/// A queue in its own response.
pub(crate) fn full(api: &Api, queue: &QueueRef, status: &QueueStatus, head_timestamp: Option<u64>) -> Value {
    let now = api.node().clock().now();
    let mut body = basic(api, queue, status);
    add_details(api, queue, &mut body, (status, head_timestamp));
    let consumers = status.consumers.iter();
    let shown: Vec<Value> = consumers.map(|consumer| consumer_view(api, queue, consumer, now)).collect();
    body.add("effective_arguments", effective_arguments(queue));
    body.add("consumer_details", json!(shown));
    body.add("incoming", json!([]));
    body.add("deliveries", json!([]));
    body.into()
}

/// Adds the requested history.
pub(super) fn add_past(api: &Api, queue: &QueueRef, body: &mut Value, ranges: Option<&Ranges>) {
    let info = queue.info();
    api.show_past(Subject::Queue(info.vhost.clone(), info.name.clone()), body, ranges);
}

fn add_details(api: &Api, queue: &QueueRef, body: &mut Row, (status, head): (&QueueStatus, Option<u64>)) {
    let exclusive = status.consumers.iter().find(|consumer| consumer.exclusive);
    // Here they are there without a policy, too.
    body.remove(&["policy", "operator_policy"]);
    let mut add = |key, value: Value| body.add(key, value);
    let effective = queue.effective();
    let matched = &effective.matched;
    add("policy", json!(matched.policy.as_ref().map(|policy| &policy.name)));
    add("operator_policy", json!(matched.operator.as_ref().map(|policy| &policy.name)));
    if status.stream.is_none() {
        let single = status.consumers.iter().find(|consumer| is_single_active(consumer));
        add("single_active_consumer_tag", single.map_or(Value::Null, |consumer| json!(&*consumer.tag)));
    }
    if status.quorum.is_none() && status.stream.is_none() {
        add("exclusive_consumer_tag", exclusive.map_or(Value::Null, |consumer| json!(&*consumer.tag)));
        add("head_message_timestamp", json!(head));
        add("idle_since", json!(idle_since(api, status.counts.used())));
    }
}

/// The arguments that take effect, and whether each comes from the declaration, the policy or the operator policy.
fn effective_arguments(queue: &QueueRef) -> Value {
    let arguments = queue.effective().arguments(queue.info());
    let shown = arguments.into_iter().map(|argument| {
        (argument.key.to_owned(), json!({"value": argument.value.to_json(), "source": argument.source.name()}))
    });
    Value::Object(shown.collect())
}

/// States with RabbitMQ's names.
pub(super) const RUNNING: &str = "running";
pub(super) const CRASHED: &str = "crashed";
/// The state of a queue of a member that can't be reached.
const DOWN: &str = "down";

/// The name of the node that has a queue.
pub(super) fn node_of(api: &Api, queue: &QueueRef) -> Arc<str> {
    let member = queue.member().filter(|_| queue.is_away());
    let away = member.and_then(|member| api.topology().member(member).map(|member| member.name.clone()));
    away.unwrap_or_else(|| api.name().into())
}

/// The name of the node that leads a queue; empty without one that is reached, as in RabbitMQ.
fn leader_of(api: &Api, queue: &QueueRef) -> Arc<str> {
    let reaches = |member| api.node().cluster().is_some_and(|cluster| cluster.reaches(member));
    let is_led = !queue.is_away() || queue.member().is_some_and(reaches);
    if is_led { node_of(api, queue) } else { "".into() }
}

/// The names of the members of a queue, and of those of them that run.
pub(super) fn members(api: &Api, queue: &QueueRef) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
    let topology = api.topology();
    let Some(placement) = queue.info().home.placement().and_then(|number| topology.placement(number)) else {
        let node = node_of(api, queue);
        let online = if state(api, queue) == DOWN { Vec::new() } else { vec![node.clone()] };
        return (vec![node], online);
    };
    let cluster = api.node().cluster();
    let own = cluster.as_ref().and_then(|cluster| cluster.seen().member);
    let is_online =
        |number: MemberNumber| Some(number) == own || cluster.as_ref().is_some_and(|cluster| cluster.reaches(number));
    let names = |only_online: bool| {
        let shown = placement.members.iter().filter(|number| !only_online || is_online(**number));
        shown.filter_map(|number| topology.member(*number)).map(|member| member.name.clone()).collect()
    };
    (names(false), names(true))
}

/// RabbitMQ's word for the state of a queue.
pub(super) fn state(api: &Api, queue: &QueueRef) -> &'static str {
    let reaches = |member| api.node().cluster().is_some_and(|cluster| cluster.reaches(member));
    match queue.is_away() {
        true if !queue.member().is_some_and(reaches) => DOWN,
        false if queue.has_failed() => CRASHED,
        _ => RUNNING,
    }
}

/// A column that follows from the declaration, as in [`declared`].
pub(super) fn declared_cell(api: &Api, queue: &QueueRef, column: &str) -> Cell {
    let info = queue.info();
    let is_classic = info.queue_type() == QueueType::Classic;
    match column {
        "name" => (&*info.name).into(),
        "vhost" => (&*info.vhost).into(),
        "node" => (&*node_of(api, queue)).into(),
        "type" => info.queue_type().name().into(),
        "durable" => info.durable.into(),
        "auto_delete" => info.auto_delete.into(),
        "exclusive" => info.is_exclusive().into(),
        "arguments" => info.arguments.to_json().into(),
        "state" => state(api, queue).into(),
        "policy" => queue.effective().matched.policy.as_ref().map_or(Cell::Absent, |policy| (&*policy.name).into()),
        "leader" if is_classic => Cell::Absent,
        "leader" => json!(leader_of(api, queue)).into(),
        "members" if is_classic => Cell::Absent,
        "members" => json!(members(api, queue).0).into(),
        _ => Cell::Costly,
    }
}

/// Fields that a queue has in a list, with some to spare.
const FIELDS: usize = 64;

fn declared(api: &Api, queue: &QueueRef) -> Row {
    let info = queue.info();
    let mut body = Row::with_capacity(FIELDS);
    body.extend([
        ("name", json!(info.name)),
        ("vhost", json!(info.vhost)),
        ("node", json!(node_of(api, queue))),
        ("type", json!(info.queue_type().name())),
        ("durable", json!(info.durable)),
        ("auto_delete", json!(info.auto_delete)),
        ("exclusive", json!(info.is_exclusive())),
        ("arguments", info.arguments.to_json()),
        ("state", json!(state(api, queue))),
    ]);
    if let Some(policy) = &queue.effective().matched.policy {
        body.add("policy", json!(policy.name));
    }
    if info.queue_type() != QueueType::Classic {
        let (members, online) = members(api, queue);
        let leader = leader_of(api, queue);
        body.extend([("leader", json!(leader)), ("members", json!(members)), ("online", json!(online))]);
    }
    body
}

fn delivery_limit(limit: Option<u64>) -> Value {
    limit.map_or_else(|| json!("unlimited"), |limit| json!(limit))
}

/// The delays of returned messages, in RabbitMQ's words.
fn delayed_retry(retry: Option<DelayedRetry>) -> String {
    match retry {
        Some(DelayedRetry { retries, min_ms, max_ms }) => {
            format!("{} (min: {min_ms}ms, max: {max_ms}ms)", retries.name())
        }
        None => "disabled".to_owned(),
    }
}

/// The fields that only quorum queues have, and those that they don't have.
fn make_quorum(body: &mut Row, status: &QuorumStatus, options: &QueueOptions) {
    body.remove(&["messages_by_priority", "messages_ready_ram", "messages_unacknowledged_ram", "storage_version"]);
    body.extend([
        ("delivery_limit", json!(delivery_limit(status.delivery_limit))),
        ("messages_ready_returned", json!(status.returned)),
        ("messages_active_priorities", json!(status.by_priority.len())),
        ("messages_by_priority", json!(status.by_priority)),
        ("delayed_retry", json!(delayed_retry(options.delayed_retry))),
        ("messages_delayed", json!(status.delayed)),
        ("delayed_bytes", json!(status.delayed_bytes)),
        ("messages_dlx", json!(status.dying)),
        ("message_bytes_dlx", json!(status.dying_bytes)),
        ("parked", json!(status.parked)),
        ("parked_bytes", json!(status.parked_bytes)),
    ]);
}

/// Keys that streams don't have: their messages aren't counted by where they are, and their bytes are those of chunks.
const NOT_OF_STREAMS: [&str; 13] = [
    "messages_persistent",
    "messages_ram",
    "messages_ready_ram",
    "messages_unacknowledged_ram",
    "message_bytes",
    "message_bytes_ready",
    "message_bytes_unacknowledged",
    "message_bytes_persistent",
    "message_bytes_ram",
    "storage_version",
    "consumer_capacity",
    "consumer_utilisation",
    "refused",
];

/// The fields that only streams have, and those that they don't have. A stretch is what a segment is in RabbitMQ: the unit of
/// retention.
fn make_stream(body: &mut Row, node: &str, status: &QueueStatus, stream: &StreamStatus) {
    body.remove(&NOT_OF_STREAMS);
    body.extend([
        ("readers", json!({node: status.consumers.len()})),
        ("segments", json!(stream.stretches)),
        ("first_timestamp", json!(stream.oldest_ms.unwrap_or(0))),
        ("first_offset", json!(stream.first)),
        ("next_offset", json!(stream.next)),
        ("last_chunk_offset", json!(stream.last_chunk)),
        ("chunk_bytes", json!(status.bytes)),
    ]);
}

fn basic(api: &Api, queue: &QueueRef, status: &QueueStatus) -> Row {
    let now = api.node().clock().now();
    let rates = status.counts.rates(now.monotonic);
    let counts = &status.conservation;
    let quorum = status.quorum.clone().unwrap_or_default();
    // Messages that readers of a stream hold are there for all others, too.
    let unacknowledged = if status.stream.is_some() { 0 } else { status.unacknowledged };
    let remaining = status.ready + unacknowledged + quorum.delayed;
    let bytes = status.ready_bytes + status.unacknowledged_bytes + quorum.delayed_bytes + quorum.dying_bytes;
    let mut body = declared(api, queue);
    put(&mut body, "messages", remaining + quorum.dying, rates.ready() + rates.unacknowledged());
    put(&mut body, "messages_ready", status.ready, rates.ready());
    put(&mut body, "messages_unacknowledged", unacknowledged, rates.unacknowledged());
    let in_memory_ready = status.in_memory.min(status.ready);
    let utilisation = if status.consumers.is_empty() { 0.0 } else { consumer_capacity(status) };
    body.extend([
        ("durability", json!(queue.durability().name())),
        ("effective_policy_definition", queue.effective().matched.definition().into()),
        ("internal", json!(false)),
        ("internal_owner", json!(false)),
        ("storage_version", json!(2)),
        ("messages_persistent", json!(remaining.saturating_sub(status.volatile))),
        ("messages_ram", json!(status.in_memory)),
        ("messages_ready_ram", json!(in_memory_ready)),
        ("messages_unacknowledged_ram", json!(status.in_memory - in_memory_ready)),
        ("message_bytes", json!(bytes)),
        ("message_bytes_ready", json!(status.ready_bytes)),
        ("message_bytes_unacknowledged", json!(status.unacknowledged_bytes)),
        ("message_bytes_persistent", json!(bytes.saturating_sub(status.volatile_bytes))),
        ("message_bytes_ram", json!((bytes as f64 * status.in_memory as f64 / remaining.max(1) as f64).round() as u64)),
        ("memory", json!(status.memory)),
        ("consumers", json!(status.consumers.len())),
        ("consumer_capacity", json!(utilisation)),
        ("consumer_utilisation", json!(utilisation)),
        (
            "conservation",
            json!({
                "accepted": counts.accepted,
                "settled": counts.settled,
                "dead_lettered": counts.dead_lettered,
                "expired": counts.expired,
                "dropped": counts.dropped,
                "purged": counts.purged,
                "parked": counts.parked,
                "remaining": remaining,
                "balanced": counts.accepted == counts.gone() + remaining,
            }),
        ),
        ("pending", json!(status.pending)),
        ("moving", json!(status.moving)),
        ("refused", json!(status.refused)),
        ("waits", json!(status.waits.iter().map(|wait| waiting(*wait, now)).collect::<Vec<_>>())),
        ("why", why::of_queue(api, queue, status, now)),
    ]);
    if let Some(duplicates) = status.duplicates {
        body.add("messages_deduplicated", json!(duplicates));
    }
    if queue.info().options.max_priority.is_some() {
        body.add("messages_by_priority", json!(status.by_priority));
    }
    if let Some(policy) = &queue.effective().matched.operator {
        body.add("operator_policy", json!(policy.name));
    }
    if let Some(quorum) = &status.quorum {
        make_quorum(&mut body, quorum, queue.effective().options(queue.info()));
    }
    if let Some(stream) = &status.stream {
        make_stream(&mut body, api.name(), status, stream);
    }
    if status.counts.any() {
        body.add("message_stats", message_stats(status, now));
    }
    if let QueueState::Failed(reason) = &status.state {
        body.add("failure", json!(reason));
    }
    body
}

fn message_stats(status: &QueueStatus, now: Now) -> Value {
    let rates = status.counts.rates(now.monotonic);
    let mut stats = Row::with_capacity(2 * QueueCount::ALL.len() + 2);
    for count in QueueCount::ALL {
        put(&mut stats, count.name(), status.counts.total(count), rates.of(count));
    }
    let rate = HANDED_OUT.iter().map(|count| rates.of(*count)).sum();
    put(&mut stats, "deliver_get", status.counts.handed_out(), rate);
    stats.into()
}

/// The share of consumers that could take a message now.
pub(crate) fn consumer_capacity(status: &QueueStatus) -> f64 {
    let able = status.consumers.iter().filter(|consumer| !is_blocked(consumer)).count();
    able as f64 / status.consumers.len() as f64
}

fn is_blocked(consumer: &ConsumerStatus) -> bool {
    matches!(consumer.wait.reason.code(), "credit" | "link_credit" | "room" | "window" | "overdue")
}

/// Whether it is the single active consumer of its queue.
fn is_single_active(consumer: &ConsumerStatus) -> bool {
    matches!(consumer.activity, Activity::Active | Activity::Quiescing)
}

fn activity_status(consumer: &ConsumerStatus) -> &'static str {
    match consumer.activity {
        Activity::Shared if is_blocked(consumer) => "blocked",
        activity => activity_name(activity),
    }
}

/// The name of a consumer's part in its queue.
pub(crate) fn activity_name(activity: Activity) -> &'static str {
    match activity {
        Activity::Active | Activity::Quiescing => "single_active",
        Activity::Waiting => "waiting",
        Activity::Shared => "up",
    }
}

/// A consumer in lists of consumers.
pub(crate) fn consumer_view(api: &Api, queue: &QueueRef, consumer: &ConsumerStatus, now: Now) -> Value {
    let info = queue.info();
    // "127.0.0.1:40000 -> 127.0.0.1:5672 (1)": the connection, followed by the number of its channel.
    // Clients of the stream protocol have no channels.
    let channel = consumer.channel.rsplit_once(" (");
    let (connection, number) = channel.unwrap_or((&consumer.channel, "0"));
    let number: Option<u16> = number.trim_end_matches(')').parse().ok();
    let peer: Option<std::net::SocketAddr> = connection.split(" -> ").next().and_then(|peer| peer.parse().ok());
    json!({
        "consumer_tag": &*consumer.tag,
        "queue": {"name": &*info.name, "vhost": &*info.vhost},
        "channel_details": {
            "name": channel.map_or("", |_| &*consumer.channel),
            "connection_name": connection,
            "number": number,
            "node": api.name(),
            "peer_host": peer.map(|peer| peer.ip().to_string()),
            "peer_port": peer.map(|peer| peer.port()),
            "user": consumer.user,
        },
        "ack_required": !consumer.automatic_ack,
        "prefetch_count": consumer.prefetch,
        "link_credit": consumer.link_credit,
        "priority": consumer.priority,
        "exclusive": consumer.exclusive,
        "active": consumer.activity.is_active(),
        "activity_status": activity_status(consumer),
        "arguments": consumer.arguments.to_json(),
        // RabbitMQ shows a timeout for consumers of all queues, and rabbitmqadmin can't read a consumer without one.
        "consumer_timeout": consumer.timeout_ms.unwrap_or_else(|| api.broker().consumer_timeout_ms()),
        "unacknowledged": consumer.unacknowledged,
        "delivered": consumer.delivered,
        "wait": waiting(consumer.wait, now),
        "why": why::of_consumer(queue, consumer, now),
        "latency_us": latency(&consumer.latency),
    })
}

/// The reason of a wait, and the time since when.
pub(crate) fn waiting(wait: QueueWait, now: Now) -> Value {
    json!({
        "reason": wait.reason.code(),
        "since": iso8601(now.wall_ms_at(wait.since)),
        "seconds": now.monotonic.saturating_sub(wait.since) as f64 / 1e9,
    })
}

/// Counts by the upper bound of their bucket, in microseconds; empty buckets are omitted.
fn latency(buckets: &[u64]) -> Value {
    let filled = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
    Value::Object(filled.map(|(at, count)| ((1u64 << at).to_string(), json!(count))).collect())
}
