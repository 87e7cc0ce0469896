//! A queue reports that its consumers are behind although they have credit; its publishers then yield the processors to them.

use std::sync::Arc;

use leveret_message::{BatchBuilder, BatchPart, Envelope};
use leveret_model::{Arguments, QueueOptions};
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Effects, Epoch, LedgerQueue, Link, MemoryBudget, Place,
    Placement, Portion, Replica, Signal, Surroundings, Watermarks,
};

fn surroundings(budget: Arc<MemoryBudget>) -> Surroundings {
    Surroundings { budget, epoch: Epoch::default(), strict_compat: false, standing_delay_target: 0 }
}

const CONSUMER: ConsumerId = ConsumerId(1);

struct Nobody;

impl Link for Nobody {
    fn signal(&self, _: Signal) {}
}

fn queue() -> LedgerQueue {
    let budget = Arc::new(MemoryBudget::new(1 << 30));
    LedgerQueue::new(QueueOptions::default(), true, Replica::default(), surroundings(budget), 0)
}

fn consume(queue: &mut LedgerQueue) {
    let options = ConsumerOptions {
        filter: None,
        stream: None,
        timeout_ms: None,
        user: "u".into(),
        arguments: Arguments::default(),
        link: Arc::new(Nobody),
        key: 1,
        tag: "t".into(),
        channel: "c".into(),
        automatic_ack: false,
        flow: ConsumerFlow::Prefetch(100),
        priority: 0,
        exclusive: false,
        mode: ConsumerMode::Move,
    };
    assert!(queue.add(CONSUMER, options, 0, &mut Effects::default()).is_ok());
}

/// A hundred messages of a kilobyte each.
fn publish(queue: &mut LedgerQueue, position: u64) {
    let mut builder = BatchBuilder::default();
    for _ in 0..100 {
        builder.push(&Envelope { durable: true, ..Envelope::default() }, b"\0\0", &[7; 1024]);
    }
    let (batch, mut effects) = (Arc::new(builder.finish()), Effects::default());
    let submission = queue.submit(BatchPart::of(&batch, 0, 100), 0).unwrap();
    queue.submitted(submission, BatchPart::whole(&batch), Placement::At(Place::new(position)), 0, &mut effects);
    queue.apply(Watermarks::synced(Place::new(position)), &mut effects);
}

#[test]
fn a_long_queue_is_behind_while_a_consumer_could_take_messages() {
    let mut queue = queue();
    consume(&mut queue);
    (1..=150).for_each(|position| publish(&mut queue, position));
    assert!(!queue.is_behind(), "15 MB are on their way");
    (151..=200).for_each(|position| publish(&mut queue, position));
    assert!(queue.is_behind());
    // Its prefetch is used up: now the queue waits for the client, and may accept messages.
    let mut taken = Vec::new();
    queue.take(CONSUMER, Portion { messages: 100, bytes: u64::MAX }, 0, &mut taken, &mut Effects::default());
    assert_eq!(taken.iter().map(|taken| taken.count).sum::<u32>(), 100);
    assert!(!queue.is_behind());
}

#[test]
fn a_long_queue_without_consumers_is_not_behind() {
    let mut queue = queue();
    (1..=300).for_each(|position| publish(&mut queue, position));
    assert!(!queue.is_behind(), "30 MB, some of them on the disk only");
    consume(&mut queue);
    assert!(queue.is_behind());
}
