use std::sync::Arc;

use serde_json::{Map, Value};

use super::{EffectiveArgument, Policy, definition, merge};
use crate::{Arguments, Exchange, Queue, QueueOptions};

impl Policy {
    pub(crate) fn applies_to_queue(&self, queue: &Queue) -> bool {
        // Limits and times to live are none of the broker's own queues.
        !queue.is_own()
            && self.apply_to.has_queues(queue.queue_type)
            && definition::fits(&self.definition, queue.queue_type)
            && self.pattern.matches(&queue.name)
    }

    pub(crate) fn applies_to_exchange(&self, exchange: &Exchange) -> bool {
        self.apply_to.has_exchanges() && self.pattern.matches(&exchange.name)
    }
}

/// The policies that apply to an object.
#[derive(Clone, Debug, Default)]
pub struct MatchedPolicies {
    /// The policy.
    pub policy: Option<Arc<Policy>>,
    /// The operator policy.
    pub operator: Option<Arc<Policy>>,
}

impl MatchedPolicies {
    /// Whether no policy applies.
    pub fn is_empty(&self) -> bool {
        self.policy.is_none() && self.operator.is_none()
    }

    /// Whether both are the same policies, in the same version.
    pub fn is_same(&self, other: &Self) -> bool {
        let same = |one: &Option<Arc<Policy>>, other: &Option<Arc<Policy>>| match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        same(&self.policy, &other.policy) && same(&self.operator, &other.operator)
    }

    /// The definitions of both as one, with the value that wins of each key.
    pub fn definition(&self) -> Map<String, Value> {
        let [policy, operator] = [&self.policy, &self.operator].map(|one| one.as_ref().map(|one| &one.definition));
        let keys = policy.into_iter().chain(operator).flat_map(Map::keys);
        keys.filter_map(|key| Some((key.clone(), merge::of_policies(self, key)?.0.clone()))).collect()
    }
}

/// The effective arguments of a queue, by its declaration and the policies that apply to it.
#[derive(Clone, Debug, Default)]
pub struct EffectiveQueue {
    /// The options that follow from them, if they aren't those of the declaration alone.
    options: Option<Arc<QueueOptions>>,
    /// The policies that apply to it.
    pub matched: MatchedPolicies,
    /// See [`crate::Topology::policies_version`].
    pub version: u64,
}

impl EffectiveQueue {
    /// The effective arguments of `queue` with these policies. Options are those of a `known` queue, if that has the same policies
    /// and arguments.
    pub(crate) fn of(queue: &Queue, matched: MatchedPolicies, version: u64, known: &[(&Queue, &Self)]) -> Self {
        let is_alike = |(other, effective): &&(&Queue, &Self)| {
            effective.matched.is_same(&matched)
                && other.queue_type == queue.queue_type
                && other.arguments == queue.arguments
        };
        let options = match known.iter().find(is_alike) {
            _ if matched.is_empty() => None,
            Some((_, alike)) => alike.options.clone(),
            None => {
                let merged = merge::arguments(queue.queue_type, &queue.arguments, &matched);
                let given = merged.into_iter().map(|merged| (merged.argument(), merged.value));
                let declared = queue.arguments.iter().map(|(key, value)| (key.to_owned(), value.clone()));
                // Of a key that is there twice, the last value counts.
                let arguments = Arguments::from_iter(declared.chain(given));
                let options = QueueOptions { queue_type: queue.queue_type, ..QueueOptions::effective(&arguments) };
                Some(Arc::new(options))
            }
        };
        EffectiveQueue { options, matched, version }
    }

    /// The options that follow from them; `queue` is the declaration.
    pub fn options<'a>(&'a self, queue: &'a Queue) -> &'a QueueOptions {
        self.options.as_deref().unwrap_or(&queue.options)
    }

    /// The arguments of `queue` that take effect, by key, with what each came from. Arguments that no policy can give are left out.
    pub fn arguments(&self, queue: &Queue) -> Vec<EffectiveArgument> {
        merge::arguments(queue.queue_type, &queue.arguments, &self.matched)
    }
}
