//! Receivers over AMQP 1.0 that share a session, or don't read.

use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_strict_client::amqp10::Event;
use leveret_strict_client::amqp091::{Publication, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::Stage;

/// A stage with queues of this many messages each.
fn stage(settings: Settings, queues: &[&str], messages: usize, size: usize) -> Stage {
    let mut stage = Stage::with(settings);
    let link = stage.connect();
    for queue in queues {
        stage.links[link].client.declare_queue(1, queue.as_bytes(), QueueDeclare::default(), &FieldTable::new());
        for _ in 0..messages {
            stage.links[link].client.publish(1, Publication::to_queue(queue.as_bytes(), &vec![7; size]));
        }
        stage.settle();
    }
    stage
}

#[test]
fn a_detached_link_frees_room_for_deliveries_of_others() {
    let settings = Settings { unsettled_max: 4, ..Settings::default() };
    let mut stage = stage(settings, &["a", "b"], 10, 12);
    let mut client = Client10::connect(&mut stage, "guest");
    for (handle, queue) in [(0, "/queues/a"), (1, "/queues/b")] {
        client.client.attach_receiver(CHANNEL, handle, queue, queue, false);
        client.run(&mut stage);
        client.client.grant(CHANNEL, handle, 10, false);
        client.run(&mut stage);
    }
    assert_eq!((client.delivered(0), client.delivered(1)), (4, 0));
    client.client.detach(CHANNEL, 0, true, None);
    client.run(&mut stage);
    assert_eq!(client.delivered(1), 4);
}

/// Otherwise its task would be scheduled again at once, for as long as the client doesn't read.
#[test]
fn a_client_that_does_not_read_causes_no_busy_loop() {
    let mut stage = stage(Settings::default(), &["large"], 1, 300_000);
    let mut client = Client10::connect(&mut stage, "guest");
    client.client.attach_receiver(CHANNEL, 0, "receiver", "/queues/large", false);
    client.run(&mut stage);
    client.client.grant(CHANNEL, 0, 1, false);
    let input = std::mem::take(client.client.output());
    client.connection.receive(&input, stage.now);
    for _ in 0..10 {
        stage.disk_work();
        client.connection.turn(stage.now);
    }
    assert!(client.connection.output().len() > 100_000, "it is on its way");
    assert!(!client.connection.wants_turn());
    client.run(&mut stage);
    assert_eq!(client.delivered(0), 1, "all of it comes once the client reads");
}

#[test]
fn links_take_turns_after_so_many_messages_of_a_queue() {
    let mut stage = stage(Settings { max_queue_credit: 3, ..Settings::default() }, &["a", "b"], 6, 12);
    let mut client = Client10::connect(&mut stage, "guest");
    for (handle, queue) in [(0, "/queues/a"), (1, "/queues/b")] {
        client.client.attach_receiver(CHANNEL, handle, queue, queue, true);
    }
    client.run(&mut stage);
    client.client.grant(CHANNEL, 0, 10, false);
    client.client.grant(CHANNEL, 1, 10, false);
    client.run(&mut stage);
    let handles: Vec<u32> = client
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Delivered(delivery) => Some(delivery.handle),
            _ => None,
        })
        .collect();
    assert_eq!(handles, [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]);
}

/// Links that wait for the client to settle something are checked once per frame of the client, not repeatedly.
#[test]
fn links_that_wait_for_settlements_keep_no_core_busy() {
    const LINKS: u32 = 100;
    let settings = Settings { unsettled_max: 4, ..Settings::default() };
    let mut stage = stage(settings, &["a"], 200, 12);
    let mut client = Client10::connect(&mut stage, "guest");
    for handle in 0..LINKS {
        client.client.attach_receiver(CHANNEL, handle, &handle.to_string(), "/queues/a", false);
    }
    client.run(&mut stage);
    for handle in 0..LINKS {
        client.client.grant(CHANNEL, handle, 1, false);
    }
    client.run(&mut stage);
    let delivered = |client: &Client10| (0..LINKS).map(|handle| client.delivered(handle)).sum::<usize>();
    assert_eq!(delivered(&client), 4);
    let mut next = 4;
    while next < LINKS as usize {
        let ids: Vec<_> = client
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Delivered(delivery) => Some(delivery.delivery_id),
                _ => None,
            })
            .collect();
        client.client.accept(CHANNEL, ids[next - 4], ids[next - 1]);
        client.run(&mut stage);
        next += 4;
        assert_eq!(delivered(&client), next, "what waited goes on");
        assert!(!client.connection.wants_turn());
    }
}
