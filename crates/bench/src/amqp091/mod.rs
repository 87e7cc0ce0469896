//! AMQP 0-9-1: one channel for each side.

mod consumer;
mod exchange;
mod publisher;

use std::time::Duration;

use leveret_amqp091::FieldValue;
use leveret_strict_client::Violation;
use leveret_strict_client::amqp091::{Client, Event, Options};

use crate::BenchError;
use crate::connection::{self, Connection, name_of};
use crate::measured::{ConnectionPart, Consumed, Published};
use crate::opening::Opening;
use crate::round::{Load, TargetBroker};
use crate::settings::Settings;

/// The only channel that a connection opens.
pub(crate) const CHANNEL: u16 = 1;

impl connection::Client for Client {
    type Event = Event;

    fn output(&mut self) -> &mut Vec<u8> {
        self.output()
    }

    fn receive(&mut self, input: &[u8], events: &mut Vec<Event>) -> Result<usize, Violation> {
        self.receive(input, events)
    }

    fn send_heartbeat(&mut self) {
        self.send_heartbeat();
    }

    fn heartbeat_every(&self) -> Option<Duration> {
        // Twice in the time after which the broker considers it dead.
        (self.heartbeat() > 0).then(|| Duration::from_secs(self.heartbeat().into()) / 2)
    }

    fn refusal(event: &Event) -> Option<String> {
        match event {
            Event::ConnectionClosed(reason) => Some(format!("closed the connection: {} {}", reason.code, reason.text)),
            Event::ChannelClosed { reason, .. } => Some(format!("closed the channel: {} {}", reason.code, reason.text)),
            Event::Returned { code, .. } => Some(format!("returned a message with code {code}")),
            Event::Confirmed { first, positive: false, .. } => Some(format!("refused publish {first}")),
            Event::ConsumerCancelled { .. } => Some("cancelled the consumer".into()),
            _ => None,
        }
    }

    fn broker_name(event: &Event) -> Option<String> {
        let Event::Started { properties } = event else { return None };
        Some(name_of(|key| properties.lookup(key).and_then(FieldValue::as_str).unwrap_or_default().to_owned()))
    }
}

impl Load for Client {
    fn open(target: &TargetBroker, opening: &Opening<'_>) -> Result<Connection<Self>, BenchError> {
        let uri = &target.uri;
        let mut options = Options {
            user: uri.user.clone(),
            password: uri.password.clone(),
            virtual_host: uri.virtual_host.clone(),
            heartbeat: opening.heartbeat,
            ..Options::default()
        };
        options.properties.insert("product", "leveret bench").insert("connection_name", opening.name);
        let mut connection = Connection::connect(target, opening, Self::new(options))?;
        connection.wait("connection.open-ok", |_, event| matches!(event, Event::Connected))?;
        Self::open_session(&mut connection, 0)?;
        Ok(connection)
    }

    fn open_session(connection: &mut Connection<Self>, number: u16) -> Result<(), BenchError> {
        connection.client.open_channel(CHANNEL + number);
        connection.reply("channel.open-ok")
    }

    fn prepare_queue(connection: &mut Connection<Self>, settings: &Settings, queue: &str) -> Result<(), BenchError> {
        consumer::prepare_queue(connection, settings, queue)
    }

    fn prepare_exchange(connection: &mut Connection<Self>, settings: &Settings) -> Result<(), BenchError> {
        exchange::prepare(connection, settings)
    }

    fn prepare_consumer(connection: &mut Connection<Self>, settings: &Settings, queue: &str) -> Result<(), BenchError> {
        consumer::prepare(connection, settings, queue)
    }

    fn prepare_publisher(connection: &mut Connection<Self>, settings: &Settings, _: &str) -> Result<(), BenchError> {
        publisher::prepare(connection, settings)
    }

    fn publish(connection: &mut Connection<Self>, part: ConnectionPart<'_>) -> Result<Published, BenchError> {
        publisher::run(connection, part)
    }

    fn consume(connection: &mut Connection<Self>, part: ConnectionPart<'_>) -> Result<Consumed, BenchError> {
        consumer::run(connection, part)
    }

    fn end_consumer(connection: &mut Connection<Self>) -> Result<u64, BenchError> {
        consumer::end(connection)
    }

    fn delete_exchange(connection: &mut Connection<Self>, settings: &Settings) -> Result<(), BenchError> {
        exchange::delete(connection, settings)
    }

    fn delete_queue(connection: &mut Connection<Self>, queue: &str) -> Result<u64, BenchError> {
        connection.client.delete_queue(CHANNEL, queue.as_bytes());
        match connection.wait("queue.delete-ok", |_, event| matches!(event, Event::Removed { .. }))? {
            Event::Removed { message_count, .. } => Ok(message_count.into()),
            _ => Ok(0),
        }
    }

    fn close(mut connection: Connection<Self>) -> Result<(), BenchError> {
        connection.client.close("done");
        connection.wait("connection.close-ok", |_, event| matches!(event, Event::ConnectionCloseOk)).map(drop)
    }
}

impl Connection<Client> {
    /// Waits for a reply without values.
    fn reply(&mut self, name: &str) -> Result<(), BenchError> {
        self.wait(name, |_, event| matches!(event, Event::Reply { method, .. } if *method == name)).map(drop)
    }
}
