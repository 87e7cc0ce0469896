//! The publishing threads.

use std::sync::atomic::Ordering;

use leveret_amqp10::Role;
use leveret_amqp10::message::write_data;
use leveret_strict_client::amqp10::{Client, Event, Send};

use super::{CHANNEL, HANDLE};
use crate::BenchError;
use crate::connection::Connection;
use crate::measured::{ConnectionPart, Published, WRITE_MAX, histogram, unconfirmed};
use crate::message::Writer;
use crate::pace::Pace;
use crate::process::thread_cpu_time;
use crate::route;
use crate::settings::{Exchange, Settings};
use crate::tally::sequence;

/// Attaches the link and waits for credit.
pub(super) fn prepare(connection: &mut Connection<Client>, settings: &Settings, queue: &str) -> Result<(), BenchError> {
    let address = match &addresses(settings, queue)[..] {
        [address] => Some(address.clone()),
        // Each message has an address of its own.
        _ => None,
    };
    connection.client.attach_sender(CHANNEL, HANDLE, "bench publisher", address.as_deref());
    connection.attached(HANDLE, true)
}

/// The addresses for messages to a queue, in turn.
fn addresses(settings: &Settings, queue: &str) -> Vec<String> {
    let exchange = settings.exchange.name();
    let address = |key: &String| match settings.exchange {
        Exchange::Default => format!("/queues/{queue}"),
        _ if key.is_empty() => format!("/exchanges/{exchange}"),
        _ => format!("/exchanges/{exchange}/{key}"),
    };
    route::keys(settings, queue).iter().map(address).collect()
}

/// The sections before the body, for each address.
fn heads(settings: &Settings, queue: &str) -> Vec<Vec<u8>> {
    let addresses = addresses(settings, queue);
    let headers = route::headers(settings, queue);
    let head = |address: &String| {
        let to = (addresses.len() > 1).then_some(address.as_str());
        settings.properties.encode_amqp10(settings.durable, to, &headers)
    };
    addresses.iter().map(head).collect()
}

/// Publishes its part and waits for the outcomes.
pub(super) fn run(connection: &mut Connection<Client>, part: ConnectionPart<'_>) -> Result<Published, BenchError> {
    let settings = part.settings;
    let cpu = thread_cpu_time();
    let pace = Pace::of(settings, part.number);
    let heads = heads(settings, part.queue);
    let mut heads = heads.iter().cycle();
    let mut payload = Vec::new();
    let options = Send { settled: settings.confirm_window == 0, ..Send::default() };
    let mut writer = Writer::new(settings.size);
    let mut confirm_latency = histogram();
    let window = if options.settled { u64::MAX } else { settings.confirm_window.into() };
    let (mut sent, mut confirmed) = (0u64, 0);
    loop {
        let mut blocked = false;
        let mut count = part.count(sent, part.now());
        let mut due = pace.due_within(part.now()).min(count);
        while !blocked && sent < due && sent - confirmed < window {
            let (now, before) = (part.now(), sent);
            while sent < due && sent - confirmed < window && connection.client.output().len() < WRITE_MAX {
                // Credit is checked beforehand, since sending reports missing credit only after the body was written.
                if connection.client.credit(CHANNEL, HANDLE) == 0 {
                    blocked = true;
                    break;
                }
                payload.clear();
                payload.extend_from_slice(heads.next().expect("there is at least one"));
                write_data(&mut payload, writer.write(sequence(part.number, sent)));
                part.sent_at(sent).store(pace.due_at(sent, now), Ordering::Relaxed);
                let tag = (sent as u32).to_be_bytes();
                if connection.client.send(CHANNEL, HANDLE, &tag, &payload, &options).is_none() {
                    blocked = true;
                    break;
                }
                sent += 1;
            }
            connection.flush()?;
            part.tally.add_sent(sent - before);
            count = part.count(sent, now);
            due = pace.due_within(now).max(due).min(count);
        }
        if sent == count && (options.settled || confirmed == sent) {
            break;
        }
        let may_send = !blocked && sent < count && sent - confirmed < window;
        if let Some(wait) = pace.wait_for(sent, part.now()).filter(|_| may_send)
            && !connection.is_readable_within(wait)?
        {
            continue;
        }
        let (_, events) = connection.read().map_err(|error| unconfirmed(error, sent, confirmed))?;
        let now = part.now();
        for event in events {
            // Any other outcome than accepted was refused before.
            if let Event::Disposition { role: Role::Receiver, first, last, .. } = event {
                // Delivery-ids of a session begin at 0 here, like the numbers of a publisher's messages.
                confirmed += u64::from(last.since(*first)) + 1;
                part.confirmed((first.0..=last.0).map(u64::from), now, &mut confirm_latency);
            }
        }
    }
    Ok(Published { elapsed: part.start.elapsed(), cpu: thread_cpu_time() - cpu, confirm_latency })
}
