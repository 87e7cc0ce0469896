//! The stream protocol: messages in frames of many, chunks against credit.

use std::time::Duration;

use leveret_stream_protocol::{OffsetSpec, ResponseCode};
use leveret_strict_client::Violation;
use leveret_strict_client::stream::{ChunkEntries, Client, StreamEvent, StreamOptions};

use crate::BenchError;
use crate::connection::{self, Connection};
use crate::measured::{ConnectionPart, Consumed, Intake, Published, WRITE_MAX, histogram, unconfirmed};
use crate::message::{self, Writer};
use crate::opening::Opening;
use crate::pace::Pace;
use crate::process::thread_cpu_time;
use crate::round::{Load, TargetBroker};
use crate::settings::Settings;
use crate::tally::sequence;
use std::sync::atomic::Ordering;

/// The subscription of a connection, or its publisher.
const ID: u8 = 1;
/// The publisher that takes turns with it where chunks have a given length: one that comes after another begins a chunk.
const OTHER_ID: u8 = 2;
/// The beginning of a short data section (AMQP 1.0, 3.2.6), and of one of any length, before the length.
const SHORT_DATA: [u8; 4] = [0, 0x53, 0x75, 0xa0];
const LONG_DATA: [u8; 4] = [0, 0x53, 0x75, 0xb0];
/// Most messages of a frame, as the Java client collects them.
const FRAME_MESSAGES: u64 = 1000;

impl connection::Client for Client {
    type Event = StreamEvent;

    fn output(&mut self) -> &mut Vec<u8> {
        self.output()
    }

    fn receive(&mut self, input: &[u8], events: &mut Vec<StreamEvent>) -> Result<usize, Violation> {
        self.receive(input, events)
    }

    fn send_heartbeat(&mut self) {
        self.send_heartbeat();
    }

    fn heartbeat_every(&self) -> Option<Duration> {
        // Twice in the time after which the broker considers it dead.
        (self.heartbeat() > 0).then(|| Duration::from_secs(self.heartbeat().into()) / 2)
    }

    fn refusal(event: &StreamEvent) -> Option<String> {
        match event {
            StreamEvent::Closed { code, reason } => Some(format!("closed the connection: {code} {reason}")),
            StreamEvent::Refused { id, code, .. } => Some(format!("refused publish {id} with code {code}")),
            StreamEvent::CreditRefused { subscription } => {
                Some(format!("refused credit of subscription {subscription}"))
            }
            // A stream that is deleted before it is created again mostly doesn't exist.
            StreamEvent::Answered { code, .. }
                if !matches!(code, ResponseCode::Ok | ResponseCode::StreamDoesNotExist) =>
            {
                Some(format!("refused a command: {code}"))
            }
            _ => None,
        }
    }

    fn broker_name(event: &StreamEvent) -> Option<String> {
        let StreamEvent::Named { product } = event else { return None };
        Some(product.clone())
    }
}

impl Connection<Client> {
    fn answer(&mut self, what: &str) -> Result<(), BenchError> {
        self.wait(what, |_, event| matches!(event, StreamEvent::Answered { .. })).map(drop)
    }
}

impl Load for Client {
    fn open(target: &TargetBroker, opening: &Opening<'_>) -> Result<Connection<Self>, BenchError> {
        let uri = &target.uri;
        let options = StreamOptions {
            user: uri.user.clone(),
            password: uri.password.clone(),
            virtual_host: uri.virtual_host.clone(),
            heartbeat: opening.heartbeat.into(),
            properties: vec![
                ("product".into(), "leveret bench".into()),
                ("connection_name".into(), opening.name.to_owned()),
            ],
        };
        let mut connection = Connection::connect_to(target, target.stream_address(), opening, Self::new(options))?;
        connection.wait("the answer to Open", |_, event| matches!(event, StreamEvent::Connected))?;
        Ok(connection)
    }

    /// There are no sessions.
    fn open_session(_connection: &mut Connection<Self>, _number: u16) -> Result<(), BenchError> {
        Ok(())
    }

    fn prepare_queue(connection: &mut Connection<Self>, settings: &Settings, queue: &str) -> Result<(), BenchError> {
        connection.client.delete(queue);
        connection.answer("the answer to Delete")?;
        // The protocol has no argument for durability: `default_queue_durability` sets it.
        let _durability = settings.durability;
        connection.client.create(queue, []);
        connection.answer("the answer to Create")
    }

    fn prepare_exchange(_connection: &mut Connection<Self>, _settings: &Settings) -> Result<(), BenchError> {
        Err(BenchError::Usage("the stream protocol has no exchanges".into()))
    }

    fn prepare_consumer(connection: &mut Connection<Self>, settings: &Settings, queue: &str) -> Result<(), BenchError> {
        connection.client.subscribe(ID, queue, OffsetSpec::First, settings.prefetch);
        connection.flush()
    }

    fn prepare_publisher(
        connection: &mut Connection<Self>,
        settings: &Settings,
        queue: &str,
    ) -> Result<(), BenchError> {
        let others = settings.chunk.map(|_| OTHER_ID);
        for id in [ID].into_iter().chain(others) {
            connection.client.declare_publisher(id, "", queue);
            connection.answer("the answer to DeclarePublisher")?;
        }
        Ok(())
    }

    fn publish(connection: &mut Connection<Self>, part: ConnectionPart<'_>) -> Result<Published, BenchError> {
        publish(connection, part)
    }

    fn consume(connection: &mut Connection<Self>, part: ConnectionPart<'_>) -> Result<Consumed, BenchError> {
        consume(connection, part)
    }

    fn end_consumer(connection: &mut Connection<Self>) -> Result<u64, BenchError> {
        connection.client.unsubscribe(ID);
        let mut surplus = 0;
        connection.wait("the answer to Unsubscribe", |_, event| {
            if let StreamEvent::Chunk { messages, .. } = event {
                surplus += u64::from(*messages);
            }
            matches!(event, StreamEvent::Answered { .. })
        })?;
        Ok(surplus)
    }

    fn delete_exchange(_connection: &mut Connection<Self>, _settings: &Settings) -> Result<(), BenchError> {
        Ok(())
    }

    fn delete_queue(connection: &mut Connection<Self>, queue: &str) -> Result<u64, BenchError> {
        connection.client.delete(queue);
        connection.answer("the answer to Delete").map(|()| 0)
    }

    fn close(mut connection: Connection<Self>) -> Result<(), BenchError> {
        connection.client.close("done");
        connection.wait("the answer to Close", |_, event| matches!(event, StreamEvent::CloseAnswered)).map(drop)
    }
}

/// Appends a message with this body: one data section.
fn write_message(body: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(body.len()) {
        Ok(length) => {
            out.extend_from_slice(&SHORT_DATA);
            out.push(length);
        }
        Err(_) => {
            out.extend_from_slice(&LONG_DATA);
            out.extend_from_slice(&(body.len() as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

/// The body of a message; empty if it isn't one of ours.
fn body_of(message: &[u8]) -> &[u8] {
    match message.strip_prefix(&SHORT_DATA) {
        Some([_, body @ ..]) => body,
        _ => message.strip_prefix(&LONG_DATA).and_then(|rest| rest.get(4..)).unwrap_or_default(),
    }
}

/// Publishes its part and waits for the confirms.
fn publish(connection: &mut Connection<Client>, part: ConnectionPart<'_>) -> Result<Published, BenchError> {
    let settings = part.settings;
    let cpu = thread_cpu_time();
    let pace = Pace::of(settings, part.number);
    let mut writer = Writer::new(settings.size);
    let mut confirm_latency = histogram();
    let window = if settings.confirm_window == 0 { u64::MAX } else { settings.confirm_window.into() };
    let frame_messages = settings.chunk.map_or(FRAME_MESSAGES, u64::from);
    // Whole chunks: the last one of a window is as long as the others.
    let window = settings.chunk.map_or(window, |chunk| window - window % u64::from(chunk));
    let (mut sent, mut confirmed, mut frames) = (0, 0, 0_u64);
    loop {
        let mut count = part.count(sent, part.now());
        let mut due = pace.due_within(part.now()).min(count);
        while sent < due && sent - confirmed < window {
            let now = part.now();
            let fits = (WRITE_MAX / (settings.size + 24)).max(1) as u64;
            let many = (due - sent).min(window - (sent - confirmed)).min(frame_messages).min(fits);
            let publisher = if settings.chunk.is_some() && frames % 2 == 1 { OTHER_ID } else { ID };
            frames += 1;
            connection.client.publish(publisher, sent, many, |id, out| {
                part.sent_at(id).store(pace.due_at(id, now), Ordering::Relaxed);
                write_message(writer.write(sequence(part.number, id)), out);
            });
            sent += many;
            // Short frames go out together.
            if settings.chunk.is_none() || connection.client.output().len() >= WRITE_MAX {
                connection.flush()?;
            }
            part.tally.add_sent(many);
            count = part.count(sent, now);
            due = pace.due_within(now).max(due).min(count);
        }
        connection.flush()?;
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
            if let StreamEvent::Confirmed { first, last, .. } = event {
                confirmed += last - first + 1;
                part.confirmed(*first..=*last, now, &mut confirm_latency);
            }
        }
    }
    Ok(Published { elapsed: part.start.elapsed(), cpu: thread_cpu_time() - cpu, confirm_latency })
}

/// Receives and verifies until all consumers together have everything.
fn consume(connection: &mut Connection<Client>, part: ConnectionPart<'_>) -> Result<Consumed, BenchError> {
    let ConnectionPart { settings, tally, .. } = part;
    let cpu = thread_cpu_time();
    let look_every = part.look_every();
    let mut intake = Intake::new(part);
    while !tally.is_complete() {
        if let Some(patience) = look_every
            && !connection.is_readable_within(patience)?
        {
            if intake.is_over() {
                break;
            }
            if intake.silence() > connection.silence_max() {
                return Err(tally.explain(connection.silent("messages")));
            }
            continue;
        }
        let (client, events) = connection.read().map_err(|error| tally.explain(error))?;
        let now = part.now();
        let mut chunks = 0;
        for event in events {
            if let StreamEvent::Chunk { entries, .. } = event {
                chunks += 1;
                for message in ChunkEntries(client.bytes(*entries)) {
                    intake.take(message::read(body_of(message), settings.size), now);
                }
            }
        }
        if chunks > 0 {
            connection.client.credit(ID, chunks);
            connection.flush()?;
        }
    }
    intake.finish(thread_cpu_time() - cpu)
}
