//! Exchange types beyond those of AMQP 0-9-1: what is declared and bound, refused, and recovered.

use leveret_model::{
    Arguments, Bind, Command, DeclareExchange, DeclareQueue, DestinationName, ExchangeType, Limits, Model, Permit,
    Value,
};

const VHOST: &str = "/";

fn declare(name: &str, kind: &str, arguments: Arguments) -> Command {
    Command::DeclareExchange(DeclareExchange {
        vhost: VHOST.into(),
        name: name.into(),
        kind: kind.into(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments,
    })
}

fn queue(name: &str, kind: &str) -> Command {
    Command::DeclareQueue(DeclareQueue::durable(
        VHOST.into(),
        name.into(),
        Arguments::from_iter([("x-queue-type", Value::from(kind))]),
    ))
}

fn bind(source: &str, destination: DestinationName, key: &str) -> Command {
    Command::Bind(Bind {
        vhost: VHOST.into(),
        source: source.into(),
        destination,
        routing_key: key.as_bytes().into(),
        arguments: Arguments::default(),
        connection: None,
    })
}

fn to_queue(name: &str) -> DestinationName {
    DestinationName::Queue(name.into())
}

/// The reason of a refusal; none if the command is accepted.
fn refused(model: &mut Model, command: Command) -> Option<String> {
    model.submit(Permit::system(), command).err().map(|refused| refused.reply_text())
}

fn accepted(model: &mut Model, commands: impl IntoIterator<Item = Command>) {
    for command in commands {
        assert_eq!(refused(model, command.clone()), None, "{command:?}");
    }
}

#[test]
fn each_type_is_declared_by_its_name_and_recovered() {
    let mut model = Model::new();
    let mut records = Vec::new();
    for kind in ExchangeType::ALL {
        let delayed = (kind == ExchangeType::Delayed).then(|| ("x-delayed-type", Value::from("direct")));
        let submitted =
            model.submit(Permit::system(), declare(kind.name(), kind.name(), delayed.into_iter().collect()));
        records.extend(submitted.expect("it is declared").record);
    }
    let mut replayed = Model::new();
    records.iter().for_each(|record| replayed.replay(record).expect("it is a record"));
    let restored = Model::restore(&model.snapshot()).expect("it is a snapshot");
    for kind in ExchangeType::ALL {
        for model in [&model, &replayed, &restored] {
            assert_eq!(model.topology().exchange(VHOST, kind.name()).expect("it is there").kind, kind);
        }
    }
    let text = String::from_utf8_lossy(&model.snapshot()).into_owned();
    assert!(text.contains("x-consistent-hash"), "a type is recorded by its name on the wire");
}

#[test]
fn an_exchange_hashes_one_thing_that_is_there() {
    let mut model = Model::new();
    let hash = |pairs: &[(&'static str, &'static str)]| {
        let pairs = pairs.iter().map(|(key, value)| (*key, Value::from(*value)));
        declare("x", "x-consistent-hash", pairs.collect())
    };
    let failed = |text: &str| Some(format!("PRECONDITION_FAILED - {text}"));
    let both = hash(&[("hash-header", "h"), ("hash-property", "message_id")]);
    assert_eq!(refused(&mut model, both), failed("hash-header and hash-property are mutually exclusive"));
    assert_eq!(refused(&mut model, hash(&[("hash-property", "app_id")])), failed("Unsupported property: app_id"));
    // As in RabbitMQ, a redeclaration doesn't have to repeat them.
    accepted(&mut model, [hash(&[("hash-header", "h")]), hash(&[]), hash(&[("hash-header", "g")])]);
}

#[test]
fn weights_are_checked_when_a_binding_is_made() {
    let mut model = Model::new();
    accepted(&mut model, [queue("q", "classic"), declare("x", "x-consistent-hash", Arguments::default())]);
    let text = refused(&mut model, bind("x", to_queue("q"), "heavy"));
    assert_eq!(text.as_deref(), Some("PRECONDITION_FAILED - The binding key must be an integer: <<\"heavy\">>"));
    let text = refused(&mut model, bind("x", DestinationName::Exchange("amq.fanout".into()), "0"));
    assert_eq!(text.as_deref(), Some("PRECONDITION_FAILED - The binding key must be greater than 0"));
    assert_eq!(model.topology().bindings_of_source(VHOST, "x").count(), 0);
    accepted(
        &mut model,
        [bind("x", to_queue("q"), "5"), bind("x", DestinationName::Exchange("amq.fanout".into()), "1")],
    );
}

#[test]
fn a_local_random_exchange_takes_classic_queues_without_keys() {
    let mut model = Model::new();
    let kinds = ["classic", "quorum", "stream"];
    accepted(&mut model, kinds.map(|kind| queue(kind, kind)));
    accepted(&mut model, [declare("x", "x-local-random", Arguments::default())]);
    let failed = |text: &str| Some(format!("PRECONDITION_FAILED - {text}"));
    for (destination, key, text) in [
        (to_queue("classic"), "k", "Non empty binding 'k' key not permitted"),
        (to_queue("quorum"), "", "Queue type rabbit_quorum_queue not valid for this exchange type"),
        (to_queue("stream"), "", "Queue type rabbit_stream_queue not valid for this exchange type"),
        (DestinationName::Exchange("amq.fanout".into()), "", "Destination not found"),
    ] {
        assert_eq!(refused(&mut model, bind("x", destination, key)), failed(text));
    }
    accepted(&mut model, [bind("x", to_queue("classic"), "")]);
}

#[test]
fn local_random_exchanges_can_be_forbidden() {
    let mut model = Model::new();
    accepted(&mut model, [declare("old", "x-local-random", Arguments::default())]);
    model.set_limits(Limits { local_random_exchanges: false, ..Limits::default() });
    let text = refused(&mut model, declare("new", "x-local-random", Arguments::default()));
    assert_eq!(text.as_deref(), Some("PRECONDITION_FAILED - x-local-random exchange is disabled by configuration"));
    // One that exists stays, and a redeclaration finds it.
    accepted(
        &mut model,
        [declare("old", "x-local-random", Arguments::default()), declare("r", "x-random", Arguments::default())],
    );
}
