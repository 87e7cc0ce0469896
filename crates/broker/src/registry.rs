//! The control plane: the model behind its lock, and a snapshot that is read without a lock.
//!
//! A change is validated and staged at once, so that the next one sees it. It is published, and answered, when its record is
//! durable. The first caller that notices this publishes all durable changes in order. Beside the staged model there is the
//! committed one, which has durable changes only: if the stream withdraws records, it is where staging begins anew.

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use leveret_log::{LogId, Wait};
use leveret_model::{
    Change, Command, CommandOutcome, ConnectionId, ConvertQueue, DeleteQueue, EarlierPriorities, ExchangeId,
    JoinedRecords, Model, Permit, Queue, QueueId, QueueType, Refused, Topology,
};
use leveret_queue::{DeleteIf, NotDeleted, Place, Replica, Watermarks};
use leveret_routing::Router;
use parking_lot::{Mutex, MutexGuard};

use crate::events;
use crate::exchange_counters::ExchangeCounters;
use crate::history_copy::{HistoryCopy, HistoryEnd};
use crate::notices::Notices;
use crate::planted::{Bug, is_planted};
use crate::policy_walk::PolicyNews;
use crate::queue_handle::{QueueHandle, QueueRef, Successor};
use crate::records::CONTROL_MODEL_COMMAND;
use crate::reply_to::ReplyTargets;
use crate::services::Services;
use crate::streams::{Record, Waiter};
use crate::ticket::Ticket;
use crate::time::{Nanos, Now};
use crate::told::changes;
use crate::turn_budget::DELETED_QUEUES;
use crate::unconverted::unconverted;
use crate::wait_for::WaitFor;
use crate::whole::whole;

/// From this number of queues on, they aren't looked up one by one and, for a route, not looked at themselves: each look waits for
/// memory.
pub(crate) const MANY_QUEUES: usize = 1000;
/// Above this share of all queues (1 in 8), a scan of all beats looking each one up.
const SCAN_SHARE: usize = 8;

/// The exchange of every vhost that gets copies of its messages while it is traced.
pub(crate) const TRACE_EXCHANGE: &str = "amq.rabbitmq.trace";

/// An immutable snapshot of everything that routing and lookups need.
#[derive(Clone)]
pub struct Snapshot {
    /// Objects, users, permissions.
    pub topology: Topology,
    /// The routing tables.
    pub router: Router,
    /// The queues themselves.
    pub queues: imbl::OrdMap<QueueId, QueueRef>,
    /// Counters of exchanges.
    pub exchanges: imbl::HashMap<ExchangeId, Arc<ExchangeCounters>>,
    /// Requesters that wait for answers without a queue. Not part of the snapshot's state: the same in all of them.
    pub replies: Arc<ReplyTargets>,
    /// The vhosts that are traced, until the node stops.
    pub traced: Arc<BTreeSet<Arc<str>>>,
    /// Grows with every published change.
    pub generation: u64,
}

impl Snapshot {
    /// The queue with this name.
    pub fn queue(&self, vhost: &str, name: &str) -> Option<&QueueRef> {
        self.queues.get(&self.topology.queue(vhost, name)?.id)
    }

    /// Whether messages of a vhost are to be traced: something has to be bound for their copies.
    pub fn traces(&self, vhost: &str) -> bool {
        self.traced.contains(vhost) && self.router.has_bindings(vhost, TRACE_EXCHANGE)
    }

    /// The queues of `vhosts` in this range, by name in each vhost, or in descending order if `reverse`.
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
        wanted.sort_unstable();
        let mut found = vec![None; wanted.len()];
        let mut places = wanted.iter().peekable();
        let ids: Vec<QueueId> = wanted.iter().map(|(id, _)| *id).collect();
        self.each_queue(&ids, |id, queue| {
            while places.next_if(|(other, _)| *other < id).is_some() {}
            if let Some((_, at)) = places.next() {
                found[*at] = Some(queue.clone());
            }
        });
        found.into_iter().flatten().collect()
    }

    /// Visits the queues with these ids that exist; the ids are in ascending order.
    pub(crate) fn each_queue(&self, ids: &[QueueId], mut visit: impl FnMut(QueueId, &QueueRef)) {
        if ids.len() < MANY_QUEUES || ids.len() < self.queues.len() / SCAN_SHARE {
            for id in ids {
                if let Some(queue) = self.queues.get(id) {
                    visit(*id, queue);
                }
            }
            return;
        }
        // Looking up 100,000 queues one by one takes three times as long as a scan of all.
        let mut wanted = ids.iter().peekable();
        for (id, queue) in self.queues.range(ids[0]..) {
            while wanted.next_if(|other| *other < id).is_some() {}
            if wanted.next_if(|other| *other == id).is_some() {
                visit(*id, queue);
            }
        }
    }
}

struct Unpublished {
    ticket: Ticket,
    snapshot: Arc<Snapshot>,
    /// The model with this change.
    model: Model,
    /// Place of the last record up to this change.
    record: Place,
    declared: Vec<QueueRef>,
    deleted: Vec<QueueRef>,
    /// Queues that were converted: their successors are among the declared ones.
    converted: Vec<QueueRef>,
    /// Whether the snapshot before it takes long to be freed.
    is_large: bool,
    /// The changes of policies.
    policies: Vec<PolicyNews>,
    /// Whether bindings changed, by which the broker's own exchanges may be read, or not any more.
    is_bound_anew: bool,
}

struct Staged {
    model: Model,
    /// The model with durable changes only.
    committed: Model,
    /// Place of the last record in `committed`.
    committed_record: Place,
    latest: Arc<Snapshot>,
    unpublished: VecDeque<Unpublished>,
    /// Place of the last record, or of the end of the replay at recovery.
    last_record: Place,
    /// Incremented by every command.
    version: u64,
}

impl Staged {
    /// The ticket of the last change that isn't published.
    fn last_unpublished(&self) -> Ticket {
        self.unpublished.back().map_or(Ticket::default(), |last| last.ticket)
    }
}

/// A snapshot in the making.
struct Next {
    snapshot: Arc<Snapshot>,
    declared: Vec<QueueRef>,
    deleted: Vec<QueueRef>,
    converted: Vec<QueueRef>,
    is_large: bool,
    policies: Vec<PolicyNews>,
    is_bound_anew: bool,
    /// Last messages of exchanges that go to new bindings' destinations.
    histories: Vec<HistoryCopy>,
}

/// Commands that were executed on a copy.
struct Tried {
    model: Model,
    outcomes: Vec<CommandOutcome>,
    record: Option<Vec<u8>>,
    next: Option<Next>,
    /// The changes, if anything wants events.
    changes: Vec<Change>,
}

/// The result of a submitted command.
pub struct Submitted {
    /// The outcome, as returned by the model.
    pub outcome: CommandOutcome,
    /// The answer waits until this is durable.
    pub ticket: Ticket,
    /// Queues that this command deletes.
    pub deleted: Vec<QueueRef>,
    /// The difference between a declaration and the queue that exists, to be logged.
    pub mismatch: Option<Refused>,
    /// The end of the copy of an exchange's last messages to a new binding's destination.
    pub history: Option<Arc<HistoryEnd>>,
}

impl Submitted {
    /// The condition that an answer waits for which follows everything that the command does. `waiter` is notified of what the
    /// ticket doesn't tell.
    pub fn wait(&self, waiter: impl FnOnce() -> Waiter) -> WaitFor {
        let durable = WaitFor::from(self.ticket);
        match &self.history {
            None => durable,
            Some(history) => WaitFor::all([durable, history.wait(waiter())]),
        }
    }
}

/// The control plane.
pub struct Registry {
    staged: Mutex<Staged>,
    published: ArcSwap<Snapshot>,
    /// Generation of the published snapshot, for callers that only check for a change.
    generation: AtomicU64,
    /// Whether the published snapshot has traced vhosts, for callers that only check for one.
    has_traced: AtomicBool,
    /// Objects removed by large changes, to be freed.
    retired: Mutex<Vec<Box<dyn Any + Send>>>,
    services: Services,
    /// Events that are to be published.
    notices: Arc<Notices>,
    /// Wall time of monotonic zero.
    epoch_ms: u64,
}

/// Number of parts from which on the remains of a change take too long to be freed in a client's turn.
const LARGE_FROM: usize = 1000;

/// Number of attempts to make a change of many objects on a copy. If other changes are faster each time, it is made under the
/// lock.
const TRIES: u32 = 3;

/// The copy of an exchange's last messages that a change asks for.
fn history_of(topology: &Topology, change: &Change) -> Option<HistoryCopy> {
    let Change::Bound(binding) = change else { return None };
    let queue = topology.exchange(&binding.vhost, &binding.source)?.history_queue?;
    Some(HistoryCopy::new(binding.clone(), queue))
}

impl Registry {
    /// A registry over a recovered model; `recovered` returns the replica of each durable queue.
    pub fn new(
        model: Model,
        mut recovered: impl FnMut(&leveret_model::Queue) -> Replica,
        services: Services,
        replies: Arc<ReplyTargets>,
        notices: Arc<Notices>,
        now: Now,
    ) -> Self {
        let epoch_ms = now.wall_ms_at(0);
        let now = now.monotonic;
        let topology = model.topology().clone();
        let mut queues = imbl::OrdMap::new();
        for info in topology.vhosts().flat_map(|vhost| topology.queues(vhost)) {
            let effective = topology.effective_queue(info, &[]);
            let handle = QueueHandle::open(info.clone(), effective, recovered(info), &services, epoch_ms, now);
            handle.announce();
            queues.insert(info.id, QueueRef::from(handle));
        }
        let exchanges = topology.vhosts().flat_map(|vhost| topology.exchanges(vhost));
        let exchanges = exchanges.map(|exchange| (exchange.id, Arc::default())).collect();
        let router = Router::new(&topology);
        let traced = Arc::default();
        let snapshot = Arc::new(Snapshot { topology, router, queues, exchanges, replies, traced, generation: 1 });
        let last_record = services.streams.local().watermarks().durable;
        notices.look_at(&snapshot.router);
        Self {
            staged: Mutex::new(Staged {
                committed: model.clone(),
                committed_record: last_record,
                model,
                latest: snapshot.clone(),
                unpublished: VecDeque::new(),
                last_record,
                version: 0,
            }),
            generation: AtomicU64::new(snapshot.generation),
            has_traced: AtomicBool::new(false),
            published: ArcSwap::new(snapshot),
            retired: Mutex::default(),
            services,
            notices,
            epoch_ms,
        }
    }

    /// Changes the model or the snapshots. A panic in between stops the node, since they may be half changed.
    fn whole<R>(&self, change: impl FnOnce() -> R) -> R {
        whole(|| self.services.streams.local().give_up(), change)
    }

    /// The current snapshot.
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.published.load()
    }

    /// The current snapshot, as a reference that may be held for long.
    pub fn snapshot_full(&self) -> Arc<Snapshot> {
        self.published.load_full()
    }

    /// Generation of the current snapshot, or of the previous one while that is being replaced.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Validates and stages a command.
    ///
    /// # Errors
    /// [`Refused`] in RabbitMQ's words; nothing has changed then.
    pub fn submit(&self, permit: Permit, command: Command, now: Nanos) -> Result<Submitted, Refused> {
        self.whole(|| {
            let mut staged = self.staged.lock();
            let told = changes::lines(staged.model.topology(), &command);
            let before = self.notices.wants_events().then(|| staged.model.topology().clone());
            let actor = permit.actor().clone();
            let submitted = staged.model.submit(permit, command)?;
            self.tell(&told, before.as_ref(), &submitted.changes, &actor);
            let ticket = self.log(&mut staged, submitted.record.as_deref());
            let next = self.next(&staged.latest, &staged.model, submitted.changes, &actor, now);
            let history = next.as_ref().and_then(|next| next.histories.first()).map(|copy| copy.end.clone());
            let deleted = self.stage(staged, next, ticket);
            Ok(Submitted { outcome: submitted.outcome, ticket, deleted, mismatch: submitted.mismatch, history })
        })
    }

    /// Reports a change that is certain: in the log, and as events if the topology before it is given.
    fn tell(&self, lines: &[String], before: Option<&Topology>, changes: &[Change], actor: &str) {
        lines.iter().for_each(|line| tracing::info!("{line}"));
        if let Some(before) = before {
            events::changed(&self.notices, before, changes, actor);
        }
    }

    /// Deletes a queue if `condition` holds; checking and closing it is one step. With `id`, only the queue with that id is
    /// deleted: another one may have its name by now.
    ///
    /// # Errors
    /// As [`Registry::submit`], and if the condition doesn't hold.
    pub fn delete_queue(
        &self,
        permit: Permit,
        command: DeleteQueue,
        condition: DeleteIf,
        id: Option<QueueId>,
        now: Nanos,
    ) -> Result<Submitted, Refused> {
        self.whole(|| {
            let mut staged = self.staged.lock();
            let queue = staged.latest.queue(&command.vhost, &command.name).cloned();
            if id.is_some() && queue.as_ref().map(|queue| queue.info().id) != id {
                return Ok(Submitted {
                    outcome: CommandOutcome::Absent,
                    ticket: Ticket::default(),
                    deleted: Vec::new(),
                    mismatch: None,
                    history: None,
                });
            }
            let (vhost, name) = (command.vhost.clone(), command.name.clone());
            let command = Command::DeleteQueue(command);
            let told = changes::lines(staged.model.topology(), &command);
            let actor = permit.actor().clone();
            let mut model = staged.model.clone();
            let submitted = model.submit(permit, command)?;
            let record = submitted.record.as_deref();
            let ticket = match queue.filter(|_| condition.any()) {
                None => self.log(&mut staged, record),
                Some(queue) => queue.close(condition, now, || self.log(&mut staged, record)).map_err(|reason| {
                    let why = match reason {
                        NotDeleted::NotEmpty => "not empty",
                        NotDeleted::InUse | NotDeleted::Used => "in use",
                    };
                    Refused::precondition(format!("queue '{name}' in vhost '{vhost}' {why}"))
                })?,
            };
            let before = std::mem::replace(&mut staged.model, model);
            self.tell(&told, Some(before.topology()), &submitted.changes, &actor);
            let next = self.next(&staged.latest, &staged.model, submitted.changes, &actor, now);
            let deleted = self.stage(staged, next, ticket);
            Ok(Submitted { outcome: submitted.outcome, ticket, deleted, mismatch: None, history: None })
        })
    }

    /// Gives a queue another type or other arguments: checking its messages and converting it is one step. Consumers are notified when
    /// the change is published. With `dry_run`, nothing changes. `None` if messages are being moved to other queues: it has to be
    /// tried again soon.
    ///
    /// # Errors
    /// As [`Registry::submit`], and if its messages don't fit.
    pub fn convert_queue(
        &self,
        permit: &Permit,
        command: ConvertQueue,
        dry_run: bool,
        now: Nanos,
    ) -> Result<Option<Submitted>, Refused> {
        self.whole(|| {
            let mut staged = self.staged.lock();
            let (vhost, name) = (command.vhost.clone(), command.name.clone());
            let queue = staged.latest.queue(&vhost, &name).ok_or_else(|| Refused::no_queue(&vhost, &name))?.clone();
            let told = changes::lines(staged.model.topology(), &Command::ConvertQueue(command.clone()));
            let mut model = staged.model.clone();
            let mut outcome = CommandOutcome::Exists;
            let prepare = |earlier: EarlierPriorities| {
                let command = ConvertQueue { earlier: Some(earlier).filter(|earlier| earlier.below > 0), ..command };
                let submitted = model.submit(permit.clone(), Command::ConvertQueue(command))?;
                outcome = submitted.outcome;
                let info = model.topology().queue(&vhost, &name).expect("it was found above").clone();
                let effective = model.topology().effective_queue(&info, &[]);
                let is_new = outcome != CommandOutcome::Exists;
                Ok(is_new.then_some(Successor { info, effective, record: submitted.record }))
            };
            let log = (!dry_run).then_some(|record: Option<&[u8]>| {
                self.log(&mut staged, record.filter(|_| !is_planted(Bug::ForgetConversion)))
            });
            let (successor, ticket) = match queue.convert(&self.services, self.epoch_ms, now, prepare, log) {
                Ok(Some(converted)) => converted,
                Ok(None) => {
                    let ticket = Ticket::default();
                    let deleted = Vec::new();
                    return Ok(Some(Submitted { outcome, ticket, deleted, mismatch: None, history: None }));
                }
                Err(reason) => return unconverted(&queue, reason).map_or(Ok(None), Err),
            };
            told.iter().for_each(|line| tracing::info!("{line}"));
            staged.model = model;
            let mut snapshot = Snapshot::clone(&staged.latest);
            snapshot.topology = staged.model.topology().clone();
            snapshot.generation += 1;
            snapshot.queues.insert(successor.info().id, successor.clone());
            let next = Next {
                snapshot: Arc::new(snapshot),
                declared: vec![successor],
                deleted: Vec::new(),
                converted: vec![queue],
                is_large: false,
                policies: Vec::new(),
                is_bound_anew: false,
                histories: Vec::new(),
            };
            let deleted = self.stage(staged, Some(next), ticket);
            Ok(Some(Submitted { outcome, ticket, deleted, mismatch: None, history: None }))
        })
    }

    /// Validates and stages commands as one change: either all of them or, if one is refused, none, even after a crash. The
    /// answers are in the order of the commands. Thousands of commands are executed on a copy, while other changes continue.
    ///
    /// # Errors
    /// The index of the first refused command, and the reason.
    pub fn submit_all(
        &self,
        permit: &Permit,
        commands: &[Command],
        now: Nanos,
    ) -> Result<(Vec<CommandOutcome>, Ticket), (usize, Refused)> {
        self.whole(|| {
            let before = self.staged.lock().model.topology().clone();
            let tell = |tried: &Tried| {
                let told: Vec<_> = commands.iter().flat_map(|command| changes::lines(&before, command)).collect();
                self.tell(&told, Some(&before), &tried.changes, permit.actor());
            };
            for _ in 0..TRIES {
                let (version, model, latest) = {
                    let staged = self.staged.lock();
                    (staged.version, staged.model.clone(), staged.latest.clone())
                };
                let tried = self.try_all(model, &latest, permit, commands, now)?;
                let staged = self.staged.lock();
                if staged.version == version {
                    tell(&tried);
                    return Ok(self.take_over(staged, tried));
                }
            }
            let staged = self.staged.lock();
            let tried = self.try_all(staged.model.clone(), &staged.latest, permit, commands, now)?;
            tell(&tried);
            Ok(self.take_over(staged, tried))
        })
    }

    /// The commands that [`Registry::submit_all`] would refuse if the others were executed in order, each with the reason. Changes
    /// nothing.
    pub fn refusals(&self, permit: &Permit, commands: &[Command]) -> Vec<(usize, Refused)> {
        let mut model = self.staged.lock().model.clone();
        let tried = commands.iter().enumerate();
        tried.filter_map(|(at, command)| Some((at, model.submit(permit.clone(), command.clone()).err()?))).collect()
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
        // Events are left when the change is certain.
        let told = if self.notices.wants_events() { changes.clone() } else { Vec::new() };
        let next = self.next(latest, &model, changes, permit.actor(), now);
        Ok(Tried { model, outcomes, record: record.finish(), next, changes: told })
    }

    /// Replaces the newest state by the copy on which commands were executed.
    fn take_over(&self, mut staged: MutexGuard<'_, Staged>, tried: Tried) -> (Vec<CommandOutcome>, Ticket) {
        staged.model = tried.model;
        let ticket = self.log(&mut staged, tried.record.as_deref());
        self.stage(staged, tried.next, ticket);
        (tried.outcomes, ticket)
    }

    /// Logs the record of a change, if it has one. Returns the ticket that its answer waits for.
    fn log(&self, staged: &mut Staged, record: Option<&[u8]>) -> Ticket {
        staged.version += 1;
        let Some(payload) = record else { return staged.last_unpublished() };
        let record = Record::Control { log: LogId::METADATA, kind: CONTROL_MODEL_COMMAND, payload };
        let ticket = self.services.streams.local().append(record, Wait::Confirm);
        staged.last_record = ticket.place();
        ticket
    }

    /// The snapshot after `latest` with these changes; `None` if there are none.
    fn next(
        &self,
        latest: &Snapshot,
        model: &Model,
        changes: Vec<Change>,
        actor: &Arc<str>,
        now: Nanos,
    ) -> Option<Next> {
        if changes.is_empty() {
            return None;
        }
        let mut next = Snapshot {
            topology: model.topology().clone(),
            router: latest.router.clone(),
            queues: latest.queues.clone(),
            exchanges: latest.exchanges.clone(),
            replies: latest.replies.clone(),
            traced: latest.traced.clone(),
            generation: latest.generation + 1,
        };
        let (mut declared, mut deleted) = (Vec::new(), Vec::new());
        for change in &changes {
            match change {
                Change::QueueDeclared(info) => {
                    // The first message of a stream has the offset 0.
                    let first = if info.queue_type() == QueueType::Stream { 0 } else { self.services.first_number };
                    let replica = Replica::none(first);
                    let effective = next.topology.effective_queue(info, &[]);
                    let (services, epoch_ms) = (&self.services, self.epoch_ms);
                    let handle = QueueHandle::open(info.clone(), effective, replica, services, epoch_ms, now);
                    let queue = QueueRef::from(handle);
                    declared.push(queue.clone());
                    next.queues.insert(info.id, queue);
                }
                Change::QueueConverted(_) => unreachable!("a conversion is a call of its own"),
                Change::QueueDeleted(info) => deleted.extend(next.queues.remove(&info.id)),
                Change::ExchangeDeclared(exchange) => {
                    next.exchanges.insert(exchange.id, Arc::default());
                }
                Change::ExchangeDeleted(exchange) => {
                    next.exchanges.remove(&exchange.id);
                }
                Change::VhostDeleted(name) if next.traced.contains(name) => {
                    Arc::make_mut(&mut next.traced).remove(name);
                }
                _ => {}
            }
        }
        next.router.apply_all(&changes);
        let size = |change: &Change| match change {
            Change::Unbound(gone) => gone.len(),
            Change::SourceUnbound(gone) => gone.len(),
            _ => 1,
        };
        let is_large = changes.iter().map(size).sum::<usize>() >= LARGE_FROM;
        let policies = changes.iter().filter_map(|change| PolicyNews::of(change, actor)).collect();
        let is_bound_anew = changes.iter().any(|change| {
            matches!(change, Change::Bound(_) | Change::Unbound(_) | Change::SourceUnbound(_) | Change::VhostDeleted(_))
        });
        let histories = changes.iter().filter_map(|change| history_of(&next.topology, change)).collect();
        if is_large {
            // The last owner of removed objects frees them.
            self.retired.lock().push(Box::new(changes));
        }
        let (snapshot, converted) = (Arc::new(next), Vec::new());
        Some(Next { snapshot, declared, deleted, converted, is_large, policies, is_bound_anew, histories })
    }

    /// Makes a snapshot the newest one; it is published when `ticket` is durable. Returns the queues that it deletes.
    fn stage(&self, mut staged: MutexGuard<'_, Staged>, next: Option<Next>, ticket: Ticket) -> Vec<QueueRef> {
        let Some(next) = next else { return Vec::new() };
        let Next { snapshot, declared, deleted, converted, is_large, policies, is_bound_anew, histories } = next;
        staged.latest = snapshot.clone();
        let (model, record) = (staged.model.clone(), staged.last_record);
        staged.unpublished.push_back(Unpublished {
            ticket,
            snapshot,
            model,
            record,
            declared: declared.clone(),
            deleted: deleted.clone(),
            converted,
            is_large,
            policies,
            is_bound_anew,
        });
        drop(staged);
        for queue in declared {
            queue.announce();
        }
        self.services.streams.local().announce();
        self.publish();
        for copy in histories {
            let (deferred, copy) = (self.services.deferred.clone(), Box::new(copy));
            self.services.streams.when_reached(ticket, Box::new(move || deferred.copy_history(copy)));
        }
        deleted
    }

    /// Publishes every durable change, and carries out its deletions. If a change deletes many queues, most are left to their
    /// home cores.
    pub fn publish(&self) {
        self.whole(|| {
            let reached = self.services.streams.local().watermarks();
            let (mut deleted, mut left, mut policies) = (Vec::new(), Vec::new(), Vec::new());
            let (mut converted, mut is_bound_anew) = (Vec::new(), false);
            let has_policies;
            {
                let mut staged = self.staged.lock();
                let mut newest = None;
                let mut is_large = false;
                while let Some(mut due) =
                    staged.unpublished.pop_front_if(|next| reached.have(next.ticket.place(), false))
                {
                    let passed_over = newest.replace(due.snapshot);
                    left.extend(due.deleted.drain(due.deleted.len().min(DELETED_QUEUES)..));
                    deleted.extend(due.deleted);
                    converted.extend(due.converted);
                    is_large |= due.is_large;
                    policies.extend(due.policies);
                    is_bound_anew |= due.is_bound_anew;
                    staged.committed = due.model;
                    staged.committed_record = due.record;
                    self.retire(passed_over, is_large);
                }
                if let Some(snapshot) = newest {
                    let generation = snapshot.generation;
                    if is_bound_anew {
                        self.notices.look_at(&snapshot.router);
                    }
                    self.has_traced.store(!snapshot.traced.is_empty(), Ordering::Release);
                    let old = self.published.swap(snapshot);
                    self.generation.store(generation, Ordering::Release);
                    self.retire(Some(old), is_large);
                }
                has_policies = !policies.is_empty();
                if has_policies {
                    // Under the lock: whoever finds the change published finds that it has to take effect, too.
                    self.services.deferred.policies().changed(policies);
                }
            }
            if has_policies {
                self.services.deferred.wake_for_policies();
            }
            self.services.deferred.delete(left);
            deleted.iter().for_each(QueueRef::delete);
            converted.iter().for_each(QueueRef::retire);
        })
    }

    /// Drops every staged change behind `kept`, the last place that its stream keeps: their records never become durable.
    /// Staging goes on from what is left, without giving an id twice. Queues that they declared fail, queues that they closed
    /// are open again. The stream itself answers for those who wait for the records.
    pub fn withdraw(&self, kept: Place) {
        self.whole(|| {
            self.publish();
            let dropped = {
                let mut staged = self.staged.lock();
                let is_kept = |change: &&Unpublished| Watermarks::synced(kept).have(change.record, false);
                let count = staged.unpublished.iter().take_while(is_kept).count();
                let dropped = staged.unpublished.split_off(count);
                if dropped.is_empty() {
                    return;
                }
                let staged = &mut *staged;
                let (mut model, latest, record) = match staged.unpublished.back() {
                    Some(last) => (last.model.clone(), last.snapshot.clone(), last.record),
                    None => (staged.committed.clone(), self.snapshot_full(), staged.committed_record),
                };
                model.continue_ids_of(&staged.model);
                (staged.model, staged.latest, staged.last_record) = (model, latest, record);
                // A change that was tried on a copy of the dropped state is tried again.
                staged.version += 1;
                // Before anybody else can close them again.
                dropped.iter().flat_map(|change| &change.deleted).for_each(|queue| queue.reopen());
                dropped
            };
            for change in dropped {
                for queue in change.declared {
                    queue.fail("the record of its declaration was withdrawn".to_owned());
                }
            }
        })
    }

    fn retire(&self, old: Option<Arc<Snapshot>>, is_large: bool) {
        if is_large && let Some(old) = old {
            self.retired.lock().push(Box::new(old));
        }
    }

    /// Frees the remains of large changes. This may take long: it is called periodically by a thread that serves no client.
    pub fn free_retired(&self) {
        let retired = std::mem::take(&mut *self.retired.lock());
        drop(retired);
    }

    /// Removes the bindings of deleted queues from the routing tables, where large deletions leave them. Called periodically,
    /// like [`free_retired`](Self::free_retired); concurrent declarations wait for a part of it at most.
    pub fn tidy_routes(&self) {
        loop {
            let mut staged = self.staged.lock();
            if staged.latest.router.is_tidy() || !staged.unpublished.is_empty() {
                return;
            }
            let mut next = Snapshot::clone(&staged.latest);
            // Routes don't change, so remembered ones needn't be looked up again.
            next.router.tidy();
            let next = Arc::new(next);
            staged.latest = next.clone();
            let old = self.published.swap(next);
            drop(staged);
            drop(old);
        }
    }

    /// Renews the references to these queues, which keep messages in another way now. Routes that were remembered are found anew.
    pub(crate) fn renew(&self, queues: &[QueueId]) {
        self.renew_snapshot(|next| {
            for id in queues {
                if let Some(queue) = next.queues.get_mut(id) {
                    *queue = queue.renewed();
                }
            }
        });
    }

    /// Begins or ends to trace the messages of a vhost, unless it doesn't exist. Takes effect once the returned ticket is durable.
    pub fn set_tracing(&self, vhost: &str, traced: bool) -> Ticket {
        self.renew_snapshot(|next| {
            let Some(name) = next.topology.vhost(vhost).cloned() else { return };
            match (next.traced.contains(vhost), traced) {
                (true, true) => return tracing::info!("Tracing is already enabled for vhost '{vhost}'"),
                (false, true) => tracing::info!("Enabling tracing for vhost '{vhost}'"),
                (true, false) => tracing::info!("Disabling tracing for vhost '{vhost}'"),
                (false, false) => return tracing::info!("Tracing is already disabled for vhost '{vhost}'"),
            }
            let vhosts = Arc::make_mut(&mut next.traced);
            match traced {
                true => vhosts.insert(name),
                false => vhosts.remove(&name),
            };
        })
    }

    /// Whether any vhost is traced.
    #[inline]
    pub fn has_traced(&self) -> bool {
        self.has_traced.load(Ordering::Relaxed)
    }

    /// Changes parts of the snapshot that aren't logged. Routes that were remembered are found anew.
    fn renew_snapshot(&self, change: impl FnOnce(&mut Snapshot)) -> Ticket {
        self.whole(|| {
            let mut staged = self.staged.lock();
            let ticket = self.log(&mut staged, None);
            let mut next = Snapshot::clone(&staged.latest);
            next.generation += 1;
            change(&mut next);
            let (declared, deleted) = (Vec::new(), Vec::new());
            let next = Next {
                snapshot: Arc::new(next),
                declared,
                deleted,
                converted: Vec::new(),
                is_large: false,
                policies: Vec::new(),
                is_bound_anew: false,
                histories: Vec::new(),
            };
            self.stage(staged, Some(next), ticket);
            ticket
        })
    }

    /// The snapshot with all staged changes.
    pub fn staged_snapshot(&self) -> Arc<Snapshot> {
        self.staged.lock().latest.clone()
    }

    /// The snapshot with all staged changes, and the ticket after which it is the published one: answers based on it have to
    /// wait for that.
    pub fn staged(&self) -> (Arc<Snapshot>, Ticket) {
        let staged = self.staged.lock();
        (staged.latest.clone(), staged.last_unpublished())
    }

    /// The objects with all staged changes.
    pub fn staged_topology(&self) -> Topology {
        self.staged.lock().latest.topology.clone()
    }

    /// Whether this id was given to a queue: see [`Model::has_given`].
    pub(crate) fn has_given(&self, id: QueueId) -> bool {
        self.staged.lock().model.has_given(id)
    }

    /// The encoded model for a checkpoint, with the place of its last record.
    pub fn model_snapshot(&self) -> (Vec<u8>, Place) {
        let staged = self.staged.lock();
        (staged.model.snapshot(), staged.last_record)
    }

    /// The exclusive queues of a connection, by id from `from` on; at most `most`.
    pub fn exclusive_queues(&self, owner: ConnectionId, from: QueueId, most: usize) -> Vec<Arc<leveret_model::Queue>> {
        self.staged_topology().exclusive_queues(owner, from).take(most).cloned().collect()
    }
}
