//! Groups of consumers of streams, and the offsets that streams keep.

use std::sync::Arc;

use leveret_broker::queue_handle::{KeptOffsetOf, QueueRef, Status, StreamQueueRef};
use leveret_broker::{GroupStatus, KeptOffset};
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, no_content};
use crate::error::Error;
use crate::list;

/// The beginning of the tags of subscriptions, which their ids follow.
const TAG: &str = "stream.subid-";

/// GET: the groups of a vhost, each with its members in the order in which they came.
pub(crate) async fn groups(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let mut streams = snapshot.queues_of([call.word(0)]);
    streams.retain(QueueRef::is_stream);
    streams.sort_by(|a, b| a.info().name.cmp(&b.info().name));
    let mut shown = Vec::new();
    for stream in &streams {
        let status = call.api.answer(stream.ask(Status)).await?.and_then(|status| status.stream);
        shown.extend(status.unwrap_or_default().groups.iter().map(|group| view(&stream.info().name, group)));
    }
    list::values(&call.query, shown)
}

fn view(stream: &str, group: &GroupStatus) -> Value {
    let members = group.members.iter().map(|member| {
        json!({
            "subscription_id": member.tag.strip_prefix(TAG).and_then(|id| id.parse::<u8>().ok()),
            "connection_name": member.connection,
            "state": if member.is_active { "active (connected)" } else { "waiting (connected)" },
        })
    });
    json!({
        "stream": stream,
        "reference": group.name,
        "partition_index": group.partition.map_or(-1, i64::from),
        "consumers": group.members.len(),
        "members": members.collect::<Vec<_>>(),
    })
}

fn find(call: &Call) -> Result<StreamQueueRef, Error> {
    let snapshot = call.api.broker().registry.snapshot_full();
    let stream = snapshot.queue(call.word(0), call.word(1)).and_then(QueueRef::as_stream);
    stream.ok_or_else(|| Error::Missing("The stream does not exist".to_owned()))
}

/// POST: restarts a stream for its clients.
pub(crate) async fn restart(call: Call) -> HandlerResult {
    let stream = find(&call)?;
    call.api.broker().restart_stream(stream.info().vhost.clone(), stream.info().name.clone());
    no_content()
}

/// POST: makes the member of a group active whose turn it is.
pub(crate) async fn activate(call: Call) -> HandlerResult {
    let missing = || Error::Missing("The group does not exist".to_owned());
    let stream = find(&call).map_err(|_| missing())?;
    let now = call.api.node().clock().now();
    match call.api.answer(stream.activate_group(call.word(2), now.monotonic)).await? {
        true => no_content(),
        false => Err(missing()),
    }
}

/// POST: a client of the stream protocol that asks for the offset gets 0 from now on, as in RabbitMQ.
pub(crate) async fn reset(call: Call) -> HandlerResult {
    let stream = find(&call)?;
    let name: Arc<str> = call.word(2).into();
    if call.api.answer(stream.ask(KeptOffsetOf(name.clone()))).await?.is_none() {
        let text = "There is no stored offset for this reference, no need to reset";
        return Err(Error::Missing(text.to_owned()));
    }
    // Kept is the offset of the first message that wasn't handled.
    let now = call.api.node().clock().now();
    let kept = KeptOffset { name, offset: 1 };
    match call.api.answer(stream.keep_offset(kept, now.monotonic)).await? {
        true => no_content(),
        false => Err(Error::Unavailable("the stream is being deleted".to_owned())),
    }
}
