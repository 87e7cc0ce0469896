//! `/api/consumers`, those of AMQP 1.0 too.

use std::sync::Arc;

use leveret_broker::queue_handle::QueueRef;
use leveret_broker::registry::Snapshot;
use leveret_broker::{ConsumerStatus, Now};
use serde_json::Value;

use crate::api::Api;
use crate::call::{Answer, Call};
use crate::list::{self, Rows};
use crate::queues::consumer_view;

struct Listed {
    api: Api,
    now: Now,
}

impl Rows for Listed {
    type Row = (QueueRef, ConsumerStatus);

    fn name<'a>(&'a self, (_, consumer): &'a Self::Row) -> &'a str {
        &consumer.tag
    }

    fn show(&self, (queue, consumer): &Self::Row) -> Value {
        consumer_view(&self.api, queue, consumer, self.now)
    }
}

/// GET: those in all vhosts that the user sees.
pub(crate) async fn all(call: Call) -> Answer {
    let snapshot = call.api.broker().registry.snapshot_full();
    let rows = call.identity.vhosts(&snapshot.topology).flat_map(|vhost| rows(&snapshot, vhost)).collect();
    answer(&call, rows)
}

/// GET: those in one vhost.
pub(crate) async fn of_vhost(call: Call) -> Answer {
    let snapshot = call.api.broker().registry.snapshot_full();
    answer(&call, rows(&snapshot, call.word(0)).collect())
}

fn rows<'a>(snapshot: &'a Arc<Snapshot>, vhost: &'a str) -> impl Iterator<Item = (QueueRef, ConsumerStatus)> + use<'a> {
    let queues = snapshot.topology.queues(vhost).filter_map(|info| snapshot.queues.get(&info.id));
    let consumed = queues.filter(|queue| queue.counts().1 > 0);
    consumed.flat_map(|queue| queue.status().consumers.into_iter().map(|consumer| (queue.clone(), consumer)))
}

fn answer(call: &Call, rows: Vec<(QueueRef, ConsumerStatus)>) -> Answer {
    let now = call.api.node().clock().now();
    list::answer(&call.query, Listed { api: call.api.clone(), now }, rows)
}
