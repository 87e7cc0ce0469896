use std::sync::Arc;

use imbl::{HashMap, OrdMap, Vector};
use leveret_model::{Binding, BindingsBetween, Change, Destination, Exchange, QueueId, Topology};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::exchange::Table;
use crate::headers::Headers;
use crate::targets::RouteTarget;

/// Number of a deleted queue's bindings that one change removes at most: each copies a part of the table.
const TIDIED_MAX: usize = 256;

/// The queues of a message, in the order of their ids, without duplicates.
pub type Routes = SmallVec<[QueueId; 4]>;

/// The parts of a message that determined its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoutedBy {
    /// Exchange and routing key alone: any message with the same ones goes to the same queues.
    Key,
    /// Its headers as well.
    Headers,
    /// Other properties too, or chance: nothing is known of the next message's route.
    Message,
}

/// The message was published to an exchange that doesn't exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such exchange")]
pub struct NoExchange;

/// The routing tables of all vhosts. A clone is a snapshot and costs one reference count; a change copies the path to
/// it, in logarithmic time.
#[derive(Clone, Debug, Default)]
pub struct Router {
    vhosts: HashMap<Arc<str>, Arc<Vhost>>,
    /// Exchanges with leftovers, once for each: vhost and name.
    untidy: Vector<(Arc<str>, Arc<str>)>,
}

#[derive(Clone, Debug, Default)]
struct Vhost {
    /// The queues by name, for the default exchange.
    queues: HashMap<Arc<str>, QueueId>,
    exchanges: HashMap<Arc<str>, Arc<Node>>,
}

#[derive(Clone, Debug)]
struct Node {
    table: Table,
    /// Number of bindings in the table, without leftovers.
    bindings: usize,
    /// Bindings that are still in the table although their queues are deleted: to remove tens of thousands at once would keep a core
    /// from all other work.
    leftovers: OrdMap<QueueId, BindingsBetween>,
    alternate: Option<Arc<str>>,
}

impl Node {
    /// Whether a target is a deleted queue.
    fn is_leftover(&self, target: &RouteTarget) -> bool {
        matches!(target, RouteTarget::Queue(id) if self.leftovers.contains_key(id))
    }

    /// Removes some leftovers. True when none are left of one queue.
    fn tidy(&mut self) -> bool {
        let Some((queue, mut gone)) = self.leftovers.get_max().cloned() else { return true };
        for _ in 0..TIDIED_MAX {
            let Some(one) = gone.take_one() else {
                self.table.unbind(gone.first());
                self.leftovers.remove(&queue);
                return true;
            };
            self.table.unbind(&one);
        }
        self.leftovers.insert(queue, gone);
        false
    }
}

impl Router {
    /// Builds the tables for a topology.
    pub fn new(topology: &Topology) -> Self {
        let mut router = Router::default();
        for name in topology.vhosts() {
            router.apply(&Change::VhostCreated(name.clone()));
            for exchange in topology.exchanges(name) {
                router.insert_exchange(exchange);
                router.apply(&Change::AlternateChanged(exchange.clone(), topology.alternate_of(exchange)));
            }
            for queue in topology.queues(name) {
                router.apply(&Change::QueueDeclared(queue.clone()));
            }
            for binding in topology.bindings(name) {
                router.bind(binding);
            }
        }
        router
    }

    /// Follows changes of the model that came together. If an exchange loses all its bindings, they aren't removed one by one. Of
    /// a deleted queue with hundreds of bindings of an exchange, most are removed with later changes.
    pub fn apply_all(&mut self, changes: &[Change]) {
        let deleted = |change: &Change| match change {
            Change::QueueDeleted(queue) => Some(queue.id),
            _ => None,
        };
        let queues: FxHashSet<QueueId> = match changes.len() {
            1 => FxHashSet::default(),
            _ => changes.iter().filter_map(deleted).collect(),
        };
        for change in changes {
            match change {
                Change::Unbound(gone) => {
                    let queue = match gone.first().destination {
                        Destination::Queue { id, .. } => Some(id).filter(|id| queues.contains(id)),
                        Destination::Exchange { .. } => None,
                    };
                    self.unbind(gone, queue);
                }
                _ => self.apply(change),
            }
        }
        self.tidy();
    }

    /// Removes bindings; `queue` is their destination if that is deleted, too.
    fn unbind(&mut self, gone: &BindingsBetween, queue: Option<QueueId>) {
        let first = gone.first();
        let Some(node) = self.node_mut(first) else { return };
        node.bindings = node.bindings.saturating_sub(gone.len());
        if node.bindings == 0 {
            node.table = node.table.emptied();
            node.leftovers = OrdMap::new();
            return;
        }
        match queue.filter(|_| gone.len() > TIDIED_MAX) {
            Some(_) if node.table.forget(first) => {}
            Some(queue) => {
                node.leftovers.insert(queue, gone.clone());
                self.untidy.push_back((first.vhost.clone(), first.source.clone()));
            }
            None => gone.iter().for_each(|binding| node.table.unbind(binding)),
        }
    }

    /// Whether no exchange has bindings left that lead to deleted queues.
    pub fn is_tidy(&self) -> bool {
        self.untidy.is_empty()
    }

    /// Removes some of the bindings that lead to deleted queues. Routes stay the same.
    pub fn tidy(&mut self) {
        let Some((vhost, exchange)) = self.untidy.back().cloned() else { return };
        let node = self.vhost_mut(&vhost).and_then(|vhost| vhost.exchanges.get_mut(&exchange)).map(Arc::make_mut);
        // It may be gone itself, or another one.
        let is_done = node.is_none_or(Node::tidy);
        if is_done {
            self.untidy.pop_back();
        }
    }

    /// Applies a change of the model.
    fn apply(&mut self, change: &Change) {
        match change {
            Change::VhostCreated(name) => {
                self.vhosts.insert(name.clone(), Arc::default());
            }
            Change::VhostDeleted(name) => {
                self.vhosts.remove(name);
            }
            // Messages get to the queue of a delayed exchange through that only.
            Change::QueueDeclared(queue) if queue.exchange().is_some() => {}
            Change::QueueDeclared(queue) => {
                if let Some(vhost) = self.vhost_mut(&queue.vhost) {
                    vhost.queues.insert(queue.name.clone(), queue.id);
                }
            }
            Change::QueueDeleted(queue) => {
                if let Some(vhost) = self.vhost_mut(&queue.vhost)
                    && vhost.queues.get(&queue.name) == Some(&queue.id)
                {
                    vhost.queues.remove(&queue.name);
                }
            }
            Change::ExchangeDeclared(exchange) => self.insert_exchange(exchange),
            Change::ExchangeDeleted(exchange) => {
                if let Some(vhost) = self.vhost_mut(&exchange.vhost) {
                    vhost.exchanges.remove(&exchange.name);
                }
            }
            Change::AlternateChanged(exchange, alternate) => {
                let vhost = self.vhost_mut(&exchange.vhost);
                if let Some(node) = vhost.and_then(|vhost| vhost.exchanges.get_mut(&exchange.name)) {
                    Arc::make_mut(node).alternate = alternate.clone();
                }
            }
            Change::Bound(binding) => self.bind(binding),
            Change::Unbound(gone) => self.unbind(gone, None),
            // Its exchange goes with it.
            Change::SourceUnbound(_) => {}
            Change::UserPut(_)
            | Change::UserDeleted(_)
            | Change::PermissionsSet(_)
            | Change::PermissionsCleared(_)
            | Change::TopicPermissionSet(_)
            | Change::TopicPermissionCleared(_)
            | Change::VhostSet(..)
            | Change::LimitsSet(..)
            | Change::PolicySet(_)
            | Change::PolicyCleared(_)
            // Its id stays.
            | Change::QueueConverted(_)
            | Change::GlobalParameter(..)
            | Change::MemberPut(_)
            | Change::MemberForgotten(_)
            | Change::PlacementPut(_) => {}
        }
    }

    /// Whether an exchange is the source of bindings.
    pub fn has_bindings(&self, vhost: &str, exchange: &str) -> bool {
        let node = self.vhosts.get(vhost).and_then(|vhost| vhost.exchanges.get(exchange));
        node.is_some_and(|node| node.bindings > 0)
    }

    /// Adds to `out` the queues that a message published to `exchange` goes to, and leaves `out` sorted and without
    /// duplicates. Returns which parts of the message determined them.
    ///
    /// An exchange that finds no destination passes the message to its alternate exchange, if it has one and that
    /// exists. No exchange sees a message twice, so loops end.
    ///
    /// # Errors
    /// The exchange or vhost doesn't exist. An empty `out` is no error.
    pub fn route(
        &self,
        vhost: &str,
        exchange: &str,
        routing_key: &[u8],
        headers: &dyn Headers,
        out: &mut Routes,
    ) -> Result<RoutedBy, NoExchange> {
        self.route_by(vhost, exchange, &[routing_key], headers, out)
    }

    /// As [`Router::route`] for a message with several routing keys (`CC`, `BCC`). Each exchange on the way matches
    /// all of them: one key may lead to another exchange, and another key on from there.
    ///
    /// # Errors
    /// As [`Router::route`].
    pub fn route_by(
        &self,
        vhost: &str,
        exchange: &str,
        routing_keys: &[&[u8]],
        headers: &dyn Headers,
        out: &mut Routes,
    ) -> Result<RoutedBy, NoExchange> {
        let vhost = self.vhosts.get(vhost).ok_or(NoExchange)?;
        let routed_by = if exchange.is_empty() {
            out.extend(vhost.queues(routing_keys));
            RoutedBy::Key
        } else {
            let node = vhost.exchanges.get(exchange).ok_or(NoExchange)?;
            vhost.follow(exchange, node, routing_keys, headers, out)
        };
        out.sort_unstable();
        out.dedup();
        Ok(routed_by)
    }

    fn insert_exchange(&mut self, exchange: &Exchange) {
        if let Some(vhost) = self.vhost_mut(&exchange.vhost) {
            let node = Node {
                table: Table::new(exchange),
                bindings: 0,
                leftovers: OrdMap::new(),
                alternate: exchange.alternate().map(Arc::from),
            };
            vhost.exchanges.insert(exchange.name.clone(), Arc::new(node));
        }
    }

    fn bind(&mut self, binding: &Binding) {
        if let Some(node) = self.node_mut(binding) {
            node.table.bind(binding);
            node.bindings += 1;
        }
    }

    /// The source exchange of a binding.
    fn node_mut(&mut self, binding: &Binding) -> Option<&mut Node> {
        self.vhost_mut(&binding.vhost)?.exchanges.get_mut(&binding.source).map(Arc::make_mut)
    }

    fn vhost_mut(&mut self, name: &str) -> Option<&mut Vhost> {
        self.vhosts.get_mut(name).map(Arc::make_mut)
    }
}

impl Vhost {
    fn queues(&self, routing_keys: &[&[u8]]) -> impl Iterator<Item = QueueId> {
        routing_keys.iter().filter_map(|key| self.queues.get(std::str::from_utf8(key).ok()?).copied())
    }

    fn follow<'a>(
        &'a self,
        name: &'a str,
        node: &'a Node,
        routing_keys: &[&[u8]],
        headers: &dyn Headers,
        out: &mut Routes,
    ) -> RoutedBy {
        let mut routed_by = RoutedBy::Key;
        let mut seen: SmallVec<[&str; 4]> = SmallVec::from_slice(&[name]);
        let mut todo: SmallVec<[&Node; 4]> = SmallVec::from_slice(&[node]);
        while let Some(node) = todo.pop() {
            match &node.table {
                Table::Direct(_) | Table::Topic(_) | Table::ModulusHash(_) => {}
                Table::Fanout(table) => out.reserve(table.len()),
                Table::Headers(_) => routed_by = routed_by.max(RoutedBy::Headers),
                Table::ConsistentHash(table) => routed_by = routed_by.max(table.routed_by()),
                Table::Random(..) => routed_by = RoutedBy::Message,
                Table::Delayed(table) => routed_by = routed_by.max(table.routed_by()),
                Table::History(table) => {
                    out.extend(table.keeps(headers));
                    routed_by = routed_by.max(RoutedBy::Headers);
                }
            }
            let mut found = false;
            let is_tidy = node.leftovers.is_empty();
            let mut go = |name: &'a str, out: &mut Routes| {
                if seen.contains(&name) {
                    return;
                }
                seen.push(name);
                if name.is_empty() {
                    out.extend(self.queues(routing_keys));
                } else if let Some(next) = self.exchanges.get(name) {
                    todo.push(next);
                }
            };
            // If the exchange doesn't look at keys, any one of them is enough.
            let keys = if node.table.looks_at_keys() { routing_keys } else { &routing_keys[..1] };
            for key in keys {
                node.table.matches(key, headers, &mut |target| {
                    if !is_tidy && node.is_leftover(target) {
                        return;
                    }
                    found = true;
                    match target {
                        RouteTarget::Queue(id) => out.push(*id),
                        RouteTarget::Exchange(name) => go(name, out),
                    }
                });
            }
            if !found && let Some(alternate) = &node.alternate {
                go(alternate, out);
            }
        }
        routed_by
    }
}
