//! The bytes that a queue shows, against the sizes of its messages, through random histories: messages of many sizes that are taken,
//! returned together, delayed, deferred, parked, rejected and dropped, that expire, and that come back after a restart.

mod plain;

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_message::{Added, Batch, BatchBuilder, BatchPart, Envelope, StoredMessage};
use leveret_model::{Arguments, DeadLetterOptions, DelayedRetry, Overflow, QueueOptions, QueueType, RetryType};
use leveret_queue::{
    Checkpoint, ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, DeadTurn, Deliveries, Departure, Effects,
    Flow, Ledger, LedgerQueue, Link, MemoryBudget, Parts, Place, Portion, Rejection, Replica, Run, SetAside, Signal,
    StoredRead, Taken, Watermarks, push_sized,
};
use proptest::prelude::*;

use crate::plain::{live, placement, surroundings};

const MS: u64 = 1_000_000;
const EPOCH_MS: u64 = 1_000_000;
const TOKEN: &str = "token";
const ID: ConsumerId = ConsumerId(1);

struct Nobody;

impl Link for Nobody {
    fn signal(&self, _: Signal) {}
}

#[derive(Debug, Clone)]
struct Kind {
    quorum: bool,
    /// None, at most once, or at least once.
    dead_letters: u8,
    limits: bool,
    retries: bool,
}

#[derive(Debug, Clone)]
enum Step {
    /// Sizes, times to live, and times until delivery.
    Publish(Vec<(u16, Option<u8>, Option<u8>)>, bool),
    Take(u8),
    /// The first of those that are held, and how many, in steps of one or two.
    GiveBack(u8, u8, bool, How),
    Time(u8),
    Load(u8),
    Move(bool),
    Claim,
    Purge,
    Drop(bool, u8),
    Restart,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Acknowledge,
    Reject,
    Requeue,
    Fail,
    Defer(u8),
}

fn kinds() -> impl Strategy<Value = Kind> {
    (any::<bool>(), 0..3u8, any::<bool>(), any::<bool>()).prop_map(|(quorum, dead_letters, limits, retries)| Kind {
        quorum,
        dead_letters,
        limits,
        retries,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![3 => 0..300u16, 1 => 3_000..40_000u16];
    let message = (size, prop::option::weighted(0.3, 0..60u8), prop::option::weighted(0.2, 1..60u8));
    let how = prop_oneof![
        1 => Just(How::Acknowledge),
        1 => Just(How::Reject),
        1 => Just(How::Requeue),
        2 => Just(How::Fail),
        2 => (1..60u8).prop_map(How::Defer),
    ];
    let step = prop_oneof![
        4 => (prop::collection::vec(message, 1..6), prop::bool::weighted(0.2)).prop_map(|(all, volatile)| Step::Publish(all, volatile)),
        5 => (1..8u8).prop_map(Step::Take),
        6 => (any::<u8>(), 1..8u8, any::<bool>(), how).prop_map(|(at, count, apart, how)| Step::GiveBack(at, count, apart, how)),
        3 => (1..40u8).prop_map(Step::Time),
        4 => (1..9u8).prop_map(Step::Load),
        3 => any::<bool>().prop_map(Step::Move),
        1 => Just(Step::Claim),
        1 => Just(Step::Purge),
        1 => (any::<bool>(), any::<u8>()).prop_map(|(parked, at)| Step::Drop(parked, at)),
        2 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..70)
}

/// A read that was asked for: what it is for, the number that is needed first, and the numbers that it is for.
type Wanted = (StoredRead, u64, Vec<(u64, u64)>);

struct Rig {
    queue: LedgerQueue,
    options: QueueOptions,
    sizes: BTreeMap<u64, u64>,
    /// Durable messages, each alone in a batch.
    store: BTreeMap<u64, Arc<Batch>>,
    held: Vec<Run>,
    wanted: Vec<Wanted>,
    position: u64,
    now_ms: u64,
    /// Deliveries that its consumer counted.
    seen: u32,
}

impl Rig {
    fn new(kind: &Kind) -> Self {
        let dead_letter = (kind.dead_letters > 0).then(|| DeadLetterOptions {
            exchange: "dlx".into(),
            at_least_once: kind.dead_letters == 2 && kind.quorum,
            ..DeadLetterOptions::default()
        });
        let keeps = kind.dead_letters == 2 && kind.quorum;
        let options = QueueOptions {
            queue_type: if kind.quorum { QueueType::Quorum } else { QueueType::Classic },
            max_length: (kind.limits && !keeps).then_some(12),
            overflow: if keeps { Overflow::RejectPublish } else { Overflow::DropHead },
            delivery_limit: kind.quorum.then_some(1),
            parked_max: Some(3),
            delayed_retry: (kind.quorum && kind.retries).then_some(DelayedRetry {
                retries: RetryType::All,
                min_ms: 5,
                max_ms: 20,
            }),
            dead_letter,
            ..QueueOptions::default()
        };
        let queue = begin(&options, Replica::none(1), EPOCH_MS);
        let mut rig = Self {
            queue,
            options,
            sizes: BTreeMap::new(),
            store: BTreeMap::new(),
            held: Vec::new(),
            wanted: Vec::new(),
            position: 0,
            now_ms: EPOCH_MS,
            seen: 0,
        };
        rig.consume();
        rig
    }

    fn now(&self) -> u64 {
        self.now_ms * MS
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut LedgerQueue, &mut Effects) -> R) -> R {
        let mut effects = Effects::default();
        let result = call(&mut self.queue, &mut effects);
        self.wanted.extend(effects.take_read().map(|(from, numbers)| (StoredRead::Delivery, from, numbers)));
        if let Some(mut rare) = effects.take_rare() {
            let numbers = std::mem::take(&mut rare.dead_numbers);
            self.wanted.extend(rare.read_dead.map(|from| (StoredRead::DeadLetters, from, numbers)));
            let own = rare.own_reads.iter().map(|(id, from)| (StoredRead::Own(*id, *from), *from, Vec::new()));
            self.wanted.extend(own);
        }
        result
    }

    fn consume(&mut self) {
        let options = ConsumerOptions {
            filter: None,
            link: Arc::new(Nobody),
            key: 1,
            tag: "tag".into(),
            channel: "channel".into(),
            automatic_ack: false,
            flow: ConsumerFlow::Credit { delivery_count: 0 },
            priority: 0,
            exclusive: false,
            mode: ConsumerMode::Move,
            stream: None,
            timeout_ms: None,
            user: "user".into(),
            arguments: Arguments::default(),
        };
        self.seen = 0;
        let now = self.now();
        self.with(|queue, effects| queue.add(ID, options, now, effects)).expect("it is added");
    }

    fn publish(&mut self, messages: &[(u16, Option<u8>, Option<u8>)], volatile: bool) {
        let durable = !volatile || self.options.queue_type == QueueType::Quorum;
        let mut builder = BatchBuilder::default();
        let mut alone = Vec::new();
        for (size, ttl_ms, delay_ms) in messages {
            let received_ms = self.now_ms;
            let expiry_ms = ttl_ms.map_or(0, |ttl_ms| Envelope::expiry(received_ms, ttl_ms.into()));
            let envelope = Envelope { durable, received_ms, expiry_ms, ..Envelope::default() };
            let properties = delay_ms.map_or(vec![0, 0], |delay_ms| timed(self.now_ms + u64::from(delay_ms)));
            let body = vec![7; usize::from(*size)];
            let message = StoredMessage { envelope, properties: &properties, body: &body, ..StoredMessage::default() };
            builder.push_message(&message);
            let mut single = BatchBuilder::default();
            single.push_message(&message);
            alone.push(Arc::new(single.finish()));
        }
        let (batch, now) = (Arc::new(builder.finish()), self.now());
        let Some(submission) = self.queue.submit(BatchPart::of(&batch, 0, messages.len() as u32), now) else { return };
        for at in 0..u64::from(submission.accepted) {
            self.sizes.insert(submission.first + at, messages[at as usize].0.into());
            if durable {
                self.store.insert(submission.first + at, alone[at as usize].clone());
            }
        }
        self.position += 1;
        let position = self.position;
        self.with(|queue, effects| {
            queue.submitted(submission, BatchPart::whole(&batch), placement(durable.then_some(position)), now, effects);
            queue.apply(Watermarks::synced(Place::new(position)), effects);
        });
    }

    fn take(&mut self, count: u8) {
        let now = self.now();
        let flow = Flow::Credit { delivery_count: self.seen, link_credit: count.into(), drain: false };
        self.with(|queue, effects| queue.flow(ID, flow, now, effects));
        let mut all = Vec::new();
        self.with(|queue, effects| {
            queue.take(ID, Portion { messages: u32::MAX, bytes: u64::MAX }, now, &mut all, effects)
        });
        for taken in all {
            self.seen += taken.count;
            for at in 0..taken.count {
                self.held.push(Taken { count: 1, ..taken.rest(at) }.run());
            }
        }
    }

    fn give_back(&mut self, (at, count, apart): (u8, u8, bool), how: How) {
        if self.held.is_empty() {
            return;
        }
        let (at, step) = (usize::from(at) % self.held.len(), if apart { 2 } else { 1 });
        let chosen: Vec<Run> = self.held.iter().skip(at).step_by(step).take(count.into()).copied().collect();
        self.held.retain(|run| !chosen.contains(run));
        let mut runs = Vec::new();
        chosen.into_iter().for_each(|run| push_sized(&mut runs, run));
        let now = self.now();
        let until_ms = self.now_ms;
        self.with(|queue, effects| match how {
            How::Acknowledge => queue.settle(Deliveries::of(Some(ID), &runs), Departure::Settled, now, effects),
            How::Reject => {
                if queue.reject(Deliveries::of(Some(ID), &runs), true, now, effects) == Rejection::NoDeadLetters {
                    queue.settle(Deliveries::of(Some(ID), &runs), Departure::Dropped, now, effects);
                }
            }
            How::Requeue => queue.requeue(Deliveries::of(Some(ID), &runs), false, now, effects),
            How::Fail => queue.requeue(Deliveries::of(Some(ID), &runs), true, now, effects),
            How::Defer(ms) => {
                queue.modify(Deliveries::of(Some(ID), &runs), false, &deferral(until_ms + u64::from(ms)), now, effects);
            }
        });
    }

    fn load(&mut self, count: u8) {
        let now = self.now();
        for (read, from, numbers) in std::mem::take(&mut self.wanted) {
            let found = |number: &u64| Some((*number, self.store.get(number)?.clone()));
            let runs = match numbers.is_empty() {
                true => {
                    let stored = self.store.range(from..).take(count.into());
                    stored.map(|(number, batch)| (*number, batch.clone())).collect()
                }
                false => {
                    assert_eq!(numbers[0].0, from, "the one needed first is read first");
                    let numbers = numbers.iter().flat_map(|(first, last)| *first..=*last).take(count.into());
                    numbers.collect::<Vec<_>>().iter().filter_map(found).collect()
                }
            };
            self.with(|queue, effects| queue.loaded(read, runs, now, effects));
        }
    }

    fn move_dead(&mut self, takes: bool) {
        let now = self.now();
        let keeps = self.options.keeps_dead_letters();
        if let DeadTurn::Move(_) = self.with(|queue, effects| queue.dead_turn(effects)) {
            self.with(|queue, effects| match takes || !keeps {
                true => drop(queue.moved(0, effects)),
                false => drop(queue.dead_blocked(now, effects)),
            });
        }
    }

    fn drop_aside(&mut self, which: SetAside, at: u8) {
        let all = self.queue.peek_set_aside(which, 0, usize::MAX);
        if let Some(first) = all.get(usize::from(at) % all.len().max(1)) {
            let number = first.number;
            self.with(|queue, effects| queue.drop_set_aside(which, number, number + 2, effects));
        }
    }

    /// A crash behind a checkpoint.
    fn restart(&mut self) {
        let Checkpoint { next, live, bytes, state, .. } = self.queue.checkpoint();
        let parts = Parts::decode(&state).expect("it is whole");
        self.store.retain(|number, _| live.contains(*number));
        let ledger = Ledger::restore(next, &live, bytes);
        let replica = Replica { ledger, delivered_below: next, parts, ..Replica::default() };
        self.held.clear();
        self.wanted.clear();
        self.queue = begin(&self.options, replica, self.now_ms);
        self.consume();
    }

    fn step(&mut self, step: &Step) {
        let now = self.now();
        match step {
            Step::Publish(messages, volatile) => self.publish(messages, *volatile),
            Step::Take(count) => self.take(*count),
            Step::GiveBack(at, count, apart, how) => self.give_back((*at, *count, *apart), *how),
            Step::Time(ms) => {
                self.now_ms += u64::from(*ms);
                let now = self.now();
                self.with(|queue, effects| queue.run_timers(now, 1000, effects));
            }
            Step::Load(count) => self.load(*count),
            Step::Move(takes) => self.move_dead(*takes),
            Step::Claim => self.with(|queue, effects| queue.claim(ID, &[TOKEN.into()], effects)),
            Step::Purge => drop(self.with(|queue, effects| queue.purge(now, effects))),
            Step::Drop(which, at) => self.drop_aside(if *which { SetAside::Parked } else { SetAside::Delayed }, *at),
            Step::Restart => self.restart(),
        }
    }

    fn sum(&self, numbers: impl Iterator<Item = u64>) -> u64 {
        numbers.map(|number| self.sizes[&number]).sum()
    }

    /// Compares what is shown, and what a checkpoint keeps, with the sizes of the messages.
    fn check(&self) {
        let (status, (live, bytes)) = (self.queue.status(), live(&self.queue));
        assert_eq!(bytes, self.sum(live.iter()), "a checkpoint's bytes");
        let held = self.sum(self.held.iter().map(|run| run.first));
        assert_eq!(status.unacknowledged_bytes, held, "unacknowledged bytes");
        let mut aside = 0;
        for which in [SetAside::Parked, SetAside::Delayed] {
            let numbers = self.queue.peek_set_aside(which, 0, usize::MAX).into_iter().map(|peeked| peeked.number);
            let shown = self.queue.set_aside(which).1;
            let set_aside = self.sum(numbers);
            assert_eq!(shown, set_aside, "{which:?} bytes");
            aside += set_aside;
        }
        assert_eq!(status.bytes, status.ready_bytes + held + aside, "bytes of all places");
        // A checkpoint has dead letters that are on their way, and no volatile messages.
        let dying = status.quorum.as_ref().map_or(0, |quorum| quorum.dying_bytes);
        if status.moving == 0 || self.options.keeps_dead_letters() {
            assert_eq!(status.bytes + dying - status.volatile_bytes, bytes, "all bytes");
        }
    }
}

fn begin(options: &QueueOptions, replica: Replica, now_ms: u64) -> LedgerQueue {
    // Each queue holds only its head in memory.
    let surroundings = surroundings(Arc::new(MemoryBudget::new(0)));
    LedgerQueue::new(options.clone(), true, replica, surroundings, now_ms * MS)
}

/// Properties of AMQP 0-9-1 whose only header is a time of delivery.
fn timed(delivery_ms: u64) -> Vec<u8> {
    let header = [&b"\x13x-opt-delivery-time"[..], b"l", &delivery_ms.to_be_bytes()].concat();
    [&[0x20, 0][..], &(header.len() as u32).to_be_bytes(), &header].concat()
}

/// Annotations with a time of the next delivery, and a token.
fn deferral(until_ms: u64) -> Arc<Added> {
    let symbol = |name: &str| [&[0xa3, name.len() as u8], name.as_bytes()].concat();
    let token = [&[0xa1, TOKEN.len() as u8], TOKEN.as_bytes()].concat();
    let time = [&[0x83][..], &until_ms.to_be_bytes()].concat();
    let pairs = [symbol("x-opt-delivery-time"), time, symbol("x-opt-deferral-token"), token].concat();
    let bytes = [&[0xd1][..], &(pairs.len() as u32 + 4).to_be_bytes(), &4u32.to_be_bytes(), &pairs].concat();
    Arc::new(Added::from_bytes(&bytes).expect("it is a map"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shown_bytes_are_those_of_the_messages(kind in kinds(), steps in steps()) {
        let mut rig = Rig::new(&kind);
        for step in &steps {
            rig.step(step);
            rig.check();
        }
    }
}
