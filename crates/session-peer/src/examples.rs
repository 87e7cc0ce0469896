//! One of each frame, for tests: it is read as it was written, and wrong bytes are refused.

use std::sync::Arc;

use leveret_amqp10::Value;
use leveret_amqp10::value::EncodedMap;
use leveret_broker::claims::{Claims, HandedOut};
use leveret_broker::publish_origin::PublishOrigin;
use leveret_broker::queue_handle::{RefusalReason, RefusedPublish, StreamEnd};
use leveret_broker::remote::{CallKind, Deletion, HomeAnswer, HomeQuestion, LaneCall, NotTaken, RemoteSignal};
use leveret_broker::settlement::Settlement;
use leveret_message::chunk::{ChunkBuilder, ChunkWriter, SharedChunk};
use leveret_message::{Added, Batch, BatchBuilder, StoredMessage};
use leveret_model::{Arguments, ConnectionId, DeleteQueue, Permit, PlacementNumber, QueueId, Refused};
use leveret_queue::{
    AttemptCounts, ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, CreditState, DeleteIf, GetOutcome,
    GroupMember, KeptOffset, Link, MessageFilter, NoConsumer, PublishingIds, QueueState, Run, SetAside, Signal,
    StreamFilter, StreamOptions, StreamStart, Taken, TakenChunk, Unsent,
};

use crate::calls::{decode_call, encode_call};
use crate::frame::decode;
use crate::replies::{
    Reply, decode_reply, encode_answer, encode_deliver, encode_deliver_chunk, encode_done, encode_signal,
};

struct NoLink;

impl Link for NoLink {
    fn signal(&self, _: Signal) {}
}

const ID: ConsumerId = ConsumerId(0x0102_0304_0506_0708);

fn batch(count: u32) -> Arc<Batch> {
    let mut builder = BatchBuilder::default();
    let large = vec![7; 40_000];
    for at in 0..count {
        let body = if at == 1 { &large[..] } else { b"body" };
        builder.push_message(&StoredMessage { properties: b"properties", body, ..StoredMessage::default() });
    }
    Arc::new(builder.finish())
}

fn taken() -> Taken {
    let attempts = AttemptCounts { acquired: 3, failed: 2 };
    Taken { batch: batch(3), index: 0, count: 3, first: 70, redelivered: true, attempts, durable: true }
}

fn chunk() -> Arc<SharedChunk> {
    let mut builder = ChunkBuilder::new(16);
    builder.push_all(&batch(3), 0..3).expect("they fit");
    builder.note_filter(b"value");
    Arc::new(builder.finish_of(Some(&ChunkWriter { name: "name", sequence: 9 })).into())
}

fn numbers() -> PublishingIds {
    let mut numbers = PublishingIds::default();
    [7, 8, 20].into_iter().for_each(|number| numbers.push(number));
    numbers
}

fn runs() -> Vec<Run> {
    vec![Run { first: 5, last: 9, bytes: 50, durable: true }, Run { first: 20, last: 20, bytes: 0, durable: false }]
}

fn claims() -> Claims {
    let at = |returns| HandedOut { term: 7, returns };
    runs().into_iter().zip(3..).map(|(run, returns)| (at(returns), run)).collect()
}

fn added() -> Arc<Added> {
    let map = EncodedMap::new().with("x-opt-note", Value::String("again"));
    Arc::new(Added::of(map.as_map()).expect("it is small").expect("it has one"))
}

fn options(stream: Option<StreamOptions>, flow: ConsumerFlow) -> Box<ConsumerOptions> {
    Box::new(ConsumerOptions {
        link: Arc::new(NoLink),
        key: 1,
        tag: "tag".into(),
        channel: "127.0.0.1:1 -> 127.0.0.1:2 (1)".into(),
        automatic_ack: false,
        flow,
        priority: -3,
        exclusive: true,
        mode: ConsumerMode::Copy,
        filter: Some(Arc::new(MessageFilter::sql("p.subject = 'x'").expect("an expression"))),
        stream: stream.map(Box::new),
        timeout_ms: Some(1234),
        user: "guest".into(),
        arguments: Arguments::default().with("x-priority", leveret_model::Value::Int(-3)),
    })
}

fn stream() -> StreamOptions {
    let filter = StreamFilter {
        values: vec!["a".into(), "b".into()],
        match_unfiltered: true,
        messages: MessageFilter::sql("a LIKE 'b%'").expect("an expression"),
    };
    StreamOptions {
        start: StreamStart::Offset(77),
        filter: Some(Arc::new(filter)),
        tracking: Some("name".into()),
        group: Some(GroupMember { name: "group".into(), partition: Some(2) }),
        ..StreamOptions::default()
    }
}

/// A reader of the stream protocol. Its chunks count as settled.
fn reader() -> Box<ConsumerOptions> {
    let stream = StreamOptions { whole_chunks: true, ..stream() };
    let flow = ConsumerFlow::Credit { delivery_count: 0 };
    Box::new(ConsumerOptions { automatic_ack: true, ..*options(Some(stream), flow) })
}

fn calls() -> Vec<CallKind> {
    let consumer = Some(ID);
    let origin = Some(PublishOrigin { writer: 1 << 48, number: 7, epoch: 2, is_first: true, heard: 5 });
    let publish = |group| CallKind::Publish { batch: batch(3), index: 1, count: 2, persistent: true, group, origin };
    let settle = |how| CallKind::Settle { consumer, runs: runs(), how, group: Some(8) };
    let questions = [
        HomeQuestion::Consume {
            id: ID,
            options: options(Some(stream()), ConsumerFlow::Prefetch(9)),
            held: Vec::new(),
            registered: None,
            term: None,
        },
        HomeQuestion::Consume {
            id: ID,
            options: options(None, ConsumerFlow::Credit { delivery_count: 5 }),
            held: runs(),
            registered: Some(5 << 32),
            term: Some(8),
        },
        HomeQuestion::Consume { id: ID, options: reader(), held: Vec::new(), registered: None, term: None },
        HomeQuestion::KeepOffset(KeptOffset { name: "name".into(), offset: 8 }),
        HomeQuestion::KeptOffset("name".into()),
        HomeQuestion::Sequence("name".into()),
        HomeQuestion::Search { start: StreamStart::Timestamp(9), filter: stream().filter },
        HomeQuestion::StreamEnds,
        HomeQuestion::ActivateGroup("group".into()),
        HomeQuestion::Delete(Box::new(Deletion {
            permit: Permit::system(),
            command: DeleteQueue {
                vhost: "/".into(),
                name: "q".into(),
                connection: Some(ConnectionId(u64::MAX)),
                id: Some(QueueId(3)),
            },
            condition: DeleteIf { unused: true, empty: false, expired: true },
        })),
        HomeQuestion::Cancel(ID, runs()),
        HomeQuestion::Committed(9),
        HomeQuestion::Hold { consumer, runs: runs(), term: 3 },
        HomeQuestion::Held(PlacementNumber(70), 8),
        HomeQuestion::HasConsumer(QueueId(3), ID),
        HomeQuestion::Leave { consumers: vec![ID, ID], held: vec![(consumer, runs()), (None, runs())], failed: true },
        HomeQuestion::Grant { id: ID, delivery_count: 1, link_credit: 2, drain: true },
        HomeQuestion::Get { automatic_ack: true },
        HomeQuestion::Purge,
        HomeQuestion::DropSetAside { which: SetAside::Delayed, first: 1, last: 9 },
        HomeQuestion::Size(true),
        HomeQuestion::RunState,
        HomeQuestion::Reject { consumer: None, runs: runs(), failed: true },
    ];
    let mut calls = vec![
        publish(None),
        publish(Some(4)),
        settle(Settlement::Acknowledge),
        settle(Settlement::Reject { failed: true }),
        settle(Settlement::Requeue { failed: false }),
        CallKind::Acknowledge(vec![(consumer, runs()), (None, Vec::new())]),
        CallKind::Modify { consumer, runs: runs(), failed: false, added: added() },
        CallKind::TakeBack { id: ID, runs: runs(), unsent: Some(Unsent { counted: 1, delivery_count: 2, credit: 3 }) },
        CallKind::Overdue { id: ID, overdue: true },
        CallKind::Claim { id: ID, tokens: vec!["one".into(), "two".into()] },
        CallKind::Annotate { runs: runs(), added: added() },
        CallKind::Window { id: ID, messages: 128, bytes: 1 << 40 },
        CallKind::Commit(8),
        CallKind::PublishChunk { chunk: chunk(), numbered: None },
        CallKind::PublishChunk { chunk: chunk(), numbered: Some(("name".into(), numbers())) },
        CallKind::Activity { id: ID, active: true, start: Some(StreamStart::LastN(4)) },
    ];
    calls.extend(questions.map(|question| CallKind::Ask(99, question)));
    calls
}

fn replies() -> Vec<Vec<u8>> {
    let refused = RefusedPublish { accepted: 1, queue: "q".into(), reason: RefusalReason::Stopped };
    let not_taken = [(3, NotTaken::Refused(refused.into())), (4, NotTaken::Gone), (5, NotTaken::Lost)];
    let answers = [
        HomeAnswer::Consumed(Ok(5 << 32)),
        HomeAnswer::Consumed(Err(NoConsumer::Exclusive)),
        HomeAnswer::Consumed(Err(NoConsumer::Failed("why".into()))),
        HomeAnswer::Consumed(Err(NoConsumer::TooManyNames)),
        HomeAnswer::Consumed(Err(NoConsumer::OtherPartition)),
        HomeAnswer::Left(Some(3)),
        HomeAnswer::Left(None),
        HomeAnswer::Granted(Some(CreditState { delivery_count: u32::MAX, credit: 2, available: 3 })),
        HomeAnswer::Granted(None),
        HomeAnswer::Got(GetOutcome::Message(Taken { count: 1, ..taken() }, 9)),
        HomeAnswer::Got(GetOutcome::Empty),
        HomeAnswer::Got(GetOutcome::Failed("why".into())),
        HomeAnswer::Removed(12),
        HomeAnswer::Size(3, 4),
        HomeAnswer::RunState(QueueState::Running),
        HomeAnswer::RunState(QueueState::Failed("why".into())),
        HomeAnswer::RunState(QueueState::Deleted),
        HomeAnswer::Carried(true),
        HomeAnswer::Deleted(Ok(Some(9))),
        HomeAnswer::Deleted(Ok(None)),
        HomeAnswer::Deleted(Err(Refused::precondition("queue 'q' in vhost '/' in use"))),
        HomeAnswer::Found(Some(8)),
        HomeAnswer::Found(None),
        HomeAnswer::StreamEnds(Some(StreamEnd { first: 1, next: 9, last_chunk: Some(5) })),
        HomeAnswer::StreamEnds(None),
        HomeAnswer::Moved,
        HomeAnswer::Held(vec![(QueueId(3), claims()), (QueueId(4), Claims::default())]),
        HomeAnswer::TakenOver(runs()),
    ];
    let signals = [
        RemoteSignal::Cancelled,
        RemoteSignal::Activity { active: true, change: 2, available: 3 },
        RemoteSignal::Drained { delivery_count: 4, available: 5 },
    ];
    let mut frames = vec![Vec::new(), Vec::new(), Vec::new()];
    encode_deliver_chunk(&mut frames[2], ID, (70, &chunk()), 66);
    encode_done(&mut frames[0], 7, &not_taken);
    encode_deliver(&mut frames[1], (QueueId(3), ID), &taken(), None);
    for answer in answers {
        let mut frame = Vec::new();
        encode_answer(&mut frame, 11, &answer, None);
        frames.push(frame);
    }
    for signal in signals {
        let mut frame = Vec::new();
        encode_signal(&mut frame, ID, signal);
        frames.push(frame);
    }
    frames
}

fn again(reply: &Reply) -> Vec<u8> {
    let mut frame = Vec::new();
    match reply {
        Reply::Done(through, not_taken) => encode_done(&mut frame, *through, not_taken),
        Reply::Answer(number, answer) => encode_answer(&mut frame, *number, answer, None),
        Reply::Deliver(queue, id, taken) => encode_deliver(&mut frame, (*queue, *id), taken, None),
        Reply::DeliverChunk(id, TakenChunk { first, chunk, .. }, committed) => {
            encode_deliver_chunk(&mut frame, *id, (*first, chunk), *committed);
        }
        Reply::Signal(id, signal) => encode_signal(&mut frame, *id, *signal),
    }
    frame
}

fn call_of(frame: &[u8]) -> Option<LaneCall> {
    let (kind, fields, _) = decode(frame).ok()??;
    decode_call(kind, fields, || (Arc::new(NoLink), 1), || "s".into()).ok()
}

fn reply_of(frame: &[u8]) -> Option<Reply> {
    let (kind, fields, _) = decode(frame).ok()??;
    decode_reply(kind, fields).ok()
}

fn call_frames() -> Vec<Vec<u8>> {
    let frame = |(at, what)| {
        let number = (at % 2 == 0).then_some(at as u64 + 1);
        let mut frame = Vec::new();
        encode_call(&mut frame, &LaneCall { queue: QueueId(3), number, what });
        frame
    };
    calls().into_iter().enumerate().map(frame).collect()
}

#[test]
fn each_call_is_read_as_it_was_written() {
    for frame in call_frames() {
        let call = call_of(&frame).unwrap_or_else(|| panic!("kind {}", frame[4]));
        let mut other = Vec::new();
        encode_call(&mut other, &call);
        assert!(other == frame, "kind {}", frame[4]);
    }
}

#[test]
fn each_reply_is_read_as_it_was_written() {
    for frame in replies() {
        let reply = reply_of(&frame).unwrap_or_else(|| panic!("kind {}", frame[4]));
        assert!(again(&reply) == frame, "kind {}", frame[4]);
    }
}

#[test]
fn frames_that_are_cut_or_longer_are_refused() {
    let whole = |frame: &[u8], length: usize| {
        let mut frame = frame[..length.min(frame.len())].to_vec();
        frame.resize(length, 0);
        let told = (length - 4) as u32;
        frame[..4].copy_from_slice(&told.to_le_bytes());
        frame
    };
    for frame in call_frames() {
        for length in (5..frame.len().min(300)).chain([frame.len() - 1, frame.len() + 1]) {
            assert!(call_of(&whole(&frame, length)).is_none(), "kind {} with {length} bytes", frame[4]);
        }
    }
    for frame in replies() {
        for length in (5..frame.len().min(300)).chain([frame.len() - 1, frame.len() + 1]) {
            assert!(reply_of(&whole(&frame, length)).is_none(), "kind {} with {length} bytes", frame[4]);
        }
    }
}

#[test]
fn wrong_bytes_are_read_as_something_or_refused() {
    for frame in call_frames().into_iter().chain(replies()) {
        for at in 4..frame.len().min(400) {
            for bit in 0..8 {
                let mut wrong = frame.clone();
                wrong[at] ^= 1 << bit;
                let _ = (call_of(&wrong), reply_of(&wrong));
            }
        }
    }
}
