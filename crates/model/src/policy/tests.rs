use serde_json::json;

use super::*;
use crate::{Arguments, Command, CommandOutcome, DeclareQueue, Model, Overflow, Permit, QueueOptions};

fn set(model: &mut Model, kind: PolicyKind, name: &str, fields: Value) -> Result<CommandOutcome, String> {
    let field = |key: &str| fields.get(key).cloned();
    let command = Command::SetPolicy(SetPolicy {
        kind,
        vhost: "/".into(),
        name: name.into(),
        pattern: field("pattern").unwrap_or(json!("")),
        apply_to: field("apply-to"),
        priority: field("priority"),
        definition: field("definition").unwrap_or(json!({"max-length": 1})),
    });
    model.submit(Permit::system(), command).map(|submitted| submitted.outcome).map_err(|refused| refused.text)
}

fn refused(kind: PolicyKind, fields: Value) -> String {
    let text = set(&mut Model::new(), kind, "p", fields).expect_err("it is wrong");
    text.strip_prefix("Validation failed\n\n").expect("RabbitMQ's words").trim_end().to_owned()
}

fn declare(model: &mut Model, name: &str, arguments: &[(&'static str, crate::Value)]) {
    let command = Command::DeclareQueue(DeclareQueue::durable(
        "/".into(),
        name.into(),
        Arguments::from_iter(arguments.iter().cloned()),
    ));
    let _ = model.submit(Permit::system(), command).expect("it is valid");
}

/// The effective options of a queue, and where each argument comes from.
fn effective(model: &Model, name: &str) -> (QueueOptions, Vec<(&'static str, String, ValueSource)>) {
    let topology = model.topology();
    let queue = topology.queue("/", name).expect("it is declared");
    let effective = topology.effective_queue(queue, &[]);
    let shown = effective.arguments(queue);
    let shown = shown.into_iter().map(|one| (one.key, one.value.to_string(), one.source)).collect();
    (effective.options(queue).clone(), shown)
}

fn policy_of(model: &Model, name: &str) -> Option<String> {
    let topology = model.topology();
    let queue = topology.queue("/", name).expect("it is declared");
    topology.effective_queue(queue, &[]).matched.policy.as_ref().map(|policy| policy.name.to_string())
}

#[test]
fn the_highest_priority_applies_and_the_first_name_of_a_tie() {
    let mut model = Model::new();
    declare(&mut model, "orders", &[]);
    for (name, priority, pattern) in [("b", 1, "^ord"), ("a", 1, "ers$"), ("c", 0, ""), ("d", 9, "^other")] {
        let fields = json!({"pattern": pattern, "priority": priority});
        assert_eq!(set(&mut model, PolicyKind::User, name, fields), Ok(CommandOutcome::Created));
    }
    assert_eq!(policy_of(&model, "orders").as_deref(), Some("a"));
    let fields = json!({"pattern": "ers$", "priority": -1});
    assert_eq!(set(&mut model, PolicyKind::User, "a", fields.clone()), Ok(CommandOutcome::Updated));
    assert_eq!(set(&mut model, PolicyKind::User, "a", fields), Ok(CommandOutcome::Exists));
    assert_eq!(policy_of(&model, "orders").as_deref(), Some("b"));
    let clear = Command::ClearPolicy { kind: PolicyKind::User, vhost: "/".into(), name: "b".into() };
    let _ = model.submit(Permit::system(), clear).expect("it is there");
    assert_eq!(policy_of(&model, "orders").as_deref(), Some("c"), "the empty pattern matches every name");
}

#[test]
fn a_policy_applies_to_its_type_of_queues_and_never_partly() {
    let mut model = Model::new();
    for queue_type in QueueType::ALL {
        declare(&mut model, queue_type.name(), &[("x-queue-type", queue_type.name().into())]);
    }
    let applies = |fields: Value| {
        let mut model = model.clone();
        set(&mut model, PolicyKind::User, "p", fields).expect("it is valid");
        QueueType::ALL.map(|queue_type| policy_of(&model, queue_type.name()).is_some())
    };
    let length = json!({"max-length-bytes": 5});
    for (apply_to, expected) in [
        ("all", [true, true, true]),
        ("queues", [true, true, true]),
        ("classic_queues", [true, false, false]),
        ("quorum_queues", [false, true, false]),
        ("streams", [false, false, true]),
        ("exchanges", [false, false, false]),
    ] {
        assert_eq!(applies(json!({"apply-to": apply_to, "definition": length})), expected, "{apply_to}");
    }
    for (definition, expected) in [
        (json!({"delivery-limit": 5, "max-length": 1}), [false, true, false]),
        (json!({"max-age": "1h", "max-length-bytes": 1}), [false, false, true]),
        (json!({"message-ttl": 5, "max-length-bytes": 1}), [true, true, false]),
        (json!({"queue-mode": "lazy"}), [true, false, false]),
    ] {
        assert_eq!(applies(json!({"definition": definition})), expected, "{definition}");
    }
}

#[test]
fn wrong_values_are_refused_in_rabbitmqs_words() {
    let user = |definition: Value| refused(PolicyKind::User, json!({"definition": definition}));
    assert_eq!(user(json!({})), "no policy provided");
    assert_eq!(user(json!({"max-length": -1})), "-1 is not a valid maximum length");
    assert_eq!(user(json!({"max-length": "a"})), "<<\"a\">> is not a valid maximum length");
    assert_eq!(user(json!({"expires": 0})), "0 is not a valid queue expiry");
    assert_eq!(user(json!({"overflow": "none"})), "<<\"none\">> is not a valid overflow value");
    assert_eq!(user(json!({"max-age": "1x"})), "<<\"1x\">> is not a valid max age");
    assert_eq!(
        user(json!({"nonsense": 1, "ha-mode": "all", "max-length": 5})),
        "[{<<\"ha-mode\">>,<<\"all\">>},{<<\"nonsense\">>,1}] are not recognised policy settings"
    );
    assert_eq!(
        user(json!({"nonsense": 1, "delayed-retry-min": 0, "max-length": -5})),
        "-5 is not a valid maximum length"
    );
    assert_eq!(
        refused(PolicyKind::Operator, json!({"definition": {"dead-letter-exchange": "x"}})),
        "[{<<\"dead-letter-exchange\">>,<<\"x\">>}] are not recognised policy settings"
    );
    let text = refused(
        PolicyKind::User,
        json!({"pattern": "(", "apply-to": "topics", "priority": "high", "definition": {"expires": 0}}),
    );
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "0 is not a valid queue expiry");
    assert!(lines[1].starts_with("apply-to 'topics' unrecognised; should be one of: 'queues', "), "{text}");
    assert!(lines[2].starts_with("pattern should be regular expression but is invalid: "), "{text}");
    assert_eq!(lines[3], "priority should be a number, actually was <<\"high\">>");
    assert!(
        refused(PolicyKind::User, json!({"priority": 1.5}))
            .starts_with("priority should be a number, actually was 1.5")
    );
    assert_eq!(refused(PolicyKind::User, json!({"pattern": 5})), "pattern should be a binary but was 5");
}

#[test]
fn arguments_and_policies_merge_by_the_rules_of_each_key() {
    let mut model = Model::new();
    let quorum = [
        ("x-queue-type", crate::Value::from("quorum")),
        ("x-max-length", crate::Value::Int(10)),
        ("x-message-ttl", crate::Value::Int(500)),
        ("x-overflow", "drop-head".into()),
        ("x-dead-letter-exchange", "own".into()),
        ("x-delivery-limit", crate::Value::Int(5)),
    ];
    declare(&mut model, "q", &quorum);
    let definition = json!({
        "max-length": 20, "message-ttl": 400, "overflow": "reject-publish", "dead-letter-exchange": "theirs",
        "dead-letter-routing-key": "key", "delivery-limit": -1,
    });
    set(&mut model, PolicyKind::User, "p", json!({"definition": definition})).expect("it is valid");
    let (options, _) = effective(&model, "q");
    assert_eq!((options.max_length, options.message_ttl_ms), (Some(10), Some(400)));
    assert_eq!(options.overflow, Overflow::RejectPublish);
    let dead_letter = options.dead_letter.expect("it has an exchange");
    assert_eq!((&*dead_letter.exchange, dead_letter.routing_key.as_deref()), ("own", Some("key")));
    assert_eq!(options.delivery_limit, Some(5), "the higher one, since one is negative");
    let limits = json!({"max-length": 3, "message-ttl": 450, "overflow": "drop-head", "delivery-limit": 4});
    set(&mut model, PolicyKind::Operator, "o", json!({"definition": limits})).expect("it is valid");
    let (options, shown) = effective(&model, "q");
    assert_eq!((options.max_length, options.message_ttl_ms), (Some(3), Some(400)));
    assert_eq!((options.overflow, options.delivery_limit), (Overflow::DropHead, Some(4)));
    use ValueSource::{Argument, OperatorPolicy, Policy};
    let expected = [
        ("dead-letter-exchange", "own", Argument),
        ("dead-letter-routing-key", "key", Policy),
        ("delivery-limit", "4", OperatorPolicy),
        ("max-length", "3", OperatorPolicy),
        ("message-ttl", "400", Policy),
        ("overflow", "drop-head", OperatorPolicy),
    ];
    assert_eq!(shown, expected.map(|(key, value, source)| (key, value.to_owned(), source)));
}

#[test]
fn an_overflow_of_classic_queues_is_that_of_the_argument() {
    let mut model = Model::new();
    declare(&mut model, "with", &[("x-overflow", "drop-head".into()), ("x-max-length", crate::Value::Int(1))]);
    declare(&mut model, "without", &[("x-max-length", crate::Value::Int(1))]);
    let definition = json!({"overflow": "reject-publish-dlx"});
    set(&mut model, PolicyKind::User, "p", json!({"definition": definition})).expect("it is valid");
    assert_eq!(effective(&model, "with").0.overflow, Overflow::DropHead);
    assert_eq!(effective(&model, "without").0.overflow, Overflow::RejectPublishDlx);
}

#[test]
fn policies_of_streams_win_against_their_arguments() {
    let mut model = Model::new();
    let arguments =
        [("x-queue-type", "stream".into()), ("x-max-age", "1h".into()), ("x-max-length-bytes", crate::Value::Int(100))];
    declare(&mut model, "s", &arguments);
    let definition = json!({"max-age": "1D", "max-length-bytes": 1000, "stream-filter-size-bytes": 32});
    set(&mut model, PolicyKind::User, "p", json!({"definition": definition})).expect("it is valid");
    let (options, _) = effective(&model, "s");
    assert_eq!((options.max_age_ms, options.max_length_bytes), (Some(86_400_000), Some(1000)));
    assert_eq!(options.stream_filter_bytes, 32);
}

#[test]
fn the_definition_of_both_policies_has_the_values_that_win() {
    let mut model = Model::new();
    declare(&mut model, "q", &[("x-queue-type", "quorum".into())]);
    let user = json!({"max-length": 5, "delayed-retry-min": 10, "delayed-retry-max": 100, "target-group-size": 3, "expires": 9});
    let operator = json!({"max-length": 7, "delayed-retry-min": 20, "delayed-retry-max": 50, "target-group-size": 5, "delivery-limit": -1});
    set(&mut model, PolicyKind::User, "p", json!({"definition": user})).expect("it is valid");
    set(&mut model, PolicyKind::Operator, "o", json!({"definition": operator})).expect("it is valid");
    let topology = model.topology();
    let queue = topology.queue("/", "q").expect("it is declared");
    let merged = topology.effective_queue(queue, &[]).matched.definition();
    let expected = json!({
        "max-length": 5, "delayed-retry-min": 20, "delayed-retry-max": 50, "target-group-size": 5, "expires": 9,
        "delivery-limit": -1,
    });
    assert_eq!(Value::Object(merged), expected);
}

#[test]
fn policies_survive_replay_and_snapshot() {
    let mut model = Model::new();
    let mut again = Model::new();
    let policy = |kind, name: &str, length: u64| {
        Command::SetPolicy(SetPolicy {
            kind,
            vhost: "/".into(),
            name: name.into(),
            pattern: json!("^q{1,2}$"),
            apply_to: Some(json!("queues")),
            priority: Some(json!(7)),
            definition: json!({"max-length": length}),
        })
    };
    let commands = [
        policy(PolicyKind::User, "p", 1),
        policy(PolicyKind::Operator, "p", 2),
        policy(PolicyKind::User, "p", 3),
        policy(PolicyKind::User, "gone", 4),
        Command::ClearPolicy { kind: PolicyKind::User, vhost: "/".into(), name: "gone".into() },
    ];
    for command in commands {
        let submitted = model.submit(Permit::system(), command).expect("it is valid");
        again.replay(&submitted.record.expect("it is logged")).expect("it can be read");
    }
    let restored = Model::restore(&model.snapshot()).expect("it can be read");
    let all = |model: &Model| {
        let policies = PolicyKind::ALL.into_iter().flat_map(|kind| model.topology().policies(kind, "/").cloned());
        policies.map(|policy| (*policy).clone()).collect::<Vec<_>>()
    };
    assert_eq!(all(&model).len(), 2);
    assert_eq!(all(&again), all(&model));
    assert_eq!(all(&restored), all(&model));
    assert_eq!(all(&model)[0].definition["max-length"], 3);
}

#[test]
fn an_alternate_exchange_by_policy_follows_every_change() {
    let mut model = Model::new();
    let declare = |model: &mut Model, name: &str, alternate: Option<&str>| {
        let alternate = alternate.map(|alternate| ("alternate-exchange", crate::Value::from(alternate)));
        let command = Command::DeclareExchange(crate::DeclareExchange {
            vhost: "/".into(),
            name: name.into(),
            kind: "direct".to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: alternate.into_iter().collect(),
        });
        let submitted = model.submit(Permit::system(), command).expect("it is valid");
        alternates(&submitted.changes)
    };
    fn alternates(changes: &[crate::Change]) -> Vec<(String, Option<String>)> {
        let changed = changes.iter().filter_map(|change| match change {
            crate::Change::AlternateChanged(exchange, alternate) => {
                Some((exchange.name.to_string(), alternate.as_deref().map(str::to_owned)))
            }
            _ => None,
        });
        changed.collect()
    }
    declare(&mut model, "x-own", Some("own"));
    declare(&mut model, "x-1", None);
    let mut policy = |command| alternates(&model.submit(Permit::system(), command).expect("it is valid").changes);
    let set = |name: &str, priority: i64, definition: Value| {
        Command::SetPolicy(SetPolicy {
            kind: PolicyKind::User,
            vhost: "/".into(),
            name: name.into(),
            pattern: json!("^x-"),
            apply_to: None,
            priority: Some(json!(priority)),
            definition,
        })
    };
    let to = |alternate: Option<&str>| vec![("x-1".to_owned(), alternate.map(str::to_owned))];
    assert_eq!(policy(set("a", 1, json!({"alternate-exchange": "first"}))), to(Some("first")));
    assert_eq!(policy(set("a", 1, json!({"alternate-exchange": "second"}))), to(Some("second")));
    assert_eq!(policy(set("a", 1, json!({"alternate-exchange": "second", "max-length": 5}))), []);
    assert_eq!(policy(set("b", 2, json!({"max-length": 5}))), to(None), "one policy applies, not two");
    let clear = |name: &str| Command::ClearPolicy { kind: PolicyKind::User, vhost: "/".into(), name: name.into() };
    assert_eq!(policy(clear("b")), to(Some("second")));
    assert_eq!(declare(&mut model, "x-2", None), [("x-2".to_owned(), Some("second".to_owned()))]);
}
