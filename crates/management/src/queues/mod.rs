//! `/api/queues`.

mod browse;
mod change;
pub(crate) mod checks;
mod convert;
mod get;
mod list;
pub(crate) mod members;
mod move_parked;
mod search;
pub(crate) mod set_aside;
mod view;

pub(crate) use browse::{browse, read_runs};
pub(crate) use change::{actions, declare, delete, purge};
pub(crate) use convert::convert;
pub(crate) use get::{Encoding, get, message_view, payload_view};
pub(crate) use list::{detailed, list, list_of_user, list_of_vhost};
pub(crate) use move_parked::{
    move_parked, permit as permit_transfer, range as transfer_range, target as transfer_target,
};
pub(crate) use search::read_part;
pub(crate) use view::{activity_name, consumer_capacity, consumer_view, usual, waiting};

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use leveret_broker::queue_handle::{HeadTimestamp, QueueRef, Status};
use leveret_broker::{KeptOffset, QuorumStatus};
use leveret_model::{Action, MemberNumber, QueueType};
use serde_json::{Map, Value, json};

use crate::call::{Call, HandlerResult, json};
use crate::columns::Columns;
use crate::error::Error;
use crate::history::Ranges;

/// The members of a quorum queue. Positions count its messages since it was declared: the log has all up to the last one, and is free of
/// those before the oldest that is there. A queue of one member has one term.
pub(crate) async fn quorum_status(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let queue = snapshot.queue(call.word(0), call.word(1)).ok_or(Error::NotFound)?;
    let queue_type = queue.info().queue_type();
    if queue_type != QueueType::Quorum {
        let failed = json!({"status": "failed", "reason": format!("{}_queue_not_supported", queue_type.name())});
        return Ok((StatusCode::SERVICE_UNAVAILABLE, Json(failed)).into_response());
    }
    if let Some(rows) = replica_rows(&call, queue) {
        return json(Value::Array(rows));
    }
    let status = call.api.answer(queue.ask(Status)).await?.and_then(|status| status.quorum);
    let QuorumStatus { low, next, .. } = status.unwrap_or_default();
    json(json!([{
        "Node Name": call.api.name(),
        "Raft State": "leader",
        "Membership": "voter",
        "Last Log Index": next,
        "Last Written": next,
        "Last Applied": next,
        "Commit Index": next,
        "Snapshot Index": low,
        "Term": 1,
    }]))
}

/// The members of a replicated queue. Indexes and term are those of its placement; of other members the leader knows the last entry only.
fn replica_rows(call: &Call, queue: &QueueRef) -> Option<Vec<Value>> {
    let number = queue.info().home.placement()?;
    let (topology, seen) = (call.api.topology(), call.api.node().cluster()?.seen());
    let placement = topology.placement(number)?;
    let own = seen.placements.get(&number).cloned().unwrap_or_default();
    let row = |member: &MemberNumber| {
        let replica = &own.replica;
        let is_own = Some(*member) == seen.member;
        let is_online = is_own || seen.reached.contains_key(member);
        let state = match () {
            () if !is_online => "noproc",
            () if own.leader == Some(*member) => "leader",
            () => "follower",
        };
        let matched = own.matched.iter().find(|(other, _)| other == member).map(|(_, index)| *index);
        let last = if is_own { replica.last } else { matched.unwrap_or(0) };
        let name = topology.member(*member).map_or("", |member| &*member.name);
        json!({
            "Node Name": name,
            "Raft State": state,
            "Membership": if own.voters.contains(member) { "voter" } else { "unknown" },
            "Last Log Index": last,
            "Last Written": last,
            "Last Applied": if is_own { replica.applied } else { last.min(replica.committed) },
            "Commit Index": last.min(replica.committed),
            "Snapshot Index": replica.snapshot,
            "Term": replica.term,
        })
    };
    Some(placement.members.iter().map(row).collect())
}

/// The offsets and sequences that a stream keeps for its clients. As in RabbitMQ an offset is that of the last message that was
/// handled: names that haven't handled any aren't shown.
pub(crate) async fn stream_tracking(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let queue = snapshot.queue(call.word(0), call.word(1)).ok_or(Error::NotFound)?;
    call.identity.permit(&snapshot.topology, call.word(0), Action::Consume(call.word(1)))?;
    if !queue.is_stream() {
        let text = "The stream leader is not available: it is a queue of another type";
        return Err(Error::Of(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", text.to_owned()));
    }
    let status = call.api.answer(queue.ask(Status)).await?.and_then(|status| status.stream).unwrap_or_default();
    let handled = |kept: &KeptOffset| Some((kept.name.to_string(), json!(kept.offset.checked_sub(1)?)));
    let offsets: Map<String, Value> = status.offsets.iter().filter_map(handled).collect();
    let sequences = status.writers.iter().map(|(name, sequence)| (name.to_string(), json!(sequence)));
    let writers: Map<String, Value> = sequences.collect();
    json(match call.query.get("type").map(String::as_str) {
        Some("offset") => json!({"offsets": offsets}),
        Some("writer") => json!({"writers": writers}),
        _ => json!({"offsets": offsets, "writers": writers}),
    })
}

/// One queue, with its consumers.
pub(crate) async fn show(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let queue = snapshot.queue(call.word(0), call.word(1)).ok_or(Error::NotFound)?;
    if queue.is_away() {
        // Its node can't be asked.
        return json(Columns::of(&call.query).pick(view::plain(&call.api, queue, false).into()));
    }
    let status = call.api.answer(queue.ask(Status)).await?.ok_or(Error::NotFound)?;
    let head = call.api.answer(queue.ask(HeadTimestamp)).await?;
    let mut body = view::full(&call.api, queue, &status, head);
    view::add_past(&call.api, queue, &mut body, Ranges::of(&call.query).as_ref());
    json(Columns::of(&call.query).pick(body))
}
