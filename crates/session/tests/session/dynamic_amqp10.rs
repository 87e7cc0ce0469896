//! Queues that links of AMQP 1.0 declare.

use leveret_amqp10::Symbol;
use leveret_amqp10::value::OwnedMap;
use leveret_broker::Settings;
use leveret_model::{Command, SetPermissions};
use leveret_strict_client::amqp10::{Client, ManagementRequest, SessionOptions};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::Stage;

const CAPABILITIES: [Symbol<'static>; 1] = [Symbol::new("temporary-queue")];

/// Attaches a receiver to a queue of its own. Returns its address.
fn attach_dynamic(client: &mut Client10, stage: &mut Stage) -> Option<String> {
    client.attach_dynamic(CHANNEL, "own", 1, &CAPABILITIES);
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

/// Lets `guest` configure queues by these names only.
fn restrict(stage: &mut Stage, configure: &str) {
    stage.command(Command::SetPermissions(SetPermissions {
        user: "guest".into(),
        vhost: "/".into(),
        configure: configure.into(),
        write: ".*".into(),
        read: ".*".into(),
    }));
}

#[test]
fn an_ended_session_s_queue_is_not_the_next_link_s_own() {
    let mut stage = Stage::new();
    restrict(&mut stage, "own|amq.*");
    let mut client = Client10::connect(&mut stage, "guest");
    client.client.begin(1, SessionOptions::default());
    client.client.attach_management(CHANNEL, 2);
    client.run(&mut stage);
    // The session ends with the second request's answer, which waits for the first one's: the attach is held until then.
    for (id, path) in [(1, "/queues/own"), (2, "/queues/forbidden")] {
        let declaration = Client::queue_to_declare(true, false, false, OwnedMap::default());
        client.client.request(CHANNEL, 2, &ManagementRequest { id, method: "PUT", path, body: &declaration });
    }
    client.attach_dynamic(CHANNEL, "first", 1, &CAPABILITIES);
    client.run(&mut stage);
    assert_eq!(client.refusal().as_deref(), Some("amqp:unauthorized-access"));
    client.attach_dynamic(1, "second", 1, &CAPABILITIES);
    client.run(&mut stage);
    stage.settle();
    client.run(&mut stage);
    let own = client.address.as_deref().expect("the broker's choice");
    assert!(own.contains("second"), "{own}");
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
