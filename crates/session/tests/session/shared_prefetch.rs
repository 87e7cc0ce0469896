//! A prefetch that the consumers of a channel share: `basic.qos` with the flag `global`. The client asserts at each delivery that no
//! more are unacknowledged.

use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_broker::settings::GlobalPrefetch;
use leveret_strict_client::amqp091::{Consume, Publication, QueueDeclare};

use crate::stage::{Stage, Told};

fn delivered(stage: &mut Stage, link: usize) -> usize {
    stage.settle();
    let told = stage.links[link].told();
    told.iter().filter(|told| matches!(told, Told::Delivered { .. })).count()
}

/// A stage with a client that has declared the queues `a` and `b`, and published so many messages to each.
fn with_queues(settings: Settings, messages: usize) -> (Stage, usize) {
    let mut stage = Stage::with(settings);
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    for queue in [b"a", b"b"] {
        client.declare_queue(1, queue, QueueDeclare::default(), &FieldTable::new());
        for _ in 0..messages {
            client.publish(1, Publication::to_queue(queue, b"x"));
        }
    }
    stage.settle();
    stage.links[link].told();
    (stage, link)
}

fn consume(stage: &mut Stage, link: usize, queue: &[u8], tag: &[u8], options: Consume) {
    stage.links[link].client.consume(1, queue, tag, options, &FieldTable::new());
}

#[test]
fn consumers_of_several_queues_share_a_prefetch() {
    let (mut stage, link) = with_queues(Settings::default(), 10);
    stage.links[link].client.qos(1, 3, true);
    for (queue, tag) in [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")] {
        consume(&mut stage, link, queue, tag, Consume::default());
    }
    assert_eq!(delivered(&mut stage, link), 3);
    let mut all = 3;
    for tag in 1..=17 {
        stage.links[link].client.ack(1, tag, false);
        all += delivered(&mut stage, link);
        assert_eq!(all, (tag as usize + 3).min(20), "each acknowledgement lets one more come");
    }
    stage.links[link].client.ack(1, 0, true);
    assert_eq!(delivered(&mut stage, link), 0);
}

#[test]
fn another_channel_and_consumers_without_acks_are_free() {
    let (mut stage, link) = with_queues(Settings::default(), 4);
    stage.links[link].client.qos(1, 1, true);
    consume(&mut stage, link, b"a", b"1", Consume::default());
    assert_eq!(delivered(&mut stage, link), 1);
    consume(&mut stage, link, b"b", b"2", Consume { no_ack: true, ..Consume::default() });
    assert_eq!(delivered(&mut stage, link), 4);
    let other = stage.connect();
    consume(&mut stage, other, b"a", b"3", Consume::default());
    assert_eq!(delivered(&mut stage, other), 3, "messages that the channel has no room for are the others'");
}

#[test]
fn a_changed_limit_counts_what_consumers_hold() {
    let (mut stage, link) = with_queues(Settings::default(), 10);
    stage.links[link].client.get(1, b"b", false);
    consume(&mut stage, link, b"a", b"1", Consume::default());
    assert_eq!(delivered(&mut stage, link), 10, "there was no limit");
    stage.links[link].client.qos(1, 2, true);
    consume(&mut stage, link, b"b", b"2", Consume::default());
    assert_eq!(delivered(&mut stage, link), 0, "more are held already");
    stage.links[link].client.ack(1, 9, true);
    assert_eq!(delivered(&mut stage, link), 0, "tags 10 and 11 are held; the first one was got");
    stage.links[link].client.ack(1, 10, false);
    assert_eq!(delivered(&mut stage, link), 1);
    stage.links[link].client.qos(1, 5, true);
    assert_eq!(delivered(&mut stage, link), 3);
    stage.links[link].client.qos(1, 0, true);
    assert_eq!(delivered(&mut stage, link), 5, "without a limit all come");
}

#[test]
fn the_prefetch_of_a_consumer_counts_beside_the_shared_one() {
    let (mut stage, link) = with_queues(Settings::default(), 10);
    stage.links[link].client.qos(1, 2, false);
    stage.links[link].client.qos(1, 3, true);
    consume(&mut stage, link, b"a", b"1", Consume::default());
    assert_eq!(delivered(&mut stage, link), 2);
    consume(&mut stage, link, b"b", b"2", Consume::default());
    assert_eq!(delivered(&mut stage, link), 1);
}

#[test]
fn acks_of_a_transaction_count_from_its_commit_on() {
    let (mut stage, link) = with_queues(Settings::default(), 5);
    let client = &mut stage.links[link].client;
    client.tx_select(1);
    client.qos(1, 2, true);
    consume(&mut stage, link, b"a", b"1", Consume::default());
    assert_eq!(delivered(&mut stage, link), 2);
    stage.links[link].client.ack(1, 2, true);
    assert_eq!(delivered(&mut stage, link), 0);
    stage.links[link].client.tx_commit(1);
    assert_eq!(delivered(&mut stage, link), 2);
}

#[test]
fn requeued_deliveries_come_again_within_the_prefetch() {
    let (mut stage, link) = with_queues(Settings::default(), 6);
    stage.links[link].client.qos(1, 2, true);
    consume(&mut stage, link, b"a", b"1", Consume::default());
    consume(&mut stage, link, b"b", b"2", Consume::default());
    assert_eq!(delivered(&mut stage, link), 2);
    for tag in [1, 3, 5] {
        stage.links[link].client.nack(1, tag, false, true);
        assert_eq!(delivered(&mut stage, link), 1);
        stage.links[link].client.reject(1, tag + 1, false);
        assert_eq!(delivered(&mut stage, link), 1);
    }
    stage.links[link].client.recover(1);
    assert_eq!(delivered(&mut stage, link), 2);
}

#[test]
fn other_queues_refuse_a_shared_prefetch_only_if_permitted() {
    let quorum = FieldTable::new().with("x-queue-type", "quorum");
    let declare = QueueDeclare { durable: true, ..QueueDeclare::default() };
    for (global_prefetch, expected) in [
        (GlobalPrefetch::Shared, None),
        (GlobalPrefetch::PerConsumer, None),
        (
            GlobalPrefetch::SharedStrictly,
            Some((540, "NOT_IMPLEMENTED - queue 'q' in vhost '/' does not support global qos".to_owned())),
        ),
    ] {
        let mut stage = Stage::with(Settings { global_prefetch, ..Settings::default() });
        let link = stage.connect();
        stage.links[link].client.declare_queue(1, b"q", declare, &quorum);
        stage.links[link].client.qos(1, 2, true);
        for _ in 0..4 {
            stage.links[link].client.publish(1, Publication::to_queue(b"q", b"x"));
        }
        consume(&mut stage, link, b"q", b"1", Consume::default());
        stage.settle();
        if expected.is_none() {
            assert_eq!(delivered(&mut stage, link), 2, "the consumer has it alone");
        }
        assert_eq!(stage.links[link].refusal(), expected, "{global_prefetch:?}");
    }
}

#[test]
fn without_sharing_a_consumer_keeps_its_prefetch() {
    let settings = Settings { global_prefetch: GlobalPrefetch::PerConsumer, ..Settings::default() };
    let (mut stage, link) = with_queues(settings, 10);
    stage.links[link].client.qos(1, 2, true);
    consume(&mut stage, link, b"a", b"1", Consume::default());
    assert_eq!(delivered(&mut stage, link), 2);
    stage.links[link].client.qos(1, 0, true);
    assert_eq!(delivered(&mut stage, link), 0, "a shared one would have ended");
}
