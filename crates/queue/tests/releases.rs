//! The queue of a delayed exchange: its messages are never ready, but leave for the exchange when they are due.

mod plain;

use std::sync::Arc;

use leveret_message::{Added, Batch, BatchBuilder, BatchPart, Envelope};
use leveret_model::{DeadLetterOptions, QueueOptions, QueueType};
use leveret_queue::{
    DeadRun, DeadTurn, Effects, Epoch, Ledger, LedgerQueue, MemoryBudget, Parts, Place, Replica, SetAside, StoredRead,
    Watermarks,
};

use crate::plain::{live, placement, surroundings};

const SECOND: u64 = 1_000_000_000;
const ALL: u64 = 100;

fn queue(replica: Replica, now: u64) -> LedgerQueue {
    let dead_letter = Some(DeadLetterOptions { exchange: "x".into(), ..DeadLetterOptions::default() });
    let options =
        QueueOptions { queue_type: QueueType::Quorum, dead_letter, releases: true, ..QueueOptions::default() };
    LedgerQueue::new(options, true, replica, surroundings(Arc::new(MemoryBudget::new(1 << 20))), now)
}

/// Messages received at time 0 that are due after these delays, whose time to live is over at once.
fn batch(delays_ms: &[u32]) -> Arc<Batch> {
    let (mut builder, mut plain) = (BatchBuilder::default(), BatchBuilder::default());
    for delay_ms in delays_ms {
        plain.push(&Envelope { durable: true, expiry_ms: 1, ..Envelope::default() }, b"\0\0", b"body");
        let message = plain.finish();
        builder.push_annotated(&message.message(0), &Added::of_delay(u64::from(*delay_ms), *delay_ms));
    }
    Arc::new(builder.finish())
}

fn publish(queue: &mut LedgerQueue, delays_ms: &[u32], now: u64) {
    let (batch, mut effects) = (batch(delays_ms), Effects::default());
    let submission = queue.submit(BatchPart::of(&batch, 0, batch.len() as u32), now).expect("it isn't closed");
    queue.submitted(submission, BatchPart::whole(&batch), placement(Some(1)), now, &mut effects);
    queue.apply(Watermarks::synced(Place::new(1)), &mut effects);
    assert_eq!(queue.status().ready, 0, "none is ever ready");
}

fn due(queue: &mut LedgerQueue, now: u64) -> bool {
    let mut effects = Effects::default();
    queue.run_timers(now, ALL, &mut effects);
    effects.dead_letters
}

/// The numbers of the messages that a turn moves, each read from disk.
fn turn(queue: &mut LedgerQueue) -> Vec<u64> {
    let mut effects = Effects::default();
    loop {
        match queue.dead_turn(&mut effects) {
            DeadTurn::Nothing => return Vec::new(),
            DeadTurn::Move(runs) => {
                let numbers = |run: &DeadRun| run.first..run.first + u64::from(run.count);
                return runs.iter().flat_map(numbers).collect();
            }
            DeadTurn::Wait => {
                let from = effects.rare().and_then(|rare| rare.read_dead).expect("it is read from disk");
                queue.loaded(StoredRead::DeadLetters, vec![(from, batch(&[1]))], 0, &mut effects);
            }
        }
    }
}

fn moved(queue: &mut LedgerQueue) -> Vec<u64> {
    let mut all = Vec::new();
    loop {
        let numbers = turn(queue);
        if numbers.is_empty() {
            return all;
        }
        all.extend(numbers);
        queue.moved(0, &mut Effects::default());
    }
}

/// The queue after a crash that lost nothing before the last checkpoint.
fn restart(queue: &LedgerQueue, now: u64) -> LedgerQueue {
    let checkpoint = queue.checkpoint();
    let Parts { delayed, expiry, attempts, .. } = Parts::decode(&checkpoint.state).expect("it is a state");
    let ledger = Ledger::restore(checkpoint.next, &checkpoint.live, checkpoint.bytes);
    let parts = Parts { delayed, expiry, attempts, ..Parts::default() };
    self::queue(Replica { ledger, parts, ..Replica::default() }, now)
}

#[test]
fn messages_leave_in_the_order_in_which_they_come_due() {
    let mut queue = queue(Replica::default(), 0);
    publish(&mut queue, &[5000, 2000, 4000, 2000], 0);
    assert_eq!(queue.set_aside(SetAside::Delayed), (4, 16));
    assert_eq!(
        queue.announce_deadlines().soonest(&Epoch::default()),
        Some(2 * SECOND),
        "a time to live means nothing here"
    );
    assert!(!due(&mut queue, 2 * SECOND - 1));
    assert!(due(&mut queue, 2 * SECOND));
    assert_eq!(moved(&mut queue), [1, 3]);
    assert_eq!(queue.set_aside(SetAside::Delayed), (2, 8));
    assert!(due(&mut queue, 9 * SECOND));
    assert_eq!(moved(&mut queue), [2, 0]);
    assert_eq!((live(&queue).0.len(), queue.status().conservation.dead_lettered), (0, 4));
}

#[test]
fn messages_due_in_any_order_are_read_many_at_a_time() {
    const COUNT: u32 = 600;
    let mut queue = queue(Replica::default(), 0);
    let delays: Vec<u32> = (0..COUNT).map(|at| 1000 + at * 7 % COUNT).collect();
    publish(&mut queue, &delays, 0);
    while due(&mut queue, 9 * SECOND) && queue.set_aside(SetAside::Delayed).0 > 0 {}
    let (mut order, mut reads) = (Vec::new(), 0);
    loop {
        let mut effects = Effects::default();
        match queue.dead_turn(&mut effects) {
            DeadTurn::Nothing => break,
            DeadTurn::Move(runs) => {
                order.extend(runs.iter().map(|run| run.first));
                queue.moved(0, &mut Effects::default());
            }
            DeadTurn::Wait => {
                reads += 1;
                let rare = effects.take_rare().expect("it reads");
                let numbers = rare.dead_numbers.iter().flat_map(|(first, last)| *first..=*last);
                let read = numbers.map(|number| (number, batch(&[1]))).collect();
                queue.loaded(StoredRead::DeadLetters, read, 0, &mut Effects::default());
            }
        }
    }
    let mut expected: Vec<u64> = (0..u64::from(COUNT)).collect();
    expected.sort_by_key(|number| delays[*number as usize]);
    assert_eq!((order, reads), (expected, 3));
}

#[test]
fn a_message_that_is_due_before_it_is_on_disk_leaves_then() {
    let mut queue = queue(Replica::default(), 0);
    publish(&mut queue, &[1], SECOND);
    assert!(due(&mut queue, SECOND));
    assert_eq!(moved(&mut queue), [0]);
}

#[test]
fn none_is_lost_by_a_crash_before_it_has_left() {
    let mut queue = queue(Replica::default(), 0);
    publish(&mut queue, &[1000, 9000, 2000, 3000], 0);
    assert!(due(&mut queue, 2 * SECOND));
    assert_eq!(turn(&mut queue), [0], "a read for each");
    assert_eq!(live(&queue).0.len(), 4, "it may not have moved yet");
    let mut again = restart(&queue, 4 * SECOND);
    assert_eq!((again.status().ready, again.set_aside(SetAside::Delayed)), (0, (4, 16)));
    assert!(due(&mut again, 4 * SECOND));
    assert_eq!(moved(&mut again), [0, 2, 3], "also what came due meanwhile");
    let mut again = restart(&again, 4 * SECOND);
    assert_eq!(again.announce_deadlines().soonest(&Epoch::default()), Some(9 * SECOND));
    assert!(due(&mut again, 9 * SECOND));
    assert_eq!(moved(&mut again), [1]);
}
