//! Allocations per message on its way through a broker: a message makes none of its own, only its share of the ones
//! made for each batch. Counted on the thread, around the broker's own calls.

use std::net::SocketAddr;
use std::sync::Arc;

use allocation_counter::measure;
use leveret_amqp10::message::{Header, write_data};
use leveret_amqp091::FieldTable;
use leveret_broker::{Connection, Peer};
use leveret_strict_client::amqp10::{self, Event as Event10, SessionOptions};
use leveret_strict_client::amqp091::{self, Consume, Event as Event091, Publication, QueueDeclare};

use crate::stage::{Nobody, Stage};

const CHANNEL: u16 = 1;
const QUEUE: &str = "allocations";
const MESSAGES: u64 = 20_000;
/// Messages before counting begins: by then the buffers have grown.
const WARM_UP: u64 = 10_000;
/// Largest average of allocations per message; one allocation for each message would make at least 1.
const PER_MESSAGE_MAX: f64 = 0.5;
/// Most bytes of one read of a socket.
const READ_MAX: usize = 32 << 10;
const UNCONFIRMED_MAX: u64 = 500;

/// One end of a link, or a channel, as its client drives it.
trait Actor {
    fn output(&mut self) -> &mut Vec<u8>;
    /// Reads the broker's output, as far as it is complete, and does the work that is due.
    fn receive(&mut self, input: &[u8]) -> usize;
    /// Number of finished messages: confirmed, or received and settled.
    fn done(&self) -> u64;
}

struct Publisher10 {
    client: amqp10::Client,
    payload: Vec<u8>,
    sent: u64,
    confirmed: u64,
}

impl Publisher10 {
    fn new() -> Self {
        let mut payload = Vec::new();
        Header { durable: Some(true), ..Header::default() }.encode(&mut payload);
        write_data(&mut payload, b"twelve bytes");
        Self { client: amqp10::Client::new(amqp10::Options::default()), payload, sent: 0, confirmed: 0 }
    }
}

impl Actor for Publisher10 {
    fn output(&mut self) -> &mut Vec<u8> {
        self.client.output()
    }

    fn receive(&mut self, input: &[u8]) -> usize {
        let mut events = Vec::new();
        let used = self.client.receive(input, &mut events).expect("the broker keeps to the specification");
        for event in events {
            match event {
                Event10::Opened { .. } => self.client.begin(CHANNEL, SessionOptions::default()),
                Event10::Begun { .. } => {
                    self.client.attach_sender(CHANNEL, 0, "publisher", Some(&format!("/queues/{QUEUE}")));
                }
                Event10::Disposition { first, last, .. } => self.confirmed += u64::from(last.since(first)) + 1,
                _ => {}
            }
        }
        while self.client.is_attached(CHANNEL, 0)
            && self.sent < MESSAGES
            && self.sent - self.confirmed < UNCONFIRMED_MAX
            && self.client.credit(CHANNEL, 0) > 0
        {
            let tag = self.sent.to_be_bytes();
            if self.client.send(CHANNEL, 0, &tag, &self.payload, &amqp10::Send::default()).is_none() {
                break;
            }
            self.sent += 1;
        }
        used
    }

    fn done(&self) -> u64 {
        self.confirmed
    }
}

struct Consumer10 {
    client: amqp10::Client,
    received: u64,
}

impl Actor for Consumer10 {
    fn output(&mut self) -> &mut Vec<u8> {
        self.client.output()
    }

    fn receive(&mut self, input: &[u8]) -> usize {
        let mut events = Vec::new();
        let used = self.client.receive(input, &mut events).expect("the broker keeps to the specification");
        let mut settled: Option<(_, _)> = None;
        for event in events {
            match event {
                Event10::Opened { .. } => self.client.begin(CHANNEL, SessionOptions::default()),
                Event10::Begun { .. } => {
                    self.client.attach_receiver(CHANNEL, 0, "consumer", &format!("/queues/{QUEUE}"), false);
                }
                Event10::Attached { .. } => self.client.grant(CHANNEL, 0, 1000, false),
                Event10::Delivered(delivery) => {
                    let id = delivery.delivery_id;
                    settled = Some((settled.map_or(id, |(first, _)| first), id));
                    self.received += 1;
                }
                _ => {}
            }
        }
        if let Some((first, last)) = settled {
            self.client.accept(CHANNEL, first, last);
            if self.client.credit(CHANNEL, 0) < 500 {
                self.client.grant(CHANNEL, 0, 1000, false);
            }
        }
        used
    }

    fn done(&self) -> u64 {
        self.received
    }
}

struct Publisher091 {
    client: amqp091::Client,
    sent: u64,
    ready: bool,
}

impl Actor for Publisher091 {
    fn output(&mut self) -> &mut Vec<u8> {
        self.client.output()
    }

    fn receive(&mut self, input: &[u8]) -> usize {
        let mut events = Vec::new();
        let used = self.client.receive(input, &mut events).expect("the broker keeps to the specification");
        for event in events {
            if event == Event091::Connected {
                self.client.open_channel(CHANNEL);
            }
        }
        if !self.ready && self.client.is_channel_open(CHANNEL) {
            self.client.confirm_select(CHANNEL);
            self.ready = true;
        }
        while self.ready && self.sent < MESSAGES && self.client.unconfirmed(CHANNEL) < UNCONFIRMED_MAX as usize {
            // Delivery mode 2.
            let properties = [0x10, 0, 2];
            self.client.publish(CHANNEL, Publication::to_queue(QUEUE.as_bytes(), b"twelve bytes").with(&properties));
            self.sent += 1;
        }
        used
    }

    fn done(&self) -> u64 {
        self.sent - if self.ready { self.client.unconfirmed(CHANNEL) as u64 } else { 0 }
    }
}

struct Consumer091 {
    client: amqp091::Client,
    received: u64,
    ready: bool,
}

impl Actor for Consumer091 {
    fn output(&mut self) -> &mut Vec<u8> {
        self.client.output()
    }

    fn receive(&mut self, input: &[u8]) -> usize {
        let mut events = Vec::new();
        let used = self.client.receive(input, &mut events).expect("the broker keeps to the specification");
        let before = self.received;
        for event in events {
            match event {
                Event091::Connected => self.client.open_channel(CHANNEL),
                Event091::Delivered(delivery) => self.received = delivery.delivery_tag,
                _ => {}
            }
        }
        if !self.ready && self.client.is_channel_open(CHANNEL) {
            self.client.qos(CHANNEL, 1000, false);
            let flags = Consume { no_ack: false, exclusive: false };
            self.client.consume(CHANNEL, QUEUE.as_bytes(), b"consumer", flags, &FieldTable::new());
            self.ready = true;
        }
        if self.received > before {
            self.client.ack(CHANNEL, self.received, true);
        }
        used
    }

    fn done(&self) -> u64 {
        self.received
    }
}

/// An actor and its connection.
struct Line {
    actor: Box<dyn Actor>,
    connection: Connection,
    unread: Vec<u8>,
    answers: Vec<u8>,
}

/// The total cost of the broker's calls so far.
#[derive(Default)]
struct Cost {
    allocations: u64,
    counts: bool,
}

impl Cost {
    fn of<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let mut result = None;
        let info = measure(|| result = Some(call()));
        if self.counts {
            self.allocations += info.count_total;
        }
        result.expect("it was called")
    }
}

impl Line {
    fn new(stage: &Stage, port: u16, actor: impl Actor + 'static) -> Self {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let peer = Peer::new(address(port), address(5672));
        let connection = stage.broker.accept(&stage.broker.protocols, peer, Arc::new(Nobody), 0, stage.now);
        Self { actor: Box::new(actor), connection, unread: Vec::new(), answers: Vec::new() }
    }

    fn step(&mut self, stage: &Stage, cost: &mut Cost) {
        let Self { actor, connection, unread, answers } = self;
        unread.append(actor.output());
        if connection.wants_read() && !unread.is_empty() {
            let read = unread.len().min(READ_MAX);
            let used = cost.of(|| connection.receive(&unread[..read], stage.now));
            unread.drain(..used);
        }
        cost.of(|| connection.turn(stage.now));
        let output = connection.output();
        let count = output.len();
        answers.extend_from_slice(&output.pending()[..count]);
        if count > 0 {
            cost.of(|| output.written(count));
        }
        let used = actor.receive(answers);
        answers.drain(..used);
    }
}

/// Allocations of the broker per message in the steady state.
fn allocations_per_message(publisher: impl Actor + 'static, consumer: impl Actor + 'static) -> f64 {
    let mut stage = Stage::new();
    let link = stage.connect();
    let durable = QueueDeclare { durable: true, ..QueueDeclare::default() };
    stage.links[link].client.declare_queue(1, QUEUE.as_bytes(), durable, &FieldTable::new());
    stage.settle();
    let mut lines = [Line::new(&stage, 50_001, consumer), Line::new(&stage, 50_002, publisher)];
    let mut cost = Cost::default();
    let mut counted_from = 0;
    for _ in 0..1_000_000 {
        stage.disk_work();
        for line in &mut lines {
            line.step(&stage, &mut cost);
        }
        let done = lines.iter().map(|line| line.actor.done()).min().unwrap_or_default();
        if !cost.counts && done >= WARM_UP {
            cost.counts = true;
            counted_from = done;
        }
        if done == MESSAGES {
            return cost.allocations as f64 / (MESSAGES - counted_from) as f64;
        }
    }
    panic!("{:?} of {MESSAGES} messages came through", lines.map(|line| line.actor.done()));
}

#[test]
fn a_message_of_amqp10_allocates_nothing_of_its_own() {
    let consumer = Consumer10 { client: amqp10::Client::new(amqp10::Options::default()), received: 0 };
    let cost = allocations_per_message(Publisher10::new(), consumer);
    assert!(cost < PER_MESSAGE_MAX, "{cost} allocations per message");
}

#[test]
fn a_message_of_amqp091_allocates_nothing_of_its_own() {
    let client = || amqp091::Client::new(amqp091::Options::default());
    let publisher = Publisher091 { client: client(), sent: 0, ready: false };
    let cost = allocations_per_message(publisher, Consumer091 { client: client(), received: 0, ready: false });
    assert!(cost < PER_MESSAGE_MAX, "{cost} allocations per message");
}
