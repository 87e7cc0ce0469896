//! `POST /api/queues/:vhost/:name/parked/move`: moves parked messages to the end of their queue, to another queue, or through an
//! exchange.

use leveret_broker::SetAside;
use leveret_broker::queue_handle::{ParkedEnds, SetAsideOf};
use leveret_broker::ticket::Ticket;
use leveret_broker::transfer::{MoveStep, MovedStep, TransferTarget};
use leveret_model::{Action, Topology};
use serde_json::{Map, Value, json};

use super::browse::read_runs;
use crate::call::{Call, HandlerResult, json};
use crate::error::Error;
use crate::fields::{self, exchange_named};

/// POST with `to`, or `exchange` and `routing_key`, and `first` and `last`. Answers once the moves are on disk.
pub(crate) async fn move_parked(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let body = call.object()?;
    let target = target(&body, name)?;
    let (mut from, last) = range(&body)?;
    let snapshot = call.api.broker().registry.snapshot_full();
    let queue = snapshot.queue(vhost, name).ok_or(Error::NotFound)?;
    permit(&call, &snapshot.topology, &target)?;
    let (mut moved, mut ticket, mut stopped) = (0, Ticket::default(), None);
    // Messages that are parked meanwhile stay: a move into the same queue would never end.
    let last = call.api.answer(queue.ask(ParkedEnds(from..=last))).await?.map_or(0, |(_, highest)| highest);
    while stopped.is_none()
        && from <= last
        && let Some((lowest, _)) = call.api.answer(queue.ask(ParkedEnds(from..=last))).await?
    {
        let read = read_runs(&call.api, queue, lowest).await?;
        let step = MoveStep { target: target.clone(), range: lowest..=last, read };
        let now = call.api.node().clock().now();
        let asked = call.api.broker().move_parked(queue, step, now);
        let MovedStep { moved: more, ticket: end, next, stopped: at } = call.api.answer(asked).await?;
        (moved, stopped) = (moved + more, at);
        if !end.is_nothing() {
            ticket = end;
        }
        match next {
            // Messages that left meanwhile aren't found.
            Some(next) => from = next.max(lowest + u64::from(more == 0)),
            None => break,
        }
    }
    call.api.durable(ticket).await?;
    let (parked, _) = call.api.answer(queue.ask(SetAsideOf(SetAside::Parked))).await?;
    let mut answer = json!({"moved": moved, "parked": parked});
    if let Some((number, reason)) = stopped {
        answer["stopped_at"] = json!(number);
        answer["reason"] = json!(reason);
    }
    json(answer)
}

/// The place that the messages are moved to; their own queue if the request names none.
pub(crate) fn target(body: &Map<String, Value>, own: &str) -> Result<TransferTarget, Error> {
    let given = |key: &str| body.get(key).is_some_and(|value| !value.is_null());
    if !given("exchange") {
        if given("routing_key") {
            return Err(Error::BadRequest(
                "routing_key without an exchange: name the exchange, or a queue in to".into(),
            ));
        }
        return Ok(TransferTarget::Queue(fields::text_or(body, "to", own)?.to_owned()));
    }
    if given("to") {
        return Err(Error::BadRequest("both to and exchange: messages go to a queue or through an exchange".into()));
    }
    let (exchange, routing_key) = (fields::text(body, "exchange")?, fields::text(body, "routing_key")?);
    if routing_key.len() > 255 {
        return Err(Error::BadRequest(format!("routing_key of {} bytes: at most 255 are allowed", routing_key.len())));
    }
    Ok(TransferTarget::Exchange { name: exchange_named(exchange).to_owned(), routing_key: routing_key.to_owned() })
}

/// The numbers `first` and `last`.
pub(crate) fn range(body: &Map<String, Value>) -> Result<(u64, u64), Error> {
    let number = |key: &str, default: u64| match body.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => fields::count(value),
    };
    let (first, last) = (number("first", 0)?, number("last", u64::MAX)?);
    match first > last {
        true => Err(Error::BadRequest(format!("first is {first} and last {last}: the range is empty"))),
        false => Ok((first, last)),
    }
}

/// Checks that the requester may read from the queue and, unless the messages stay in it, write to the exchange; the default
/// exchange leads to another queue.
pub(crate) fn permit(call: &Call, topology: &Topology, target: &TransferTarget) -> Result<(), Error> {
    let (vhost, name) = (call.word(0), call.word(1));
    call.identity.permit(topology, vhost, Action::Consume(name))?;
    topology.usable_queue(vhost, name, None)?;
    let (exchange, routing_key) = match target {
        TransferTarget::Queue(to) if to == name => return Ok(()),
        TransferTarget::Queue(to) => ("", to),
        TransferTarget::Exchange { name, routing_key } => (name.as_str(), routing_key),
    };
    let routing_key = routing_key.as_bytes();
    call.identity.permit(topology, vhost, Action::PublishWith { exchange, routing_key })?;
    match target {
        TransferTarget::Queue(to) if topology.queue(vhost, to).is_none() => {
            Err(Error::Missing(format!("no queue '{to}' in vhost '{vhost}'")))
        }
        TransferTarget::Queue(to) => Ok(topology.usable_queue(vhost, to, None).map(|_| ())?),
        TransferTarget::Exchange { .. } => {
            let found = topology.exchange(vhost, exchange);
            let found = found.ok_or_else(|| Error::Missing(format!("no exchange '{exchange}' in vhost '{vhost}'")))?;
            Ok(found.check_publish()?)
        }
    }
}
