use leveret_amqp10::message::{Header, MapSection, MessageId, Properties, write_data, write_map_section};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{Serial, Symbol};
use leveret_strict_client::amqp10::{self, Event, Send, SessionOptions};

use super::{Role, WINDOW};
use crate::{BODY, QUEUE};

const CHANNEL: u16 = 0;
const HANDLE: u32 = 0;
const CREDIT: u32 = 10 * WINDOW as u32;

pub(super) struct Client {
    client: amqp10::Client,
    role: Role,
    payload: Vec<u8>,
    sent: u64,
    done: u64,
    unsettled: Option<(Serial, Serial)>,
}

impl Client {
    pub(super) fn new(role: Role, durable: bool) -> Self {
        Self::with_properties(role, durable, &[])
    }

    /// A publisher of durable messages with user and creation time, like those of client libraries.
    pub(super) fn with_names() -> Self {
        let mut properties = Vec::new();
        let message_id = Some(MessageId::String("1f0c9a52-9d7b-4b7e-a9c5-0d2f4d3f8a11"));
        let content_type = Some(Symbol::new("application/octet-stream"));
        Properties { message_id, content_type, creation_time: Some(1_764_000_000_000), ..Properties::default() }
            .encode(&mut properties);
        let mut map = EncodedMap::new();
        map.push("SendTime", 1_764_000_000_000i64);
        write_map_section(&mut properties, MapSection::ApplicationProperties, map.as_map());
        Self::with_properties(Role::Publisher, true, &properties)
    }

    fn with_properties(role: Role, durable: bool, properties: &[u8]) -> Self {
        let mut payload = Vec::new();
        Header { durable: Some(durable), ..Header::default() }.encode(&mut payload);
        payload.extend_from_slice(properties);
        write_data(&mut payload, BODY);
        let client = amqp10::Client::new(amqp10::Options::default());
        Self { client, role, payload, sent: 0, done: 0, unsettled: None }
    }

    fn attach(&mut self) {
        let address = format!("/queues/{QUEUE}");
        match self.role {
            Role::Publisher => self.client.attach_sender(CHANNEL, HANDLE, "publisher", Some(&address)),
            Role::Consumer => self.client.attach_receiver(CHANNEL, HANDLE, "consumer", &address, false),
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
                Event::Opened { .. } => self.client.begin(CHANNEL, SessionOptions::default()),
                Event::Begun { .. } => self.attach(),
                Event::Attached { .. } if self.role == Role::Consumer => {
                    self.client.grant(CHANNEL, HANDLE, CREDIT, false);
                }
                Event::Disposition { first, last, settled: true, .. } => self.done += u64::from(last.since(first)) + 1,
                Event::Delivered(delivery) => {
                    self.done += 1;
                    let first = self.unsettled.map_or(delivery.delivery_id, |(first, _)| first);
                    self.unsettled = Some((first, delivery.delivery_id));
                }
                _ => {}
            }
        }
        used
    }

    fn publish(&mut self) {
        self.sent += 1;
        let tag = (self.sent as u32).to_be_bytes();
        let sent = self.client.send(CHANNEL, HANDLE, &tag, &self.payload, &Send::default());
        let (credit, room) = (self.client.credit(CHANNEL, HANDLE), self.client.window(CHANNEL));
        assert!(sent.is_some(), "no room for message {}: credit {credit}, session window {room}", self.sent);
    }

    fn settle(&mut self) {
        if let Some((first, last)) = self.unsettled.take() {
            self.client.accept(CHANNEL, first, last);
        }
        if self.client.credit(CHANNEL, HANDLE) < CREDIT / 2 {
            self.client.grant(CHANNEL, HANDLE, CREDIT, false);
        }
    }

    fn done(&self) -> u64 {
        self.done
    }
}
