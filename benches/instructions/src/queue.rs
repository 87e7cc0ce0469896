//! The state machine of a classic queue: durable messages in runs, one consumer.

use std::sync::Arc;

use leveret_message::{Batch, BatchBuilder, BatchPart, Envelope};
use leveret_model::{Arguments, QueueOptions};
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Deliveries, Departure, Effects, Epoch, LedgerQueue, Link,
    MemoryBudget, Place, Placement, Portion, Queue, Replica, Run, Signal, Surroundings, Taken, Watermarks,
};

use crate::count::count;
use crate::{BODY, MESSAGES, NOW_MS, QUEUE, RUN};

const CONSUMER: ConsumerId = ConsumerId(1);
const RUNS: u64 = MESSAGES / RUN;
const AMONG_MESSAGES: u64 = 20_000;

struct Nobody;

impl Link for Nobody {
    fn signal(&self, _: Signal) {}
}

/// A consumer without a limit.
fn options() -> ConsumerOptions {
    ConsumerOptions {
        link: Arc::new(Nobody),
        key: 1,
        tag: "consumer".into(),
        channel: "channel".into(),
        automatic_ack: false,
        flow: ConsumerFlow::Prefetch(0),
        priority: 0,
        exclusive: false,
        mode: ConsumerMode::Move,
        filter: None,
        stream: None,
        timeout_ms: None,
        user: "guest".into(),
        arguments: Arguments::default(),
    }
}

fn surroundings() -> Surroundings {
    Surroundings {
        budget: Arc::new(MemoryBudget::new(1 << 30)),
        epoch: Epoch::default(),
        strict_compat: false,
        standing_delay_target: 0,
    }
}

/// A queue, and a batch for each run.
fn prepared() -> (Queue, Vec<Arc<Batch>>) {
    let mut queue = Queue::new(QueueOptions::default(), true, Replica::default(), surroundings(), 0);
    queue.add(CONSUMER, options(), 0, &mut Effects::default()).expect("it is the first");
    let envelope =
        Envelope { durable: true, routing_key: QUEUE.as_bytes(), received_ms: NOW_MS, ..Envelope::default() };
    let mut builder = BatchBuilder::default();
    let mut batch = || {
        (0..RUN).for_each(|_| builder.push(&envelope, &[0x10, 0, 2], BODY));
        Arc::new(builder.finish())
    };
    let batches = (0..RUNS).map(|_| batch()).collect();
    (queue, batches)
}

fn ledger(queue: &mut Queue) -> &mut LedgerQueue {
    queue.ledger_mut().expect("it is a classic queue")
}

/// Both phases, as if each run were durable at once.
fn publish(queue: &mut Queue, batches: &[Arc<Batch>]) {
    for (position, batch) in (1..).zip(batches) {
        let mut effects = Effects::default();
        let submission = ledger(queue).submit(BatchPart::of(batch, 0, RUN as u32), position).expect("it is open");
        ledger(queue).submitted(
            submission,
            BatchPart::whole(batch),
            Placement::At(Place::new(position)),
            position,
            &mut effects,
        );
        queue.apply(Watermarks::synced(Place::new(position)), &mut effects);
    }
}

fn take_all(queue: &mut Queue, taken: &mut Vec<Taken>) {
    for now in 0..RUNS {
        queue.take(CONSUMER, Portion { messages: RUN as u32, bytes: u64::MAX }, now, taken, &mut Effects::default());
    }
}

pub(crate) fn submit() -> u64 {
    let (mut queue, batches) = prepared();
    count(|| publish(&mut queue, &batches));
    queue.size().0
}

pub(crate) fn take() -> u64 {
    let (mut queue, batches) = prepared();
    publish(&mut queue, &batches);
    let mut taken = Vec::with_capacity(batches.len());
    count(|| take_all(&mut queue, &mut taken));
    assert_eq!(queue.size().0, 0, "all were taken");
    taken.iter().map(|run| u64::from(run.count)).sum()
}

/// Settles each run as one acknowledgement with `multiple` does.
pub(crate) fn settle() -> u64 {
    let (mut queue, batches) = prepared();
    publish(&mut queue, &batches);
    let mut taken = Vec::new();
    take_all(&mut queue, &mut taken);
    let runs: Vec<Run> = taken.iter().map(Taken::run).collect();
    count(|| {
        for run in &runs {
            queue.settle(Deliveries::of(Some(CONSUMER), &[*run]), Departure::Settled, 0, &mut Effects::default());
        }
    });
    assert_eq!(queue.status().unacknowledged, 0, "all were settled");
    runs.iter().map(Run::count).sum()
}

/// The cost of one message in a queue with this many consumers, each with a prefetch of one. The message is
/// published, delivered and acknowledged. The counts for ten and for sixty thousand consumers should be equal.
fn among(consumers: u64) -> u64 {
    let mut queue = Queue::new(QueueOptions::default(), true, Replica::default(), surroundings(), 0);
    for id in 1..=consumers {
        let options = ConsumerOptions { key: id, flow: ConsumerFlow::Prefetch(1), ..options() };
        queue.add(ConsumerId(id), options, 0, &mut Effects::default()).expect("none is exclusive");
    }
    let envelope = Envelope { routing_key: QUEUE.as_bytes(), received_ms: NOW_MS, ..Envelope::default() };
    let mut builder = BatchBuilder::default();
    builder.push(&envelope, &[0x10, 0, 2], BODY);
    let batch = Arc::new(builder.finish());
    let mut taken = Vec::new();
    count(|| {
        for turn in 0..AMONG_MESSAGES {
            let mut effects = Effects::default();
            let submission = ledger(&mut queue).submit(BatchPart::of(&batch, 0, 1), turn).expect("it is open");
            ledger(&mut queue).submitted(submission, BatchPart::whole(&batch), Placement::Volatile, turn, &mut effects);
            // In round-robin order.
            let id = ConsumerId(turn % consumers + 1);
            queue.take(id, Portion { messages: 1, bytes: u64::MAX }, turn, &mut taken, &mut effects);
            let run = taken.pop().expect("its turn has come").run();
            queue.settle(Deliveries::of(Some(id), &[run]), Departure::Settled, turn, &mut effects);
        }
    });
    AMONG_MESSAGES
}

pub(crate) fn among_10_consumers() -> u64 {
    among(10)
}

pub(crate) fn among_60000_consumers() -> u64 {
    among(60_000)
}

/// One acknowledgement of the messages of sixty thousand consumers, one each, and their next deliveries.
pub(crate) fn acknowledge_of_60000_consumers() -> u64 {
    const CONSUMERS: u64 = 60_000;
    let mut queue = Queue::new(QueueOptions::default(), true, Replica::default(), surroundings(), 0);
    let envelope = Envelope { routing_key: QUEUE.as_bytes(), received_ms: NOW_MS, ..Envelope::default() };
    let mut builder = BatchBuilder::default();
    for _ in 0..1000 {
        builder.push(&envelope, &[0x10, 0, 2], BODY);
    }
    let batch = Arc::new(builder.finish());
    for _ in 0..2 * CONSUMERS / 1000 {
        let submission = ledger(&mut queue).submit(BatchPart::of(&batch, 0, 1000), 0).expect("it is open");
        ledger(&mut queue).submitted(
            submission,
            BatchPart::whole(&batch),
            Placement::Volatile,
            0,
            &mut Effects::default(),
        );
    }
    let mut held = Vec::new();
    for id in (1..=CONSUMERS).map(ConsumerId) {
        let options = ConsumerOptions { key: id.0, flow: ConsumerFlow::Prefetch(1), ..options() };
        queue.add(id, options, 0, &mut Effects::default()).expect("none is exclusive");
        let mut taken = Vec::new();
        queue.take(id, Portion { messages: 1, bytes: u64::MAX }, 0, &mut taken, &mut Effects::default());
        held.push((Some(id), taken.iter().map(Taken::run).collect::<Vec<Run>>()));
    }
    count(|| queue.acknowledge(&held, 0, &mut Effects::default()));
    assert_eq!((queue.status().unacknowledged, queue.size().0), (0, CONSUMERS));
    CONSUMERS
}
