//! Messages for which a consumer has credit are reserved for it: no limit, expiry, get or purge takes them away.

use std::sync::{Arc, Mutex};

use leveret_message::{Batch, BatchBuilder, BatchPart, Envelope};
use leveret_model::{Overflow, QueueOptions};
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Deliveries, Departure, Effects, Epoch, GetOutcome,
    LedgerQueue, Link, MemoryBudget, Place, Placement, Portion, Replica, Signal, Surroundings, Taken, Watermarks,
};

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
    now_ms: u64,
    position: u64,
}

impl Rig {
    fn new(options: QueueOptions) -> Self {
        Self::with_compat(options, false)
    }

    fn with_compat(options: QueueOptions, strict_compat: bool) -> Self {
        let budget = Arc::new(MemoryBudget::new(1 << 20));
        let surroundings =
            Surroundings { budget, epoch: Epoch::new(EPOCH_MS), strict_compat, standing_delay_target: 0 };
        let queue = LedgerQueue::new(options, true, Replica::default(), surroundings, 0);
        Self { queue, link: Arc::default(), now_ms: 0, position: 0 }
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut LedgerQueue, &mut Effects) -> R) -> R {
        let mut effects = Effects::default();
        let result = call(&mut self.queue, &mut effects);
        effects.fire();
        result
    }

    fn consume(&mut self, id: u64, prefetch: u32) {
        let options = ConsumerOptions {
            link: self.link.clone(),
            key: id,
            tag: "t".into(),
            channel: "c".into(),
            automatic_ack: false,
            flow: ConsumerFlow::Prefetch(prefetch),
            priority: 0,
            exclusive: false,
            mode: ConsumerMode::Move,
            filter: None,
            stream: None,
            timeout_ms: None,
            user: "u".into(),
            arguments: leveret_model::Arguments::default(),
        };
        let now = self.now_ms * MS;
        assert!(self.with(|queue, effects| queue.add(ConsumerId(id), options, now, effects)).is_ok());
    }

    fn batch(&self, count: usize, ttl_ms: Option<u64>) -> Arc<Batch> {
        let received_ms = EPOCH_MS + self.now_ms;
        let expiry_ms = ttl_ms.map_or(0, |ttl| Envelope::expiry(received_ms, ttl));
        let mut builder = BatchBuilder::default();
        for _ in 0..count {
            let envelope = Envelope { durable: true, received_ms, expiry_ms, ..Envelope::default() };
            builder.push(&envelope, b"\0\0", b"0123456789");
        }
        Arc::new(builder.finish())
    }

    /// Submits messages; returns how many were accepted. They become part of the queue when [`Rig::sync`] is called.
    fn submit(&mut self, count: usize, ttl_ms: Option<u64>) -> u32 {
        let (batch, now) = (self.batch(count, ttl_ms), self.now_ms * MS);
        let submission = self.queue.submit(BatchPart::of(&batch, 0, count as u32), now).unwrap();
        self.position += 1;
        let position = self.position;
        self.with(|queue, effects| {
            queue.submitted(submission, BatchPart::whole(&batch), Placement::At(Place::new(position)), now, effects)
        });
        submission.accepted
    }

    fn sync(&mut self) {
        let position = self.position;
        self.with(|queue, effects| queue.apply(Watermarks::synced(Place::new(position)), effects));
    }

    fn run_timers(&mut self) {
        let now = self.now_ms * MS;
        self.with(|queue, effects| queue.run_timers(now, 256, effects));
    }

    /// The numbers that a consumer receives.
    fn take(&mut self, id: u64) -> Vec<u64> {
        let (mut out, now) = (Vec::<Taken>::new(), self.now_ms * MS);
        self.with(|queue, effects| {
            queue.take(ConsumerId(id), Portion { messages: 1000, bytes: 1 << 20 }, now, &mut out, effects)
        });
        out.iter().flat_map(|taken| (0..taken.count).map(|at| taken.first + u64::from(at))).collect()
    }

    fn cancel(&mut self, id: u64) {
        let now = self.now_ms * MS;
        assert!(self.with(|queue, effects| queue.cancel(ConsumerId(id), now, effects)).is_some());
    }

    fn get(&mut self) -> Option<u64> {
        let (link, now): (Arc<dyn Link>, _) = (self.link.clone(), self.now_ms * MS);
        match self.with(|queue, effects| queue.get(true, &link, 99, now, effects)) {
            GetOutcome::Message(taken, _) => Some(taken.first),
            GetOutcome::Empty => None,
            GetOutcome::Wait | GetOutcome::Converted | GetOutcome::Failed(_) => panic!("all is in memory"),
        }
    }
}

fn limited(max_length: u64, overflow: Overflow) -> QueueOptions {
    QueueOptions { max_length: Some(max_length), overflow, ..QueueOptions::default() }
}

#[test]
fn a_limit_drops_nothing_that_a_consumer_has_credit_for() {
    for limit in [0, 10] {
        let mut rig = Rig::new(limited(limit, Overflow::DropHead));
        rig.consume(1, 0);
        assert_eq!(rig.submit(100, None), 100);
        rig.sync();
        assert_eq!(rig.take(1).len(), 100);
        assert_eq!(rig.queue.status().conservation.dropped, 0);
    }
}

#[test]
fn a_limit_drops_the_oldest_messages_beyond_the_credit() {
    let mut rig = Rig::new(limited(10, Overflow::DropHead));
    rig.consume(1, 5);
    rig.submit(100, None);
    rig.sync();
    assert_eq!(rig.queue.status().conservation.dropped, 85);
    assert_eq!(rig.take(1), [0, 1, 2, 3, 4]);
    rig.consume(2, 0);
    assert_eq!(rig.take(2), (90..100).collect::<Vec<u64>>());
}

#[test]
fn a_limit_in_bytes_counts_messages_without_credit_only() {
    let mut rig = Rig::new(QueueOptions { max_length_bytes: Some(100), ..QueueOptions::default() });
    rig.consume(1, 5);
    rig.submit(15, None);
    rig.sync();
    assert_eq!(rig.queue.status().conservation.dropped, 0);
    rig.submit(1, None);
    rig.sync();
    assert_eq!(rig.take(1), [0, 1, 2, 3, 4]);
    assert_eq!(rig.queue.ready(), 10);
    assert_eq!(rig.queue.status().conservation.dropped, 1);
}

#[test]
fn a_full_queue_refuses_nothing_that_a_consumer_has_credit_for() {
    let mut rig = Rig::new(limited(10, Overflow::RejectPublish));
    rig.consume(1, 5);
    assert_eq!(rig.submit(4, None), 4);
    assert_eq!(rig.submit(100, None), 11, "one is the consumer's, the limit allows ten");
    assert_eq!(rig.submit(1, None), 0);
    rig.sync();
    assert_eq!(rig.take(1), [0, 1, 2, 3, 4]);
    let mut unlimited = Rig::new(limited(0, Overflow::RejectPublish));
    unlimited.consume(1, 0);
    assert_eq!(unlimited.submit(100, None), 100);
    let mut strict = Rig::with_compat(limited(0, Overflow::RejectPublish), true);
    strict.consume(1, 0);
    assert_eq!(strict.submit(1, None), 0, "as RabbitMQ 4.3");
}

#[test]
fn a_cancelled_consumers_messages_count_again() {
    let mut rig = Rig::new(limited(10, Overflow::DropHead));
    rig.consume(1, 0);
    rig.submit(30, None);
    rig.sync();
    assert_eq!(rig.queue.ready(), 30);
    rig.cancel(1);
    assert_eq!(rig.queue.ready(), 10);
}

#[test]
fn a_message_does_not_expire_on_its_way_to_a_waiting_consumer() {
    let mut rig = Rig::new(QueueOptions::default());
    rig.consume(1, 2);
    rig.submit(3, Some(1));
    rig.now_ms = 6;
    rig.sync();
    rig.now_ms = 2_000;
    rig.run_timers();
    assert_eq!(rig.take(1), [0, 1], "nobody had credit for the third");
    assert_eq!(rig.queue.status().conservation.expired, 1);
    // The returned message has outlived its time to live, so it expires.
    let run = leveret_queue::Run { first: 0, last: 0, bytes: 10, durable: true };
    rig.with(|queue, effects| queue.requeue(Deliveries::of(Some(ConsumerId(1)), &[run]), false, 2_000 * MS, effects));
    assert_eq!((rig.queue.ready(), rig.queue.status().conservation.expired), (0, 2));
    rig.now_ms = 2_001;
    rig.with(|queue, effects| {
        let run = leveret_queue::Run { first: 1, last: 1, bytes: 10, durable: true };
        queue.settle(Deliveries::of(Some(ConsumerId(1)), &[run]), Departure::Settled, 2_001 * MS, effects);
    });
    assert_eq!(rig.queue.status().conservation.settled, 1);
}

#[test]
fn a_message_expires_once_no_consumer_waits_for_it_any_more() {
    let mut rig = Rig::new(QueueOptions { message_ttl_ms: Some(5), ..QueueOptions::default() });
    rig.consume(1, 0);
    rig.submit(2, None);
    rig.sync();
    rig.now_ms = 2_000;
    rig.run_timers();
    assert_eq!(rig.queue.ready(), 2, "the consumer's connection has its turn later");
    rig.cancel(1);
    assert_eq!((rig.queue.ready(), rig.queue.status().conservation.expired), (0, 2));
}

#[test]
fn a_get_does_not_take_messages_a_consumer_waits_for() {
    let mut rig = Rig::new(QueueOptions::default());
    rig.consume(1, 1);
    rig.submit(2, None);
    rig.sync();
    assert_eq!(rig.get(), Some(0));
    assert_eq!(rig.get(), None, "one is left, and it is the consumer's");
    assert_eq!(rig.take(1), [1]);
}

#[test]
fn a_purge_leaves_messages_a_consumer_waits_for() {
    let mut rig = Rig::new(QueueOptions::default());
    rig.consume(1, 2);
    rig.submit(5, None);
    rig.sync();
    let (purged, runs) = rig.with(|queue, effects| queue.purge(0, effects));
    assert_eq!((purged, rig.queue.ready(), rig.queue.status().ready_bytes), (3, 2, 20));
    assert_eq!(runs.iter().map(|run| (run.first, run.last)).collect::<Vec<_>>(), [(2, 4)]);
    assert_eq!(rig.take(1), [0, 1]);
}
