//! The one place that decides which of argument, policy and operator policy wins. The rules are those of RabbitMQ 4.3.

use serde_json::Value as Json;

use super::MatchedPolicies;
use crate::{Arguments, QueueType, Value};

/// The source of an effective value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// The declaration.
    Argument,
    /// The policy.
    Policy,
    /// The operator policy.
    OperatorPolicy,
}

impl ValueSource {
    /// The name in responses.
    pub fn name(self) -> &'static str {
        match self {
            ValueSource::Argument => "argument",
            ValueSource::Policy => "policy",
            ValueSource::OperatorPolicy => "operator_policy",
        }
    }
}

/// An argument that takes effect.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveArgument {
    /// The key as policies have it, without `x-`.
    pub key: &'static str,
    /// The value that won.
    pub value: Value,
    /// Its source.
    pub source: ValueSource,
}

impl EffectiveArgument {
    /// The key as declarations have it.
    pub(super) fn argument(&self) -> String {
        format!("x-{}", self.key)
    }
}

/// The winner if both argument and policy have a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Argument,
    Policy,
    Lower,
    /// The lower one, unless one is negative, which means no limit: then the higher one.
    DeliveryLimit,
}

const CLASSIC: &[(&str, Rule)] = &[
    ("dead-letter-exchange", Rule::Argument),
    ("dead-letter-routing-key", Rule::Argument),
    ("expires", Rule::Lower),
    ("max-length", Rule::Lower),
    ("max-length-bytes", Rule::Lower),
    ("message-ttl", Rule::Lower),
    ("overflow", Rule::Argument),
];

const QUORUM: &[(&str, Rule)] = &[
    ("consumer-disconnected-timeout", Rule::Lower),
    ("consumer-timeout", Rule::Lower),
    ("dead-letter-exchange", Rule::Argument),
    ("dead-letter-routing-key", Rule::Argument),
    ("dead-letter-strategy", Rule::Argument),
    ("delayed-retry-max", Rule::Lower),
    ("delayed-retry-min", Rule::Lower),
    ("delayed-retry-type", Rule::Policy),
    ("delivery-limit", Rule::DeliveryLimit),
    ("expires", Rule::Lower),
    ("max-length", Rule::Lower),
    ("max-length-bytes", Rule::Lower),
    ("message-ttl", Rule::Lower),
    ("overflow", Rule::Policy),
];

const STREAM: &[(&str, Rule)] = &[
    ("max-age", Rule::Policy),
    ("max-length-bytes", Rule::Policy),
    ("stream-filter-size-bytes", Rule::Policy),
    ("stream-max-segment-size-bytes", Rule::Policy),
];

/// The keys of policies that have an effect on queues of this type, and what wins against an argument.
fn rules(queue_type: QueueType) -> &'static [(&'static str, Rule)] {
    match queue_type {
        QueueType::Classic => CLASSIC,
        QueueType::Quorum => QUORUM,
        QueueType::Stream => STREAM,
    }
}

/// The value of the policies for a key.
pub(super) fn of_policies<'a>(matched: &'a MatchedPolicies, key: &str) -> Option<(&'a Json, ValueSource)> {
    let [policy, operator] =
        [&matched.policy, &matched.operator].map(|one| one.as_ref().and_then(|one| one.definition.get(key)));
    match (policy, operator) {
        (Some(policy), Some(operator)) if wins(key, policy, operator) => Some((operator, ValueSource::OperatorPolicy)),
        (Some(policy), _) => Some((policy, ValueSource::Policy)),
        (None, Some(operator)) => Some((operator, ValueSource::OperatorPolicy)),
        (None, None) => None,
    }
}

/// Whether the value of an operator policy wins against another one of a policy.
fn wins(key: &str, policy: &Json, operator: &Json) -> bool {
    let (policy_number, operator_number) = (number(policy), number(operator));
    match key {
        "delivery-limit" if policy_number < 0 || operator_number < 0 => operator_number > policy_number,
        "delayed-retry-min" | "target-group-size" => operator_number > policy_number,
        "overflow" | "delayed-retry-type" | "queue-version" => operator != policy,
        _ => operator_number < policy_number,
    }
}

/// The number of a value that was found to be an integer.
fn number(value: &Json) -> i128 {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from)).unwrap_or(i128::MAX)
}

/// The arguments that take effect on a queue of this type, by key: those that policies can give.
pub(super) fn arguments(
    queue_type: QueueType,
    declared: &Arguments,
    matched: &MatchedPolicies,
) -> Vec<EffectiveArgument> {
    let effective = |(key, rule): &(&'static str, Rule)| {
        let argument = declared.get(&format!("x-{key}"));
        let policy = of_policies(matched, key).map(|(value, source)| (Value::from_json(value), source));
        let (value, source) = match (argument, policy) {
            (Some(argument), Some((value, source))) => match argument_wins(*rule, argument, &value) {
                true => (argument.clone(), ValueSource::Argument),
                false => (value, source),
            },
            (Some(argument), None) => (argument.clone(), ValueSource::Argument),
            (None, Some(policy)) => policy,
            (None, None) => return None,
        };
        Some(EffectiveArgument { key, value, source })
    };
    rules(queue_type).iter().filter_map(effective).collect()
}

fn argument_wins(rule: Rule, argument: &Value, policy: &Value) -> bool {
    // An argument that is no number is as if it weren't there.
    let Some(number) = integer(argument) else { return rule == Rule::Argument };
    let policy = integer(policy).unwrap_or(i128::MAX);
    match rule {
        Rule::Argument => true,
        Rule::Policy => false,
        Rule::Lower => number <= policy,
        Rule::DeliveryLimit if number < 0 || policy < 0 => number >= policy,
        Rule::DeliveryLimit => number <= policy,
    }
}

fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Int(number) => Some((*number).into()),
        Value::UInt(number) => Some((*number).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_sorted_and_of_arguments_that_the_queues_take() {
        for queue_type in QueueType::ALL {
            let rules = rules(queue_type);
            assert!(rules.is_sorted_by(|a, b| a.0 < b.0), "{queue_type:?}");
            for (key, _) in rules {
                let takes = crate::queue_arguments::takes(queue_type, &format!("x-{key}"));
                assert!(takes, "{queue_type:?} {key}");
            }
        }
    }
}
