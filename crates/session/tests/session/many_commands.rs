//! Many changes of the control plane in one record.

use std::sync::Arc;
use std::thread;

use leveret_broker::ticket::{StreamId, Ticket};
use leveret_model::{Command, CommandOutcome, DeclareQueue, Permit};
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

#[test]
fn commands_in_one_record_survive_a_crash_all_or_none() {
    let mut stage = Stage::new();
    stage.settle();
    let registry = &stage.broker.registry;
    // The log's second copies of earlier commands may not be durable yet.
    let before = Place::new(stage.broker.log(StreamId::LOCAL).inspect(|log| log.appended()));
    let commands: Vec<Command> = (0..100).map(|n| declare(format!("q{n}"), true)).collect();
    let (outcomes, ticket) =
        registry.submit_all(&Permit::system(), &commands, stage.now.monotonic).expect("all are taken");
    assert_eq!(outcomes, [CommandOutcome::Created; 100]);
    assert_eq!(ticket, Ticket::new(StreamId::LOCAL, before.next()));

    // One of the commands is refused: none takes effect.
    let commands = [declare("another".into(), true), declare("q1".into(), false)];
    let refused = registry.submit_all(&Permit::system(), &commands, stage.now.monotonic);
    assert_eq!(refused.expect_err("is inequivalent").0, 1);
    assert!(registry.staged_topology().queue("/", "another").is_none());
}

#[test]
fn commands_of_several_threads_are_all_carried_out() {
    let stage = Stage::new();
    let (broker, now) = (stage.broker.clone(), stage.now.monotonic);
    let threads = (0..4).map(|thread| {
        let broker: Arc<_> = broker.clone();
        thread::spawn(move || {
            for turn in 0..20 {
                let commands: Vec<Command> =
                    (0..25).map(|n| declare(format!("{thread}-{turn}-{n}"), n % 2 == 0)).collect();
                let (outcomes, _) =
                    broker.registry.submit_all(&Permit::system(), &commands, now).expect("all are taken");
                assert_eq!(outcomes, [CommandOutcome::Created; 25]);
                broker.registry.submit(Permit::system(), declare(format!("{thread}-{turn}"), false), now).expect("one");
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("no thread fails"));
    let staged = broker.registry.staged_snapshot();
    assert_eq!((staged.topology.queue_count(), staged.queues.len()), (4 * 20 * 26, 4 * 20 * 26));
}
