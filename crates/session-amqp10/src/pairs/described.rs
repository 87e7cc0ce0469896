//! Queues as responses describe them.

use leveret_amqp10::value::{OwnedArray, OwnedMap, OwnedValue};
use leveret_model::Queue;

use super::arguments;

/// A queue of the node with this name, and its numbers of ready messages and consumers.
pub(crate) fn describe(node: &str, queue: &Queue, (messages, consumers): (u64, usize)) -> OwnedValue {
    let replicas = OwnedArray::new(vec![OwnedValue::from(node)]).expect("items of one type");
    let mut map = OwnedMap::default();
    map.push("leader", node)
        .push("message_count", messages)
        .push("consumer_count", u32::try_from(consumers).unwrap_or(u32::MAX))
        .push("name", &*queue.name)
        .push("vhost", &*queue.vhost)
        .push("durable", queue.durable)
        .push("auto_delete", queue.auto_delete)
        .push("exclusive", queue.is_exclusive())
        .push("type", queue.queue_type().name())
        .push("arguments", arguments::to_map(&queue.arguments))
        .push("replicas", OwnedValue::Array(replicas));
    OwnedValue::Map(map)
}
