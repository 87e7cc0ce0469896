//! Reading messages back whose neighbours stand in another log.

use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_strict_client::amqp091::{Consume, QueueDeclare};

use crate::stage::{Stage, Told};

/// Every second message goes to two queues and stands in the shared log: both logs are read once per piece, not once per
/// message.
#[test]
fn messages_of_two_logs_come_back_in_few_reads() {
    const MESSAGES: usize = 2_000;
    let settings = Settings { queue_memory_bytes: 1, copied_to_queues_max: 1, ..Settings::default() };
    let mut stage = Stage::with(settings);
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    let none = FieldTable::new();
    for queue in [b"a", b"b"] {
        client.declare_queue(1, queue, QueueDeclare { durable: true, ..QueueDeclare::default() }, &none);
        client.bind_queue(1, queue, b"amq.fanout", b"", &none);
    }
    let persistent = [0x10, 0, 2];
    for at in 0..MESSAGES {
        let (exchange, key) = if at % 2 == 0 { (&b"amq.fanout"[..], &b""[..]) } else { (&b""[..], &b"a"[..]) };
        let body = format!("{at:0>100}");
        stage.links[link].client.publish(1, exchange, key, false, &persistent, body.as_bytes());
    }
    stage.settle();
    stage.links[link].told();
    let before = stage.reads;
    let flags = Consume { no_ack: true, ..Consume::default() };
    stage.links[link].client.consume(1, b"a", b"", flags, &none);
    stage.settle();
    let delivered: Vec<usize> = stage.links[link]
        .told()
        .into_iter()
        .filter_map(|told| match told {
            Told::Delivered { body, .. } => Some(body.parse().expect("a number")),
            _ => None,
        })
        .collect();
    assert!(delivered.iter().copied().eq(0..MESSAGES), "{} came", delivered.len());
    let reads = stage.reads - before;
    assert!((1..20).contains(&reads), "{reads} reads");
}
