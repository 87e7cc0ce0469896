use std::sync::Arc;

use super::{Glob, Right};

/// Compiled scopes: permissions that are judged without a backend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scopes(Arc<[ScopeRule]>);

/// A permission on the queues and exchanges of these names, and on these topics.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeRule {
    /// The permission.
    pub right: Right,
    /// Its vhosts.
    pub vhost: Glob,
    /// The names of its queues and exchanges.
    pub name: Glob,
    /// The routing keys at topic exchanges; `None` for none, as in RabbitMQ.
    pub routing_key: Option<Glob>,
}

impl Scopes {
    /// These permissions.
    pub fn new(rules: Vec<ScopeRule>) -> Self {
        Self(rules.into())
    }

    pub(super) fn rules(&self) -> &[ScopeRule] {
        &self.0
    }

    /// Whether any of them is for this vhost.
    pub(crate) fn enter(&self, vhost: &str) -> bool {
        self.0.iter().any(|rule| rule.vhost.matches(vhost))
    }

    pub(crate) fn allow(&self, right: Right, vhost: &str, name: &str) -> bool {
        self.0.iter().any(|rule| rule.right == right && rule.vhost.matches(vhost) && rule.name.matches_in(vhost, name))
    }

    pub(crate) fn allow_topic(&self, right: Right, vhost: &str, exchange: &str, routing_key: &str) -> bool {
        self.0.iter().any(|rule| {
            let is_key = || rule.routing_key.as_ref().is_some_and(|keys| keys.matches_in(vhost, routing_key));
            rule.right == right && rule.vhost.matches(vhost) && rule.name.matches_in(vhost, exchange) && is_key()
        })
    }
}
