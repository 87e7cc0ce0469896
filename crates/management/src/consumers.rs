//! `/api/consumers`, including those of AMQP 1.0.

use leveret_broker::queue_handle::QueueRef;
use leveret_broker::registry::Snapshot;
use leveret_broker::{ConsumerStatus, Now};
use serde_json::Value;

use crate::api::Api;
use crate::call::{Call, HandlerResult};
use crate::columns::Columns;
use crate::list::{self, Rows};
use crate::queues::consumer_view;
use crate::stream;

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

/// GET: consumers in all vhosts visible to the user.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let queues = consumed(&snapshot, call.identity.vhosts(&snapshot.topology).map(|vhost| &**vhost));
    answer(&call, queues)
}

/// GET: consumers in one vhost.
pub(crate) async fn of_vhost(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    answer(&call, consumed(&snapshot, [call.word(0)]))
}

/// The queues that have consumers.
fn consumed<'a>(snapshot: &Snapshot, vhosts: impl IntoIterator<Item = &'a str>) -> Vec<QueueRef> {
    let mut queues = snapshot.queues_of(vhosts);
    queues.retain(|queue| queue.gauges().consumers > 0);
    queues
}

fn answer(call: &Call, queues: Vec<QueueRef>) -> HandlerResult {
    let listed = Listed { api: call.api.clone(), now: call.api.node().clock().now() };
    let of_queue = |queue: QueueRef| {
        let consumers = queue.status().consumers;
        consumers.into_iter().map(move |consumer| (queue.clone(), consumer))
    };
    let rows = queues.into_iter().flat_map(of_queue);
    if list::is_whole(&call.query)? {
        // Only the consumers of one queue at a time are in memory.
        let columns = Columns::of(&call.query);
        return Ok(stream::list(rows.map(move |row| columns.pick(listed.show(&row)))));
    }
    list::answer(&call.query, listed, rows.collect())
}
