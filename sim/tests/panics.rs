//! A panic while the log is being changed: nothing is confirmed afterwards, and the node stops.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use leveret_log::{GroupId, Wait};
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::disk::SimDisk;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::Publication;

fn start() -> World {
    World::start(Arc::new(SimDisk::new()), small_log(), 1).expect("it starts").0
}

/// Runs the world until it stops; returns the reason.
fn stopped(world: &mut World) -> String {
    loop {
        match world.step() {
            Ok(true) => {}
            Ok(false) => panic!("the node goes on"),
            Err(failure) => return failure.to_string(),
        }
    }
}

#[test]
fn a_panic_in_the_log_stops_the_node_without_another_confirm() {
    let mut world = start();
    let script = Script::start(&mut world).unwrap();
    let client = &mut world.links[script.link].amqp091().client;
    let flags = leveret_strict_client::amqp091::QueueDeclare { durable: true, ..Default::default() };
    client.declare_queue(CHANNEL, b"q", flags, &Default::default());
    client.confirm_select(CHANNEL);
    client.publish(
        CHANNEL,
        Publication::to_queue(b"q", b"a message").with(&leveret_sim::body::properties(1, true)).mandatory(),
    );
    let stream = world.broker.streams.local().clone();
    // A caller's mistake: there is no such group.
    let log = world.broker.streams.log().clone();
    let result = catch_unwind(AssertUnwindSafe(|| log.commit_group(GroupId::of_stream(77), Wait::Confirm)));
    assert!(result.is_err());
    let durable = stream.watermarks().durable;
    let reason = stopped(&mut world);
    assert!(reason.contains("panicked"), "{reason}");
    assert_eq!(stream.watermarks().durable, durable);
}
