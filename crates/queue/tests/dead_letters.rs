//! Dead-lettered messages, from their queue's side: the messages of a turn, reads from disk, and checkpoints.

mod plain;

use std::sync::Arc;

use leveret_message::{Batch, BatchBuilder, BatchPart, Envelope, Reason};
use leveret_model::{DeadLetterOptions, Overflow, QueueOptions};
use leveret_queue::dead_letter::TURN_MESSAGES_MAX;
use leveret_queue::{
    DeadRun, DeadTurn, Deliveries, Effects, GetOutcome, GroupPlace, LedgerQueue, Link, MemoryBudget, Place, Placement,
    Rejection, Replica, Run, Signal, StoredRead, Watermarks,
};

use crate::plain::{live, placement, surroundings};

struct Nobody;

impl Link for Nobody {
    fn signal(&self, _: Signal) {}
}

fn queue(max_length: Option<u64>) -> LedgerQueue {
    let dead_letter = Some(DeadLetterOptions { exchange: "dlx".into(), ..DeadLetterOptions::default() });
    let options = QueueOptions { max_length, overflow: Overflow::DropHead, dead_letter, ..QueueOptions::default() };
    LedgerQueue::new(options, true, Replica::default(), surroundings(Arc::new(MemoryBudget::new(1 << 20))), 0)
}

fn batch(count: u64, body: &[u8]) -> Arc<Batch> {
    let mut builder = BatchBuilder::default();
    for _ in 0..count {
        builder.push(&Envelope { durable: true, ..Envelope::default() }, b"\0\0", body);
    }
    Arc::new(builder.finish())
}

fn publish(queue: &mut LedgerQueue, count: u64, durable: bool) -> Effects {
    let batch = batch(count, b"body");
    let mut effects = Effects::default();
    let submission = queue.submit(BatchPart::of(&batch, 0, count as u32), 0).unwrap();
    queue.submitted(submission, BatchPart::whole(&batch), placement(durable.then_some(1)), 0, &mut effects);
    queue.apply(Watermarks::synced(Place::new(1)), &mut effects);
    effects
}

/// Takes and rejects the oldest message.
fn reject(queue: &mut LedgerQueue) -> u64 {
    let link: Arc<dyn Link> = Arc::new(Nobody);
    let mut effects = Effects::default();
    let GetOutcome::Message(taken, _) = queue.get(false, &link, 0, 0, &mut effects) else { panic!("nothing is ready") };
    let run = Run { first: taken.first, last: taken.first, bytes: 4, durable: taken.durable };
    assert_eq!(queue.reject(Deliveries::of(None, &[run]), true, 0, &mut effects), Rejection::Dying);
    assert!(effects.dead_letters);
    taken.first
}

fn taken(turn: DeadTurn) -> Vec<DeadRun> {
    match turn {
        DeadTurn::Move(runs) => runs,
        other => panic!("{other:?}"),
    }
}

fn counters(queue: &LedgerQueue) -> (u64, u64, u64) {
    let status = queue.status();
    let counters = status.conservation;
    assert_eq!(counters.accepted, counters.gone() + status.ready + status.unacknowledged);
    (counters.dead_lettered, counters.dropped, status.moving)
}

#[test]
fn a_checkpoint_contains_dead_letters_until_they_have_moved() {
    let mut queue = queue(Some(2));
    let effects = publish(&mut queue, 5, true);
    assert!(effects.dead_letters && effects.rare().is_none());
    assert_eq!((queue.ready(), counters(&queue)), (2, (3, 0, 3)));
    let (numbers, bytes) = live(&queue);
    assert_eq!((numbers.len(), bytes), (5, 20));
    let mut effects = Effects::default();
    let runs = taken(queue.dead_turn(&mut effects));
    assert_eq!((runs.len(), runs[0].first, runs[0].count, runs[0].reason), (1, 0, 3, Reason::MaxLen));
    assert!(matches!(queue.dead_turn(&mut effects), DeadTurn::Wait), "one at a time");
    assert_eq!(queue.checkpoint().live.len(), 5, "it may not have moved yet");
    let logged = queue.moved(1, &mut effects);
    assert_eq!(logged, [Run { first: 0, last: 2, bytes: 12, durable: true }]);
    assert!(!effects.dead_letters);
    assert_eq!((live(&queue), counters(&queue)), (([3, 4].into_iter().collect(), 8), (2, 1, 0)));
    assert!(matches!(queue.dead_turn(&mut effects), DeadTurn::Nothing));
}

#[test]
fn a_turn_takes_a_limited_number_and_leaves_the_rest_in_order() {
    let mut queue = queue(Some(0));
    publish(&mut queue, 600, true);
    let mut effects = Effects::default();
    let (mut next, mut turns) = (0, 0);
    loop {
        let runs = match queue.dead_turn(&mut effects) {
            DeadTurn::Nothing => break,
            turn => taken(turn),
        };
        turns += 1;
        assert!(runs.iter().map(|run| run.count).sum::<u32>() <= TURN_MESSAGES_MAX);
        for run in runs {
            assert_eq!((run.first, u64::from(run.index)), (next, next));
            next += u64::from(run.count);
        }
        let logged = queue.moved(0, &mut effects);
        assert_eq!(logged.iter().map(|run| run.last + 1).max(), Some(next));
    }
    assert_eq!((next, turns), (600, 3));
    assert_eq!(counters(&queue), (600, 0, 0));
    assert_eq!(live(&queue), (Default::default(), 0));
}

#[test]
fn rejected_messages_are_read_back_unless_they_are_volatile() {
    let mut queue = queue(None);
    publish(&mut queue, 1, true);
    publish(&mut queue, 1, false);
    let first = reject(&mut queue);
    let second = reject(&mut queue);
    let mut effects = Effects::default();
    assert!(matches!(queue.dead_turn(&mut effects), DeadTurn::Wait));
    assert_eq!(effects.rare().and_then(|rare| rare.read_dead), Some(first));
    assert!(matches!(queue.dead_turn(&mut effects), DeadTurn::Wait), "it is being read");
    queue.loaded(StoredRead::DeadLetters, vec![(first, batch(1, b"body"))], 0, &mut effects);
    let runs = taken(queue.dead_turn(&mut effects));
    let found: Vec<_> = runs.iter().map(|run| (run.first, run.durable, run.reason)).collect();
    assert_eq!(found, [(first, true, Reason::Rejected), (second, false, Reason::Rejected)]);
    assert_eq!(queue.moved(0, &mut effects).len(), 1, "only one is in the log");
    assert_eq!((counters(&queue), queue.status().memory), ((2, 0, 0), 0));
}

#[test]
fn a_queue_fails_and_keeps_a_dead_letter_that_cannot_be_read() {
    let mut queue = queue(None);
    publish(&mut queue, 1, true);
    reject(&mut queue);
    let mut effects = Effects::default();
    queue.dead_turn(&mut effects);
    queue.loaded(StoredRead::DeadLetters, Vec::new(), 0, &mut effects);
    assert!(matches!(queue.state(), leveret_queue::QueueState::Failed(_)));
    assert_eq!(queue.checkpoint().live.len(), 1);
    assert!(matches!(queue.dead_turn(&mut effects), DeadTurn::Nothing));
}

#[test]
fn volatile_dead_letters_wait_up_to_a_limit() {
    let mut queue = queue(Some(0));
    let large = vec![7; 1 << 20];
    for _ in 0..20 {
        let batch = batch(1, &large);
        let mut effects = Effects::default();
        let submission = queue.submit(BatchPart::of(&batch, 0, 1), 0).unwrap();
        queue.submitted(submission, BatchPart::whole(&batch), Placement::Volatile, 0, &mut effects);
    }
    let (dead, dropped, moving) = counters(&queue);
    assert_eq!((dead, dropped, moving), (15, 5, 15), "16 MiB with what each costs");
}

#[test]
fn messages_of_an_open_group_and_those_behind_them_wait_for_it() {
    let mut queue = queue(None);
    let group = Arc::new(GroupPlace::default());
    let mut effects = Effects::default();
    let first = queue.submit(BatchPart::of(&batch(1, b"in"), 0, 1), 0).unwrap();
    queue.submitted(first, BatchPart::whole(&batch(1, b"in")), Placement::In(&group), 0, &mut effects);
    let behind = queue.submit(BatchPart::of(&batch(1, b"behind"), 0, 1), 0).unwrap();
    queue.submitted(behind, BatchPart::whole(&batch(1, b"behind")), Placement::At(Place::new(3)), 0, &mut effects);
    let volatile = queue.submit(BatchPart::of(&batch(1, b"volatile"), 0, 1), 0).unwrap();
    queue.submitted(volatile, BatchPart::whole(&batch(1, b"volatile")), Placement::Volatile, 0, &mut effects);
    queue.apply(Watermarks::synced(Place::new(100)), &mut effects);
    assert_eq!((queue.ready(), queue.pending_place()), (0, Some(Place::new(3))));
    group.close(Place::new(7));
    queue.apply(Watermarks::synced(Place::new(6)), &mut effects);
    assert_eq!(queue.ready(), 0);
    queue.apply(Watermarks::synced(Place::new(7)), &mut effects);
    assert_eq!(queue.ready(), 3);
}
