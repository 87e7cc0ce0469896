//! A protocol with a codec that no crate knows: lines of text.
//!
//! Client: `TOY`, `login USER PASSWORD`, `declare QUEUE`, `publish QUEUE BODY`, `consume QUEUE CREDIT`,
//! `ack NUMBER`. Server: `ok`, `error TEXT`, `confirmed COUNT`, `message NUMBER BODY`, `blocked`, `unblocked`.

use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;

use leveret_broker::headers::NoHeaders;
use leveret_broker::outbox::Event;
use leveret_broker::protocol::{Accepted, ProtocolInfo, Recognised};
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::Publisher;
use leveret_broker::settings::{TAKE_BYTES_MAX, TAKE_MESSAGES_MAX};
use leveret_broker::ticket::{Awaited, Ticket};
use leveret_broker::{Nanos, Now, Output, Protocol, Session};
use leveret_message::{
    BatchBuilder, Encoding, Envelope, Overlay, StoredMessage,
    deliver::{Delivery, to_amqp091},
};
use leveret_model::{Action, Arguments, DeclareQueue};
use leveret_queue::{ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Portion, Run, Signal};
use leveret_session::confirms::Confirms;
use leveret_session::{ClientConnection, fan_out::FanOut};

const INFO: ProtocolInfo = ProtocolInfo { label: "toy", name: "TOY 1", has_channels: false };
const HEADER: &[u8] = b"TOY\n";

pub(crate) struct Toy;

impl Protocol for Toy {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn recognise(&self, input: &[u8]) -> Recognised {
        match input.starts_with(HEADER) {
            true => Recognised::Yes(HEADER.len()),
            false if HEADER.starts_with(input) => Recognised::Perhaps,
            false => Recognised::No,
        }
    }

    fn begin(&self, accepted: Accepted, now: Now) -> Box<dyn Session> {
        let client = ClientConnection::new(accepted, now);
        let confirms = Confirms::default();
        Box::new(ToySession {
            client,
            confirms,
            declaring: None,
            consumer: None,
            has_more: false,
            is_held: false,
            is_over: false,
        })
    }
}

struct ToySession {
    client: ClientConnection,
    confirms: Confirms,
    /// A declaration is answered when this position is durable.
    declaring: Option<Ticket>,
    consumer: Option<Consumer>,
    has_more: bool,
    /// A publish waits for the end of an alarm; it is received again then.
    is_held: bool,
    is_over: bool,
}

struct Consumer {
    id: ConsumerId,
    queue: QueueRef,
    held: Vec<Run>,
}

impl ToySession {
    fn say(&mut self, line: impl Display) {
        writeln!(self.client.output.buffer(), "{line}").expect("memory takes it");
    }

    fn command(&mut self, line: &str, now: Now) -> Result<(), String> {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words[..] {
            ["login", user, password] => self.login(user, password),
            ["declare", queue] => self.declare(queue, now),
            ["publish", queue, body] => self.publish(queue, body.as_bytes(), now),
            ["consume", queue, credit] => self.consume(queue, credit.parse().map_err(text)?, now),
            ["ack", number] => self.acknowledge(number.parse().map_err(text)?, now),
            _ => Err(format!("not understood: {line}")),
        }
    }

    fn login(&mut self, user: &str, password: &str) -> Result<(), String> {
        let response = format!("\0{user}\0{password}").into_bytes();
        let user = self.client.check_login("PLAIN", response.into())?;
        self.client.log_in(&user, "PLAIN");
        let snapshot = self.client.broker.registry.snapshot();
        self.client.enter(&snapshot.topology, "/".into()).map_err(text)?;
        self.client.deadline = None;
        self.say("ok");
        Ok(())
    }

    fn declare(&mut self, queue: &str, now: Now) -> Result<(), String> {
        let action = Action::DeclareQueue { queue, dead_letter_exchange: None };
        let permit = self.client.authorize(action).map_err(text)?;
        let declare = DeclareQueue {
            vhost: self.client.vhost.clone(),
            name: queue.into(),
            server_named: false,
            durable: true,
            auto_delete: false,
            exclusive: false,
            connection: Some(self.client.id),
            arguments: Arguments::default(),
        };
        self.declaring = Some(self.client.declare_queue(permit, declare, now).map_err(text)?.ticket);
        Ok(())
    }

    fn publish(&mut self, queue: &str, body: &[u8], now: Now) -> Result<(), String> {
        let snapshot = self.client.broker.registry.snapshot();
        let publisher = Publisher { user: &self.client.user, vhost: &self.client.vhost };
        let route = self.client.routes.find(&snapshot, &publisher, b"", queue.as_bytes(), &NoHeaders).map_err(text)?;
        let routing_key = queue.as_bytes();
        let envelope = Envelope { durable: true, routing_key, received_ms: now.wall_ms, ..Envelope::default() };
        let (overlay, properties) = (Overlay::new(&[]), &[0, 0][..]);
        let mut builder = BatchBuilder::default();
        builder.push_message(&StoredMessage { encoding: Encoding::Amqp091, envelope, overlay, properties, body });
        let mut run = FanOut::new(&self.client, route, Arc::new(builder.finish()), true, None);
        run.whole(&mut self.client, now.monotonic);
        let done = run.end(&mut self.client);
        self.confirms.publish(1, done.wait, done.accepted == 1);
        self.client.counters.published(body.len() as u64);
        Ok(())
    }

    fn consume(&mut self, queue: &str, credit: u32, now: Now) -> Result<(), String> {
        let id = ConsumerId(self.client.broker.fresh_id());
        let found = self.client.known_queue(queue, Action::Consume(queue)).map_err(text)?;
        let options = ConsumerOptions {
            link: self.client.outbox.clone(),
            key: id.0,
            tag: "toy".into(),
            channel: self.client.name.clone(),
            automatic_ack: false,
            flow: ConsumerFlow::Credit { delivery_count: 0 },
            priority: 0,
            exclusive: false,
            mode: ConsumerMode::Move,
            filter: None,
            stream: None,
            timeout_ms: None,
            user: self.client.user.clone(),
            arguments: Arguments::default(),
        };
        found.add_consumer(id, options, now.monotonic).map_err(|_| "the queue takes no consumer")?;
        self.client.counters.consumers_opened.increment();
        found.grant(id, 0, credit, false, now.monotonic);
        self.consumer = Some(Consumer { id, queue: found, held: Vec::new() });
        self.say("ok");
        Ok(())
    }

    fn acknowledge(&mut self, number: u64, now: Now) -> Result<(), String> {
        let consumer = self.consumer.as_mut().ok_or("nothing is consumed")?;
        let at = consumer.held.iter().position(|run| run.first == number).ok_or("no such message")?;
        let run = consumer.held.swap_remove(at);
        consumer.queue.acknowledge(&[(Some(consumer.id), vec![run])], now.monotonic);
        self.client.counters.acked.increment();
        self.say("ok");
        Ok(())
    }

    fn event(&mut self, event: Event, now: Now) {
        match event {
            Event::Queue(Signal::Scheduled(key)) => self.client.scheduled.push_back(key),
            Event::Durable(stream) => self.client.registered.notified(stream, false),
            Event::Written(stream) => self.client.registered.notified(stream, true),
            Event::Alarm if self.is_blocked() => self.say("blocked"),
            Event::Alarm => {
                self.is_held = false;
                self.say("unblocked");
            }
            Event::Describe(inquiry) => inquiry.answer(self.client.view(self.is_blocked(), now)),
            Event::Close(_) | Event::Shed(_) => self.is_over = true,
            _ => {}
        }
    }

    fn is_blocked(&self) -> bool {
        self.client.broker.alarms.publishing_blocked()
    }

    fn durable_work(&mut self, now: Now) {
        self.has_more = !self.client.apply_durable();
        let applied = self.client.applied();
        while let Some(confirm) = self.confirms.next(&applied, now.monotonic) {
            self.client.counters.confirmed.increment();
            self.say(format_args!("confirmed {}", confirm.sequence));
        }
        if self.declaring.is_some_and(|ticket| self.client.broker.streams.is_durable(ticket)) {
            self.declaring = None;
            self.client.broker.registry.publish();
            self.say("ok");
        }
    }

    fn deliver(&mut self, now: Now) {
        while self.client.next_scheduled().is_some() {
            let Some(consumer) = &mut self.consumer else { return };
            let mut taken = Vec::new();
            let most = Portion { messages: TAKE_MESSAGES_MAX, bytes: TAKE_BYTES_MAX };
            let _ = consumer.queue.take(consumer.id, most, now.monotonic, &mut taken);
            for taken in taken.iter().flat_map(|taken| (0..taken.count).map(|at| taken.rest(at))) {
                let message = taken.batch.message(taken.index as usize).view();
                let run = leveret_queue::Taken { count: 1, ..taken.clone() }.run();
                consumer.held.push(run);
                let content = to_amqp091(&message, &Delivery::default());
                let body = String::from_utf8_lossy(&content.body);
                writeln!(self.client.output.buffer(), "message {} {body}", run.first).expect("memory takes it");
                self.client.counters.delivered_ack.increment();
            }
        }
    }

    fn rest(&mut self) {
        self.client.register(self.declaring.map(Awaited::from), false);
        self.client.counters.flush();
        self.client.broker.streams.announce();
    }
}

impl Session for ToySession {
    fn receive(&mut self, input: &[u8], now: Now) -> usize {
        let mut used = 0;
        while self.wants_read()
            && let Some(length) = input[used..].iter().position(|byte| *byte == b'\n')
        {
            let line = String::from_utf8_lossy(&input[used..used + length]).into_owned();
            if line.starts_with("publish") && self.is_blocked() {
                self.is_held = true;
                break;
            }
            used += length + 1;
            if let Err(reason) = self.command(&line, now) {
                self.say(format_args!("error {reason}"));
                self.is_over = true;
            }
        }
        self.rest();
        used
    }

    fn turn(&mut self, now: Now) {
        self.client.budget.renew();
        self.client.outbox.drain_after(&mut self.client.events);
        while let Some(event) = self.client.events.pop_front() {
            self.event(event, now);
        }
        self.durable_work(now);
        self.deliver(now);
        self.rest();
    }

    fn wants_turn(&self) -> bool {
        self.has_more || !self.client.scheduled.is_empty()
    }

    fn wants_read(&self) -> bool {
        self.declaring.is_none() && !self.is_held && !self.is_over
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.client.deadline
    }

    fn is_finished(&self) -> bool {
        self.is_over
    }

    fn is_ending(&self) -> bool {
        false
    }

    fn is_logged_in(&self) -> bool {
        self.client.is_logged_in()
    }

    fn output(&mut self) -> &mut Output {
        &mut self.client.output
    }

    fn transferred(&mut self, read: u64, written: u64, now: Now) {
        self.client.counters.transferred(read, written, now.monotonic);
    }

    fn disconnected(&mut self, now: Now) {
        if let Some(Consumer { id, queue, held }) = self.consumer.take() {
            queue.leave(&[id], &[(Some(id), held)], true, now.monotonic);
            self.client.counters.consumers_closed.increment();
            self.client.left();
        }
        if !std::mem::replace(&mut self.client.gone, true) {
            self.client.forget(None);
        }
    }
}

fn text(reason: impl Display) -> String {
    reason.to_string()
}
