//! Thousands of consumers on a channel: an action of one of them makes no work for all.

use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp091::{Consume, Publication, QueueDeclare};

use crate::stage::{Stage, Told};
use leveret_broker::queue_handle::Size;

const CONSUMERS: u64 = 2_000;

#[test]
fn one_acknowledgement_settles_what_thousands_of_consumers_hold() {
    let mut stage = Stage::new();
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    client.qos(1, 1, false);
    for consumer in 0..CONSUMERS {
        let tag = consumer.to_string();
        client.consume(1, b"q", tag.as_bytes(), Consume::default(), &FieldTable::new());
    }
    for _ in 0..2 * CONSUMERS {
        client.publish(1, Publication::to_queue(b"q", b"x"));
    }
    stage.settle();
    let mut delivered = 0;
    let mut count = |stage: &mut Stage| {
        delivered +=
            stage.links[link].told().iter().filter(|told| matches!(told, Told::Delivered { .. })).count() as u64;
        delivered
    };
    assert_eq!(count(&mut stage), CONSUMERS);
    stage.links[link].client.ack(1, CONSUMERS, true);
    stage.settle();
    assert_eq!(count(&mut stage), 2 * CONSUMERS, "each has its next one");
    // Closing the channel requeues the other deliveries in order and removes every consumer.
    stage.links[link].client.close_channel(1);
    stage.settle();
    let queue = stage.broker.registry.snapshot_full().queue("/", "q").expect("is declared").clone();
    assert_eq!(queue.look(Size { used: None }), (CONSUMERS, 0));
}
