//! Effective arguments of queues, compared with a naive reading of the rules.

use leveret_model::{
    Arguments, Command, DeclareQueue, Model, Permit, PolicyKind, QueueType, SetPolicy, Topology, Value,
};
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

/// A policy as the test has it.
#[derive(Clone, Debug)]
struct Given {
    kind: PolicyKind,
    name: &'static str,
    priority: i64,
    pattern: &'static str,
    apply_to: &'static str,
    definition: Map<String, Json>,
}

const QUEUES: [&str; 3] = ["orders", "orders-eu", "invoices"];
/// Limits that policies, operator policies and arguments of quorum queues have.
const LIMITS: [&str; 3] = ["max-length", "message-ttl", "expires"];

fn definitions() -> impl Strategy<Value = Map<String, Json>> {
    let limit = proptest::sample::select(&LIMITS[..]);
    let limits = proptest::collection::btree_map(limit, 1_i64..5, 0..3);
    (limits, proptest::option::of(-2_i64..4)).prop_map(|(limits, deliveries)| {
        let mut definition: Map<String, Json> =
            limits.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
        // No policy is empty.
        definition.insert("delivery-limit".to_owned(), json!(deliveries.unwrap_or(2)));
        definition
    })
}

fn policies() -> impl Strategy<Value = Given> {
    (
        proptest::sample::select(&PolicyKind::ALL[..]),
        proptest::sample::select(&["a", "b", "c"][..]),
        -1_i64..2,
        proptest::sample::select(&["", "^orders", "eu$", "^invoices$", "none"][..]),
        proptest::sample::select(&["all", "queues", "quorum_queues", "exchanges", "classic_queues"][..]),
        definitions(),
    )
        .prop_map(|(kind, name, priority, pattern, apply_to, definition)| Given {
            kind,
            name,
            priority,
            pattern,
            apply_to,
            definition,
        })
}

fn matches(given: &Given, queue: &str) -> bool {
    let name = match given.pattern {
        "" => true,
        "^orders" => queue.starts_with("orders"),
        "eu$" => queue.ends_with("eu"),
        "^invoices$" => queue == "invoices",
        _ => false,
    };
    name && matches!(given.apply_to, "all" | "queues" | "quorum_queues")
}

/// The policy of a kind that applies: the highest priority, and then the first name.
fn winner<'a>(all: &'a [Given], kind: PolicyKind, queue: &str) -> Option<&'a Given> {
    let mut found: Vec<&Given> = all.iter().filter(|given| given.kind == kind && matches(given, queue)).collect();
    found.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.name.cmp(b.name)));
    found.first().copied()
}

/// The value of a limit: the lowest of all that are given, or, for the delivery limit, the highest if one is negative.
fn merged(values: impl IntoIterator<Item = Option<i64>>, is_delivery_limit: bool) -> Option<i64> {
    values.into_iter().flatten().reduce(|a, b| if is_delivery_limit && (a < 0 || b < 0) { a.max(b) } else { a.min(b) })
}

fn check(topology: &Topology, all: &[Given], arguments: &[(&str, i64)]) -> Result<(), TestCaseError> {
    for name in QUEUES {
        let queue = topology.queue("/", name).expect("it is declared");
        let effective = topology.effective_queue(queue, &[]);
        let [user, operator] = PolicyKind::ALL.map(|kind| winner(all, kind, name));
        let applied = [&effective.matched.policy, &effective.matched.operator];
        let applied = applied.map(|one| one.as_ref().map(|policy| policy.name.to_string()));
        prop_assert_eq!(applied, [user, operator].map(|one| one.map(|given| given.name.to_owned())));
        for key in LIMITS.into_iter().chain(["delivery-limit"]) {
            let of = |given: Option<&Given>| given.and_then(|given| given.definition.get(key)?.as_i64());
            let argument = arguments.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
            let is_delivery_limit = key == "delivery-limit";
            // The policies are merged first.
            let of_policies = merged([of(user), of(operator)], is_delivery_limit);
            let expected = merged([of_policies, argument], is_delivery_limit);
            let arguments = effective.arguments(queue);
            let shown = arguments.iter().find(|one| one.key == key).and_then(|one| one.value.as_int());
            prop_assert_eq!(shown, expected, "{} of {}", key, name);
            let options = effective.options(queue);
            let own = expected.and_then(|value| u64::try_from(value).ok());
            match key {
                "max-length" => prop_assert_eq!(options.max_length, own),
                "message-ttl" => prop_assert_eq!(options.message_ttl_ms, own),
                "expires" => prop_assert_eq!(options.expires_ms, own),
                // Without one, a quorum queue has a limit of 20.
                _ => prop_assert_eq!(options.delivery_limit, if expected.is_none() { Some(20) } else { own }),
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn effective_arguments_are_those_of_a_naive_reading(
        given in proptest::collection::vec(policies(), 0..8),
        cleared in proptest::collection::vec(any::<proptest::sample::Index>(), 0..3),
        arguments in proptest::collection::btree_map(
            proptest::sample::select(&["max-length", "message-ttl", "expires", "delivery-limit"][..]), 1_i64..5, 0..4),
    ) {
        let mut model = Model::new();
        let arguments: Vec<(&str, i64)> = arguments.into_iter().collect();
        for name in QUEUES {
            let pairs = arguments.iter().map(|(key, value)| (format!("x-{key}"), Value::Int(*value)));
            let quorum = ("x-queue-type".to_owned(), Value::from(QueueType::Quorum.name()));
            let command = Command::DeclareQueue(DeclareQueue::durable("/".into(), name.into(), pairs.chain([quorum]).collect::<Arguments>()));
            let _ = model.submit(Permit::system(), command).expect("it is valid");
        }
        let mut all: Vec<Given> = Vec::new();
        let mut replayed = Model::restore(&model.snapshot()).expect("it can be read");
        let mut submit = |model: &mut Model, command: Command| {
            let submitted = model.submit(Permit::system(), command).expect("it is valid");
            if let Some(record) = submitted.record {
                replayed.replay(&record).expect("it can be read");
            }
        };
        for policy in given {
            let command = Command::SetPolicy(SetPolicy {
                kind: policy.kind,
                vhost: "/".into(),
                name: policy.name.into(),
                pattern: json!(policy.pattern),
                apply_to: Some(json!(policy.apply_to)),
                priority: Some(json!(policy.priority)),
                definition: Json::Object(policy.definition.clone()),
            });
            submit(&mut model, command);
            all.retain(|other| (other.kind, other.name) != (policy.kind, policy.name));
            all.push(policy);
        }
        for index in cleared {
            if let Some(gone) = index.try_index_in(&all) {
                let gone = all.remove(gone);
                let command = Command::ClearPolicy { kind: gone.kind, vhost: "/".into(), name: gone.name.into() };
                submit(&mut model, command);
            }
        }
        check(model.topology(), &all, &arguments)?;
        check(replayed.topology(), &all, &arguments)?;
        let restored = Model::restore(&model.snapshot()).expect("it can be read");
        check(restored.topology(), &all, &arguments)?;
    }
}

trait TryIndex {
    /// The index of an element, unless there is none.
    fn try_index_in<T>(&self, all: &[T]) -> Option<usize>;
}

impl TryIndex for proptest::sample::Index {
    fn try_index_in<T>(&self, all: &[T]) -> Option<usize> {
        (!all.is_empty()).then(|| self.index(all.len()))
    }
}
