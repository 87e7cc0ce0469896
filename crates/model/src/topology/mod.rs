use std::sync::Arc;

use imbl::OrdMap;

use crate::policy::VhostPolicies;
use crate::queue_counts::QueueCounts;
use crate::vhost::{LimitValues, VhostSettings};
use crate::{
    Binding, ConnectionId, Destination, Exchange, Home, Member, MemberNumber, Permission, PlacementNumber, Queue,
    QueueId, QueuePlacement, Refused, TopicPermission, User,
};

mod bindings;
mod edit;
mod known;
mod policies;
mod settings;

use bindings::Bindings;
pub use bindings::{BindingsBetween, BindingsOfSource};
pub use known::KnownObjects;

type ByName<T> = OrdMap<Arc<str>, T>;

/// All declared objects, as an immutable snapshot. A clone costs a few reference counts; a changed copy shares
/// everything with the original except the path to the change.
///
/// All iteration is in the order of names, so that everything derived from it is deterministic.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    pub(crate) generation: u64,
    pub(crate) vhosts: OrdMap<Arc<str>, Arc<Vhost>>,
    pub(crate) queues: OrdMap<QueueId, Arc<Queue>>,
    /// Number of queues of each home in a cluster; nothing if the node is alone.
    pub(crate) queue_counts: QueueCounts,
    /// Number of exchanges in all vhosts.
    pub(crate) exchanges: u64,
    pub(crate) bindings: u64,
    /// The exclusive queues of each connection.
    pub(crate) exclusive_queues: OrdMap<ConnectionId, OrdMap<QueueId, Arc<Queue>>>,
    pub(crate) users: OrdMap<Arc<str>, Arc<User>>,
    pub(crate) permissions: OrdMap<Arc<str>, OrdMap<Arc<str>, Arc<Permission>>>,
    /// By user, vhost and exchange.
    pub(crate) topic_permissions: ByName<ByName<ByName<Arc<TopicPermission>>>>,
    pub(crate) vhost_limits: ByName<Arc<LimitValues>>,
    pub(crate) user_limits: ByName<Arc<LimitValues>>,
    pub(crate) global_parameters: ByName<Arc<serde_json::Value>>,
    /// The nodes of the cluster; none if the node is alone.
    pub(crate) members: OrdMap<MemberNumber, Arc<Member>>,
    /// The placements of replicated queues.
    pub(crate) placements: OrdMap<PlacementNumber, Arc<QueuePlacement>>,
}

/// The objects of one vhost.
#[derive(Clone, Debug)]
pub(crate) struct Vhost {
    pub(crate) name: Arc<str>,
    pub(crate) settings: Arc<VhostSettings>,
    pub(crate) queues: OrdMap<Arc<str>, Arc<Queue>>,
    pub(crate) exchanges: OrdMap<Arc<str>, Arc<Exchange>>,
    pub(crate) bindings: Bindings,
    pub(crate) policies: VhostPolicies,
}

impl Topology {
    /// Increases with every change; caches derived from a snapshot are keyed by it.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The name of the vhost, shared, if it exists.
    pub fn vhost(&self, vhost: &str) -> Option<&Arc<str>> {
        self.vhosts.get(vhost).map(|vhost| &vhost.name)
    }

    /// The names of all vhosts.
    pub fn vhosts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.vhosts.keys()
    }

    /// A queue by name.
    pub fn queue(&self, vhost: &str, name: &str) -> Option<&Arc<Queue>> {
        self.vhosts.get(vhost)?.queues.get(name)
    }

    /// A queue by incarnation.
    pub fn queue_by_id(&self, id: QueueId) -> Option<&Arc<Queue>> {
        self.queues.get(&id)
    }

    /// The queues of a vhost; none if there is no such vhost.
    pub fn queues(&self, vhost: &str) -> impl DoubleEndedIterator<Item = &Arc<Queue>> {
        self.vhosts.get(vhost).into_iter().flat_map(|vhost| vhost.queues.values())
    }

    /// Number of queues in a vhost.
    pub fn queue_count_in(&self, vhost: &str) -> usize {
        self.vhosts.get(vhost).map_or(0, |vhost| vhost.queues.len())
    }

    /// Number of queues that are on a member, or that it is to lead.
    pub fn queues_of_member(&self, member: MemberNumber) -> u64 {
        let leads = |placement: &&Arc<QueuePlacement>| placement.preferred() == member;
        let led = self.placements().filter(leads).map(|placement| self.queues_in(placement.number));
        self.queue_counts.of(Home::Owner(member)) + led.sum::<u64>()
    }

    /// The placements of replicated queues, by number.
    pub fn placements(&self) -> impl Iterator<Item = &Arc<QueuePlacement>> {
        self.placements.values()
    }

    /// A placement of replicated queues.
    pub fn placement(&self, number: PlacementNumber) -> Option<&Arc<QueuePlacement>> {
        self.placements.get(&number)
    }

    /// Number of queues in a placement.
    pub fn queues_in(&self, placement: PlacementNumber) -> u64 {
        self.queue_counts.of(Home::Placement(placement))
    }

    /// Number of placements that a member has a replica of.
    pub(crate) fn replicas_of(&self, member: MemberNumber) -> usize {
        self.placements().filter(|placement| placement.has(member)).count()
    }

    /// Number of queues in all vhosts.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// Number of exchanges in all vhosts, including predeclared ones.
    pub fn exchange_count(&self) -> u64 {
        self.exchanges
    }

    /// Number of bindings in all vhosts.
    pub fn binding_count(&self) -> u64 {
        self.bindings
    }

    /// The nodes of the cluster, by number; none if the node is alone.
    pub fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.values()
    }

    /// A node of the cluster.
    pub fn member(&self, number: MemberNumber) -> Option<&Arc<Member>> {
        self.members.get(&number)
    }

    /// A node of the cluster, by name.
    pub fn member_named(&self, name: &str) -> Option<&Arc<Member>> {
        self.members().find(|member| &*member.name == name)
    }

    /// The queue, if it exists, doesn't belong to another connection, and isn't that of an exchange. Passive queue.declare,
    /// get, consume, purge, delete and bind begin with this check.
    ///
    /// # Errors
    /// `NotFound`, `ResourceLocked`, `AccessRefused`.
    pub fn usable_queue(
        &self,
        vhost: &str,
        name: &str,
        connection: Option<ConnectionId>,
    ) -> Result<&Arc<Queue>, Refused> {
        let queue = self.visible_queue(vhost, name, connection)?;
        queue.check_ordinary()?;
        Ok(queue)
    }

    /// The queues of exchanges that are gone: these weren't durable, and the node was restarted.
    pub fn lost_exchange_queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        let all = self.vhosts().flat_map(|vhost| self.queues(vhost));
        all.filter(|queue| {
            let exchange = queue.exchange().map(|exchange| self.exchange(&queue.vhost, exchange));
            exchange.is_some_and(|exchange| exchange.is_none_or(|exchange| exchange.own_queue() != Some(queue.id)))
        })
    }

    /// The queue, if it exists and doesn't belong to another connection: it may be looked at and purged.
    ///
    /// # Errors
    /// `NotFound`, `ResourceLocked`.
    pub fn visible_queue(
        &self,
        vhost: &str,
        name: &str,
        connection: Option<ConnectionId>,
    ) -> Result<&Arc<Queue>, Refused> {
        let queue = self.queue(vhost, name).ok_or_else(|| Refused::no_queue(vhost, name))?;
        match queue.exclusive_owner {
            Some(owner) if connection != Some(owner) => Err(Refused::locked(vhost, name)),
            _ => Ok(queue),
        }
    }

    /// The exclusive queues of a connection, in the order of ids, beginning with `from`.
    pub fn exclusive_queues(&self, owner: ConnectionId, from: QueueId) -> impl Iterator<Item = &Arc<Queue>> {
        let queues = self.exclusive_queues.get(&owner);
        queues.into_iter().flat_map(move |queues| queues.range(from..).map(|(_, queue)| queue))
    }

    /// An exchange by name; the default exchange by the empty one.
    pub fn exchange(&self, vhost: &str, name: &str) -> Option<&Arc<Exchange>> {
        self.vhosts.get(vhost)?.exchanges.get(name)
    }

    /// The exchanges of a vhost; none if there is no such vhost.
    pub fn exchanges(&self, vhost: &str) -> impl Iterator<Item = &Arc<Exchange>> {
        self.vhosts.get(vhost).into_iter().flat_map(|vhost| vhost.exchanges.values())
    }

    /// Passive exchange.declare: the exchange, if it exists.
    ///
    /// # Errors
    /// `NotFound`, or `AccessRefused` for the default exchange.
    pub fn passive_exchange(&self, vhost: &str, name: &str) -> Result<&Arc<Exchange>, Refused> {
        if name.is_empty() {
            return Err(Refused::default_exchange());
        }
        self.exchange(vhost, name).ok_or_else(|| Refused::no_exchange(vhost, name))
    }

    /// The bindings of a vhost, by source.
    pub fn bindings(&self, vhost: &str) -> impl Iterator<Item = &Arc<Binding>> {
        self.vhosts.get(vhost).into_iter().flat_map(|vhost| vhost.bindings.iter())
    }

    /// The bindings of a vhost, those of a source together.
    pub(crate) fn bindings_of_sources(&self, vhost: &str) -> impl Iterator<Item = BindingsOfSource> {
        self.vhosts.get(vhost).into_iter().flat_map(|vhost| vhost.bindings.of_sources())
    }

    /// The bindings whose source is this exchange. The default exchange has none: it routes to every queue by name.
    pub fn bindings_of_source(&self, vhost: &str, exchange: &str) -> impl Iterator<Item = &Arc<Binding>> {
        self.vhosts.get(vhost).into_iter().flat_map(|vhost| vhost.bindings.of_source(exchange))
    }

    /// The bindings whose destination is this queue or exchange.
    pub fn bindings_of_destination(
        &self,
        vhost: &str,
        destination: &Destination,
    ) -> impl Iterator<Item = &Arc<Binding>> {
        self.vhosts.get(vhost).into_iter().flat_map(|vhost| vhost.bindings.of_destination(destination))
    }

    /// A user by name.
    pub fn user(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// All users.
    pub fn users(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// The permissions of a user in a vhost. Without one, the user may not even enter it.
    pub fn permission(&self, user: &str, vhost: &str) -> Option<&Arc<Permission>> {
        self.permissions.get(user)?.get(vhost)
    }

    /// The topic permission of a user at an exchange. Without one, any routing key is allowed.
    pub fn topic_permission(&self, user: &str, vhost: &str, exchange: &str) -> Option<&Arc<TopicPermission>> {
        self.topic_permissions.get(user)?.get(vhost)?.get(exchange)
    }

    /// The topic permissions of one user.
    pub fn topic_permissions_of(&self, user: &str) -> impl Iterator<Item = &Arc<TopicPermission>> {
        let vhosts = self.topic_permissions.get(user).into_iter().flat_map(|vhosts| vhosts.values());
        vhosts.flat_map(|exchanges| exchanges.values())
    }

    /// All topic permissions, by user, vhost and exchange.
    pub fn topic_permissions(&self) -> impl Iterator<Item = &Arc<TopicPermission>> {
        let vhosts = self.topic_permissions.values().flat_map(|vhosts| vhosts.values());
        vhosts.flat_map(|exchanges| exchanges.values())
    }

    /// All permissions, by user.
    pub fn permissions(&self) -> impl Iterator<Item = &Arc<Permission>> {
        self.permissions.values().flat_map(|vhosts| vhosts.values())
    }
}
