//! Many changes of the control plane in one record.

use std::sync::Arc;
use std::thread;

use leveret_broker::registry::{ChangeRequest, ChangeRequests};
use leveret_broker::streams::StoreId;
use leveret_broker::ticket::{StreamId, Ticket};
use leveret_model::{
    Arguments, Command, CommandOutcome, DeclareExchange, DeclareQueue, DeleteExchange, Permit, RefusedKind, Value,
};
use leveret_queue::Place;

use crate::stage::Stage;

fn declare(name: String, durable: bool) -> Command {
    Command::DeclareQueue(DeclareQueue {
        vhost: "/".into(),
        name: name.into(),
        server_named: false,
        durable,
        auto_delete: false,
        exclusive: false,
        connection: None,
        arguments: Default::default(),
    })
}

fn all(commands: impl IntoIterator<Item = Command>) -> ChangeRequests {
    ChangeRequests { permit: Permit::system(), commands: commands.into_iter().collect(), is_new: false }
}

#[test]
fn commands_in_one_record_survive_a_crash_all_or_none() {
    let mut stage = Stage::new();
    stage.settle();
    let registry = &stage.broker.registry;
    // The log's second copies of earlier commands may not be durable yet.
    let before = Place::new(stage.broker.log(StoreId::FIRST).inspect(|log| log.appended()));
    let change = |requests| registry.change_all(requests, stage.now.monotonic).now().expect("answers come at once");
    let changed = change(all((0..100).map(|n| declare(format!("q{n}"), true)))).expect("all are taken");
    assert_eq!(changed.outcomes, [CommandOutcome::Created; 100]);
    let totals = stage.broker.totals();
    assert_eq!((totals.queues_declared, totals.queues_created), (100, 100));
    assert_eq!(changed.ticket, Ticket::new(StreamId::LOCAL, before.next()));

    // One of the commands is refused: none takes effect.
    let refused = change(all([declare("another".into(), true), declare("q1".into(), false)]));
    assert_eq!(refused.map(|changed| changed.ticket).expect_err("is inequivalent").0, 1);
    let another = change(all([declare("another".into(), true)])).expect("is new");
    assert_eq!(another.outcomes, [CommandOutcome::Created]);
}

/// A queue that an exchange keeps its messages in is nobody's to see.
#[test]
fn queues_of_exchanges_arent_counted() {
    for (kind, argument) in [
        ("x-delayed-message", Some(("x-delayed-type", Value::string("fanout")))),
        ("x-recent-history", None),
        ("x-message-deduplication", None),
    ] {
        let mut stage = Stage::new();
        let change = |stage: &Stage, command| {
            let changed = stage.broker.registry.change_all(all([command]), stage.now.monotonic).now().expect("at once");
            changed.expect("it is taken").outcomes
        };
        let declared = DeclareExchange {
            vhost: "/".into(),
            name: "x".into(),
            kind: kind.into(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Arguments::from_iter(argument),
        };
        assert_eq!(change(&stage, Command::DeclareExchange(declared)), [CommandOutcome::Created]);
        stage.settle();
        assert_eq!(stage.broker.registry.snapshot().queues.len(), 1, "its own queue");
        let delete = DeleteExchange { vhost: "/".into(), name: "x".into(), if_unused: false };
        assert_eq!(change(&stage, Command::DeleteExchange(delete)), [CommandOutcome::Deleted]);
        let totals = stage.broker.totals();
        assert_eq!((totals.queues_declared, totals.queues_created, totals.queues_deleted), (0, 0, 0), "{kind}");
    }
}

#[test]
fn a_declaration_that_has_to_be_new_is_refused_if_it_exists() {
    let stage = Stage::new();
    let change = |names: &[&str]| {
        let commands = names.iter().map(|name| declare((*name).into(), true));
        let requests = ChangeRequests { is_new: true, ..all(commands) };
        let changed = stage.broker.registry.change_all(requests, stage.now.monotonic).now().expect("at once");
        changed.map(|changed| changed.outcomes).map_err(|(at, refused)| (at, refused.kind, refused.text))
    };
    assert_eq!(change(&["a"]), Ok(vec![CommandOutcome::Created]));
    let exists = "there is already a queue named a".to_owned();
    assert_eq!(change(&["b", "a"]), Err((1, RefusedKind::AlreadyExists, exists)));
    assert_eq!(change(&["b"]), Ok(vec![CommandOutcome::Created]), "of a refused change nothing is made");
}

#[test]
fn commands_of_several_threads_are_all_carried_out() {
    let stage = Stage::new();
    let (broker, now) = (stage.broker.clone(), stage.now.monotonic);
    let threads = (0..4).map(|thread| {
        let broker: Arc<_> = broker.clone();
        thread::spawn(move || {
            for turn in 0..20 {
                let commands = (0..25).map(|n| declare(format!("{thread}-{turn}-{n}"), n % 2 == 0));
                let changed = broker.registry.change_all(all(commands), now).now().expect("at once");
                assert_eq!(changed.expect("all are taken").outcomes, [CommandOutcome::Created; 25]);
                let one = ChangeRequest::new(Permit::system(), declare(format!("{thread}-{turn}"), false));
                assert!(broker.registry.change(one, now).now().expect("at once").is_ok());
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("no thread fails"));
    let mut stage = stage;
    stage.settle();
    let snapshot = broker.registry.snapshot();
    assert_eq!((snapshot.topology.queue_count(), snapshot.queues.len()), (4 * 20 * 26, 4 * 20 * 26));
}
