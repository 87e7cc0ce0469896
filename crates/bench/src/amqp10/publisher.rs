//! The publishing thread.

use std::sync::atomic::Ordering;
use std::time::Instant;

use leveret_amqp10::Role;
use leveret_amqp10::message::{Header, write_data};
use leveret_strict_client::amqp10::{Client, Event, Send};

use super::{CHANNEL, HANDLE};
use crate::BenchError;
use crate::connection::Connection;
use crate::measured::{Published, SentAt, WRITE_MAX, histogram};
use crate::message::Writer;
use crate::process::thread_cpu_time;
use crate::scenario::Settings;

/// Attaches the link and waits for credit.
pub(super) fn prepare(connection: &mut Connection<Client>, settings: &Settings) -> Result<(), BenchError> {
    let address = format!("/queues/{}", settings.queue);
    connection.client.attach_sender(CHANNEL, HANDLE, "bench publisher", Some(&address));
    connection.attached(HANDLE, true)
}

/// Publishes everything and waits for the outcomes.
pub(super) fn run(
    connection: &mut Connection<Client>,
    settings: &Settings,
    sent_at: &SentAt,
    start: Instant,
) -> Result<Published, BenchError> {
    let cpu = thread_cpu_time();
    let mut payload = Vec::new();
    Header { durable: Some(settings.durable), ..Header::default() }.encode(&mut payload);
    let header_size = payload.len();
    let options = Send { settled: settings.confirm_window == 0, ..Send::default() };
    let mut writer = Writer::new(settings.size);
    let mut confirm_latency = histogram();
    let window = if options.settled { u64::MAX } else { settings.confirm_window.into() };
    let (mut sent, mut confirmed) = (0u64, 0);
    loop {
        let mut blocked = false;
        while !blocked && sent < settings.messages && sent - confirmed < window {
            let now = start.elapsed().as_nanos() as u64;
            while sent < settings.messages && sent - confirmed < window && connection.client.output().len() < WRITE_MAX
            {
                // Credit is asked for before, since sending tells that there is none only after the body was written.
                if connection.client.credit(CHANNEL, HANDLE) == 0 {
                    blocked = true;
                    break;
                }
                payload.truncate(header_size);
                write_data(&mut payload, writer.write(sent));
                sent_at[sent as usize].store(now, Ordering::Relaxed);
                let tag = (sent as u32).to_be_bytes();
                if connection.client.send(CHANNEL, HANDLE, &tag, &payload, &options).is_none() {
                    blocked = true;
                    break;
                }
                sent += 1;
            }
            connection.flush()?;
        }
        if sent == settings.messages && (options.settled || confirmed == sent) {
            break;
        }
        let (_, events) = connection.read()?;
        let now = start.elapsed().as_nanos() as u64;
        for event in events {
            // Anything but accepted was refused by now.
            if let Event::Disposition { role: Role::Receiver, first, last, .. } = event {
                // Delivery-ids of a session begin at 0 here, as sequence numbers do.
                confirmed += u64::from(last.since(*first)) + 1;
                for sequence in first.0..=last.0 {
                    let sent = sent_at[sequence as usize].load(Ordering::Relaxed);
                    confirm_latency.saturating_record(now.saturating_sub(sent));
                }
            }
        }
    }
    Ok(Published { elapsed: start.elapsed(), cpu: thread_cpu_time() - cpu, confirm_latency })
}
