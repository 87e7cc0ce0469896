//! The changes of a snapshot. None of them decides anything: that is the model's task.

use std::sync::Arc;

use imbl::OrdMap;

use super::bindings::{Bindings, BindingsBetween, BindingsOfSource, count};
use super::{Topology, Vhost};
use crate::policy::VhostPolicies;
use crate::{
    Binding, Destination, Exchange, Member, Permission, Queue, QueueId, QueuePlacement, TopicPermission, User,
};

impl Topology {
    pub(crate) fn insert_vhost(&mut self, name: &Arc<str>) {
        let vhost = Vhost {
            name: name.clone(),
            settings: Arc::default(),
            queues: OrdMap::new(),
            exchanges: OrdMap::new(),
            bindings: Bindings::default(),
            policies: VhostPolicies::default(),
        };
        self.vhosts.insert(name.clone(), Arc::new(vhost));
    }

    /// Removes a vhost with everything in it.
    pub(crate) fn remove_vhost(&mut self, name: &str) {
        let Some(vhost) = self.vhosts.remove(name) else {
            return;
        };
        for queue in vhost.queues.values() {
            self.take_queue(queue.id);
            self.forget_owned(queue);
        }
        self.vhost_limits.remove(name);
        self.exchanges -= vhost.exchanges.len() as u64;
        self.bindings -= vhost.bindings.len();
        let users: Vec<_> = self.permissions.keys().cloned().collect();
        for user in users {
            self.remove_permission(&user, name);
        }
        let limited: Vec<_> = self.topic_permissions.keys().cloned().collect();
        for user in limited {
            if let Some(vhosts) = self.topic_permissions.get_mut(&user) {
                vhosts.remove(name);
                if vhosts.is_empty() {
                    self.topic_permissions.remove(&user);
                }
            }
        }
    }

    pub(crate) fn insert_queue(&mut self, queue: Arc<Queue>) {
        let Some(vhost) = self.vhost_mut(&queue.vhost) else {
            return;
        };
        vhost.queues.insert(queue.name.clone(), queue.clone());
        if let Some(owner) = queue.exclusive_owner {
            self.exclusive_queues.entry(owner).or_default().insert(queue.id, queue.clone());
        }
        self.queue_counts.add(&queue);
        if let Some(former) = self.queues.insert(queue.id, queue) {
            self.queue_counts.remove(&former);
        }
    }

    fn take_queue(&mut self, id: QueueId) {
        if let Some(queue) = self.queues.remove(&id) {
            self.queue_counts.remove(&queue);
        }
    }

    /// Adds a member of the cluster, or changes it.
    pub(crate) fn insert_member(&mut self, member: Arc<Member>) {
        self.queue_counts.begin(self.queues.values());
        self.members.insert(member.number, member);
    }

    /// Makes a placement, or gives it other members.
    pub(crate) fn put_placement(&mut self, placement: Arc<QueuePlacement>) {
        self.placements.insert(placement.number, placement);
    }

    fn forget_owned(&mut self, queue: &Queue) {
        let Some(owner) = queue.exclusive_owner else { return };
        if let Some(queues) = self.exclusive_queues.get_mut(&owner) {
            queues.remove(&queue.id);
            if queues.is_empty() {
                self.exclusive_queues.remove(&owner);
            }
        }
    }

    /// Removes a queue. Returns the bindings to it, which are removed too.
    pub(crate) fn remove_queue(&mut self, queue: &Queue) -> Vec<BindingsBetween> {
        self.take_queue(queue.id);
        self.forget_owned(queue);
        let Some(vhost) = self.vhost_mut(&queue.vhost) else {
            return Vec::new();
        };
        vhost.queues.remove(&queue.name);
        let removed = vhost.bindings.remove_destination(&queue.destination());
        self.bindings -= count(&removed);
        removed
    }

    pub(crate) fn insert_exchange(&mut self, exchange: Arc<Exchange>) {
        if let Some(vhost) = self.vhost_mut(&exchange.vhost)
            && vhost.exchanges.insert(exchange.name.clone(), exchange).is_none()
        {
            self.exchanges += 1;
        }
    }

    /// Removes an exchange. Returns the bindings from and to it, which are removed too.
    pub(crate) fn remove_exchange(&mut self, exchange: &Exchange) -> (Option<BindingsOfSource>, Vec<BindingsBetween>) {
        let Some(vhost) = self.vhost_mut(&exchange.vhost) else {
            return Default::default();
        };
        let known = vhost.exchanges.remove(&exchange.name).is_some();
        let from = vhost.bindings.remove_source(&exchange.name);
        let to = vhost.bindings.remove_destination(&exchange.destination());
        self.bindings -= from.as_ref().map_or(0, BindingsOfSource::len) as u64 + count(&to);
        self.exchanges -= u64::from(known);
        (from, to)
    }

    pub(crate) fn insert_binding(&mut self, binding: Arc<Binding>) {
        let Some(vhost) = self.vhost_mut(&binding.vhost) else {
            return;
        };
        if vhost.bindings.insert(&binding) {
            self.bindings += 1;
        }
    }

    pub(crate) fn remove_binding(&mut self, binding: &Arc<Binding>) {
        let Some(vhost) = self.vhost_mut(&binding.vhost) else {
            return;
        };
        if vhost.bindings.remove(binding) {
            self.bindings -= 1;
        }
    }

    pub(crate) fn has_binding(&self, binding: &Binding) -> bool {
        self.vhosts.get(&*binding.vhost).is_some_and(|vhost| vhost.bindings.contains(binding))
    }

    pub(crate) fn insert_user(&mut self, user: Arc<User>) {
        self.users.insert(user.name.clone(), user);
    }

    /// Removes a user with its permissions.
    pub(crate) fn remove_user(&mut self, name: &str) {
        self.users.remove(name);
        self.permissions.remove(name);
        self.topic_permissions.remove(name);
        self.user_limits.remove(name);
    }

    pub(crate) fn insert_permission(&mut self, permission: Arc<Permission>) {
        let vhosts = self.permissions.entry(permission.user.clone()).or_default();
        vhosts.insert(permission.vhost.clone(), permission);
    }

    pub(crate) fn remove_permission(&mut self, user: &str, vhost: &str) {
        if let Some(vhosts) = self.permissions.get_mut(user) {
            vhosts.remove(vhost);
            if vhosts.is_empty() {
                self.permissions.remove(user);
            }
        }
    }

    pub(crate) fn insert_topic_permission(&mut self, permission: Arc<TopicPermission>) {
        let vhosts = self.topic_permissions.entry(permission.user.clone()).or_default();
        let exchanges = vhosts.entry(permission.vhost.clone()).or_default();
        exchanges.insert(permission.exchange.clone(), permission);
    }

    pub(crate) fn remove_topic_permission(&mut self, user: &str, vhost: &str, exchange: &str) {
        let Some(vhosts) = self.topic_permissions.get_mut(user) else { return };
        if let Some(exchanges) = vhosts.get_mut(vhost) {
            exchanges.remove(exchange);
            if exchanges.is_empty() {
                vhosts.remove(vhost);
            }
        }
        if vhosts.is_empty() {
            self.topic_permissions.remove(user);
        }
    }

    pub(super) fn vhost_mut(&mut self, name: &str) -> Option<&mut Vhost> {
        self.vhosts.get_mut(name).map(Arc::make_mut)
    }
}

impl Queue {
    /// The queue as the destination of a binding.
    pub fn destination(&self) -> Destination {
        Destination::Queue { name: self.name.clone(), id: self.id }
    }
}

impl Exchange {
    /// The exchange as the destination of a binding.
    pub fn destination(&self) -> Destination {
        Destination::Exchange { name: self.name.clone(), id: self.id }
    }
}
