//! Answers to rejections: none before the disk has the corresponding records, and none from a queue that failed.

use std::sync::Arc;

use leveret_log::{BodyFiles, Lane, MemoryDisk, Next, Options, Wait};
use leveret_message::{BatchBuilder, BatchPart, Envelope};
use leveret_model::{
    Arguments, DeadLetterOptions, Durability, EffectiveQueue, Home, Queue, QueueId, QueueOptions, QueueType,
};
use leveret_queue::dead_letter::TURN_MESSAGES_MAX;
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, DeadTurn, Deadlines, Deliveries, Departure, Epoch,
    GetOutcome, Ledger, Link, MemoryBudget, NoConsumer, QueueState, References, Replica, Run, Signal,
};

use super::{LiveAnswer, LocalQueue, Peek, QueueHandle, QueueRef, Reason, RunState, Size, Status, Successor};
use crate::asked::NowOrLater;
use crate::bodies::Bodies;
use crate::deferred::Deferred;
use crate::group::{Group, GroupSlot};
use crate::outbox::{Event, Outbox, Wake};
use crate::placed::Placements;
use crate::queue_handle::Audience;
use crate::queue_metrics::QueueSums;
use crate::reads::Reads;
use crate::recovered_shared::RecoveredShared;
use crate::recovery::Recovered;
use crate::replicas::PlacedReplicas;
use crate::services::Services;
use crate::shared_messages::{SharedLimits, SharedMessages};
use crate::streams::{CommitStream as _, LocalStream, StoreId, Streams};
use crate::ticket::{StreamId, Ticket};
use crate::time::Now;

const ID: QueueId = QueueId(7);

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

/// A queue with a dead-letter exchange on a disk in memory, and a connection.
pub(crate) struct Fixture {
    pub(crate) queue: LocalQueue,
    commit: Arc<LocalStream>,
    reads: Arc<Reads>,
    bodies: Arc<Bodies>,
    disk: MemoryDisk,
    outbox: Arc<Outbox>,
    services: Services,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let disk = MemoryDisk::new();
        let (log, _) =
            leveret_log::recover(&disk, Options::default(), &mut Recovered::default(), 0).expect("an empty disk");
        let commit = Arc::new(LocalStream::new(StoreId::FIRST, log));
        let dead_letter = Some(DeadLetterOptions { exchange: "dlx".into(), ..DeadLetterOptions::default() });
        let options = QueueOptions { dead_letter, ..QueueOptions::default() };
        let info = Queue {
            id: ID,
            vhost: "/".into(),
            name: "work".into(),
            durable: true,
            auto_delete: false,
            exclusive_owner: None,
            arguments: Arguments::default(),
            declared_by: "".into(),
            queue_type: QueueType::default(),
            home: Home::default(),
            earlier_priorities: Vec::new(),
            delays_for: None,
            history_of: None,
            options,
        };
        let budget = Arc::new(MemoryBudget::new(1 << 20));
        let (reads, deferred) = (Arc::new(Reads::default()), Arc::new(Deferred::new(1, Epoch::default())));
        let limits = SharedLimits { copied_to_queues_max: 8, body_file_from: 1 << 20 };
        let bodies = Bodies::new(BodyFiles::new(0, 0), 1);
        let shared = Arc::new(SharedMessages::new(RecoveredShared::default(), commit.clone(), bodies.clone(), limits));
        let services = Services {
            streams: Arc::new(Streams::new(std::slice::from_ref(&commit), Streams::by_home)),
            reads: reads.clone(),
            deferred,
            budget,
            epoch: Epoch::default(),
            shared,
            metrics: Arc::default(),
            counters: Arc::default(),
            taps: Arc::default(),
            durability: Durability::Synced,
            lanes: Arc::default(),
            placements: Placements::new(Arc::new(PlacedReplicas::new(commit.clone()))),
            process: 1,
            consumer_disconnected_timeout_ms: 60_000,
            member: leveret_model::MemberNumber::default(),
            first_number: 0,
            strict_compat: false,
            standing_delay_target: 0,
            late: Vec::new(),
        };
        let queue = QueueHandle::open(Arc::new(info), EffectiveQueue::default(), Replica::default(), &services, 0);
        Self { queue, commit, reads, bodies, disk, outbox: Arc::new(Outbox::new(Arc::new(Nobody))), services }
    }

    /// Publishes and takes `count` messages.
    fn take(&self, count: u32, persistent: bool) -> Vec<Run> {
        let mut builder = BatchBuilder::default();
        for _ in 0..count {
            builder.push(&Envelope { durable: persistent, ..Envelope::default() }, b"\0\0", b"body");
        }
        self.queue.publish(BatchPart::of(&Arc::new(builder.finish()), 0, count), persistent, Audience::Alone, 0);
        self.sync();
        self.queue.apply();
        let link: Arc<dyn Link> = self.outbox.clone();
        let get = |_| match self.queue.get(false, &link, 0, 0) {
            GetOutcome::Message(taken, _) => taken.run(),
            other => panic!("{other:?}"),
        };
        (0..count).map(get).collect()
    }

    /// Moves a turn of dead letters to no queue; returns how many, and the end of the group.
    fn move_dead(&self) -> (u64, Ticket) {
        let runs = loop {
            match self.queue.dead_turn() {
                DeadTurn::Move(runs) => break runs,
                DeadTurn::Wait => self.read(),
                DeadTurn::Nothing => panic!("nothing died"),
            }
        };
        let count = runs.iter().map(|run| u64::from(run.count)).sum();
        let mut group = Group::new(self.queue.stream().id());
        self.queue.moved(&mut group, count);
        (count, group.close(Wait::Confirm))
    }

    /// Carries out requested reads.
    fn read(&self) {
        let job = self.reads.next(&self.bodies).expect("a read was asked for");
        job.run(&self.disk, Now { monotonic: 0, wall_ms: 0 });
    }

    /// Makes all appended records durable.
    fn sync(&self) {
        let mut now = 0;
        while self.commit.progress().durable != self.commit.appended() {
            for lane in [Lane::Commit, Lane::Background] {
                match self.commit.next_job(lane, now) {
                    Next::Run(id, job) => {
                        let result = job.run(&self.disk);
                        self.commit.complete(id, result, now).expect("the log works");
                    }
                    Next::At(at) => now = now.max(at),
                    Next::Idle => {}
                }
            }
        }
    }

    /// Number of messages after a restart.
    fn found(&self) -> u64 {
        self.sync();
        let mut recovered = Recovered::default();
        leveret_log::recover(&self.disk, Options::default(), &mut recovered, 0).expect("the log is whole");
        recovered.take(ID, &[], false).ledger.len()
    }

    /// The events of the connection.
    fn told(&self) -> Vec<Event> {
        let mut told = Vec::new();
        self.outbox.drain(&mut told);
        told
    }
}

#[test]
fn a_rejection_waits_for_every_group_that_moved_its_messages() {
    let stage = Fixture::new();
    let mut runs = stage.take(TURN_MESSAGES_MAX, true);
    runs.extend(stage.take(1, false));
    let streams = &stage.services.streams;
    let wait = stage.queue.reject(Deliveries::of(None, &runs), true, &stage.outbox, Reason::Settlement, 0);
    let (count, written) = stage.move_dead();
    assert!(count == u64::from(TURN_MESSAGES_MAX) && !streams.is_durable(written));
    assert_eq!(wait.first_awaited(), None, "the last one hasn't been moved");
    let (count, written) = stage.move_dead();
    assert!(count == 1 && written.is_nothing(), "nothing to write for a volatile message");
    assert!(stage.told().is_empty() && !streams.have(&wait), "answered before it is on disk");
    stage.sync();
    assert!(streams.have(&wait));
    assert_eq!(stage.told(), [Event::Durable(StreamId::LOCAL)]);
}

/// Makes the queue fail in one way or another while a transaction waits for the move of its rejection.
fn fails_with_a_transaction(fail: impl FnOnce(&Fixture)) {
    let stage = Fixture::new();
    stage.queue.watch(5, stage.outbox.clone());
    let runs = stage.take(1, true);
    let ticket = stage.queue.reject(Deliveries::of(None, &runs), true, &stage.outbox, Reason::Transaction, 0);
    assert!(matches!(stage.queue.dead_turn(), DeadTurn::Wait), "it has to be read back");
    fail(&stage);
    assert!(matches!(stage.queue.state(), QueueState::Failed(_)));
    assert_eq!(ticket.first_awaited(), None);
    let told = stage.told();
    assert!(matches!(told.first(), Some(Event::Close(_))), "the transaction is never answered: {told:?}");
    assert_eq!(told[1..], [Event::Queue(Signal::Cancelled(5))], "the publisher isn't told");
}

#[test]
fn waiters_are_notified_when_a_queue_misses_a_message() {
    fails_with_a_transaction(|stage| stage.queue.loaded(leveret_queue::StoredRead::DeadLetters, Vec::new(), 0));
}

#[test]
fn waiters_are_notified_when_a_queue_is_failed() {
    fails_with_a_transaction(|stage| stage.queue.fail("damaged".into()));
}

#[test]
fn waiters_are_notified_when_a_queue_panics() {
    fails_with_a_transaction(|stage| {
        assert_eq!(stage.queue.with(|_, _| panic!("as a bug would")), None::<()>);
    });
}

#[test]
fn a_failed_queue_keeps_rejected_messages() {
    for reason in [Reason::Settlement, Reason::Transaction] {
        let stage = Fixture::new();
        let runs = stage.take(2, true);
        stage.queue.fail("damaged".into());
        let ticket = stage.queue.reject(Deliveries::of(None, &runs[..1]), true, &stage.outbox, reason, 0);
        assert_eq!(stage.queue.dismiss(Deliveries::of(None, &runs[1..]), true, Wait::Confirm, 0), None);
        assert_eq!(stage.found(), 2, "neither in its queue nor where dead letters go");
        assert_eq!(ticket.first_awaited(), None, "answered, and back after a restart");
        let is_closed = stage.told().iter().any(|event| matches!(event, Event::Close(_)));
        assert_eq!(is_closed, reason == Reason::Transaction);
        stage.queue.settle(Deliveries::of(None, &runs), Departure::Settled, Wait::Confirm, 0);
        assert_eq!(stage.found(), 0, "acknowledged ones are done with");
    }
}

#[test]
fn a_deleted_queue_does_not_fail() {
    let stage = Fixture::new();
    let runs = stage.take(1, true);
    stage.queue.delete();
    stage.queue.fail("damaged".into());
    assert_eq!(stage.queue.state(), QueueState::Deleted);
    let ticket = stage.queue.reject(Deliveries::of(None, &runs), true, &stage.outbox, Reason::Transaction, 0);
    assert!(ticket.first_awaited().is_some() && stage.told().is_empty(), "a transaction goes on without it");
}

/// Relies on the checks of a debug build.
#[cfg(debug_assertions)]
#[test]
fn a_rejection_that_makes_the_queue_panic_is_not_answered() {
    let stage = Fixture::new();
    let run = stage.take(1, true)[0];
    // A run that ends before it begins isn't held by any consumer: it represents a bug.
    let runs = [run, Run { first: run.last + 2, ..run }];
    let ticket = stage.queue.reject(Deliveries::of(None, &runs), true, &stage.outbox, Reason::Transaction, 0);
    assert!(matches!(stage.queue.state(), QueueState::Failed(_)));
    assert_eq!(ticket.first_awaited(), None, "answered, and back after a restart");
    assert!(matches!(stage.told()[..], [Event::Close(_)]), "the transaction is never answered");
    assert_eq!(stage.found(), 1);
}

/// The first checkpoint after a recovery contains the replayed state: its settles aren't counted again.
#[test]
fn a_checkpoint_after_recovery_contains_the_replayed_state() {
    let stage = Fixture::new();
    let taken = stage.take(3, true);
    stage.queue.settle(Deliveries::of(None, &taken[1..2]), Departure::Settled, Wait::Confirm, 0);
    stage.sync();
    let end = stage.commit.watermarks().durable;
    let mut ledger = Ledger::default();
    ledger.accept(0, 3, 12);
    ledger.settle(1, 1, 4, Departure::Settled);
    let replica = Replica { ledger, delivered_below: 3, ..Replica::default() };
    let again = QueueHandle::open(stage.queue.info().clone(), EffectiveQueue::default(), replica, &stage.services, 0);
    let LiveAnswer::Live(state) = again.live_state(end) else { panic!("it is there") };
    assert_eq!((state.position, state.bytes, state.live.len()), (end.number(), 8, 2));
}

#[test]
fn sums_are_read_without_the_queues_lock() {
    let stage = Fixture::new();
    let runs = stage.take(3, true);
    stage.queue.requeue(Deliveries::of(None, &runs[..1]), false, 0);
    let held = stage.queue.inner.lock();
    let sums = stage.services.metrics.sums();
    assert_eq!((sums.gauges.ready, sums.gauges.unacknowledged), (1, 2));
    assert_eq!(sums.persistent_bytes, sums.gauges.ready_bytes + sums.gauges.unacknowledged_bytes);
    assert_eq!(sums.by_durability[0], (1, 3));
    assert_eq!(stage.queue.gauges().ready, 1);
    drop(held);
    stage.queue.delete();
    assert_eq!(stage.services.metrics.sums(), QueueSums::default());
}

/// A message behind one of a group isn't announced before the group is durable, whether it is logged or not.
#[test]
fn nothing_behind_an_open_group_is_announced() {
    let stage = Fixture::new();
    let (streams, queue) = (&stage.services.streams, &stage.queue);
    let publish = |durable| {
        let mut builder = BatchBuilder::default();
        builder.push(&Envelope { durable, ..Envelope::default() }, b"\0\0", b"body");
        let published = queue.publish(BatchPart::of(&Arc::new(builder.finish()), 0, 1), durable, Audience::Alone, 0);
        Ticket::new(StreamId::LOCAL, published.awaited.place())
    };
    let mut builder = BatchBuilder::default();
    builder.push(&Envelope { durable: true, ..Envelope::default() }, b"\0\0", b"body");
    let batch = Arc::new(builder.finish());
    let before = publish(true);
    let mut group = Group::new(queue.stream().id());
    let of_group = queue.publish_in(&mut group, BatchPart::of(&batch, 0, 1), true, 0).ticket;
    let behind = [publish(true), publish(false)];
    stage.sync();
    assert!(streams.is_durable(before));
    assert!(!behind.iter().chain([&of_group]).any(|ticket| ticket.is_nothing() || streams.is_durable(*ticket)));
    queue.apply();
    assert_eq!(queue.gauges().ready, 1, "the one before the group is applied");
    let closed = group.close(Wait::Confirm);
    assert!(!behind.iter().chain([&closed]).any(|ticket| streams.is_durable(*ticket)));
    stage.sync();
    assert!(behind.iter().chain([&of_group, &closed]).all(|ticket| streams.is_durable(*ticket)));
    queue.apply();
    assert_eq!(queue.gauges().ready, 4);
}

/// As when its holder panics.
#[test]
fn a_group_that_is_dropped_holds_nothing_back() {
    let stage = Fixture::new();
    let streams = &stage.services.streams;
    let mut builder = BatchBuilder::default();
    builder.push(&Envelope { durable: true, ..Envelope::default() }, b"\0\0", b"body");
    let mut group = Group::new(stage.queue.stream().id());
    let ticket = stage.queue.publish_in(&mut group, BatchPart::of(&Arc::new(builder.finish()), 0, 1), true, 0).ticket;
    drop(group);
    stage.sync();
    assert!(streams.is_durable(ticket));
    stage.queue.apply();
    assert_eq!(stage.queue.gauges().ready, 1);
}

#[test]
fn a_slot_is_free_again_when_its_holder_is_gone() {
    let slot = Arc::new(GroupSlot::default());
    let taken = slot.take();
    assert!(taken.is_some() && slot.take().is_none());
    drop(taken);
    assert!(slot.take().is_some());
}

#[test]
fn shared_numbers_go_on_behind_references_to_damaged_messages() {
    let shared = Fixture::new().services.shared;
    let mut references = References::default();
    references.add(0, 3, 7);
    shared.restore(&references);
    let state = shared.live_state();
    assert_eq!((state.next, state.live.max()), (10, Some(9)));
}

/// A queue that is being converted answers as before to calls by its name: one that began with its old handle reaches the new one.
#[test]
fn calls_on_a_converted_queue_reach_its_successor() {
    let stage = Fixture::new();
    let held = stage.take(3, true);
    stage.queue.requeue(Deliveries::of(None, &held[1..]), false, 0);
    let (queue_type, before) = (QueueType::Quorum, stage.queue.info());
    let options = QueueOptions { queue_type, ..before.options.clone() };
    let info = Queue { queue_type, options, ..Queue::clone(before) };
    let prepare = |_| {
        let (info, effective) = (Arc::new(info), EffectiveQueue::default());
        Ok(Some(Successor { info, effective, record: None }))
    };
    let log = |_: Option<&[u8]>| Ticket::default();
    let converted = stage.queue.convert(&stage.services, 0, prepare, Some(log));
    let Ok(Some((successor, _))) = converted else { panic!("it isn't converted") };
    let old = QueueRef::from(stage.queue.clone());
    assert!(old.newest().is_same(&successor));

    assert_eq!(old.look(RunState), QueueState::Running);
    assert_eq!(old.look(Size { used: None }), (3, 0), "the delivery went back");
    assert_eq!(
        (
            old.gauges().ready,
            old.look(Status).expect("it is there").ready,
            old.look(Peek { offset: 0, count: 10 }).len()
        ),
        (3, 3, 3)
    );
    assert!(matches!(old.ask(Size { used: Some(0) }), NowOrLater::Now((3, 0))));
    let link: Arc<dyn Link> = stage.outbox.clone();
    assert!(matches!(stage.queue.get(false, &link, 0, 0), GetOutcome::Converted), "it isn't empty");
    let consumer = |automatic_ack| ConsumerOptions {
        link: link.clone(),
        key: 1,
        tag: "".into(),
        channel: "".into(),
        automatic_ack,
        flow: ConsumerFlow::Prefetch(1),
        priority: 0,
        exclusive: false,
        mode: ConsumerMode::Move,
        filter: None,
        stream: None,
        timeout_ms: None,
        user: "".into(),
        arguments: Arguments::default(),
    };
    assert_eq!(
        old.home().expect("it is here").add_consumer(ConsumerId(1), consumer(false), 0),
        Err(NoConsumer::Converted),
        "it isn't gone"
    );
    assert_eq!(old.newest().home().expect("it is here").add_consumer(ConsumerId(1), consumer(false), 0), Ok(()));
    assert_eq!(old.look(Size { used: None }).1, 1);
    // Late settlements of the old handle change nothing.
    stage.queue.settle(Deliveries::of(None, &held[..1]), Departure::Settled, Wait::Lazy, 0);
    assert_eq!(old.look(Size { used: None }).0, 3);
    // A publisher of a link that was attached with the old handle is told when the queue is gone.
    old.watch(7, link);
    assert!(
        matches!(old.home().expect("it is here").purge(0), (2 | 3, _)),
        "the consumer may have credit for the first one"
    );
    stage.queue.successor().expect("it was converted").delete();
    let mut events = Vec::new();
    stage.outbox.drain(&mut events);
    assert!(events.contains(&Event::Queue(Signal::Cancelled(7))), "{events:?}");
}

#[test]
fn deadlines_of_an_ended_machine_hide_none_of_the_next_one() {
    let (ended, next) = (Fixture::new(), Fixture::new());
    let deferred = &ended.services.deferred;
    let at = |monotonic| Deadlines { monotonic, ..Deadlines::NONE };
    deferred.at(at(5), &ended.queue);
    assert_eq!(deferred.next_deadline(0), Some(5));
    // Both are machines of the queue with this id, one after the other.
    deferred.at(at(9), &next.queue);
    assert_eq!(deferred.next_deadline(0), Some(9));
    ended.queue.step_down();
    assert_eq!(deferred.next_deadline(0), Some(9), "it isn't the ended one's");
    // A call that ends late.
    deferred.at(at(6), &ended.queue);
    assert_eq!(deferred.next_deadline(0), Some(9));
}
