//! Frames of the node that has the clients: its calls.
//!
//! Each has the queue's id (8) and, if its end is waited for, the call's number (1 + 8).

use std::sync::Arc;

use bytes::Bytes;
use leveret_broker::publish_origin::PublishOrigin;
use leveret_broker::remote::{CallKind, Deletion, HomeQuestion, LaneCall};
use leveret_broker::settlement::Settlement;
use leveret_message::Added;
use leveret_message::chunk::SharedChunk;
use leveret_model::{PlacementNumber, QueueId};
use leveret_peer::FieldReader;
use leveret_queue::{ConsumerId, ConsumerOptions, DeleteIf, KeptOffset, Link, SetAside, Unsent};

use crate::fields::{
    Get, Put, get_all, get_maybe, put_bytes, put_chunk, put_consumer, put_held, put_messages, put_numbers, put_runs,
};
use crate::frame::{DataFrameError, encode};
use crate::options::{get_options, get_start, get_stream_filter, put_options, put_start, put_stream_filter};

const PUBLISH: u8 = 1;
const SETTLE: u8 = 2;
const ACKNOWLEDGE: u8 = 3;
const MODIFY: u8 = 5;
const TAKE_BACK: u8 = 6;
const OVERDUE: u8 = 7;
const CLAIM: u8 = 8;
const ANNOTATE: u8 = 9;
const WINDOW: u8 = 10;
const COMMIT: u8 = 11;
const PUBLISH_CHUNK: u8 = 12;
const ACTIVITY: u8 = 13;
/// Questions have their number (8) first.
const CONSUME: u8 = 32;
const CANCEL: u8 = 33;
const LEAVE: u8 = 34;
const GRANT: u8 = 35;
const GET: u8 = 36;
const PURGE: u8 = 37;
const DROP_SET_ASIDE: u8 = 38;
const SIZE: u8 = 39;
const RUN_STATE: u8 = 40;
const KEEP_OFFSET: u8 = 41;
const KEPT_OFFSET: u8 = 42;
const SEQUENCE: u8 = 43;
const SEARCH: u8 = 44;
const STREAM_ENDS: u8 = 45;
const ACTIVATE_GROUP: u8 = 46;
const DELETE: u8 = 47;
const COMMITTED: u8 = 48;
const HELD: u8 = 49;
const HOLD: u8 = 50;
const REJECT: u8 = 51;
const HAS_CONSUMER: u8 = 52;
/// The first frame of a link: the core (2) that has dialled it.
const BEGIN: u8 = 64;

/// Appends a call.
pub(crate) fn encode_call(to: &mut Vec<u8>, call: &LaneCall) {
    let LaneCall { queue, number, what } = call;
    encode(to, kind(what), |to| {
        to.u64(queue.0);
        to.maybe(*number, |to, number| to.u64(number));
        put_call(to, what);
    });
}

fn kind(what: &CallKind) -> u8 {
    match what {
        CallKind::Publish { .. } => PUBLISH,
        CallKind::Settle { .. } => SETTLE,
        CallKind::Acknowledge(_) => ACKNOWLEDGE,
        CallKind::Modify { .. } => MODIFY,
        CallKind::TakeBack { .. } => TAKE_BACK,
        CallKind::Overdue { .. } => OVERDUE,
        CallKind::Claim { .. } => CLAIM,
        CallKind::Annotate { .. } => ANNOTATE,
        CallKind::Window { .. } => WINDOW,
        CallKind::Commit(_) => COMMIT,
        CallKind::PublishChunk { .. } => PUBLISH_CHUNK,
        CallKind::Activity { .. } => ACTIVITY,
        CallKind::Ask(_, question) => match question {
            HomeQuestion::Consume { .. } => CONSUME,
            HomeQuestion::Cancel(..) => CANCEL,
            HomeQuestion::Leave { .. } => LEAVE,
            HomeQuestion::Grant { .. } => GRANT,
            HomeQuestion::Get { .. } => GET,
            HomeQuestion::Purge => PURGE,
            HomeQuestion::DropSetAside { .. } => DROP_SET_ASIDE,
            HomeQuestion::Size(_) => SIZE,
            HomeQuestion::RunState => RUN_STATE,
            HomeQuestion::KeepOffset(_) => KEEP_OFFSET,
            HomeQuestion::KeptOffset(_) => KEPT_OFFSET,
            HomeQuestion::Sequence(_) => SEQUENCE,
            HomeQuestion::Search { .. } => SEARCH,
            HomeQuestion::StreamEnds => STREAM_ENDS,
            HomeQuestion::ActivateGroup(_) => ACTIVATE_GROUP,
            HomeQuestion::Delete(_) => DELETE,
            HomeQuestion::Hold { .. } => HOLD,
            HomeQuestion::Reject { .. } => REJECT,
            HomeQuestion::Committed(_) => COMMITTED,
            HomeQuestion::Held(..) => HELD,
            HomeQuestion::HasConsumer(..) => HAS_CONSUMER,
        },
    }
}

fn put_call(to: &mut Vec<u8>, what: &CallKind) {
    match what {
        CallKind::Publish { batch, index, count, persistent, group, origin } => {
            to.flag(*persistent);
            to.maybe(*group, |to, group| to.u64(group));
            to.maybe(*origin, |to, origin| {
                let PublishOrigin { writer, number, epoch, is_first, heard } = origin;
                [writer, number, heard].into_iter().for_each(|number| to.u64(number));
                to.u32(epoch);
                to.flag(is_first);
            });
            to.u32(*count);
            put_messages(to, batch, *index, *count, None);
        }
        CallKind::Settle { consumer, runs, how, group } => {
            put_consumer(to, *consumer);
            put_runs(to, runs);
            to.u8(match how {
                Settlement::Acknowledge => 0,
                Settlement::Reject { failed } => 1 + u8::from(*failed),
                Settlement::Requeue { failed } => 3 + u8::from(*failed),
            });
            to.maybe(*group, |to, group| to.u64(group));
        }
        CallKind::Acknowledge(held) => put_held(to, held),
        CallKind::Modify { consumer, runs, failed, added } => {
            put_consumer(to, *consumer);
            put_runs(to, runs);
            to.flag(*failed);
            put_bytes(to, added.as_bytes());
        }
        CallKind::TakeBack { id, runs, unsent } => {
            to.u64(id.0);
            put_runs(to, runs);
            to.maybe(*unsent, |to, Unsent { counted, delivery_count, credit }| {
                [counted, delivery_count, credit].into_iter().for_each(|number| to.u32(number));
            });
        }
        CallKind::Overdue { id, overdue } => {
            to.u64(id.0);
            to.flag(*overdue);
        }
        CallKind::Claim { id, tokens } => {
            to.u64(id.0);
            to.all(tokens.iter(), |to, token| put_bytes(to, token.as_bytes()));
        }
        CallKind::Annotate { runs, added } => {
            put_runs(to, runs);
            put_bytes(to, added.as_bytes());
        }
        CallKind::Window { id, messages, bytes } => {
            to.u64(id.0);
            to.u32(*messages);
            to.u64(*bytes);
        }
        CallKind::Commit(group) => to.u64(*group),
        CallKind::PublishChunk { chunk, numbered } => {
            to.maybe(numbered.as_ref(), |to, (name, numbers)| {
                put_bytes(to, name.as_bytes());
                put_numbers(to, numbers);
            });
            put_chunk(to, 0, chunk);
        }
        CallKind::Activity { id, active, start } => {
            to.u64(id.0);
            to.flag(*active);
            to.maybe(*start, put_start);
        }
        CallKind::Ask(number, question) => {
            to.u64(*number);
            put_question(to, question);
        }
    }
}

fn put_question(to: &mut Vec<u8>, question: &HomeQuestion) {
    match question {
        HomeQuestion::Consume { id, options, held, registered, term } => {
            to.u64(id.0);
            put_options(to, options);
            put_runs(to, held);
            to.maybe(*registered, |to, number| to.u64(number));
            to.maybe(*term, |to, term| to.u64(term));
        }
        HomeQuestion::Cancel(id, unsent) => {
            to.u64(id.0);
            put_runs(to, unsent);
        }
        HomeQuestion::Leave { consumers, held, failed } => {
            to.all(consumers.iter(), |to, id| to.u64(id.0));
            put_held(to, held);
            to.flag(*failed);
        }
        HomeQuestion::Grant { id, delivery_count, link_credit, drain } => {
            to.u64(id.0);
            to.u32(*delivery_count);
            to.u32(*link_credit);
            to.flag(*drain);
        }
        HomeQuestion::Get { automatic_ack } => to.flag(*automatic_ack),
        HomeQuestion::DropSetAside { which, first, last } => {
            to.flag(*which == SetAside::Delayed);
            to.u64(*first);
            to.u64(*last);
        }
        HomeQuestion::Size(used) => to.flag(*used),
        HomeQuestion::KeepOffset(KeptOffset { name, offset }) => {
            put_bytes(to, name.as_bytes());
            to.u64(*offset);
        }
        HomeQuestion::KeptOffset(name) | HomeQuestion::Sequence(name) | HomeQuestion::ActivateGroup(name) => {
            put_bytes(to, name.as_bytes());
        }
        HomeQuestion::Search { start, filter } => {
            put_start(to, *start);
            to.maybe(filter.as_deref(), put_stream_filter);
        }
        HomeQuestion::Delete(deletion) => {
            let Deletion { permit, command, condition: DeleteIf { unused, empty, expired } } = &**deletion;
            [unused, empty, expired].into_iter().for_each(|is_set| to.flag(*is_set));
            // Both are plain data, which is serializable in any case.
            put_bytes(to, &serde_json::to_vec(&(permit, command)).unwrap_or_default());
        }
        HomeQuestion::Hold { consumer, runs, term } => {
            put_consumer(to, *consumer);
            put_runs(to, runs);
            to.u64(*term);
        }
        HomeQuestion::Reject { consumer, runs, failed } => {
            put_consumer(to, *consumer);
            put_runs(to, runs);
            to.flag(*failed);
        }
        HomeQuestion::Committed(term) => to.u64(*term),
        HomeQuestion::Held(placement, term) => {
            to.u32(placement.0);
            to.u64(*term);
        }
        HomeQuestion::HasConsumer(queue, id) => {
            to.u64(queue.0);
            to.u64(id.0);
        }
        HomeQuestion::Purge | HomeQuestion::RunState | HomeQuestion::StreamEnds => {}
    }
}

/// Appends the first frame of a link, which this core has dialled.
pub(crate) fn encode_begin(to: &mut Vec<u8>, core: u16) {
    encode(to, BEGIN, |to| to.extend(core.to_le_bytes()));
}

/// The core that has dialled a link, if a frame is the one that says it.
pub(crate) fn begin(kind: u8, fields: &[u8]) -> Option<u16> {
    let core = fields.try_into().ok().map(u16::from_le_bytes);
    core.filter(|_| kind == BEGIN)
}

/// The number of a question for what clients hold, with its placement and term, if a frame is one.
pub(crate) fn held_question(kind: u8, fields: &[u8]) -> Option<(u64, (PlacementNumber, u64))> {
    let mut from = FieldReader(fields);
    let (_, _) = (from.u64()?, get_maybe(&mut from, |from| from.u64())?);
    (kind == HELD).then_some((from.u64()?, (PlacementNumber(from.u32()?), from.u64()?)))
}

/// The queue of the call in a frame; `None` if the frame is too short for one.
pub(crate) fn queue_of(fields: &[u8]) -> Option<QueueId> {
    fields.first_chunk().map(|id| QueueId(u64::from_le_bytes(*id)))
}

/// The call in a frame. `consumer` gives the link and the key of a new consumer, `stream` the name of the queue.
///
/// # Errors
/// It isn't one of this version.
pub(crate) fn decode_call<L: Link + 'static>(
    kind: u8,
    fields: &[u8],
    consumer: impl FnOnce() -> (Arc<L>, u64),
    stream: impl FnOnce() -> Arc<str>,
) -> Result<LaneCall, DataFrameError> {
    let mut from = FieldReader(fields);
    let call = get_call(kind, &mut from, consumer, stream);
    call.filter(|_| from.0.is_empty()).ok_or(DataFrameError::Malformed(kind))
}

fn get_call<L: Link + 'static>(
    kind: u8,
    from: &mut FieldReader<'_>,
    consumer: impl FnOnce() -> (Arc<L>, u64),
    stream: impl FnOnce() -> Arc<str>,
) -> Option<LaneCall> {
    let queue = QueueId(from.u64()?);
    let number = get_maybe(from, |from| from.u64())?;
    let what = match kind {
        PUBLISH => {
            let persistent = from.flag()?;
            let group = get_maybe(from, |from| from.u64())?;
            let origin = get_maybe(from, |from| {
                let (writer, number, heard) = (from.u64()?, from.u64()?, from.u64()?);
                Some(PublishOrigin { writer, number, epoch: from.u32()?, is_first: from.flag()?, heard })
            })?;
            let count = from.u32()?;
            CallKind::Publish { batch: from.messages(count)?, index: 0, count, persistent, group, origin }
        }
        SETTLE => {
            let (consumer, runs) = (from.consumer()?, from.runs()?);
            let how = match from.u8()? {
                0 => Settlement::Acknowledge,
                how @ 1..=2 => Settlement::Reject { failed: how == 2 },
                how @ 3..=4 => Settlement::Requeue { failed: how == 4 },
                _ => return None,
            };
            CallKind::Settle { consumer, runs, how, group: get_maybe(from, |from| from.u64())? }
        }
        ACKNOWLEDGE => CallKind::Acknowledge(from.held()?),
        MODIFY => CallKind::Modify {
            consumer: from.consumer()?,
            runs: from.runs()?,
            failed: from.flag()?,
            added: get_added(from)?,
        },
        TAKE_BACK => CallKind::TakeBack {
            id: ConsumerId(from.u64()?),
            runs: from.runs()?,
            unsent: get_maybe(from, |from| {
                Some(Unsent { counted: from.u32()?, delivery_count: from.u32()?, credit: from.u32()? })
            })?,
        },
        OVERDUE => CallKind::Overdue { id: ConsumerId(from.u64()?), overdue: from.flag()? },
        CLAIM => CallKind::Claim {
            id: ConsumerId(from.u64()?),
            tokens: get_all(from, 4, |from| from.long_text().map(|token| Box::from(&*token)))?,
        },
        ANNOTATE => CallKind::Annotate { runs: from.runs()?, added: get_added(from)? },
        WINDOW => CallKind::Window { id: ConsumerId(from.u64()?), messages: from.u32()?, bytes: from.u64()? },
        COMMIT => CallKind::Commit(from.u64()?),
        PUBLISH_CHUNK => {
            let numbered = get_maybe(from, |from| Some((from.long_text()?, from.numbers()?)))?;
            let chunk = Bytes::copy_from_slice(from.behind_length()?);
            let chunk = Arc::new(SharedChunk::published_elsewhere(chunk, stream()).ok()?);
            // Each entry has its number.
            let fits = numbered.as_ref().is_none_or(|(_, numbers)| numbers.len() == u64::from(chunk.header().entries));
            fits.then_some(CallKind::PublishChunk { chunk, numbered })?
        }
        ACTIVITY => {
            CallKind::Activity { id: ConsumerId(from.u64()?), active: from.flag()?, start: get_maybe(from, get_start)? }
        }
        _ => {
            let number = from.u64()?;
            CallKind::Ask(number, get_question(kind, from, consumer)?)
        }
    };
    Some(LaneCall { queue, number, what })
}

fn get_question<L: Link + 'static>(
    kind: u8,
    from: &mut FieldReader<'_>,
    consumer: impl FnOnce() -> (Arc<L>, u64),
) -> Option<HomeQuestion> {
    Some(match kind {
        CONSUME => {
            let id = ConsumerId(from.u64()?);
            let (link, key) = consumer();
            let options: ConsumerOptions = get_options(from, link, key)?;
            let (held, registered) = (from.runs()?, get_maybe(from, |from| from.u64())?);
            let term = get_maybe(from, |from| from.u64())?;
            HomeQuestion::Consume { id, options: Box::new(options), held, registered, term }
        }
        CANCEL => HomeQuestion::Cancel(ConsumerId(from.u64()?), from.runs()?),
        LEAVE => HomeQuestion::Leave {
            consumers: get_all(from, 8, |from| from.u64().map(ConsumerId))?,
            held: from.held()?,
            failed: from.flag()?,
        },
        GRANT => HomeQuestion::Grant {
            id: ConsumerId(from.u64()?),
            delivery_count: from.u32()?,
            link_credit: from.u32()?,
            drain: from.flag()?,
        },
        GET => HomeQuestion::Get { automatic_ack: from.flag()? },
        PURGE => HomeQuestion::Purge,
        DROP_SET_ASIDE => HomeQuestion::DropSetAside {
            which: if from.flag()? { SetAside::Delayed } else { SetAside::Parked },
            first: from.u64()?,
            last: from.u64()?,
        },
        SIZE => HomeQuestion::Size(from.flag()?),
        KEEP_OFFSET => HomeQuestion::KeepOffset(KeptOffset { name: from.long_text()?, offset: from.u64()? }),
        KEPT_OFFSET => HomeQuestion::KeptOffset(from.long_text()?),
        SEQUENCE => HomeQuestion::Sequence(from.long_text()?),
        SEARCH => HomeQuestion::Search { start: get_start(from)?, filter: get_maybe(from, get_stream_filter)? },
        STREAM_ENDS => HomeQuestion::StreamEnds,
        ACTIVATE_GROUP => HomeQuestion::ActivateGroup(from.long_text()?),
        DELETE => {
            let condition = DeleteIf { unused: from.flag()?, empty: from.flag()?, expired: from.flag()? };
            let (permit, command) = serde_json::from_slice(from.behind_length()?).ok()?;
            HomeQuestion::Delete(Box::new(Deletion { permit, command, condition }))
        }
        RUN_STATE => HomeQuestion::RunState,
        HOLD => HomeQuestion::Hold { consumer: from.consumer()?, runs: from.runs()?, term: from.u64()? },
        REJECT => HomeQuestion::Reject { consumer: from.consumer()?, runs: from.runs()?, failed: from.flag()? },
        COMMITTED => HomeQuestion::Committed(from.u64()?),
        HELD => HomeQuestion::Held(PlacementNumber(from.u32()?), from.u64()?),
        HAS_CONSUMER => HomeQuestion::HasConsumer(QueueId(from.u64()?), ConsumerId(from.u64()?)),
        _ => return None,
    })
}

fn get_added(from: &mut FieldReader<'_>) -> Option<Arc<Added>> {
    Added::from_bytes(from.behind_length()?).map(Arc::new)
}
