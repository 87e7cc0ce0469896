//! Delayed exchanges: what is declared and refused, and the queue that each of them has.

use std::sync::Arc;

use leveret_model::{
    Arguments, Bind, Change, Command, CommandOutcome, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue,
    DestinationName, ExchangeType, Model, Permit, Queue, Value,
};

const VHOST: &str = "/";
const QUEUE: &str = "amq.delayed.x";

fn declare_with(name: &str, durable: bool, arguments: Arguments) -> DeclareExchange {
    DeclareExchange {
        vhost: VHOST.into(),
        name: name.into(),
        kind: "x-delayed-message".into(),
        durable,
        auto_delete: false,
        internal: false,
        arguments,
    }
}

fn declare(name: &str, routing: &'static str) -> Command {
    Command::DeclareExchange(declare_with(name, true, Arguments::from_iter([("x-delayed-type", Value::from(routing))])))
}

fn delete(name: &str) -> Command {
    Command::DeleteExchange(DeleteExchange { vhost: VHOST.into(), name: name.into(), if_unused: false })
}

fn delete_queue(name: &str) -> Command {
    Command::DeleteQueue(DeleteQueue { vhost: VHOST.into(), name: name.into(), connection: None, id: None })
}

fn bind(source: &str, queue: &str, key: &str) -> Command {
    Command::Bind(Bind {
        vhost: VHOST.into(),
        source: source.into(),
        destination: DestinationName::Queue(queue.into()),
        routing_key: key.as_bytes().into(),
        arguments: Arguments::default(),
        connection: None,
    })
}

fn submit(model: &mut Model, command: Command) -> (CommandOutcome, Vec<Change>, Option<Vec<u8>>) {
    let submitted = model.submit(Permit::system(), command).expect("it is accepted");
    (submitted.outcome, submitted.changes, submitted.record)
}

fn refused(model: &mut Model, command: Command) -> String {
    model.submit(Permit::system(), command).expect_err("it is refused").reply_text()
}

fn delay_queue(model: &Model) -> Option<&Arc<Queue>> {
    model.topology().queue(VHOST, QUEUE)
}

#[test]
fn an_exchange_has_a_queue_from_its_declaration_to_its_deletion() {
    let mut model = Model::new();
    let (outcome, _, declared) = submit(&mut model, declare("x", "topic"));
    assert_eq!(outcome, CommandOutcome::Created);
    let exchange = model.topology().exchange(VHOST, "x").expect("it is there").clone();
    assert_eq!((exchange.kind, exchange.routing_type()), (ExchangeType::Delayed, ExchangeType::Topic));
    let queue = delay_queue(&model).expect("it is there").clone();
    assert_eq!(
        (exchange.delay_queue, queue.delays_for.as_deref(), queue.is_logged()),
        (Some(queue.id), Some("x"), true)
    );
    assert!(queue.options.releases);
    let mut replayed = Model::new();
    replayed.replay(&declared.expect("it is logged")).expect("it is a record");
    for model in [&replayed, &Model::restore(&model.snapshot()).expect("it is a snapshot")] {
        assert_eq!(model.topology().exchange(VHOST, "x"), Some(&exchange));
        assert_eq!(delay_queue(model), Some(&queue), "also what follows from its exchange");
        assert_eq!(model.topology().lost_exchange_queues().count(), 0);
    }
    let (_, changes, deleted) = submit(&mut model, delete("x"));
    assert!(changes.iter().any(|change| matches!(change, Change::QueueDeleted(gone) if gone.id == queue.id)));
    replayed.replay(&deleted.expect("it is logged")).expect("it is a record");
    for model in [&model, &replayed] {
        assert_eq!((model.topology().exchange(VHOST, "x"), delay_queue(model)), (None, None));
    }
}

#[test]
fn the_queue_goes_with_an_unbound_exchange_and_with_its_vhost() {
    let mut model = Model::new();
    let arguments = || Arguments::from_iter([("x-delayed-type", Value::from("fanout"))]);
    let auto = DeclareExchange { auto_delete: true, ..declare_with("x", true, arguments()) };
    submit(&mut model, Command::DeclareExchange(auto));
    submit(&mut model, Command::DeclareQueue(DeclareQueue::durable(VHOST.into(), "q".into(), Arguments::default())));
    submit(&mut model, bind("x", "q", ""));
    submit(&mut model, delete_queue("q"));
    assert_eq!((model.topology().exchange(VHOST, "x"), delay_queue(&model)), (None, None), "it lost its last binding");
    submit(&mut model, Command::CreateVhost { name: "other".into() });
    let elsewhere = DeclareExchange { vhost: "other".into(), ..declare_with("x", true, arguments()) };
    submit(&mut model, Command::DeclareExchange(elsewhere));
    let (_, changes, _) = submit(&mut model, Command::DeleteVhost { name: "other".into() });
    assert!(changes.iter().any(|change| matches!(change, Change::QueueDeleted(queue) if &*queue.name == QUEUE)));
    assert_eq!(model.topology().queue_count(), 0);
}

#[test]
fn the_queue_of_a_transient_exchange_is_lost_with_a_restart() {
    let mut model = Model::new();
    let arguments = Arguments::from_iter([("x-delayed-type", Value::from("direct"))]);
    submit(&mut model, Command::DeclareExchange(declare_with("x", false, arguments)));
    assert_eq!(model.topology().lost_exchange_queues().count(), 0);
    let mut restored = Model::restore(&model.snapshot()).expect("it is a snapshot");
    let lost: Vec<_> = restored.topology().lost_exchange_queues().map(|queue| queue.name.clone()).collect();
    assert_eq!(lost, [QUEUE.into()]);
    submit(&mut restored, delete_queue(QUEUE));
    submit(&mut restored, declare("x", "direct"));
    assert_eq!(restored.topology().lost_exchange_queues().count(), 0);
}

#[test]
fn an_exchange_names_the_type_by_which_it_routes() {
    let mut model = Model::new();
    let with = |pairs: Vec<(&'static str, Value)>| {
        Command::DeclareExchange(declare_with("x", true, pairs.into_iter().collect()))
    };
    let failed = |text: &str| format!("PRECONDITION_FAILED - {text}");
    let must = "Invalid argument, 'x-delayed-type' must be an existing exchange type; ";
    assert_eq!(refused(&mut model, with(vec![])), failed(&format!("{must}it is missing")));
    let number = refused(&mut model, with(vec![("x-delayed-type", Value::Int(5))]));
    assert!(number.starts_with(&failed(&format!("{must}received '5' of type"))), "{number}");
    assert_eq!(refused(&mut model, declare("x", "x-nothing")), failed("unknown exchange type 'x-nothing'"));
    let itself = "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'";
    assert_eq!(refused(&mut model, declare("x", "x-delayed-message")), failed(itself));
    let history = "Invalid argument, 'x-recent-history' can't be used for 'x-delayed-type'";
    assert_eq!(refused(&mut model, declare("x", "x-recent-history")), failed(history));
    assert_eq!(model.topology().queue_count(), 0, "nothing is left of them");
    let with_queue = [ExchangeType::Delayed, ExchangeType::RecentHistory, ExchangeType::Deduplication];
    for kind in ExchangeType::ALL.into_iter().filter(|kind| !with_queue.contains(kind)) {
        submit(&mut model, declare(kind.name(), kind.name()));
    }
    // The arguments are those of the named type, too.
    let hash = Value::from("x-consistent-hash");
    let both =
        [("hash-header", Value::from("h")), ("hash-property", Value::from("message_id")), ("x-delayed-type", hash)];
    let text = refused(&mut model, with(both.into_iter().collect()));
    assert_eq!(text, failed("hash-header and hash-property are mutually exclusive"));
    assert_eq!(submit(&mut model, declare("direct", "direct")).0, CommandOutcome::Exists);
    let text = refused(&mut model, declare("direct", "topic"));
    assert!(text.contains("inequivalent arg 'x-delayed-type' for exchange 'direct'"), "{text}");
    let name = "n".repeat(244);
    let text = refused(&mut model, declare(&name, "direct"));
    assert!(text.contains("has 244 bytes, at most 243 are allowed"), "{text}");
    submit(&mut model, declare(&name[1..], "direct"));
}

#[test]
fn clients_leave_the_queue_alone() {
    let mut model = Model::new();
    submit(&mut model, declare("x", "direct"));
    let told = format!(
        "ACCESS_REFUSED - operation not permitted on queue '{QUEUE}' in vhost '/': it holds the delayed messages of exchange 'x', \
         and can only be looked at and purged over HTTP"
    );
    assert_eq!(refused(&mut model, bind("amq.direct", QUEUE, "k")), told);
    let used = model.topology().usable_queue(VHOST, QUEUE, None).expect_err("it isn't for clients");
    assert_eq!(used.reply_text(), told);
    model.topology().visible_queue(VHOST, QUEUE, None).expect("it may be looked at");
}
