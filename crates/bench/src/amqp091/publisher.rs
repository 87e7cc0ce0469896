//! The publishing threads.

use std::sync::atomic::Ordering;

use leveret_amqp091::delivery_mode;
use leveret_strict_client::amqp091::{Client, Event, Publication};

use super::CHANNEL;
use crate::BenchError;
use crate::connection::Connection;
use crate::measured::{ConnectionPart, Published, WRITE_MAX, histogram, unconfirmed};
use crate::message::Writer;
use crate::pace::Pace;
use crate::process::thread_cpu_time;
use crate::route;
use crate::settings::Settings;
use crate::tally::sequence;

/// Prepares the channel.
pub(crate) fn prepare(connection: &mut Connection<Client>, settings: &Settings) -> Result<(), BenchError> {
    if settings.confirm_window > 0 {
        connection.client.confirm_select(CHANNEL);
        connection.reply("confirm.select-ok")?;
    }
    Ok(())
}

/// Publishes its part and waits for the confirms.
pub(crate) fn run(connection: &mut Connection<Client>, part: ConnectionPart<'_>) -> Result<Published, BenchError> {
    let settings = part.settings;
    let cpu = thread_cpu_time();
    let pace = Pace::of(settings, part.number);
    let properties = settings.properties.encode_amqp091(settings.durable, &route::headers(settings, part.queue));
    let (exchange, keys) = (settings.exchange.name(), route::keys(settings, part.queue));
    let mut keys = keys.iter().map(String::as_bytes).cycle();
    debug_assert_eq!(delivery_mode(&properties).is_some(), settings.durable);
    let mut writer = Writer::new(settings.size);
    let mut confirm_latency = histogram();
    let window = if settings.confirm_window == 0 { u64::MAX } else { settings.confirm_window.into() };
    let (mut sent, mut confirmed) = (0, 0);
    loop {
        let mut count = part.count(sent, part.now());
        let mut due = pace.due_within(part.now()).min(count);
        while sent < due && sent - confirmed < window {
            let (now, before) = (part.now(), sent);
            while sent < due && sent - confirmed < window && connection.client.output().len() < WRITE_MAX {
                part.sent_at(sent).store(pace.due_at(sent, now), Ordering::Relaxed);
                let body = writer.write(sequence(part.number, sent));
                let key = keys.next().expect("there is at least one");
                let message = Publication::to(exchange.as_bytes(), key, body).with(&properties);
                connection.client.publish(CHANNEL, Publication { mandatory: settings.durable, ..message });
                sent += 1;
            }
            connection.flush()?;
            part.tally.add_sent(sent - before);
            if settings.confirm_window == 0 {
                confirmed = sent;
            }
            count = part.count(sent, now);
            due = pace.due_within(now).max(due).min(count);
        }
        if confirmed == count {
            break;
        }
        let may_send = sent < count && sent - confirmed < window;
        if let Some(wait) = pace.wait_for(sent, part.now()).filter(|_| may_send)
            && !connection.is_readable_within(wait)?
        {
            continue;
        }
        let (_, events) = connection.read().map_err(|error| unconfirmed(error, sent, confirmed))?;
        let now = part.now();
        for event in events {
            if let Event::Confirmed { first, last, .. } = event {
                confirmed += last - first + 1;
                part.confirmed(first - 1..*last, now, &mut confirm_latency);
            }
        }
    }
    Ok(Published { elapsed: part.start.elapsed(), cpu: thread_cpu_time() - cpu, confirm_latency })
}
