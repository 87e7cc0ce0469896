//! The state machine of a classic queue: durable messages in runs, one consumer.

use std::sync::Arc;

use leveret_message::{Batch, BatchBuilder, Envelope};
use leveret_model::{Arguments, QueueOptions};
use leveret_queue::{
    ClassicQueue, ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Effects, Ledger, Link, MemoryBudget,
    Outcome, Run, Signal, Taken,
};

use crate::count::count;
use crate::{BODY, MESSAGES, NOW_MS, QUEUE, RUN};

const CONSUMER: ConsumerId = ConsumerId(1);
const RUNS: u64 = MESSAGES / RUN;

struct Nobody;

impl Link for Nobody {
    fn signal(&self, _: Signal) {}
}

/// A queue, and as many batches for it as there are runs.
fn prepared() -> (ClassicQueue, Vec<Arc<Batch>>) {
    let budget = Arc::new(MemoryBudget::new(1 << 30));
    let mut queue = ClassicQueue::new(QueueOptions::default(), true, Ledger::default(), 0, budget, 0);
    let consumer = ConsumerOptions {
        link: Arc::new(Nobody),
        key: 1,
        tag: "consumer".into(),
        channel: "channel".into(),
        automatic_ack: false,
        flow: ConsumerFlow::Prefetch(0),
        priority: 0,
        exclusive: false,
        mode: ConsumerMode::Move,
        user: "guest".into(),
        arguments: Arguments::default(),
    };
    assert!(queue.add_consumer(CONSUMER, consumer, 0, &mut Effects::default()));
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

/// Both phases, as if each run were durable at once.
fn publish(queue: &mut ClassicQueue, batches: &[Arc<Batch>]) {
    for (position, batch) in (1..).zip(batches) {
        let mut effects = Effects::default();
        let submission = queue.submit(batch, 0, RUN as u32, position);
        queue.submitted(submission, batch.clone(), 0, Some(position), position, &mut effects);
        queue.apply(position, &mut effects);
    }
}

fn take_all(queue: &mut ClassicQueue, taken: &mut Vec<Taken>) {
    for now in 0..RUNS {
        queue.take(CONSUMER, RUN as u32, u64::MAX, now, taken, &mut Effects::default());
    }
}

pub(crate) fn submit() -> u64 {
    let (mut queue, batches) = prepared();
    count(|| publish(&mut queue, &batches));
    queue.ready()
}

pub(crate) fn take() -> u64 {
    let (mut queue, batches) = prepared();
    publish(&mut queue, &batches);
    let mut taken = Vec::with_capacity(batches.len());
    count(|| take_all(&mut queue, &mut taken));
    assert_eq!(queue.ready(), 0, "all were taken");
    taken.iter().map(|run| u64::from(run.count)).sum()
}

/// Each run as one acknowledgement of multiple messages leaves it.
pub(crate) fn settle() -> u64 {
    let (mut queue, batches) = prepared();
    publish(&mut queue, &batches);
    let mut taken = Vec::new();
    take_all(&mut queue, &mut taken);
    let runs: Vec<Run> = taken.iter().map(Taken::run).collect();
    count(|| {
        for run in &runs {
            queue.settle(Some(CONSUMER), &[*run], Outcome::Settled, 0, &mut Effects::default());
        }
    });
    assert_eq!(queue.status().unacknowledged, 0, "all were settled");
    runs.iter().map(Run::count).sum()
}
