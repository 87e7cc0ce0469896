//! A protocol with a codec that no crate knows: lines of text.
//!
//! Client: `TOY`, `login USER PASSWORD`, `declare QUEUE`, `note NAME VALUE` of the next message, `publish QUEUE BODY`,
//! `send EXCHANGE BODY`, `consume QUEUE CREDIT`, `ack NUMBER`. Server: `ok`, `error TEXT`, `confirmed COUNT`, `refused COUNT`, `note NAME VALUE` of the
//! next message, `message NUMBER BODY`, `blocked`, `unblocked`, `closed REASON`.

use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;

use leveret_broker::asked::{Later, NowOrLater};
use leveret_broker::headers::MessageHeaders;
use leveret_broker::inquiry::Inquiry;
use leveret_broker::protocol::{Accepted, ProtocolInfo, Recognised};
use leveret_broker::queue_handle::{NoConsumer, QueueRef};
use leveret_broker::registry::{ChangeOutcome, ChangeRequest};
use leveret_broker::reply::Reply;
use leveret_broker::route::Publisher;
use leveret_broker::settings::{TAKE_BYTES_MAX, TAKE_MESSAGES_MAX};
use leveret_broker::ticket::{Awaited, Ticket};
use leveret_broker::views::ConnectionView;
use leveret_broker::{Now, Protocol, Session};
use leveret_message::headers::Headers;
use leveret_message::hub::ForeignEncoding;
use leveret_message::{BatchBuilder, Encoding, Envelope, Overlay, StoredMessage};
use leveret_model::{Action, Arguments, Command, DeclareQueue};
use leveret_queue::{ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Portion, Run, Signal};
use leveret_session::confirms::Confirms;
use leveret_session::driven::{Driven, Frame, Steps};
use leveret_session::{ClientConnection, fan_out::FanOut};

use crate::encoding::{NOTES, Notes, content};

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

    fn encoding(&self) -> Option<&'static dyn ForeignEncoding> {
        Some(&NOTES)
    }

    fn begin(&self, accepted: Accepted, now: Now) -> Box<dyn Session> {
        let client = ClientConnection::new(accepted, now);
        let confirms = Confirms::default();
        Box::new(Driven(ToySession {
            client,
            confirms,
            declaring: None,
            consuming: None,
            consumer: None,
            notes: String::new(),
            has_published: false,
            is_held: false,
            is_over: false,
        }))
    }
}

struct ToySession {
    client: ClientConnection,
    confirms: Confirms,
    declaring: Option<Declaring>,
    consuming: Option<Consuming>,
    consumer: Option<Consumer>,
    /// Notes of the next message.
    notes: String,
    has_published: bool,
    /// A publish waits for the end of an alarm; it is received again then.
    is_held: bool,
    is_over: bool,
}

/// A declaration on its way.
enum Declaring {
    Asked(Later<ChangeOutcome>),
    /// It is answered when this position is durable.
    Made(Ticket),
}

/// A consumer whose queue hasn't answered yet, and the credit that it will get.
struct Consuming {
    consumer: Consumer,
    credit: u32,
    answer: Later<Result<(), NoConsumer>>,
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
            ["login", user, password] => self.login(user, password, now),
            ["declare", queue] => self.declare(queue, now),
            ["note", name, value] => {
                self.notes.push_str(&format!("{name} {value}\n"));
                Ok(())
            }
            ["publish", queue, body] => self.publish("", queue, body.as_bytes(), now),
            ["send", exchange, body] => self.publish(exchange, "", body.as_bytes(), now),
            ["consume", queue, credit] => self.consume(queue, credit.parse().map_err(text)?, now),
            ["ack", number] => self.acknowledge(number.parse().map_err(text)?, now),
            _ => Err(format!("not understood: {line}")),
        }
    }

    fn login(&mut self, user: &str, password: &str, now: Now) -> Result<(), String> {
        // A frame that is taken again may have logged in already, and have asked for the vhost.
        if !self.client.is_logged_in() {
            let response = format!("\0{user}\0{password}").into_bytes();
            let outcome = self.client.check_login("PLAIN", response.into(), now);
            self.client.log_in(outcome.ok_or("the backend hasn't answered yet")??, "PLAIN", now);
        }
        self.client.authorize_in("/", Action::Enter).map_err(text)?;
        let snapshot = self.client.broker.registry.snapshot();
        self.client.enter(&snapshot.topology, "/".into()).map_err(text)?;
        self.client.silence.expect_by(None);
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
        match self.client.change(ChangeRequest::new(permit, Command::DeclareQueue(declare)), now) {
            NowOrLater::Now(outcome) => return self.declared(outcome),
            NowOrLater::Later(answer) => {
                answer.notify(self.client.outbox.clone(), 0);
                self.declaring = Some(Declaring::Asked(answer));
            }
        }
        Ok(())
    }

    fn declared(&mut self, outcome: ChangeOutcome) -> Result<(), String> {
        self.declaring = None;
        self.declaring = Some(Declaring::Made(outcome.map_err(text)?.ticket));
        Ok(())
    }

    fn answered(&mut self, now: Now) -> Result<(), String> {
        match &self.declaring {
            Some(Declaring::Asked(answer)) => match self.client.take_change(answer, now) {
                Some(outcome) => self.declared(outcome),
                None => Ok(()),
            },
            _ => match self.consuming.take() {
                Some(Consuming { consumer, credit, answer }) => match answer.take() {
                    Some(added) => self.consumed(consumer, credit, added, now),
                    None => {
                        self.consuming = Some(Consuming { consumer, credit, answer });
                        Ok(())
                    }
                },
                None => Ok(()),
            },
        }
    }

    fn publish(&mut self, exchange: &str, key: &str, body: &[u8], now: Now) -> Result<(), String> {
        let notes = std::mem::take(&mut self.notes);
        let headers = MessageHeaders(Headers::foreign(Notes::ID, notes.as_bytes()));
        let snapshot = self.client.broker.registry.snapshot();
        let publisher = Publisher { who: &self.client.identity, vhost: &self.client.vhost, client_id: None };
        let (exchange, routing_key) = (exchange.as_bytes(), key.as_bytes());
        let route = self.client.routes.find(&snapshot, &publisher, exchange, routing_key, &headers).map_err(text)?;
        self.has_published = true;
        let envelope =
            Envelope { durable: true, exchange, routing_key, received_ms: now.wall_ms, ..Envelope::default() };
        let (encoding, overlay, properties) = (Encoding::Foreign(Notes::ID), Overlay::new(&[]), notes.as_bytes());
        let mut builder = BatchBuilder::default();
        builder.push_message(&StoredMessage { encoding, envelope, overlay, properties, body });
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
            user: self.client.identity.name().clone(),
            arguments: Arguments::default(),
        };
        let asked = found.consume(id, options, now.monotonic);
        let consumer = Consumer { id, queue: found, held: Vec::new() };
        match asked {
            NowOrLater::Now(added) => self.consumed(consumer, credit, added, now),
            NowOrLater::Later(answer) => {
                answer.notify(self.client.outbox.clone(), 0);
                self.consuming = Some(Consuming { consumer, credit, answer });
                Ok(())
            }
        }
    }

    fn consumed(
        &mut self,
        consumer: Consumer,
        credit: u32,
        added: Result<(), NoConsumer>,
        now: Now,
    ) -> Result<(), String> {
        added.map_err(|_| "the queue takes no consumer")?;
        self.client.counters.consumers_opened.increment();
        consumer.queue.grant(consumer.id, 0, credit, false, now.monotonic);
        self.consumer = Some(consumer);
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

    fn end_if_refused(&mut self, done: Result<(), String>) {
        if let Err(reason) = done {
            self.say(format_args!("error {reason}"));
            self.is_over = true;
        }
    }

    fn is_blocked(&self) -> bool {
        self.client.broker.alarms.publishing_blocked()
    }
}

impl Steps for ToySession {
    fn client(&self) -> &ClientConnection {
        &self.client
    }

    fn client_mut(&mut self) -> &mut ClientConnection {
        &mut self.client
    }

    fn is_open(&self) -> bool {
        self.client.is_logged_in() && !self.is_over
    }

    fn is_held(&self) -> bool {
        self.declaring.is_some() || self.is_held
    }

    fn is_ending(&self) -> bool {
        false
    }

    fn is_leaving(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn is_closed(&self) -> bool {
        self.is_over
    }

    fn has_published(&self) -> bool {
        self.has_published
    }

    fn has_work(&self) -> bool {
        !self.client.turns.are_over()
    }

    fn frame(&mut self, input: &[u8], now: Now) -> Frame {
        let Some(length) = input.iter().position(|byte| *byte == b'\n') else { return Frame::Waits };
        let line = String::from_utf8_lossy(&input[..length]).into_owned();
        if line.starts_with("publish") && self.is_blocked() {
            self.is_held = true;
            return Frame::Waits;
        }
        let notes = self.notes.clone();
        let done = self.command(&line, now);
        if done.is_err() && self.client.parks(now) {
            self.notes = notes;
            return Frame::Waits;
        }
        self.end_if_refused(done);
        Frame::Used(length + 1)
    }

    fn flush(&mut self, _now: Now) {}

    fn go_on(&mut self, _now: Now) -> bool {
        true
    }

    fn signal(&mut self, signal: Signal, now: Now) {
        match signal {
            Signal::Scheduled(key) => self.client.turns.schedule(key),
            Signal::Answered(_) => {
                let answered = self.answered(now);
                self.end_if_refused(answered);
            }
            _ => {}
        }
    }

    fn alarm_changed(&mut self) {
        self.is_held = false;
        self.say(if self.is_blocked() { "blocked" } else { "unblocked" });
    }

    fn reply(&mut self, _reply: Reply, _now: Now) {}

    fn view(&self, _inquiry: &Inquiry, now: Now) -> ConnectionView {
        self.client.view(self.is_blocked(), now)
    }

    fn close_for_maintenance(&mut self, _now: Now) {
        self.is_over = true;
    }

    fn shed(&mut self, _reason: &str, _now: Now) {
        self.is_over = true;
    }

    fn close(&mut self, reason: &str, _now: Now) {
        self.say(format_args!("closed {reason}"));
        self.is_over = true;
    }

    fn durable(&mut self, now: Now) {
        let applied = self.client.applied();
        while let Some(confirm) = self.confirms.next(&applied, now.monotonic) {
            self.client.counters.confirmed.increment();
            let outcome = if confirm.accepted { "confirmed" } else { "refused" };
            writeln!(self.client.output.buffer(), "{outcome} {}", confirm.sequence).expect("memory takes it");
        }
        if let Some(Declaring::Made(ticket)) = &self.declaring
            && self.client.broker.streams.is_durable(*ticket)
        {
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
                let (notes, body) = content(&message);
                for note in notes.lines() {
                    writeln!(self.client.output.buffer(), "note {note}").expect("memory takes it");
                }
                writeln!(self.client.output.buffer(), "message {} {body}", run.first).expect("memory takes it");
                self.client.counters.delivered_ack.increment();
            }
        }
    }

    fn look(&mut self, _number: u16, _now: Now) {}

    fn keeps_alive(&self) -> bool {
        false
    }

    fn deadline_passed(&mut self, _now: Now) {
        self.is_over = true;
    }

    fn fell_silent(&mut self, _now: Now) {
        self.is_over = true;
    }

    fn send_heartbeat(&mut self) {}

    fn register(&mut self) {
        let awaited = match &self.declaring {
            Some(Declaring::Made(ticket)) => Some(Awaited::from(*ticket)),
            Some(Declaring::Asked(_)) | None => None,
        };
        self.client.register(awaited, self.client.waits_for_log());
    }

    fn cut_off(&mut self, now: Now) {
        if let Some(Consumer { id, queue, held }) = self.consumer.take() {
            let _ = queue.leave(&[id], &[(Some(id), held)], true, now.monotonic);
            self.client.counters.consumers_closed.increment();
            self.client.left();
        }
        self.is_over = true;
        self.declaring = None;
    }
}

fn text(reason: impl Display) -> String {
    reason.to_string()
}
