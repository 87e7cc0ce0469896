//! Readers that take whole chunks, named publishers, and groups with one active reader.

use std::sync::{Arc, Mutex};

use leveret_message::chunk::{ChunkBuilder, ChunkWriter, SharedChunk};
use leveret_model::{Arguments, QueueOptions, QueueType};
use leveret_queue::{
    ChunkPlacement, ChunkSubmission, ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Effects, Epoch,
    GroupMember, Ledger, Link, MemoryBudget, OfferedChunk, Parts, Place, Replica, Signal, StreamOptions, StreamQueue,
    StreamRead, StreamStart, Surroundings, TurnEnd, Watermarks, WriterRun,
};

#[derive(Default)]
struct Recorder(Mutex<Vec<Signal>>);

impl Link for Recorder {
    fn signal(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}

const MS: u64 = 1_000_000;

struct Rig {
    queue: StreamQueue,
    link: Arc<Recorder>,
    position: u64,
    reads: Vec<(ConsumerId, u64)>,
    /// When the next chunk is received.
    received_ms: u64,
}

fn queue(replica: Replica) -> StreamQueue {
    let options = QueueOptions { queue_type: QueueType::Stream, ..QueueOptions::default() };
    let budget = Arc::new(MemoryBudget::new(1 << 30));
    let surroundings = Surroundings { budget, epoch: Epoch::default(), strict_compat: false, standing_delay_target: 0 };
    StreamQueue::new(options, replica, surroundings, 0)
}

impl Rig {
    fn new() -> Self {
        let queue = queue(Replica::none(0));
        Self { queue, link: Arc::default(), position: 0, reads: Vec::new(), received_ms: 0 }
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut StreamQueue, &mut Effects) -> R) -> R {
        let mut effects = Effects::default();
        let result = call(&mut self.queue, &mut effects);
        effects.fire();
        self.reads.extend(effects.take_rare().unwrap_or_default().own_reads);
        result
    }

    fn signals(&self) -> Vec<Signal> {
        std::mem::take(&mut *self.link.0.lock().unwrap())
    }

    /// Submits a chunk of so many messages; returns the answer.
    fn submit(&mut self, messages: u16, writer: Option<&WriterRun>) -> ChunkSubmission {
        let answer = self.queue.submit_chunk(messages.into(), writer, 0).expect("it isn't closed");
        if let ChunkSubmission::Accepted(submission) = answer {
            self.position += 1;
            let place = ChunkPlacement::At(Place::new(self.position));
            let chunk = chunk(messages, writer, self.received_ms);
            self.with(|queue, effects| {
                queue.submitted_chunk(submission, OfferedChunk { chunk: &chunk, writer }, place, 0, effects)
            });
        }
        answer
    }

    fn apply(&mut self) {
        let reached = Watermarks::synced(Place::new(self.position));
        self.with(|queue, effects| queue.apply(reached, effects));
    }

    fn publish(&mut self, messages: u16) {
        self.submit(messages, None);
        self.apply();
    }

    /// Publishes chunks at times that are so far apart that each is sent alone.
    fn publish_apart(&mut self, chunks: &[u16]) {
        for messages in chunks {
            self.received_ms += 1_000;
            self.publish(*messages);
        }
    }

    fn subscribe(&mut self, id: u64, start: StreamStart, group: Option<GroupMember>) {
        let stream = StreamOptions { start, whole_chunks: true, group, ..StreamOptions::default() };
        let options = ConsumerOptions {
            link: self.link.clone(),
            key: id,
            tag: "t".into(),
            channel: "c".into(),
            automatic_ack: true,
            flow: ConsumerFlow::Credit { delivery_count: 0 },
            priority: 0,
            exclusive: false,
            mode: ConsumerMode::Move,
            filter: None,
            stream: Some(Box::new(stream)),
            timeout_ms: None,
            user: "u".into(),
            arguments: Arguments::default(),
        };
        self.with(|queue, effects| queue.add(ConsumerId(id), options, 0, effects)).expect("it isn't closed");
    }

    /// Grants credit for `credit` chunks behind the first `sent`.
    fn grant(&mut self, id: u64, sent: u32, credit: u32) {
        let flow = leveret_queue::Flow::Credit { delivery_count: sent, link_credit: credit, drain: false };
        self.with(|queue, effects| queue.flow(ConsumerId(id), flow, 0, effects));
    }

    /// The first offsets of the chunks that a reader takes in one turn, and whether it has to come again.
    fn take(&mut self, id: u64, bytes: u64) -> (Vec<u64>, TurnEnd) {
        let mut out = Vec::new();
        let turn = self.with(|queue, effects| queue.take_chunks(ConsumerId(id), bytes, 0, &mut out, effects));
        (out.iter().map(|taken| taken.first).collect(), turn.end)
    }

    /// Answers the read that a reader has asked for, with chunks of so many messages from `from` on.
    fn load(&mut self, from: u64, chunks: &[(u64, u16)]) {
        let (reader, asked) = self.reads.pop().expect("it asks for a read");
        assert_eq!(asked, from);
        let end = chunks.last().map_or(from, |(first, messages)| first + u64::from(*messages));
        let read = StreamRead { reader, from, end, since_ms: None };
        let chunks = chunks.iter().map(|(first, messages)| (*first, chunk(*messages, None, 0))).collect();
        self.with(|queue, effects| queue.loaded_chunks(read, chunks, 0, effects));
    }
}

fn chunk(messages: u16, writer: Option<&WriterRun>, received_ms: u64) -> Arc<SharedChunk> {
    let mut builder = ChunkBuilder::new(16);
    builder.note_time(received_ms);
    for _ in 0..messages {
        builder.push_entry(b"\0\0\0\x06\0\x53\x75\xa0\x01x", 1).expect("it is small");
    }
    let writer = writer.map(|writer| ChunkWriter { name: &writer.name, sequence: writer.last });
    Arc::new(builder.finish_of(writer.as_ref()).into())
}

fn run(first: u64, last: u64) -> WriterRun {
    WriterRun { name: "w".into(), first, last }
}

#[test]
fn a_reader_gets_one_chunk_for_each_credit() {
    let mut rig = Rig::new();
    rig.subscribe(1, StreamStart::First, None);
    rig.publish_apart(&[3, 1, 2, 5]);
    assert_eq!(rig.take(1, 1 << 20), (vec![], TurnEnd::Done), "it has no credit");
    rig.grant(1, 0, 2);
    assert_eq!(rig.signals(), [Signal::Scheduled(1)]);
    assert_eq!(rig.take(1, 1 << 20), (vec![0, 3], TurnEnd::Done));
    rig.grant(1, 2, 9);
    assert_eq!(rig.take(1, 1), (vec![4], TurnEnd::More), "a turn has at least one chunk");
    assert_eq!(rig.take(1, 1 << 20), (vec![6], TurnEnd::Done));
    rig.publish(1);
    assert_eq!(rig.take(1, 1 << 20), (vec![11], TurnEnd::Done));
}

/// A client that grants one chunk at a time, far away, gets more than a message for each round trip.
#[test]
fn short_chunks_of_about_one_time_take_one_credit() {
    let mut rig = Rig::new();
    rig.subscribe(1, StreamStart::First, None);
    for received_ms in [0, 40, 100, 101, 101] {
        rig.received_ms = received_ms;
        rig.publish(2);
    }
    rig.grant(1, 0, 1);
    let mut out = Vec::new();
    rig.with(|queue, effects| queue.take_chunks(ConsumerId(1), 1 << 20, 0, &mut out, effects));
    let shown: Vec<_> = out.iter().map(|taken| (taken.first, taken.joins)).collect();
    assert_eq!(shown, [(0, false), (2, true), (4, true)]);
    rig.grant(1, 1, 1);
    assert_eq!(rig.take(1, 1), (vec![6], TurnEnd::Done), "a turn is over before it would join the next one");
    rig.grant(1, 2, 1);
    assert_eq!(rig.take(1, 1 << 20), (vec![8], TurnEnd::Done));
    assert!(rig.reads.is_empty(), "nothing is read for a reader without credit");
}

#[test]
fn a_chunk_comes_whole_also_from_disk_and_for_an_offset_within() {
    let mut rig = Rig::new();
    for messages in [10, 10, 10] {
        rig.publish(messages);
    }
    rig.subscribe(1, StreamStart::Offset(15), None);
    rig.grant(1, 0, 10);
    assert_eq!(rig.take(1, 1 << 20), (vec![], TurnEnd::Done));
    rig.load(15, &[(10, 10), (20, 10)]);
    assert_eq!(rig.take(1, 1 << 20), (vec![10, 20], TurnEnd::Done));
    rig.subscribe(2, StreamStart::Offset(1000), None);
    rig.grant(2, 0, 10);
    rig.publish(4);
    assert_eq!(rig.take(2, 1 << 20), (vec![30], TurnEnd::Done), "an offset that isn't there yet is the next one");
}

/// Messages that were published one by one may lie in one chunk on disk.
#[test]
fn a_reader_that_began_goes_on_within_a_stored_chunk() {
    let mut rig = Rig::new();
    rig.subscribe(1, StreamStart::First, None);
    rig.grant(1, 0, 10);
    rig.publish_apart(&[1, 1, 1]);
    let goes_on = |rig: &Rig| rig.queue.scan(ConsumerId(1)).expect("it is there").goes_on;
    assert!(!goes_on(&rig), "its first chunk comes whole, whatever the offset that it asked for");
    assert_eq!(rig.take(1, 1), (vec![0], TurnEnd::More));
    assert!(goes_on(&rig), "it has what comes before");
}

#[test]
fn numbered_messages_are_accepted_once() {
    let mut rig = Rig::new();
    assert!(matches!(rig.submit(3, Some(&run(1, 3))), ChunkSubmission::Accepted(_)));
    assert_eq!(rig.submit(2, Some(&run(3, 4))), ChunkSubmission::Behind(3), "before it is durable, too");
    assert_eq!(rig.queue.writer_sequence("w"), Some(3), "who is told that waits until it is part of the stream");
    rig.apply();
    assert_eq!((rig.queue.writer_sequence("w"), rig.queue.ready()), (Some(3), 3));
    assert!(matches!(rig.submit(1, Some(&run(9, 9))), ChunkSubmission::Accepted(_)));
    // A message that never became durable counts for nobody, neither here nor after a restart.
    rig.queue.withdraw();
    assert!(matches!(rig.submit(1, Some(&run(4, 4))), ChunkSubmission::Accepted(_)));
    let state = rig.queue.checkpoint().state;
    let parts = Parts::decode(&state).expect("it was encoded a moment ago");
    let ledger = Ledger::restore(3, &rig.queue.checkpoint().live, 0);
    let mut again = queue(Replica { ledger, parts, ..Replica::default() });
    assert_eq!(again.submit_chunk(1, Some(&run(3, 3)), 0), Some(ChunkSubmission::Behind(3)));
    assert!(matches!(again.submit_chunk(1, Some(&run(4, 4)), 0), Some(ChunkSubmission::Accepted(_))));
}

#[test]
fn one_reader_of_a_group_is_served_from_where_its_client_says() {
    let mut rig = Rig::new();
    let group = || Some(GroupMember { name: "g".into(), partition: None });
    rig.subscribe(1, StreamStart::First, group());
    rig.subscribe(2, StreamStart::First, group());
    let told = rig.signals();
    assert!(matches!(told[..], [Signal::Activity { key: 1, active: true, .. }]), "{told:?}");
    for messages in [3, 3] {
        rig.publish(messages);
    }
    [1, 2].into_iter().for_each(|id| rig.grant(id, 0, 10));
    assert!(rig.take(1, 1 << 20).0.is_empty(), "its client hasn't answered");
    rig.with(|queue, effects| queue.activated(ConsumerId(1), Some(StreamStart::Offset(3)), 0, effects));
    rig.with(|queue, effects| queue.activated(ConsumerId(2), None, 0, effects));
    assert_eq!((rig.take(1, 1 << 20).0, rig.take(2, 1 << 20).0), (vec![3], vec![]));
    rig.signals();
    rig.with(|queue, effects| queue.cancel(ConsumerId(1), 5 * MS, effects));
    let told = rig.signals();
    assert!(matches!(told[..], [Signal::Activity { key: 2, active: true, .. }]), "{told:?}");
    rig.with(|queue, effects| queue.activated(ConsumerId(2), None, 6 * MS, effects));
    assert_eq!(rig.take(2, 1 << 20).0, [0, 3]);
}

#[test]
fn a_reader_that_does_not_step_down_is_replaced_by_a_timer() {
    let mut rig = Rig::new();
    let group = || Some(GroupMember { name: "g".into(), partition: Some(1) });
    rig.subscribe(1, StreamStart::Next, group());
    rig.subscribe(2, StreamStart::Next, group());
    rig.signals();
    let deadline = rig.queue.announce_deadlines().soonest(&Epoch::default()).expect("it waits for the first one");
    assert_eq!(deadline, 500 * MS);
    rig.with(|queue, effects| queue.run_timers(deadline, 1000, effects));
    let told = rig.signals();
    assert!(matches!(told[..], [Signal::Activity { key: 2, active: true, .. }]), "{told:?}");
}
