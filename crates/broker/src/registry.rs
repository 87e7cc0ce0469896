//! The control plane: the model behind its lock, and the snapshot that everybody reads without one.
//!
//! A change is validated and staged at once, so that the next one sees it; it is published, and answered,
//! when its record is durable. Whoever learns that first publishes everything up to there, in order.

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use leveret_log::{LogId, Position, Wait};
use leveret_model::{
    Change, Command, ConnectionId, DeleteQueue, ExchangeId, JoinedRecords, Model, Outcome, Permit, Queue, QueueId,
    Refused, Topology,
};
use leveret_queue::{DeleteIf, NotDeleted, Recovered};
use leveret_routing::Router;
use parking_lot::{Mutex, MutexGuard};

use crate::exchange_counters::ExchangeCounters;
use crate::queue_handle::{QueueHandle, QueueRef};
use crate::records::CONTROL_MODEL_COMMAND;
use crate::reply_to::ReplyTargets;
use crate::services::Services;
use crate::time::{Nanos, Now};
use crate::told::changes;
use crate::turn_budget::DELETED_QUEUES;

/// Everything that routing and lookups need, immutable.
#[derive(Clone)]
pub struct Snapshot {
    /// Objects, users, permissions.
    pub topology: Topology,
    /// Where messages go.
    pub router: Router,
    /// The queues themselves.
    pub queues: imbl::OrdMap<QueueId, QueueRef>,
    /// What went through exchanges.
    pub exchanges: imbl::HashMap<ExchangeId, Arc<ExchangeCounters>>,
    /// Who waits for answers without a queue. Not part of the snapshot's state: the same in all of them.
    pub replies: Arc<ReplyTargets>,
    /// Grows with every published change.
    pub generation: u64,
}

impl Snapshot {
    /// The queue with this name.
    pub fn queue(&self, vhost: &str, name: &str) -> Option<&QueueRef> {
        self.queues.get(&self.topology.queue(vhost, name)?.id)
    }

    /// Those in this range of the queues of `vhosts`, by name in each, or against that order if `reverse`.
    pub fn queues_in(&self, vhosts: &[&str], range: Range<usize>, reverse: bool) -> Vec<QueueRef> {
        let infos = vhosts.iter().flat_map(|vhost| self.topology.queues(vhost));
        let find = |info: &Arc<Queue>| self.queues.get(&info.id).cloned();
        match reverse {
            false => infos.skip(range.start).take(range.len()).filter_map(find).collect(),
            true => infos.rev().skip(range.start).take(range.len()).filter_map(find).collect(),
        }
    }

    /// The queues of these vhosts, by name in each.
    pub fn queues_of<'a>(&self, vhosts: impl IntoIterator<Item = &'a str>) -> Vec<QueueRef> {
        let infos = vhosts.into_iter().flat_map(|vhost| self.topology.queues(vhost));
        let mut wanted: Vec<(QueueId, usize)> = infos.enumerate().map(|(at, info)| (info.id, at)).collect();
        if wanted.len() < self.queues.len() / WALK_FROM_SHARE {
            return wanted.iter().filter_map(|(id, _)| self.queues.get(id).cloned()).collect();
        }
        // To find 100,000 queues one by one takes three times as long as to walk through all.
        let mut found = vec![None; wanted.len()];
        wanted.sort_unstable();
        let mut wanted = wanted.into_iter().peekable();
        for (id, queue) in &self.queues {
            if let Some((_, at)) = wanted.next_if(|(other, _)| other == id) {
                found[at] = Some(queue.clone());
            }
        }
        found.into_iter().flatten().collect()
    }
}

struct Unpublished {
    position: Position,
    snapshot: Arc<Snapshot>,
    deleted: Vec<QueueRef>,
    /// The snapshot before it takes long to be freed.
    is_large: bool,
}

struct Staged {
    model: Model,
    latest: Arc<Snapshot>,
    unpublished: VecDeque<Unpublished>,
    /// Position of the last record appended, or up to where recovery replayed all.
    last_record: Position,
    /// Goes up with every command.
    version: u64,
}

/// A snapshot in the making.
struct Next {
    snapshot: Arc<Snapshot>,
    declared: Vec<QueueRef>,
    deleted: Vec<QueueRef>,
    is_large: bool,
}

/// Commands that were carried out on a copy.
struct Tried {
    model: Model,
    outcomes: Vec<Outcome>,
    record: Option<Vec<u8>>,
    next: Option<Next>,
}

/// What a submitted command came to.
pub struct Submitted {
    /// As the model said.
    pub outcome: Outcome,
    /// The answer waits until this is durable; 0 for nothing.
    pub position: Position,
    /// Queues that this command deletes.
    pub deleted: Vec<QueueRef>,
}

/// See the module.
pub struct Registry {
    staged: Mutex<Staged>,
    published: ArcSwap<Snapshot>,
    /// Of the published snapshot, for those who only ask whether it is still the same.
    generation: AtomicU64,
    /// The remains of large changes, to be freed.
    retired: Mutex<Vec<Box<dyn Any + Send>>>,
    services: Services,
    /// Wall time of monotonic zero.
    epoch_ms: u64,
}

/// From one queue in so many on, walking through all is the faster way to find them.
const WALK_FROM_SHARE: usize = 8;

/// The remains of a change of so many parts take too long to be freed in a client's turn.
const LARGE_FROM: usize = 1000;

/// A change of many objects that others overtake so often is made while they wait.
const TRIES: u32 = 3;

const NANOS_PER_MS: u64 = 1_000_000;

impl Registry {
    /// A registry over a recovered model; `recovered` gives what the log knows of each durable queue.
    pub fn new(
        model: Model,
        mut recovered: impl FnMut(QueueId) -> Recovered,
        services: Services,
        replies: Arc<ReplyTargets>,
        now: Now,
    ) -> Self {
        let epoch_ms = now.wall_ms - now.monotonic / NANOS_PER_MS;
        let now = now.monotonic;
        let topology = model.topology();
        let mut queues = imbl::OrdMap::new();
        for info in topology.vhosts().flat_map(|vhost| topology.queues(vhost)) {
            let handle = QueueHandle::open(info.clone(), recovered(info.id), &services, epoch_ms, now);
            handle.announce();
            queues.insert(info.id, handle);
        }
        let exchanges = topology.vhosts().flat_map(|vhost| topology.exchanges(vhost));
        let exchanges = exchanges.map(|exchange| (exchange.id, Arc::default())).collect();
        let router = Router::new(&topology);
        let snapshot = Arc::new(Snapshot { topology, router, queues, exchanges, replies, generation: 1 });
        let last_record = services.commit.durable();
        Self {
            staged: Mutex::new(Staged {
                model,
                latest: snapshot.clone(),
                unpublished: VecDeque::new(),
                last_record,
                version: 0,
            }),
            generation: AtomicU64::new(snapshot.generation),
            published: ArcSwap::new(snapshot),
            retired: Mutex::default(),
            services,
            epoch_ms,
        }
    }

    /// The current snapshot.
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.published.load()
    }

    /// The current snapshot, to be kept.
    pub fn snapshot_full(&self) -> Arc<Snapshot> {
        self.published.load_full()
    }

    /// Generation of the current snapshot, or of the one before while that takes its place.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Validates and stages a command.
    ///
    /// # Errors
    /// [`Refused`] with RabbitMQ's words; nothing has changed then.
    pub fn submit(&self, permit: Permit, command: Command, now: Nanos) -> Result<Submitted, Refused> {
        let mut staged = self.staged.lock();
        let told = changes::lines(&staged.model.topology(), &command);
        let submitted = staged.model.submit(permit, command)?;
        told.iter().for_each(|line| tracing::info!("{line}"));
        let position = self.log(&mut staged, submitted.record.as_deref());
        let next = self.next(&staged.latest, &staged.model, submitted.changes, now);
        let deleted = self.stage(staged, next, position);
        Ok(Submitted { outcome: submitted.outcome, position, deleted })
    }

    /// Deletes a queue if `condition` holds: to look at it and to close it is one step. With `id` it is that queue or none:
    /// another one of its name may be there by now.
    ///
    /// # Errors
    /// As [`Registry::submit`], and that the condition doesn't hold.
    pub fn delete_queue(
        &self,
        permit: Permit,
        command: DeleteQueue,
        condition: DeleteIf,
        id: Option<QueueId>,
        now: Nanos,
    ) -> Result<Submitted, Refused> {
        let mut staged = self.staged.lock();
        let queue = staged.latest.queue(&command.vhost, &command.name).cloned();
        if id.is_some() && queue.as_ref().map(|queue| queue.info().id) != id {
            return Ok(Submitted { outcome: Outcome::Absent, position: 0, deleted: Vec::new() });
        }
        let (vhost, name) = (command.vhost.clone(), command.name.clone());
        let command = Command::DeleteQueue(command);
        let told = changes::lines(&staged.model.topology(), &command);
        let mut model = staged.model.clone();
        let submitted = model.submit(permit, command)?;
        let record = submitted.record.as_deref();
        let position = match queue.filter(|_| condition.any()) {
            None => self.log(&mut staged, record),
            Some(queue) => queue.close(condition, now, || self.log(&mut staged, record)).map_err(|reason| {
                let why = match reason {
                    NotDeleted::NotEmpty => "not empty",
                    NotDeleted::InUse | NotDeleted::Used => "in use",
                };
                Refused::precondition(format!("queue '{name}' in vhost '{vhost}' {why}"))
            })?,
        };
        told.iter().for_each(|line| tracing::info!("{line}"));
        staged.model = model;
        let next = self.next(&staged.latest, &staged.model, submitted.changes, now);
        let deleted = self.stage(staged, next, position);
        Ok(Submitted { outcome: submitted.outcome, position, deleted })
    }

    /// Validates and stages commands as one change: all of them or, if one is refused, none, also after a crash. The
    /// answers come in their order. Thousands of them are carried out on a copy, while others go on.
    ///
    /// # Errors
    /// The index of the first that is refused, and why.
    pub fn submit_all(
        &self,
        permit: &Permit,
        commands: &[Command],
        now: Nanos,
    ) -> Result<(Vec<Outcome>, Position), (usize, Refused)> {
        let before = self.staged.lock().model.topology();
        let tell = || {
            commands
                .iter()
                .flat_map(|command| changes::lines(&before, command))
                .for_each(|line| tracing::info!("{line}"))
        };
        for _ in 0..TRIES {
            let (version, model, latest) = {
                let staged = self.staged.lock();
                (staged.version, staged.model.clone(), staged.latest.clone())
            };
            let tried = self.try_all(model, &latest, permit, commands, now)?;
            let staged = self.staged.lock();
            if staged.version == version {
                tell();
                return Ok(self.take_over(staged, tried));
            }
        }
        let staged = self.staged.lock();
        let tried = self.try_all(staged.model.clone(), &staged.latest, permit, commands, now)?;
        tell();
        Ok(self.take_over(staged, tried))
    }

    fn try_all(
        &self,
        mut model: Model,
        latest: &Snapshot,
        permit: &Permit,
        commands: &[Command],
        now: Nanos,
    ) -> Result<Tried, (usize, Refused)> {
        let (mut outcomes, mut changes, mut record) = (Vec::new(), Vec::new(), JoinedRecords::default());
        for (at, command) in commands.iter().enumerate() {
            let submitted = model.submit(permit.clone(), command.clone()).map_err(|refused| (at, refused))?;
            outcomes.push(submitted.outcome);
            changes.extend(submitted.changes);
            submitted.record.iter().for_each(|one| record.add(one));
        }
        let next = self.next(latest, &model, changes, now);
        Ok(Tried { model, outcomes, record: record.finish(), next })
    }

    /// What was tried on a copy of the newest state is that now.
    fn take_over(&self, mut staged: MutexGuard<'_, Staged>, tried: Tried) -> (Vec<Outcome>, Position) {
        staged.model = tried.model;
        let position = self.log(&mut staged, tried.record.as_deref());
        self.stage(staged, tried.next, position);
        (tried.outcomes, position)
    }

    /// Logs the record of a change, if it has one. Returns what its answer waits for.
    fn log(&self, staged: &mut Staged, record: Option<&[u8]>) -> Position {
        staged.version += 1;
        let Some(record) = record else { return staged.unpublished.back().map_or(0, |last| last.position) };
        let position = self
            .services
            .commit
            .append(|log, now| log.append_control(LogId::METADATA, CONTROL_MODEL_COMMAND, record, Wait::Confirm, now));
        staged.last_record = position;
        position
    }

    /// The snapshot after `latest` with these changes; none if there are none.
    fn next(&self, latest: &Snapshot, model: &Model, changes: Vec<Change>, now: Nanos) -> Option<Next> {
        if changes.is_empty() {
            return None;
        }
        let mut next = Snapshot::clone(latest);
        let (mut declared, mut deleted) = (Vec::new(), Vec::new());
        for change in &changes {
            match change {
                Change::QueueDeclared(info) => {
                    let recovered = Recovered::none(self.services.first_number);
                    let handle = QueueHandle::open(info.clone(), recovered, &self.services, self.epoch_ms, now);
                    declared.push(handle.clone());
                    next.queues.insert(info.id, handle);
                }
                Change::QueueDeleted(info) => deleted.extend(next.queues.remove(&info.id)),
                Change::ExchangeDeclared(exchange) => {
                    next.exchanges.insert(exchange.id, Arc::default());
                }
                Change::ExchangeDeleted(exchange) => {
                    next.exchanges.remove(&exchange.id);
                }
                _ => {}
            }
        }
        next.router.apply_all(&changes);
        next.topology = model.topology();
        next.generation += 1;
        let size = |change: &Change| match change {
            Change::Unbound(gone) => gone.len(),
            Change::SourceUnbound(gone) => gone.len(),
            _ => 1,
        };
        let is_large = changes.iter().map(size).sum::<usize>() >= LARGE_FROM;
        if is_large {
            // Whatever holds the removed objects last frees them.
            self.retired.lock().push(Box::new(changes));
        }
        Some(Next { snapshot: Arc::new(next), declared, deleted, is_large })
    }

    /// Makes a snapshot the newest one; it is published when `position` is durable. Returns the queues that it deletes.
    fn stage(&self, mut staged: MutexGuard<'_, Staged>, next: Option<Next>, position: Position) -> Vec<QueueRef> {
        let Some(Next { snapshot, declared, deleted, is_large }) = next else { return Vec::new() };
        staged.latest = snapshot.clone();
        staged.unpublished.push_back(Unpublished { position, snapshot, deleted: deleted.clone(), is_large });
        drop(staged);
        for queue in declared {
            queue.announce();
        }
        self.services.commit.announce();
        self.publish();
        deleted
    }

    /// Publishes every change that is durable, and carries out its deletions. Where one deletes many queues, most are left
    /// to their home cores.
    pub fn publish(&self) {
        let durable = self.services.commit.durable();
        let (mut deleted, mut left) = (Vec::new(), Vec::new());
        {
            let mut staged = self.staged.lock();
            let mut newest = None;
            let mut is_large = false;
            while let Some(mut due) = staged.unpublished.pop_front_if(|next| next.position <= durable) {
                let passed_over = newest.replace(due.snapshot);
                left.extend(due.deleted.drain(due.deleted.len().min(DELETED_QUEUES)..));
                deleted.extend(due.deleted);
                is_large |= due.is_large;
                self.retire(passed_over, is_large);
            }
            if let Some(snapshot) = newest {
                let generation = snapshot.generation;
                let old = self.published.swap(snapshot);
                self.generation.store(generation, Ordering::Release);
                self.retire(Some(old), is_large);
            }
        }
        self.services.deferred.delete(left);
        deleted.iter().for_each(|queue| self.finish_deletion(queue));
    }

    fn retire(&self, old: Option<Arc<Snapshot>>, is_large: bool) {
        if is_large && let Some(old) = old {
            self.retired.lock().push(Box::new(old));
        }
    }

    /// Frees the remains of large changes. It may take long: a thread calls it now and then that serves no client.
    pub fn free_retired(&self) {
        let retired = std::mem::take(&mut *self.retired.lock());
        drop(retired);
    }

    /// Takes the bindings of deleted queues out of the routing tables, which large deletions leave there. Called now and then,
    /// as [`free_retired`](Self::free_retired) is; what is declared meanwhile waits for a part of it at most.
    pub fn tidy_routes(&self) {
        loop {
            let mut staged = self.staged.lock();
            if staged.latest.router.is_tidy() || !staged.unpublished.is_empty() {
                return;
            }
            let mut next = Snapshot::clone(&staged.latest);
            // Routes stay the same, so that none that is remembered has to be looked for again.
            next.router.tidy();
            let next = Arc::new(next);
            staged.latest = next.clone();
            let old = self.published.swap(next);
            drop(staged);
            drop(old);
        }
    }

    /// A queue that no snapshot has any more goes, with what the log has of it.
    pub(crate) fn finish_deletion(&self, queue: &QueueRef) {
        queue.delete();
        if queue.info().is_logged() {
            let commit = &self.services.commit;
            commit.append(|log, _| log.forget(queue.log_id()));
            commit.wake_background();
        }
    }

    /// The snapshot with all changes that are on their way.
    pub fn staged_snapshot(&self) -> Arc<Snapshot> {
        self.staged.lock().latest.clone()
    }

    /// The snapshot with all changes that are on their way, and the position from which on it is the published one: what
    /// is told of it waits for that.
    pub fn staged(&self) -> (Arc<Snapshot>, Position) {
        let staged = self.staged.lock();
        (staged.latest.clone(), staged.unpublished.back().map_or(0, |last| last.position))
    }

    /// The objects with all changes that are on their way.
    pub fn staged_topology(&self) -> Topology {
        self.staged.lock().latest.topology.clone()
    }

    /// The model as a checkpoint keeps it.
    /// It comes with the position of its last record.
    pub fn model_snapshot(&self) -> (Vec<u8>, Position) {
        let staged = self.staged.lock();
        (staged.model.snapshot(), staged.last_record)
    }

    /// The queues that belong to a connection alone, by id and from this one on; at most so many.
    pub fn exclusive_queues(&self, owner: ConnectionId, from: QueueId, most: usize) -> Vec<Arc<leveret_model::Queue>> {
        self.staged_topology().exclusive_queues(owner, from).take(most).cloned().collect()
    }
}
