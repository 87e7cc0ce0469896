//! The changes that a snapshot can take. None of them decides anything: that is the model's part.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::{Topology, Vhost};
use crate::{Binding, Destination, Exchange, Permission, Queue, TopicPermission, User};

impl Topology {
    pub(crate) fn insert_vhost(&mut self, name: &Arc<str>) {
        let vhost = Vhost {
            name: name.clone(),
            settings: Arc::default(),
            queues: OrdMap::new(),
            exchanges: OrdMap::new(),
            by_source: OrdMap::new(),
            by_destination: OrdMap::new(),
            bindings: 0,
        };
        self.vhosts.insert(name.clone(), Arc::new(vhost));
    }

    /// Takes a vhost away with all that it holds.
    pub(crate) fn remove_vhost(&mut self, name: &str) {
        let Some(vhost) = self.vhosts.remove(name) else {
            return;
        };
        for queue in vhost.queues.values() {
            self.queues.remove(&queue.id);
            self.forget_owned(queue);
        }
        self.vhost_limits.remove(name);
        self.exchanges -= vhost.exchanges.len() as u64;
        self.bindings -= vhost.bindings;
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
        self.queues.insert(queue.id, queue);
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

    /// Takes a queue away and returns the bindings that led to it, which are gone too.
    pub(crate) fn remove_queue(&mut self, queue: &Queue) -> Vec<Arc<Binding>> {
        self.queues.remove(&queue.id);
        self.forget_owned(queue);
        let Some(vhost) = self.vhost_mut(&queue.vhost) else {
            return Vec::new();
        };
        vhost.queues.remove(&queue.name);
        let removed = vhost.remove_destination(&queue.destination());
        vhost.bindings -= removed.len() as u64;
        self.bindings -= removed.len() as u64;
        removed
    }

    pub(crate) fn insert_exchange(&mut self, exchange: Arc<Exchange>) {
        if let Some(vhost) = self.vhost_mut(&exchange.vhost)
            && vhost.exchanges.insert(exchange.name.clone(), exchange).is_none()
        {
            self.exchanges += 1;
        }
    }

    /// Takes an exchange away and returns the bindings from and to it, which are gone too.
    pub(crate) fn remove_exchange(&mut self, exchange: &Exchange) -> Vec<Arc<Binding>> {
        let Some(vhost) = self.vhost_mut(&exchange.vhost) else {
            return Vec::new();
        };
        let known = vhost.exchanges.remove(&exchange.name).is_some();
        let from = vhost.by_source.remove(&exchange.name).unwrap_or_default();
        let mut removed: Vec<Arc<Binding>> = from.iter().cloned().collect();
        for binding in &removed {
            unindex(&mut vhost.by_destination, &binding.destination, binding);
        }
        removed.extend(vhost.remove_destination(&exchange.destination()));
        vhost.bindings -= removed.len() as u64;
        self.bindings -= removed.len() as u64;
        self.exchanges -= u64::from(known);
        removed
    }

    pub(crate) fn insert_binding(&mut self, binding: Arc<Binding>) {
        let Some(vhost) = self.vhost_mut(&binding.vhost) else {
            return;
        };
        index(&mut vhost.by_destination, &binding.destination, &binding);
        if index(&mut vhost.by_source, &binding.source, &binding) {
            vhost.bindings += 1;
            self.bindings += 1;
        }
    }

    pub(crate) fn remove_binding(&mut self, binding: &Arc<Binding>) {
        let Some(vhost) = self.vhost_mut(&binding.vhost) else {
            return;
        };
        unindex(&mut vhost.by_destination, &binding.destination, binding);
        if unindex(&mut vhost.by_source, &binding.source, binding) {
            vhost.bindings -= 1;
            self.bindings -= 1;
        }
    }

    pub(crate) fn has_binding(&self, binding: &Binding) -> bool {
        let bindings = self.vhosts.get(&*binding.vhost).and_then(|vhost| vhost.by_source.get(&binding.source));
        bindings.is_some_and(|bindings| bindings.contains(binding))
    }

    pub(crate) fn insert_user(&mut self, user: Arc<User>) {
        self.users.insert(user.name.clone(), user);
    }

    /// Takes a user away with its permissions.
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

impl Vhost {
    fn remove_destination(&mut self, destination: &Destination) -> Vec<Arc<Binding>> {
        let to = self.by_destination.remove(destination).unwrap_or_default();
        let removed: Vec<Arc<Binding>> = to.iter().cloned().collect();
        for binding in &removed {
            unindex(&mut self.by_source, &binding.source, binding);
        }
        removed
    }
}

impl Queue {
    /// The queue as the end of a binding.
    pub fn destination(&self) -> Destination {
        Destination::Queue { name: self.name.clone(), id: self.id }
    }
}

impl Exchange {
    /// The exchange as the end of a binding.
    pub fn destination(&self) -> Destination {
        Destination::Exchange { name: self.name.clone(), id: self.id }
    }
}

/// True when it is new.
fn index<K: Ord + Clone>(map: &mut OrdMap<K, OrdSet<Arc<Binding>>>, key: &K, binding: &Arc<Binding>) -> bool {
    map.entry(key.clone()).or_default().insert(binding.clone()).is_none()
}

/// True when it was there.
fn unindex<K: Ord + Clone>(map: &mut OrdMap<K, OrdSet<Arc<Binding>>>, key: &K, binding: &Binding) -> bool {
    let Some(bindings) = map.get_mut(key) else { return false };
    let known = bindings.remove(binding).is_some();
    if bindings.is_empty() {
        map.remove(key);
    }
    known
}
