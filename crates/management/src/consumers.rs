//! `/api/consumers`, including those of AMQP 1.0.

use leveret_broker::queue_handle::{QueueRef, Status};
use leveret_broker::registry::Snapshot;
use leveret_broker::{ConsumerStatus, Now};
use serde_json::json;

use crate::api::Api;
use crate::call::{Call, HandlerResult};
use crate::columns::{Cell, Columns};
use crate::list::{self, Rows};
use crate::queues::consumer_view;
use crate::row::Shown;
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

    fn show(&self, (queue, consumer): &Self::Row) -> Shown {
        Shown::Value(consumer_view(&self.api, queue, consumer, self.now))
    }

    fn cell(&self, (queue, consumer): &Self::Row, column: &str) -> Cell {
        match column {
            "consumer_tag" => (&*consumer.tag).into(),
            "queue" => json!({"name": &*queue.info().name, "vhost": &*queue.info().vhost}).into(),
            "ack_required" => (!consumer.automatic_ack).into(),
            "prefetch_count" => json!(consumer.prefetch).into(),
            "priority" => json!(consumer.priority).into(),
            "exclusive" => consumer.exclusive.into(),
            "active" => consumer.activity.is_active().into(),
            "arguments" => consumer.arguments.to_json().into(),
            "unacknowledged" => json!(consumer.unacknowledged).into(),
            "delivered" => json!(consumer.delivered).into(),
            _ => Cell::Costly,
        }
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
        let consumers = queue.look(Status).map(|status| status.consumers).unwrap_or_default();
        consumers.into_iter().map(move |consumer| (queue.clone(), consumer))
    };
    let rows = queues.into_iter().flat_map(of_queue);
    if list::is_whole(&call.query)? {
        // Only the consumers of one queue at a time are in memory.
        let columns = Columns::of(&call.query);
        return Ok(stream::list(rows.map(move |row| list::shown(&listed, &row, &columns))));
    }
    list::answer(&call.query, listed, rows.collect())
}
