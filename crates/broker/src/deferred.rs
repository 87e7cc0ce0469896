//! Work that queues leave for their home core: moves of dead letters, and timers.
//!
//! Every queue has a home core, by its id. A caller that finds work for a queue leaves the queue there, and the core handles it
//! between its connections' turns, a bounded piece at a time.
//!
//! Work that would write to a commit stream without room is set aside until that stream has room again. All other work goes on.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use imbl::OrdMap;
use leveret_message::{Batch, Reason};
use leveret_model::QueueId;
use leveret_queue::{Deadlines, Ended, Epoch, QueueState};
use leveret_routing::Routes;
use parking_lot::{Mutex, MutexGuard, RwLock};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::group::Group;
use crate::history_copy::HistoryCopy;
use crate::outbox::Wake;
use crate::policy_walk::PolicyWalk;
use crate::queue_handle::{LocalQueue, QueueHandle, QueueRef};
use crate::streams::{CommitStream, Waiter};
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::time::{Nanos, Now};
use crate::turn_budget::DELETED_QUEUES;

/// Bytes of messages that a length limit refused and that wait to be dead-lettered; further ones are dropped.
const REFUSED_BYTES_MAX: u64 = 16 << 20;

/// Messages that a queue refused (`x-overflow=reject-publish-dlx`): they never became part of it.
pub(crate) struct Refused {
    pub queue: LocalQueue,
    pub batch: Arc<Batch>,
    pub index: u32,
    pub count: u32,
}

impl Refused {
    fn bytes(&self) -> u64 {
        self.batch.body_bytes(self.index as usize, self.count as usize) + 64 * u64::from(self.count)
    }
}

/// Queues that dead letters go to.
pub(crate) type Targets = SmallVec<[QueueRef; 2]>;

/// Whether both are the same queues.
pub(crate) fn are_same(one: &Targets, other: &Targets) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same(other))
}

/// Dead letters with the same targets, and whether they are persistent.
pub(crate) type LetterRun = (Targets, bool, Arc<Batch>);

/// Dead letters of a turn on their way into their targets. Those in their queue's stream get them as one group, which may take
/// several turns.
pub(crate) struct Moving {
    pub queue: LocalQueue,
    /// Dead letters for targets that don't have them yet.
    pub runs: VecDeque<LetterRun>,
    /// The search for the targets of its only dead letter.
    pub wide: Option<Wide>,
    /// Whether the targets in other streams have theirs.
    pub is_elsewhere: bool,
    /// Number of targets of the first run that have it.
    pub reached: usize,
    /// The group, once it is open.
    pub group: Option<Group>,
    /// False if the queue never accepted the messages, because of its length limit.
    pub is_of_queue: bool,
    /// A target failed and refused its dead letters.
    pub is_refused: bool,
    /// Number of dead letters that were routed nowhere.
    pub dropped: u64,
    /// Number of messages by reason of death.
    pub reasons: Vec<(Reason, u32)>,
}

/// The search for the targets of a dead letter that has very many.
pub(crate) struct Wide {
    /// All queues when it began.
    pub queues: OrdMap<QueueId, QueueRef>,
    pub routes: Routes,
    /// Index of the next route.
    pub next: usize,
}

/// One piece of work.
pub(crate) enum Work {
    /// This queue has dead letters.
    DeadLetters(LocalQueue),
    /// A timer of this queue is due.
    Due(LocalQueue),
    Refused(Refused),
    Moving(Box<Moving>),
    /// Consumers have to be notified that their queue is gone.
    Ended(Ended),
    /// Deleted queues that are in no snapshot any more.
    Deleted(Vec<QueueRef>),
    /// A call whose answer comes late.
    Asked(Question),
    /// The last messages of an exchange have to be copied.
    History(Box<HistoryCopy>),
    /// Queues have to be given policies.
    Policies,
}

impl Work {
    /// The queue whose stream needs room for it. None if it writes nothing that could wait: a group that is open mustn't wait for
    /// anything, and settles and deletions make room.
    pub(crate) fn needs_room_of(&self) -> Option<&LocalQueue> {
        match self {
            Self::DeadLetters(queue) | Self::Due(queue) => Some(queue),
            Self::Refused(refused) => Some(&refused.queue),
            Self::Moving(moving) => moving.group.is_none().then_some(&moving.queue),
            // A copy of history looks at the streams of its targets itself.
            Self::History(_) | Self::Ended(_) | Self::Deleted(_) | Self::Asked(_) | Self::Policies => None,
        }
    }
}

/// A call that answers its asker; it gets the time of the core's turn.
pub(crate) type Question = Box<dyn FnOnce(Now) + Send>;

#[derive(Default)]
struct Waiting {
    queues: VecDeque<LocalQueue>,
    refused: VecDeque<Refused>,
    refused_bytes: u64,
    moving: VecDeque<Box<Moving>>,
    ended: VecDeque<Ended>,
    deleted: Vec<QueueRef>,
    asked: VecDeque<Question>,
    histories: VecDeque<Box<HistoryCopy>>,
    /// Queues whose timers are due again, since their stream has room.
    due: VecDeque<LocalQueue>,
    /// Work that waits for room in a stream.
    set_aside: FxHashMap<StreamId, Vec<Work>>,
    /// Whether the last turn was for policies: other work alternates with them, too.
    policies_last: bool,
    /// Whether the last turn was for timers: timers and other work alternate, so that neither starves.
    timers_last: bool,
}

impl Waiting {
    fn has_any(&self) -> bool {
        let is_empty = self.queues.is_empty() && self.refused.is_empty() && self.ended.is_empty();
        let is_empty = is_empty && self.deleted.is_empty() && self.histories.is_empty() && self.due.is_empty();
        !(is_empty && self.moving.is_empty() && self.asked.is_empty())
    }
}

#[derive(Default)]
struct CoreWork {
    waiting: Mutex<Waiting>,
    timers: Mutex<Timers>,
    wake: RwLock<Option<Arc<dyn Wake>>>,
}

/// Deadlines of a core's queues; each queue has at most one of each kind. Those in wall time stay what they are when that is set.
#[derive(Default)]
struct Timers {
    queues: FxHashMap<QueueId, (Deadlines, Weak<QueueHandle>)>,
    monotonic: BTreeSet<(Nanos, QueueId)>,
    wall_ms: BTreeSet<(u64, QueueId)>,
}

impl Timers {
    fn remove(&mut self, id: QueueId) -> Option<(Deadlines, Weak<QueueHandle>)> {
        let (deadlines, queue) = self.queues.remove(&id)?;
        self.monotonic.remove(&(deadlines.monotonic, id));
        self.wall_ms.remove(&(deadlines.wall_ms, id));
        Some((deadlines, queue))
    }

    /// Adds deadlines, unless sooner ones are known. Whether one of the queue's is the next of its kind now.
    fn add(&mut self, deadlines: Deadlines, queue: &LocalQueue) -> bool {
        let id = queue.info().id;
        // Deadlines of a machine that the queue had before, when this node led it earlier, say nothing of this one.
        let is_same = |of: &Weak<QueueHandle>| of.as_ptr() == Arc::as_ptr(queue);
        let known = self.queues.get(&id).filter(|(_, of)| is_same(of)).map_or(Deadlines::NONE, |(known, _)| *known);
        if deadlines.sooner_than(known).is_none() {
            return false;
        }
        self.remove(id);
        let deadlines = deadlines.and(known);
        self.queues.insert(id, (deadlines, Arc::downgrade(queue)));
        for (at, all) in [(deadlines.monotonic, &mut self.monotonic), (deadlines.wall_ms, &mut self.wall_ms)] {
            if at != u64::MAX {
                all.insert((at, id));
            }
        }
        [&self.monotonic, &self.wall_ms].into_iter().any(|all| all.first().is_some_and(|(_, first)| *first == id))
    }

    fn next(&self) -> Deadlines {
        let first = |all: &BTreeSet<(u64, QueueId)>| all.first().map_or(u64::MAX, |(at, _)| *at);
        Deadlines { monotonic: first(&self.monotonic), wall_ms: first(&self.wall_ms) }
    }

    /// Removes and returns a queue with a deadline that has come.
    fn due(&mut self, now: Nanos, epoch: &Epoch) -> Option<LocalQueue> {
        let now_ms = epoch.wall_ms(now);
        loop {
            let monotonic = self.monotonic.first().filter(|(at, _)| *at <= now);
            let (_, id) = *monotonic.or_else(|| self.wall_ms.first().filter(|(at, _)| *at <= now_ms))?;
            // It announces the other one again when its timers have run.
            let queue = self.remove(id).and_then(|(_, queue)| queue.upgrade());
            if queue.is_some() {
                return queue;
            }
        }
    }
}

/// Work of all cores.
pub struct Deferred {
    cores: Box<[CoreWork]>,
    epoch: Epoch,
    dropped: AtomicU64,
    /// Work of the first core.
    policies: Mutex<PolicyWalk>,
}

impl Deferred {
    /// An instance for this many cores. `epoch` is that of the queues.
    pub fn new(cores: usize, epoch: Epoch) -> Self {
        let cores = (0..cores.max(1)).map(|_| CoreWork::default()).collect();
        Self { cores, epoch, dropped: AtomicU64::new(0), policies: Mutex::default() }
    }

    /// Sets the wake-up for a core's work.
    pub fn set_wake(&self, core: usize, wake: Arc<dyn Wake>) {
        *self.cores[core].wake.write() = Some(wake);
        self.wake_if_able(core);
    }

    /// Whether a core has work, this or `other`.
    pub(crate) fn has_work(&self, core: usize, other: bool, now: Nanos) -> bool {
        let waiting = self.cores[core].waiting.lock();
        if waiting.has_any() || self.has_policies(core) || other {
            return true;
        }
        drop(waiting);
        self.next_deadline(core).is_some_and(|deadline| deadline <= now)
    }

    /// Number of refused messages that were dropped because dead-lettering didn't keep up.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn home(&self, queue: QueueId) -> usize {
        let id = queue.0;
        (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % self.cores.len()
    }

    /// Requests a move of dead letters of `queue`. Further requests have no effect until its turn.
    pub(crate) fn request(&self, queue: &LocalQueue) {
        let core = self.home(queue.info().id);
        self.cores[core].waiting.lock().queues.push_back(queue.clone());
        self.wake_if_able(core);
    }

    /// Continues a move whose condition is reached.
    pub(crate) fn go_on(&self, moving: Box<Moving>) {
        let core = self.home(moving.queue.info().id);
        self.cores[core].waiting.lock().moving.push_back(moving);
        self.wake_if_able(core);
    }

    /// Leaves the rest of a move for a core's next turn: no other move begins there before.
    pub(crate) fn move_more(&self, core: usize, moving: Box<Moving>) {
        self.cores[core].waiting.lock().moving.push_front(moving);
    }

    /// Has many consumers of `queue` notified that it is gone.
    pub(crate) fn tell(&self, queue: &LocalQueue, ended: Ended) {
        let core = self.home(queue.info().id);
        self.tell_more(core, ended);
        self.wake_if_able(core);
    }

    /// Leaves the rest of the consumers for a core's next turn.
    pub(crate) fn tell_more(&self, core: usize, ended: Ended) {
        self.cores[core].waiting.lock().ended.push_back(ended);
    }

    /// Has queues deleted that were removed together with others, each by its home core.
    pub(crate) fn delete(&self, queues: Vec<QueueRef>) {
        if queues.is_empty() {
            return;
        }
        let mut by_core = vec![Vec::new(); self.cores.len()];
        queues.into_iter().for_each(|queue| by_core[self.home(queue.info().id)].push(queue));
        for (core, queues) in by_core.into_iter().enumerate().filter(|(_, queues)| !queues.is_empty()) {
            self.cores[core].waiting.lock().deleted.extend(queues);
            self.wake_if_able(core);
        }
    }

    /// Has the home core of `queue`, or without one the first core, make a call that answers its asker. Calls of one core are made
    /// in order.
    pub(crate) fn ask(&self, queue: Option<&LocalQueue>, question: Question) {
        let core = queue.map_or(0, |queue| self.home(queue.info().id));
        self.cores[core].waiting.lock().asked.push_back(question);
        self.wake_if_able(core);
    }

    /// Has the last messages of an exchange copied by the home core of the queue that has them.
    pub(crate) fn copy_history(&self, copy: Box<HistoryCopy>) {
        let core = self.home(copy.queue);
        self.copy_more(core, copy);
        self.wake_if_able(core);
    }

    /// Leaves the rest of a copy for a core's next turn.
    pub(crate) fn copy_more(&self, core: usize, copy: Box<HistoryCopy>) {
        self.cores[core].waiting.lock().histories.push_back(copy);
    }

    /// Has messages dead-lettered that a queue refused.
    pub(crate) fn refuse(&self, refused: Refused) {
        let core = self.home(refused.queue.info().id);
        let mut waiting = self.cores[core].waiting.lock();
        let bytes = waiting.refused_bytes + refused.bytes();
        if bytes > REFUSED_BYTES_MAX {
            self.dropped.fetch_add(u64::from(refused.count), Ordering::Relaxed);
            return;
        }
        waiting.refused_bytes = bytes;
        waiting.refused.push_back(refused);
        drop(waiting);
        self.wake_if_able(core);
    }

    /// Leaves refused messages for a core's next turn, before all others.
    pub(crate) fn refuse_more(&self, core: usize, refused: Refused) {
        let mut waiting = self.cores[core].waiting.lock();
        waiting.refused_bytes += refused.bytes();
        waiting.refused.push_front(refused);
    }

    fn wake_if_able(&self, core: usize) {
        if self.has_work(core, false, 0)
            && let Some(wake) = &*self.cores[core].wake.read()
        {
            wake.wake();
        }
    }

    /// Sets deadlines for `queue`, unless earlier ones are set. The caller doesn't hold its lock.
    pub(crate) fn at(&self, deadlines: Deadlines, queue: &LocalQueue) {
        let core = self.home(queue.info().id);
        let is_next = {
            let mut timers = self.cores[core].timers.lock();
            // A machine that has ended has been forgotten, or is next: it must not stand in the way of the next one.
            queue.state() == QueueState::Running && timers.add(deadlines, queue)
        };
        if is_next && let Some(wake) = &*self.cores[core].wake.read() {
            wake.wake();
        }
    }

    /// Wall time was set: other deadlines may be the next ones, and each core looks at its own again.
    pub(crate) fn wall_time_was_set(&self) {
        for core in &self.cores {
            if let Some(wake) = &*core.wake.read() {
                wake.wake();
            }
        }
    }

    /// Forgets a queue that is gone.
    pub(crate) fn forget(&self, queue: &LocalQueue) {
        let mut timers = self.cores[self.home(queue.info().id)].timers.lock();
        if timers.queues.get(&queue.info().id).is_some_and(|(_, of)| of.as_ptr() == Arc::as_ptr(queue)) {
            timers.remove(queue.info().id);
        }
    }

    /// The next time when a core has work: it is woken for anything sooner.
    pub fn next_deadline(&self, core: usize) -> Option<Nanos> {
        self.cores[core].timers.lock().next().soonest(&self.epoch)
    }

    /// The next queue of a core with a due timer.
    fn due(&self, core: usize, now: Nanos) -> Option<LocalQueue> {
        self.cores[core].timers.lock().due(now, &self.epoch)
    }

    /// Whether refused messages still wait, or dead letters are being moved.
    pub(crate) fn has_letters(&self) -> bool {
        let is_letter = |work: &Work| matches!(work, Work::Refused(_) | Work::Moving(_));
        let has_any = |waiting: &Waiting| {
            let set_aside = waiting.set_aside.values().flatten().any(is_letter);
            set_aside || !(waiting.refused.is_empty() && waiting.moving.is_empty())
        };
        self.cores.iter().any(|core| has_any(&core.waiting.lock()))
    }

    /// Whether work of a core waits for room in this stream. Further work for it waits behind that.
    pub(crate) fn is_set_aside(&self, core: usize, stream: StreamId) -> bool {
        self.cores[core].waiting.lock().set_aside.contains_key(&stream)
    }

    /// Sets work aside until a stream has room again.
    pub(crate) fn set_aside(self: &Arc<Self>, core: usize, full: &dyn CommitStream, work: Work) {
        let stream = full.id();
        if self.keep_aside(core, stream, work) {
            // There is no room because of records that aren't durable yet.
            let (all, deferred) = (Ticket::new(stream, full.appended()), self.clone());
            full.notify(Awaited::durable(all), Waiter::Call(Box::new(move || deferred.take_up(core, stream))));
        }
    }

    /// Sets work aside until [`Deferred::take_up`]. Returns whether it is the first of this stream.
    fn keep_aside(&self, core: usize, stream: StreamId, work: Work) -> bool {
        let mut waiting = self.cores[core].waiting.lock();
        if let Work::Refused(refused) = &work {
            waiting.refused_bytes += refused.bytes();
        }
        let all = waiting.set_aside.entry(stream).or_default();
        all.push(work);
        all.len() == 1
    }

    /// Takes up the work that waited for room in this stream.
    fn take_up(&self, core: usize, stream: StreamId) {
        let mut waiting = self.cores[core].waiting.lock();
        let all = waiting.set_aside.remove(&stream).unwrap_or_default();
        // In their order, and before what came later. A move whose group is open stays the first.
        let open = waiting.moving.pop_front_if(|moving| moving.group.is_some());
        for work in all.into_iter().rev() {
            match work {
                Work::DeadLetters(queue) => waiting.queues.push_front(queue),
                Work::Due(queue) => waiting.due.push_front(queue),
                Work::Refused(refused) => waiting.refused.push_front(refused),
                Work::Moving(moving) => waiting.moving.push_front(moving),
                Work::History(copy) => waiting.histories.push_front(copy),
                // These need no room: see `needs_room_of`.
                Work::Ended(ended) => waiting.ended.push_front(ended),
                Work::Deleted(deleted) => waiting.deleted.extend(deleted),
                Work::Asked(question) => waiting.asked.push_front(question),
                Work::Policies => {}
            }
        }
        if let Some(open) = open {
            waiting.moving.push_front(open);
        }
        drop(waiting);
        self.wake_if_able(core);
    }

    fn has_policies(&self, core: usize) -> bool {
        core == 0 && !self.policies.lock().is_over()
    }

    /// The walk that gives queues their policies.
    pub(crate) fn policies(&self) -> MutexGuard<'_, PolicyWalk> {
        self.policies.lock()
    }

    /// Wakes the core that looks at queues.
    pub(crate) fn wake_for_policies(&self) {
        self.wake_if_able(0);
    }

    /// The next piece of work of a core, of at most `most` messages.
    pub(crate) fn next(&self, core: usize, most: u32, now: Nanos) -> Option<Work> {
        let has_policies = self.has_policies(core);
        let mut waiting = self.cores[core].waiting.lock();
        // An open group mustn't wait for anything.
        let has_policies = has_policies && waiting.moving.front().is_none_or(|moving| moving.group.is_none());
        waiting.policies_last = has_policies && !waiting.policies_last;
        if waiting.policies_last {
            return Some(Work::Policies);
        }
        if let Some(ended) = waiting.ended.pop_front() {
            return Some(Work::Ended(ended));
        }
        if let Some(question) = waiting.asked.pop_front() {
            return Some(Work::Asked(question));
        }
        if !waiting.deleted.is_empty() {
            let left = waiting.deleted.len().saturating_sub(DELETED_QUEUES);
            return Some(Work::Deleted(waiting.deleted.split_off(left)));
        }
        if let Some(moving) = waiting.moving.pop_front() {
            return Some(Work::Moving(moving));
        }
        if let Some(copy) = waiting.histories.pop_front() {
            return Some(Work::History(copy));
        }
        if let Some(queue) = waiting.due.pop_front() {
            return Some(Work::Due(queue));
        }
        let others_first = waiting.timers_last && !(waiting.refused.is_empty() && waiting.queues.is_empty());
        waiting.timers_last = !others_first;
        if !others_first {
            drop(waiting);
            if let Some(queue) = self.due(core, now) {
                return Some(Work::Due(queue));
            }
            waiting = self.cores[core].waiting.lock();
        }
        if let Some(refused) = waiting.refused.pop_front() {
            waiting.refused_bytes -= refused.bytes();
            if refused.count <= most {
                return Some(Work::Refused(refused));
            }
            let Refused { queue, batch, index, count } = refused;
            let rest = Refused { queue: queue.clone(), batch: batch.clone(), index: index + most, count: count - most };
            waiting.refused_bytes += rest.bytes();
            waiting.refused.push_front(rest);
            return Some(Work::Refused(Refused { queue, batch, index, count: most }));
        }
        let dead_letters = waiting.queues.pop_front().map(Work::DeadLetters);
        waiting.policies_last = has_policies && dead_letters.is_none();
        dead_letters.or_else(|| has_policies.then_some(Work::Policies))
    }
}
