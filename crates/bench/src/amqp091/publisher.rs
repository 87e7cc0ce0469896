//! The publishing thread.

use std::sync::atomic::Ordering;
use std::time::Instant;

use leveret_amqp091::{Properties, delivery_mode};
use leveret_strict_client::amqp091::{Client, Event};

use super::CHANNEL;
use crate::BenchError;
use crate::connection::Connection;
use crate::measured::{Published, SentAt, WRITE_MAX, histogram};
use crate::message::Writer;
use crate::process::thread_cpu_time;
use crate::scenario::Settings;

/// Prepares the channel.
pub(crate) fn prepare(connection: &mut Connection<Client>, settings: &Settings) -> Result<(), BenchError> {
    if settings.confirm_window > 0 {
        connection.client.confirm_select(CHANNEL);
        connection.reply("confirm.select-ok")?;
    }
    Ok(())
}

/// Publishes everything and waits for the confirms.
pub(crate) fn run(
    connection: &mut Connection<Client>,
    settings: &Settings,
    sent_at: &SentAt,
    start: Instant,
) -> Result<Published, BenchError> {
    let cpu = thread_cpu_time();
    let mut properties = Vec::new();
    Properties { delivery_mode: settings.durable.then_some(2), ..Default::default() }.encode(&mut properties);
    debug_assert_eq!(delivery_mode(&properties).is_some(), settings.durable);
    let mut writer = Writer::new(settings.size);
    let mut confirm_latency = histogram();
    let window = if settings.confirm_window == 0 { u64::MAX } else { settings.confirm_window.into() };
    let (mut sent, mut confirmed) = (0, 0);
    loop {
        while sent < settings.messages && sent - confirmed < window {
            let now = start.elapsed().as_nanos() as u64;
            while sent < settings.messages && sent - confirmed < window && connection.client.output().len() < WRITE_MAX
            {
                sent_at[sent as usize].store(now, Ordering::Relaxed);
                let body = writer.write(sent);
                connection.client.publish(CHANNEL, b"", settings.queue.as_bytes(), settings.durable, &properties, body);
                sent += 1;
            }
            connection.flush()?;
            if settings.confirm_window == 0 {
                confirmed = sent;
            }
        }
        if confirmed == settings.messages {
            break;
        }
        let (_, events) = connection.read()?;
        let now = start.elapsed().as_nanos() as u64;
        for event in events {
            if let Event::Confirmed { first, last, .. } = event {
                confirmed += last - first + 1;
                for sequence in first - 1..*last {
                    let sent = sent_at[sequence as usize].load(Ordering::Relaxed);
                    confirm_latency.saturating_record(now.saturating_sub(sent));
                }
            }
        }
    }
    Ok(Published { elapsed: start.elapsed(), cpu: thread_cpu_time() - cpu, confirm_latency })
}
