//! Alternate exchanges by policy, all that policies give to exchanges.

use std::sync::Arc;

use super::{Policy, VhostPolicies};
use crate::{Exchange, PolicyKind, Topology};

const ALTERNATE: &str = "alternate-exchange";

impl Policy {
    fn alternate(&self) -> Option<&str> {
        self.definition.get(ALTERNATE)?.as_str()
    }
}

impl VhostPolicies {
    /// Whether a policy gives exchanges an alternate one.
    pub(crate) fn any_alternate(&self) -> bool {
        self.iter(PolicyKind::User).any(|policy| policy.alternate().is_some())
    }
}

impl Topology {
    /// The exchange that gets messages which this one can't route: that of its argument, or else of the policy that applies to it.
    pub fn alternate_of(&self, exchange: &Exchange) -> Option<Arc<str>> {
        if let Some(alternate) = exchange.alternate() {
            return Some(alternate.into());
        }
        let policies = self.vhosts.get(&exchange.vhost).map(|vhost| &vhost.policies)?;
        // The default exchange routes by name, and nothing else.
        if exchange.is_default() || !policies.any_alternate() {
            return None;
        }
        policies.of_exchange(exchange).policy.and_then(|policy| policy.alternate().map(Into::into))
    }

    /// The exchanges of a vhost whose alternate one depends on policies, with what it is now.
    pub(crate) fn alternates_by_policy(&self, vhost: &str) -> Vec<(Arc<Exchange>, Option<Arc<str>>)> {
        let exchanges =
            self.exchanges(vhost).filter(|exchange| !exchange.is_default() && exchange.alternate().is_none());
        exchanges.map(|exchange| (exchange.clone(), self.alternate_of(exchange))).collect()
    }
}
