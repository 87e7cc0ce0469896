//! Messages leave when they expire, wherever they are in the queue, and not before.

use std::sync::{Arc, Mutex};

use leveret_message::{Batch, BatchBuilder, BatchPart, Envelope};
use leveret_model::{DeadLetterOptions, QueueOptions};
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Deadlines, Deliveries, Departure, Effects, Epoch, Expiry,
    GetOutcome, Ledger, LedgerQueue, Link, MemoryBudget, Parts, Place, Placement, Portion, QueueState, Replica, Run,
    Signal, Surroundings, Taken, Watermarks,
};
use proptest::prelude::*;
use roaring::RoaringTreemap;

fn placement(position: Option<u64>) -> Placement<'static> {
    position.map_or(Placement::Volatile, |number| Placement::At(Place::new(number)))
}

/// The numbers that a checkpoint keeps as live, and their body bytes.
fn live(queue: &LedgerQueue) -> (RoaringTreemap, u64) {
    let checkpoint = queue.checkpoint();
    (checkpoint.live, checkpoint.bytes)
}

const EPOCH_MS: u64 = 1_700_000_000_000;
const MS: u64 = 1_000_000;

#[derive(Default)]
struct Recorder(Mutex<Vec<Signal>>);

impl Link for Recorder {
    fn signal(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}

struct Rig {
    queue: LedgerQueue,
    link: Arc<Recorder>,
    epoch: Epoch,
    now_ms: u64,
    deadline_ms: Option<u64>,
    expired: Vec<(u64, u64)>,
    read: Option<u64>,
}

impl Rig {
    fn new(ttl_ms: Option<u64>) -> Self {
        Self::with_options(QueueOptions { message_ttl_ms: ttl_ms, ..QueueOptions::default() })
    }

    fn with_options(options: QueueOptions) -> Self {
        Self::recovered(options, Ledger::default(), Expiry::default(), 0)
    }

    fn recovered(options: QueueOptions, ledger: Ledger, expiry: Expiry, now_ms: u64) -> Self {
        let next = ledger.next();
        let parts = Parts { expiry, ..Parts::default() };
        let replica = Replica { ledger, delivered_below: next, parts, ..Replica::default() };
        let budget = Arc::new(MemoryBudget::new(0));
        let epoch = Epoch::new(EPOCH_MS + now_ms);
        let surroundings =
            Surroundings { budget, epoch: epoch.clone(), strict_compat: false, standing_delay_target: 0 };
        let queue = LedgerQueue::new(options, true, replica, surroundings, 0);
        let mut rig = Self {
            queue,
            epoch,
            link: Arc::default(),
            // The monotonic clock starts again.
            now_ms: 0,
            deadline_ms: None,
            expired: Vec::new(),
            read: None,
        };
        rig.with(|_, _| ());
        rig
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut LedgerQueue, &mut Effects) -> R) -> R {
        let mut effects = Effects::default();
        let result = call(&mut self.queue, &mut effects);
        if let Some(deadline) = self.queue.announce_deadlines().soonest(&self.epoch) {
            self.deadline_ms = Some(deadline / MS);
        }
        effects.fire();
        for run in effects.rare().map_or(&[][..], |rare| &rare.expired) {
            self.expired.extend((run.first..=run.last).map(|number| (number, self.now_ms)));
        }
        self.read = effects.read.or(self.read);
        result
    }

    /// One message per time to live, all received now.
    fn batch(&self, ttls: &[Option<u64>], durable: bool, size: usize) -> Arc<Batch> {
        let received_ms = EPOCH_MS + self.now_ms;
        let mut builder = BatchBuilder::default();
        for ttl in ttls {
            let expiry_ms = ttl.map_or(0, |ttl| Envelope::expiry(received_ms, ttl));
            let envelope = Envelope { durable, received_ms, expiry_ms, ..Envelope::default() };
            builder.push(&envelope, b"\0\0", &vec![0; size]);
        }
        Arc::new(builder.finish())
    }

    fn publish(&mut self, ttls: &[Option<u64>]) {
        let batch = self.batch(ttls, false, 10);
        self.submit(batch, None);
    }

    fn submit(&mut self, batch: Arc<Batch>, position: Option<u64>) {
        let now = self.now_ms * MS;
        let count = batch.len() as u32;
        self.with(|queue, effects| {
            let submission = queue.submit(BatchPart::of(&batch, 0, count), now).unwrap();
            queue.submitted(submission, BatchPart::whole(&batch), placement(position), now, effects);
        });
    }

    /// Advances time, and has the home core run the timers as announced, up to 100 ms late.
    fn pass(&mut self, ms: u64) {
        let until = self.now_ms + ms;
        while let Some(deadline) = self.deadline_ms.filter(|deadline| *deadline + 100 <= until) {
            self.now_ms = self.now_ms.max(deadline + 100);
            self.deadline_ms = None;
            let now = self.now_ms * MS;
            self.with(|queue, effects| queue.run_timers(now, 256, effects));
        }
        self.now_ms = until;
    }

    fn add(&mut self, id: u64) {
        let options = ConsumerOptions {
            filter: None,
            stream: None,
            timeout_ms: None,
            user: "u".into(),
            arguments: leveret_model::Arguments::default(),
            link: self.link.clone(),
            key: id,
            tag: "t".into(),
            channel: "c".into(),
            automatic_ack: false,
            flow: ConsumerFlow::Prefetch(0),
            priority: 0,
            exclusive: false,
            mode: ConsumerMode::Move,
        };
        let now = self.now_ms * MS;
        self.with(|queue, effects| assert!(queue.add(ConsumerId(id), options, now, effects).is_ok()));
    }

    fn take(&mut self, id: u64, most: u32) -> Vec<Taken> {
        let mut out = Vec::new();
        let now = self.now_ms * MS;
        self.with(|queue, effects| {
            queue.take(ConsumerId(id), Portion { messages: most, bytes: 1 << 20 }, now, &mut out, effects)
        });
        out
    }

    fn get(&mut self) -> Option<u64> {
        let link: Arc<dyn Link> = self.link.clone();
        let now = self.now_ms * MS;
        match self.with(|queue, effects| queue.get(true, &link, 9, now, effects)) {
            GetOutcome::Message(taken, _) => Some(taken.first),
            GetOutcome::Empty => None,
            GetOutcome::Wait | GetOutcome::Converted | GetOutcome::Failed(_) => panic!("nothing of this is on disk"),
        }
    }

    fn check(&self) {
        let status = self.queue.status();
        assert_eq!(status.state, QueueState::Running);
        let counts = status.conservation;
        assert_eq!(counts.accepted, counts.gone() + status.ready + status.unacknowledged);
        assert_eq!(counts.expired as usize, self.expired.len());
    }
}

#[test]
fn a_short_ttl_behind_a_long_one_does_not_wait() {
    let mut rig = Rig::new(None);
    rig.publish(&[Some(60_000), Some(1_000), None]);
    rig.pass(999);
    assert!(rig.expired.is_empty());
    rig.pass(1_001);
    assert_eq!(rig.expired.len(), 1);
    assert_eq!(rig.expired[0].0, 1);
    assert_eq!(rig.queue.ready(), 2);
    assert_eq!(rig.queue.status().ready_bytes, 20);
    rig.pass(60_000);
    assert_eq!(rig.queue.ready(), 1, "one without a time stays");
    rig.check();
}

#[test]
fn the_lower_of_both_times_counts() {
    let mut rig = Rig::new(Some(2_000));
    rig.publish(&[Some(60_000), None, Some(500)]);
    rig.pass(1_500);
    assert_eq!(rig.expired.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2]);
    rig.pass(1_600);
    assert_eq!(rig.expired.len(), 3);
    rig.check();
}

#[test]
fn no_consumer_is_given_an_expired_message() {
    let mut rig = Rig::new(None);
    rig.publish(&[Some(50), Some(300), Some(50), None]);
    // The home core hasn't run the timers yet.
    rig.now_ms = 60;
    assert_eq!(rig.get(), Some(1));
    assert_eq!(rig.get(), Some(3));
    assert_eq!(rig.get(), None);
    let mut rig = Rig::new(None);
    rig.publish(&[Some(50), Some(300), Some(50), None]);
    rig.now_ms = 60;
    rig.add(1);
    let taken: Vec<_> = rig.take(1, 10).iter().map(|taken| (taken.first, taken.count)).collect();
    assert_eq!(taken, [(1, 1), (3, 1)]);
    rig.check();
}

#[test]
fn a_delivered_message_expires_when_it_is_requeued() {
    let mut rig = Rig::new(Some(1_000));
    rig.add(1);
    rig.publish(&[None, None, Some(300)]);
    assert_eq!(rig.take(1, 10).len(), 1);
    rig.pass(5_000);
    assert!(rig.expired.is_empty());
    let run = Run { first: 0, last: 2, bytes: 30, durable: false };
    let settled = Run { last: 0, bytes: 10, ..run };
    let back = Run { first: 1, bytes: 20, ..run };
    rig.with(|queue, effects| {
        queue.settle(Deliveries::of(Some(ConsumerId(1)), &[settled]), Departure::Settled, 0, effects)
    });
    rig.with(|queue, effects| queue.requeue(Deliveries::of(Some(ConsumerId(1)), &[back]), false, 0, effects));
    assert_eq!(rig.expired.len(), 2);
    assert_eq!(rig.queue.ready(), 0);
    assert_eq!(rig.queue.status().ready_bytes, 0);
    rig.check();
}

#[test]
fn a_message_with_a_ttl_of_0_is_delivered_at_once_or_expires() {
    let mut rig = Rig::new(None);
    rig.publish(&[Some(0), None]);
    assert_eq!(rig.expired.len(), 1, "nobody was there");
    rig.add(1);
    assert_eq!(rig.take(1, 10).len(), 1);
    rig.publish(&[Some(0)]);
    rig.now_ms += 3;
    assert_eq!(rig.take(1, 10).len(), 1, "a consumer was on its way");
    let mut rig = Rig::new(Some(0));
    rig.publish(&[None, None]);
    assert_eq!(rig.expired.len(), 2);
    assert_eq!(rig.get(), None);
    rig.check();
}

#[test]
fn messages_that_are_only_on_disk_expire_without_a_read() {
    let mut rig = Rig::new(Some(1_000));
    for at in 0..20 {
        let batch = rig.batch(&[None; 10], true, 3_000);
        rig.submit(batch, Some(at + 1));
    }
    rig.with(|queue, effects| queue.apply(Watermarks::synced(Place::new(20)), effects));
    assert_eq!(rig.queue.ready(), 200);
    assert!(rig.queue.status().memory < 20 * 30_000, "most of it is on disk");
    rig.pass(2_000);
    assert_eq!(rig.expired.len(), 200);
    assert_eq!(rig.read, None);
    let status = rig.queue.status();
    assert_eq!((status.ready_bytes, status.memory), (0, 0));
    rig.check();
}

#[test]
fn times_survive_a_restart() {
    let mut rig = Rig::new(Some(10_000));
    let batch = rig.batch(&[None, Some(2_000), Some(3_000)], true, 10);
    rig.submit(batch, Some(1));
    rig.with(|queue, effects| queue.apply(Watermarks::synced(Place::new(1)), effects));
    rig.pass(2_600);
    assert_eq!(rig.expired.len(), 1);
    let (live, bytes) = live(&rig.queue);
    let ledger = Ledger::restore(rig.queue.checkpoint().next, &live, bytes);
    let expiry = Parts::decode(&rig.queue.checkpoint().state).unwrap().expiry;
    let options = QueueOptions { message_ttl_ms: Some(10_000), ..QueueOptions::default() };
    // The power was off for a while.
    let mut again = Rig::recovered(options, ledger, expiry, 2_900);
    assert_eq!(again.queue.ready(), 2);
    again.pass(50);
    assert!(again.expired.is_empty());
    again.pass(700);
    assert_eq!(again.expired.len(), 1);
    again.pass(6_000);
    assert_eq!(again.expired.len(), 1);
    again.pass(1_200);
    assert_eq!(again.expired.len(), 2);
    again.check();
}

#[test]
fn expired_messages_that_have_not_moved_are_due_after_a_restart() {
    let dead_letter = Some(DeadLetterOptions { exchange: "x".into(), ..DeadLetterOptions::default() });
    let options = QueueOptions { dead_letter, ..QueueOptions::default() };
    let mut rig = Rig::with_options(options.clone());
    let batch = rig.batch(&[None, Some(1_000)], true, 10);
    rig.submit(batch, Some(1));
    rig.with(|queue, effects| queue.apply(Watermarks::synced(Place::new(1)), effects));
    rig.pass(2_000);
    let status = rig.queue.status();
    assert_eq!((status.ready, status.conservation.dead_lettered, status.moving), (1, 1, 1));
    let (live, bytes) = live(&rig.queue);
    assert!(live.contains(1));
    let ledger = Ledger::restore(rig.queue.checkpoint().next, &live, bytes);
    let expiry = Parts::decode(&rig.queue.checkpoint().state).unwrap().expiry;
    let mut again = Rig::recovered(options, ledger, expiry, 2_000);
    again.pass(200);
    assert_eq!(again.queue.status().conservation.dead_lettered, 1);
}

#[test]
fn a_turn_expires_a_bounded_number_and_asks_for_the_next() {
    let mut rig = Rig::new(Some(1_000));
    for _ in 0..10 {
        rig.publish(&[None; 100]);
    }
    rig.now_ms = 2_000;
    let now = rig.now_ms * MS;
    rig.with(|queue, effects| queue.run_timers(now, 256, effects));
    assert_eq!(rig.expired.len(), 256);
    assert!(rig.deadline_ms.is_some_and(|deadline| deadline <= 2_000));
    rig.pass(1_000);
    assert_eq!(rig.expired.len(), 1_000);
    rig.check();
}

#[test]
fn messages_expire_by_a_clock_that_was_set_and_queues_dont() {
    let options = QueueOptions { message_ttl_ms: Some(60_000), expires_ms: Some(50_000), ..QueueOptions::default() };
    for by_ms in [30_000, -30_000] {
        let mut rig = Rig::with_options(options.clone());
        rig.publish(&[Some(40_000), None]);
        rig.queue.run_timers(0, 256, &mut Effects::default());
        let deadlines = rig.queue.announce_deadlines();
        let expected = Deadlines { monotonic: 50_000 * MS, wall_ms: EPOCH_MS + 40_000 };
        assert_eq!(deadlines, expected);
        rig.epoch.set(EPOCH_MS.saturating_add_signed(by_ms));
        let own_ms = 40_000u64.saturating_add_signed(-by_ms);
        assert_eq!(deadlines.soonest(&rig.epoch), Some(own_ms.min(50_000) * MS), "the announced one is right again");
        let mut run = |at_ms: u64| {
            rig.now_ms = at_ms;
            (rig.with(|queue, effects| queue.run_timers(at_ms * MS, 256, effects)), rig.expired.len())
        };
        assert_eq!(run(own_ms.min(50_000) - 1), (false, 0), "{by_ms}");
        assert_eq!(run(own_ms.min(50_000)), (own_ms > 50_000, usize::from(own_ms <= 50_000)), "{by_ms}");
        assert_eq!(run(own_ms), (own_ms > 50_000, 1), "{by_ms}");
        assert_eq!(run(own_ms + 19_999), (own_ms > 30_000, 1), "{by_ms}");
        assert_eq!(run(own_ms + 20_000), (own_ms >= 30_000, 2), "{by_ms}");
    }
}

#[test]
fn an_unused_queue_expires_and_a_consumer_or_a_get_keeps_it() {
    let mut rig = Rig::with_options(QueueOptions { expires_ms: Some(1_000), ..QueueOptions::default() });
    assert_eq!(rig.deadline_ms, Some(1_000));
    rig.now_ms = 900;
    assert_eq!(rig.get(), None);
    let unused = |rig: &mut Rig, now_ms: u64| {
        rig.now_ms = now_ms;
        rig.with(|queue, effects| queue.run_timers(now_ms * MS, 256, effects))
    };
    assert!(!unused(&mut rig, 1_000));
    assert_eq!(rig.deadline_ms, Some(1_900));
    rig.add(1);
    assert!(!unused(&mut rig, 5_000));
    rig.with(|queue, effects| queue.cancel(ConsumerId(1), 5_000 * MS, effects));
    assert_eq!(rig.deadline_ms, Some(6_000));
    assert!(!unused(&mut rig, 5_999));
    assert!(unused(&mut rig, 6_000));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    /// Each message leaves within a second of its expiry time if no consumer has it then, and never early.
    #[test]
    fn every_message_leaves_within_a_second_of_its_time(
        queue_ttl in prop::option::of(0u64..20_000),
        steps in prop::collection::vec((0u64..3_000, prop::collection::vec(prop::option::of(1u64..20_000), 0..5)), 1..40),
    ) {
        let mut rig = Rig::new(queue_ttl);
        let mut deadlines = Vec::new();
        for (pause, ttls) in steps {
            rig.pass(pause);
            for ttl in &ttls {
                let least = ttl.iter().chain(&queue_ttl).min();
                deadlines.push(least.map(|ttl| rig.now_ms + ttl));
            }
            if !ttls.is_empty() {
                rig.publish(&ttls);
            }
        }
        rig.pass(30_000);
        for (number, at) in &rig.expired {
            let deadline = deadlines[*number as usize].take().expect("it has a time and leaves once");
            prop_assert!((deadline..deadline + 1_000).contains(at), "{number}: {at} instead of {deadline}");
        }
        prop_assert_eq!(deadlines.iter().flatten().count(), 0);
        rig.check();
    }
}
