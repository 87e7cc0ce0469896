//! Queues that links of AMQP 1.0 declare.

use leveret_amqp10::Symbol;
use leveret_broker::Settings;

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::Stage;

const CAPABILITIES: [Symbol<'static>; 1] = [Symbol::new("temporary-queue")];

/// Attaches a receiver to a queue of its own. Returns its address.
fn attach_dynamic(client: &mut Client10, stage: &mut Stage) -> Option<String> {
    client.attach_dynamic("own", 1, &CAPABILITIES);
    client.run(stage);
    stage.settle();
    client.run(stage);
    assert_eq!(client.refusal(), None);
    client.address.clone()
}

#[test]
fn a_queue_that_one_link_declared_is_not_the_next_link_s_own() {
    for answers_late in [false, true] {
        let settings = Settings { amqp_address_v1: true, answers_late, ..Settings::default() };
        let mut stage = Stage::with(settings);
        let mut client = Client10::connect(&mut stage, "guest");
        client.client.attach_sender(CHANNEL, 0, "sender", Some("/queue/shared"));
        client.run(&mut stage);
        stage.settle();
        client.run(&mut stage);
        assert_eq!(client.refusal(), None);
        let own = attach_dynamic(&mut client, &mut stage).expect("the broker's choice");
        assert!(own.starts_with("/queues/amq.dyn-"), "{own}");
        client.client.detach(CHANNEL, 1, true, None);
        client.run(&mut stage);
        stage.settle();
        client.run(&mut stage);
        let snapshot = stage.broker.registry.snapshot();
        let names: Vec<String> = snapshot.queues_of(["/"]).iter().map(|queue| queue.info().name.to_string()).collect();
        assert_eq!(names, ["shared"]);
    }
}

#[test]
fn a_bound_queue_of_a_link_is_declared_once() {
    for answers_late in [false, true] {
        let settings = Settings { amqp_address_v1: true, answers_late, ..Settings::default() };
        let mut stage = Stage::with(settings);
        let mut client = Client10::connect(&mut stage, "guest");
        client.client.attach_receiver(CHANNEL, 0, "receiver", "/exchange/amq.direct/key", false);
        client.run(&mut stage);
        stage.settle();
        client.run(&mut stage);
        assert_eq!(client.refusal(), None);
        let snapshot = stage.broker.registry.snapshot();
        let queues = snapshot.queues_of(["/"]);
        assert_eq!(queues.len(), 1);
        let destination = queues[0].info().destination();
        assert_eq!(
            snapshot
                .topology
                .bindings_of_destination("/", &destination)
                .filter(|one| &*one.source == "amq.direct")
                .count(),
            1
        );
    }
}
