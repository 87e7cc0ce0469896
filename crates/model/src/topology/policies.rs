//! Policies in a snapshot, and what they make of queues and exchanges.

use std::sync::Arc;

use super::Topology;
use crate::{EffectiveQueue, Exchange, MatchedPolicies, Policy, PolicyKind, Queue, Refused, SetPolicy};

impl Topology {
    /// A policy by name.
    pub fn policy(&self, kind: PolicyKind, vhost: &str, name: &str) -> Option<&Arc<Policy>> {
        self.vhosts.get(vhost)?.policies.get(kind, name)
    }

    /// The policies of a kind in a vhost, by name; none if there is no such vhost.
    pub fn policies(&self, kind: PolicyKind, vhost: &str) -> impl Iterator<Item = &Arc<Policy>> {
        self.vhosts.get(vhost).into_iter().flat_map(move |vhost| vhost.policies.iter(kind))
    }

    /// Number of policies of both kinds in a vhost.
    pub fn policy_count(&self, vhost: &str) -> usize {
        self.vhosts.get(vhost).map_or(0, |vhost| vhost.policies.len())
    }

    /// A number that grows with every change of a vhost's policies. Of two numbers of one vhost, the higher one is newer.
    pub fn policies_version(&self, vhost: &str) -> u64 {
        self.vhosts.get(vhost).map_or(0, |vhost| vhost.policies.version())
    }

    /// The effective arguments of a queue. Those of `known` queues, such as its own so far, save work if they are the same.
    pub fn effective_queue(&self, queue: &Queue, known: &[(&Queue, &EffectiveQueue)]) -> EffectiveQueue {
        let policies = self.vhosts.get(&queue.vhost).map(|vhost| &vhost.policies);
        let (matched, version) =
            policies.map_or_else(Default::default, |policies| (policies.of_queue(queue), policies.version()));
        EffectiveQueue::of(queue, matched, version, known)
    }

    /// The policies that apply to an exchange.
    pub fn policies_of_exchange(&self, exchange: &Exchange) -> MatchedPolicies {
        self.vhosts.get(&exchange.vhost).map(|vhost| vhost.policies.of_exchange(exchange)).unwrap_or_default()
    }

    /// The policies of a kind that match a queue, the one that applies first.
    pub fn policies_matching_queue(&self, kind: PolicyKind, queue: &Queue) -> Vec<Arc<Policy>> {
        let vhost = self.vhosts.get(&queue.vhost);
        vhost.map_or_else(Vec::new, |vhost| vhost.policies.matching(kind, |policy| policy.applies_to_queue(queue)))
    }

    /// The policies of a kind that match an exchange, the one that applies first.
    pub fn policies_matching_exchange(&self, kind: PolicyKind, exchange: &Exchange) -> Vec<Arc<Policy>> {
        let vhost = self.vhosts.get(&exchange.vhost);
        let matches = |policy: &Policy| policy.applies_to_exchange(exchange);
        vhost.map_or_else(Vec::new, |vhost| vhost.policies.matching(kind, matches))
    }

    /// The objects as they would be with this policy.
    ///
    /// # Errors
    /// The policy isn't valid.
    pub fn with_policy(&self, policy: SetPolicy) -> Result<Topology, Refused> {
        let mut topology = self.clone();
        topology.insert_policy(Arc::new(policy.policy(false)?));
        Ok(topology)
    }

    /// The objects as they would be without this policy.
    pub fn without_policy(&self, kind: PolicyKind, vhost: &str, name: &str) -> Topology {
        let mut topology = self.clone();
        topology.remove_policy(kind, vhost, name);
        topology
    }

    pub(crate) fn insert_policy(&mut self, policy: Arc<Policy>) {
        if let Some(vhost) = self.vhost_mut(&policy.vhost.clone()) {
            vhost.policies.insert(policy);
        }
    }

    pub(crate) fn remove_policy(&mut self, kind: PolicyKind, vhost: &str, name: &str) {
        if let Some(vhost) = self.vhost_mut(vhost) {
            vhost.policies.remove(kind, name);
        }
    }
}
