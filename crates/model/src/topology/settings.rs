//! Settings of vhosts, limits and global parameters in a snapshot.

use std::sync::Arc;

use serde_json::Value;

use super::Topology;
use crate::QueueType;
use crate::vhost::{LimitOwner, LimitValues, VhostSettings, limit_of};

impl Topology {
    /// The settings of a vhost.
    pub fn vhost_settings(&self, vhost: &str) -> Option<&Arc<VhostSettings>> {
        self.vhosts.get(vhost).map(|vhost| &vhost.settings)
    }

    /// Number of queues in a vhost.
    pub fn queue_count_of(&self, vhost: &str) -> usize {
        self.vhosts.get(vhost).map_or(0, |vhost| vhost.queues.len())
    }

    /// The limits of a vhost or user, if any were set.
    pub fn limits_of(&self, owner: &LimitOwner) -> Option<&LimitValues> {
        let found = match owner {
            LimitOwner::Vhost(vhost) => self.vhost_limits.get(vhost),
            LimitOwner::User(user) => self.user_limits.get(user),
        };
        found.map(|values| &**values)
    }

    /// All limits: those of vhosts, then those of users.
    pub fn all_limits(&self) -> impl Iterator<Item = (LimitOwner, &LimitValues)> {
        let vhosts = self.vhost_limits.iter().map(|(name, values)| (LimitOwner::Vhost(name.clone()), &**values));
        vhosts.chain(self.user_limits.iter().map(|(name, values)| (LimitOwner::User(name.clone()), &**values)))
    }

    /// One limit of a vhost, if it is set and not negative.
    pub fn vhost_limit(&self, vhost: &str, name: &str) -> Option<u64> {
        limit_of(self.vhost_limits.get(vhost).map(|values| &**values), name)
    }

    /// One limit of a user, if it is set and not negative.
    pub fn user_limit(&self, user: &str, name: &str) -> Option<u64> {
        limit_of(self.user_limits.get(user).map(|values| &**values), name)
    }

    /// A global parameter of the cluster.
    pub fn global_parameter(&self, name: &str) -> Option<&Arc<Value>> {
        self.global_parameters.get(name)
    }

    /// All global parameters of the cluster, by name.
    pub fn global_parameters(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Value>)> {
        self.global_parameters.iter()
    }

    /// The type of the vhost's queues that are declared without one.
    pub(crate) fn default_queue_type(&self, vhost: &str) -> QueueType {
        let named = self.vhost_settings(vhost).and_then(|settings| QueueType::parse(&settings.default_queue_type));
        named.unwrap_or_default()
    }

    pub(crate) fn set_vhost(&mut self, vhost: &str, settings: Arc<VhostSettings>) {
        if let Some(vhost) = self.vhost_mut(vhost) {
            vhost.settings = settings;
        }
    }

    pub(crate) fn set_limits(&mut self, owner: &LimitOwner, values: LimitValues) {
        match owner {
            // In RabbitMQ these limits are one parameter, which is still listed when the last limit is cleared.
            LimitOwner::Vhost(vhost) => self.vhost_limits.insert(vhost.clone(), Arc::new(values)),
            LimitOwner::User(user) if values.is_empty() => self.user_limits.remove(user),
            LimitOwner::User(user) => self.user_limits.insert(user.clone(), Arc::new(values)),
        };
    }

    pub(crate) fn set_global_parameter(&mut self, name: &Arc<str>, value: Option<Arc<Value>>) {
        match value {
            Some(value) => self.global_parameters.insert(name.clone(), value),
            None => self.global_parameters.remove(name),
        };
    }
}
