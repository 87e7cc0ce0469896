//! Memory of streams and readers that have nothing to do: a node has thousands of them.

use std::sync::Arc;

use leveret_message::chunk::SharedChunk;
use leveret_message::{BatchBuilder, Envelope};
use leveret_metrics::Rates;

use crate::dispatch::{ConsumerMode, Deliveries, LatencyBuckets, Portion};
use crate::effects::{Link, Signal};
use crate::stream::reader::Reader;
use crate::stream::tail::{IDLE_CHUNKS_MAX, TailChunk};
use crate::stream::{ChunkSubmission, OfferedChunk, StreamQueue};
use crate::stream_state::Stretches;
use crate::{
    ChunkPlacement, ConsumerFlow, ConsumerId, ConsumerOptions, Effects, Epoch, MemoryBudget, Place, Replica,
    StreamOptions, StreamStart, Surroundings, Watermarks,
};

struct Nobody;

impl Link for Nobody {
    fn signal(&self, _signal: Signal) {}
}

fn stream(budget: &Arc<MemoryBudget>) -> StreamQueue {
    let surroundings = Surroundings {
        budget: budget.clone(),
        epoch: Epoch::default(),
        strict_compat: false,
        standing_delay_target: 0,
    };
    StreamQueue::new(leveret_model::QueueOptions::default(), Replica::none(0), surroundings, 0)
}

fn add(stream: &mut StreamQueue, id: u64, prefetch: u32) {
    let options = ConsumerOptions {
        link: Arc::new(Nobody),
        key: id,
        tag: "t".into(),
        channel: "c".into(),
        automatic_ack: false,
        flow: ConsumerFlow::Prefetch(prefetch),
        priority: 0,
        exclusive: false,
        mode: ConsumerMode::Move,
        filter: None,
        stream: Some(Box::new(StreamOptions { start: StreamStart::Next, ..StreamOptions::default() })),
        timeout_ms: None,
        user: "u".into(),
        arguments: leveret_model::Arguments::default(),
    };
    assert!(stream.add(ConsumerId(id), options, 0, &mut Effects::default()).is_ok());
}

fn publish(stream: &mut StreamQueue, position: u64) {
    let mut builder = BatchBuilder::default();
    builder.push(&Envelope { durable: true, ..Envelope::default() }, b"\0\0", &[0; 100]);
    let chunk = Arc::new(SharedChunk::of(&builder.finish()));
    let effects = &mut Effects::default();
    let Some(ChunkSubmission::Accepted(submission)) = stream.submit_chunk(1, None, 0) else { panic!("it is open") };
    stream.submitted_chunk(
        submission,
        OfferedChunk::unnamed(&chunk),
        ChunkPlacement::At(Place::new(position)),
        0,
        effects,
    );
    stream.apply(Watermarks::synced(Place::new(position)), effects);
}

fn take(stream: &mut StreamQueue, id: u64) -> usize {
    let mut out = Vec::new();
    stream.take(ConsumerId(id), Portion { messages: 10_000, bytes: 1 << 30 }, 0, &mut out, &mut Effects::default());
    out.len()
}

#[test]
fn a_waiting_reader_has_less_than_4_kib() {
    // A hash map and two ordered sets, at most half empty.
    let places =
        2 * size_of::<(ConsumerId, Box<Reader>)>() + 2 * size_of::<(u64, ConsumerId)>() + 2 * size_of::<ConsumerId>();
    let boxes = size_of::<LatencyBuckets>() + size_of::<StreamOptions>();
    // Its tag, channel and user, its arguments, and places for batches that were read.
    let texts_and_places = 512 + 8 * 32;
    let reader = size_of::<Reader>() + places + boxes + texts_and_places;
    assert!(reader < 4096, "{reader} bytes");
}

#[test]
fn readers_that_wait_at_the_end_hold_no_messages() {
    let budget = Arc::new(MemoryBudget::new(1 << 30));
    let mut stream = stream(&budget);
    (0..1000).for_each(|id| add(&mut stream, id, 0));
    (1..=100).for_each(|position| publish(&mut stream, position));
    assert_eq!(stream.tail.messages(), 100);
    for id in 0..1000 {
        assert!(take(&mut stream, id) > 0);
    }
    assert_eq!((stream.tail.messages(), budget.used()), (0, 0));
}

#[test]
fn an_idle_stream_has_less_than_16_kib() {
    let budget = Arc::new(MemoryBudget::new(1 << 30));
    let mut stream = stream(&budget);
    add(&mut stream, 1, 10);
    (1..=10_000).for_each(|position| publish(&mut stream, position));
    assert!(stream.tail.places() >= 10_000);
    while take(&mut stream, 1) > 0 {
        let runs = [crate::Run { first: 0, last: 9, bytes: 0, durable: false }];
        stream.settle(
            Deliveries::of(Some(ConsumerId(1)), &runs),
            crate::Departure::Settled,
            0,
            &mut Effects::default(),
        );
    }
    assert!(stream.tail.places() <= IDLE_CHUNKS_MAX);
    // It has been used: it has rates, and an index.
    let index = stream.kept.index.memory() as usize;
    let tail = stream.tail.places() * size_of::<TailChunk>();
    let boxes = size_of::<Rates<10>>() + size_of::<Stretches>();
    let idle = size_of::<StreamQueue>() + index + tail + boxes;
    assert!(idle < 16 << 10, "{idle} bytes");
}
