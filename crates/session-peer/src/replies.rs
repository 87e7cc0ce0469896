//! Frames of the node that has the queues: outcomes, answers, deliveries, signals.

use std::sync::Arc;

use bytes::Bytes;
use leveret_broker::queue_handle::{RefusalReason, RefusedPublish, StreamEnd};
use leveret_broker::remote::{HomeAnswer, NotTaken, RemoteSignal};
use leveret_message::chunk::SharedChunk;
use leveret_model::QueueId;
use leveret_peer::FieldReader;
use leveret_queue::{ConsumerId, CreditState, GetOutcome, NoConsumer, QueueState, Taken, TakenChunk};

use crate::fields::{Get, Put, get_all, get_maybe, put_bytes, put_chunk, put_claims, put_runs, put_taken};
use crate::frame::{DataFrameError, encode};

const DONE: u8 = 128;
const ANSWER: u8 = 129;
const DELIVER: u8 = 130;
const SIGNAL: u8 = 131;
const DELIVER_CHUNK: u8 = 132;

/// A reply.
pub(crate) enum Reply {
    /// All calls with numbers up to this one are carried out; of these publishes not all messages are in the queue.
    Done(u64, Vec<(u64, NotTaken)>),
    /// The answer to the question with this number.
    Answer(u64, HomeAnswer),
    /// Messages for a consumer of a queue.
    Deliver(QueueId, ConsumerId, Taken),
    /// A chunk for a reader of a stream, and the first offset of the stream's last chunk.
    DeliverChunk(ConsumerId, TakenChunk, u64),
    /// The queue signals a consumer.
    Signal(ConsumerId, RemoteSignal),
}

pub(crate) fn encode_done(to: &mut Vec<u8>, through: u64, not_taken: &[(u64, NotTaken)]) {
    encode(to, DONE, |to| {
        to.u64(through);
        to.all(not_taken.iter(), |to, (number, what)| {
            to.u64(*number);
            match what {
                NotTaken::Refused(refused) => {
                    to.u8(0);
                    to.u32(refused.accepted);
                    to.flag(refused.reason == RefusalReason::Stopped);
                    put_bytes(to, refused.queue.as_bytes());
                }
                NotTaken::Gone => to.u8(1),
                NotTaken::Lost => to.u8(2),
            }
        });
    });
}

pub(crate) fn encode_deliver(
    to: &mut Vec<u8>,
    (queue, id): (QueueId, ConsumerId),
    taken: &Taken,
    last_body: Option<&Bytes>,
) {
    encode(to, DELIVER, |to| {
        to.u64(queue.0);
        to.u64(id.0);
        put_taken(to, taken, last_body);
    });
}

pub(crate) fn encode_deliver_chunk(
    to: &mut Vec<u8>,
    id: ConsumerId,
    (first, chunk): (u64, &SharedChunk),
    committed: u64,
) {
    encode(to, DELIVER_CHUNK, |to| {
        to.u64(id.0);
        to.u64(committed);
        put_chunk(to, first, chunk);
    });
}

pub(crate) fn encode_signal(to: &mut Vec<u8>, id: ConsumerId, signal: RemoteSignal) {
    encode(to, SIGNAL, |to| {
        to.u64(id.0);
        match signal {
            RemoteSignal::Cancelled => to.u8(0),
            RemoteSignal::Activity { active, change, available } => {
                to.u8(1);
                to.flag(active);
                to.u32(change);
                to.u32(available);
            }
            RemoteSignal::Drained { delivery_count, available } => {
                to.u8(2);
                to.u32(delivery_count);
                to.u32(available);
            }
        }
    });
}

/// Appends an answer. `last_body` is the body of its message, if that is in a file.
pub(crate) fn encode_answer(to: &mut Vec<u8>, number: u64, answer: &HomeAnswer, last_body: Option<&Bytes>) {
    encode(to, ANSWER, |to| {
        to.u64(number);
        match answer {
            HomeAnswer::Consumed(Ok(number)) => {
                to.u8(0);
                to.u64(*number);
            }
            HomeAnswer::Consumed(Err(reason)) => {
                to.u8(1);
                put_no_consumer(to, reason);
            }
            HomeAnswer::Left(left) => {
                to.u8(2);
                to.maybe(*left, |to, left| to.u64(left as u64));
            }
            HomeAnswer::Granted(state) => {
                to.u8(3);
                to.maybe(*state, |to, CreditState { delivery_count, credit, available }| {
                    [delivery_count, credit, available].into_iter().for_each(|number| to.u32(number));
                });
            }
            HomeAnswer::Got(outcome) => {
                to.u8(4);
                put_got(to, outcome, last_body);
            }
            HomeAnswer::Removed(count) => {
                to.u8(5);
                to.u64(*count);
            }
            HomeAnswer::Size(ready, consumers) => {
                to.u8(6);
                to.u64(*ready);
                to.u64(*consumers as u64);
            }
            HomeAnswer::RunState(state) => {
                to.u8(7);
                match state {
                    QueueState::Running => to.u8(0),
                    QueueState::Failed(reason) => {
                        to.u8(1);
                        put_bytes(to, reason.as_bytes());
                    }
                    QueueState::Deleted => to.u8(2),
                }
            }
            HomeAnswer::Carried(is_done) => {
                to.u8(8);
                to.flag(*is_done);
            }
            HomeAnswer::Found(found) => {
                to.u8(9);
                to.maybe(*found, |to, found| to.u64(found));
            }
            HomeAnswer::Deleted(Ok(None)) => to.u8(14),
            HomeAnswer::Deleted(Ok(Some(count))) => {
                to.u8(11);
                to.u64(*count);
            }
            HomeAnswer::Deleted(Err(refused)) => {
                to.u8(12);
                // It is plain data, which is serializable in any case.
                put_bytes(to, &serde_json::to_vec(refused).unwrap_or_default());
            }
            HomeAnswer::Moved => to.u8(13),
            HomeAnswer::Held(held) => {
                to.u8(15);
                to.all(held.iter(), |to, (queue, claims)| {
                    to.u64(queue.0);
                    put_claims(to, claims);
                });
            }
            HomeAnswer::TakenOver(runs) => {
                to.u8(16);
                put_runs(to, runs);
            }
            HomeAnswer::StreamEnds(ends) => {
                to.u8(10);
                to.maybe(*ends, |to, StreamEnd { first, next, last_chunk }| {
                    to.u64(first);
                    to.u64(next);
                    to.maybe(last_chunk, |to, last_chunk| to.u64(last_chunk));
                });
            }
        }
    });
}

fn put_no_consumer(to: &mut Vec<u8>, reason: &NoConsumer) {
    match reason {
        NoConsumer::Exclusive => to.u8(0),
        NoConsumer::Gone | NoConsumer::Converted => to.u8(1),
        NoConsumer::Failed(text) => {
            to.u8(2);
            put_bytes(to, text.as_bytes());
        }
        NoConsumer::TooManyNames => to.u8(3),
        NoConsumer::OtherPartition => to.u8(4),
    }
}

fn get_no_consumer(from: &mut FieldReader<'_>) -> Option<NoConsumer> {
    Some(match from.u8()? {
        0 => NoConsumer::Exclusive,
        1 => NoConsumer::Gone,
        2 => NoConsumer::Failed(from.long_text()?.to_string()),
        3 => NoConsumer::TooManyNames,
        4 => NoConsumer::OtherPartition,
        _ => return None,
    })
}

fn put_got(to: &mut Vec<u8>, outcome: &GetOutcome, last_body: Option<&Bytes>) {
    match outcome {
        GetOutcome::Message(taken, left) => {
            to.u8(0);
            to.u64(*left);
            put_taken(to, taken, last_body);
        }
        // The answer is final: the home has waited for the message, or the queue is gone.
        GetOutcome::Empty | GetOutcome::Wait | GetOutcome::Converted => to.u8(1),
        GetOutcome::Failed(text) => {
            to.u8(2);
            put_bytes(to, text.as_bytes());
        }
    }
}

fn get_got(from: &mut FieldReader<'_>) -> Option<GetOutcome> {
    Some(match from.u8()? {
        0 => {
            let left = from.u64()?;
            GetOutcome::Message(from.taken()?, left)
        }
        1 => GetOutcome::Empty,
        2 => GetOutcome::Failed(from.long_text()?.to_string()),
        _ => return None,
    })
}

/// The reply in a frame.
///
/// # Errors
/// It isn't one of this version.
pub(crate) fn decode_reply(kind: u8, fields: &[u8]) -> Result<Reply, DataFrameError> {
    let mut from = FieldReader(fields);
    let reply = get_reply(kind, &mut from);
    reply.filter(|_| from.0.is_empty()).ok_or(DataFrameError::Malformed(kind))
}

fn get_reply(kind: u8, from: &mut FieldReader<'_>) -> Option<Reply> {
    Some(match kind {
        DONE => {
            let through = from.u64()?;
            Reply::Done(through, get_all(from, 9, |from| Some((from.u64()?, get_not_taken(from)?)))?)
        }
        ANSWER => {
            let number = from.u64()?;
            Reply::Answer(number, get_answer(from)?)
        }
        DELIVER => Reply::Deliver(QueueId(from.u64()?), ConsumerId(from.u64()?), from.taken()?),
        DELIVER_CHUNK => {
            let (id, committed) = (ConsumerId(from.u64()?), from.u64()?);
            let chunk = SharedChunk::decode(Bytes::copy_from_slice(from.behind_length()?)).ok()?;
            let taken = TakenChunk { first: chunk.header().first, chunk: Arc::new(chunk), joins: false };
            Reply::DeliverChunk(id, taken, committed)
        }
        SIGNAL => {
            let id = ConsumerId(from.u64()?);
            let signal = match from.u8()? {
                0 => RemoteSignal::Cancelled,
                1 => RemoteSignal::Activity { active: from.flag()?, change: from.u32()?, available: from.u32()? },
                2 => RemoteSignal::Drained { delivery_count: from.u32()?, available: from.u32()? },
                _ => return None,
            };
            Reply::Signal(id, signal)
        }
        _ => return None,
    })
}

fn get_not_taken(from: &mut FieldReader<'_>) -> Option<NotTaken> {
    Some(match from.u8()? {
        0 => {
            let (accepted, stopped) = (from.u32()?, from.flag()?);
            let reason = if stopped { RefusalReason::Stopped } else { RefusalReason::Limit };
            NotTaken::Refused(RefusedPublish { accepted, queue: from.long_text()?, reason }.into())
        }
        1 => NotTaken::Gone,
        2 => NotTaken::Lost,
        _ => return None,
    })
}

fn get_answer(from: &mut FieldReader<'_>) -> Option<HomeAnswer> {
    Some(match from.u8()? {
        0 => HomeAnswer::Consumed(Ok(from.u64()?)),
        1 => HomeAnswer::Consumed(Err(get_no_consumer(from)?)),
        2 => HomeAnswer::Left(get_maybe(from, |from| from.u64().map(|left| left as usize))?),
        3 => HomeAnswer::Granted(get_maybe(from, |from| {
            Some(CreditState { delivery_count: from.u32()?, credit: from.u32()?, available: from.u32()? })
        })?),
        4 => HomeAnswer::Got(get_got(from)?),
        5 => HomeAnswer::Removed(from.u64()?),
        6 => HomeAnswer::Size(from.u64()?, from.u64()? as usize),
        7 => HomeAnswer::RunState(match from.u8()? {
            0 => QueueState::Running,
            1 => QueueState::Failed(from.long_text()?.to_string()),
            2 => QueueState::Deleted,
            _ => return None,
        }),
        8 => HomeAnswer::Carried(from.flag()?),
        13 => HomeAnswer::Moved,
        15 => HomeAnswer::Held(get_all(from, 12, |from| Some((QueueId(from.u64()?), from.claims()?)))?),
        16 => HomeAnswer::TakenOver(from.runs()?),
        11 => HomeAnswer::Deleted(Ok(Some(from.u64()?))),
        14 => HomeAnswer::Deleted(Ok(None)),
        12 => HomeAnswer::Deleted(Err(serde_json::from_slice(from.behind_length()?).ok()?)),
        9 => HomeAnswer::Found(get_maybe(from, |from| from.u64())?),
        10 => HomeAnswer::StreamEnds(get_maybe(from, |from| {
            let (first, next) = (from.u64()?, from.u64()?);
            Some(StreamEnd { first, next, last_chunk: get_maybe(from, |from| from.u64())? })
        })?),
        _ => return None,
    })
}
