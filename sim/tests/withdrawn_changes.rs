//! Changes of the model whose records their stream withdraws, as a cluster's leader does that is not followed any more.

use std::sync::Arc;

use leveret_broker::queue_handle::{QueueRef, RunState};
use leveret_broker::registry::{ChangeRequest, Changed};
use leveret_broker::streams::StoreId;
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

/// Makes a change, whose record isn't durable yet.
fn change(world: &World, request: ChangeRequest) -> Changed {
    let changed = world.broker.registry.change(request, world.clock.nanos());
    changed.now().expect("this world's answers come at once").expect("it is allowed")
}

/// Declares a queue. Returns it, and whether it is new.
fn declared(world: &World, name: &str, durable: bool) -> (QueueRef, bool) {
    let changed = change(world, ChangeRequest::new(Permit::system(), declare(name, durable)));
    (changed.declared.expect("it was declared"), changed.outcome == CommandOutcome::Created)
}

/// Deletes the queue "old", if it is empty.
fn delete_old(world: &World) -> CommandOutcome {
    let command = DeleteQueue { vhost: "/".into(), name: "old".into(), connection: None, id: None };
    let empty = DeleteIf { empty: true, ..DeleteIf::default() };
    change(world, ChangeRequest::delete_queue(Permit::system(), command, empty)).outcome
}

#[test]
fn staging_begins_anew_from_what_the_stream_keeps() {
    let (mut world, _) = World::start(Arc::new(SimDisk::new()), small_log(), 1).unwrap();
    let (old, _) = declared(&world, "old", true);
    while world.step().unwrap() {}
    world.broker.registry.publish();

    // From here on nothing becomes durable.
    world.still = Some(StoreId::FIRST);
    let registry = &world.broker.registry;
    let (kept_queue, _) = declared(&world, "kept", true);
    let kept = world.broker.streams.local().appended();
    assert_eq!(delete_old(&world), CommandOutcome::Deleted);
    let (new, _) = declared(&world, "new", true);
    // It has no record, but was decided on what is withdrawn.
    let (transient, _) = declared(&world, "transient", false);

    registry.withdraw(kept);
    assert!(
        matches!(new.look(RunState), QueueState::Failed(_))
            && matches!(transient.look(RunState), QueueState::Failed(_))
    );
    assert_eq!((old.look(RunState), kept_queue.look(RunState)), (QueueState::Running, QueueState::Running));
    let (again, is_new) = declared(&world, "kept", true);
    assert!(!is_new && again.info().id == kept_queue.info().id, "it is kept");

    // The queue that was to be deleted can be deleted again, and no id is given twice.
    let (again, is_new) = declared(&world, "new", true);
    assert!(is_new && again.info().id > new.info().id);
    assert_eq!(delete_old(&world), CommandOutcome::Deleted);
    assert_eq!(delete_old(&world), CommandOutcome::Absent);

    registry.withdraw(world.broker.streams.reached(StreamId::LOCAL).expect("it stays").durable);
    assert!(
        matches!(kept_queue.look(RunState), QueueState::Failed(_)),
        "that which was kept before isn't durable either"
    );
    let published = registry.snapshot().generation;
    let (again, is_new) = declared(&world, "old", true);
    assert!(!is_new && again.info().id == old.info().id);
    let (_, is_new) = declared(&world, "kept", true);
    assert!(is_new);
    registry.withdraw(world.broker.streams.reached(StreamId::LOCAL).expect("it stays").durable);
    assert_eq!(registry.snapshot().generation, published, "nothing of it was published");
}
