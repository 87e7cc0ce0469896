//! Reads of messages that come due in random order: each names the messages that it is for, and no others are held in memory.

#[allow(dead_code)]
mod plain;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use leveret_message::{Added, Batch, BatchBuilder, BatchPart, Envelope};
use leveret_model::{Arguments, QueueOptions, QueueType};
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Effects, LedgerQueue, Link, MemoryBudget, Place, Portion,
    Replica, Signal, StoredRead, Watermarks,
};

use crate::plain::{placement, surroundings};

const MESSAGES: u64 = 20_000;
const MS: u64 = 1_000_000;
const ALL: u64 = 256;
/// Messages that one read finds, and what they take in memory.
const READ: u64 = 256;
const HELD_MAX: u64 = READ * 600;

#[derive(Default)]
struct Recorder(Mutex<Vec<Signal>>);

impl Link for Recorder {
    fn signal(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}

/// The millisecond in which a message is due.
fn due_ms(number: u64) -> u64 {
    1_000 + number * 7_919 % MESSAGES
}

fn stored(numbers: impl Iterator<Item = u64>) -> Arc<Batch> {
    let (mut builder, mut plain) = (BatchBuilder::default(), BatchBuilder::default());
    for number in numbers {
        plain.push(&Envelope { durable: true, ..Envelope::default() }, b"\0\0", &number.to_be_bytes());
        let message = plain.finish();
        builder.push_annotated(&message.message(0), &Added::of_delay(due_ms(number), 1));
    }
    Arc::new(builder.finish())
}

fn consumer(link: Arc<Recorder>) -> ConsumerOptions {
    ConsumerOptions {
        filter: None,
        stream: None,
        timeout_ms: None,
        user: "u".into(),
        arguments: Arguments::default(),
        link,
        key: 1,
        tag: "t".into(),
        channel: "c".into(),
        automatic_ack: true,
        flow: ConsumerFlow::Prefetch(0),
        priority: 0,
        exclusive: false,
        mode: ConsumerMode::Move,
    }
}

#[test]
fn due_messages_are_read_alone_and_many_at_a_time() {
    let options = QueueOptions { queue_type: QueueType::Quorum, ..QueueOptions::default() };
    let budget = Arc::new(MemoryBudget::new(1 << 30));
    let mut queue = LedgerQueue::new(options, true, Replica::default(), surroundings(budget), 0);
    let (batch, mut effects) = (stored(0..MESSAGES), Effects::default());
    let submission = queue.submit(BatchPart::of(&batch, 0, MESSAGES as u32), 0).expect("it isn't closed");
    queue.submitted(submission, BatchPart::whole(&batch), placement(Some(1)), 0, &mut effects);
    queue.apply(Watermarks::synced(Place::new(1)), &mut effects);
    assert_eq!(queue.gauges().memory, 0, "none is held while it waits");
    queue.add(ConsumerId(1), consumer(Arc::default()), 0, &mut effects).expect("it has no other");

    let (mut order, mut reads, mut most) = (Vec::new(), 0, 0);
    // A consumer that is behind: 100 ms of messages come due at a time.
    for now_ms in (1_000..1_100 + MESSAGES).step_by(100) {
        let now = now_ms * MS;
        loop {
            queue.run_timers(now, ALL, &mut effects);
            let mut out = Vec::new();
            queue.take(ConsumerId(1), Portion { messages: 64, bytes: 1 << 20 }, now, &mut out, &mut effects);
            order.extend(out.iter().flat_map(|taken| taken.first..taken.first + u64::from(taken.count)));
            let read = effects.take_read();
            effects.fire();
            effects = Effects::default();
            let Some((from, numbers)) = read else {
                match out.is_empty() {
                    true => break,
                    false => continue,
                }
            };
            assert_eq!(numbers.first().map(|run| run.0), Some(from), "the one that is needed first");
            let numbers = numbers.into_iter().flat_map(|(first, last)| first..=last);
            let found: BTreeMap<u64, Arc<Batch>> =
                numbers.take(READ as usize).map(|number| (number, stored([number].into_iter()))).collect();
            assert!(found.keys().all(|number| due_ms(*number) <= now_ms), "only what is due is read");
            reads += 1;
            queue.loaded(StoredRead::Delivery, found.into_iter().collect(), now, &mut effects);
            most = most.max(queue.gauges().memory);
        }
    }
    let mut expected: Vec<u64> = (0..MESSAGES).collect();
    expected.sort_by_key(|number| due_ms(*number));
    assert!(order == expected, "{} of {MESSAGES} messages, or in another order", order.len());
    assert!(reads <= MESSAGES / 100 + 1, "{reads} reads");
    assert!(most <= HELD_MAX, "{most} bytes in memory");
}
