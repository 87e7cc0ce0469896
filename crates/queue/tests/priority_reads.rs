//! Reads of a quorum queue whose messages of a higher priority are spread over a long backlog.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use leveret_message::{Batch, BatchBuilder, Envelope};
use leveret_model::{Arguments, QueueOptions, QueueType};
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Effects, Epoch, Ledger, LedgerQueue, Link, MemoryBudget,
    Parts, Portion, Priorities, Replica, Signal, StoredRead, Surroundings,
};

const MESSAGES: u64 = 20_000;
const BODY: usize = 1000;
/// Messages that one read brings, about 256 KiB.
const READ: u64 = 256;
const EVERY: u64 = 25;
/// Reads are ahead of the consumer by no more than a few.
const HELD_MAX: u64 = 2 << 20;

#[derive(Default)]
struct Recorder(Mutex<Vec<Signal>>);

impl Link for Recorder {
    fn signal(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}

fn stored(first: u64, count: u64) -> Arc<Batch> {
    let mut builder = BatchBuilder::default();
    for number in first..first + count {
        let envelope = Envelope { durable: true, received_ms: number, ..Envelope::default() };
        builder.push(&envelope, b"\0\0", &[0; BODY]);
    }
    Arc::new(builder.finish())
}

#[test]
fn reads_keep_only_messages_that_are_delivered_together() {
    let mut ledger = Ledger::starting_at(1);
    ledger.accept(1, MESSAGES, MESSAGES * BODY as u64);
    let mut priorities = Priorities::default();
    (1..=MESSAGES).filter(|number| number % EVERY == 0).for_each(|number| priorities.note(number, 9));
    let parts = Parts { priorities, ..Parts::default() };
    let replica = Replica { ledger, parts, ..Replica::default() };
    let options = QueueOptions { queue_type: QueueType::Quorum, ..QueueOptions::default() };
    let budget = Arc::new(MemoryBudget::new(1 << 30));
    let surroundings = Surroundings { budget, epoch: Epoch::default(), strict_compat: false, standing_delay_target: 0 };
    let mut queue = LedgerQueue::new(options, true, replica, surroundings, 0);
    let link = Arc::new(Recorder::default());
    let consumer = ConsumerOptions {
        filter: None,
        stream: None,
        timeout_ms: None,
        user: "u".into(),
        arguments: Arguments::default(),
        link: link.clone(),
        key: 1,
        tag: "t".into(),
        channel: "c".into(),
        automatic_ack: true,
        flow: ConsumerFlow::Prefetch(0),
        priority: 0,
        exclusive: false,
        mode: ConsumerMode::Move,
    };
    let (mut effects, mut most) = (Effects::default(), 0);
    queue.add(ConsumerId(1), consumer, 0, &mut effects).expect("it has no other");
    let (mut high, mut taken) = (true, BTreeSet::new());
    while taken.len() < MESSAGES as usize {
        let mut out = Vec::new();
        queue.take(ConsumerId(1), Portion { messages: 256, bytes: 64 << 10 }, 0, &mut out, &mut effects);
        for run in &out {
            for number in run.first..run.first + u64::from(run.count) {
                high &= number % EVERY == 0;
                assert!(high || number % EVERY != 0, "{number} comes behind one of a lower priority");
                assert!(taken.insert(number));
            }
        }
        most = most.max(queue.gauges().memory);
        if let Some(from) = effects.read.take() {
            let count = READ.min(MESSAGES + 1 - from);
            queue.loaded(StoredRead::Delivery, vec![(from, stored(from, count))], 0, &mut effects);
        } else {
            assert!(!out.is_empty(), "neither a message nor a read after {}", taken.len());
        }
        most = most.max(queue.gauges().memory);
        effects.fire();
        effects = Effects::default();
    }
    assert!(most <= HELD_MAX, "{most} bytes were in memory");
}
