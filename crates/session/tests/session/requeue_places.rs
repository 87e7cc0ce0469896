//! Messages of classic queues that come back keep their places and their priorities, however they come back.

use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp091::{Consume, Publication, QueueDeclare};

use crate::stage::{Stage, Told};

/// A way in which deliveries of channel 1 come back.
#[derive(Debug, Clone, Copy)]
enum Way {
    Nack,
    NackMany,
    Reject,
    Recover,
    CloseChannel,
    Disconnect,
}

const WAYS: [Way; 6] = [Way::Nack, Way::NackMany, Way::Reject, Way::Recover, Way::CloseChannel, Way::Disconnect];

fn delivered(stage: &mut Stage, link: usize) -> String {
    stage.settle();
    let told = stage.links[link].told();
    let bodies = told.iter().filter_map(|told| match told {
        Told::Delivered { body, .. } => Some(body.as_str()),
        _ => None,
    });
    bodies.collect()
}

/// Property flags and list of a persistent message with this priority.
fn properties(priority: u8) -> [u8; 4] {
    [0b0001_1000, 0, 2, priority]
}

/// Delivers the first four of six messages, returns three of these, and delivers all that are there.
fn after_return(way: Way, arguments: &FieldTable) -> (String, String) {
    let mut stage = Stage::new();
    let (link, other) = (stage.connect(), stage.connect());
    let client = &mut stage.links[link].client;
    client.declare_queue(1, b"q", QueueDeclare { durable: true, ..QueueDeclare::default() }, arguments);
    for (body, priority) in [("a", 1), ("b", 0), ("c", 1), ("d", 2), ("e", 0), ("f", 2)] {
        client.publish(1, Publication::to_queue(b"q", body.as_bytes()).with(&properties(priority)));
    }
    stage.settle();
    stage.links[link].told();
    stage.links[link].client.qos(1, 4, false);
    stage.links[link].client.consume(1, b"q", b"tag", Consume::default(), &FieldTable::new());
    let first = delivered(&mut stage, link);
    // One of them leaves; the consumer gets no other one for it.
    stage.links[link].client.cancel(1, b"tag");
    stage.links[link].client.ack(1, 2, false);
    match way {
        Way::Nack => [4, 1, 3].into_iter().for_each(|tag| stage.links[link].client.nack(1, tag, false, true)),
        Way::NackMany => stage.links[link].client.nack(1, 4, true, true),
        Way::Reject => [3, 4, 1].into_iter().for_each(|tag| stage.links[link].client.reject(1, tag, true)),
        Way::Recover => stage.links[link].client.recover(1),
        Way::CloseChannel => stage.links[link].client.close_channel(1),
        Way::Disconnect => {
            stage.settle();
            let now = stage.now;
            stage.links[link].connection.disconnected(now);
        }
    }
    stage.settle();
    stage.links[other].client.consume(1, b"q", b"other", Consume::default(), &FieldTable::new());
    (first, delivered(&mut stage, other))
}

#[test]
fn returned_messages_keep_their_places() {
    for way in WAYS {
        assert_eq!(after_return(way, &FieldTable::new()), ("abcd".into(), "acdef".into()), "{way:?}");
    }
}

#[test]
fn returned_messages_keep_their_priorities_and_places() {
    for way in WAYS {
        let arguments = FieldTable::new().with("x-max-priority", 5);
        assert_eq!(after_return(way, &arguments), ("dfac".into(), "dacbe".into()), "{way:?}");
    }
}

/// Two messages in files of their own, for two channels of a client that doesn't read: the second one waits until the first one is sent.
#[test]
fn a_large_message_of_which_nothing_was_sent_has_not_failed() {
    for is_cut in [true, false] {
        let mut stage = Stage::new();
        let (link, reader) = (stage.connect(), stage.connect());
        let client = &mut stage.links[link].client;
        let quorum = FieldTable::new().with("x-queue-type", "quorum");
        client.declare_queue(1, b"q", QueueDeclare { durable: true, ..QueueDeclare::default() }, &quorum);
        for body in [b'a', b'b'] {
            client.publish(1, Publication::to_queue(b"q", &vec![body; 3_000_000]).with(&properties(0)));
        }
        stage.settle();
        stage.links[link].told();
        stage.links[reader].client.open_channel(2);
        stage.settle();
        stage.links[reader].reads = false;
        for channel in [1, 2] {
            stage.links[reader].client.qos(channel, 1, false);
            stage.links[reader].client.consume(channel, b"q", b"tag", Consume::default(), &FieldTable::new());
            stage.settle();
        }
        match is_cut {
            true => stage.links[reader].connection.disconnected(stage.now),
            false => [1, 2].into_iter().for_each(|channel| stage.links[reader].client.close_channel(channel)),
        }
        stage.settle();
        stage.links[link].client.consume(1, b"q", b"tag", Consume::default(), &FieldTable::new());
        let mut failed = Vec::new();
        let mut all = Vec::new();
        // The second one begins when the first one was sent.
        for _ in 0..10 {
            stage.settle();
            all.extend(stage.links[link].told());
        }
        for told in all {
            if let Told::Delivered { properties, body, .. } = told {
                let name = b"x-delivery-count";
                failed.push((body.as_bytes()[0], properties.windows(name.len()).any(|part| part == name)));
            }
        }
        failed.sort_unstable();
        assert_eq!(failed, [(b'a', true), (b'b', false)], "cut {is_cut}");
    }
}
