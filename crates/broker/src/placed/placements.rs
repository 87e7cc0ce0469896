//! The placements of a cluster as a node sees them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leveret_log::{Log, LogId};
use leveret_model::{Home, MemberNumber, PlacementNumber, Queue, QueueId, Topology};
use leveret_queue::{ConsumerId, Place};
use parking_lot::Mutex;

use super::placement::{Leading, PlacementHere, Sought};
use super::queue::PlacedQueue;
use crate::held_answers::HeldAnswers;
use crate::queue_handle::LocalQueue;
use crate::remote::{HomeAnswer, HomeQuestion, Lane, MovingHome as _, core};
use crate::replicas::{HeldOfMember, LeaderlessStream, PlacedReplicas, PlacedStore, PlacedStream, StreamCalls};
use crate::services::Services;
use crate::streams::{CommitStream as _, StoreRef};
use crate::ticket::StreamId;
use crate::time::Nanos;

/// Longest time for which a new leader keeps messages for consumers of members that said that they hold them.
const TAKE_OVER_NS: Nanos = 10_000_000_000;

/// The placements of a cluster, by number.
pub struct Placements {
    replicas: Arc<PlacedReplicas>,
    store: StoreRef,
    known: Mutex<BTreeMap<PlacementNumber, Arc<PlacementHere>>>,
    /// Queues of this node that were given other members, until the store has all of them for good: then they are replicas.
    leaving: Mutex<BTreeMap<LogId, (PlacementNumber, LocalQueue)>>,
    next_stream: AtomicU32,
    /// The members whose processes are known to have ended.
    gone: Mutex<BTreeSet<MemberNumber>>,
}

impl Placements {
    /// None yet. Their replicas are these.
    pub(crate) fn new(replicas: Arc<PlacedReplicas>) -> Arc<Self> {
        let store = Arc::new(PlacedStore::new(replicas.clone()));
        let next_stream = AtomicU32::new(StreamId::FIRST_OF_PLACEMENTS.0);
        let (known, leaving, gone) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { replicas, store, known, leaving, next_stream, gone })
    }

    /// This node's replicas.
    pub fn replicas(&self) -> &Arc<PlacedReplicas> {
        &self.replicas
    }

    fn stream_id(&self) -> StreamId {
        StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed))
    }

    /// A placement.
    pub(crate) fn get(&self, number: PlacementNumber, services: &Services) -> Arc<PlacementHere> {
        let mut known = self.known.lock();
        let make = || {
            let leaderless = LeaderlessStream::new(self.stream_id(), services.streams.local().clone());
            services.streams.join(leaderless.clone(), self.store.clone());
            PlacementHere::new(number, leaderless)
        };
        known.entry(number).or_insert_with(make).clone()
    }

    /// A replicated queue.
    ///
    /// # Panics
    /// If it isn't one.
    pub(crate) fn queue(
        &self,
        info: &Arc<Queue>,
        topology: &Topology,
        services: &Arc<Services>,
        now: Nanos,
    ) -> Arc<PlacedQueue> {
        let Home::Placement(number) = info.home else { panic!("queue '{}' isn't replicated", info.name) };
        let placement = self.get(number, services);
        let queue = PlacedQueue::new(info.clone(), topology, placement.clone(), services.clone());
        placement.add(&queue, |stream| queue.open(stream, (&self.replicas, &self.store), Vec::new(), now));
        queue
    }

    /// A queue of this node is one of a placement from now on.
    pub(crate) fn take_over(&self, queue: &LocalQueue, to: &Arc<PlacedQueue>) {
        let Home::Placement(number) = to.info().home else { return };
        self.leaving.lock().insert(queue.log_id(), (number, queue.clone()));
        queue.spread(to);
    }

    /// The machine that a queue had here before it was one of a placement, if the placement doesn't have its messages yet.
    pub(crate) fn leaving(&self, log: LogId) -> Option<LocalQueue> {
        self.leaving.lock().get(&log).map(|(_, queue)| queue.clone())
    }

    /// A queue is deleted.
    pub(crate) fn forget(&self, log: LogId) {
        self.leaving.lock().remove(&log);
        self.replicas.forget(log);
    }

    /// Whether the replicas have all of a placement's queues that this node had before there was the placement, so that it can begin.
    pub fn has_adopted(&self, number: PlacementNumber) -> bool {
        let durable = Place::new(self.replicas.store().inspect(Log::durable));
        let mut leaving = self.leaving.lock();
        let mut has_all = true;
        leaving.retain(|log, (placement, queue)| {
            if *placement != number {
                return true;
            }
            match queue.left(durable) {
                Some(Ok((replica, position))) => {
                    self.replicas.adopt(*log, replica, (number, position));
                    return false;
                }
                Some(Err(error)) => {
                    let info = queue.info();
                    tracing::error!(queue = %info.name, vhost = %info.vhost, error, "placement {number} can't begin without this queue");
                }
                None => self.replicas.hurry(queue.last_ticket()),
            }
            has_all = false;
            true
        });
        has_all
    }

    /// Asks the other members what their clients hold of the queues of a placement that this node is about to lead.
    pub(crate) fn ask_held(
        &self,
        leadership: (PlacementNumber, u64),
        services: &Services,
        all_there: Box<dyn FnOnce() + Send>,
    ) -> Arc<HeldAnswers> {
        HeldAnswers::ask(&services.lanes, leadership, all_there)
    }

    /// The messages that clients of this node hold of a placement that `member` is about to lead.
    pub(crate) fn report_held(
        &self,
        leadership: (PlacementNumber, u64),
        services: &Services,
        now: Nanos,
    ) -> HeldOfMember {
        self.get(leadership.0, services).report(leadership.1, now)
    }

    /// This node leads a placement from this term on, and the replicas of its queues are whole. What they append is proposed after a call of
    /// `wake`. Clients hold some of the messages.
    pub(crate) fn lead(
        &self,
        (number, term): (PlacementNumber, u64),
        held: &HeldAnswers,
        (services, topology): (&Services, &Topology),
        now: Nanos,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Arc<PlacedStream> {
        let placement = self.get(number, services);
        let of_writers = Arc::downgrade(&placement);
        let applied = Box::new(move || {
            if let Some(placement) = of_writers.upgrade() {
                placement.writers().iter().for_each(|writer| writer.renew(0));
            }
        });
        let (id, store, writers) = (self.stream_id(), self.replicas.store().clone(), self.replicas.writers(number));
        let stream = Arc::new(PlacedStream::new(id, term, store, writers, StreamCalls { wake, applied }, now));
        services.streams.join(stream.clone(), self.store.clone());
        let held = RefCell::new(held.take());
        let queues = placement.lead(Leading::Here(stream.clone()), |queue| {
            queue.renew_effective(topology);
            let held = held.borrow_mut().remove(&queue.info().id).unwrap_or_default();
            queue.open(&stream, (&self.replicas, &self.store), held, now);
        });
        queues.iter().for_each(|queue| queue.register(None, now));
        self.look_for_active(&placement, &stream, (services, topology), now);
        placement.writers().iter().for_each(|writer| writer.leader_changed(now));
        services.streams.announce();
        stream
    }

    /// A member's process is known to have ended, or it can be reached again.
    pub(crate) fn note_gone(&self, member: MemberNumber, is_gone: bool) {
        let mut gone = self.gone.lock();
        match is_gone {
            true => _ = gone.insert(member),
            false => _ = gone.remove(&member),
        }
    }

    /// Looks for the active consumers that queues wait for: are they here, or gone, or has the time for them ended? Their nodes are asked.
    fn look_for_active(
        &self,
        placement: &Arc<PlacementHere>,
        stream: &PlacedStream,
        (services, topology): (&Services, &Topology),
        now: Nanos,
    ) {
        for (queue, awaiting) in stream.awaited.all() {
            let member = awaiting.id.member();
            let is_gone = || {
                let is_member = topology.members().any(|of| of.number == member);
                !is_member || self.gone.lock().contains(&member)
            };
            match placement.seeks(queue, awaiting, services, now) {
                Sought::Over => stream.awaited.remove(queue, awaiting.id),
                Sought::Late => placement.answer_awaited((queue, awaiting.id), false, now),
                Sought::Here(has) => placement.answer_awaited((queue, awaiting.id), has, now),
                Sought::Elsewhere if is_gone() => placement.answer_awaited((queue, awaiting.id), false, now),
                Sought::Elsewhere => {
                    let Some(lane) = services.lanes.of_core(member, 0) else { continue };
                    if stream.awaited.asked(queue, awaiting.id, true) {
                        ask_for(&lane, placement, (queue, awaiting.id), now);
                    }
                }
            }
        }
    }

    /// This node leads a placement in this term until then, whatever happens.
    pub(crate) fn renew_lease(&self, (number, term): (PlacementNumber, u64), services: &Services, until: Nanos) {
        self.get(number, services).renew_lease(term, until);
    }

    /// This leader hands nothing out from now on, or again.
    pub(crate) fn stop_handing_out(&self, (number, term): (PlacementNumber, u64), services: &Services, stops: bool) {
        self.get(number, services).stop_handing_out(term, stops);
    }

    /// Another member leads a placement, or nobody does as far as this node knows.
    pub(crate) fn follow(
        &self,
        number: PlacementNumber,
        leader: Option<(MemberNumber, u64)>,
        services: &Services,
        now: Nanos,
    ) {
        let placement = self.get(number, services);
        let before = placement.leading();
        let leading = match leader {
            Some((member, term)) => Leading::There(member, term),
            None => Leading::Nobody,
        };
        match (&*before, &leading) {
            (Leading::There(before, in_term), Leading::There(now, term)) if (before, in_term) == (now, term) => return,
            (Leading::Nobody, Leading::Nobody) => return,
            _ => {}
        }
        // Before its machines are over: a publish that comes between is one for the next leader, and not refused.
        if let Leading::Here(stream) = &*before {
            services.streams.leave(stream.id());
        }
        let queues = placement.lead(leading, |queue| queue.close());
        queues.iter().for_each(|queue| queue.register(None, now));
        placement.writers().iter().for_each(|writer| writer.leader_changed(now));
    }

    /// A core can reach a member again: its consumers are registered there.
    pub(crate) fn reached(&self, member: MemberNumber, of_core: usize, now: Nanos) {
        let known: Vec<_> = self.known.lock().values().cloned().collect();
        for placement in known.iter().filter(|placement| placement.member() == Some(member)) {
            placement.queues().iter().for_each(|queue| queue.register(Some(of_core), now));
            placement.writers().iter().for_each(|writer| writer.leader_changed(now));
            placement.go_on();
        }
    }

    /// Registers consumers again that a leader didn't take, and ends calls that have waited for a leader for too long. Called now and then.
    pub(crate) fn tend(&self, (services, topology): (&Services, &Topology), now: Nanos) {
        let known: Vec<_> = self.known.lock().values().cloned().collect();
        for placement in known {
            placement.writers().iter().for_each(|writer| writer.go_on(now));
            if placement.take_unregistered() {
                placement.queues().iter().for_each(|queue| queue.register(None, now));
            }
            let is_reached = match &*placement.leading() {
                Leading::Nobody => false,
                Leading::Here(stream) => {
                    let is_late = now >= stream.since + TAKE_OVER_NS;
                    let left = stream.reports.take_left(|member| {
                        is_late || member != services.member && services.lanes.of_core(member, 0).is_none()
                    });
                    left.into_iter().for_each(|(queue, runs)| placement.give_back(queue, &runs, now));
                    self.look_for_active(&placement, stream, (services, topology), now);
                    true
                }
                Leading::There(member, _) => services.lanes.of_core(*member, 0).is_some(),
            };
            placement.look(is_reached, now);
        }
    }

    /// The core that this thread is.
    pub(super) fn this_core() -> usize {
        core()
    }
}

/// Asks a node whether a client has a consumer. If the link ends, it is asked again.
fn ask_for(lane: &Arc<Lane>, placement: &Arc<PlacementHere>, (queue, id): (QueueId, ConsumerId), now: Nanos) {
    // It is answered whoever leads the queue, as far as that node knows.
    let asked = lane.ask(
        QueueId(0),
        HomeQuestion::HasConsumer(queue, id),
        || None,
        |answer| match answer {
            HomeAnswer::Carried(has) => Some(Some(has)),
            _ => None,
        },
    );
    let placement = Arc::downgrade(placement);
    asked.then(move |has| {
        if let Some(placement) = placement.upgrade() {
            placement.answer_awaited((queue, id), has != Some(false), now);
        }
    });
}
