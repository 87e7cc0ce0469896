use leveret_amqp091::{FieldTable, Properties};
use leveret_strict_client::amqp091::{self, Consume, Event, Publication};

use super::{Role, TOPICS, WINDOW};
use crate::{BODY, QUEUE};

const CHANNEL: u16 = 1;

pub(super) struct Client {
    client: amqp091::Client,
    role: Role,
    exchange: &'static [u8],
    /// Routing keys, used by messages in turn.
    keys: Vec<String>,
    properties: Vec<u8>,
    sent: usize,
    ready: bool,
    done: u64,
    last_tag: u64,
}

impl Client {
    pub(super) fn new(role: Role, durable: bool) -> Self {
        let mut properties = Vec::new();
        Properties { delivery_mode: Some(if durable { 2 } else { 1 }), ..Properties::default() }
            .encode(&mut properties);
        let client = amqp091::Client::new(amqp091::Options::default());
        let keys = vec![QUEUE.to_owned()];
        Self { client, role, exchange: b"", keys, properties, sent: 0, ready: false, done: 0, last_tag: 0 }
    }

    /// Publishes durable messages with many routing keys through a topic exchange.
    pub(super) fn with_topics() -> Self {
        let keys = (0..TOPICS).map(|number| format!("sensor.{number}.value")).collect();
        Self { exchange: b"amq.topic", keys, ..Self::new(Role::Publisher, true) }
    }

    /// Publishes durable messages with a header through a headers exchange.
    pub(super) fn with_header() -> Self {
        let headers = FieldTable::new().with("kind", "invoice").encoded();
        let mut properties = Vec::new();
        Properties { delivery_mode: Some(2), headers: Some(headers.as_table()), ..Properties::default() }
            .encode(&mut properties);
        Self { exchange: b"amq.headers", properties, ..Self::new(Role::Publisher, true) }
    }

    fn begin(&mut self) {
        self.ready = true;
        match self.role {
            Role::Publisher => self.client.confirm_select(CHANNEL),
            Role::Consumer => {
                self.client.qos(CHANNEL, 2 * WINDOW as u16, false);
                let flags = Consume { no_ack: false, exclusive: false };
                self.client.consume(CHANNEL, QUEUE.as_bytes(), b"consumer", flags, &FieldTable::new());
            }
        }
    }
}

impl super::Client for Client {
    fn output(&mut self) -> &mut Vec<u8> {
        self.client.output()
    }

    fn receive(&mut self, input: &[u8]) -> usize {
        let mut events = Vec::new();
        let used = self.client.receive(input, &mut events).expect("the broker keeps to the specification");
        for event in events {
            match event {
                Event::Connected => self.client.open_channel(CHANNEL),
                Event::Confirmed { first, last, positive: true, .. } => self.done += last - first + 1,
                Event::Delivered(delivery) => {
                    self.done += 1;
                    self.last_tag = delivery.delivery_tag;
                }
                _ => {}
            }
        }
        if !self.ready && self.client.is_channel_open(CHANNEL) {
            self.begin();
        }
        used
    }

    fn publish(&mut self) {
        let key = &self.keys[self.sent % self.keys.len()];
        self.client.publish(CHANNEL, Publication::to(self.exchange, key.as_bytes(), BODY).with(&self.properties));
        self.sent += 1;
    }

    fn settle(&mut self) {
        self.client.ack(CHANNEL, self.last_tag, true);
    }

    fn done(&self) -> u64 {
        self.done
    }
}
