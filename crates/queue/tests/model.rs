//! The classic queue against a naive reference: a list of messages with a state each.

mod plain;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use leveret_message::{Batch, BatchBuilder, BatchPart, Envelope};
use leveret_model::{Overflow, QueueOptions};
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, CreditState, Deliveries, Departure, Effects, Flow,
    GetOutcome, LedgerQueue, Link, MemoryBudget, MessageFilter, Place, Placement, Portion, QueueGauges, Replica, Run,
    Signal, StoredRead, TurnEnd, WaitReason, Waits, Watermarks,
};
use leveret_selector::{Dialect, Selector};
use proptest::prelude::*;

use crate::plain::{live, placement, surroundings};

#[derive(Default)]
struct Recorder(Mutex<Vec<Signal>>);

impl Link for Recorder {
    fn signal(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}

/// The message's serial number is its time of arrival, so that its body can be of any length.
fn batch(serial: u64, count: u64, durable: bool, size: usize) -> Arc<Batch> {
    let mut builder = BatchBuilder::default();
    for at in 0..count {
        let priority = is_picked(serial + at).then_some(PICKED);
        let envelope = Envelope { durable, received_ms: serial + at, priority, ..Envelope::default() };
        builder.push(&envelope, b"\0\0", &vec![0; size]);
    }
    Arc::new(builder.finish())
}

const CONSUMERS: usize = 6;
/// The browsing consumer.
const BROWSER: usize = 4;
/// The consumer with a filter.
const PICKER: usize = 5;

/// The priority of the messages that the filter lets through. The queues have none, so that it has no other effect.
const PICKED: u8 = 7;

/// Whether the filter lets a message through.
fn is_picked(serial: u64) -> bool {
    serial.is_multiple_of(3)
}

/// The reference's knowledge of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    serial: u64,
    redelivered: bool,
    failures: u32,
}

/// A link as its receiver sees it.
#[derive(Debug, Default)]
struct Receiver {
    delivery_count: u32,
    credit: u32,
    draining: bool,
}

#[derive(Default)]
struct Reference {
    /// Ready messages, by place.
    ready: BTreeMap<u64, Known>,
    /// Number, knowledge and durability of held messages.
    held: [VecDeque<(u64, Known, bool)>; CONSUMERS],
    /// Receivers of the consumers with link credit.
    receivers: BTreeMap<usize, Receiver>,
    /// Position of the browsing consumer.
    browsed: u64,
    /// Ready messages that the consumer with a filter may not have looked at.
    unseen: BTreeSet<u64>,
    /// Whether a consumer's connection or session is blocked.
    closed: [[bool; 2]; CONSUMERS],
}

struct Rig {
    queue: LedgerQueue,
    link: Arc<Recorder>,
    /// Durable messages as a log would have them: number -> serial.
    store: BTreeMap<u64, u64>,
    reference: Reference,
    pending: VecDeque<(u64, u64, u64)>,
    position: u64,
    serial: u64,
    gone: u64,
    wants_read: Option<u64>,
    /// The reads for consumers of their own.
    wants_own: BTreeMap<usize, u64>,
    scheduled: [bool; CONSUMERS],
    drained: Vec<(usize, u32)>,
    priorities: [i32; CONSUMERS],
    size: usize,
}

impl Rig {
    /// A rig with two consumers with a prefetch, as most tests need it.
    fn new(options: QueueOptions, size: usize) -> Self {
        let mut rig = Self::empty(options, size, [0; CONSUMERS]);
        rig.add(0, ConsumerFlow::Prefetch(0));
        rig.add(1, ConsumerFlow::Prefetch(7));
        rig
    }

    /// A rig with four more consumers with link credit, whose delivery-counts are about to wrap around.
    fn with_links(options: QueueOptions, size: usize, priorities: [i32; CONSUMERS]) -> Self {
        let mut rig = Self::empty(options, size, priorities);
        rig.add(0, ConsumerFlow::Prefetch(0));
        rig.add(1, ConsumerFlow::Prefetch(7));
        for id in 2..CONSUMERS {
            let delivery_count = u32::MAX - 10 * id as u32;
            rig.add(id, ConsumerFlow::Credit { delivery_count });
            rig.reference.receivers.insert(id, Receiver { delivery_count, ..Receiver::default() });
        }
        rig
    }

    fn add(&mut self, id: usize, flow: ConsumerFlow) {
        let mode = if id == BROWSER { ConsumerMode::Copy } else { ConsumerMode::Move };
        let expression = Selector::parse(&format!("header.priority = {PICKED}"), Dialect::Amqp).expect("it is valid");
        let filter = MessageFilter { expression: Some(expression), ..MessageFilter::default() };
        let options = ConsumerOptions {
            filter: (id == PICKER).then(|| Arc::new(filter)),
            stream: None,
            timeout_ms: None,
            user: "u".into(),
            arguments: leveret_model::Arguments::default(),
            link: self.link.clone(),
            key: id as u64,
            tag: "t".into(),
            channel: "c".into(),
            automatic_ack: false,
            flow,
            priority: self.priorities[id],
            exclusive: false,
            mode,
        };
        self.with(|queue, effects| assert!(queue.add(ConsumerId(id as u64), options, 0, effects).is_ok()));
    }

    fn empty(options: QueueOptions, size: usize, priorities: [i32; CONSUMERS]) -> Self {
        let link = Arc::new(Recorder::default());
        let queue =
            LedgerQueue::new(options, true, Replica::default(), surroundings(Arc::new(MemoryBudget::new(0))), 0);
        Self {
            queue,
            link,
            store: BTreeMap::new(),
            reference: Reference::default(),
            pending: VecDeque::new(),
            position: 0,
            serial: 1,
            gone: 0,
            wants_read: None,
            wants_own: BTreeMap::new(),
            scheduled: [false; CONSUMERS],
            drained: Vec::new(),
            priorities,
            size,
        }
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut LedgerQueue, &mut Effects) -> R) -> R {
        let mut effects = Effects::default();
        let result = call(&mut self.queue, &mut effects);
        effects.fire();
        for run in effects.rare().map_or(&[][..], |rare| &rare.drops) {
            for number in run.first..=run.last {
                // A message that the reference doesn't know yet is counted when the reference learns of it.
                if self.reference.ready.remove(&number).is_some() {
                    self.gone += 1;
                    let before = self.reference.ready.range(..number).count() as u64;
                    assert_eq!(before, self.open_credit(), "the oldest one that no consumer has credit for is dropped");
                }
            }
        }
        for (id, number) in std::mem::take(&mut effects.rare_mut().own_reads) {
            assert!([BROWSER, PICKER].contains(&(id.0 as usize)));
            assert!(self.wants_own.insert(id.0 as usize, number).is_none(), "one read at a time");
        }
        if let Some(number) = effects.read {
            assert!(self.wants_read.replace(number).is_none(), "one read at a time");
        }
        let signals: Vec<_> = self.link.0.lock().unwrap().drain(..).collect();
        for signal in signals {
            match signal {
                Signal::Scheduled(key) => {
                    assert!(!self.scheduled[key as usize], "scheduled twice");
                    self.scheduled[key as usize] = true;
                }
                Signal::Drained { key, delivery_count, .. } => self.drained.push((key as usize, delivery_count)),
                Signal::Loaded(9) => {}
                other => panic!("{other:?}"),
            }
        }
        result
    }

    /// Number of messages that are available to a consumer. For the one with a filter all count if it may want some.
    fn available(&self, id: usize) -> usize {
        let from = if id == BROWSER { self.reference.browsed } else { 0 };
        if id == PICKER && !self.wants_some() {
            return 0;
        }
        self.reference.ready.range(from..).count()
    }

    /// Whether messages are ready that the one with a filter wants.
    fn wants_some(&self) -> bool {
        self.reference.ready.values().any(|known| is_picked(known.serial))
    }

    /// Uses up the credit of drains that ended, and checks that nothing was ready for them.
    fn end_drains(&mut self) {
        for (id, delivery_count) in std::mem::take(&mut self.drained) {
            let receiver = self.reference.receivers.get_mut(&id).expect("a link");
            assert!(std::mem::take(&mut receiver.draining), "drained without being asked");
            assert_eq!(delivery_count, receiver.delivery_count.wrapping_add(receiver.credit));
            receiver.delivery_count = delivery_count;
            if std::mem::take(&mut receiver.credit) > 0 && self.available(id) > 0 {
                assert_ne!(id, BROWSER);
                // A higher priority may have reserved all of them.
                let higher = self.priorities.iter().any(|other| *other > self.priorities[id]);
                assert!(higher, "drained with messages ready");
            }
        }
        for (id, receiver) in &self.reference.receivers {
            // The one with a filter has to look at messages before it knows that it doesn't want them.
            let none = self.available(*id) == 0 && (*id != PICKER || self.reference.unseen.is_empty());
            let over = none || receiver.credit == 0;
            assert!(!receiver.draining || !over, "the drain of {id} never ends");
        }
    }

    fn grant(&mut self, id: usize, lag: u32, credit: u32, drain: bool) {
        let receiver = &self.reference.receivers[&id];
        // The receiver hasn't seen the last `lag` deliveries yet.
        let seen = receiver.delivery_count.wrapping_sub(lag);
        let mut ready = self.available(id) as u32;
        let flow = Flow::Credit { delivery_count: seen, link_credit: credit, drain };
        let state = self.with(|queue, effects| queue.flow(ConsumerId(id as u64), flow, 0, effects));
        let state = state.expect("it is there");
        if id == PICKER && ready == 0 && state.available > 0 {
            assert!(!self.reference.unseen.is_empty(), "it has looked at all");
            ready = self.reference.ready.len() as u32;
        }
        let receiver = self.reference.receivers.get_mut(&id).unwrap();
        receiver.credit = credit.saturating_sub(lag);
        receiver.draining = drain;
        if drain && (receiver.credit == 0 || ready == 0) {
            receiver.delivery_count = receiver.delivery_count.wrapping_add(std::mem::take(&mut receiver.credit));
            receiver.draining = false;
        }
        let Receiver { delivery_count, credit, .. } = *receiver;
        assert_eq!(state, CreditState { delivery_count, credit, available: ready });
    }

    /// Number of messages that a consumer could take now.
    fn appetite(&self, id: usize) -> u64 {
        match id {
            BROWSER | PICKER => 0,
            _ if !self.is_open(id) || self.queue.consumer_status(ConsumerId(id as u64)).is_none() => 0,
            0 => 1 << 32,
            1 => 7 - self.reference.held[1].len() as u64,
            _ => self.reference.receivers.get(&id).map_or(0, |receiver| u64::from(receiver.credit)),
        }
    }

    /// Number of messages that all consumers together could take now.
    fn open_credit(&self) -> u64 {
        (0..CONSUMERS).map(|id| self.appetite(id)).sum()
    }

    /// Number of ready messages that are on their way to consumers.
    fn on_their_way(&self) -> usize {
        (self.open_credit() as usize).min(self.reference.ready.len())
    }

    /// Whether consumers of a higher priority than `id` could take a ready message.
    fn a_higher_one_wants_some(&self, id: usize) -> bool {
        let is_higher = |other: &usize| self.priorities[*other] > self.priorities[id];
        !self.reference.ready.is_empty() && (0..CONSUMERS).filter(is_higher).any(|other| self.appetite(other) > 0)
    }

    fn set_able(&mut self, id: usize, window: bool, able: bool) {
        self.reference.closed[id][usize::from(window)] = !able;
        // A consumer without room is off its turn.
        self.scheduled[id] &= able;
        self.with(|queue, effects| match window {
            true => queue.flow(ConsumerId(id as u64), Flow::Window(able), 0, effects),
            false => queue.flow(ConsumerId(id as u64), Flow::Room(able), 0, effects),
        });
    }

    fn publish(&mut self, count: u64, durable: bool) {
        let batch = batch(self.serial, count, durable, self.size);
        let submission = self.queue.submit(BatchPart::of(&batch, 0, count as u32), 0).unwrap();
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
        self.with(|queue, effects| {
            queue.submitted(submission, BatchPart::whole(&batch), placement(position), 0, effects)
        });
        let _ = accepted;
        self.admit_applied();
    }

    fn ready_numbers(&self) -> BTreeSet<u64> {
        self.queue.peek(0, usize::MAX).into_iter().map(|peeked| peeked.number).collect()
    }

    /// The reference takes over messages that the queue has applied, including drops.
    fn admit_applied(&mut self) {
        let next = self.queue.checkpoint().next;
        let ready = self.ready_numbers();
        while let Some(&(first, count, serial)) = self.pending.front() {
            if first + count > next {
                break;
            }
            self.pending.pop_front();
            for at in 0..count {
                if ready.contains(&(first + at)) {
                    let known = Known { serial: serial + at, redelivered: false, failures: 0 };
                    self.reference.ready.insert(first + at, known);
                    self.reference.unseen.insert(first + at);
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
        let overtaken =
            ![BROWSER, PICKER].contains(&id) && self.wants_read.is_none() && self.a_higher_one_wants_some(id);
        // The call may schedule the consumer again.
        self.scheduled[id] = false;
        let mut out = Vec::new();
        let end = self.with(|queue, effects| {
            queue.take(ConsumerId(id as u64), Portion { messages, bytes: 1 << 20 }, 0, &mut out, effects)
        });
        assert!(out.is_empty() || !overtaken, "{id} is served before a higher priority");
        for taken in out {
            for at in 0..taken.count {
                let number = taken.first + u64::from(at);
                let view = taken.batch.message((taken.index + at) as usize).view();
                let known = Known {
                    serial: view.envelope.received_ms,
                    redelivered: taken.redelivered,
                    failures: taken.attempts.failed,
                };
                let from = if id == BROWSER { self.reference.browsed } else { 0 };
                let from = if id == PICKER { number } else { from };
                let (first, expected) = self.reference.ready.range(from..).next().expect("nothing was ready");
                assert_eq!((number, known), (*first, *expected));
                assert!(id != PICKER || is_picked(known.serial), "its filter doesn't let {number} through");
                assert_eq!(taken.durable, view.envelope.durable);
                if id == BROWSER {
                    self.reference.browsed = number + 1;
                } else {
                    self.reference.ready.remove(&number);
                    self.reference.held[id].push_back((number, known, taken.durable));
                }
                if let Some(receiver) = self.reference.receivers.get_mut(&id) {
                    receiver.credit = receiver.credit.checked_sub(1).expect("a transfer above the credit");
                    receiver.delivery_count = receiver.delivery_count.wrapping_add(1);
                }
            }
        }
        self.scheduled[id] |= end == TurnEnd::More;
        let has_credit = self.reference.receivers.get(&id).is_some_and(|receiver| receiver.credit > 0);
        if id == PICKER && end == TurnEnd::Done && has_credit && !self.wants_own.contains_key(&id) && self.is_open(id) {
            assert!(!self.wants_some(), "it missed a message");
            self.reference.unseen.clear();
        }
    }

    fn is_open(&self, id: usize) -> bool {
        self.reference.closed[id] == [false; 2]
    }

    fn read(&mut self) {
        let Some(from) = self.wants_read.take() else { return };
        let mut runs: Vec<(u64, Arc<Batch>)> = Vec::new();
        for (&number, &serial) in self.store.range(from..).take(5) {
            runs.push((number, batch(serial, 1, true, self.size)));
        }
        self.with(|queue, effects| queue.loaded(StoredRead::Delivery, runs, 0, effects));
    }

    /// A read for a consumer of its own; the disk may still have messages that were settled a moment ago.
    fn read_own(&mut self, id: usize) {
        let Some(from) = self.wants_own.remove(&id) else { return };
        let stored = self.store.range(from..).take(3);
        let runs = stored.map(|(&number, &serial)| (number, batch(serial, 1, true, self.size))).collect();
        self.with(|queue, effects| queue.loaded(StoredRead::Own(ConsumerId(id as u64), from), runs, 0, effects));
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
    Requeue(usize, usize, bool),
    Grant(usize, u32, u32, bool),
    Able(usize, bool, bool),
    Read,
    ReadOwn(usize),
    Get,
    Purge,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u64..20, prop::bool::weighted(0.8)).prop_map(|(count, durable)| Step::Publish(count, durable)),
        3 => (0u64..20).prop_map(Step::Sync),
        6 => (0..CONSUMERS, 1u32..9).prop_map(|(id, count)| Step::Take(id, count)),
        4 => (0..CONSUMERS, 0usize..9).prop_map(|(id, at)| Step::Settle(id, at)),
        2 => (0..CONSUMERS, 0usize..9, any::<bool>()).prop_map(|(id, at, failed)| Step::Requeue(id, at, failed)),
        3 => (2..CONSUMERS, 0u32..3, 0u32..20, prop::bool::weighted(0.3))
            .prop_map(|(id, lag, credit, drain)| Step::Grant(id, lag, credit, drain)),
        1 => (0..CONSUMERS, any::<bool>(), any::<bool>()).prop_map(|(id, window, able)| Step::Able(id, window, able)),
        3 => Just(Step::Read),
        3 => (BROWSER..CONSUMERS).prop_map(Step::ReadOwn),
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
                rig.queue.apply(Watermarks::synced(Place::new(durable)), &mut effects);
                // Drops of this call concern messages that the reference learns of only now.
                effects.rare_mut().drops.clear();
                let before: Vec<u64> = rig.reference.ready.keys().copied().collect();
                let ready = rig.ready_numbers();
                for number in before {
                    if !ready.contains(&number) {
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
                        queue.settle(
                            Deliveries::of(Some(ConsumerId(id as u64)), &[run]),
                            Departure::Settled,
                            0,
                            effects,
                        );
                    });
                    rig.store.remove(&number);
                }
            }
            Step::Requeue(id, at, failed) => {
                if at < rig.reference.held[id].len() {
                    let (number, known, durable) = rig.reference.held[id].remove(at).unwrap();
                    let run = Rig::run(number, durable, rig.size);
                    let failures = known.failures + u32::from(failed);
                    rig.reference.ready.insert(number, Known { redelivered: true, failures, ..known });
                    rig.reference.unseen.insert(number);
                    rig.with(|queue, effects| {
                        queue.requeue(Deliveries::of(Some(ConsumerId(id as u64)), &[run]), failed, 0, effects);
                    });
                }
            }
            Step::Grant(id, lag, credit, drain) => {
                if rig.reference.receivers.contains_key(&id) {
                    rig.grant(id, lag, credit, drain);
                }
            }
            Step::Able(id, window, able) => rig.set_able(id, window, able),
            Step::Read => rig.read(),
            Step::ReadOwn(id) => rig.read_own(id),
            Step::Get => {
                let link: Arc<dyn Link> = rig.link.clone();
                match rig.with(|queue, effects| queue.get(true, &link, 9, 0, effects)) {
                    GetOutcome::Message(taken, left) => {
                        assert!(rig.reference.ready.len() > rig.on_their_way().min(256));
                        let (number, known) = rig.reference.ready.pop_first().expect("ready");
                        let view = taken.batch.message(taken.index as usize).view();
                        assert_eq!((taken.first, taken.redelivered), (number, known.redelivered));
                        assert_eq!((view.envelope.received_ms, taken.attempts.failed), (known.serial, known.failures));
                        assert_eq!(left as usize, rig.reference.ready.len());
                        rig.gone += 1;
                        rig.store.remove(&number);
                    }
                    GetOutcome::Empty => assert_eq!(rig.reference.ready.len(), rig.on_their_way()),
                    GetOutcome::Wait | GetOutcome::Converted | GetOutcome::Failed(_) => {
                        assert!(!rig.reference.ready.is_empty())
                    }
                }
            }
            Step::Purge => {
                let (count, runs) = rig.with(|queue, effects| queue.purge(0, effects));
                // Messages on disk are purged even if a consumer could take them, because their sizes aren't known.
                let stay = rig.reference.ready.len() - count as usize;
                assert!(stay <= rig.on_their_way().min(256));
                let first = rig.reference.ready.keys().nth(stay).copied();
                assert!(runs.iter().all(|run| Some(run.first) >= first), "what is on its way to a consumer stays");
                for run in runs {
                    for number in run.first..=run.last {
                        assert!(rig.reference.ready.remove(&number).is_some());
                        rig.store.remove(&number);
                        rig.gone += 1;
                    }
                }
            }
        }
        let (status, gauges) = (rig.queue.status(), rig.queue.gauges());
        let reasons: Vec<_> = status.waits.iter().map(|wait| wait.reason).collect();
        let on_disk = reasons.contains(&WaitReason::Disk);
        let counted = reasons.iter().filter(|reason| !on_disk || **reason != WaitReason::ConsumersBusy);
        let waits = counted.fold(0, |bits, reason| bits | 1 << *reason as u32);
        let sizes = QueueGauges {
            ready: status.ready,
            ready_bytes: status.ready_bytes,
            unacknowledged: status.unacknowledged,
            unacknowledged_bytes: status.unacknowledged_bytes,
            delayed: 0,
            delayed_bytes: 0,
            memory: status.memory,
            in_memory: status.in_memory,
            volatile: status.volatile.min(status.ready + status.unacknowledged),
            consumers: status.consumers.len() as u64,
            links: status.consumers.iter().filter(|consumer| consumer.link_credit.is_some()).count() as u64,
            waits: Waits::from_bits(waits),
            counted: status.counts.any(),
            failed: false,
        };
        assert_eq!(gauges, sizes, "what sums are made of isn't what is listed");
        assert_eq!(status.state, leveret_queue::QueueState::Running);
        assert_eq!(status.ready as usize, rig.reference.ready.len());
        assert_eq!(status.ready_bytes as usize, rig.reference.ready.len() * rig.size);
        rig.end_drains();
        let held: usize = rig.reference.held.iter().map(VecDeque::len).sum();
        assert_eq!(status.unacknowledged as usize, held);
        assert_eq!(status.conservation.gone(), rig.gone);
        assert_eq!(status.conservation.accepted, rig.gone + status.ready + status.unacknowledged);
        assert!(rig.reference.held[1].len() <= 7, "more than the prefetch");
        for (id, receiver) in &rig.reference.receivers {
            let shown = status.consumers.iter().find(|shown| shown.link_credit == Some(receiver.credit));
            assert!(shown.is_some(), "credit {} of {id} isn't in {:?}", receiver.credit, status.consumers);
        }
    }
}

/// Delivers all ready messages to a consumer without a prefetch limit, whatever happened before.
fn drain(rig: &mut Rig) {
    rig.with(|_, _| ());
    let position = rig.position;
    check(rig, vec![Step::Sync(0), Step::Able(0, false, true), Step::Able(0, true, true)]);
    assert_eq!(rig.position, position);
    for _ in 0..10_000 {
        if rig.reference.ready.is_empty() {
            return;
        }
        rig.read();
        for id in 0..BROWSER {
            rig.take(id, 50);
        }
        rig.end_drains();
    }
    panic!("a consumer with credit was never scheduled: {:?}", rig.queue.status());
}

/// Checks that the browsing consumer sees all ready messages and leaves no trace.
fn browse_to_the_end(rig: &mut Rig) {
    check(rig, vec![Step::Able(BROWSER, false, true), Step::Able(BROWSER, true, true)]);
    let before = rig.reference.ready.clone();
    rig.grant(BROWSER, 0, 10_000, true);
    for _ in 0..10_000 {
        rig.take(BROWSER, 50);
        rig.end_drains();
        if !rig.reference.receivers[&BROWSER].draining {
            assert_eq!(rig.available(BROWSER), 0);
            assert_eq!(rig.reference.ready, before);
            return check(rig, vec![]);
        }
        rig.read_own(BROWSER);
    }
    panic!("the drain of the one that only looks never ends: {:?}", rig.queue.status());
}

/// Checks that the consumer with a filter gets all that it wants, and that a drain then ends.
fn pick_to_the_end(rig: &mut Rig) {
    check(rig, vec![Step::Able(PICKER, false, true), Step::Able(PICKER, true, true)]);
    let left: Vec<u64> = numbers_of(rig, |serial| !is_picked(serial));
    rig.grant(PICKER, 0, 10_000, true);
    for _ in 0..10_000 {
        rig.take(PICKER, 50);
        rig.end_drains();
        if !rig.reference.receivers[&PICKER].draining {
            assert_eq!(numbers_of(rig, |_| true), left);
            return check(rig, vec![]);
        }
        rig.read_own(PICKER);
    }
    panic!("the drain of the one with a filter never ends: {:?}", rig.queue.status());
}

/// The numbers of ready messages.
fn numbers_of(rig: &Rig, wanted: impl Fn(u64) -> bool) -> Vec<u64> {
    let ready = rig.reference.ready.iter();
    ready.filter(|(_, known)| wanted(known.serial)).map(|(number, _)| *number).collect()
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
    fn links_agree_with_the_reference(
        steps in prop::collection::vec(step(), 1..150),
        large in any::<bool>(),
        priorities in prop::collection::vec(-1..2, CONSUMERS..=CONSUMERS),
    ) {
        let size = if large { 3000 } else { 10 };
        let mut rig = Rig::with_links(QueueOptions::default(), size, priorities.try_into().unwrap());
        check(&mut rig, steps);
        browse_to_the_end(&mut rig);
        pick_to_the_end(&mut rig);
        drain(&mut rig);
    }

    #[test]
    fn never_holds_more_than_its_limit(steps in prop::collection::vec(step(), 1..100)) {
        let options = QueueOptions { max_length: Some(10), ..QueueOptions::default() };
        let mut rig = Rig::new(options, 10);
        // The other consumer has no limit.
        rig.set_able(0, false, false);
        for step in steps {
            // A consumer that stalls, or is granted less credit, leaves messages that were on their way to it: they count when
            // the next one arrives.
            let grows = matches!(step, Step::Publish(..));
            check(&mut rig, vec![step]);
            // A head that is only on disk is read before it is dropped, because its size counts.
            let counted = rig.reference.ready.len() - rig.on_their_way();
            prop_assert!(!grows || counted <= 10 || rig.wants_read.is_some() || !rig.pending.is_empty());
        }
        drain(&mut rig);
    }
}

#[test]
fn reject_publish_refuses_messages_beyond_the_limit() {
    let options = QueueOptions { max_length: Some(3), overflow: Overflow::RejectPublish, ..QueueOptions::default() };
    let mut rig = Rig::empty(options, 10, [0; CONSUMERS]);
    let five = batch(1, 5, true, 1);
    let submission = rig.queue.submit(BatchPart::of(&five, 0, 5), 0).unwrap();
    assert_eq!(submission.accepted, 3);
    rig.with(|queue, effects| {
        queue.submitted(submission, BatchPart::whole(&five), Placement::At(Place::new(3)), 0, effects)
    });
    let more = rig.queue.submit(BatchPart::of(&five, 3, 2), 0).unwrap();
    assert_eq!(more.accepted, 0, "what is on its way to disk counts");
    assert_eq!(rig.queue.status().refused, 4);
}

#[test]
fn volatile_messages_wait_behind_durable_ones_in_flight() {
    let mut rig = Rig::new(QueueOptions::default(), 10);
    rig.publish(2, true);
    rig.publish(1, false);
    assert_eq!(rig.queue.ready(), 0);
    assert_eq!(rig.scheduled, [false; CONSUMERS]);
    rig.with(|queue, effects| queue.apply(Watermarks::synced(Place::new(1)), effects));
    assert_eq!(rig.queue.ready(), 0, "a run is applied when its last record is durable");
    rig.with(|queue, effects| queue.apply(Watermarks::synced(Place::new(2)), effects));
    assert_eq!(rig.queue.ready(), 3);
}

#[test]
fn an_idle_consumer_gets_messages_a_stalled_one_cannot_take() {
    let mut rig = Rig::new(QueueOptions::default(), 10);
    rig.with(|queue, effects| queue.flow(ConsumerId(0), Flow::Room(false), 5, effects));
    rig.publish(3, false);
    assert_eq!(rig.scheduled[..2], [false, true]);
    let status = rig.queue.status();
    assert_eq!(status.consumers[0].wait.reason.code(), "room");
    assert_eq!(status.consumers[0].wait.since, 5);
    rig.with(|queue, effects| queue.flow(ConsumerId(0), Flow::Room(true), 6, effects));
    assert_eq!(rig.scheduled[..2], [false, true], "what is ready is kept for the other one");
    rig.publish(1, false);
    assert_eq!(rig.scheduled[..2], [true, true]);
}

#[test]
fn a_requeued_message_is_shown_before_messages_read_earlier() {
    let mut rig = Rig::with_links(QueueOptions::default(), 10, [0, 1, 0, 0, 0, 0]);
    let steps = vec![
        Step::Publish(13, true),
        Step::Sync(0),
        Step::Take(1, 7),
        Step::Requeue(1, 0, false),
        Step::Requeue(1, 5, false),
        Step::Grant(BROWSER, 0, 2, false),
        Step::Take(BROWSER, 1),
        Step::ReadOwn(BROWSER),
        Step::Take(BROWSER, 2),
        Step::Requeue(1, 2, false),
    ];
    check(&mut rig, steps);
    browse_to_the_end(&mut rig);
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
            queue.settle(
                Deliveries::of(Some(ConsumerId(id as u64)), &[Rig::run(number, durable, 10)]),
                Departure::Settled,
                0,
                effects,
            );
        });
        served[id] += 1;
    }
    assert_eq!(served, [5, 5]);
}

#[test]
fn volatile_messages_are_not_part_of_a_checkpoint() {
    let mut rig = Rig::new(QueueOptions::default(), 10);
    rig.publish(2, true);
    rig.publish(3, false);
    rig.publish(1, true);
    let position = rig.position;
    rig.with(|queue, effects| queue.apply(Watermarks::synced(Place::new(position)), effects));
    let (live, bytes) = live(&rig.queue);
    assert_eq!(live.iter().collect::<Vec<_>>(), [0, 1, 5]);
    assert_eq!(bytes, 30);
}

#[test]
fn a_share_waits_for_a_consumer_that_is_late_to_its_turn() {
    let mut rig = Rig::new(QueueOptions::default(), 10);
    rig.with(|queue, effects| {
        queue.cancel(ConsumerId(1), 0, effects);
        let options = ConsumerOptions {
            filter: None,
            stream: None,
            timeout_ms: None,
            user: "u".into(),
            arguments: leveret_model::Arguments::default(),
            link: Arc::new(Recorder::default()),
            key: 2,
            tag: "t".into(),
            channel: "c".into(),
            automatic_ack: false,
            flow: ConsumerFlow::Prefetch(0),
            priority: 0,
            exclusive: false,
            mode: ConsumerMode::Move,
        };
        assert!(queue.add(ConsumerId(2), options, 0, effects).is_ok());
    });
    rig.publish(10, false);
    while rig.scheduled[0] {
        rig.take(0, 100);
    }
    assert_eq!(rig.reference.held[0].len(), 5);
    let mut out = Vec::new();
    rig.with(|queue, effects| {
        queue.take(ConsumerId(2), Portion { messages: 100, bytes: 1 << 20 }, 0, &mut out, effects)
    });
    assert_eq!(out.iter().map(|taken| taken.count).sum::<u32>(), 5);
}

/// A rig with one link besides the two consumers, and `count` messages ready.
fn with_link(count: u64) -> Rig {
    let mut rig = Rig::empty(QueueOptions::default(), 10, [0; CONSUMERS]);
    rig.add(2, ConsumerFlow::Credit { delivery_count: 5 });
    rig.reference.receivers.insert(2, Receiver { delivery_count: 5, ..Receiver::default() });
    if count > 0 {
        rig.publish(count, false);
    }
    rig
}

#[test]
fn settling_returns_no_link_credit_and_credit_can_shrink_to_0() {
    let mut rig = with_link(10);
    assert!(!rig.scheduled[2], "nothing was granted");
    assert_eq!(rig.queue.status().consumers[0].wait.reason.code(), "link_credit");
    rig.grant(2, 0, 4, false);
    rig.take(2, 3);
    check(&mut rig, vec![Step::Settle(2, 0), Step::Settle(2, 0), Step::Settle(2, 0)]);
    assert_eq!(rig.reference.receivers[&2].credit, 1);
    rig.grant(2, 0, 0, false);
    rig.take(2, 3);
    assert!(rig.reference.held[2].is_empty(), "its credit was taken back");
    rig.grant(2, 0, 2, false);
    rig.take(2, 3);
    assert_eq!(rig.reference.held[2].len(), 2);
    check(&mut rig, vec![]);
}

#[test]
fn a_drain_of_an_empty_queue_ends_at_once_and_signals_nothing() {
    let mut rig = with_link(0);
    let mut state = CreditState::default();
    rig.with(|queue, effects| {
        let flow = Flow::Credit { delivery_count: 5, link_credit: 7, drain: true };
        state = queue.flow(ConsumerId(2), flow, 0, effects).unwrap();
        assert!(effects.is_empty());
    });
    assert_eq!(state, CreditState { delivery_count: 12, credit: 0, available: 0 });
}

#[test]
fn a_drain_ends_after_the_last_delivery_and_uses_up_the_rest() {
    let mut rig = with_link(3);
    rig.grant(2, 0, 7, true);
    assert!(rig.scheduled[2] && rig.drained.is_empty());
    rig.take(2, 2);
    assert!(rig.drained.is_empty(), "one is left");
    rig.take(2, 2);
    assert_eq!(rig.drained, [(2, 12)]);
    check(&mut rig, vec![]);
    rig.publish(1, false);
    assert!(!rig.scheduled[2]);
}

#[test]
fn a_drain_without_room_waits_only_while_messages_are_ready() {
    let mut rig = with_link(1);
    rig.set_able(2, true, false);
    rig.grant(2, 0, 7, true);
    assert!(rig.drained.is_empty());
    assert_eq!(rig.queue.status().consumers[0].wait.reason.code(), "window");
    check(&mut rig, vec![Step::Get]);
    assert_eq!(rig.reference.receivers[&2].delivery_count, 12);
    assert!(!rig.reference.receivers[&2].draining);
}

#[test]
fn a_drain_waits_for_the_head_that_is_on_disk() {
    let mut rig = Rig::empty(QueueOptions::default(), 3000, [0; CONSUMERS]);
    rig.add(2, ConsumerFlow::Credit { delivery_count: 0 });
    rig.reference.receivers.insert(2, Receiver::default());
    for _ in 0..10 {
        rig.publish(19, true);
        check(&mut rig, vec![Step::Sync(0)]);
    }
    rig.grant(2, 0, 300, true);
    while rig.scheduled[2] {
        rig.take(2, 300);
    }
    assert!(rig.drained.is_empty() && !rig.reference.ready.is_empty());
    drain(&mut rig);
    assert_eq!(rig.reference.receivers[&2].delivery_count, 300);
}

#[test]
fn a_higher_priority_takes_messages_reserved_for_a_lower_one() {
    let mut rig = Rig::empty(QueueOptions::default(), 10, [3, 7, 0, 0, 0, 0]);
    rig.add(0, ConsumerFlow::Prefetch(0));
    rig.publish(10, false);
    assert!(rig.scheduled[0]);
    rig.add(1, ConsumerFlow::Prefetch(7));
    rig.take(0, 10);
    assert_eq!(rig.reference.held[0].len(), 0, "the head is the higher one's");
    rig.take(1, 10);
    assert_eq!(rig.reference.held[1].len(), 7);
    rig.take(0, 10);
    assert_eq!(rig.reference.held[0].len(), 3, "the higher one has no credit for these");
}

#[test]
fn a_late_consumer_does_not_wait_until_the_backlog_is_gone() {
    let mut rig = Rig::empty(QueueOptions::default(), 10, [0; CONSUMERS]);
    rig.add(0, ConsumerFlow::Prefetch(0));
    rig.publish(5000, false);
    rig.add(1, ConsumerFlow::Prefetch(7));
    assert!(rig.scheduled[1]);
    rig.take(1, 10);
    assert_eq!(rig.reference.held[1].len(), 7);
}

#[test]
fn browsing_changes_nothing_and_sees_later_arrivals() {
    let mut rig = with_link(3);
    rig.add(BROWSER, ConsumerFlow::Credit { delivery_count: 0 });
    rig.reference.receivers.insert(BROWSER, Receiver::default());
    assert!(!rig.scheduled[BROWSER], "nothing was granted");
    rig.grant(BROWSER, 0, 4, false);
    let before = rig.queue.status();
    rig.take(BROWSER, 10);
    assert_eq!(rig.reference.browsed, 3);
    let after = rig.queue.status();
    assert_eq!((after.counts.handed_out(), after.ready), (before.counts.handed_out(), before.ready));
    assert_eq!(after.conservation, before.conservation);
    assert_eq!(after.waits[0].reason.code(), "consumers_busy", "one that only looks is nobody's consumer");
    rig.publish(2, false);
    rig.take(BROWSER, 10);
    assert_eq!(rig.reference.browsed, 4, "its credit is used up");
    check(&mut rig, vec![]);
}

#[test]
fn browsing_messages_on_disk_does_not_affect_others() {
    let mut rig = Rig::empty(QueueOptions::default(), 3000, [0; CONSUMERS]);
    rig.add(BROWSER, ConsumerFlow::Prefetch(0));
    for _ in 0..10 {
        rig.publish(19, true);
        check(&mut rig, vec![Step::Sync(0)]);
    }
    let held = rig.queue.status().memory;
    while rig.available(BROWSER) > 0 {
        rig.take(BROWSER, 50);
        rig.read_own(BROWSER);
        assert!(rig.wants_read.is_none());
    }
    assert_eq!(rig.queue.status().memory, held);
    check(&mut rig, vec![]);
}
