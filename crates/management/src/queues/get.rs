//! Getting messages over HTTP.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leveret_broker::GetOutcome;
use leveret_broker::asked::Later;
use leveret_broker::direct::{Got, HeldGet, PlainMessage};
use leveret_broker::queue_handle::LedgerQueueRef;
use leveret_broker::settlement::Settlement;
use leveret_broker::ticket::Ticket;
use leveret_model::{Action, Refused, RefusedKind};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::api::Api;
use crate::call::{Call, HandlerResult, json};
use crate::error::Error;
use crate::fields;

/// Approximate limit of the messages in one response, in bytes.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Size that a message counts for in addition to its body.
const MESSAGE_BYTES: usize = 512;

/// POST: takes messages, and settles or requeues them.
pub(crate) async fn get(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let body = call.object()?;
    fields::require(&body, &["ackmode", "count", "encoding"])?;
    let count = fields::count(&body["count"])?;
    let settlement = match fields::text(&body, "ackmode")? {
        "ack_requeue_true" => Settlement::Requeue { failed: false },
        "reject_requeue_true" => Settlement::Requeue { failed: true },
        "ack_requeue_false" => Settlement::Acknowledge,
        "reject_requeue_false" => Settlement::Reject { failed: true },
        other => {
            return Err(Error::BadRequest(format!(
                "Invalid ackmode value: {other}. Valid values are: ack_requeue_true, ack_requeue_false, \
                 reject_requeue_true, reject_requeue_false"
            )));
        }
    };
    let encoding = Encoding::of(fields::text(&body, "encoding")?)?;
    let truncate = body.get("truncate").map(fields::count).transpose()?;
    let truncate = truncate.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let broker = call.api.broker();
    let snapshot = broker.registry.snapshot_full();
    let queue = snapshot.queue(vhost, name).ok_or_else(|| Error::Missing("queue_not_found".to_owned()))?;
    call.identity.permit(&snapshot.topology, vhost, Action::Consume(name))?;
    snapshot.topology.usable_queue(vhost, name, None)?;
    let queue = queue.check_get().map_err(refused)?;
    let (mut shown, mut bytes) = (Vec::new(), 0);
    let clock = call.api.node().clock();
    let mut taken = Taken { api: &call.api, held: Vec::new(), asked: None };
    while (shown.len() as u64) < count && bytes < ANSWER_BYTES_MAX {
        let (signal, mut signals) = mpsc::unbounded_channel();
        let signal = move || {
            let _ = signal.send(());
        };
        let mut got = broker.get_directly(&queue, call.identity.name(), signal, clock.now());
        let mut is_loaded = false;
        if let Got::Later(asked, answer) = got {
            let (_, answer) = taken.asked.insert((asked.clone(), answer));
            got = loop {
                signals.recv().await;
                match answer.take() {
                    Some(outcome) => break broker.got(&asked, call.identity.name(), outcome, clock.now()),
                    // The queue had read a message before its answer was here.
                    None => is_loaded = true,
                }
            };
            taken.asked = None;
        }
        match got {
            Got::Empty => break,
            Got::Converted => {}
            Got::Wait | Got::Later(..) if is_loaded => {}
            Got::Wait | Got::Later(..) => {
                signals.recv().await;
            }
            Got::Message(mut message, hold, left) => {
                let at = hold.number();
                taken.held.push(hold);
                if message.in_file {
                    let read = super::browse::read(&call.api, &queue, at).await?;
                    let body = read.into_iter().find(|(number, _)| *number == at);
                    message.body = body.map(|(_, message)| message.body).unwrap_or_default();
                }
                bytes += MESSAGE_BYTES + message.body.len();
                let mut view = message_view(&message, encoding, truncate);
                view["message_count"] = json!(left);
                shown.push(view);
            }
        }
    }
    let ticket = taken.dispose(settlement);
    call.api.durable(ticket).await?;
    json(Value::Array(shown))
}

/// RabbitMQ's text for a type that has no gets begins with the code of AMQP 0-9-1, over which it gets messages.
fn refused(refused: Refused) -> Error {
    match refused.kind {
        RefusedKind::WrongQueueType => Error::BadRequest(format!("{} {}", refused.kind.code(), refused.text)),
        _ => refused.into(),
    }
}

/// Messages that were taken. They are requeued in their place if the response isn't completed: the client may
/// disconnect while a message is read from disk, or a body may be unreadable.
struct Taken<'a> {
    api: &'a Api,
    held: Vec<HeldGet>,
    /// The answer to a get that hasn't come, and the queue that gives it.
    asked: Option<(LedgerQueueRef, Later<GetOutcome>)>,
}

impl Taken<'_> {
    fn dispose(&mut self, settlement: Settlement) -> Ticket {
        let held = std::mem::take(&mut self.held);
        self.api.broker().dispose(&held, settlement, self.api.node().clock().monotonic())
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some((queue, answer)) = self.asked.take() {
            queue.give_back(answer, false, self.api.node().clock().monotonic());
        }
        if !self.held.is_empty() {
            self.dispose(Settlement::Requeue { failed: false });
        }
    }
}

/// The encoding of payloads.
#[derive(Clone, Copy)]
pub(crate) enum Encoding {
    /// Text if they are UTF-8, otherwise base64.
    Auto,
    /// Base64.
    Base64,
}

impl Encoding {
    pub(crate) fn of(name: &str) -> Result<Self, Error> {
        match name {
            "auto" => Ok(Encoding::Auto),
            "base64" => Ok(Encoding::Base64),
            _ => Err(Error::BadRequest("Unsupported encoding. Please use auto or base64.".to_owned())),
        }
    }
}

/// A body, and the name of its encoding.
pub(crate) fn payload_view(body: &[u8], encoding: Encoding) -> (String, &'static str) {
    let text = std::str::from_utf8(body).ok().filter(|_| matches!(encoding, Encoding::Auto));
    match text {
        Some(text) => (text.to_owned(), "string"),
        None => (STANDARD.encode(body), "base64"),
    }
}

/// A message as in lists of messages, without `message_count`.
pub(crate) fn message_view(message: &PlainMessage, encoding: Encoding, truncate: usize) -> Value {
    let (payload, encoding) = payload_view(&message.body[..message.body.len().min(truncate)], encoding);
    json!({
        "payload_bytes": message.body.len(),
        "redelivered": message.redelivered,
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "properties": match message.properties.is_empty() {
            true => json!([]),
            false => message.properties.to_json(),
        },
        "payload": payload,
        "payload_encoding": encoding,
    })
}
