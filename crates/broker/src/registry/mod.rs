//! The control plane: the model behind its lock, and a snapshot that is read without a lock.
//!
//! A change is validated and staged at once, so that the next one sees it. It is published, and answered, when its record is
//! durable. Nobody else sees what is staged: what a caller was answered is published. The first caller that notices this publishes all durable changes in order. Beside the staged model there is the
//! committed one, which has durable changes only: if the stream withdraws records, it is where staging begins anew.

mod carry_out;
mod change_request;
mod placed;
mod snapshot;
mod staged;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use leveret_model::{Model, QueueId};
use leveret_queue::{Place, Replica, Watermarks};
use leveret_routing::Router;
use parking_lot::Mutex;

use crate::notices::Notices;
use crate::queue_handle::{QueueHandle, QueueRef};
use crate::reply_to::ReplyTargets;
use crate::services::Services;
use crate::stopping_panic::whole;
use crate::ticket::Ticket;
use crate::time::Now;
use crate::turn_budget::DELETED_QUEUES;
use staged::{Next, Staged, Unpublished};

pub(crate) use change_request::EndOfQueues;
pub use change_request::{
    ChangeOutcome, ChangeRequest, ChangeRequests, Changed, ChangedAll, ChangesOutcome, ConversionOutcome,
};
pub use placed::{Decided, Followed, MetadataLeader, PlacedAnswer, PlacedRequest, decide};
pub(crate) use snapshot::MANY_QUEUES;
pub use snapshot::Snapshot;

/// The exchange of every vhost that gets copies of its messages while it is traced.
pub(crate) const TRACE_EXCHANGE: &str = "amq.rabbitmq.trace";

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
    services: Arc<Services>,
    /// Events that are to be published.
    notices: Arc<Notices>,
    /// The way to the leader of the metadata, if the node is in a cluster.
    placed: OnceLock<placed::Placed>,
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
        let (now, services) = (now.monotonic, Arc::new(services));
        let topology = model.shared_topology().clone();
        let mut queues = imbl::OrdMap::new();
        for info in topology.vhosts().flat_map(|vhost| topology.queues(vhost)) {
            if let Some(queue) = QueueRef::elsewhere(info, &topology, &services, now) {
                queues.insert(info.id, queue);
                continue;
            }
            let effective = topology.effective_queue(info, &[]);
            let handle = QueueHandle::open(info.clone(), effective, recovered(info), &services, now);
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
                is_awaited: false,
            }),
            generation: AtomicU64::new(snapshot.generation),
            has_traced: AtomicBool::new(false),
            published: ArcSwap::new(snapshot),
            retired: Mutex::default(),
            services,
            notices,
            placed: OnceLock::new(),
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
                while let Some(due) = staged.unpublished.pop_front_if(|next| reached.have(next.ticket.place(), false)) {
                    let mut next = due.next;
                    let passed_over = newest.replace(next.snapshot);
                    left.extend(next.deleted.drain(next.deleted.len().min(DELETED_QUEUES)..));
                    deleted.extend(next.deleted);
                    converted.extend(next.converted);
                    is_large |= next.is_large;
                    policies.extend(next.policies);
                    is_bound_anew |= next.is_bound_anew;
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
            converted.iter().filter_map(QueueRef::home).for_each(|home| home.retire());
        })
    }

    /// Drops every staged change behind `kept`, the last place that its stream keeps: their records never become durable.
    /// Staging goes on from what is left, without giving an id twice. Queues that they declared fail, queues that they closed
    /// are open again. The stream itself answers for those who wait for the records.
    pub fn withdraw(self: &Arc<Self>, kept: Place) {
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
                    Some(last) => (last.model.clone(), last.next.snapshot.clone(), last.record),
                    None => (staged.committed.clone(), self.snapshot_full(), staged.committed_record),
                };
                model.continue_ids_of(&staged.model);
                (staged.model, staged.latest, staged.last_record) = (model, latest, record);
                // A change that was tried on a copy of the dropped state is tried again.
                staged.version += 1;
                // The place that a call waits for may never be reached.
                staged.is_awaited = false;
                // Before anybody else can close them again.
                let closed = dropped.iter().flat_map(|change| &change.next.deleted).filter_map(QueueRef::home);
                closed.for_each(|home| home.reopen());
                dropped
            };
            for change in dropped {
                for home in change.next.declared.iter().filter_map(QueueRef::home) {
                    home.fail("the record of its declaration was withdrawn".to_owned());
                }
            }
            self.publish_when_durable();
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
    pub fn set_tracing(self: &Arc<Self>, vhost: &str, traced: bool) -> Ticket {
        let ticket = self.renew_snapshot(|next| {
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
        });
        self.publish_when_durable();
        ticket
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
            self.stage(staged, Some(Next::new(next)), ticket);
            ticket
        })
    }

    /// The snapshot with all staged changes: for the store, which has records of queues that nobody else sees yet.
    pub(crate) fn staged_snapshot(&self) -> Arc<Snapshot> {
        self.staged.lock().latest.clone()
    }

    /// The parts that its queues use.
    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// The ticket after which everything that was changed so far is published.
    pub fn unpublished(&self) -> Ticket {
        self.staged.lock().last_unpublished()
    }

    /// Whether this id was given to a queue: see [`Model::has_given`].
    pub(crate) fn has_given(&self, id: QueueId) -> bool {
        self.staged.lock().model.has_given(id)
    }

    /// Whether a queue that the snapshot lacks is about to be in it, or may be: its id isn't given yet, as far as this node knows.
    pub fn is_coming(&self, id: QueueId) -> bool {
        let staged = self.staged.lock();
        staged.latest.queues.contains_key(&id) || !staged.model.has_given(id)
    }

    /// The encoded model for a checkpoint, with the place of its last record.
    pub fn model_snapshot(&self) -> (Vec<u8>, Place) {
        let staged = self.staged.lock();
        (staged.model.snapshot(), staged.last_record)
    }
}
