//! `/api/queues/:vhost/:name/parked` and `/delayed`: messages of a quorum queue that are neither ready nor with a consumer, because
//! they came to their delivery limit or wait for a time.

use leveret_broker::queue_handle::{Aside, PeekAside};
use leveret_broker::{Peeked, SetAside};
use leveret_model::Action;
use serde_json::json;

use super::browse::{Page, found};
use crate::call::{Call, HandlerResult, json};
use crate::error::Error;

/// Bytes of a payload that are shown without `truncate`, as in RabbitMQ's `rabbitmq-queues peek`.
const TRUNCATE_DEFAULT: usize = 64;

/// GET of parked messages, see [`list`].
pub(crate) async fn parked(call: Call) -> HandlerResult {
    list(call, SetAside::Parked).await
}

/// GET of delayed messages, see [`list`]; each with its time in milliseconds since the Unix epoch.
pub(crate) async fn delayed(call: Call) -> HandlerResult {
    list(call, SetAside::Delayed).await
}

/// DELETE of parked messages, see [`delete`].
pub(crate) async fn delete_parked(call: Call) -> HandlerResult {
    delete(call, SetAside::Parked).await
}

/// DELETE of delayed messages, see [`delete`].
pub(crate) async fn delete_delayed(call: Call) -> HandlerResult {
    delete(call, SetAside::Delayed).await
}

/// GET with `offset`, `count`, `encoding`, `truncate` and `decode`: the lowest number first.
async fn list(call: Call, which: SetAside) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let page = Page::of(&call, TRUNCATE_DEFAULT)?;
    let snapshot = call.api.broker().registry.snapshot_full();
    let queue = snapshot.queue(vhost, name).ok_or(Error::NotFound)?;
    call.identity.permit(&snapshot.topology, vhost, Action::Consume(name))?;
    snapshot.topology.visible_queue(vhost, name, None)?;
    let asked = queue.ask(PeekAside { which, offset: page.offset, count: page.count });
    let Aside { messages: total, bytes, peeked } = call.api.answer(asked).await?;
    let due = |Peeked { number, due_ms, token, .. }: &Peeked| Some((*number, (*due_ms)?, token.clone()));
    let times: Vec<(u64, u64, Option<Box<str>>)> = peeked.iter().filter_map(due).collect();
    let found = found(&call.api, queue, peeked).await?;
    let (mut shown, mut spent) = (Vec::with_capacity(found.len()), 0);
    for (number, message) in &found {
        let mut view = page.show_listed(message, &mut spent).await;
        view["number"] = json!(number);
        if let Ok(at) = times.binary_search_by_key(number, |(number, ..)| *number) {
            view["delivery_time"] = json!(times[at].1);
            if let Some(token) = &times[at].2 {
                view["deferral_token"] = json!(token);
            }
        }
        shown.push(view);
    }
    json(json!({"total": total, "bytes": bytes, "messages": shown}))
}

/// DELETE, of all or of those with numbers from `first` to `last`.
async fn delete(call: Call, which: SetAside) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let number = |key: &str, default: u64| match call.query.get(key) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| Error::BadRequestOf(json!(["not_integer", text]))),
    };
    let (first, last) = (number("first", 0)?, number("last", u64::MAX)?);
    if first > last {
        return Err(Error::BadRequest(format!("first is {first} and last {last}: the range is empty")));
    }
    let snapshot = call.api.broker().registry.snapshot_full();
    let queue = snapshot.queue(vhost, name).ok_or(Error::NotFound)?;
    call.identity.permit(&snapshot.topology, vhost, Action::Consume(name))?;
    snapshot.topology.visible_queue(vhost, name, None)?;
    let (deleted, ticket) = match queue.as_ledger() {
        Some(queue) => {
            let now = call.api.node().clock().monotonic();
            let dropped = call.api.answer(queue.drop_set_aside(which, first, last, now)).await?;
            dropped.ok_or_else(|| queue.not_removed())?
        }
        // A stream sets none aside.
        None => Default::default(),
    };
    call.api.durable(ticket).await?;
    json(json!({"deleted": deleted}))
}
