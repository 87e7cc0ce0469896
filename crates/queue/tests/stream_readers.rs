//! Readers of streams in situations that need exact numbers.

mod chunks;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use leveret_message::Batch;
use leveret_message::chunk::SharedChunk;
use leveret_model::{QueueOptions, QueueType};
use leveret_queue::{
    ChunkPlacement, ChunkSubmission, ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, CreditState, Departure,
    Effects, Epoch, Flow, Ledger, Link, MemoryBudget, MessageFilter, OfferedChunk, Place, Portion, QueueState, Replica,
    Run, Signal, StreamFilter, StreamOptions, StreamQueue, StreamRead, StreamStart, Surroundings, TurnEnd, Unsent,
    Watermarks,
};
use leveret_selector::{Budget, Dialect, PropertyFilter, Reference, Selector, Verdict};

use crate::chunks::{Runs, chunk, read};

#[derive(Default)]
struct Recorder(Mutex<Vec<Signal>>);

impl Link for Recorder {
    fn signal(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}

struct Rig {
    queue: StreamQueue,
    link: Arc<Recorder>,
    store: BTreeMap<u64, Arc<Batch>>,
    position: u64,
    reads: Vec<(ConsumerId, u64)>,
}

const ID: ConsumerId = ConsumerId(1);

impl Rig {
    fn new(memory: u64) -> Self {
        Self::recovered(memory, Replica::none(0), BTreeMap::new())
    }

    fn recovered(memory: u64, replica: Replica, store: BTreeMap<u64, Arc<Batch>>) -> Self {
        let options = QueueOptions { queue_type: QueueType::Stream, ..QueueOptions::default() };
        let budget = Arc::new(MemoryBudget::new(memory));
        let surroundings =
            Surroundings { budget, epoch: Epoch::default(), strict_compat: false, standing_delay_target: 0 };
        let queue = StreamQueue::new(options, replica, surroundings, 0);
        Self { queue, link: Arc::default(), store, position: 0, reads: Vec::new() }
    }

    /// A stream with messages at offsets 0 to 2. Offsets 3 to 5 are those of a transaction that a crash prevented.
    fn with_a_gap_at_its_end() -> Self {
        let mut ledger = Ledger::default();
        ledger.accept(0, 6, 0);
        ledger.settle(3, 5, 0, Departure::Dropped);
        let stored = chunk(0, (0..3).map(|_| (vec![], None)));
        Self::recovered(0, Replica { ledger, ..Replica::default() }, BTreeMap::from([(0, stored)]))
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

    fn submit(&mut self, at_ms: u64, bodies: &[usize]) {
        let messages = bodies.iter().map(|size| (vec![0; *size], None));
        let batch = chunk(at_ms, messages);
        let Some(ChunkSubmission::Accepted(submission)) = self.queue.submit_chunk(batch.len() as u32, None, 0) else {
            panic!("it isn't closed");
        };
        self.store.insert(submission.first, batch.clone());
        self.position += 1;
        let place = ChunkPlacement::At(Place::new(self.position));
        let chunk = Arc::new(SharedChunk::of(&batch));
        self.with(|queue, effects| queue.submitted_chunk(submission, OfferedChunk::unnamed(&chunk), place, 0, effects));
    }

    fn publish(&mut self, at_ms: u64, bodies: &[usize]) {
        self.submit(at_ms, bodies);
        let reached = Watermarks::synced(Place::new(self.position));
        self.with(|queue, effects| queue.apply(reached, effects));
    }

    fn add(&mut self, id: ConsumerId, flow: ConsumerFlow, start: StreamStart, filter: Option<StreamFilter>) {
        let options = ConsumerOptions {
            link: self.link.clone(),
            key: id.0,
            tag: "t".into(),
            channel: "c".into(),
            automatic_ack: false,
            flow,
            priority: 0,
            exclusive: false,
            mode: ConsumerMode::Move,
            filter: None,
            stream: Some(Box::new(StreamOptions { start, filter: filter.map(Arc::new), ..StreamOptions::default() })),
            timeout_ms: None,
            user: "u".into(),
            arguments: leveret_model::Arguments::default(),
        };
        self.with(|queue, effects| assert!(queue.add(id, options, 0, effects).is_ok()));
    }

    fn grant(&mut self, delivery_count: u32, link_credit: u32, drain: bool) -> CreditState {
        let flow = Flow::Credit { delivery_count, link_credit, drain };
        self.with(|queue, effects| queue.flow(ID, flow, 0, effects)).expect("it is a link")
    }

    /// The offsets that the reader gets in one turn.
    fn take(&mut self, most: u32) -> (Vec<u64>, TurnEnd) {
        let mut out = Vec::new();
        let end = self
            .with(|queue, effects| queue.take(ID, Portion { messages: most, bytes: 1 << 30 }, 0, &mut out, effects));
        (out.iter().flat_map(|taken| (0..taken.count).map(|at| taken.first + u64::from(at))).collect(), end)
    }

    fn answer(&self, (id, from): (ConsumerId, u64)) -> (StreamRead, Runs) {
        let scan = self.queue.scan(id).unwrap_or_default();
        let (runs, end, since_ms) = read(&self.store, &scan, from, usize::MAX, 0);
        (StreamRead { reader: id, from, end, since_ms }, runs)
    }

    fn load(&mut self) {
        for wanted in std::mem::take(&mut self.reads) {
            let (read, runs) = self.answer(wanted);
            self.with(|queue, effects| queue.loaded(read, runs, 0, effects));
        }
    }
}

fn expression(text: &str) -> Selector {
    Selector::parse(text, Dialect::Amqp).unwrap()
}

#[test]
fn a_reader_goes_back_to_messages_that_were_not_sent() {
    for memory in [0, 1 << 30] {
        let mut rig = Rig::new(memory);
        rig.add(ID, ConsumerFlow::Credit { delivery_count: 0 }, StreamStart::First, None);
        rig.publish(0, &[100_000; 4]);
        rig.publish(0, &[100_000; 4]);
        rig.grant(0, 6, false);
        while rig.queue.consumer_status(ID).unwrap().delivered < 6 {
            rig.take(3);
            rig.load();
        }
        // The last three weren't sent, and two of the others are unsettled.
        let run = |first, last| Run { first, last, bytes: 0, durable: false };
        let unsent = Unsent { counted: 6, delivery_count: 3, credit: 3 };
        rig.with(|queue, effects| queue.take_back(ID, &[run(1, 2), run(3, 5)], Some(unsent), 0, effects));
        rig.signals();
        let status = rig.queue.consumer_status(ID).unwrap();
        assert_eq!((status.unacknowledged, status.link_credit, status.delivery_count), (1, Some(3), 3));
        assert!(rig.take(9).0.is_empty(), "it has to settle first");
        rig.with(|queue, effects| queue.flow(ID, Flow::Overdue(false), 0, effects));
        let mut again = Vec::new();
        for _ in 0..3 {
            again.extend(rig.take(9).0);
            rig.load();
        }
        assert_eq!(again, [3, 4, 5]);
    }
}

#[test]
fn an_answer_from_before_a_reader_went_back_is_dropped() {
    let mut rig = Rig::new(0);
    (0..4).for_each(|_| rig.publish(0, &[10; 2]));
    rig.add(ID, ConsumerFlow::Credit { delivery_count: 0 }, StreamStart::First, None);
    rig.grant(0, 100, false);
    rig.take(9);
    let (from_start, late) = (rig.reads.pop().unwrap(), rig.store.split_off(&2));
    let (read, runs) = rig.answer(from_start);
    rig.with(|queue, effects| queue.loaded(read, runs, 0, effects));
    rig.store.extend(late);
    assert_eq!(rig.take(9).0, [0, 1]);
    let behind = rig.reads.pop().unwrap();
    assert_eq!(behind.1, 2, "it reads on");
    let unsent = Unsent { counted: 2, delivery_count: 0, credit: 100 };
    let run = Run { first: 0, last: 1, bytes: 0, durable: false };
    rig.with(|queue, effects| queue.take_back(ID, &[run], Some(unsent), 0, effects));
    let (read, runs) = rig.answer(behind);
    rig.with(|queue, effects| queue.loaded(read, runs, 0, effects));
    rig.with(|queue, effects| queue.flow(ID, Flow::Overdue(false), 0, effects));
    let mut again = Vec::new();
    for _ in 0..3 {
        again.extend(rig.take(9).0);
        rig.load();
    }
    assert_eq!(again, (0..8).collect::<Vec<_>>());
}

#[test]
fn a_read_gives_nothing_that_was_withdrawn_meanwhile() {
    let mut rig = Rig::new(0);
    rig.publish(0, &[10; 2]);
    rig.submit(0, &[11; 2]);
    rig.add(ID, ConsumerFlow::Prefetch(0), StreamStart::First, None);
    rig.take(9);
    // The disk has a chunk that isn't part of the stream yet.
    let wanted = rig.reads.pop().unwrap();
    let (read, runs) = rig.answer(wanted);
    assert!(matches!(read, StreamRead { end: 4, .. }));
    rig.with(|queue, _| queue.withdraw());
    rig.publish(0, &[12; 2]);
    rig.with(|queue, effects| queue.loaded(read, runs, 0, effects));
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let mut out = Vec::new();
        rig.with(|queue, effects| queue.take(ID, Portion { messages: 9, bytes: 1 << 20 }, 0, &mut out, effects));
        for taken in out {
            lengths.extend((0..taken.count).map(|at| taken.batch.body_length((taken.index + at) as usize)));
        }
        rig.load();
    }
    assert_eq!(lengths.iter().map(|length| length - lengths[0]).collect::<Vec<_>>(), [0, 0, 2, 2]);
}

#[test]
fn a_run_is_cut_at_the_end_of_the_stream() {
    let mut rig = Rig::new(0);
    rig.publish(0, &[10; 2]);
    rig.add(ID, ConsumerFlow::Prefetch(0), StreamStart::First, None);
    rig.take(9);
    let (reader, from) = rig.reads.pop().unwrap();
    let more = chunk(0, (0..4).map(|_| (vec![], None)));
    let read = StreamRead { reader, from, end: 4, since_ms: None };
    rig.with(|queue, effects| queue.loaded(read, vec![(0, more)], 0, effects));
    assert_eq!(rig.take(9), (vec![0, 1], TurnEnd::Done));
}

#[test]
fn a_chunk_larger_than_the_tail_is_delivered_from_memory() {
    let mut rig = Rig::new(0);
    rig.add(ID, ConsumerFlow::Prefetch(0), StreamStart::Next, None);
    rig.publish(0, &[3 << 20, 3 << 20]);
    assert_eq!(rig.take(9), (vec![0, 1], TurnEnd::Done));
    assert!(rig.reads.is_empty());
    assert_eq!(rig.queue.status().memory, 0);
}

#[test]
fn a_turn_ends_when_its_work_is_done_and_goes_on_in_the_next() {
    let mut rig = Rig::new(1 << 30);
    let messages = MessageFilter { expression: Some(expression("p.subject = 'x'")), ..MessageFilter::default() };
    let filter = StreamFilter { messages, ..StreamFilter::default() };
    rig.add(ID, ConsumerFlow::Credit { delivery_count: 0 }, StreamStart::Next, Some(filter));
    rig.grant(0, 5, false);
    rig.publish(0, &[0; 30_000]);
    let mut turns = 1;
    while rig.take(9).1 == TurnEnd::More {
        turns += 1;
        assert!(turns < 100);
    }
    assert!(turns > 2, "{turns} turns");
    // Chunks that are skipped as a whole are work, too.
    let mut rig = Rig::new(1 << 30);
    rig.add(ConsumerId(2), ConsumerFlow::Prefetch(0), StreamStart::Next, None);
    (0..2500).for_each(|_| rig.publish(5, &[1]));
    rig.publish(9, &[1]);
    rig.add(ID, ConsumerFlow::Credit { delivery_count: 0 }, StreamStart::Timestamp(7), None);
    rig.grant(0, 5, true);
    rig.signals();
    assert_eq!(rig.take(9), (vec![], TurnEnd::More));
    assert_eq!(rig.take(9), (vec![], TurnEnd::More));
    assert_eq!(rig.signals(), [], "the drain goes on");
    assert_eq!(rig.take(9), (vec![2500], TurnEnd::Done));
    assert!(matches!(rig.signals()[..], [Signal::Drained { delivery_count: 5, .. }]));
}

#[test]
fn a_reader_from_a_time_on_gets_later_chunks_of_older_times() {
    for on_disk in [false, true] {
        let mut rig = Rig::new(1 << 30);
        if !on_disk {
            rig.add(ConsumerId(2), ConsumerFlow::Prefetch(0), StreamStart::Next, None);
        }
        [10, 20, 15].into_iter().for_each(|at_ms| rig.publish(at_ms, &[1]));
        rig.add(ID, ConsumerFlow::Prefetch(0), StreamStart::Timestamp(18), None);
        let mut offsets = rig.take(9).0;
        rig.load();
        offsets.extend(rig.take(9).0);
        // A clock was set back.
        rig.publish(3, &[1]);
        offsets.extend(rig.take(9).0);
        rig.load();
        offsets.extend(rig.take(9).0);
        assert_eq!(offsets, [1, 2, 3], "on disk: {on_disk}");
    }
}

#[test]
fn a_filter_of_more_than_a_turns_work_comes_to_an_end() {
    let long = "x".repeat(70_000);
    let fields = [("subject", format!("&p:{long}"))];
    let filter =
        PropertyFilter::properties(fields.iter().map(|(name, value)| (*name, Reference::String(value)))).unwrap();
    let filter = MessageFilter {
        fields: vec![filter.clone(), filter.clone()],
        expression: Some(expression("p.subject LIKE 'x%'")),
    };
    let batch = chunk(0, [(vec![], Some(&*long))].into_iter());
    let mut budget = Budget::new(10);
    assert_eq!(filter.evaluate(&batch, 0, 0, &mut budget), Some(Verdict::Match));
    assert!(budget.is_spent());
    let next = filter.evaluate(&batch, 0, 0, &mut budget);
    assert_eq!(next, Some(Verdict::OutOfBudget), "the next message waits for a turn");
}

#[test]
fn a_late_answer_for_a_reader_that_is_gone_changes_nothing() {
    let mut rig = Rig::new(1 << 30);
    rig.publish(0, &[10; 2]);
    rig.add(ID, ConsumerFlow::Prefetch(0), StreamStart::First, None);
    rig.take(9);
    let wanted = rig.reads.pop().unwrap();
    rig.with(|queue, effects| queue.cancel(ID, 0, effects));
    // Not even if it found nothing.
    let (id, from) = wanted;
    let read = StreamRead { reader: id, from, end: from, since_ms: None };
    rig.with(|queue, effects| queue.loaded(read, Vec::new(), 0, effects));
    assert_eq!(*rig.queue.state(), QueueState::Running);
    // A reader that waits for no read ignores an answer, too.
    rig.add(ID, ConsumerFlow::Prefetch(0), StreamStart::Next, None);
    rig.with(|queue, effects| queue.loaded(read, Vec::new(), 0, effects));
    assert_eq!(*rig.queue.state(), QueueState::Running);
    rig.publish(0, &[10]);
    assert_eq!(rig.take(9).0, [2]);
}

#[test]
fn a_read_ahead_into_a_gap_skips_no_message() {
    let mut rig = Rig::with_a_gap_at_its_end();
    rig.add(ID, ConsumerFlow::Credit { delivery_count: 0 }, StreamStart::First, None);
    rig.grant(0, 1, false);
    rig.take(9);
    rig.load();
    assert_eq!(rig.take(9).0, [0]);
    assert_eq!(rig.reads, [(ID, 3)], "it reads ahead");
    rig.load();
    rig.grant(1, 9, false);
    assert_eq!(rig.take(9), (vec![1, 2], TurnEnd::Done));
    rig.publish(0, &[1]);
    assert_eq!(rig.take(9), (vec![6], TurnEnd::Done));
    assert!(rig.reads.is_empty());
}

#[test]
fn a_gap_at_the_end_has_no_messages() {
    let mut rig = Rig::with_a_gap_at_its_end();
    let numbers = |rig: &Rig, offset| rig.queue.peek(offset, 9).iter().map(|peeked| peeked.number).collect::<Vec<_>>();
    assert_eq!(numbers(&rig, 1), [1, 2]);
    rig.add(ID, ConsumerFlow::Credit { delivery_count: 0 }, StreamStart::LastN(2), None);
    assert_eq!(rig.grant(0, 2, false).available, 2);
    rig.take(9);
    rig.load();
    assert_eq!(rig.take(9).0, [1, 2]);
    // It drains at once: nothing has to be read to find out that nothing comes.
    let CreditState { delivery_count, credit, available } = rig.grant(2, 5, true);
    assert_eq!((delivery_count, credit, available), (7, 0, 0));
    rig.publish(0, &[1]);
    assert_eq!(numbers(&rig, 2), [2, 6]);
}
