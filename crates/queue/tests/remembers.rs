//! The queue of a recent history exchange: the last messages, in the order in which they came, whatever they ask for.

mod plain;

use std::sync::Arc;

use leveret_message::{Added, BatchBuilder, BatchPart, Envelope};
use leveret_model::{QueueOptions, QueueType};
use leveret_queue::{Effects, Ledger, LedgerQueue, MemoryBudget, Parts, Place, Priorities, Replica, Watermarks};

use crate::plain::{live, placement, surroundings};

const SECOND: u64 = 1_000_000_000;
const ALL: u64 = 100;

fn queue(replica: Replica, now: u64) -> LedgerQueue {
    let options = QueueOptions {
        queue_type: QueueType::Quorum,
        remembers: true,
        max_length: Some(3),
        max_length_bytes: Some(100),
        ..QueueOptions::default()
    };
    LedgerQueue::new(options, true, replica, surroundings(Arc::new(MemoryBudget::new(1 << 20))), now)
}

fn publish(queue: &mut LedgerQueue, priority: u8, body: &[u8]) {
    let (mut builder, mut plain) = (BatchBuilder::default(), BatchBuilder::default());
    plain.push(
        &Envelope { durable: true, expiry_ms: 1, priority: Some(priority), ..Envelope::default() },
        b"\0\0",
        body,
    );
    let message = plain.finish();
    builder.push_annotated(&message.message(0), &Added::of_delay(9_000, 9_000));
    let (batch, mut effects) = (Arc::new(builder.finish()), Effects::default());
    let submission = queue.submit(BatchPart::of(&batch, 0, 1), 0).expect("it isn't closed");
    queue.submitted(submission, BatchPart::whole(&batch), placement(Some(1)), 0, &mut effects);
    queue.apply(Watermarks::synced(Place::new(1)), &mut effects);
}

fn numbers(queue: &LedgerQueue) -> Vec<u64> {
    queue.peek(0, 100).iter().map(|peeked| peeked.number).collect()
}

#[test]
fn times_and_priorities_of_messages_mean_nothing() {
    let mut queue = queue(Replica::default(), 0);
    for priority in [1, 9, 0, 9, 1] {
        publish(&mut queue, priority, b"body");
    }
    assert_eq!((numbers(&queue), live(&queue).0.len()), (vec![2, 3, 4], 3));
    assert!(queue.announce_deadlines().is_none());
    queue.run_timers(9 * SECOND, ALL, &mut Effects::default());
    assert_eq!(numbers(&queue), [2, 3, 4], "their times to live are over");
    let checkpoint = queue.checkpoint();
    let Parts { delayed, expiry, .. } = Parts::decode(&checkpoint.state).expect("it is a state");
    let ledger = Ledger::restore(checkpoint.next, &checkpoint.live, checkpoint.bytes);
    let mut priorities = Priorities::default();
    priorities.note(4, 9);
    let parts = Parts { delayed, expiry, priorities, ..Parts::default() };
    let mut again = self::queue(Replica { ledger, parts, ..Replica::default() }, 9 * SECOND);
    again.run_timers(9 * SECOND, ALL, &mut Effects::default());
    assert_eq!(numbers(&again), [2, 3, 4]);
}

#[test]
fn bytes_are_limited_too() {
    let mut queue = queue(Replica::default(), 0);
    publish(&mut queue, 0, &[0; 60]);
    publish(&mut queue, 0, &[0; 60]);
    assert_eq!(numbers(&queue), [1]);
}
