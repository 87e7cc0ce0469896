//! A client of AMQP 0-9-1 in the workload: its requests and deliveries, and its handling of events.

use std::collections::{BTreeMap, VecDeque};

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_strict_client::amqp091::Publication;

use super::operate::operate;
use super::{End, Heard, Received};
use crate::body;
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, MessageId, Object, Presence, Stamp};
use crate::link;
use crate::peer::{Holdings, UNLIMITED, delivery_time, examine, stopped_queue};
use crate::quiet::Shown;
use crate::streams::{self, Start, StreamReader, is_stream};
use crate::tally::Tally;
use crate::world::World;

/// The channel for topology and publishes.
pub(super) const PUBLISH: u16 = 1;
/// The channel for consumers and gets.
pub(super) const CONSUME: u16 = 2;
/// Largest number of unacknowledged messages that a consumer holds.
const PREFETCH: u16 = 12;

/// A request without its reply.
#[derive(Clone, Debug)]
pub enum Request {
    /// Opening a channel, selecting confirms, setting prefetch.
    Setup,
    /// Declaring, binding.
    Make(Object),
    /// Unbinding, deleting an exchange: the objects that are removed.
    Unmake(Vec<Object>),
    /// Deleting a queue with its bindings.
    Delete(String, Vec<Object>, Stamp),
    /// Purging a queue.
    Purge(String, Stamp),
    /// Starting a consumer.
    Consume,
    /// Ending a consumer.
    Cancel(Vec<u8>),
    /// Getting a message.
    Get(String, bool, Stamp),
}

/// A delivery that isn't settled.
#[derive(Clone, Debug)]
pub struct HeldMessage {
    /// Its tag.
    pub tag: u64,
    /// The queue that it came from.
    pub queue: String,
    /// The message.
    pub id: MessageId,
    /// The consumer that got it; empty for a get.
    consumer: Vec<u8>,
}

/// A consumer.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Its queue.
    pub queue: String,
    /// It consumes without acknowledgements.
    pub no_ack: bool,
    /// The stamp at which it was requested.
    pub since: Stamp,
    /// Highest id, for each publisher, of the messages that it got without the redelivered flag.
    last: BTreeMap<u64, MessageId>,
    /// Its place in a stream.
    reader: Option<StreamReader>,
}

/// A client of AMQP 0-9-1.
#[derive(Debug)]
pub struct Peer {
    /// Its link in the world.
    pub link: usize,
    /// Its number among the peers, which is part of its objects' names.
    pub number: usize,
    publisher: u64,
    requests: [VecDeque<Request>; 3],
    unconfirmed: BTreeMap<u64, MessageId>,
    /// Deliveries that it has to settle.
    pub held: Vec<HeldMessage>,
    /// Its consumers by tag.
    pub consumers: BTreeMap<Vec<u8>, Consumer>,
    tags_given: u32,
}

impl Peer {
    /// Connects a client.
    pub fn connect(number: usize, world: &mut World, ledger: &mut Ledger) -> Self {
        Self {
            link: world.connect(link::End::Amqp091(Box::default())),
            number,
            publisher: ledger.publisher(),
            requests: Default::default(),
            unconfirmed: BTreeMap::new(),
            held: Vec::new(),
            consumers: BTreeMap::new(),
            tags_given: 0,
        }
    }

    /// Whether the end of this consumer was requested.
    pub fn is_cancelling(&self, tag: &[u8]) -> bool {
        let cancels = |request: &Request| matches!(request, Request::Cancel(of) if of == tag);
        self.requests[usize::from(CONSUME)].iter().any(cancels)
    }

    /// Notes a request whose reply is due.
    pub fn ask(&mut self, channel: u16, request: Request) {
        self.requests[usize::from(channel)].push_back(request);
    }

    /// Publishes a message.
    pub fn publish(
        &mut self,
        world: &mut World,
        ledger: &mut Ledger,
        (exchange, key): (&str, &str),
        (length, persistent): (usize, bool),
        at: Stamp,
    ) {
        let id = ledger.publish(self.publisher, (exchange, key), (length, persistent), at);
        let delivery_ms = delivery_time(world);
        ledger.messages[id as usize].delivery_ms = delivery_ms;
        let properties = match delivery_ms {
            Some(ms) => body::timed_properties(id, persistent, ms),
            None => body::properties(id, persistent),
        };
        let body = body::body(id, length);
        let message = Publication::to(exchange.as_bytes(), key.as_bytes(), &body).with(&properties);
        let tag = world.links[self.link].amqp091().client.publish(PUBLISH, message);
        world.tally.hit("messages sent");
        self.unconfirmed.insert(tag, id);
    }

    /// Starts a consumer, with or without acknowledgements, of this priority.
    pub fn consume(
        &mut self,
        world: &mut World,
        ledger: &mut Ledger,
        queue: &str,
        (no_ack, priority): (bool, i32),
        at: Stamp,
    ) {
        self.tags_given += 1;
        let tag = format!("c{}", self.tags_given).into_bytes();
        let flags = leveret_strict_client::amqp091::Consume { no_ack, exclusive: false };
        let mut arguments = FieldTable::new();
        if priority != 0 {
            arguments.insert("x-priority", FieldValue::I32(priority));
        }
        let mut reader = None;
        if is_stream(queue) {
            let start = Start::any(&mut world.random, ledger, queue);
            reader = Some(StreamReader::new(start, ledger, queue));
            arguments.insert(body::X_STREAM_OFFSET, offset(start));
        }
        let client = &mut world.links[self.link].amqp091().client;
        client.consume(CONSUME, queue.as_bytes(), &tag, flags, &arguments);
        ledger.begin_reading(queue, if no_ack { UNLIMITED } else { 0 }, at);
        let consumer = Consumer { queue: queue.to_owned(), no_ack, since: at, last: BTreeMap::new(), reader };
        self.consumers.insert(tag, consumer);
        self.ask(CONSUME, Request::Consume);
    }

    fn open_channel(&mut self, link: &mut End, channel: u16, ledger: &mut Ledger) {
        link.client.open_channel(channel);
        self.ask(channel, Request::Setup);
        if channel == PUBLISH {
            self.publisher = ledger.publisher();
        }
    }

    fn hear(
        &mut self,
        heard: Heard,
        link: &mut End,
        ledger: &mut Ledger,
        tally: &mut Tally,
        at: Stamp,
    ) -> Result<(), Failure> {
        tally.add("messages delivered", matches!(heard, Heard::Delivered(_) | Heard::Got(_)).into());
        match heard {
            Heard::Connected => {
                self.open_channel(link, PUBLISH, ledger);
                self.open_channel(link, CONSUME, ledger);
            }
            Heard::Reply(channel, "channel.open-ok") => {
                self.requests[usize::from(channel)].pop_front();
                if channel == PUBLISH {
                    link.client.confirm_select(PUBLISH);
                } else {
                    link.client.qos(CONSUME, PREFETCH, false);
                }
                self.ask(channel, Request::Setup);
            }
            Heard::Reply(channel, _)
            | Heard::Declared(channel, _)
            | Heard::Removed(channel, _)
            | Heard::Consumer(channel)
            | Heard::Empty(channel) => self.answered(channel, ledger, tally, at),
            Heard::Cancelled(_, tag) => {
                // Messages that it had been given and wasn't sent yet are gone with it.
                if let Some(consumer) = self.consumers.remove(&tag).filter(|consumer| consumer.no_ack) {
                    ledger.excuse_all(&consumer.queue, consumer.since);
                    ledger.end_reading(&consumer.queue, UNLIMITED);
                }
            }
            Heard::Delivered(received) => self.delivered(received, ledger, tally, at)?,
            Heard::Got(received) => self.got(received, ledger, tally, at)?,
            Heard::Confirmed { first, last, positive, .. } => {
                for tag in first..=last {
                    let Some(id) = self.unconfirmed.remove(&tag) else { continue };
                    tally.hit("confirms");
                    if !positive && ledger.may_be_refused(id) {
                        tally.hit("messages refused by a stopped queue");
                        continue;
                    }
                    if !positive {
                        let detail = format!("message {id} was refused, although no queue has a limit");
                        return Err(Failure::new(Check::Runs, detail));
                    }
                    ledger.confirm(id, at);
                }
            }
            Heard::ChannelClosed(channel, reason) if reason.code == 404 || names_stopped(&reason.text, ledger) => {
                tally.hit("channel errors");
                self.lose(channel, ledger);
                self.open_channel(link, channel, ledger);
            }
            Heard::Returned | Heard::ChannelClosed(..) | Heard::ConnectionClosed(_) => {
                let detail = format!("peer {} heard {heard:?}", self.number);
                return Err(Failure::new(Check::Protocol, detail));
            }
        }
        Ok(())
    }

    fn answered(&mut self, channel: u16, ledger: &mut Ledger, tally: &mut Tally, at: Stamp) {
        match self.requests[usize::from(channel)].pop_front() {
            Some(Request::Make(object)) => self.learn(object, Presence::Present, ledger, at),
            Some(Request::Unmake(objects)) => {
                objects.into_iter().for_each(|object| self.learn(object, Presence::Absent, ledger, at));
            }
            Some(Request::Delete(queue, objects, asked)) => {
                tally.hit("queues deleted");
                objects.into_iter().for_each(|object| self.learn(object, Presence::Absent, ledger, at));
                self.learn(Object::Queue(queue.clone()), Presence::Absent, ledger, at);
                ledger.end_emptying(&queue, asked, Some(at));
            }
            Some(Request::Purge(queue, asked)) => {
                tally.hit("purges");
                ledger.end_emptying(&queue, asked, Some(at));
            }
            Some(Request::Cancel(tag)) => {
                if let Some(consumer) = self.consumers.remove(&tag).filter(|consumer| consumer.no_ack) {
                    ledger.end_reading(&consumer.queue, UNLIMITED);
                }
            }
            Some(Request::Get(queue, no_ack, _)) => ledger.end_reading(&queue, no_ack.into()),
            Some(Request::Setup | Request::Consume) | None => {}
        }
    }

    /// Notes the presence of an object by the answer to a request; another request about the object may already be
    /// carried out.
    fn learn(&self, object: Object, presence: Presence, ledger: &mut Ledger, at: Stamp) {
        let concerns = |request: &Request| match request {
            Request::Make(other) => *other == object,
            Request::Unmake(objects) => objects.contains(&object),
            Request::Delete(queue, objects, _) => objects.contains(&object) || object == Object::Queue(queue.clone()),
            _ => false,
        };
        let is_open = self.requests[usize::from(PUBLISH)].iter().any(concerns);
        ledger.note(object, at, if is_open { Presence::Unknown } else { presence });
    }

    fn delivered(
        &mut self,
        received: Received,
        ledger: &mut Ledger,
        tally: &mut Tally,
        _at: Stamp,
    ) -> Result<(), Failure> {
        let Some(consumer) = self.consumers.get_mut(&received.consumer) else {
            let tag = String::from_utf8_lossy(&received.consumer).into_owned();
            return Err(Failure::new(Check::Protocol, format!("a delivery to consumer {tag}")));
        };
        let id = examine(&received.content, &consumer.queue, ledger, tally)?;
        if let Some(reader) = &mut consumer.reader {
            reader.delivered(&consumer.queue, received.content.offset, id, ledger, tally)?;
        }
        let publisher = ledger.messages[id as usize].publisher;
        if !received.content.redelivered
            && !ledger.is_disordered(&consumer.queue)
            && ledger.messages[id as usize].targets[&consumer.queue].origin.is_none()
            && !ledger.messages[id as usize].waits_in(&consumer.queue)
            && let Some(before) = consumer.last.insert(publisher, id).filter(|before| *before > id)
        {
            let detail = format!("queue {}: message {id} was delivered after {before}", consumer.queue);
            return Err(Failure::new(Check::Order, detail));
        }
        if consumer.no_ack {
            ledger.settle(&consumer.queue, id, consumer.since);
        } else {
            self.held.push(HeldMessage {
                tag: received.tag,
                queue: consumer.queue.clone(),
                id,
                consumer: received.consumer,
            });
        }
        Ok(())
    }

    fn got(&mut self, received: Received, ledger: &mut Ledger, tally: &mut Tally, _at: Stamp) -> Result<(), Failure> {
        let Some(Request::Get(queue, no_ack, asked)) = self.requests[usize::from(CONSUME)].pop_front() else {
            return Err(Failure::new(Check::Protocol, "a message that nobody asked for"));
        };
        let id = examine(&received.content, &queue, ledger, tally)?;
        ledger.end_reading(&queue, no_ack.into());
        if no_ack {
            ledger.settle(&queue, id, asked);
        } else {
            self.held.push(HeldMessage { tag: received.tag, queue, id, consumer: Vec::new() });
        }
        Ok(())
    }

    /// Handles the end of a channel: the fate of everything under way on it stays unknown.
    fn lose(&mut self, channel: u16, ledger: &mut Ledger) {
        for request in std::mem::take(&mut self.requests[usize::from(channel)]) {
            match request {
                // It may have happened after the request was noted as unknown, or never.
                Request::Delete(queue, _, asked) => ledger.end_emptying(&queue, asked, None),
                // The queue may carry it out later: it stays under way until the life ends.
                Request::Purge(..) => {}
                Request::Get(queue, true, asked) => ledger.lose_get(&queue, asked),
                _ => {}
            }
        }
        if channel == PUBLISH {
            self.unconfirmed.clear();
        } else {
            self.held.clear();
            for consumer in std::mem::take(&mut self.consumers).into_values().filter(|consumer| consumer.no_ack) {
                ledger.excuse_all(&consumer.queue, consumer.since);
                ledger.end_reading(&consumer.queue, UNLIMITED);
            }
        }
    }

    /// Checks at rest that no reader of a stream waits for messages that are there.
    fn check_readers(&self, world: &World, ledger: &Ledger) -> Result<(), Failure> {
        for (tag, consumer) in &self.consumers {
            let Some(reader) = &consumer.reader else { continue };
            let held = self.held.iter().filter(|held| held.consumer == *tag).count();
            let Some((first, next, _)) = streams::extent(world, &consumer.queue) else { continue };
            if held < usize::from(PREFETCH) && reader.is_behind(&consumer.queue, (first, next), ledger) {
                let detail = format!("peer {}: {consumer:?} holds {held}, {first} to {next} are there", self.number);
                return Err(Failure::new(Check::Answered, detail));
            }
        }
        Ok(())
    }

    /// Handles the end of the connection.
    pub fn lose_all(&mut self, ledger: &mut Ledger) {
        self.lose(0, ledger);
        self.lose(PUBLISH, ledger);
        self.lose(CONSUME, ledger);
    }
}

/// The argument of a reader that begins there.
fn offset(start: Start) -> FieldValue {
    match start {
        Start::First => FieldValue::LongString(b"first".to_vec()),
        Start::Last => FieldValue::LongString(b"last".to_vec()),
        Start::Next => FieldValue::LongString(b"next".to_vec()),
        Start::Offset(offset) => FieldValue::I64(offset as i64),
    }
}

/// Whether the refusal of a request names a queue that has stopped.
fn names_stopped(text: &str, ledger: &Ledger) -> bool {
    stopped_queue(text).is_some_and(|queue| ledger.has_failed(queue))
}

impl crate::peer::Peer for Peer {
    fn may_go_on(&self, world: &mut World) -> bool {
        let client = &world.links[self.link].amqp091().client;
        let open = |channel: u16| client.is_channel_open(channel) && self.requests[usize::from(channel)].len() < 4;
        client.is_open() && open(PUBLISH) && open(CONSUME) && self.unconfirmed.len() < 40
    }

    fn operate(&mut self, world: &mut World, ledger: &mut Ledger) -> usize {
        operate(self, world, ledger)
    }

    fn listen(&mut self, world: &mut World, ledger: &mut Ledger, at: Stamp) -> Result<(), Failure> {
        let all = world.links[self.link].amqp091().heard();
        for heard in all {
            // The body of a message that was begun couldn't be read to its end.
            if let Heard::ConnectionClosed(reason) = &heard
                && reason.code == 541
                && names_stopped(&reason.text, ledger)
            {
                world.tally.hit("connections closed in the middle of a body");
                world.disconnect(self.link);
                self.lose_all(ledger);
                *self = Self::connect(self.number, world, ledger);
                return Ok(());
            }
            let link = world.links[self.link].amqp091();
            self.hear(heard, link, ledger, &mut world.tally, at)?;
        }
        Ok(())
    }

    fn add_held(&self, held: &mut Holdings) {
        // Messages of a stream are held by its readers alone.
        let is_counted = |one: &&HeldMessage| !is_stream(&one.queue) || self.consumers.contains_key(&one.consumer);
        for one in self.held.iter().filter(is_counted) {
            held.entry(one.queue.clone()).or_default().add(one.id, true);
        }
    }

    fn rest(&self, world: &mut World, _: &Shown, ledger: &Ledger) -> Result<(), Failure> {
        self.check_readers(world, ledger)?;
        let is_answered = self.unconfirmed.is_empty() && self.requests.iter().all(VecDeque::is_empty);
        if is_answered && world.links[self.link].is_quiet() {
            return Ok(());
        }
        let unconfirmed: Vec<_> = self.unconfirmed.values().collect();
        let (number, requests) = (self.number, &self.requests);
        let detail =
            format!("nothing moves any more; peer {number}: unconfirmed {unconfirmed:?}, requests {requests:?}");
        Err(Failure::new(Check::Answered, detail))
    }
}
