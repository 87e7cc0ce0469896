//! A queue whose messages are on another node of the cluster, which can't be asked for them yet: it is known by name and properties, routes
//! lead to it, and everything that needs its home is refused.

use std::sync::Arc;

use leveret_log::LogId;
use leveret_model::{EffectiveQueue, Home, Queue as QueueInfo, Topology};
use leveret_queue::QueueGauges;

use super::{Published, QueueRef};
use crate::bodies::BodyOwner;
use crate::published::PublishedHere;
use crate::services::Services;
use crate::streams::{Apply, StreamRef};

/// A queue on another node.
pub(crate) struct AwayQueue {
    pub(super) info: Arc<QueueInfo>,
    pub(super) effective: Arc<EffectiveQueue>,
    /// This node's own log: a caller that waits for what it did to the queue, which was nothing, waits for nothing.
    pub(super) stream: StreamRef,
    /// The name of its node.
    pub(super) node: Arc<str>,
}

impl AwayQueue {
    /// A queue with this home, as seen by the other members.
    pub(crate) fn seen(info: Arc<QueueInfo>, topology: &Topology, services: &Services) -> QueueRef {
        let Home::Owner(home) = info.home;
        let node = topology.member(home).map_or_else(|| "?".into(), |member| member.name.clone());
        let effective = topology.effective_queue(&info, &[]).into();
        let (stream, _) = services.streams.of(&info);
        Arc::new(Self { info, effective, stream, node }).into()
    }

    /// The text for clients, in RabbitMQ's words for a queue whose home can't be reached.
    pub(super) fn text(&self) -> String {
        let QueueInfo { name, vhost, durable, .. } = &*self.info;
        let durable = if *durable { "durable " } else { "" };
        format!("home node '{}' of {durable}queue '{name}' in vhost '{vhost}' is down or inaccessible", self.node)
    }

    /// The answer to a publisher: nothing was taken.
    pub(super) fn refused() -> Published {
        PublishedHere::none().into()
    }

    pub(super) fn gauges() -> QueueGauges {
        QueueGauges { failed: true, ..QueueGauges::default() }
    }
}

impl Apply for AwayQueue {
    fn apply(self: Arc<Self>) {}
}

impl BodyOwner for AwayQueue {
    fn log_id(&self) -> LogId {
        LogId(self.info.id.0)
    }

    fn fail(self: Arc<Self>, _: String) {}
}
