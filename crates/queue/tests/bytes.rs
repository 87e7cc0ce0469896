//! Body bytes: the bytes logged for departing messages are the bytes that a replay has to subtract, however they were counted.

mod plain;

use std::sync::Arc;

use leveret_message::{Batch, BatchBuilder, BatchPart, Envelope};
use leveret_model::{DeadLetterOptions, Overflow, QueueOptions, QueueType};
use leveret_queue::{
    DeadTurn, Deliveries, Departure, Dying, DyingRun, Effects, GetOutcome, Ledger, LedgerQueue, Link, MemoryBudget,
    Parts, Place, Rejection, Replica, Run, Signal, StoredRead, Taken, Watermarks, joined,
};

use crate::plain::{live, placement, surroundings};

struct Nobody;

impl Link for Nobody {
    fn signal(&self, _: Signal) {}
}

fn queue(dead_letters: bool) -> LedgerQueue {
    let dead_letter =
        dead_letters.then(|| DeadLetterOptions { exchange: "dlx".into(), ..DeadLetterOptions::default() });
    let options = QueueOptions { dead_letter, ..QueueOptions::default() };
    LedgerQueue::new(options, true, Replica::default(), surroundings(Arc::new(MemoryBudget::new(1 << 20))), 0)
}

fn batch(lengths: &[usize], durable: bool) -> Arc<Batch> {
    let mut builder = BatchBuilder::default();
    for length in lengths {
        builder.push(&Envelope { durable, ..Envelope::default() }, b"\0\0", &vec![7; *length]);
    }
    Arc::new(builder.finish())
}

fn publish(queue: &mut LedgerQueue, lengths: &[usize], durable: bool) {
    let (batch, mut effects) = (batch(lengths, durable), Effects::default());
    let submission = queue.submit(BatchPart::of(&batch, 0, lengths.len() as u32), 0).unwrap();
    queue.submitted(submission, BatchPart::whole(&batch), placement(durable.then_some(1)), 0, &mut effects);
    queue.apply(Watermarks::synced(Place::new(1)), &mut effects);
}

fn get(queue: &mut LedgerQueue) -> Taken {
    let link: Arc<dyn Link> = Arc::new(Nobody);
    match queue.get(false, &link, 0, 0, &mut Effects::default()) {
        GetOutcome::Message(taken, _) => taken,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_purge_leaves_unacknowledged_bytes_on_replay_too() {
    let mut queue = queue(false);
    publish(&mut queue, &[100], false);
    publish(&mut queue, &[20, 30, 40], true);
    let taken: Vec<Taken> = (0..2).map(|_| get(&mut queue)).collect();
    // The volatile message is requeued, alone in front of the one that stays unacknowledged.
    queue.requeue(Deliveries::of(None, &[taken[0].run()]), false, 0, &mut Effects::default());
    let (count, runs) = queue.purge(0, &mut Effects::default());
    assert_eq!((count, queue.status().bytes), (3, 20));
    // A replay doesn't know number 0.
    let mut replayed = Ledger::default();
    replayed.accept(1, 3, 90);
    for run in &runs {
        replayed.settle(run.first, run.last, run.bytes, Departure::Purged);
    }
    assert_eq!((replayed.len(), replayed.bytes()), (1, 20));
    assert_eq!(live(&queue), (replayed.live_set(), 20));
}

#[test]
fn returned_runs_keep_the_size_of_each_message() {
    let mut queue = queue(false);
    publish(&mut queue, &[7, 7, 100, 3], true);
    let first = get(&mut queue);
    let taken = Taken { batch: batch(&[7, 7, 100, 3], true), count: 4, ..first };
    let runs = taken.runs();
    assert_eq!(
        runs.iter().map(|run| (run.first, run.last, run.bytes)).collect::<Vec<_>>(),
        [(0, 1, 14), (2, 2, 100), (3, 3, 3)]
    );
    assert_eq!(joined(&runs).collect::<Vec<_>>(), [taken.run()]);
    let apart = [runs[0], Run { durable: false, ..runs[1] }, Run { first: 5, last: 5, ..runs[2] }];
    assert_eq!(joined(&apart).collect::<Vec<_>>(), apart, "neighbours that differ, or have a gap between them, stay");
}

#[test]
fn dead_letters_moved_in_turns_leave_with_their_own_bytes() {
    let mut queue = queue(true);
    publish(&mut queue, &[1_000, 1, 1, 1], true);
    let taken: Vec<Taken> = (0..4).map(|_| get(&mut queue)).collect();
    let all = Run { last: taken[3].first, bytes: 1_003, ..taken[0].run() };
    assert_eq!(queue.reject(Deliveries::of(None, &[all]), true, 0, &mut Effects::default()), Rejection::Dying);
    let mut replayed = Ledger::default();
    replayed.accept(0, 4, 1_003);
    // They are read back in two pieces.
    for (first, lengths) in [(0, &[1_000, 1][..]), (2, &[1, 1])] {
        assert!(matches!(queue.dead_turn(&mut Effects::default()), DeadTurn::Wait));
        queue.loaded(StoredRead::DeadLetters, vec![(first, batch(lengths, true))], 0, &mut Effects::default());
        assert!(matches!(queue.dead_turn(&mut Effects::default()), DeadTurn::Move(_)));
        for run in queue.moved(0, &mut Effects::default()) {
            replayed.settle(run.first, run.last, run.bytes, Departure::DeadLettered);
        }
        assert_eq!(live(&queue), (replayed.live_set(), replayed.bytes()));
        assert_eq!(replayed.bytes(), if first == 0 { 2 } else { 0 });
    }
}

#[test]
fn volatile_messages_requeued_to_a_failed_queue_add_no_bytes() {
    let mut queue = queue(false);
    publish(&mut queue, &[100], false);
    publish(&mut queue, &[20, 30], true);
    let taken = get(&mut queue);
    queue.fail("the disk".into(), &mut Effects::default());
    queue.requeue(Deliveries::of(None, &[taken.run()]), false, 0, &mut Effects::default());
    let status = queue.status();
    assert_eq!((status.ready, status.ready_bytes, status.bytes), (2, 50, 50));
    let (count, runs) = queue.purge(0, &mut Effects::default());
    assert_eq!((count, runs.iter().map(|run| run.bytes).sum::<u64>()), (2, 50));
}

/// A queue that keeps its dead letters, with messages of these sizes that were rejected, and that no queue takes. Also returns the runs
/// that are logged.
fn blocked(lengths: &[usize]) -> (LedgerQueue, Vec<DyingRun>) {
    let dead_letter = DeadLetterOptions { exchange: "dlx".into(), at_least_once: true, ..DeadLetterOptions::default() };
    let options = QueueOptions {
        queue_type: QueueType::Quorum,
        overflow: Overflow::RejectPublish,
        dead_letter: Some(dead_letter),
        ..QueueOptions::default()
    };
    let surroundings = surroundings(Arc::new(MemoryBudget::new(1 << 20)));
    let mut queue = LedgerQueue::new(options, true, Replica::default(), surroundings, 0);
    publish(&mut queue, lengths, true);
    let taken: Vec<Taken> = lengths.iter().map(|_| get(&mut queue)).collect();
    let runs: Vec<Run> = taken.iter().flat_map(Taken::runs).collect();
    assert_eq!(queue.reject(Deliveries::of(None, &runs), true, 0, &mut Effects::default()), Rejection::Dying);
    let mut dying = Vec::new();
    while let DeadTurn::Move(_) | DeadTurn::Wait = turn(&mut queue, lengths) {
        let mut effects = Effects::default();
        queue.dead_blocked(0, &mut effects);
        dying.append(&mut effects.rare_mut().dying);
    }
    (queue, dying)
}

/// The next turn of dead letters, which are read back as far as that is necessary.
fn turn(queue: &mut LedgerQueue, lengths: &[usize]) -> DeadTurn {
    let mut effects = Effects::default();
    let turn = queue.dead_turn(&mut effects);
    let Some(first) = effects.rare().and_then(|rare| rare.read_dead) else { return turn };
    let read = vec![(first, batch(&lengths[first as usize..], true))];
    queue.loaded(StoredRead::DeadLetters, read, 0, &mut Effects::default());
    queue.dead_turn(&mut Effects::default())
}

#[test]
fn dying_messages_are_logged_with_their_own_sizes() {
    let (_, logged) = blocked(&[1, 1_000, 1_000, 7]);
    assert_eq!(
        logged.iter().map(|run| (run.first, run.last, run.bytes)).collect::<Vec<_>>(),
        [(0, 0, 1), (1, 2, 2_000), (3, 3, 7)]
    );
    // After the record of these, another one said that the first two have moved.
    let mut dying = Dying::default();
    logged.iter().for_each(|run| dying.add(run));
    dying.keep(|number| number > 1);
    assert_eq!(dying.runs().iter().map(|run| run.bytes).sum::<u64>(), 1_007);
}

#[test]
fn dying_messages_tried_in_parts_leave_with_their_own_sizes() {
    // One try takes 256 of them: the large ones, and a few more.
    let lengths: Vec<usize> = (0..400).map(|at| if at < 250 { 1_000 } else { 9 }).collect();
    let (mut queue, _) = blocked(&lengths);
    let mut now = 0;
    for left in [144 * 9, 0] {
        now += 1_000_000_000;
        queue.run_timers(now, 1_000, &mut Effects::default());
        let DeadTurn::Move(_) = turn(&mut queue, &lengths) else { panic!("they are tried again") };
        queue.moved(0, &mut Effects::default());
        let quorum = queue.status().quorum.expect("it is a quorum queue");
        assert_eq!((quorum.dying_bytes, live(&queue).1), (left, left));
    }
}

#[test]
fn a_failed_queue_keeps_the_sizes_of_dying_messages() {
    let (mut queue, _) = blocked(&[1, 1_000, 7]);
    queue.run_timers(1_000_000_000, 1_000, &mut Effects::default());
    queue.fail("the disk".into(), &mut Effects::default());
    let mut dying = Parts::decode(&queue.checkpoint().state).expect("it is whole").dying;
    dying.keep(|number| number == 2);
    assert_eq!(dying.runs().iter().map(|run| run.bytes).sum::<u64>(), 7);
}
