use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp091::{self, Consume, Event};

use super::{Role, WINDOW};
use crate::{BODY, QUEUE};

const CHANNEL: u16 = 1;

pub(super) struct Client {
    client: amqp091::Client,
    role: Role,
    /// Property flags and the delivery mode.
    properties: [u8; 3],
    ready: bool,
    done: u64,
    last_tag: u64,
}

impl Client {
    pub(super) fn new(role: Role, durable: bool) -> Self {
        let properties = [0x10, 0, if durable { 2 } else { 1 }];
        let client = amqp091::Client::new(amqp091::Options::default());
        Self { client, role, properties, ready: false, done: 0, last_tag: 0 }
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
        self.client.publish(CHANNEL, b"", QUEUE.as_bytes(), false, &self.properties, BODY);
    }

    fn settle(&mut self) {
        self.client.ack(CHANNEL, self.last_tag, true);
    }

    fn done(&self) -> u64 {
        self.done
    }
}
