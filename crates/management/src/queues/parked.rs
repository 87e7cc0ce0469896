//! `/api/queues/:vhost/:name/parked`: messages of a quorum queue that came to their delivery limit and were set aside.

use leveret_model::Action;
use serde_json::{Value, json};

use super::browse::{Page, found};
use super::message_view;
use crate::call::{Call, HandlerResult, json};
use crate::error::Error;

/// Bytes of a payload that are shown without `truncate`, as in RabbitMQ's `rabbitmq-queues peek`.
const TRUNCATE_DEFAULT: usize = 64;

/// GET with `offset`, `count`, `encoding` and `truncate`: the parked messages, the lowest number first.
pub(crate) async fn list(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let page = Page::of(&call, TRUNCATE_DEFAULT)?;
    let snapshot = call.api.broker().registry.snapshot_full();
    let queue = snapshot.queue(vhost, name).ok_or(Error::NotFound)?;
    call.identity.permit(&snapshot.topology, vhost, Action::Consume(name))?;
    snapshot.topology.usable_queue(vhost, name, None)?;
    let (total, bytes) = queue.parked();
    let found = found(&call.api, queue, queue.peek_parked(page.offset, page.count)).await?;
    let shown = found.iter().map(|(number, message)| {
        let mut view = message_view(message, page.encoding, page.truncate);
        view["number"] = json!(number);
        view
    });
    json(json!({"total": total, "bytes": bytes, "messages": shown.collect::<Vec<Value>>()}))
}

/// DELETE, of all or of those with numbers from `first` to `last`.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let number = |key: &str, default: u64| match call.query.get(key) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| Error::BadRequestOf(json!(["not_integer", text]))),
    };
    let (first, last) = (number("first", 0)?, number("last", u64::MAX)?);
    if first > last {
        return Err(Error::BadRequest(format!("first is {first} and last {last}: the range is empty")));
    }
    let snapshot = call.api.broker().registry.staged_snapshot();
    let queue = snapshot.queue(vhost, name).ok_or(Error::NotFound)?;
    call.identity.permit(&snapshot.topology, vhost, Action::Consume(name))?;
    snapshot.topology.usable_queue(vhost, name, None)?;
    let (deleted, ticket) = call.api.answer(queue.drop_parked(first, last)).await?;
    call.api.durable(ticket).await?;
    json(json!({"deleted": deleted}))
}
