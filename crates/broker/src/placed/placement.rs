//! A placement as this node sees it: who leads it, and its queues.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, Guard};
use leveret_model::{MemberNumber, PlacementNumber, QueueId};
use leveret_queue::{ConsumerId, Deliveries, Run};
use parking_lot::Mutex;

use super::queue::PlacedQueue;
use super::writer::PlacedWriter;
use crate::remote::MovingHome;
use crate::replicas::{Awaiting, HeldOfMember, LeaderlessStream, PlacedStream};
use crate::services::Services;
use crate::streams::{CommitStream as _, StreamRef};
use crate::time::Nanos;

/// The leader of a placement.
#[derive(Clone)]
pub enum Leading {
    /// None that this node knows of.
    Nobody,
    /// This node.
    Here(Arc<PlacedStream>),
    /// Another member, in this term.
    There(MemberNumber, u64),
}

/// A placement of the cluster. Every node has one of each, with a replica or without.
pub struct PlacementHere {
    number: PlacementNumber,
    leading: ArcSwap<Leading>,
    leaderless: Arc<LeaderlessStream>,
    /// Held while the leader changes, and while a queue comes: each queue has a machine if the placement is led here, and no other.
    queues: Mutex<BTreeMap<QueueId, Weak<PlacedQueue>>>,
    /// The cores of this node that have published to its queues, by their index.
    writers: Mutex<BTreeMap<usize, Arc<PlacedWriter>>>,
    /// Whether a consumer has to be registered again.
    is_to_register: AtomicBool,
    /// Since when another member is about to lead, which was told what clients hold: they get nothing more until it does.
    changing_since: Mutex<Option<Nanos>>,
    is_changing: AtomicBool,
    /// Calls that wait for a leader, the oldest first.
    waiting: Mutex<Vec<WaitingCall>>,
    /// Since when none is reached, as was seen at the last look.
    unreached_since: Mutex<Option<Nanos>>,
    /// Whether that is longer than calls wait.
    is_lost: AtomicBool,
}

/// Where an active consumer may be that a queue waits for.
pub(super) enum Sought {
    /// The queue doesn't wait for it any more.
    Over,
    /// It was waited for long enough.
    Late,
    /// A client of this node has it, or had.
    Here(bool),
    /// Its client is connected to another node.
    Elsewhere,
}

/// A call that waits for a leader: it is called when there may be one, or with `true` when it has waited for too long.
pub(super) type OnceLed = Box<dyn FnOnce(bool) + Send>;

struct WaitingCall {
    /// Set at the first look.
    since: Option<Nanos>,
    call: OnceLed,
}

/// Longest time for which calls wait for a leader.
const LEADER_NS: Nanos = 10_000_000_000;
/// Longest time for which clients get nothing because another member is about to lead.
const CHANGE_NS: Nanos = 2_000_000_000;
/// Most runs of messages that a member reports to a new leader, so that the answer stays small. Others are delivered again.
const REPORT_RUNS_MAX: usize = 400_000;

impl PlacementHere {
    pub(super) fn new(number: PlacementNumber, leaderless: Arc<LeaderlessStream>) -> Arc<Self> {
        let (leading, queues) = (ArcSwap::from_pointee(Leading::Nobody), Mutex::default());
        let (waiting, unreached_since) = (Mutex::default(), Mutex::default());
        let (is_to_register, is_lost) = (AtomicBool::new(false), AtomicBool::new(false));
        let (changing_since, is_changing) = (Mutex::default(), AtomicBool::new(false));
        let writers = Mutex::default();
        Arc::new(Self {
            number,
            leading,
            leaderless,
            queues,
            writers,
            is_to_register,
            changing_since,
            is_changing,
            waiting,
            unreached_since,
            is_lost,
        })
    }

    /// The writer of a core.
    pub(super) fn writer(self: &Arc<Self>, core: usize, services: &Arc<Services>) -> Arc<PlacedWriter> {
        let mut writers = self.writers.lock();
        let make = || {
            let writer = PlacedWriter::new(core, self, services);
            services.streams.join(writer.clone(), services.streams.local_store().clone());
            writer
        };
        writers.entry(core).or_insert_with(make).clone()
    }

    /// The writers so far.
    pub(super) fn writers(&self) -> Vec<Arc<PlacedWriter>> {
        self.writers.lock().values().cloned().collect()
    }

    /// Its number.
    pub fn number(&self) -> PlacementNumber {
        self.number
    }

    /// Its leader.
    pub fn leading(&self) -> Arc<Leading> {
        self.leading.load_full()
    }

    pub(super) fn leading_now(&self) -> Guard<Arc<Leading>> {
        self.leading.load()
    }

    /// Adds a queue, which gets a machine by `open` if the placement is led here.
    pub(super) fn add(&self, queue: &Arc<PlacedQueue>, open: impl FnOnce(&Arc<PlacedStream>)) {
        let mut queues = self.queues.lock();
        queues.insert(queue.info().id, Arc::downgrade(queue));
        if let Leading::Here(stream) = &**self.leading.load() {
            open(stream);
        }
    }

    /// Removes a queue.
    pub(super) fn remove(&self, id: QueueId) {
        self.queues.lock().remove(&id);
    }

    /// Changes the leader; `each` is called with every queue before anybody else sees it. Returns the queues.
    pub(super) fn lead(&self, leading: Leading, each: impl Fn(&Arc<PlacedQueue>)) -> Vec<Arc<PlacedQueue>> {
        let (has_leader, queues) = {
            let mut queues = self.queues.lock();
            queues.retain(|_, queue| queue.strong_count() > 0);
            let all: Vec<_> = queues.values().filter_map(Weak::upgrade).collect();
            let has_leader = !matches!(leading, Leading::Nobody);
            self.leading.store(Arc::new(leading));
            self.set_changing(None);
            all.iter().for_each(each);
            (has_leader, all)
        };
        self.leaderless.set_led(has_leader);
        if has_leader {
            // A client that asks now isn't refused because there was none for long.
            *self.unreached_since.lock() = None;
            self.is_lost.store(false, Ordering::Release);
            self.go_on();
        }
        queues
    }

    /// The messages that clients of this node hold of each queue, for a member that is about to lead in this term. They get nothing more of an earlier leader.
    pub(super) fn report(&self, in_term: u64, now: Nanos) -> HeldOfMember {
        let queues = self.queues.lock();
        match &**self.leading.load() {
            Leading::There(_, term) if *term >= in_term => {}
            // A question of an earlier term that comes late.
            Leading::Here(stream) if stream.term() >= in_term => {}
            leading => {
                if let Leading::Here(stream) = leading {
                    stream.renew_lease(0);
                }
                self.set_changing(Some(now));
            }
        }
        let queues: Vec<_> = queues.values().filter_map(Weak::upgrade).collect();
        let mut room = REPORT_RUNS_MAX;
        let held = queues.iter().map(|queue| {
            let claims = queue.report().first(room);
            room -= claims.runs().len();
            (queue.info().id, claims)
        });
        held.filter(|(_, claims)| !claims.is_empty()).collect()
    }

    fn set_changing(&self, since: Option<Nanos>) {
        *self.changing_since.lock() = since;
        self.is_changing.store(since.is_some(), Ordering::SeqCst);
    }

    /// Whether another member is about to lead.
    pub(super) fn is_changing(&self) -> bool {
        self.is_changing.load(Ordering::SeqCst)
    }

    /// If no other member has come to lead, clients get messages as before.
    fn end_change(&self, now: Nanos) {
        let is_over = self.changing_since.lock().is_some_and(|since| now >= since + CHANGE_NS);
        if is_over {
            self.set_changing(None);
            self.queues().iter().for_each(|queue| queue.wake_consumers());
            self.go_on();
        }
    }

    /// Messages of a queue that were kept for consumers which didn't come are ready again.
    pub(super) fn give_back(&self, queue: QueueId, runs: &[Run], now: Nanos) {
        let queue = self.queues.lock().get(&queue).and_then(Weak::upgrade);
        if let Some(machine) = queue.as_ref().and_then(|queue| queue.machine().clone()) {
            machine.queue.requeue(Deliveries::of(None, runs), false, now);
        }
    }

    /// Looks where an active consumer may be that a queue waits for.
    pub(super) fn seeks(&self, queue: QueueId, awaiting: Awaiting, services: &Services, now: Nanos) -> Sought {
        let queue = self.queues.lock().get(&queue).and_then(Weak::upgrade);
        let Some((queue, machine)) = queue.and_then(|queue| Some((queue.clone(), queue.machine().clone()?))) else {
            return Sought::Over;
        };
        if machine.queue.awaited_active() != Some(awaiting.id) {
            return Sought::Over;
        }
        let timeout_ms = queue.disconnected_timeout_ms();
        if now >= awaiting.since.saturating_add(timeout_ms.saturating_mul(1_000_000)) {
            return Sought::Late;
        }
        match awaiting.id.member() == services.member {
            true => Sought::Here(queue.has_consumer(awaiting.id)),
            false => Sought::Elsewhere,
        }
    }

    /// It is known whether a client has an active consumer that a queue waits for.
    pub(crate) fn answer_awaited(&self, (of, id): (QueueId, ConsumerId), has: bool, now: Nanos) {
        let leading = self.leading();
        let Leading::Here(stream) = &*leading else { return };
        let queue = self.queues.lock().get(&of).and_then(Weak::upgrade);
        match queue.as_ref().and_then(|queue| queue.machine().clone()) {
            // It comes.
            Some(_) if has => _ = stream.awaited.asked(of, id, false),
            Some(machine) => {
                stream.awaited.remove(of, id);
                machine.queue.stop_awaiting(id, now);
                stream.announce();
            }
            None => {}
        }
    }

    /// The active consumers that its queues wait for.
    #[cfg(feature = "testing")]
    pub(crate) fn awaited(&self) -> Vec<(QueueId, ConsumerId)> {
        let Leading::Here(stream) = &*self.leading() else { return Vec::new() };
        stream.awaited.all().into_iter().map(|(queue, awaiting)| (queue, awaiting.id)).collect()
    }

    /// This node leads it until then, whatever happens: see [`PlacedStream::renew_lease`].
    pub(super) fn renew_lease(&self, term: u64, until: Nanos) {
        let leading = self.leading();
        let Leading::Here(stream) = &*leading else { return };
        if stream.term() == term && stream.renew_lease(until) {
            let queues = self.queues();
            let machines = queues.iter().filter_map(|queue| queue.machine().clone());
            machines.for_each(|machine| machine.queue.wake_consumers());
        }
    }

    /// This leader hands nothing out from now on, so that the next one knows what was, or again.
    pub(super) fn stop_handing_out(&self, term: u64, stops: bool) {
        let leading = self.leading();
        let Leading::Here(stream) = &*leading else { return };
        if stream.term() != term {
            return;
        }
        stream.stop_handing_out(stops);
        let queues = self.queues();
        for machine in queues.iter().filter_map(|queue| queue.machine().clone()) {
            if stops { machine.queue.lower_mark() } else { machine.queue.resume_mark() }
        }
    }

    /// Has a call wait for a leader.
    pub(super) fn wait(&self, call: OnceLed) {
        self.waiting.lock().push(WaitingCall { since: None, call });
    }

    /// Makes the calls that wait, since there may be a leader.
    pub(super) fn go_on(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(|waiting| (waiting.call)(false));
    }

    /// Looks whether calls have waited for too long. `is_reached` says whether a leader can be reached.
    pub(super) fn look(&self, is_reached: bool, now: Nanos) {
        self.end_change(now);
        let since = {
            let mut since = self.unreached_since.lock();
            *since = if is_reached { None } else { Some(since.unwrap_or(now)) };
            *since
        };
        self.is_lost.store(since.is_some_and(|since| now >= since + LEADER_NS), Ordering::Release);
        let over: Vec<_> = {
            let mut waiting = self.waiting.lock();
            waiting.extract_if(.., |waiting| now >= *waiting.since.get_or_insert(now) + LEADER_NS).collect()
        };
        over.into_iter().for_each(|waiting| (waiting.call)(true));
    }

    /// Whether no leader could be reached for longer than calls wait.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// A consumer has to be registered again.
    pub(super) fn has_unregistered(&self) {
        self.is_to_register.store(true, Ordering::Release);
    }

    /// Whether one has to be since the last call.
    pub(super) fn take_unregistered(&self) -> bool {
        self.is_to_register.swap(false, Ordering::AcqRel)
    }

    /// All its queues.
    pub(super) fn queues(&self) -> Vec<Arc<PlacedQueue>> {
        self.queues.lock().values().filter_map(Weak::upgrade).collect()
    }
}

impl MovingHome for PlacementHere {
    fn member(&self) -> Option<MemberNumber> {
        match **self.leading.load() {
            Leading::There(member, _) => Some(member),
            Leading::Nobody | Leading::Here(_) => None,
        }
    }

    fn stream_without(&self) -> StreamRef {
        self.leaderless.clone()
    }
}
