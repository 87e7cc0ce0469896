//! Changes that are made but not published: what the next change sees.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_log::{LogId, Wait};
use leveret_model::{Change, CommandOutcome, Model, Queue, QueueType, Topology};
use leveret_queue::{Place, Replica};
use parking_lot::MutexGuard;

use super::{Registry, Snapshot};
use crate::history_copy::HistoryCopy;
use crate::notices::Notices;
use crate::policy_walk::PolicyNews;
use crate::queue_handle::{QueueHandle, QueueRef};
use crate::records::CONTROL_MODEL_COMMAND;
use crate::streams::ControlRecord;
use crate::ticket::Ticket;
use crate::time::Nanos;

/// Number of parts from which on the remains of a change take too long to be freed in a client's turn.
const LARGE_FROM: usize = 1000;

/// A change that is staged.
pub(super) struct Unpublished {
    pub(super) ticket: Ticket,
    /// The model with this change.
    pub(super) model: Model,
    /// Place of the last record up to this change.
    pub(super) record: Place,
    pub(super) next: Next,
}

pub(super) struct Staged {
    pub(super) model: Model,
    /// The model with durable changes only.
    pub(super) committed: Model,
    /// Place of the last record in `committed`.
    pub(super) committed_record: Place,
    pub(super) latest: Arc<Snapshot>,
    pub(super) unpublished: VecDeque<Unpublished>,
    /// Place of the last record, or of the end of the replay at recovery.
    pub(super) last_record: Place,
    /// Incremented by every command.
    pub(super) version: u64,
    /// Whether a call that publishes what is durable waits for some change that isn't published.
    pub(super) is_awaited: bool,
}

impl Staged {
    /// The ticket of the last change that isn't published.
    pub(super) fn last_unpublished(&self) -> Ticket {
        self.unpublished.back().map_or(Ticket::default(), |last| last.ticket)
    }

    /// The ticket that a call which publishes has to wait for; `None` if nothing has to be published, or a call waits already.
    pub(super) fn begin_to_await(&mut self) -> Option<Ticket> {
        let last = self.unpublished.back().filter(|_| !self.is_awaited)?;
        self.is_awaited = true;
        Some(last.ticket)
    }
}

/// A snapshot with one change more than the one before it, and what has to be done when it is published.
pub(super) struct Next {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) declared: Vec<QueueRef>,
    pub(super) deleted: Vec<QueueRef>,
    /// Queues that were converted: their successors are among the declared ones.
    pub(super) converted: Vec<QueueRef>,
    /// Queues that were given other members, and the replicated ones that they are now.
    pub(super) spread: Vec<(QueueRef, QueueRef)>,
    /// Whether the snapshot before it takes long to be freed.
    pub(super) is_large: bool,
    /// The changes of policies.
    pub(super) policies: Vec<PolicyNews>,
    /// Whether bindings changed, by which the broker's own exchanges may be read, or not any more.
    pub(super) is_bound_anew: bool,
    /// Last messages of exchanges that go to new bindings' destinations, once the change is durable.
    pub(super) histories: Vec<HistoryCopy>,
}

impl Next {
    /// A snapshot with which nothing has to be done.
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot: Arc::new(snapshot),
            declared: Vec::new(),
            deleted: Vec::new(),
            converted: Vec::new(),
            spread: Vec::new(),
            is_large: false,
            policies: Vec::new(),
            is_bound_anew: false,
            histories: Vec::new(),
        }
    }
}

/// Commands that were executed on a copy.
pub(super) struct Tried {
    pub(super) model: Model,
    pub(super) outcomes: Vec<CommandOutcome>,
    pub(super) record: Option<Vec<u8>>,
    pub(super) next: Option<Next>,
    /// The changes, if anything wants events.
    pub(super) changes: Vec<Change>,
}

/// The copy of an exchange's last messages that a change asks for.
fn history_of(topology: &Topology, change: &Change) -> Option<HistoryCopy> {
    let Change::Bound(binding) = change else { return None };
    let queue = topology.exchange(&binding.vhost, &binding.source)?.history_queue?;
    Some(HistoryCopy::new(binding.clone(), queue))
}

/// Whether a change may concern bindings of the broker's own exchanges.
fn binds_own_exchange(change: &Change) -> bool {
    match change {
        Change::Bound(binding) => Notices::reads(&binding.source),
        Change::Unbound(gone) => Notices::reads(&gone.first().source),
        Change::SourceUnbound(_) | Change::VhostDeleted(_) => true,
        _ => false,
    }
}

impl Registry {
    /// Logs the record of a change, if it has one. Returns the ticket that its answer waits for.
    pub(super) fn log(&self, staged: &mut Staged, record: Option<&[u8]>) -> Ticket {
        staged.version += 1;
        let Some(payload) = record else { return staged.last_unpublished() };
        let record = ControlRecord { log: LogId::METADATA, kind: CONTROL_MODEL_COMMAND, payload };
        let ticket = self.services.streams.log().append_control(record, Wait::Confirm);
        staged.last_record = ticket.place();
        ticket
    }

    /// The snapshot after `latest` with the changes of these users; `None` if there are none.
    pub(super) fn next(
        &self,
        latest: &Snapshot,
        model: &Model,
        by_actor: &mut [(Vec<Change>, &Arc<str>)],
        now: Nanos,
    ) -> Option<Next> {
        let policies = by_actor
            .iter()
            .flat_map(|(changes, actor)| changes.iter().filter_map(|change| PolicyNews::of(change, actor)))
            .collect();
        let changes = match by_actor {
            [(changes, _)] => std::mem::take(changes),
            several => several.iter_mut().flat_map(|(changes, _)| std::mem::take(changes)).collect(),
        };
        if changes.is_empty() {
            return None;
        }
        let mut next = Snapshot {
            topology: model.shared_topology().clone(),
            router: latest.router.clone(),
            queues: latest.queues.clone(),
            exchanges: latest.exchanges.clone(),
            replies: latest.replies.clone(),
            traced: latest.traced.clone(),
            generation: latest.generation + 1,
        };
        let (mut declared, mut deleted, mut spread) = (Vec::new(), Vec::new(), Vec::new());
        for change in &changes {
            match change {
                Change::QueueDeclared(info) => {
                    let queue = self.open(info, &next.topology, now);
                    declared.push(queue.clone());
                    next.queues.insert(info.id, queue);
                }
                // Another conversion is a call of its own, and there are none in a cluster.
                Change::QueueConverted(info) if info.home.placement().is_some() => {
                    let queue = self.open(info, &next.topology, now);
                    declared.push(queue.clone());
                    spread.extend(next.queues.insert(info.id, queue.clone()).map(|former| (former, queue)));
                }
                Change::QueueConverted(_) => {}
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
        let is_bound_anew = changes.iter().any(binds_own_exchange);
        let histories = changes.iter().filter_map(|change| history_of(&next.topology, change)).collect();
        if is_large {
            // The last owner of removed objects frees them.
            self.retired.lock().push(Box::new(changes));
        }
        Some(Next { declared, deleted, spread, is_large, policies, is_bound_anew, histories, ..Next::new(next) })
    }

    /// A queue without messages, at its home or as other nodes see it.
    pub(super) fn open(&self, info: &Arc<Queue>, topology: &Topology, now: Nanos) -> QueueRef {
        if let Some(queue) = QueueRef::elsewhere(info, topology, &self.services, now) {
            return queue;
        }
        // The first message of a stream has the offset 0.
        let first = if info.queue_type() == QueueType::Stream { 0 } else { self.services.first_number };
        let effective = topology.effective_queue(info, &[]);
        QueueHandle::open(info.clone(), effective, Replica::none(first), &self.services, now).into()
    }

    /// Makes a snapshot the newest one; it is published when `ticket` is durable. Returns the queues that it deletes.
    pub(super) fn stage(
        &self,
        mut staged: MutexGuard<'_, Staged>,
        next: Option<Next>,
        ticket: Ticket,
    ) -> Vec<QueueRef> {
        let Some(mut next) = next else { return Vec::new() };
        let (declared, deleted) = (next.declared.clone(), next.deleted.clone());
        let histories = std::mem::take(&mut next.histories);
        let spread = std::mem::take(&mut next.spread);
        // The broker's own queues are nobody's to see.
        let ordinary = deleted.iter().filter(|queue| !queue.info().is_own());
        self.services.counters.queues_deleted.add(ordinary.count() as u64);
        staged.latest = next.snapshot.clone();
        let (model, record) = (staged.model.clone(), staged.last_record);
        staged.unpublished.push_back(Unpublished { ticket, model, record, next });
        drop(staged);
        for (former, queue) in &spread {
            former.spread(queue, &self.services);
        }
        declared.iter().filter_map(QueueRef::home).for_each(|home| home.announce());
        self.services.streams.local().announce();
        self.publish();
        for copy in histories {
            let (deferred, copy) = (self.services.deferred.clone(), Box::new(copy));
            self.services.streams.when_over(ticket, Box::new(move |_| deferred.copy_history(copy)));
        }
        deleted
    }
}
