//! `GET /api/queues/:vhost/:name/browse` of a stream: from an offset or a time on, and with filters.

use axum::http::HeaderValue;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::search::{Scanned, Search, SearchTerms};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::browse::{ANSWER_BYTES_MAX, Page, number};
use crate::call::{Call, HandlerResult, json};
use crate::error::Error;

/// Parts of a stream that one request searches, each of a few MiB or a thousand chunks.
const PARTS_MAX: usize = 256;

/// The response's header with the offset from which on nothing was looked at.
const NEXT_OFFSET: &str = "x-next-offset";

/// The header of a message that has the value for filters.
const FILTER_VALUE: &str = "x-stream-filter-value";

pub(super) async fn browse(call: &Call, queue: &QueueRef) -> HandlerResult {
    let page = Page::of_stream(call, usize::MAX)?;
    let text = |key: &str| call.query.get(key).map(String::as_str);
    let terms = SearchTerms {
        offset: text("offset"),
        timestamp_ms: text("timestamp").map(|_| number(call, "timestamp", 0)).transpose()?,
        expression: text("filter"),
        value: text("value"),
    };
    let search = Search::begin(queue, &terms, call.api.node().clock().now().wall_ms).map_err(Error::BadRequest)?;
    let mut search = call.api.answer(search).await?.ok_or(Error::NotFound)?;
    let (mut views, mut bytes, mut spent) = (Vec::new(), 0, 0);
    let mut next = search.next();
    'parts: for _ in 0..PARTS_MAX {
        let part = read_part(&search).await?;
        for (first, batch) in &part.runs {
            for (offset, index) in (*first..).zip(0..batch.len() as u32).filter(|(offset, _)| *offset >= next) {
                if views.len() == page.count || bytes >= ANSWER_BYTES_MAX {
                    next = offset;
                    break 'parts;
                }
                let message = call.api.broker().plain(batch, index, false);
                let mut view = page.show(&message, &mut spent).await;
                // A chunk is skipped if it can't have the value; all of its messages are found otherwise.
                if terms.value.is_none_or(|value| view["properties"]["headers"][FILTER_VALUE] == value) {
                    bytes += message.body.len();
                    view["offset"] = json!(offset);
                    views.push(view);
                }
            }
        }
        next = next.max(part.end);
        if !search.advance(&part) {
            break;
        }
    }
    let mut response = json(Value::Array(views))?;
    response.headers_mut().insert(NEXT_OFFSET, HeaderValue::from(next));
    Ok(response)
}

/// Reads the next part of a search.
///
/// # Errors
/// It can't be read, or the node stops.
pub(crate) async fn read_part(search: &Search) -> Result<Scanned, Error> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    search.read(move |found| {
        let _ = sender.send(found);
    });
    let found = receiver.recv().await.ok_or_else(|| Error::Unavailable("the node stops".to_owned()))?;
    found.map_err(|reason| Error::Unavailable(format!("cannot read the stream's messages: {reason}")))
}
