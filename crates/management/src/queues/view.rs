//! A queue as JSON. Keys are RabbitMQ's; ours are `durability`, `conservation`, `waits`, `wait`, `pending`, `moving`,
//! `link_credit`, `priority` and `latency_us`.

use leveret_broker::queue_handle::QueueRef;
use leveret_broker::{ConsumerStatus, Now, QueueState, QueueStatus, QueueWait};
use serde_json::{Value, json};

use crate::api::Api;
use crate::time::{iso8601, wall_ms};

/// What a list shows.
pub(crate) fn listed(api: &Api, queue: &QueueRef) -> Value {
    basic(api, queue, &queue.status())
}

/// What the page of one queue shows.
pub(crate) fn detailed(api: &Api, queue: &QueueRef) -> Value {
    let status = queue.status();
    let now = api.node().clock().now();
    let mut body = basic(api, queue, &status);
    let exclusive = status.consumers.iter().find(|consumer| consumer.exclusive);
    body["exclusive_consumer_tag"] = exclusive.map_or(Value::Null, |consumer| json!(&*consumer.tag));
    body["single_active_consumer_tag"] = Value::Null;
    body["policy"] = Value::Null;
    body["operator_policy"] = Value::Null;
    body["head_message_timestamp"] = Value::Null;
    let consumers = status.consumers.iter();
    body["consumer_details"] = consumers.map(|consumer| consumer_details(queue, consumer, now)).collect();
    body
}

fn basic(api: &Api, queue: &QueueRef, status: &QueueStatus) -> Value {
    let info = queue.info();
    let now = api.node().clock().now();
    let counts = &status.conservation;
    let remaining = status.ready + status.unacknowledged;
    let mut body = json!({
        "name": &*info.name,
        "vhost": &*info.vhost,
        "node": api.name(),
        "type": "classic",
        "durable": info.durable,
        "durability": queue.durability().name(),
        "auto_delete": info.auto_delete,
        "exclusive": info.is_exclusive(),
        "arguments": info.arguments.to_json(),
        "effective_policy_definition": {},
        "state": match status.state {
            QueueState::Running => "running",
            QueueState::Failed(_) => "crashed",
            QueueState::Deleted => "deleted",
        },
        "messages": remaining,
        "messages_ready": status.ready,
        "messages_unacknowledged": status.unacknowledged,
        "message_bytes": status.ready_bytes + status.unacknowledged_bytes,
        "message_bytes_ready": status.ready_bytes,
        "message_bytes_unacknowledged": status.unacknowledged_bytes,
        "memory": status.memory,
        "consumers": status.consumers.len(),
        "message_stats": {
            "publish": counts.accepted + status.pending + status.refused,
            "deliver_get": status.delivered,
            "redeliver": status.redelivered,
            "ack": counts.settled,
        },
        "conservation": {
            "accepted": counts.accepted,
            "settled": counts.settled,
            "dead_lettered": counts.dead_lettered,
            "expired": counts.expired,
            "dropped": counts.dropped,
            "purged": counts.purged,
            "parked": counts.parked,
            "remaining": remaining,
            "balanced": counts.accepted == counts.gone() + remaining,
        },
        "pending": status.pending,
        "moving": status.moving,
        "refused": status.refused,
        "waits": status.waits.iter().map(|wait| waiting(*wait, now)).collect::<Vec<_>>(),
    });
    if let QueueState::Failed(reason) = &status.state {
        body["failure"] = json!(reason);
    }
    body
}

fn consumer_details(queue: &QueueRef, consumer: &ConsumerStatus, now: Now) -> Value {
    let info = queue.info();
    // "127.0.0.1:40000 -> 127.0.0.1:5672 (1)": the connection, then the number of its channel.
    let (connection, number) = consumer.channel.rsplit_once(" (").unwrap_or((&consumer.channel, ""));
    let number: Option<u16> = number.trim_end_matches(')').parse().ok();
    json!({
        "consumer_tag": &*consumer.tag,
        "queue": {"name": &*info.name, "vhost": &*info.vhost},
        "channel_details": {"name": &*consumer.channel, "connection_name": connection, "number": number},
        "ack_required": !consumer.automatic_ack,
        "prefetch_count": consumer.prefetch,
        "link_credit": consumer.link_credit,
        "priority": consumer.priority,
        "exclusive": consumer.exclusive,
        "active": true,
        "arguments": {},
        "unacknowledged": consumer.unacknowledged,
        "delivered": consumer.delivered,
        "wait": waiting(consumer.wait, now),
        "latency_us": latency(&consumer.latency),
    })
}

/// Why somebody waits, and since when.
fn waiting(wait: QueueWait, now: Now) -> Value {
    json!({
        "reason": wait.reason.code(),
        "since": iso8601(wall_ms(now, wait.since)),
        "seconds": now.monotonic.saturating_sub(wait.since) as f64 / 1e9,
    })
}

/// Counts by the upper bound of their bucket, in microseconds; empty buckets aren't shown.
fn latency(buckets: &[u64]) -> Value {
    let filled = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
    Value::Object(filled.map(|(at, count)| ((1u64 << at).to_string(), json!(count))).collect())
}
