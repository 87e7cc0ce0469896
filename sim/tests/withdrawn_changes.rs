//! Changes of the model whose records their stream withdraws, as a cluster's leader does that is not followed any more.

use std::sync::Arc;

use leveret_broker::ticket::StreamId;
use leveret_model::{Command, CommandOutcome, DeclareQueue, DeleteQueue, Permit};
use leveret_queue::{DeleteIf, QueueState};
use leveret_sim::disk::SimDisk;
use leveret_sim::world::{World, small_log};

fn declare(name: &str, durable: bool) -> Command {
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

fn submit(world: &World, command: Command) {
    let submitted = world.broker.registry.submit(Permit::system(), command, world.clock.nanos());
    assert!(!matches!(submitted.expect("it is allowed").outcome, CommandOutcome::Absent));
}

fn names(world: &World) -> Vec<String> {
    let snapshot = world.broker.registry.staged_snapshot();
    snapshot.queues_of(["/"]).iter().map(|queue| queue.info().name.to_string()).collect()
}

#[test]
fn staging_begins_anew_from_what_the_stream_keeps() {
    let (mut world, _) = World::start(Arc::new(SimDisk::new()), small_log(), 1).unwrap();
    submit(&world, declare("old", true));
    while world.step().unwrap() {}
    world.broker.registry.publish();

    // From here on nothing becomes durable.
    world.still = Some(StreamId::LOCAL);
    let registry = &world.broker.registry;
    submit(&world, declare("kept", true));
    let kept = world.broker.streams.local().appended();
    let old = registry.staged_snapshot().queue("/", "old").cloned().unwrap();
    let command = DeleteQueue { vhost: "/".into(), name: "old".into(), connection: None };
    let empty = DeleteIf { empty: true, ..DeleteIf::default() };
    registry.delete_queue(Permit::system(), command, empty, None, world.clock.nanos()).expect("it is empty");
    submit(&world, declare("new", true));
    // It has no record, but was decided on what is withdrawn.
    submit(&world, declare("transient", false));
    assert_eq!(names(&world), ["kept", "new", "transient"]);
    let new = registry.staged_snapshot().queue("/", "new").cloned().unwrap();

    registry.withdraw(kept);
    assert_eq!(names(&world), ["kept", "old"]);
    assert!(matches!(new.state(), QueueState::Failed(_)));
    assert_eq!(old.state(), QueueState::Running);

    // The queue that was to be deleted can be deleted again, and no id is given twice.
    submit(&world, declare("new", true));
    let again = registry.staged_snapshot().queue("/", "new").cloned().unwrap();
    assert!(again.info().id > new.info().id);
    let command = DeleteQueue { vhost: "/".into(), name: "old".into(), connection: None };
    registry.delete_queue(Permit::system(), command, empty, None, world.clock.nanos()).expect("it is open again");
    assert_eq!(names(&world), ["kept", "new"]);

    registry.withdraw(world.broker.streams.reached(StreamId::LOCAL).durable);
    assert_eq!(names(&world), ["old"], "that which was kept before isn't durable either");
    assert_eq!(registry.staged_snapshot().generation, registry.snapshot().generation);
}
