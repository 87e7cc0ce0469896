//! `GET /api/queues/:vhost/:name/browse`: reads messages without changing the queue.

use std::collections::HashMap;
use std::str::FromStr;

use leveret_broker::Peeked;
use leveret_broker::direct::PlainMessage;
use leveret_broker::queue_handle::{Peek, QueueRef, Size};
use leveret_broker::transfer::StoredRuns;
use leveret_model::Action;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::get::Encoding;
use super::{message_view, search};
use crate::api::Api;
use crate::call::{Call, HandlerResult, json};
use crate::error::Error;
use crate::payload::decode;

/// Most messages in one response.
const COUNT_MAX: usize = 1000;
const COUNT_DEFAULT: usize = 20;
/// Most messages in one response that can't be read: each is looked for several times.
const UNREADABLE_MAX: usize = 8;
/// Approximate limit of the bodies in one response, in bytes.
pub(super) const ANSWER_BYTES_MAX: usize = 32 << 20;

/// The part of a list of messages that a request asks for, and how these are shown.
pub(super) struct Page {
    pub(super) offset: u64,
    pub(super) count: usize,
    /// Bytes of each payload, at most.
    pub(super) truncate: usize,
    pub(super) encoding: Encoding,
    /// Whether payloads are shown decoded, too.
    pub(super) decode: bool,
}

impl Page {
    /// # Errors
    /// A parameter is wrong.
    pub(super) fn of(call: &Call, truncate: usize) -> Result<Self, Error> {
        Ok(Self { offset: number(call, "offset", 0)?, ..Self::of_stream(call, truncate)? })
    }

    /// The same of a stream, where an offset isn't only a number.
    ///
    /// # Errors
    /// A parameter is wrong.
    pub(super) fn of_stream(call: &Call, truncate: usize) -> Result<Self, Error> {
        Ok(Self {
            offset: 0,
            count: number(call, "count", COUNT_DEFAULT)?.min(COUNT_MAX),
            truncate: number(call, "truncate", truncate)?,
            encoding: Encoding::of(call.query.get("encoding").map_or("auto", String::as_str))?,
            decode: call.asks("decode"),
        })
    }

    /// As [`Page::show`], or the reason why the message can't be read.
    pub(super) async fn show_listed(&self, message: &Result<PlainMessage, String>, spent: &mut usize) -> Value {
        match message {
            Ok(message) => self.show(message, spent).await,
            Err(reason) => json!({ "error": reason }),
        }
    }

    /// A message as in lists of messages. `spent` counts what decoding has cost in this response.
    pub(super) async fn show(&self, message: &PlainMessage, spent: &mut usize) -> Value {
        let mut view = message_view(message, self.encoding, self.truncate);
        if self.decode {
            if *spent >= ANSWER_BYTES_MAX {
                let error =
                    format!("decoding has reached the {ANSWER_BYTES_MAX} bytes of a response; ask for fewer messages");
                view["decoded"] = json!({"as": "hex", "through": [], "text": "", "truncated": true, "error": error});
                return view;
            }
            let property = |name: &str| message.properties.get(name).and_then(|value| value.as_str());
            let decoded = decode(&message.body, property("content_type"), property("content_encoding"));
            *spent += decoded.cost();
            view["decoded"] = decoded.view();
            // Other requests come between.
            tokio::task::yield_now().await;
        }
        view
    }
}

/// A number in the query.
///
/// # Errors
/// It is something else.
pub(super) fn number<N: FromStr>(call: &Call, key: &str, default: N) -> Result<N, Error> {
    call.number(key, default)
}

/// GET with `offset`, `count`, `encoding`, `truncate` and `decode`; of a stream, also with `timestamp`, `filter` and `value`.
pub(crate) async fn browse(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let snapshot = call.api.broker().registry.snapshot_full();
    let queue = snapshot.queue(vhost, name).ok_or(Error::NotFound)?;
    call.identity.permit(&snapshot.topology, vhost, Action::Consume(name))?;
    snapshot.topology.visible_queue(vhost, name, None)?;
    if queue.is_stream() {
        return search::browse(&call, queue).await;
    }
    let page = Page::of(&call, usize::MAX)?;
    let (ready, _) = call.api.answer(queue.ask(Size { used: None })).await?;
    let peeked = call.api.answer(queue.ask(Peek { offset: page.offset, count: page.count })).await?;
    let found = found(&call.api, queue, peeked).await?;
    let (mut shown, mut spent) = (Vec::with_capacity(found.len()), 0);
    for (at, (number, message)) in found.iter().enumerate() {
        let mut view = page.show_listed(message, &mut spent).await;
        view["number"] = json!(number);
        view["message_count"] = json!(ready.saturating_sub(page.offset + at as u64 + 1));
        shown.push(view);
    }
    json(Value::Array(shown))
}

/// A message in a list: its number, and the message or the reason why it can't be read.
pub(super) type Listed = (u64, Result<PlainMessage, String>);

/// These messages with their numbers, as many as fit into one response. Messages that left the queue while they were read from
/// disk are left out. One that can't be read doesn't keep the others from being shown.
pub(super) async fn found(api: &Api, queue: &QueueRef, peeked: Vec<Peeked>) -> Result<Vec<Listed>, Error> {
    let broker = api.broker();
    let (mut found, mut bytes, mut unreadable) = (Vec::new(), 0, 0);
    let mut stored: HashMap<u64, PlainMessage> = HashMap::new();
    for peeked in peeked {
        let message = match &peeked.held {
            Some((batch, index)) => Some(broker.plain(batch, *index, peeked.redelivered)),
            None => {
                if !stored.contains_key(&peeked.number) {
                    match read(api, queue, peeked.number).await {
                        Ok(messages) => stored = messages,
                        Err(Error::Unavailable(reason)) if unreadable < UNREADABLE_MAX => {
                            unreadable += 1;
                            found.push((peeked.number, Err(reason)));
                            continue;
                        }
                        Err(error) => return Err(error),
                    }
                }
                stored.remove(&peeked.number).map(|message| PlainMessage { redelivered: peeked.redelivered, ..message })
            }
        };
        let Some(message) = message else { continue };
        bytes += message.body.len();
        found.push((peeked.number, Ok(message)));
        if bytes >= ANSWER_BYTES_MAX {
            break;
        }
    }
    Ok(found)
}

/// Reads a batch of stored messages, by number.
pub(super) async fn read(api: &Api, queue: &QueueRef, from: u64) -> Result<HashMap<u64, PlainMessage>, Error> {
    let mut messages = HashMap::new();
    for (first, batch) in read_runs(api, queue, from).await? {
        for at in 0..batch.len() {
            messages.insert(first + at as u64, api.broker().plain(&batch, at as u32, false));
        }
    }
    Ok(messages)
}

/// Reads a batch of stored messages: runs by the number of their first.
pub(crate) async fn read_runs(api: &Api, queue: &QueueRef, from: u64) -> Result<StoredRuns, Error> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    api.broker().read_directly(queue, from, move |read| {
        let _ = sender.send(read);
    });
    let runs = receiver.recv().await.ok_or_else(|| Error::Unavailable("the node stops".to_owned()))?;
    runs.map_err(|reason| Error::Unavailable(format!("cannot read the queue's messages: {reason}")))
}
