//! The effects that a change of policies would have (`?dry_run=true`). An addition of ours.

use leveret_model::{EffectiveArgument, MatchedPolicies, PolicyKind, Topology};
use serde_json::{Map, Value, json};

/// Most changed objects that are listed.
const LISTED_MAX: usize = 1000;

/// The objects that `after` has the policy with this kind and name apply to, and what changes from `before` to `after`.
pub(super) fn of(before: &Topology, after: &Topology, vhost: &str, policy: (PolicyKind, &str)) -> Value {
    let mut changes = Changes { policy, queues: (0, 0), exchanges: (0, 0), listed: Vec::new() };
    for queue in before.queues(vhost) {
        let [before, after] = [before, after].map(|topology| topology.effective_queue(queue, &[]));
        let keys = changed(&before.arguments(queue), &after.arguments(queue));
        let entry = |body: &mut Map<String, Value>| {
            body.insert("queue".to_owned(), json!(queue.name));
            body.insert("arguments".to_owned(), Value::Object(keys.clone()));
        };
        let outcome = changes.note(&before.matched, &after.matched, !keys.is_empty(), entry);
        count(&mut changes.queues, outcome);
    }
    for exchange in before.exchanges(vhost).filter(|exchange| !exchange.is_default()) {
        let [matched, matched_after] = [before, after].map(|topology| topology.policies_of_exchange(exchange));
        let [alternate, alternate_after] = [before, after].map(|topology| topology.alternate_of(exchange));
        let is_other = alternate != alternate_after;
        let entry = |body: &mut Map<String, Value>| {
            body.insert("exchange".to_owned(), json!(exchange.name));
            let arguments = match is_other {
                true => json!({"alternate-exchange": {"before": alternate, "after": alternate_after}}),
                false => json!({}),
            };
            body.insert("arguments".to_owned(), arguments);
        };
        let outcome = changes.note(&matched, &matched_after, is_other, entry);
        count(&mut changes.exchanges, outcome);
    }
    let Changes { queues, exchanges, listed, .. } = changes;
    json!({
        "queues": {"matched": queues.0, "changed": queues.1},
        "exchanges": {"matched": exchanges.0, "changed": exchanges.1},
        "changes_left_out": (queues.1 + exchanges.1).saturating_sub(listed.len()),
        "changes": listed,
    })
}

struct Changes<'a> {
    policy: (PolicyKind, &'a str),
    /// Number of queues that the policy applies to, and of those that change.
    queues: (usize, usize),
    /// The same of exchanges.
    exchanges: (usize, usize),
    listed: Vec<Value>,
}

impl Changes<'_> {
    /// Notes an object. Returns whether the policy applies to it afterwards, and whether it changes.
    fn note(
        &mut self,
        before: &MatchedPolicies,
        after: &MatchedPolicies,
        is_other: bool,
        add: impl FnOnce(&mut Map<String, Value>),
    ) -> (bool, bool) {
        let name = |matched: &MatchedPolicies, kind| {
            let policy = match kind {
                PolicyKind::User => &matched.policy,
                PolicyKind::Operator => &matched.operator,
            };
            policy.as_ref().map(|policy| policy.name.clone())
        };
        let (kind, policy) = self.policy;
        let applies = name(after, kind).is_some_and(|name| *name == *policy);
        let has_other = PolicyKind::ALL.into_iter().any(|kind| name(before, kind) != name(after, kind));
        if (has_other || is_other) && self.listed.len() < LISTED_MAX {
            let mut body = Map::new();
            add(&mut body);
            for (key, kind) in [("policy", PolicyKind::User), ("operator_policy", PolicyKind::Operator)] {
                body.insert(key.to_owned(), json!({"before": name(before, kind), "after": name(after, kind)}));
            }
            self.listed.push(Value::Object(body));
        }
        (applies, has_other || is_other)
    }
}

fn count(counted: &mut (usize, usize), (applies, changes): (bool, bool)) {
    counted.0 += usize::from(applies);
    counted.1 += usize::from(changes);
}

/// The arguments whose effective value changes.
fn changed(before: &[EffectiveArgument], after: &[EffectiveArgument]) -> Map<String, Value> {
    let value = |of: &[EffectiveArgument], key: &str| {
        of.iter().find(|argument| argument.key == key).map(|argument| argument.value.to_json())
    };
    let mut keys: Vec<&str> = before.iter().chain(after).map(|argument| argument.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let changed = keys.into_iter().filter_map(|key| {
        let (before, after) = (value(before, key), value(after, key));
        (before != after).then(|| (key.to_owned(), json!({"before": before, "after": after})))
    });
    changed.collect()
}
