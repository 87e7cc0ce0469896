//! The consuming threads.

use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp091::{Client, Consume, Event, QueueDeclare};

use super::CHANNEL;
use crate::BenchError;
use crate::connection::Connection;
use crate::measured::{ConnectionPart, Consumed, Intake};
use crate::message;
use crate::process::thread_cpu_time;
use crate::settings::Settings;

/// Declares a queue and empties it.
pub(crate) fn prepare_queue(
    connection: &mut Connection<Client>,
    settings: &Settings,
    queue: &str,
) -> Result<(), BenchError> {
    let exclusive = settings.is_exclusive();
    let flags = QueueDeclare { durable: !exclusive, exclusive, ..QueueDeclare::default() };
    let mut arguments = FieldTable::new();
    if let Some(length) = settings.max_length {
        arguments.insert("x-max-length", length as i64);
    }
    if let Some(durability) = settings.durability {
        arguments.insert("x-durability", durability.to_string());
    }
    if settings.is_quorum {
        arguments.insert("x-queue-type", "quorum");
    }
    if let Some(members) = settings.quorum_members {
        arguments.insert("x-quorum-initial-group-size", i64::from(members));
    }
    if settings.is_stream {
        arguments.insert("x-queue-type", "stream");
        // A stream can't be purged.
        connection.client.delete_queue(CHANNEL, queue.as_bytes());
        connection.wait("queue.delete-ok", |_, event| matches!(event, Event::Removed { .. }))?;
    }
    connection.client.declare_queue(CHANNEL, queue.as_bytes(), flags, &arguments);
    connection.wait("queue.declare-ok", |_, event| matches!(event, Event::QueueDeclared { .. }))?;
    if settings.is_stream {
        return Ok(());
    }
    connection.client.purge_queue(CHANNEL, queue.as_bytes());
    connection.wait("queue.purge-ok", |_, event| matches!(event, Event::Removed { .. })).map(drop)
}

/// Starts the consumer. Deliveries that arrive with the reply are kept for the run.
pub(crate) fn prepare(connection: &mut Connection<Client>, settings: &Settings, queue: &str) -> Result<(), BenchError> {
    if settings.prefetch > 0 {
        connection.client.qos(CHANNEL, settings.prefetch, false);
    }
    let consume = Consume { no_ack: settings.ack_every == 0, exclusive: false };
    let mut arguments = FieldTable::new();
    if settings.is_stream {
        arguments.insert("x-stream-offset", "first");
    }
    connection.client.consume(CHANNEL, queue.as_bytes(), b"bench", consume, &arguments);
    connection.flush()
}

/// Receives and verifies until all consumers together have everything.
pub(crate) fn run(connection: &mut Connection<Client>, part: ConnectionPart<'_>) -> Result<Consumed, BenchError> {
    let ConnectionPart { settings, tally, .. } = part;
    let cpu = thread_cpu_time();
    let look_every = part.look_every();
    let mut intake = Intake::new(part);
    let (mut received, mut acked) = (0, 0);
    while !tally.is_complete() {
        if let Some(patience) = look_every
            && !connection.is_readable_within(patience)?
        {
            if intake.is_over() {
                break;
            }
            if settings.ack_every > 0 && acked < received {
                // Acknowledged, because the other consumers get the messages that this one can't as long as it holds
                // this many.
                acked = received;
                connection.client.ack(CHANNEL, acked, true);
                connection.flush()?;
            }
            if intake.silence() > connection.silence_max() {
                return Err(tally.explain(connection.silent("messages")));
            }
            continue;
        }
        let (client, events) = connection.read().map_err(|error| tally.explain(error))?;
        let now = part.now();
        for event in events {
            if let Event::Delivered(delivery) = event {
                intake.take(message::read(client.bytes(delivery.body), settings.size), now);
                received = delivery.delivery_tag;
            }
        }
        if settings.ack_every > 0 {
            while received - acked >= settings.ack_every {
                acked += settings.ack_every;
                connection.client.ack(CHANNEL, acked, true);
            }
            connection.flush()?;
        }
    }
    if settings.ack_every > 0 && acked < received {
        connection.client.ack(CHANNEL, received, true);
        connection.flush()?;
    }
    intake.finish(thread_cpu_time() - cpu)
}

/// Ends the consumer; messages that still arrive are unexpected.
pub(crate) fn end(connection: &mut Connection<Client>) -> Result<u64, BenchError> {
    connection.client.cancel(CHANNEL, b"bench");
    let mut surplus = 0;
    // RabbitMQ's cancel-ok is sent by the queue and may be overtaken by the reply to a pipelined delete.
    connection.wait("basic.cancel-ok", |_, event| {
        surplus += u64::from(matches!(event, Event::Delivered(_)));
        matches!(event, Event::CancelOk { .. })
    })?;
    Ok(surplus)
}
