//! The consuming threads.

use leveret_amqp10::message::{BodyRef, Sections};
use leveret_amqp10::performative::Attach;
use leveret_amqp10::value::{OwnedDescribed, OwnedDescriptor, OwnedMap};
use leveret_amqp10::{OwnedValue, Role, SenderSettleMode, Serial, Source, Target, TargetArchetype, Value};
use leveret_strict_client::amqp10::{Client, Event};

use super::{CHANNEL, HANDLE};
use crate::BenchError;
use crate::connection::Connection;
use crate::measured::{ConnectionPart, Consumed, Intake};
use crate::message;
use crate::process::thread_cpu_time;
use crate::settings::Settings;

/// Declares a queue and empties it.
pub(super) fn prepare_queue(
    connection: &mut Connection<Client>,
    settings: &Settings,
    queue: &str,
) -> Result<(), BenchError> {
    connection.manage()?;
    let path = format!("/queues/{queue}");
    let exclusive = settings.is_exclusive();
    let mut arguments = OwnedMap::default();
    if let Some(length) = settings.max_length {
        arguments.push("x-max-length", length);
    }
    if let Some(durability) = settings.durability {
        arguments.push("x-durability", durability.to_string());
    }
    if settings.is_quorum {
        arguments.push("x-queue-type", "quorum");
    }
    if let Some(members) = settings.quorum_members {
        arguments.push("x-quorum-initial-group-size", members);
    }
    if settings.is_stream {
        arguments.push("x-queue-type", "stream");
        // A stream can't be purged.
        connection.request("DELETE", &path, &OwnedValue::Null, &mut 0)?;
    }
    let queue = Client::queue_to_declare(!exclusive, exclusive, false, arguments);
    connection.request("PUT", &path, &queue, &mut 0)?;
    if settings.is_stream {
        return Ok(());
    }
    connection.request("DELETE", &format!("{path}/messages"), &OwnedValue::Null, &mut 0).map(drop)
}

/// Attaches the link and grants credit.
pub(super) fn prepare(connection: &mut Connection<Client>, settings: &Settings, queue: &str) -> Result<(), BenchError> {
    let settled = settings.ack_every == 0;
    let path = format!("/queues/{queue}");
    if settings.is_stream {
        attach_reader(connection, &path, settled);
    } else {
        connection.client.attach_receiver(CHANNEL, HANDLE, "bench consumer", &path, settled);
    }
    connection.attached(HANDLE, false)?;
    connection.client.grant(CHANNEL, HANDLE, settings.prefetch.into(), false);
    connection.flush()
}

/// Attaches a link that reads a stream from its first message on.
fn attach_reader(connection: &mut Connection<Client>, address: &str, settled: bool) {
    let descriptor = OwnedDescriptor::Symbol("rabbitmq:stream-offset-spec".into());
    let value = OwnedValue::String("first".into());
    let first = OwnedValue::Described(Box::new(OwnedDescribed { descriptor, value }));
    let filter = OwnedValue::Map(OwnedMap(vec![(OwnedValue::Symbol("offset".into()), first)])).encoded();
    let Value::Map(filter) = filter.as_value() else { unreachable!("it is a map") };
    let attach = Attach {
        name: "bench consumer",
        handle: HANDLE,
        role: Role::Receiver,
        snd_settle_mode: if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled },
        source: Some(Source { address: Some(address), filter: Some(filter), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target::default())),
        ..Attach::default()
    };
    connection.client.attach(CHANNEL, &attach);
}

/// Receives and verifies until all consumers together have everything.
pub(super) fn run(connection: &mut Connection<Client>, part: ConnectionPart<'_>) -> Result<Consumed, BenchError> {
    let ConnectionPart { settings, tally, .. } = part;
    let cpu = thread_cpu_time();
    let look_every = part.look_every();
    let mut intake = Intake::new(part);
    let credit_low = u32::from(settings.prefetch) / 2;
    // The delivery-ids of this link's messages: the session gets others only before and after.
    let (mut first, mut received) = (None, 0u64);
    let mut accepted = 0;
    while !tally.is_complete() {
        if let Some(patience) = look_every
            && !connection.is_readable_within(patience)?
        {
            if intake.is_over() {
                break;
            }
            if settings.ack_every > 0 && accepted < received {
                accept(connection, first, accepted, received - accepted);
                accepted = received;
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
                intake.take(sequence(client.bytes(delivery.payload), settings.size), now);
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
    if settings.ack_every > 0 && accepted < received {
        accept(connection, first, accepted, received - accepted);
        connection.flush()?;
    }
    intake.finish(thread_cpu_time() - cpu)
}

/// Accepts `count` messages after the first `before`.
fn accept(connection: &mut Connection<Client>, first: Option<Serial>, before: u64, count: u64) {
    if let Some(first) = first {
        let from = first.add(before as u32);
        connection.client.accept(CHANNEL, from, from.add(count as u32 - 1));
    }
}

/// The sequence number in a message, if it is unchanged.
fn sequence(payload: &[u8], size: usize) -> Option<u64> {
    match Sections::parse(payload).ok()?.body {
        BodyRef::Data(data) => message::read(data.single()?, size),
        _ => None,
    }
}

/// Detaches the link; messages that still arrive are unexpected.
pub(super) fn end(connection: &mut Connection<Client>) -> Result<u64, BenchError> {
    connection.client.detach(CHANNEL, HANDLE, true, None);
    let mut surplus = 0;
    connection.wait("the answer to a detach", |_, event| {
        surplus += u64::from(matches!(event, Event::Delivered(_)));
        matches!(event, Event::Detached { handle: HANDLE, .. })
    })?;
    Ok(surplus)
}
