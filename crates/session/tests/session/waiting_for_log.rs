//! Publishers that wait for the log: none waits for room without being registered for a wake-up, and publishers send
//! less while their consumers wait for the disk.

use leveret_amqp10::message::write_data;
use leveret_amqp091::{FieldTable, Properties};
use leveret_broker::Settings;
use leveret_broker::ticket::StreamId;
use leveret_strict_client::amqp10::Send;
use leveret_strict_client::amqp091::{Consume, Event, Publication, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::{Stage, Told};

/// A body that passes through the log's buffer as a whole.
static BODY: [u8; 200 << 10] = [b'x'; 200 << 10];

fn persistent() -> Vec<u8> {
    let mut properties = Vec::new();
    Properties { delivery_mode: Some(2), ..Properties::default() }.encode(&mut properties);
    properties
}

impl Stage {
    /// Connections of publishers that can fill the log's buffer.
    pub(crate) fn fillers(&mut self) -> Vec<usize> {
        (0..6).map(|_| self.connect()).collect()
    }

    /// Fills the log's buffer from these publishers, with messages to the queue `q`, while the disk does nothing.
    pub(crate) fn fill_log(&mut self, fillers: Vec<usize>) {
        for filler in fillers {
            for _ in 0..21 {
                self.links[filler].client.publish(1, Publication::to_queue(b"q", &BODY).with(&persistent()));
            }
            for _ in 0..21 {
                self.links[filler].step(self.now);
            }
        }
        assert!(!self.broker.streams.has_room(StreamId::LOCAL), "the buffer is full");
    }
}

/// A stage with the durable queue `q` and a connection with confirms.
fn stage() -> (Stage, usize) {
    let mut stage = Stage::new();
    let publisher = stage.connect();
    let client = &mut stage.links[publisher].client;
    client.declare_queue(1, b"q", QueueDeclare { durable: true, ..QueueDeclare::default() }, &FieldTable::new());
    client.confirm_select(1);
    stage.settle();
    (stage, publisher)
}

#[test]
fn a_publisher_is_read_until_it_has_registered() {
    let (mut stage, publisher) = stage();
    let confirmed = |tag| Told::Event(Event::Confirmed { channel: 1, first: tag, last: tag, positive: true });
    stage.links[publisher].client.publish(1, Publication::to_queue(b"q", b"1").with(&persistent()));
    stage.settle();
    assert!(stage.links[publisher].told().contains(&confirmed(1)));

    // All its own publishes are durable, so it didn't register; then others take the room.
    let fillers = stage.fillers();
    stage.fill_log(fillers);
    assert!(stage.links[publisher].connection.wants_read(), "nobody would tell it when there is room again");
    stage.links[publisher].client.publish(1, Publication::to_queue(b"q", b"2").with(&persistent()));
    stage.links[publisher].step(stage.now);
    assert!(!stage.links[publisher].connection.wants_read(), "now it waits, and has left word");
    stage.settle();
    assert_eq!(stage.links[publisher].told(), [confirmed(2)]);
}

#[test]
fn a_sender_is_read_until_it_has_registered() {
    let (mut stage, _) = stage();
    let mut sender = Client10::connect(&mut stage, "guest");
    sender.client.attach_sender(CHANNEL, 0, "sender", Some("/queues/q"));
    sender.run(&mut stage);
    let mut message = Vec::new();
    write_data(&mut message, b"1");
    let send = |sender: &mut Client10, tag: &[u8]| {
        sender.client.send(CHANNEL, 0, tag, &message, &Send::default());
        std::mem::take(sender.client.output())
    };
    let first = send(&mut sender, b"1");
    assert_eq!(sender.connection.receive(&first, stage.now), first.len());
    sender.run(&mut stage);

    let fillers = stage.fillers();
    stage.fill_log(fillers);
    assert!(sender.connection.wants_read(), "nobody would tell it when there is room again");
    let second = send(&mut sender, b"2");
    assert_eq!(sender.connection.receive(&second, stage.now), 0);
    assert!(!sender.connection.wants_read(), "now it waits, and has left word");
    stage.settle();
    sender.connection.turn(stage.now);
    assert!(sender.connection.wants_read());
    assert_eq!(sender.connection.receive(&second, stage.now), second.len());
}

/// Number of messages of 10 kB that a connection publishes before it is no longer read, to a queue whose messages have
/// left memory, while the disk does nothing.
fn published_at_once(consume: Option<Consume>) -> usize {
    let mut stage = Stage::with(Settings { queue_memory_bytes: 1, ..Settings::default() });
    let (publisher, consumer) = (stage.connect(), stage.connect());
    let none = FieldTable::new();
    let durable = QueueDeclare { durable: true, ..QueueDeclare::default() };
    stage.links[publisher].client.declare_queue(1, b"q", durable, &none);
    for _ in 0..500 {
        stage.links[publisher].client.publish(1, Publication::to_queue(b"q", &BODY[..10_000]).with(&persistent()));
    }
    stage.settle();
    if let Some(consume) = consume {
        let client = &mut stage.links[consumer].client;
        client.qos(1, 1, false);
        client.consume(1, b"q", b"", consume, &none);
        // The second consumer may have one message only, and gets it.
        while stage.links[consumer].step(stage.now) {}
        if !consume.no_ack {
            stage.settle();
        }
    }
    (1..=600)
        .find(|_| {
            stage.links[publisher].client.publish(1, Publication::to_queue(b"q", &BODY[..10_000]).with(&persistent()));
            stage.links[publisher].step(stage.now);
            !stage.links[publisher].connection.wants_read()
        })
        .expect("it is held back at 4 MiB")
}

#[test]
fn a_publisher_leaves_the_disk_to_consumers_that_wait_for_it() {
    let everything = Consume { no_ack: true, ..Consume::default() };
    let usual = published_at_once(None);
    assert!((400..500).contains(&usual), "{usual}: 4 MiB");
    let behind = published_at_once(Some(everything));
    assert!((20..40).contains(&behind), "{behind}: a sixteenth");
    assert_eq!(
        published_at_once(Some(Consume::default())),
        usual,
        "a consumer that has what it may have waits for nothing"
    );
}
