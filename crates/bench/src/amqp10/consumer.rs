//! The consuming thread.

use std::sync::atomic::Ordering;
use std::time::Instant;

use leveret_amqp10::message::{BodyRef, Sections};
use leveret_amqp10::value::OwnedMap;
use leveret_amqp10::{OwnedValue, Serial};
use leveret_strict_client::amqp10::{Client, Event};

use super::{CHANNEL, HANDLE};
use crate::BenchError;
use crate::connection::Connection;
use crate::measured::{Consumed, SentAt, histogram};
use crate::message;
use crate::process::thread_cpu_time;
use crate::round::Load;
use crate::scenario::Settings;
use crate::verifier::Verifier;

/// Declares the queue, empties it, attaches the link and grants credit.
pub(super) fn prepare(connection: &mut Connection<Client>, settings: &Settings) -> Result<(), BenchError> {
    connection.manage()?;
    let path = format!("/queues/{}", settings.queue);
    // RabbitMQ 4.3 refuses transient queues that aren't exclusive.
    let queue = Client::queue_to_declare(settings.durable, !settings.durable, false, OwnedMap::default());
    connection.request("PUT", &path, &queue, &mut 0)?;
    connection.request("DELETE", &format!("{path}/messages"), &OwnedValue::Null, &mut 0)?;
    let settled = settings.ack_every == 0;
    connection.client.attach_receiver(CHANNEL, HANDLE, "bench consumer", &path, settled);
    connection.attached(HANDLE, false)?;
    connection.client.grant(CHANNEL, HANDLE, settings.prefetch.into(), false);
    connection.flush()
}

/// Receives and verifies everything.
pub(super) fn run(
    connection: &mut Connection<Client>,
    settings: &Settings,
    sent_at: &SentAt,
    start: Instant,
) -> Result<Consumed, BenchError> {
    let cpu = thread_cpu_time();
    let mut verifier = Verifier::new(settings.messages);
    let mut latency = histogram();
    let credit_low = u32::from(settings.prefetch) / 2;
    // The delivery-ids of this link's messages: others come to the session only before and after.
    let (mut first, mut received) = (None, 0u64);
    let mut accepted = 0;
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
                let sequence = sequence(client.bytes(delivery.payload), settings.size);
                verifier.receive(sequence);
                if let Some(sent) = sequence.and_then(|sequence| sent_at.get(sequence as usize)) {
                    latency.saturating_record(now.saturating_sub(sent.load(Ordering::Relaxed)));
                }
                first.get_or_insert(delivery.delivery_id);
                received += 1;
            }
        }
        if settings.ack_every > 0 {
            while received - accepted >= settings.ack_every {
                accept(connection, first, accepted, settings.ack_every);
                accepted += settings.ack_every;
            }
        }
        if connection.client.credit(CHANNEL, HANDLE) <= credit_low {
            connection.client.grant(CHANNEL, HANDLE, settings.prefetch.into(), false);
        }
        connection.flush()?;
    }
    let elapsed = start.elapsed();
    if settings.ack_every > 0 && accepted < received {
        accept(connection, first, accepted, received - accepted);
        connection.flush()?;
    }
    match verifier.verdict() {
        Some(fault) => Err(BenchError::Void(fault)),
        None => Ok(Consumed { elapsed, cpu: thread_cpu_time() - cpu, latency }),
    }
}

/// Accepts `count` messages after the first `before`.
fn accept(connection: &mut Connection<Client>, first: Option<Serial>, before: u64, count: u64) {
    if let Some(first) = first {
        let from = first.add(before as u32);
        connection.client.accept(CHANNEL, from, from.add(count as u32 - 1));
    }
}

/// The sequence number in a message, if it is as it was sent.
fn sequence(payload: &[u8], size: usize) -> Option<u64> {
    match Sections::parse(payload).ok()?.body {
        BodyRef::Data(data) => message::read(data.single()?, size),
        _ => None,
    }
}

/// Detaches the link and deletes the queue. Nothing may come any more, and nothing may be left.
pub(super) fn finish(mut connection: Connection<Client>, settings: &Settings) -> Result<(), BenchError> {
    connection.client.detach(CHANNEL, HANDLE, true, None);
    let mut surplus = 0;
    connection.wait(|_, event| {
        surplus += u32::from(matches!(event, Event::Delivered(_)));
        matches!(event, Event::Detached { handle: HANDLE, .. })
    })?;
    let path = format!("/queues/{}", settings.queue);
    let response = connection.request("DELETE", &path, &OwnedValue::Null, &mut surplus)?;
    surplus = surplus.max(response.number("message_count").unwrap_or_default() as u32);
    if surplus > 0 {
        return Err(BenchError::Void(format!(
            "of {} messages {surplus} duplicated: there were more after all had come",
            settings.messages
        )));
    }
    Load::close(connection)
}
