//! The classic queue against a naive reference: a list of messages with a state each.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use leveret_message::{Batch, BatchBuilder, Envelope};
use leveret_model::{Overflow, QueueOptions};
use leveret_queue::{
    ClassicQueue, ConsumerId, ConsumerOptions, Effects, GetOutcome, Ledger, Link, MemoryBudget, Outcome, Run, Signal,
    TurnEnd,
};
use proptest::prelude::*;

#[derive(Default)]
struct Recorder(Mutex<Vec<Signal>>);

impl Link for Recorder {
    fn signal(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}

/// The message's serial number is its expiry field, so that its body can be of any length.
fn batch(serial: u64, count: u64, durable: bool, size: usize) -> Arc<Batch> {
    let mut builder = BatchBuilder::default();
    for at in 0..count {
        let envelope = Envelope { durable, expiry_ms: serial + at, ..Envelope::default() };
        builder.push(&envelope, b"\0\0", &vec![0; size]);
    }
    Arc::new(builder.finish())
}

struct Reference {
    /// Ready, by place: (number, serial, redelivered).
    ready: BTreeMap<u64, (u64, bool)>,
    held: [VecDeque<(u64, u64, bool)>; 2],
}

struct Rig {
    queue: ClassicQueue,
    link: Arc<Recorder>,
    /// Durable messages as a log would have them: number -> serial.
    store: BTreeMap<u64, u64>,
    reference: Reference,
    pending: VecDeque<(u64, u64, u64)>,
    position: u64,
    serial: u64,
    gone: u64,
    wants_read: Option<u64>,
    scheduled: [bool; 2],
    size: usize,
}

impl Rig {
    fn new(options: QueueOptions, size: usize) -> Self {
        let link = Arc::new(Recorder::default());
        let queue = ClassicQueue::new(options, true, Ledger::default(), 0, Arc::new(MemoryBudget::new(0)), 0);
        let reference = Reference { ready: BTreeMap::new(), held: [VecDeque::new(), VecDeque::new()] };
        let mut rig = Self {
            queue,
            link,
            store: BTreeMap::new(),
            reference,
            pending: VecDeque::new(),
            position: 0,
            serial: 1,
            gone: 0,
            wants_read: None,
            scheduled: [false; 2],
            size,
        };
        for id in 0..2 {
            let options = ConsumerOptions {
                link: rig.link.clone(),
                key: id,
                tag: "t".into(),
                channel: "c".into(),
                automatic_ack: false,
                prefetch: if id == 0 { 0 } else { 7 },
                exclusive: false,
            };
            rig.with(|queue, effects| assert!(queue.add_consumer(ConsumerId(id), options, 0, effects)));
        }
        rig
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut ClassicQueue, &mut Effects) -> R) -> R {
        let mut effects = Effects::default();
        let result = call(&mut self.queue, &mut effects);
        effects.fire();
        for run in &effects.drops {
            for number in run.first..=run.last {
                // One that the reference hasn't learned of yet is counted when it does.
                if self.reference.ready.remove(&number).is_some() {
                    self.gone += 1;
                    assert!(self.reference.ready.range(..number).next().is_none(), "drops come from the head");
                }
            }
        }
        if let Some(number) = effects.read {
            assert!(self.wants_read.replace(number).is_none(), "one read at a time");
        }
        for signal in self.link.0.lock().unwrap().drain(..) {
            if let Signal::Scheduled(key) = signal {
                assert!(!self.scheduled[key as usize], "scheduled twice");
                self.scheduled[key as usize] = true;
            }
        }
        result
    }

    fn publish(&mut self, count: u64, durable: bool) {
        let batch = batch(self.serial, count, durable, self.size);
        let submission = self.queue.submit(&batch, 0, count as u32, 0);
        let accepted = u64::from(submission.accepted);
        let position = durable.then(|| {
            self.position += accepted;
            self.position
        });
        for at in 0..accepted {
            if durable {
                self.store.insert(submission.first + at, self.serial + at);
            }
        }
        self.pending.push_back((submission.first, accepted, self.serial));
        self.serial += count;
        self.with(|queue, effects| queue.submitted(submission, batch, 0, position, 0, effects));
        let _ = accepted;
        self.admit_applied();
    }

    /// The reference takes over what the queue has applied, drops included.
    fn admit_applied(&mut self) {
        let next = self.queue.ledger().next();
        while let Some(&(first, count, serial)) = self.pending.front() {
            if first + count > next {
                break;
            }
            self.pending.pop_front();
            for at in 0..count {
                if self.queue.ledger().is_live(first + at) {
                    self.reference.ready.insert(first + at, (serial + at, false));
                } else {
                    self.gone += 1;
                }
            }
        }
    }

    fn take(&mut self, id: usize, messages: u32) {
        if !self.scheduled[id] {
            return;
        }
        // The call may schedule it anew.
        self.scheduled[id] = false;
        let mut out = Vec::new();
        let end =
            self.with(|queue, effects| queue.take(ConsumerId(id as u64), messages, 1 << 20, 0, &mut out, effects));
        for taken in out {
            for at in 0..taken.count {
                let number = taken.first + u64::from(at);
                let view = taken.batch.message((taken.index + at) as usize).view();
                let (first, &(serial, redelivered)) =
                    self.reference.ready.first_key_value().expect("nothing was ready");
                assert_eq!((number, view.envelope.expiry_ms, taken.redelivered), (*first, serial, redelivered));
                assert_eq!(taken.durable, view.envelope.durable);
                self.reference.ready.pop_first();
                self.reference.held[id].push_back((number, serial, taken.durable));
            }
        }
        self.scheduled[id] |= end == TurnEnd::More;
    }

    fn read(&mut self) {
        let Some(from) = self.wants_read.take() else { return };
        let mut runs: Vec<(u64, Arc<Batch>)> = Vec::new();
        for (&number, &serial) in self.store.range(from..).take(5) {
            runs.push((number, batch(serial, 1, true, self.size)));
        }
        self.with(|queue, effects| queue.loaded(runs, 0, effects));
    }

    fn run(number: u64, durable: bool, size: usize) -> Run {
        Run { first: number, last: number, bytes: size as u64, durable }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Publish(u64, bool),
    Sync(u64),
    Take(usize, u32),
    Settle(usize, usize),
    Requeue(usize, usize),
    Read,
    Get,
    Purge,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u64..20, prop::bool::weighted(0.8)).prop_map(|(count, durable)| Step::Publish(count, durable)),
        3 => (0u64..20).prop_map(Step::Sync),
        4 => (0usize..2, 1u32..9).prop_map(|(id, count)| Step::Take(id, count)),
        4 => (0usize..2, 0usize..9).prop_map(|(id, at)| Step::Settle(id, at)),
        2 => (0usize..2, 0usize..9).prop_map(|(id, at)| Step::Requeue(id, at)),
        3 => Just(Step::Read),
        1 => Just(Step::Get),
        1 => Just(Step::Purge),
    ]
}

fn check(rig: &mut Rig, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Publish(count, durable) => rig.publish(count, durable),
            Step::Sync(behind) => {
                let durable = rig.position.saturating_sub(behind);
                let mut effects = Effects::default();
                rig.queue.apply(durable, &mut effects);
                // Drops of this call concern messages that the reference learns of only now.
                effects.drops.clear();
                let before: Vec<u64> = rig.reference.ready.keys().copied().collect();
                for number in before {
                    if !rig.queue.ledger().is_live(number) {
                        rig.reference.ready.remove(&number);
                        rig.gone += 1;
                    }
                }
                rig.admit_applied();
                rig.with(|_, later| *later = effects);
            }
            Step::Take(id, count) => rig.take(id, count),
            Step::Settle(id, at) => {
                if at < rig.reference.held[id].len() {
                    let (number, _, durable) = rig.reference.held[id].remove(at).unwrap();
                    let run = Rig::run(number, durable, rig.size);
                    rig.gone += 1;
                    rig.with(|queue, effects| {
                        queue.settle(Some(ConsumerId(id as u64)), &[run], Outcome::Settled, 0, effects);
                    });
                    rig.store.remove(&number);
                }
            }
            Step::Requeue(id, at) => {
                if at < rig.reference.held[id].len() {
                    let (number, serial, durable) = rig.reference.held[id].remove(at).unwrap();
                    let run = Rig::run(number, durable, rig.size);
                    rig.reference.ready.insert(number, (serial, true));
                    rig.with(|queue, effects| queue.requeue(Some(ConsumerId(id as u64)), &[run], 0, effects));
                }
            }
            Step::Read => rig.read(),
            Step::Get => {
                let link: Arc<dyn Link> = rig.link.clone();
                match rig.with(|queue, effects| queue.get(true, &link, 9, 0, effects)) {
                    GetOutcome::Message(taken, left) => {
                        let (number, (serial, redelivered)) = rig.reference.ready.pop_first().expect("ready");
                        let view = taken.batch.message(taken.index as usize).view();
                        assert_eq!((taken.first, taken.redelivered), (number, redelivered));
                        assert_eq!(view.envelope.expiry_ms, serial);
                        assert_eq!(left as usize, rig.reference.ready.len());
                        rig.gone += 1;
                        rig.store.remove(&number);
                    }
                    GetOutcome::Empty => assert!(rig.reference.ready.is_empty()),
                    GetOutcome::Wait => assert!(!rig.reference.ready.is_empty()),
                }
            }
            Step::Purge => {
                let (count, runs) = rig.queue.purge(0);
                assert_eq!(count as usize, rig.reference.ready.len());
                for run in runs {
                    for number in run.first..=run.last {
                        assert!(rig.reference.ready.remove(&number).is_some());
                        rig.store.remove(&number);
                        rig.gone += 1;
                    }
                }
            }
        }
        let status = rig.queue.status();
        assert_eq!(status.state, leveret_queue::QueueState::Running);
        assert_eq!(status.ready as usize, rig.reference.ready.len());
        assert_eq!(status.ready_bytes as usize, rig.reference.ready.len() * rig.size);
        let held = rig.reference.held[0].len() + rig.reference.held[1].len();
        assert_eq!(status.unacknowledged as usize, held);
        assert_eq!(status.conservation.gone(), rig.gone);
        assert_eq!(status.conservation.accepted, rig.gone + status.ready + status.unacknowledged);
        assert!(rig.reference.held[1].len() <= 7, "more than the prefetch");
    }
}

/// Everything that is ready reaches a consumer without a prefetch limit, whatever happened before.
fn drain(rig: &mut Rig) {
    rig.with(|_, _| ());
    let position = rig.position;
    check(rig, vec![Step::Sync(0)]);
    assert_eq!(rig.position, position);
    for _ in 0..10_000 {
        if rig.reference.ready.is_empty() {
            return;
        }
        rig.read();
        rig.take(0, 50);
        rig.take(1, 50);
    }
    panic!("a consumer with credit was never scheduled: {:?}", rig.queue.status());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_the_reference(steps in prop::collection::vec(step(), 1..150)) {
        let mut rig = Rig::new(QueueOptions::default(), 10);
        check(&mut rig, steps);
        drain(&mut rig);
    }

    #[test]
    fn agrees_while_most_is_on_disk(steps in prop::collection::vec(step(), 1..150)) {
        let mut rig = Rig::new(QueueOptions::default(), 3000);
        check(&mut rig, steps);
        drain(&mut rig);
    }

    #[test]
    fn never_holds_more_than_its_limit(steps in prop::collection::vec(step(), 1..100)) {
        let options = QueueOptions { max_length: Some(10), ..QueueOptions::default() };
        let mut rig = Rig::new(options, 10);
        for step in steps {
            check(&mut rig, vec![step]);
            // A head that is on disk only is read before it is dropped, since its size counts.
            prop_assert!(rig.queue.ready() <= 10 || rig.wants_read.is_some());
        }
        drain(&mut rig);
    }
}

#[test]
fn reject_publish_refuses_what_is_too_much() {
    let options = QueueOptions { max_length: Some(3), overflow: Overflow::RejectPublish, ..QueueOptions::default() };
    let mut rig = Rig::new(options, 10);
    let five = batch(1, 5, true, 1);
    let submission = rig.queue.submit(&five, 0, 5, 0);
    assert_eq!(submission.accepted, 3);
    rig.with(|queue, effects| queue.submitted(submission, five.clone(), 0, Some(3), 0, effects));
    let more = rig.queue.submit(&five, 3, 2, 0);
    assert_eq!(more.accepted, 0, "what is on its way to disk counts");
    assert_eq!(rig.queue.status().refused, 4);
}

#[test]
fn nothing_is_delivered_before_it_is_durable_and_volatile_ones_wait_in_line() {
    let mut rig = Rig::new(QueueOptions::default(), 10);
    rig.publish(2, true);
    rig.publish(1, false);
    assert_eq!(rig.queue.ready(), 0);
    assert_eq!(rig.scheduled, [false, false]);
    rig.with(|queue, effects| queue.apply(1, effects));
    assert_eq!(rig.queue.ready(), 0, "a run is applied when its last record is durable");
    rig.with(|queue, effects| queue.apply(2, effects));
    assert_eq!(rig.queue.ready(), 3);
}

#[test]
fn an_idle_consumer_gets_what_a_stalled_one_cannot_take() {
    let mut rig = Rig::new(QueueOptions::default(), 10);
    rig.with(|queue, effects| queue.set_room(ConsumerId(0), false, 5, effects));
    rig.publish(3, false);
    assert_eq!(rig.scheduled, [false, true]);
    let status = rig.queue.status();
    assert_eq!(status.consumers[0].wait.reason.code(), "room");
    assert_eq!(status.consumers[0].wait.since, 5);
    rig.with(|queue, effects| queue.set_room(ConsumerId(0), true, 6, effects));
    assert_eq!(rig.scheduled, [false, true], "what is ready is kept for the other one");
    rig.publish(1, false);
    assert_eq!(rig.scheduled, [true, true]);
}

#[test]
fn consumers_take_turns() {
    let mut rig = Rig::new(QueueOptions::default(), 10);
    let mut served = [0; 2];
    for _ in 0..10 {
        rig.publish(1, false);
        let id = rig.scheduled.iter().position(|scheduled| *scheduled).expect("one is scheduled");
        rig.take(id, 10);
        let (number, _, durable) = rig.reference.held[id].pop_front().unwrap();
        rig.with(|queue, effects| {
            queue.settle(Some(ConsumerId(id as u64)), &[Rig::run(number, durable, 10)], Outcome::Settled, 0, effects);
        });
        served[id] += 1;
    }
    assert_eq!(served, [5, 5]);
}

#[test]
fn volatile_messages_are_no_part_of_what_outlives_the_process() {
    let mut rig = Rig::new(QueueOptions::default(), 10);
    rig.publish(2, true);
    rig.publish(3, false);
    rig.publish(1, true);
    let position = rig.position;
    rig.with(|queue, effects| queue.apply(position, effects));
    let (live, bytes) = rig.queue.durable_live();
    assert_eq!(live.iter().collect::<Vec<_>>(), [0, 1, 5]);
    assert_eq!(bytes, 30);
}

#[test]
fn a_share_waits_for_a_consumer_that_is_late_to_its_turn() {
    let mut rig = Rig::new(QueueOptions::default(), 10);
    rig.with(|queue, effects| {
        queue.cancel(ConsumerId(1), 0, effects);
        let options = ConsumerOptions {
            link: Arc::new(Recorder::default()),
            key: 2,
            tag: "t".into(),
            channel: "c".into(),
            automatic_ack: false,
            prefetch: 0,
            exclusive: false,
        };
        assert!(queue.add_consumer(ConsumerId(2), options, 0, effects));
    });
    rig.publish(10, false);
    while rig.scheduled[0] {
        rig.take(0, 100);
    }
    assert_eq!(rig.reference.held[0].len(), 5);
    let mut out = Vec::new();
    rig.with(|queue, effects| queue.take(ConsumerId(2), 100, 1 << 20, 0, &mut out, effects));
    assert_eq!(out.iter().map(|taken| taken.count).sum::<u32>(), 5);
}
