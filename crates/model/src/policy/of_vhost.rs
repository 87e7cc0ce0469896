use std::cmp::Reverse;
use std::sync::Arc;

use imbl::OrdMap;

use super::{MatchedPolicies, Policy, PolicyKind};
use crate::{Exchange, Queue};

/// The policies of a vhost.
#[derive(Clone, Debug, Default)]
pub(crate) struct VhostPolicies {
    users: Policies,
    operators: Policies,
    /// Grows with every change.
    version: u64,
}

/// The policies of one kind.
#[derive(Clone, Debug, Default)]
struct Policies {
    by_name: OrdMap<Arc<str>, Arc<Policy>>,
    /// The first one that matches applies.
    in_order: OrdMap<(Reverse<i64>, Arc<str>), Arc<Policy>>,
}

impl Policies {
    fn remove(&mut self, name: &str) {
        if let Some(policy) = self.by_name.remove(name) {
            self.in_order.remove(&(Reverse(policy.priority), policy.name.clone()));
        }
    }

    fn of_queue(&self, queue: &Queue) -> Option<Arc<Policy>> {
        self.in_order.values().find(|policy| policy.applies_to_queue(queue)).cloned()
    }

    fn of_exchange(&self, exchange: &Exchange) -> Option<Arc<Policy>> {
        self.in_order.values().find(|policy| policy.applies_to_exchange(exchange)).cloned()
    }
}

impl VhostPolicies {
    fn of(&self, kind: PolicyKind) -> &Policies {
        match kind {
            PolicyKind::User => &self.users,
            PolicyKind::Operator => &self.operators,
        }
    }

    fn of_mut(&mut self, kind: PolicyKind) -> &mut Policies {
        self.version += 1;
        match kind {
            PolicyKind::User => &mut self.users,
            PolicyKind::Operator => &mut self.operators,
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Number of policies of both kinds.
    pub(crate) fn len(&self) -> usize {
        self.users.by_name.len() + self.operators.by_name.len()
    }

    pub(crate) fn get(&self, kind: PolicyKind, name: &str) -> Option<&Arc<Policy>> {
        self.of(kind).by_name.get(name)
    }

    /// The policies of a kind by name.
    pub(crate) fn iter(&self, kind: PolicyKind) -> impl Iterator<Item = &Arc<Policy>> {
        self.of(kind).by_name.values()
    }

    pub(crate) fn insert(&mut self, policy: Arc<Policy>) {
        let policies = self.of_mut(policy.kind);
        policies.remove(&policy.name);
        policies.in_order.insert((Reverse(policy.priority), policy.name.clone()), policy.clone());
        policies.by_name.insert(policy.name.clone(), policy);
    }

    pub(crate) fn remove(&mut self, kind: PolicyKind, name: &str) {
        self.of_mut(kind).remove(name);
    }

    /// The policies of a kind that match, the one that applies first.
    pub(crate) fn matching(&self, kind: PolicyKind, matches: impl Fn(&Policy) -> bool) -> Vec<Arc<Policy>> {
        self.of(kind).in_order.values().filter(|policy| matches(policy)).cloned().collect()
    }

    pub(crate) fn of_queue(&self, queue: &Queue) -> MatchedPolicies {
        MatchedPolicies { policy: self.users.of_queue(queue), operator: self.operators.of_queue(queue) }
    }

    pub(crate) fn of_exchange(&self, exchange: &Exchange) -> MatchedPolicies {
        MatchedPolicies { policy: self.users.of_exchange(exchange), operator: self.operators.of_exchange(exchange) }
    }
}
