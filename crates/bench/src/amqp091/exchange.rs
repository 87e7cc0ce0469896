//! The exchange of a load with its bindings.

use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp091::{Client, Event};

use super::CHANNEL;
use crate::BenchError;
use crate::connection::Connection;
use crate::round::Load;
use crate::route::{self, Headers};
use crate::settings::Settings;

/// Most pipelined requests: the replies to all of them fit into the broker's socket.
const PIPELINED_MAX: u32 = 1000;
/// Channels that create many bindings: RabbitMQ takes a millisecond for each, one after the other per channel.
const CHANNELS: u16 = 16;

/// Declares the exchange, replacing an existing one, and binds the queues.
pub(super) fn prepare(connection: &mut Connection<Client>, settings: &Settings) -> Result<(), BenchError> {
    let name = settings.exchange.name();
    delete(connection, settings)?;
    // Not durable: its bindings needn't outlive the run.
    connection.client.declare_exchange(CHANNEL, name.as_bytes(), settings.exchange.kind(), false, &FieldTable::new());
    connection.reply("exchange.declare-ok")?;
    let channels = if settings.bindings > PIPELINED_MAX { CHANNELS } else { 1 };
    for number in 1..channels {
        Client::open_session(connection, number)?;
    }
    let mut open = 0;
    for (binding, number) in route::bindings(settings).zip((0..channels).cycle()) {
        let (queue, arguments) = (settings.queue(binding.queue), arguments(&binding.headers));
        let (queue, key) = (queue.as_bytes(), binding.key.as_bytes());
        connection.client.bind_queue(CHANNEL + number, queue, name.as_bytes(), key, &arguments);
        open += 1;
        if open == PIPELINED_MAX {
            bound(connection, open)?;
            open = 0;
        }
    }
    bound(connection, open)
}

fn arguments(headers: &Headers) -> FieldTable {
    let mut arguments = FieldTable::new();
    if !headers.is_empty() {
        arguments.insert("x-match", "all");
    }
    for (name, value) in headers {
        arguments.insert(name, value.as_str());
    }
    arguments
}

/// Waits for this many replies; one read may return several.
fn bound(connection: &mut Connection<Client>, mut open: u32) -> Result<(), BenchError> {
    connection.flush()?;
    while open > 0 {
        let (_, events) = connection.read()?;
        let is_answer = |event: &&Event| matches!(event, Event::Reply { method: "queue.bind-ok", .. });
        open -= events.iter().filter(is_answer).count() as u32;
    }
    Ok(())
}

/// Deletes the exchange, which may not exist.
pub(super) fn delete(connection: &mut Connection<Client>, settings: &Settings) -> Result<(), BenchError> {
    connection.client.delete_exchange(CHANNEL, settings.exchange.name().as_bytes());
    connection.reply("exchange.delete-ok")
}
