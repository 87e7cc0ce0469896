//! A replicated queue hands out only what its mark covers, and a next leader flags only that.

use std::sync::{Arc, Mutex};

use leveret_message::{BatchBuilder, BatchPart, Envelope};
use leveret_model::{QueueOptions, QueueType};
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Control, Earlier, Effects, Epoch, GetOutcome, LedgerQueue,
    Link, MemoryBudget, Place, Placement, Portion, QueueRecord, Replica, Signal, Surroundings, Taken, Watermarks,
};

#[derive(Default)]
struct Recorder(Mutex<Vec<Signal>>);

impl Link for Recorder {
    fn signal(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}

fn options_of(link: Arc<Recorder>, key: u64) -> ConsumerOptions {
    ConsumerOptions {
        link,
        key,
        tag: "t".into(),
        channel: "c".into(),
        automatic_ack: false,
        flow: ConsumerFlow::Prefetch(0),
        priority: 0,
        exclusive: false,
        mode: ConsumerMode::Move,
        filter: None,
        stream: None,
        timeout_ms: None,
        user: "u".into(),
        arguments: leveret_model::Arguments::default(),
    }
}

/// A leader with its queue, whose records go to this replica.
struct Leader {
    queue: LedgerQueue,
    replica: Replica,
    link: Arc<Recorder>,
    place: u64,
    /// The mark that is logged, until it is reached, and the place of its record.
    logged: Option<(u64, u64)>,
    /// The active consumer that is logged, until that is reached.
    named: Option<Option<ConsumerId>>,
}

impl Leader {
    fn new(replica: Replica) -> Self {
        Self::of(QueueOptions::default(), replica)
    }

    fn of(options: QueueOptions, mut replica: Replica) -> Self {
        let options = QueueOptions { queue_type: QueueType::Quorum, ..options };
        let surroundings = Surroundings {
            budget: Arc::new(MemoryBudget::new(1 << 20)),
            epoch: Epoch::default(),
            strict_compat: false,
            standing_delay_target: 0,
        };
        let mut own = Replica::restore(&replica.checkpoint()).expect("it is of this version");
        own.end_marked_replay();
        let (below, active) = (own.delivered_below, own.parts.active);
        let mut queue = LedgerQueue::new(options, true, own, surroundings, 0);
        queue.mark_deliveries(below);
        queue.name_active(active);
        Self { queue, replica, link: Arc::default(), place: 0, logged: None, named: None }
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut LedgerQueue, &mut Effects) -> T) -> T {
        let mut effects = Effects::default();
        let result = call(&mut self.queue, &mut effects);
        if let Some(below) = effects.rare().and_then(|rare| rare.deliver_below) {
            self.place += 1;
            self.logged = Some((below, self.place));
            self.queue.mark_logged(below, Place::new(self.place));
        }
        if let Some(id) = effects.rare().and_then(|rare| rare.activate) {
            self.place += 1;
            self.named = Some(id);
            self.queue.active_logged(Place::new(self.place));
        }
        effects.fire();
        result
    }

    fn commit_mark(&mut self) {
        let (below, place) = self.logged.take().expect("one is logged");
        self.keep_mark(below);
        // A record of the active consumer may be behind it.
        let place = if self.named.is_some() { place } else { self.place };
        let reached = Watermarks::synced(Place::new(place));
        self.with(|queue, effects| queue.apply(reached, effects));
    }

    fn commit_active(&mut self) {
        let id = self.named.take().expect("one is logged").map_or(0, |id| id.0);
        self.keep(&Control::Active(std::borrow::Cow::Owned(id)));
        let reached = Watermarks::synced(Place::new(self.place));
        self.with(|queue, effects| queue.apply(reached, effects));
    }

    fn keep_mark(&mut self, below: u64) {
        self.keep(&Control::Mark(std::borrow::Cow::Owned(below)));
    }

    fn keep(&mut self, control: &Control<'_>) {
        let record = QueueRecord::Control { kind: control.kind(), payload: &control.encode() };
        self.replica.apply(record).expect("it is of this version");
    }

    fn publish(&mut self, count: u32) {
        let mut builder = BatchBuilder::default();
        let first = self.replica.ledger.next();
        (0..count).for_each(|_| builder.push(&Envelope { durable: true, ..Envelope::default() }, b"\0\0", b"body"));
        let batch = Arc::new(builder.finish());
        self.place += 1;
        let place = Place::new(self.place);
        let submission = self.queue.submit(BatchPart::of(&batch, 0, count), 0).expect("it is open");
        self.with(|queue, effects| {
            queue.submitted(submission, BatchPart::whole(&batch), Placement::At(place), 0, effects);
        });
        if self.logged.is_none() {
            self.with(|queue, effects| queue.apply(Watermarks::synced(place), effects));
        }
        for at in 0..count {
            let message = batch.message(at as usize);
            let payload = [message.head, message.large.map_or(&[][..], |body| body)].concat();
            let record = QueueRecord::Message { number: first + u64::from(at), payload: &payload };
            self.replica.apply(record).expect("it is a message");
        }
    }

    fn consume(&mut self) {
        self.consume_as(1);
    }

    fn consume_as(&mut self, id: u64) {
        let options = options_of(self.link.clone(), id);
        self.with(|queue, effects| queue.add(ConsumerId(id), options, 0, effects)).expect("it isn't exclusive");
    }

    /// The numbers that it hands out, with their flags.
    fn take(&mut self) -> Vec<(u64, bool)> {
        self.take_as(ConsumerId(1))
    }

    fn take_as(&mut self, id: ConsumerId) -> Vec<(u64, bool)> {
        let mut out = Vec::new();
        let most = Portion { messages: 100_000, bytes: 1 << 30 };
        self.with(|queue, effects| queue.take(id, most, 0, &mut out, effects));
        let numbers = |taken: &Taken| taken.first..taken.first + u64::from(taken.count);
        out.iter().flat_map(|taken| numbers(taken).map(|number| (number, taken.redelivered))).collect()
    }
}

#[test]
fn nothing_is_handed_out_before_its_mark_is_reached() {
    let mut leader = Leader::new(Replica::none(1));
    leader.consume();
    leader.publish(3);
    assert!(leader.logged.is_some() && leader.take().is_empty(), "its mark isn't reached");
    leader.commit_mark();
    assert_eq!(leader.take(), [(1, false), (2, false), (3, false)]);
    assert_eq!(leader.logged, None, "it is far ahead");
    leader.publish(10_000);
    let taken = leader.take();
    assert!(!taken.is_empty() && taken.len() < 10_000, "{} at once", taken.len());
    leader.commit_mark();
    assert_eq!(leader.take().first().map(|(number, _)| *number), taken.last().map(|(number, _)| number + 1));
}

#[test]
fn the_next_leader_flags_what_the_mark_covers() {
    let mut first = Leader::new(Replica::none(1));
    first.consume();
    first.commit_mark();
    first.publish(6_000);
    let taken = first.take().len() as u64;
    assert!(taken > 1_000);
    // The mark that it asked for isn't an entry.
    let mut next = Leader::new(first.replica);
    next.consume();
    let covered = next.replica.parts.delivered_below;
    assert!(covered > taken, "it is ahead");
    let flag = |queue: &LedgerQueue, number| queue.peek(number - 1, 1).first().map(|peeked| peeked.redelivered);
    assert_eq!(flag(&next.queue, 1), Some(true));
    assert_eq!(flag(&next.queue, covered - 1), Some(true));
    assert_eq!(flag(&next.queue, covered), Some(false));
}

#[test]
fn a_mark_that_is_lowered_covers_what_was_handed_out() {
    let mut leader = Leader::new(Replica::none(1));
    leader.consume();
    leader.commit_mark();
    leader.publish(5);
    assert_eq!(leader.take().len(), 5);
    leader.publish(5);
    let below = leader.queue.lower_mark().expect("it was ahead");
    assert_eq!(below, 6);
    leader.keep_mark(below);
    assert!(leader.take().is_empty() && leader.logged.is_none(), "nothing more is covered");
    leader.consume_as(2);
    assert_eq!(leader.logged, None, "nor by a consumer that comes meanwhile");
    let mut next = Leader::new(leader.replica);
    assert_eq!(next.queue.lower_mark(), None, "another leader covers what earlier ones handed out");
    assert_eq!(next.replica.parts.delivered_below, 6);
}

#[test]
fn a_get_waits_for_the_mark() {
    let mut leader = Leader::new(Replica::none(1));
    leader.publish(1);
    let link: Arc<dyn Link> = leader.link.clone();
    let got = leader.with(|queue, effects| queue.get(false, &link, 7, 0, effects));
    assert!(matches!(got, GetOutcome::Wait));
    leader.commit_mark();
    assert_eq!(*leader.link.0.lock().unwrap(), [Signal::Loaded(7)]);
    let got = leader.with(|queue, effects| queue.get(false, &link, 7, 0, effects));
    assert!(matches!(got, GetOutcome::Message(Taken { first: 1, redelivered: false, .. }, 0)));
}

fn single() -> QueueOptions {
    QueueOptions { single_active_consumer: true, ..QueueOptions::default() }
}

#[test]
fn a_consumer_is_active_once_its_record_is_reached() {
    let mut leader = Leader::of(single(), Replica::none(1));
    leader.publish(3);
    leader.consume();
    leader.consume_as(2);
    leader.commit_mark();
    assert!(leader.take().is_empty(), "no replica knows it");
    leader.commit_active();
    assert_eq!(leader.take().len(), 3);
    assert!(leader.take_as(ConsumerId(2)).is_empty());
}

#[test]
fn another_leader_waits_for_the_active_consumer() {
    let mut first = Leader::of(single(), Replica::none(1));
    first.consume_as(2);
    first.commit_active();
    let restored = Replica::restore(&first.replica.checkpoint()).expect("it is of this version");
    assert_eq!(restored.parts.active, Some(ConsumerId(2)));
    let mut next = Leader::of(single(), first.replica);
    next.consume();
    next.commit_mark();
    next.publish(2);
    assert_eq!((next.queue.awaited_active(), next.named), (Some(ConsumerId(2)), None));
    assert!(next.take().is_empty(), "the other one may be served elsewhere");
    next.consume_as(2);
    assert_eq!(next.take_as(ConsumerId(2)).len(), 2);
    next.queue.lose(&[ConsumerId(2)]);
    next.with(|queue, effects| queue.cancel(ConsumerId(2), 0, effects));
    assert_eq!((next.queue.awaited_active(), next.named), (Some(ConsumerId(2)), None));
    next.with(|queue, effects| queue.stop_awaiting(ConsumerId(2), 0, effects));
    assert_eq!(next.named, Some(Some(ConsumerId(1))));
    next.commit_active();
    next.publish(1);
    assert_eq!(next.take(), [(3, false)]);
}

#[test]
fn consumers_keep_their_order_at_another_leader() {
    let mut leader = Leader::of(single(), Replica::none(1));
    leader.queue.register_from(5 << 32);
    for id in [4, 2, 3] {
        leader.consume_as(id);
    }
    let numbers = [2, 3, 4].map(|id| leader.queue.registration(ConsumerId(id)).expect("it is there") - (5 << 32));
    assert_eq!(numbers, [2, 3, 1]);
    for is_single in [true, false] {
        let options = QueueOptions { single_active_consumer: is_single, ..QueueOptions::default() };
        let mut next = Leader::of(options, Replica::none(1));
        next.queue.register_from(6 << 32);
        next.consume_as(9);
        for id in [2, 3, 4] {
            let registered = leader.queue.registration(ConsumerId(id));
            let options = options_of(next.link.clone(), id);
            let earlier = Earlier { holds: 0, registered };
            next.with(|queue, effects| queue.add_again(ConsumerId(id), options, earlier, 0, effects))
                .expect("it is open");
        }
        next.with(|queue, effects| queue.cancel(ConsumerId(9), 0, effects));
        match is_single {
            true => assert_eq!(next.named, Some(Some(ConsumerId(4)))),
            false => {
                next.commit_mark();
                next.publish(1);
                assert!(next.take_as(ConsumerId(2)).is_empty() && next.take_as(ConsumerId(3)).is_empty());
                assert_eq!(next.take_as(ConsumerId(4)), [(1, false)]);
            }
        }
    }
}
