//! The consuming thread.

use std::sync::atomic::Ordering;
use std::time::Instant;

use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp091::{Client, Consume, Event, QueueDeclare};

use super::CHANNEL;
use crate::BenchError;
use crate::connection::Connection;
use crate::measured::{Consumed, SentAt, histogram};
use crate::message;
use crate::process::thread_cpu_time;
use crate::round::Load;
use crate::scenario::Settings;
use crate::verifier::Verifier;

/// Declares the queue, empties it, starts the consumer.
pub(crate) fn prepare(connection: &mut Connection<Client>, settings: &Settings) -> Result<(), BenchError> {
    // RabbitMQ 4.3 refuses transient queues that aren't exclusive.
    let flags = QueueDeclare { durable: settings.durable, exclusive: !settings.durable, ..QueueDeclare::default() };
    let queue = settings.queue.as_bytes();
    connection.client.declare_queue(CHANNEL, queue, flags, &FieldTable::new());
    connection.wait(|_, event| matches!(event, Event::QueueDeclared { .. }))?;
    connection.client.purge_queue(CHANNEL, queue);
    connection.wait(|_, event| matches!(event, Event::Removed { .. }))?;
    if settings.prefetch > 0 {
        connection.client.qos(CHANNEL, settings.prefetch, false);
    }
    let consume = Consume { no_ack: settings.ack_every == 0, exclusive: false };
    connection.client.consume(CHANNEL, queue, b"bench", consume, &FieldTable::new());
    connection.wait(|_, event| matches!(event, Event::ConsumeOk { .. }))?;
    Ok(())
}

/// Receives and verifies everything.
pub(crate) fn run(
    connection: &mut Connection<Client>,
    settings: &Settings,
    sent_at: &SentAt,
    start: Instant,
) -> Result<Consumed, BenchError> {
    let cpu = thread_cpu_time();
    let mut verifier = Verifier::new(settings.messages);
    let mut latency = histogram();
    let (mut received, mut acked) = (0, 0);
    while !verifier.is_complete() {
        let (client, events) = match connection.read() {
            Ok(read) => read,
            Err(BenchError::Stopped) => return Err(BenchError::Stopped),
            // A silent broker: what is missing is lost, and saying which is worth more.
            Err(error) => return Err(verifier.verdict().map_or(error, BenchError::Void)),
        };
        let now = start.elapsed().as_nanos() as u64;
        for event in events {
            if let Event::Delivered(delivery) = event {
                let sequence = message::read(client.bytes(delivery.body), settings.size);
                verifier.receive(sequence);
                if let Some(sent) = sequence.and_then(|sequence| sent_at.get(sequence as usize)) {
                    latency.saturating_record(now.saturating_sub(sent.load(Ordering::Relaxed)));
                }
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
    let elapsed = start.elapsed();
    if settings.ack_every > 0 && acked < received {
        connection.client.ack(CHANNEL, received, true);
        connection.flush()?;
    }
    match verifier.verdict() {
        Some(fault) => Err(BenchError::Void(fault)),
        None => Ok(Consumed { elapsed, cpu: thread_cpu_time() - cpu, latency }),
    }
}

/// Ends the consumer and deletes the queue. Nothing may come any more, and nothing may be left.
pub(crate) fn finish(mut connection: Connection<Client>, settings: &Settings) -> Result<(), BenchError> {
    connection.client.cancel(CHANNEL, b"bench");
    let mut surplus = 0;
    // RabbitMQ's cancel-ok comes from the queue and may be overtaken by the answer to a pipelined delete.
    connection.wait(|_, event| {
        surplus += u32::from(matches!(event, Event::Delivered(_)));
        matches!(event, Event::CancelOk { .. })
    })?;
    connection.client.delete_queue(CHANNEL, settings.queue.as_bytes());
    if let Event::Removed { message_count, .. } = connection.wait(|_, event| matches!(event, Event::Removed { .. }))? {
        surplus = surplus.max(message_count);
    }
    if surplus > 0 {
        return Err(BenchError::Void(format!(
            "of {} messages {surplus} duplicated: there were more after all had come",
            settings.messages
        )));
    }
    Load::close(connection)
}
