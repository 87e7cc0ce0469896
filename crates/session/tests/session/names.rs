//! Names and arguments of what AMQP 0-9-1 clients declare.

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_strict_client::amqp091::{Event, Publication, QueueDeclare};

use crate::stage::{Stage, Told};
use leveret_broker::queue_handle::Size;

#[test]
fn line_ends_are_no_part_of_a_declared_name() {
    let mut stage = Stage::new();
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    let flags = QueueDeclare::default();
    client.declare_exchange(1, b"e\nx", "direct", false, &FieldTable::new());
    client.declare_queue(1, b"a\r\nb", flags, &FieldTable::new());
    client.bind_queue(1, b"a\nb", b"ex", b"key", &FieldTable::new());
    for name in [&b"ab"[..], b"\ra\nb\r\n"] {
        client.declare_queue(1, name, QueueDeclare { passive: true, ..flags }, &FieldTable::new());
    }
    client.publish(1, Publication::to(b"ex", b"key", b"x").mandatory());
    stage.settle();
    let told = stage.links[link].told();
    let names = told.iter().filter_map(|told| match told {
        Told::Event(Event::QueueDeclared { queue, .. }) => Some(queue.as_slice()),
        _ => None,
    });
    assert_eq!(names.collect::<Vec<_>>(), [b"ab"; 3]);
    let snapshot = stage.broker.registry.snapshot_full();
    assert_eq!(snapshot.queue("/", "ab").expect("is declared").look(Size { used: None }).0, 1);
    assert!(snapshot.topology.exchange("/", "ex").is_some());
}

#[test]
fn every_locator_of_a_leader_that_rabbitmq_knows_is_taken() {
    let mut stage = Stage::new();
    let mut declare = |value: &str| {
        let link = stage.connect();
        let mut arguments = FieldTable::new();
        arguments.insert(b"x-queue-leader-locator", FieldValue::LongString(value.as_bytes().to_vec()));
        let name = format!("q{value}");
        stage.links[link].client.declare_queue(1, name.as_bytes(), QueueDeclare::default(), &arguments);
        stage.settle();
        stage.links[link].refusal()
    };
    for value in ["client-local", "balanced", "random", "least-leaders", "min-masters"] {
        assert_eq!(declare(value), None, "{value}");
    }
    for value in ["nearest", "", "Balanced", "client_local"] {
        let words = format!(
            "PRECONDITION_FAILED - invalid arg 'x-queue-leader-locator' for queue 'q{value}' in vhost '/': \
             invalid_queue_locator_arg"
        );
        assert_eq!(declare(value), Some((406, words)), "{value}");
    }
}
