//! A link on which the client receives from a queue.

use std::sync::Arc;

use leveret_queue::ConsumerId;

use super::unsettled::Delivered;
use crate::queue_handle::QueueRef;

/// Our sending endpoint.
pub(crate) struct Consumer {
    /// The link's name.
    pub name: Arc<str>,
    /// The address of its source, as the client said.
    pub address: Arc<str>,
    pub queue: QueueRef,
    pub id: ConsumerId,
    /// How the queue's signals name it.
    pub key: u64,
    /// Deliveries are sent settled.
    pub settled: bool,
    /// Messages are looked at, not taken (distribution mode copy).
    pub browses: bool,
    /// The largest message in bytes that the client takes; 0 for no limit.
    pub max_message_size: u64,
    pub delivered: Delivered,
    /// Of the next delivery; unique among those unsettled.
    pub next_tag: u32,
    /// The queue was told that the socket is behind.
    pub starved: bool,
    /// The queue goes with the link.
    pub dynamic: bool,
}
