//! `GET /api/tap/...`: messages of a queue or an exchange as they pass, as server-sent events.
//!
//! The broker copies the beginnings of some messages, at most `rate` each second; here they become events when the client takes
//! them. Every event counts the messages before it that aren't shown. See [`leveret_broker::taps`] for what a tap sees.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::StatusCode;
use futures_lite::stream;
use leveret_broker::registry::Snapshot;
use leveret_broker::taps::{OpenTap, Passage, Subject, TapOptions, Tapped};
use leveret_model::{Action, Resource};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::api::Api;
use crate::call::{Call, HandlerResult};
use crate::error::Error;
use crate::event_stream::{EVERY, HEARTBEAT, RETRY, SHARE, end, respond_with, too_many};
use crate::fields::exchange_named;
use crate::identity::Requester;
use crate::payload::decode_beginning;
use crate::queues::{Encoding, payload_view};
use crate::stream::make_way;
use crate::streams_open::StreamPlace;
use crate::time::iso8601;

/// Messages in a second, unless asked for.
const RATE: u32 = 10;
const RATE_MAX: u32 = 100;
/// Bytes of a body, unless asked for.
const BODY_BYTES: usize = 1024;
const BODY_BYTES_MAX: usize = 16 << 10;

/// The name of a queue or an exchange.
#[derive(Clone)]
struct Target {
    is_queue: bool,
    vhost: String,
    name: String,
}

/// GET of the messages that come to a queue and leave it.
pub(crate) async fn queue(call: Call) -> HandlerResult {
    let target = Target { is_queue: true, vhost: call.word(0).to_owned(), name: call.word(1).to_owned() };
    open(call, target)
}

/// GET of the messages that clients publish to an exchange.
pub(crate) async fn exchange(call: Call) -> HandlerResult {
    let name = exchange_named(call.word(1)).to_owned();
    let target = Target { is_queue: false, vhost: call.word(0).to_owned(), name };
    open(call, target)
}

fn open(call: Call, target: Target) -> HandlerResult {
    let options = TapOptions {
        rate: call.number("rate", RATE)?.clamp(1, RATE_MAX),
        body_bytes: call.number("body_bytes", BODY_BYTES)?.min(BODY_BYTES_MAX),
    };
    let snapshot = call.api.broker().registry.snapshot_full();
    let subject = target.find(&snapshot).ok_or(Error::NotFound)?;
    target.check(&snapshot, &call.identity)?;
    let place = call.api.open_taps().place(call.identity.shared_name()).map_err(too_many)?;
    let (decodes, arrived) = (call.asks("decode"), Arc::new(Notify::new()));
    let wakes = arrived.clone();
    let now = call.api.node().clock().monotonic();
    let tap = call.api.broker().taps.open(subject.clone(), options, move || wakes.notify_one(), now);
    let watcher = Watcher {
        api: call.api,
        identity: call.identity,
        target,
        subject,
        options,
        decodes,
        tap,
        arrived,
        next_look: Instant::now() + EVERY,
        not_before: Instant::now(),
        sent: Instant::now(),
        state: State::Opening,
        _place: place,
    };
    Ok(respond_with(stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.event().await?;
        Some((Ok::<_, Infallible>(Bytes::from(event)), watcher))
    })))
}

impl Target {
    /// The broker's name for the object; `None` if it doesn't exist.
    fn find(&self, snapshot: &Snapshot) -> Option<Subject> {
        match self.is_queue {
            true => Some(Subject::Queue(snapshot.topology.queue(&self.vhost, &self.name)?.id)),
            false => {
                let found = snapshot.topology.exchange(&self.vhost, &self.name)?;
                snapshot.exchanges.get(&found.id).cloned().map(Subject::Exchange)
            }
        }
    }

    /// # Errors
    /// This user may not read from it.
    fn check(&self, snapshot: &Snapshot, identity: &Requester) -> Result<(), Error> {
        let action = match self.is_queue {
            true => Action::Consume(&self.name),
            false => Action::Read(Resource::Exchange(&self.name)),
        };
        identity.permit(&snapshot.topology, &self.vhost, action)?;
        if self.is_queue {
            snapshot.topology.visible_queue(&self.vhost, &self.name, None)?;
        }
        Ok(())
    }
}

/// A body without the part of a character in which it was cut, so that a text stays one.
fn without_cut_character(body: &[u8], is_whole: bool) -> &[u8] {
    match std::str::from_utf8(body) {
        Err(error) if !is_whole && error.error_len().is_none() => &body[..error.valid_up_to()],
        _ => body,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is sent yet.
    Opening,
    /// The beginning is sent, but not the settings.
    Begun,
    Open,
    Over,
}

/// The client of a tap.
struct Watcher {
    api: Api,
    identity: Requester,
    target: Target,
    subject: Subject,
    options: TapOptions,
    decodes: bool,
    tap: OpenTap,
    /// Notified when a copy waits.
    arrived: Arc<Notify>,
    /// The time of the next look at the rights, and at the object.
    next_look: Instant,
    /// The time before which no message is shown, so that a tap has its share of the thread only.
    not_before: Instant,
    /// The time of the last byte.
    sent: Instant,
    state: State,
    _place: StreamPlace,
}

impl Watcher {
    /// The next event; `None` at the end.
    async fn event(&mut self) -> Option<String> {
        match self.state {
            State::Over => return None,
            State::Opening => {
                self.state = State::Begun;
                return Some(RETRY.to_owned());
            }
            State::Begun => {
                self.state = State::Open;
                let TapOptions { rate, body_bytes } = self.options;
                return Some(format!("event: open\ndata: {}\n\n", json!({"rate": rate, "body_bytes": body_bytes})));
            }
            State::Open => {}
        }
        let event = self.next_event().await;
        self.sent = Instant::now();
        Some(event)
    }

    async fn next_event(&mut self) -> String {
        loop {
            if Instant::now() >= self.next_look {
                self.next_look = Instant::now() + EVERY;
                if let Err(error) = self.look().await {
                    self.state = State::Over;
                    return end(error).await;
                }
                // They would be in the next message's event, which may not come for long.
                let passed_over = self.tap.take_passed_over();
                if passed_over > 0 {
                    return format!("event: passed_over\ndata: {}\n\n", json!({"passed_over": passed_over}));
                }
                if self.sent.elapsed() >= HEARTBEAT {
                    return ":\n\n".to_owned();
                }
            }
            if Instant::now() >= self.not_before
                && let Some(copy) = self.tap.next()
            {
                make_way();
                let began = Instant::now();
                let event = self.show(&copy);
                self.not_before = Instant::now() + began.elapsed() * (SHARE - 1);
                // Other requests come between.
                tokio::task::yield_now().await;
                match event {
                    Some(event) => return event,
                    None => self.tap.pass_over(copy.passed_over + 1),
                }
                continue;
            }
            match Instant::now() < self.not_before {
                true => tokio::time::sleep_until(self.not_before.min(self.next_look)).await,
                false => drop(timeout_at(self.next_look, self.arrived.notified()).await),
            }
        }
    }

    /// Looks whether the client may go on, and whether the object is still there.
    async fn look(&mut self) -> Result<(), Error> {
        self.identity = self.identity.renewed(&self.api).await?;
        let snapshot = self.api.broker().registry.snapshot_full();
        let is_there = match (self.target.find(&snapshot), &self.subject) {
            (Some(Subject::Queue(found)), Subject::Queue(own)) => found == *own,
            (Some(Subject::Exchange(found)), Subject::Exchange(own)) => Arc::ptr_eq(&found, own),
            _ => false,
        };
        if !is_there {
            let kind = if self.target.is_queue { "queue" } else { "exchange" };
            let reason = format!("the {kind} '{}' in vhost '{}' was deleted", self.target.name, self.target.vhost);
            return Err(Error::Of(StatusCode::NOT_FOUND, "deleted", reason));
        }
        self.target.check(&snapshot, &self.identity)
    }

    /// The event of a message; `None` if its routing keys aren't for this user.
    fn show(&self, copy: &Tapped) -> Option<String> {
        if !self.target.is_queue {
            let topology = self.api.topology();
            let may_read = |key: &Vec<u8>| {
                let action = Action::ReadWith { exchange: &self.target.name, routing_key: key };
                self.identity.permit(&topology, &self.target.vhost, action).is_ok()
            };
            if !copy.routing_keys.iter().all(may_read) {
                return None;
            }
        }
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let (beginning, properties) = (&copy.beginning, self.api.broker().tapped_properties(copy));
        let is_whole = beginning.body.len() as u64 == beginning.body_bytes;
        let (payload, encoding) = payload_view(without_cut_character(&beginning.body, is_whole), Encoding::Auto);
        let mut view = json!({
            "seen": match copy.passage {
                Passage::Published(_) => "published",
                Passage::Put => "put",
                Passage::Delivered { .. } => "delivered",
            },
            "time": iso8601(self.api.node().clock().now().wall_ms_at(copy.at)),
            "exchange": text(&copy.exchange),
            "routing_key": copy.routing_keys.first().map(text),
            "routing_keys": copy.routing_keys.iter().map(text).collect::<Vec<_>>(),
            "properties": properties.to_json(),
            "payload_bytes": beginning.body_bytes,
            "payload": payload,
            "payload_encoding": encoding,
            "truncated": !is_whole,
            "passed_over": copy.passed_over,
        });
        match copy.passage {
            Passage::Published(queues) => view["queues"] = json!(queues),
            Passage::Put => {}
            Passage::Delivered { redelivered } => view["redelivered"] = json!(redelivered),
        }
        if beginning.left_out_headers {
            view["headers_left_out"] = json!(true);
        }
        if self.decodes {
            let property = |name: &str| properties.get(name).and_then(|value| value.as_str());
            let body = (&*beginning.body, is_whole);
            let decoded = decode_beginning(body, property("content_type"), property("content_encoding"));
            view["decoded"] = decoded.view_within(BODY_BYTES_MAX);
        }
        Some(format!("data: {view}\n\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_character_is_left_out_of_a_beginning() {
        let text = "aä".as_bytes();
        assert_eq!(without_cut_character(&text[..2], false), b"a");
        assert_eq!(without_cut_character(&text[..2], true), &text[..2], "it isn't cut, so it is no text");
        assert_eq!(without_cut_character(text, false), text);
        assert_eq!(without_cut_character(b"a\xff", false), b"a\xff");
    }
}
