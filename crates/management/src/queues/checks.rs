//! Health checks of quorum queues.

use leveret_broker::queue_handle::QueueRef;
use leveret_model::{Pattern, QueueType};
use serde_json::{Value, json};

use super::view::{RUNNING, state};
use crate::call::{Call, HandlerResult, json};
use crate::health;

/// RabbitMQ's name of the metadata's quorum.
const METADATA: &str = "rabbitmq_metadata";

/// Whether the metadata, and each placement of queues, keeps its majority without this node.
pub(crate) async fn quorum_critical(call: Call) -> HandlerResult {
    if call.api.cluster_size() <= 1 {
        return json(json!({"status": "ok", "reason": "single node cluster"}));
    }
    let seen = call.api.cluster_seen();
    let critical = seen.critical_placements(call.api.broker().registry.snapshot().topology.placements());
    let is_critical = |queue: &QueueRef| queue.info().home.placement().is_some_and(|number| critical.contains(&number));
    let mut queues = match critical.is_empty() {
        true => Vec::new(),
        false => quorum_queues(&call, None).into_iter().filter(is_critical).map(|queue| named(&queue)).collect(),
    };
    if seen.is_critical_for_metadata() {
        queues.push(json!({
            "readable_name": METADATA,
            "name": METADATA,
            "virtual_host": "(not applicable)",
            "type": "process",
        }));
    }
    if queues.is_empty() {
        return health::ok();
    }
    health::failed(json!({
        "reason": "There are quorum queues that would lose their quorum if the target node is shut down",
        "queues": queues,
    }))
}

/// The quorum queues of a vhost, or of all.
fn quorum_queues(call: &Call, vhost: Option<&str>) -> Vec<QueueRef> {
    let snapshot = call.api.broker().registry.snapshot_full();
    let is_asked = |queue: &&QueueRef| {
        queue.info().queue_type() == QueueType::Quorum && vhost.is_none_or(|vhost| &*queue.info().vhost == vhost)
    };
    snapshot.queues.values().filter(is_asked).cloned().collect()
}

/// A quorum queue as RabbitMQ's checks name it.
fn named(queue: &QueueRef) -> Value {
    let info = queue.info();
    json!({
        "readable_name": format!("queue '{}' in vhost '{}'", info.name, info.vhost),
        "name": &*info.name,
        "virtual_host": &*info.vhost,
        "type": "rabbit_quorum_queue",
    })
}

/// Whether every quorum queue has a leader that can be reached.
pub(crate) async fn leaders(call: Call) -> HandlerResult {
    leaders_of(&call, None, None)
}

/// The same for the queues whose names match.
pub(crate) async fn leaders_like(call: Call) -> HandlerResult {
    leaders_of(&call, None, Some(call.word(0)))
}

/// The same for the queues of a vhost.
pub(crate) async fn leaders_in(call: Call) -> HandlerResult {
    leaders_of(&call, Some(call.word(0)), None)
}

/// The same for the queues of a vhost whose names match.
pub(crate) async fn leaders_in_like(call: Call) -> HandlerResult {
    leaders_of(&call, Some(call.word(0)), Some(call.word(1)))
}

fn leaders_of(call: &Call, vhost: Option<&str>, pattern: Option<&str>) -> HandlerResult {
    let pattern = pattern.map(|text| Pattern::new(text, "the queues to check", "pattern")).transpose()?;
    let is_asked = |queue: &QueueRef| pattern.as_ref().is_none_or(|pattern| pattern.matches(&queue.info().name));
    let leaderless = |queue: &QueueRef| is_asked(queue) && state(&call.api, queue) != RUNNING;
    let mut queues: Vec<QueueRef> = quorum_queues(call, vhost).into_iter().filter(leaderless).collect();
    if queues.is_empty() {
        return health::ok();
    }
    let name = |queue: &QueueRef| (queue.info().vhost.clone(), queue.info().name.clone());
    queues.sort_by_key(name);
    let queues: Vec<Value> = queues.iter().map(named).collect();
    health::failed(json!({"reason": "Detected quorum queues without an elected leader", "queues": queues}))
}
