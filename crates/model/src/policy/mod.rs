//! Policies: arguments for the queues and exchanges whose names match a pattern.
//!
//! At most one policy and one operator policy apply to an object: those of the highest priority among the ones that match. Policies
//! of one priority apply in the order of their names. What a queue or exchange gets from them is computed from the policies of its
//! vhost and never stored, so that it follows every change.

mod definition;
mod effective;
mod exchanges;
mod merge;
mod of_vhost;
mod pattern;
mod term;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::definition::OBSOLETE_KEYS;
pub use self::effective::{EffectiveQueue, MatchedPolicies};
pub use self::merge::{EffectiveArgument, ValueSource};
pub use self::pattern::NamePattern;

pub(crate) use self::of_vhost::VhostPolicies;

use crate::{Arguments, QueueType, Refused};

/// The owner of a policy: users, who may be limited by operators, or operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// A policy, set by a policymaker.
    User,
    /// An operator policy, set by an administrator. Its limits hold whatever policies and arguments say.
    Operator,
}

impl PolicyKind {
    /// Both kinds.
    pub const ALL: [PolicyKind; 2] = [PolicyKind::User, PolicyKind::Operator];

    /// The name in error texts.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::User => "policy",
            PolicyKind::Operator => "operator policy",
        }
    }
}

/// The objects that a policy applies to, if their names match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyTo {
    /// Queues and exchanges.
    #[default]
    All,
    /// Queues of all types.
    Queues,
    /// Classic queues.
    ClassicQueues,
    /// Quorum queues.
    QuorumQueues,
    /// Streams.
    Streams,
    /// Exchanges.
    Exchanges,
}

impl ApplyTo {
    const ALL: [ApplyTo; 6] = [
        ApplyTo::All,
        ApplyTo::Queues,
        ApplyTo::ClassicQueues,
        ApplyTo::QuorumQueues,
        ApplyTo::Streams,
        ApplyTo::Exchanges,
    ];

    /// The value of `apply-to`.
    pub fn name(self) -> &'static str {
        match self {
            ApplyTo::All => "all",
            ApplyTo::Queues => "queues",
            ApplyTo::ClassicQueues => "classic_queues",
            ApplyTo::QuorumQueues => "quorum_queues",
            ApplyTo::Streams => "streams",
            ApplyTo::Exchanges => "exchanges",
        }
    }

    /// The objects with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|apply_to| apply_to.name() == name)
    }

    fn has_queues(self, queue_type: QueueType) -> bool {
        match self {
            ApplyTo::All | ApplyTo::Queues => true,
            ApplyTo::ClassicQueues => queue_type == QueueType::Classic,
            ApplyTo::QuorumQueues => queue_type == QueueType::Quorum,
            ApplyTo::Streams => queue_type == QueueType::Stream,
            ApplyTo::Exchanges => false,
        }
    }

    fn has_exchanges(self) -> bool {
        matches!(self, ApplyTo::All | ApplyTo::Exchanges)
    }
}

impl fmt::Display for ApplyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A policy or operator policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The kind.
    pub kind: PolicyKind,
    /// The vhost it belongs to.
    pub vhost: Arc<str>,
    /// Its name there.
    pub name: Arc<str>,
    /// The pattern of the names of objects.
    pub pattern: NamePattern,
    /// The objects that it applies to.
    pub apply_to: ApplyTo,
    /// The highest one among those that match applies.
    pub priority: i64,
    /// The arguments that it gives, without `x-`.
    pub definition: Map<String, Value>,
}

impl Policy {
    /// The definition as arguments.
    pub fn arguments(&self) -> Arguments {
        Arguments::from_json(&Value::Object(self.definition.clone()))
    }
}

/// Arguments of [`crate::Command::SetPolicy`], with values as a client gave them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetPolicy {
    /// The kind.
    pub kind: PolicyKind,
    /// The vhost, which must exist.
    pub vhost: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The pattern of names, a text.
    pub pattern: Value,
    /// The objects, a text as in [`ApplyTo::name`]; `None` for all.
    pub apply_to: Option<Value>,
    /// The priority, a whole number; `None` for 0.
    pub priority: Option<Value>,
    /// The arguments, an object.
    pub definition: Value,
}

/// Most bytes of a definition as JSON, because a record holds it.
const DEFINITION_BYTES_MAX: usize = 32 << 10;

impl SetPolicy {
    /// The policy, if all its values are valid.
    ///
    /// # Errors
    /// The faults of all its values, in RabbitMQ's words and order.
    pub(crate) fn policy(self, keeps_obsolete: bool) -> Result<Policy, Refused> {
        let SetPolicy { kind, vhost, name, pattern, apply_to, priority, definition } = self;
        let mut wrong = Vec::new();
        let mut note = |result: Result<(), String>| wrong.extend(result.err());
        note(definition::check(kind, &name, &definition, keeps_obsolete));
        let apply_to = apply_to.map_or(Ok(ApplyTo::All), |given| parse_apply_to(&given));
        note(apply_to.as_ref().map(drop).map_err(String::clone));
        let pattern = NamePattern::parse(&pattern);
        note(pattern.as_ref().map(drop).map_err(String::clone));
        let priority = priority.map_or(Ok(0), |given| parse_priority(&given));
        note(priority.as_ref().map(drop).map_err(String::clone));
        match (pattern, apply_to, priority, definition) {
            (Ok(pattern), Ok(apply_to), Ok(priority), Value::Object(definition)) if wrong.is_empty() => {
                Ok(Policy { kind, vhost, name, pattern, apply_to, priority, definition })
            }
            _ => Err(Refused::precondition(format!("Validation failed\n\n{}\n", wrong.join("\n")))),
        }
    }
}

fn parse_apply_to(given: &Value) -> Result<ApplyTo, String> {
    given.as_str().and_then(ApplyTo::parse).ok_or_else(|| {
        let given = given.as_str().map_or_else(|| term::of(given), str::to_owned);
        // The two spaces are RabbitMQ's.
        format!(
            "apply-to '{given}' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', \
             'exchanges', or 'all'"
        )
    })
}

fn parse_priority(given: &Value) -> Result<i64, String> {
    given.as_i64().ok_or_else(|| {
        let hint = if given.is_number() { " (it has to be whole, and to fit 64 bits)" } else { "" };
        format!("priority should be a number, actually was {}{hint}", term::of(given))
    })
}

#[cfg(test)]
mod tests;
