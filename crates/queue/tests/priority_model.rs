//! A classic queue with priorities against a naive reference: a sorted list. Messages are fetched one by one, come back, are
//! dropped at a limit, are on disk, and survive crashes and clean stops.

mod plain;

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_message::{Batch, BatchBuilder, BatchPart, Envelope};
use leveret_model::QueueOptions;
use leveret_queue::{
    Deliveries, Departure, Effects, GetOutcome, Ledger, LedgerQueue, Link, MemoryBudget, Parts, Place, Replica, Run,
    Signal, StoredRead, Watermarks,
};
use proptest::prelude::*;

use crate::plain::{live, placement, surroundings};

struct Deaf;

impl Link for Deaf {
    fn signal(&self, _: Signal) {}
}

const BODY: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    priority: Option<u8>,
    durable: bool,
    /// It came back since the last crash.
    came_back: bool,
    /// Its delivery failed, which a checkpoint knows.
    failed: bool,
    /// The queue hasn't stopped cleanly since a crash.
    crashed: bool,
}

fn batch(priorities: &[Option<u8>], durable: bool) -> Arc<Batch> {
    let mut builder = BatchBuilder::default();
    for priority in priorities {
        let envelope = Envelope { durable, received_ms: 1, priority: *priority, ..Envelope::default() };
        builder.push(&envelope, b"\0\0", &[0; BODY]);
    }
    Arc::new(builder.finish())
}

struct Rig {
    options: QueueOptions,
    max: u8,
    queue: LedgerQueue,
    link: Arc<dyn Link>,
    /// The ready messages by number, and those that are fetched.
    ready: BTreeMap<u64, Known>,
    held: BTreeMap<u64, Known>,
    position: u64,
}

impl Rig {
    fn new(max: u8, max_length: Option<u64>) -> Self {
        let options = QueueOptions { max_priority: Some(max), max_length, ..QueueOptions::default() };
        let queue = Self::queue(&options, Replica::default());
        let (ready, held) = (BTreeMap::new(), BTreeMap::new());
        Self { options, max, queue, link: Arc::new(Deaf), ready, held, position: 0 }
    }

    /// Durable messages leave memory at once.
    fn queue(options: &QueueOptions, replica: Replica) -> LedgerQueue {
        LedgerQueue::new(options.clone(), true, replica, surroundings(Arc::new(MemoryBudget::new(0))), 0)
    }

    /// The numbers in the order of their delivery.
    fn order(&self) -> Vec<u64> {
        let mut order: Vec<_> = self.ready.iter().collect();
        order.sort_by_key(|(number, known)| (self.max - known.priority.unwrap_or(0).min(self.max), **number));
        order.into_iter().map(|(number, _)| *number).collect()
    }

    fn publish(&mut self, priorities: &[Option<u8>], durable: bool) {
        let batch = batch(priorities, durable);
        let count = priorities.len() as u32;
        let submission = self.queue.submit(BatchPart::of(&batch, 0, count), 0).expect("it is open");
        assert_eq!(submission.accepted, count, "dropping the head makes room");
        let position = durable.then(|| {
            self.position += 1;
            self.position
        });
        let mut effects = Effects::default();
        self.queue.submitted(submission, BatchPart::whole(&batch), placement(position), 0, &mut effects);
        self.queue.apply(Watermarks::synced(Place::new(self.position)), &mut effects);
        for (number, priority) in (submission.first..).zip(priorities) {
            self.ready.insert(
                number,
                Known { priority: *priority, durable, came_back: false, failed: false, crashed: false },
            );
        }
        self.after(effects);
    }

    /// Does the reads that the queue asks for, and drops what it dropped.
    fn after(&mut self, mut effects: Effects) {
        loop {
            for run in effects.rare().map_or(&[][..], |rare| &rare.drops) {
                for number in run.first..=run.last {
                    assert_eq!(self.order().first(), Some(&number), "the one to be delivered next is dropped");
                    self.ready.remove(&number);
                }
            }
            let Some(from) = effects.read.take() else { break };
            let all = self.ready.iter().chain(&self.held);
            let mut stored: Vec<_> = all.filter(|(number, known)| **number >= from && known.durable).collect();
            stored.sort_by_key(|(number, _)| **number);
            let runs =
                stored.iter().take(4).map(|(number, known)| (**number, batch(&[known.priority], true))).collect();
            effects = Effects::default();
            self.queue.loaded(StoredRead::Delivery, runs, 0, &mut effects);
        }
    }

    fn get(&mut self) {
        loop {
            let wanted = self.order().first().copied();
            let mut effects = Effects::default();
            let outcome = self.queue.get(false, &self.link, 1, 0, &mut effects);
            if !matches!(outcome, GetOutcome::Message(..)) {
                self.after(effects);
            }
            match outcome {
                GetOutcome::Wait | GetOutcome::Converted | GetOutcome::Failed(_) => {}
                GetOutcome::Empty => return assert_eq!(wanted, None),
                GetOutcome::Message(taken, left) => {
                    let known = self.ready.remove(&taken.first).expect("it is ready");
                    assert_eq!(
                        (Some(taken.first), taken.redelivered),
                        (wanted, known.came_back || known.failed || known.crashed)
                    );
                    assert_eq!((taken.count, taken.attempts.acquired, taken.durable), (1, 0, known.durable));
                    assert_eq!(taken.batch.priority(taken.index as usize), known.priority);
                    assert_eq!(left as usize, self.ready.len());
                    self.held.insert(taken.first, known);
                    return;
                }
            }
        }
    }

    /// A message that is fetched, by its place among these.
    fn fetched(&mut self, at: usize) -> Option<(u64, Known, Run)> {
        let number = *self.held.keys().nth(at % self.held.len().max(1))?;
        let known = self.held.remove(&number)?;
        Some((number, known, Run { first: number, last: number, bytes: BODY as u64, durable: known.durable }))
    }

    fn requeue(&mut self, at: usize, failed: bool) {
        if let Some((number, known, run)) = self.fetched(at) {
            self.ready.insert(number, Known { came_back: true, failed: known.failed || failed, ..known });
            let mut effects = Effects::default();
            self.queue.requeue(Deliveries::of(None, &[run]), failed, 0, &mut effects);
            self.after(effects);
        }
    }

    fn acknowledge(&mut self, at: usize) {
        if let Some((.., run)) = self.fetched(at) {
            let mut effects = Effects::default();
            self.queue.settle(Deliveries::of(None, &[run]), Departure::Settled, 0, &mut effects);
            self.after(effects);
        }
    }

    fn purge(&mut self) {
        let mut effects = Effects::default();
        let (count, _) = self.queue.purge(0, &mut effects);
        assert_eq!(count as usize, self.ready.len());
        self.ready.clear();
        self.after(effects);
    }

    /// After a clean stop, messages that were fetched have come back.
    fn restart(&mut self, clean: bool) {
        while clean && !self.held.is_empty() {
            self.requeue(0, false);
        }
        let checkpoint = self.queue.checkpoint();
        let (live, bytes) = live(&self.queue);
        let Parts { mut attempts, priorities, .. } = Parts::decode(&checkpoint.state).expect("it is readable");
        if clean {
            self.queue.logged_attempts().iter().for_each(|run| attempts.replay(run));
        }
        let replica = Replica {
            ledger: Ledger::restore(checkpoint.next, &live, bytes),
            delivered_below: if clean { self.queue.delivered_below() } else { checkpoint.next },
            parts: Parts { attempts, priorities, ..Parts::default() },
            ..Replica::default()
        };
        self.queue = Self::queue(&self.options, replica);
        self.ready.append(&mut self.held);
        self.ready.retain(|_, known| known.durable);
        for known in self.ready.values_mut() {
            known.crashed = !clean;
            known.came_back &= clean;
        }
        // A crash may bring back more than the limit allows.
        while self.options.max_length.is_some_and(|most| self.ready.len() as u64 > most) {
            self.get();
            self.acknowledge(0);
        }
    }

    fn check(&self) {
        assert!(self.options.max_length.is_none_or(|most| self.ready.len() as u64 <= most));
        let peeked: Vec<u64> = self.queue.peek(0, usize::MAX).into_iter().map(|peeked| peeked.number).collect();
        assert_eq!(peeked, self.order());
        let status = self.queue.status();
        assert_eq!((status.ready, status.unacknowledged), (self.ready.len() as u64, self.held.len() as u64));
        assert_eq!(status.ready_bytes, (self.ready.len() * BODY) as u64);
        let mut by_priority = BTreeMap::new();
        for known in self.ready.values() {
            *by_priority.entry(known.priority.unwrap_or(0).min(self.max)).or_insert(0) += 1;
        }
        assert_eq!(status.by_priority, by_priority);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish(Vec<Option<u8>>, bool),
    Get,
    Requeue(usize, bool),
    Acknowledge(usize),
    Purge,
    Restart(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop::option::weighted(0.8, prop::sample::select(vec![0, 0, 1, 2, 3, 5, 9, 255]));
    prop_oneof![
        4 => (prop::collection::vec(priority, 1..6), prop::bool::weighted(0.7))
            .prop_map(|(priorities, durable)| Step::Publish(priorities, durable)),
        8 => Just(Step::Get),
        4 => (0..20usize, any::<bool>()).prop_map(|(at, failed)| Step::Requeue(at, failed)),
        3 => (0..20usize).prop_map(Step::Acknowledge),
        1 => Just(Step::Purge),
        1 => any::<bool>().prop_map(Step::Restart),
    ]
}

proptest! {
    #[test]
    fn priorities_hold_through_returns_limits_and_restarts(
        max in prop::sample::select(vec![1, 5, 255]),
        max_length in prop::option::of(3..12u64),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut rig = Rig::new(max, max_length);
        for step in steps {
            match step {
                Step::Publish(priorities, durable) => rig.publish(&priorities, durable),
                Step::Get => rig.get(),
                Step::Requeue(at, failed) => rig.requeue(at, failed),
                Step::Acknowledge(at) => rig.acknowledge(at),
                Step::Purge => rig.purge(),
                Step::Restart(clean) => rig.restart(clean),
            }
            rig.check();
        }
    }
}

/// The sets of numbers of a million messages with random priorities take less than 3 MB, in a checkpoint as in memory.
#[test]
fn a_million_random_priorities_take_less_than_3_mb() {
    const MESSAGES: u64 = 1_000_000;
    for max in [9, 255] {
        let mut priorities = leveret_queue::Priorities::default();
        let mut random = 1u64;
        for number in 1..=MESSAGES {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            priorities.note(number, (random >> 33) as u8 % max);
        }
        let mut ledger = Ledger::starting_at(1);
        ledger.accept(1, MESSAGES, MESSAGES);
        let parts = Parts { priorities, ..Parts::default() };
        let replica = Replica { ledger, parts, ..Replica::default() };
        let options = QueueOptions { max_priority: Some(max), ..QueueOptions::default() };
        let bytes = Rig::queue(&options, replica).checkpoint().state.len();
        assert!(bytes < 3_000_000, "{bytes} bytes with {max} priorities");
    }
}
