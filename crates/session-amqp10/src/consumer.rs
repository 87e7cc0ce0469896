//! A link on which the client receives from a queue.

use std::sync::Arc;

use leveret_queue::ConsumerId;

use super::unsettled::Delivered;
use leveret_broker::queue_handle::QueueRef;

/// The sending endpoint of a consumer's link.
pub(crate) struct Consumer {
    /// The link's name.
    pub name: Arc<str>,
    /// The address of its source, as the client sent it.
    pub address: Arc<str>,
    pub queue: QueueRef,
    pub id: ConsumerId,
    /// The key of the link in its queue's signals.
    pub key: u64,
    /// Deliveries are sent settled.
    pub settled: bool,
    /// Messages are copied, not taken (distribution mode copy).
    pub browses: bool,
    /// The largest message in bytes that the client takes; 0 for no limit.
    pub max_message_size: u64,
    pub delivered: Delivered,
    /// The tag of the next delivery; unique among unsettled ones.
    pub next_tag: u32,
    /// The queue was notified that the socket isn't keeping up.
    pub starved: bool,
    /// The queue is deleted with the link.
    pub dynamic: bool,
}
