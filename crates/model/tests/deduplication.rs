//! Queues and exchanges that drop duplicates: what is declared and refused of them.

use leveret_model::{
    Arguments, Command, CommandOutcome, DeclareExchange, DeclareQueue, ExchangeType, Model, Permit, Refused, Value,
};

const VHOST: &str = "/";

fn exchange(name: &str, kind: &str, arguments: &[(&'static str, Value)]) -> Command {
    Command::DeclareExchange(DeclareExchange {
        vhost: VHOST.into(),
        name: name.into(),
        kind: kind.into(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: arguments.iter().cloned().collect(),
    })
}

fn queue(name: &str, arguments: &[(&'static str, Value)]) -> Command {
    let arguments = arguments.iter().cloned().collect::<Arguments>();
    Command::DeclareQueue(DeclareQueue::durable(VHOST.into(), name.into(), arguments))
}

fn submit(model: &mut Model, command: Command) -> Result<CommandOutcome, Refused> {
    model.submit(Permit::system(), command).map(|submitted| submitted.outcome)
}

fn refused(model: &mut Model, command: Command) -> String {
    submit(model, command).expect_err("it is refused").reply_text()
}

const ON: (&str, Value) = ("x-message-deduplication", Value::Bool(true));

#[test]
fn an_exchange_has_a_queue_from_its_declaration_to_its_deletion() {
    let mut model = Model::new();
    let arguments = [ON, ("x-cache-size", Value::Int(7)), ("x-cache-ttl", Value::Int(500))];
    assert_eq!(submit(&mut model, exchange("x", "topic", &arguments)), Ok(CommandOutcome::Created));
    let found = model.topology().exchange(VHOST, "x").expect("it is there").clone();
    let own = model.topology().queue(VHOST, "amq.unique.x").expect("it is there").clone();
    assert_eq!((found.routing_type(), found.delay_queue), (ExchangeType::Topic, Some(own.id)));
    let rules = own.options.deduplication.as_ref().expect("it drops duplicates");
    assert_eq!((rules.size, rules.ttl_ms, &*rules.header), (7, Some(500), "x-deduplication-header"));
    assert_eq!(found.deduplication().as_ref(), Some(rules));
    assert!(own.options.releases && own.options.changes_messages);
    let restored = Model::restore(&model.snapshot()).expect("it is a snapshot");
    assert_eq!(restored.topology().queue(VHOST, "amq.unique.x"), Some(&own), "also what follows from its arguments");
    assert_eq!(submit(&mut model, exchange("x", "topic", &arguments)), Ok(CommandOutcome::Exists));
    let text = refused(&mut model, exchange("x", "topic", &[ON]));
    assert!(text.contains("inequivalent arg 'x-cache-size' for exchange 'x'"), "{text}");
    // The type of the plugin.
    assert_eq!(submit(&mut model, exchange("y", "x-message-deduplication", &[])), Ok(CommandOutcome::Created));
    let found = model.topology().exchange(VHOST, "y").expect("it is there").clone();
    let own = model.topology().queue(VHOST, "amq.unique.y").expect("it is there").clone();
    assert_eq!(found.routing_type(), ExchangeType::Fanout);
    assert_eq!(own.options.deduplication.as_ref().map(|rules| rules.size), Some(128));
    let restored = Model::restore(&model.snapshot()).expect("it is a snapshot");
    assert_eq!(restored.topology().queue(VHOST, "amq.unique.y"), Some(&own));
    let used = model.topology().usable_queue(VHOST, "amq.unique.y", None).expect_err("it isn't for clients");
    assert!(used.reply_text().contains("it holds the new messages of exchange 'y'"), "{used:?}");
}

#[test]
fn wrong_arguments_of_exchanges_are_refused() {
    let mut model = Model::new();
    for (arguments, expected) in [
        (vec![("x-message-deduplication", Value::Int(1))], "'x-message-deduplication' must be a boolean; received '1'"),
        (vec![ON, ("x-cache-size", Value::Int(0))], "'x-cache-size' must be an integer greater than 0; received '0'"),
        (
            vec![ON, ("x-cache-size", Value::from("9"))],
            "'x-cache-size' must be an integer greater than 0; received '9'",
        ),
        (vec![ON, ("x-cache-size", Value::Int(100_001))], "'x-cache-size' is at most 100000; received '100001'"),
        (vec![ON, ("x-cache-ttl", Value::Int(-1))], "'x-cache-ttl' must be an integer greater than 0; received '-1'"),
        (vec![ON, ("x-deduplication-header", Value::from(""))], "must be the name of a header"),
    ] {
        let text = refused(&mut model, exchange("x", "direct", &arguments));
        assert!(text.contains(expected), "{text}");
    }
    for kind in ["x-recent-history", "x-delayed-message"] {
        let text = refused(&mut model, exchange("x", kind, &[ON, ("x-delayed-type", Value::from("direct"))]));
        assert!(text.contains(&format!("'x-message-deduplication' can't be used with '{kind}'")), "{text}");
    }
    let delayed = [("x-delayed-type", Value::from("x-message-deduplication"))];
    let text = refused(&mut model, exchange("x", "x-delayed-message", &delayed));
    assert!(text.contains("'x-message-deduplication' can't be used for 'x-delayed-type'"), "{text}");
    assert_eq!(model.topology().queue_count(), 0, "nothing is left of them");
    // Without it they mean nothing.
    submit(&mut model, exchange("x", "direct", &[("x-cache-size", Value::Int(0))])).expect("it is accepted");
    assert_eq!(model.topology().queue_count(), 0);
}

#[test]
fn queues_have_them_and_streams_refuse_them() {
    let mut model = Model::new();
    for kind in ["classic", "quorum"] {
        let kind_of = ("x-queue-type", Value::from(kind));
        let arguments = [kind_of.clone(), ON, ("x-deduplication-header", Value::from("id"))];
        submit(&mut model, queue(kind, &arguments)).expect("it is accepted");
        let options = &model.topology().queue(VHOST, kind).expect("it is there").options;
        let rules = options.deduplication.as_ref().expect("it drops duplicates");
        assert_eq!((rules.size, rules.ttl_ms, &*rules.header, options.changes_messages), (128, None, "id", true));
        let text = refused(&mut model, queue(kind, &[kind_of.clone(), ON]));
        assert!(text.contains("inequivalent arg 'x-deduplication-header'"), "{text}");
        for (wrong, value) in [("x-cache-size", 0), ("x-cache-size", 100_001), ("x-cache-ttl", 0)] {
            let text = refused(&mut model, queue("q", &[kind_of.clone(), ON, (wrong, Value::Int(value))]));
            assert!(text.contains(&format!("invalid arg '{wrong}'")), "{text}");
        }
    }
    let text = refused(&mut model, queue("s", &[("x-queue-type", Value::from("stream")), ON]));
    assert!(text.contains("x-message-deduplication"), "{text}");
}

#[test]
fn a_queue_compares_ids_or_the_numbers_of_publishers() {
    const NUMBERS: (&str, Value) = ("x-publisher-deduplication", Value::Bool(true));
    let mut model = Model::new();
    for kind in ["classic", "quorum"] {
        let kind_of = ("x-queue-type", Value::from(kind));
        submit(&mut model, queue(kind, &[kind_of.clone(), NUMBERS])).expect("it is accepted");
        let options = &model.topology().queue(VHOST, kind).expect("it is there").options;
        assert!(options.numbers_publishers && options.changes_messages && options.deduplication.is_none());
        let text = refused(&mut model, queue(kind, std::slice::from_ref(&kind_of)));
        assert!(text.contains("inequivalent arg 'x-publisher-deduplication'"), "{text}");
        let text = refused(&mut model, queue("q", &[kind_of.clone(), ON, NUMBERS]));
        assert!(text.contains("a queue compares either ids or the numbers of publishers"), "{text}");
        let off = (NUMBERS.0, Value::Bool(false));
        submit(&mut model, queue(&format!("{kind}.ids"), &[kind_of, ON, off])).expect("only one of them is on");
    }
    let text = refused(&mut model, queue("s", &[("x-queue-type", Value::from("stream")), NUMBERS]));
    assert!(text.contains("x-publisher-deduplication"), "{text}");
    let text = refused(&mut model, queue("q", &[(NUMBERS.0, Value::Int(1))]));
    assert!(text.contains("invalid arg 'x-publisher-deduplication'"), "{text}");
}
