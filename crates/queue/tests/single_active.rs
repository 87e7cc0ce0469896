//! Queues with a single active consumer, driven by random operations, against a list of consumers that a naive rule is applied
//! to after each of them.

use std::sync::{Arc, Mutex};

use leveret_message::{BatchBuilder, BatchPart, Envelope};
use leveret_model::{QueueOptions, QueueType};
use leveret_queue::{
    Activity, ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Deliveries, Departure, Effects, Epoch, Flow,
    LedgerQueue, Link, MemoryBudget, Placement, Portion, Replica, Run, Signal, Surroundings, Taken,
};
use proptest::prelude::*;

#[derive(Default)]
struct Recorder(Mutex<Vec<Signal>>);

impl Link for Recorder {
    fn signal(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Add { priority: i32, automatic_ack: bool },
    Cancel(usize),
    Leave(usize),
    Publish(u64),
    Take(usize, u32),
    Settle(usize, bool),
    Room(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3, any::<bool>()).prop_map(|(priority, automatic_ack)| Step::Add { priority, automatic_ack }),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => any::<usize>().prop_map(Step::Leave),
        3 => (1..5u64).prop_map(Step::Publish),
        5 => (any::<usize>(), 1..4u32).prop_map(|(at, most)| Step::Take(at, most)),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(at, back)| Step::Settle(at, back)),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(at, open)| Step::Room(at, open)),
    ]
}

/// A consumer as the reference knows it, in the order of registration.
struct Known {
    id: u64,
    priority: i32,
    automatic_ack: bool,
    room: bool,
    held: Vec<Run>,
}

struct Rig {
    queue: LedgerQueue,
    link: Arc<Recorder>,
    replaces: bool,
    consumers: Vec<Known>,
    active: Option<u64>,
    ids: u64,
    published: u64,
    taken: u64,
}

impl Rig {
    fn new(queue_type: QueueType) -> Self {
        let options = QueueOptions { queue_type, single_active_consumer: true, ..QueueOptions::default() };
        let surroundings = Surroundings {
            budget: Arc::new(MemoryBudget::new(1 << 20)),
            epoch: Epoch::default(),
            strict_compat: false,
            standing_delay_target: 0,
        };
        Self {
            queue: LedgerQueue::new(options, true, Replica::default(), surroundings, 0),
            link: Arc::default(),
            replaces: queue_type == QueueType::Quorum,
            consumers: Vec::new(),
            active: None,
            ids: 0,
            published: 0,
            taken: 0,
        }
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut LedgerQueue, &mut Effects) -> R) -> R {
        let mut effects = Effects::default();
        let result = call(&mut self.queue, &mut effects);
        effects.fire();
        result
    }

    fn add(&mut self, priority: i32, automatic_ack: bool) {
        self.ids += 1;
        // Descending, so that ids say nothing about the order of registration.
        let id = 1_000 - self.ids;
        let options = ConsumerOptions {
            link: self.link.clone(),
            key: id,
            tag: "t".into(),
            channel: "c".into(),
            automatic_ack,
            flow: ConsumerFlow::Prefetch(3),
            priority,
            exclusive: false,
            mode: ConsumerMode::Move,
            filter: None,
            stream: None,
            timeout_ms: None,
            user: "u".into(),
            arguments: leveret_model::Arguments::default(),
        };
        self.with(|queue, effects| queue.add(ConsumerId(id), options, 0, effects)).expect("it isn't exclusive");
        self.consumers.push(Known { id, priority, automatic_ack, room: true, held: Vec::new() });
    }

    /// Takes; returns the number of messages.
    fn take(&mut self, at: usize, most: u32) -> u64 {
        let id = ConsumerId(self.consumers[at].id);
        let mut out = Vec::new();
        self.with(|queue, effects| queue.take(id, Portion { messages: most, bytes: 1 << 20 }, 0, &mut out, effects));
        if !self.consumers[at].automatic_ack {
            self.consumers[at].held.extend(out.iter().map(Taken::run));
        }
        let count = out.iter().map(|taken| u64::from(taken.count)).sum();
        self.taken += count;
        count
    }

    fn carry_out(&mut self, step: Step) {
        let count = self.consumers.len();
        match step {
            Step::Add { priority, automatic_ack } => self.add(priority, automatic_ack),
            Step::Publish(count) => {
                let mut builder = BatchBuilder::default();
                (0..count).for_each(|_| builder.push(&Envelope::default(), b"\0\0", b"body"));
                let batch = Arc::new(builder.finish());
                let submission = self.queue.submit(BatchPart::of(&batch, 0, count as u32), 0).expect("it is open");
                self.with(|queue, effects| {
                    queue.submitted(submission, BatchPart::whole(&batch), Placement::Volatile, 0, effects)
                });
                self.published += count;
            }
            _ if count == 0 => {}
            Step::Cancel(at) => {
                let known = self.consumers.remove(at % count);
                self.with(|queue, effects| queue.cancel(ConsumerId(known.id), 0, effects));
                // Its channel gives back its deliveries later.
                self.give_back(None, &known.held);
            }
            Step::Leave(at) => {
                let known = self.consumers.remove(at % count);
                self.taken -= known.held.iter().map(Run::count).sum::<u64>();
                let id = ConsumerId(known.id);
                let held = [(Some(id), known.held)];
                self.with(|queue, effects| queue.leave(&[id], &held, true, 0, effects));
            }
            Step::Take(at, most) => {
                self.take(at % count, most);
            }
            Step::Settle(at, back) => {
                let (id, held) = (self.consumers[at % count].id, std::mem::take(&mut self.consumers[at % count].held));
                match back {
                    true => self.give_back(Some(ConsumerId(id)), &held),
                    false => self.with(|queue, effects| {
                        queue.settle(Deliveries::of(Some(ConsumerId(id)), &held), Departure::Settled, 0, effects);
                    }),
                }
            }
            Step::Room(at, open) => {
                let known = &mut self.consumers[at % count];
                known.room = open;
                let id = ConsumerId(known.id);
                self.with(|queue, effects| queue.flow(id, Flow::Room(open), 0, effects));
            }
        }
    }

    fn give_back(&mut self, id: Option<ConsumerId>, held: &[Run]) {
        self.taken -= held.iter().map(Run::count).sum::<u64>();
        self.with(|queue, effects| queue.requeue(Deliveries::of(id, held), false, 0, effects));
    }

    /// The consumer that the rule makes active, and whether it gets messages.
    fn elect(&mut self) -> Option<(u64, bool)> {
        let mut order: Vec<&Known> = self.consumers.iter().collect();
        order.sort_by_key(|known| -known.priority);
        let first = order.first()?;
        let now = order.iter().find(|known| Some(known.id) == self.active);
        let (id, is_served) = match now {
            None => (first.id, true),
            Some(now) if !self.replaces || first.priority == now.priority => (now.id, true),
            Some(now) if !now.held.is_empty() => (now.id, false),
            Some(_) => (first.id, true),
        };
        self.active = Some(id);
        Some((id, is_served))
    }

    fn check(&mut self) {
        let elected = self.elect();
        if elected.is_none() {
            self.active = None;
        }
        for at in 0..self.consumers.len() {
            let id = self.consumers[at].id;
            let expected = match elected {
                Some((active, true)) if active == id => Activity::Active,
                Some((active, false)) if active == id => Activity::Quiescing,
                _ => Activity::Waiting,
            };
            let status = self.queue.consumer_status(ConsumerId(id)).expect("it is there");
            assert_eq!(status.activity, expected, "consumer {id}");
        }
    }

    /// Checks that no consumer but the active one gets anything, and that this one does if it can.
    fn check_takes(&mut self) {
        let elected = self.elect();
        for at in 0..self.consumers.len() {
            let Known { id, room, automatic_ack, ref held, .. } = self.consumers[at];
            let held: u64 = held.iter().map(Run::count).sum();
            let can_take = room && elected == Some((id, true)) && (automatic_ack || held < 3);
            let is_ready = self.published > self.taken;
            assert_eq!(self.take(at, 1), u64::from(can_take && is_ready), "consumer {id} of {elected:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn only_the_elected_consumer_gets_messages(
        steps in prop::collection::vec(step(), 1..120),
        is_quorum in any::<bool>(),
    ) {
        let mut rig = Rig::new(if is_quorum { QueueType::Quorum } else { QueueType::Classic });
        for step in steps {
            rig.carry_out(step);
            rig.check();
        }
        rig.check_takes();
    }
}
