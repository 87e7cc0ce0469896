//! AMQP 1.0: one session for each side; the queue is managed over a pair of links to `/management`.

mod consumer;
mod exchange;
mod publisher;

use std::time::Duration;

use leveret_amqp10::{OwnedValue, Role};
use leveret_strict_client::Violation;
use leveret_strict_client::amqp10::{
    Client, Event, ManagementRequest, Mechanism, Options, PeerError, Response, SessionOptions, State,
};

use crate::BenchError;
use crate::connection::{self, Connection, name_of};
use crate::measured::{ConnectionPart, Consumed, Published};
use crate::opening::Opening;
use crate::round::{Load, TargetBroker};
use crate::settings::Settings;

/// The only channel that a connection uses.
const CHANNEL: u16 = 0;
/// The handle of the load's link.
const HANDLE: u32 = 0;
/// The handle of the link for management requests; responses come on the next one.
const MANAGEMENT: u32 = 1;
/// Credit for responses, renewed when used up: a topic exchange takes thousands of requests.
const ANSWERS: u32 = 100;
const ANSWERS_LOW: u32 = 50;

impl connection::Client for Client {
    type Event = Event;

    fn output(&mut self) -> &mut Vec<u8> {
        self.output()
    }

    fn receive(&mut self, input: &[u8], events: &mut Vec<Event>) -> Result<usize, Violation> {
        self.receive(input, events)
    }

    fn send_heartbeat(&mut self) {
        self.send_empty();
    }

    fn heartbeat_every(&self) -> Option<Duration> {
        // Twice in the time after which the broker considers it dead.
        self.remote_idle_time_out().map(|millis| Duration::from_millis(millis.into()) / 2)
    }

    fn refusal(event: &Event) -> Option<String> {
        let because = |what: &str, error: &Option<PeerError>| match error {
            Some(error) => format!("{what}: {} {}", error.condition, error.description),
            None => what.to_owned(),
        };
        match event {
            Event::SaslFailed(code) => Some(format!("refused the login with SASL code {code}")),
            Event::Closed { by_peer: true, error } => Some(because("closed the connection", error)),
            Event::Ended { by_peer: true, error, .. } => Some(because("ended the session", error)),
            Event::Detached { by_peer: true, error, .. } => Some(because("detached the link", error)),
            Event::Disposition { state: Some(State::Accepted), settled: true, .. } => None,
            Event::Disposition { role: Role::Receiver, first, state, .. } => {
                Some(format!("answered message {first} with {state:?}"))
            }
            _ => None,
        }
    }

    fn broker_name(event: &Event) -> Option<String> {
        let Event::Opened { properties, .. } = event else { return None };
        Some(name_of(|key| properties.lookup(key).and_then(OwnedValue::as_text).unwrap_or_default().to_owned()))
    }
}

impl Load for Client {
    fn open(target: &TargetBroker, opening: &Opening<'_>) -> Result<Connection<Self>, BenchError> {
        let uri = &target.uri;
        let options = Options {
            mechanism: Mechanism::Plain { user: uri.user.clone(), password: uri.password.clone() },
            container_id: format!("leveret bench {}", opening.name),
            idle_time_out: (opening.heartbeat > 0).then(|| u32::from(opening.heartbeat) * 1000),
            hostname: Some(format!("vhost:{}", uri.virtual_host)),
            ..Options::default()
        };
        let mut connection = Connection::connect(target, opening, Self::new(options))?;
        connection.wait("an open", |_, event| matches!(event, Event::Opened { .. }))?;
        let session = SessionOptions { incoming_window: 10_000, ..SessionOptions::default() };
        connection.client.begin(CHANNEL, session);
        connection.wait("a begin", |_, event| matches!(event, Event::Begun { .. }))?;
        Ok(connection)
    }

    fn open_session(connection: &mut Connection<Self>, number: u16) -> Result<(), BenchError> {
        connection.client.begin(CHANNEL + number, SessionOptions::default());
        connection.wait("a begin", |_, event| matches!(event, Event::Begun { .. })).map(drop)
    }

    fn prepare_queue(connection: &mut Connection<Self>, settings: &Settings, queue: &str) -> Result<(), BenchError> {
        consumer::prepare_queue(connection, settings, queue)
    }

    fn prepare_exchange(connection: &mut Connection<Self>, settings: &Settings) -> Result<(), BenchError> {
        exchange::prepare(connection, settings)
    }

    fn prepare_consumer(connection: &mut Connection<Self>, settings: &Settings, queue: &str) -> Result<(), BenchError> {
        consumer::prepare(connection, settings, queue)
    }

    fn prepare_publisher(
        connection: &mut Connection<Self>,
        settings: &Settings,
        queue: &str,
    ) -> Result<(), BenchError> {
        publisher::prepare(connection, settings, queue)
    }

    fn publish(connection: &mut Connection<Self>, part: ConnectionPart<'_>) -> Result<Published, BenchError> {
        publisher::run(connection, part)
    }

    fn consume(connection: &mut Connection<Self>, part: ConnectionPart<'_>) -> Result<Consumed, BenchError> {
        consumer::run(connection, part)
    }

    fn end_consumer(connection: &mut Connection<Self>) -> Result<u64, BenchError> {
        consumer::end(connection)
    }

    fn delete_exchange(connection: &mut Connection<Self>, settings: &Settings) -> Result<(), BenchError> {
        exchange::delete(connection, settings)
    }

    fn delete_queue(connection: &mut Connection<Self>, queue: &str) -> Result<u64, BenchError> {
        let mut surplus = 0;
        let response = connection.request("DELETE", &format!("/queues/{queue}"), &OwnedValue::Null, &mut surplus)?;
        Ok(u64::from(surplus).max(response.number("message_count").unwrap_or_default()))
    }

    fn close(mut connection: Connection<Self>) -> Result<(), BenchError> {
        connection.client.close(None);
        connection.wait("a close", |_, event| matches!(event, Event::Closed { .. })).map(drop)
    }
}

impl Connection<Client> {
    /// Waits until a link is attached, and a sender has credit.
    fn attached(&mut self, handle: u32, sender: bool) -> Result<(), BenchError> {
        let is_ready =
            |client: &Client| client.is_attached(CHANNEL, handle) && (!sender || client.credit(CHANNEL, handle) > 0);
        if is_ready(&self.client) {
            return Ok(());
        }
        let what = if sender { "an attach with credit" } else { "an attach" };
        self.wait_until(what, |client, _| is_ready(client))
    }

    /// Attaches the pair of links to `/management`.
    fn manage(&mut self) -> Result<(), BenchError> {
        self.client.attach_management(CHANNEL, MANAGEMENT);
        self.attached(MANAGEMENT, true)?;
        self.attached(MANAGEMENT + 1, false)
    }

    /// Sends a request and waits for a successful response. Messages that arrive meanwhile are counted.
    fn request(
        &mut self,
        method: &str,
        path: &str,
        body: &OwnedValue,
        deliveries: &mut u32,
    ) -> Result<Response, BenchError> {
        let request = ManagementRequest { id: 1, method, path, body };
        while self.client.request(CHANNEL, MANAGEMENT, &request).is_none() {
            self.wait_until("credit for requests", |_, _| true)?;
        }
        let mut response = None;
        self.wait(&format!("the answer to {method} {path}"), |client, event| {
            let Event::Delivered(delivery) = event else { return false };
            if delivery.handle == HANDLE {
                *deliveries += 1;
                return false;
            }
            response = Response::parse(client.bytes(delivery.payload)).ok();
            true
        })?;
        if self.client.credit(CHANNEL, MANAGEMENT + 1) <= ANSWERS_LOW {
            self.client.grant(CHANNEL, MANAGEMENT + 1, ANSWERS, false);
            self.flush()?;
        }
        match response {
            Some(response) if (200..300).contains(&response.status) => Ok(response),
            other => Err(BenchError::Refused(format!("answered {method} {path} with {other:?}"))),
        }
    }
}
