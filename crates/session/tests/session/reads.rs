//! Reading back messages whose neighbours are in another log.

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::Settings;
use leveret_broker::queue_handle::Status;
use leveret_queue::WaitReason;
use leveret_strict_client::amqp091::{Consume, Event, Publication, QueueDeclare};

use crate::stage::{Stage, Told};

/// Every second message goes to two queues and is in the shared log: both logs are read once per piece, not once per
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
        stage.links[link].client.publish(1, Publication::to(exchange, key, body.as_bytes()).with(&persistent));
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

#[test]
fn a_queue_reading_its_head_from_disk_counts_as_waiting() {
    let mut stage = Stage::with(Settings { queue_memory_bytes: 1, ..Settings::default() });
    let link = stage.connect();
    let (client, none) = (&mut stage.links[link].client, FieldTable::new());
    client.declare_queue(1, b"q", QueueDeclare { durable: true, ..QueueDeclare::default() }, &none);
    for _ in 0..2_000 {
        client.publish(1, Publication::to_queue(b"q", &[7; 100]).with(&[0x10, 0, 2]));
    }
    stage.settle();
    let waiting = |stage: &Stage| stage.broker.queue_metrics.sums().waiting[WaitReason::Disk as usize];
    assert_eq!(waiting(&stage), 0);
    stage.links[link].client.consume(1, b"q", b"", Consume { no_ack: true, ..Consume::default() }, &none);
    // No consumer reads from it yet.
    while stage.links[link].step(stage.now) {}
    assert_eq!(waiting(&stage), 1);
    stage.settle();
    assert_eq!(waiting(&stage), 0);
}

/// Many queues have a large dead letter at the same moment: only few are in memory at a time, and all are moved.
#[test]
fn few_large_dead_letters_are_in_memory_at_a_time() {
    const QUEUES: u64 = 20;
    const LENGTH: usize = 8 << 20;
    let mut stage = Stage::with(Settings { queue_memory_bytes: 1, ..Settings::default() });
    let link = stage.connect();
    let durable = QueueDeclare { durable: true, ..QueueDeclare::default() };
    let mut dying = FieldTable::new();
    dying.insert("x-dead-letter-exchange", FieldValue::LongString(Vec::new()));
    dying.insert("x-dead-letter-routing-key", FieldValue::LongString(b"to".to_vec()));
    dying.insert("x-message-ttl", FieldValue::I32(1_000));
    stage.links[link].client.declare_queue(1, b"to", durable, &FieldTable::new());
    for at in 0..QUEUES {
        let (name, client) = (format!("from-{at}"), &mut stage.links[link].client);
        client.declare_queue(1, name.as_bytes(), durable, &dying);
        client.publish(1, Publication::to_queue(name.as_bytes(), &vec![7; LENGTH]).with(&[0x10, 0, 2]));
    }
    stage.settle();
    stage.now.monotonic += 2_000_000_000;
    stage.now.wall_ms += 2_000;
    let before = stage.reads;
    // Every queue requests its read before the first one is done.
    while stage.broker.deferred_turn(0, stage.now) {}
    while stage.other_work() {}
    // Four messages reach the 32 MiB that may be in memory, and as many wait in the buffers of the log.
    let read = stage.reads - before;
    assert!((4..=8).contains(&read), "{read} were read while the log was busy");
    stage.settle();
    let snapshot = stage.broker.registry.snapshot_full();
    let status = snapshot.queue("/", "to").expect("it is there").look(Status).expect("it is there");
    assert_eq!((status.ready, status.bytes), (QUEUES, QUEUES * LENGTH as u64));
}

/// Later deliveries of its channel are dropped, since the client would miss a delivery tag.
#[test]
fn an_unreadable_body_ends_its_channel_and_all_queued_behind_it() {
    let mut stage = Stage::with(Settings { body_file_from: 4_096, ..Settings::default() });
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    let none = FieldTable::new();
    for queue in [b"large", b"small"] {
        client.declare_queue(1, queue, QueueDeclare { durable: true, ..QueueDeclare::default() }, &none);
        client.publish(
            1,
            Publication::to_queue(queue, &vec![7; if queue == b"large" { 9_000 } else { 9 }]).with(&[0x10, 0, 2]),
        );
    }
    stage.settle();
    stage.links[link].told();
    stage.links[link].client.consume(1, b"large", b"", Consume::default(), &none);
    let now = stage.now;
    for _ in 0..10 {
        stage.links[link].step(now);
    }
    stage.links[link].client.get(1, b"small", false);
    stage.links[link].client.get(1, b"small", false);
    for _ in 0..10 {
        stage.links[link].step(now);
    }
    assert!(!stage.links[link].told().iter().any(|told| matches!(told, Told::Event(Event::Got { .. }))));
    stage.lose_files("body-");
    stage.settle();
    let told = stage.links[link].told();
    assert_eq!(told.len(), 1, "{told:?}");
    let Told::Event(Event::ChannelClosed { reason, .. }) = &told[0] else { panic!("{told:?}") };
    assert!(reason.text.contains("has crashed and failed to restart"), "{}", reason.text);
    stage.links[link].client.open_channel(1);
    stage.links[link].client.get(1, b"small", false);
    stage.settle();
    assert!(stage.links[link].told().iter().any(|told| matches!(told, Told::Event(Event::Got { .. }))));
}

/// A request from before the broker closed the channel isn't answered: the client may have opened the channel again.
#[test]
fn a_closed_channel_drops_its_request_that_waits_for_the_disk() {
    for question in ["get", "declare"] {
        let mut stage = Stage::with(Settings { body_file_from: 4_096, queue_memory_bytes: 1, ..Settings::default() });
        let link = stage.connect();
        let none = FieldTable::new();
        let durable = QueueDeclare { durable: true, ..QueueDeclare::default() };
        let persistent = [0x10, 0, 2];
        // Only the first of a queue's messages is kept in memory.
        for (queue, length) in [(b"large", 9_000), (b"small", 900), (b"small", 900)] {
            stage.links[link].client.declare_queue(1, queue, durable, &none);
            stage.links[link].client.publish(1, Publication::to_queue(queue, &vec![7; length]).with(&persistent));
            stage.settle();
        }
        stage.links[link].client.get(1, b"small", true);
        stage.settle();
        stage.links[link].told();
        stage.lose_files("body-");
        stage.links[link].client.consume(1, b"large", b"", Consume { no_ack: true, ..Consume::default() }, &none);
        let now = stage.now;
        let step = |stage: &mut Stage| (0..10).fold(false, |moved, _| moved | stage.links[link].step(now));
        step(&mut stage);
        match question {
            "get" => stage.links[link].client.get(1, b"small", true),
            _ => stage.links[link].client.declare_queue(1, b"new", durable, &none),
        }
        step(&mut stage);
        // The read of the body, which was requested first.
        stage.read_one();
        step(&mut stage);
        stage.links[link].client.open_channel(1);
        stage.settle();
        let told = stage.links[link].told();
        let is_closed = |told: &Told| matches!(told, Told::Event(Event::ChannelClosed { .. }));
        assert!(told.iter().any(is_closed), "{question}: {told:?}");
        stage.links[link].client.get(1, b"small", true);
        stage.settle();
        let told = stage.links[link].told();
        let is_got = |told: &Told| matches!(told, Told::Event(Event::Got { .. }));
        assert!(told.iter().any(is_got), "{question}: {told:?}");
    }
}
