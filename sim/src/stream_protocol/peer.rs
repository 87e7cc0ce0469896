//! A client of the stream protocol in the workload: it publishes to the streams of other clients, with and without names, and reads
//! them in chunks.

use std::collections::{BTreeMap, VecDeque};

use leveret_stream_protocol::{OffsetSpec, ResponseCode, key};
use leveret_strict_client::stream::StreamEvent;

use super::{Heard, StreamEnd};
use crate::amqp10::message;
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, MessageId, Object, Presence, Stamp};
use crate::link;
use crate::peer::{Holdings, examine, length};
use crate::quiet::Shown;
use crate::streams::{self, Start, StreamReader};
use crate::tally::Tally;
use crate::topology::some_stream;
use crate::world::World;

/// Most publishers of a client, and most subscriptions.
const EACH_MAX: usize = 3;
/// Most chunks that a subscription is granted.
const CREDIT_MAX: u32 = 4;

/// A publisher.
#[derive(Debug)]
struct Publisher {
    stream: String,
    /// Its declaration was answered.
    is_there: bool,
    /// Its number in the ledger.
    number: u64,
    /// Its name; empty without one.
    name: String,
    /// The publishing id of its next message.
    next: u64,
    unconfirmed: BTreeMap<u64, MessageId>,
}

/// A subscription.
#[derive(Debug)]
struct Subscription {
    stream: String,
    is_there: bool,
    /// Its end was requested.
    is_ending: bool,
    /// Earlier messages of its first chunk aren't for it.
    from: u64,
    /// Chunks that were granted and haven't come.
    credit: u32,
    reader: StreamReader,
}

/// A request without its answer.
#[derive(Debug)]
enum Request {
    Declare(u8),
    Subscribe(u8),
    Unsubscribe(u8),
}

/// A client of the stream protocol.
#[derive(Debug)]
pub struct Peer {
    link: usize,
    number: usize,
    is_open: bool,
    publishers: BTreeMap<u8, Publisher>,
    subscriptions: BTreeMap<u8, Subscription>,
    /// Named publishers of an earlier connection that have to send again.
    resuming: Vec<Publisher>,
    requests: VecDeque<Request>,
    /// The next id of a publisher or subscription: none is used again.
    next_id: u8,
}

impl Peer {
    /// Connects a client.
    pub fn connect(number: usize, world: &mut World) -> Self {
        Self {
            link: world.connect(link::End::Stream(Box::default())),
            number,
            is_open: false,
            publishers: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            resuming: Vec::new(),
            requests: VecDeque::new(),
            next_id: 0,
        }
    }

    fn end<'w>(&self, world: &'w mut World) -> &'w mut StreamEnd {
        world.links[self.link].stream()
    }

    /// An id for a publisher or subscription; `None` if this connection has used up all of them.
    fn fresh_id(&mut self) -> Option<u8> {
        let id = self.next_id;
        self.next_id = id.checked_add(1)?;
        Some(id)
    }

    /// The connection breaks. Named publishers send again on the next one what they don't know to be confirmed.
    fn reconnect(&mut self, world: &mut World) {
        world.tally.hit("connections dropped");
        world.disconnect(self.link);
        let mut new = Self::connect(self.number, world);
        let all = std::mem::take(&mut self.publishers).into_values().chain(std::mem::take(&mut self.resuming));
        new.resuming = all.filter(|known| !known.name.is_empty() && !known.unconfirmed.is_empty()).collect();
        *self = new;
    }

    fn declare(&mut self, world: &mut World, ledger: &mut Ledger) -> usize {
        let resumed = self.resuming.pop();
        if resumed.is_none() && self.publishers.len() == EACH_MAX {
            return 0;
        }
        let new = |world: &mut World, ledger: &mut Ledger| {
            let number = ledger.publisher();
            // A name of an earlier life would have messages with these numbers.
            let name = if world.random.below(2) == 0 { format!("writer {number}") } else { String::new() };
            let stream = some_stream(world, ledger)?;
            Some(Publisher { stream, is_there: false, number, name, next: 1, unconfirmed: BTreeMap::new() })
        };
        let Some(publisher) = resumed.or_else(|| new(world, ledger)) else { return 0 };
        let Some(id) = self.fresh_id() else { return 0 };
        self.end(world).client.declare_publisher(id, &publisher.name, &publisher.stream);
        self.publishers.insert(id, Publisher { is_there: false, ..publisher });
        self.requests.push_back(Request::Declare(id));
        1
    }

    fn subscribe(&mut self, world: &mut World, ledger: &mut Ledger) -> usize {
        if self.subscriptions.len() == EACH_MAX {
            return 0;
        }
        let Some(stream) = some_stream(world, ledger) else { return 0 };
        let Some(id) = self.fresh_id() else { return 0 };
        let start = Start::any(&mut world.random, ledger, &stream);
        let (spec, from) = match start {
            Start::First => (OffsetSpec::First, 0),
            Start::Last => (OffsetSpec::Last, 0),
            Start::Next => (OffsetSpec::Next, 0),
            Start::Offset(offset) => (OffsetSpec::Offset(offset), offset),
        };
        let reader = StreamReader::new(start, ledger, &stream);
        let credit = world.random.below(3) as u32;
        self.end(world).client.subscribe(id, &stream, spec, credit as u16);
        ledger.begin_reading(&stream, 0, world.disk.count());
        let subscription = Subscription { stream, is_there: false, is_ending: false, from, credit, reader };
        self.subscriptions.insert(id, subscription);
        self.requests.push_back(Request::Subscribe(id));
        1
    }

    fn some_subscription(&self, world: &mut World) -> Option<u8> {
        let there = self.subscriptions.iter().filter(|(_, known)| known.is_there && !known.is_ending);
        let ids: Vec<u8> = there.map(|(id, _)| *id).collect();
        (!ids.is_empty()).then(|| ids[world.random.below(ids.len() as u64) as usize])
    }

    fn unsubscribe(&mut self, world: &mut World) -> usize {
        let Some(id) = self.some_subscription(world) else { return 0 };
        self.end(world).client.unsubscribe(id);
        self.subscriptions.entry(id).and_modify(|known| known.is_ending = true);
        self.requests.push_back(Request::Unsubscribe(id));
        1
    }

    fn grant(&mut self, world: &mut World) -> usize {
        let Some(id) = self.some_subscription(world) else { return 0 };
        let chunks = 1 + world.random.below(2) as u32;
        let Some(known) = self.subscriptions.get_mut(&id).filter(|known| known.credit + chunks <= CREDIT_MAX) else {
            return 0;
        };
        known.credit += chunks;
        self.end(world).client.credit(id, chunks as u16);
        1
    }

    fn publish(&mut self, world: &mut World, ledger: &mut Ledger) -> usize {
        let ids: Vec<u8> = self.publishers.iter().filter(|(_, known)| known.is_there).map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return self.declare(world, ledger);
        }
        let id = ids[world.random.below(ids.len() as u64) as usize];
        let Some(publisher) = self.publishers.get_mut(&id) else { return 0 };
        let (at, first) = (world.disk.count(), publisher.next);
        let mut messages = Vec::new();
        for _ in 0..1 + world.random.below(4) {
            let (length, persistent) = (length(world), world.random.below(5) > 0);
            let message = ledger.publish(publisher.number, ("", &publisher.stream), (length, persistent), at);
            publisher.unconfirmed.insert(publisher.next, message);
            publisher.next += 1;
            messages.push(message::encode(message, length, persistent, None));
        }
        world.tally.add("messages sent", messages.len() as u64);
        self.end(world).publish(id, first, &messages);
        messages.len()
    }

    /// Sends again what a publisher had sent on an earlier connection.
    fn send_again(&self, id: u8, end: &mut StreamEnd, ledger: &Ledger, tally: &mut Tally) {
        for (publishing_id, message) in &self.publishers[&id].unconfirmed {
            let known = &ledger.messages[*message as usize];
            end.publish(id, *publishing_id, &[message::encode(known.id, known.length, known.persistent, None)]);
            tally.hit("messages sent");
            tally.hit("messages sent again");
        }
    }

    fn hear(&mut self, event: StreamEvent, world: &mut World, ledger: &mut Ledger, at: Stamp) -> Result<(), Failure> {
        match event {
            StreamEvent::Connected => self.is_open = true,
            StreamEvent::Answered { key: key::DECLARE_PUBLISHER | key::SUBSCRIBE | key::UNSUBSCRIBE, code } => {
                return self.answered(code, world, ledger);
            }
            StreamEvent::Answered { code: ResponseCode::Ok, .. } | StreamEvent::Named { .. } => {}
            StreamEvent::Confirmed { publisher, first, last } => {
                let Some(known) = self.publishers.get_mut(&publisher) else { return Ok(()) };
                for message in (first..=last).filter_map(|id| known.unconfirmed.remove(&id)) {
                    world.tally.hit("confirms");
                    ledger.confirm(message, at);
                }
            }
            StreamEvent::Refused { publisher, id, code } => {
                // A publisher may be gone with its stream.
                let known = self.publishers.get_mut(&publisher);
                let Some((known, message)) =
                    known.and_then(|known| Some((&*known.stream, known.unconfirmed.remove(&id)?)))
                else {
                    return Ok(());
                };
                if ledger.may_be_refused(message) {
                    world.tally.hit("messages refused by a stopped queue");
                } else if !may_be_missing(known, ledger) {
                    return Err(Failure::new(Check::Runs, format!("message {message} was refused with code {code}")));
                }
            }
            StreamEvent::StreamGone { stream, .. } => {
                world.tally.hit("clients told that a stream is gone");
                if !may_be_missing(&stream, ledger) {
                    return Err(Failure::new(Check::Runs, format!("stream {stream} is said to be gone")));
                }
                self.publishers.retain(|_, known| known.stream != stream || !known.is_there);
                self.subscriptions.retain(|_, known| known.stream != stream || !known.is_there);
            }
            // It ended before the credit came, and its client was told.
            StreamEvent::CreditRefused { subscription } if !self.subscriptions.contains_key(&subscription) => {}
            other => {
                let detail = format!("peer {} heard {other:?}", self.number);
                return Err(Failure::new(Check::Protocol, detail));
            }
        }
        Ok(())
    }

    fn answered(&mut self, code: ResponseCode, world: &mut World, ledger: &Ledger) -> Result<(), Failure> {
        let is_done = code == ResponseCode::Ok;
        let stream = match self.requests.pop_front() {
            Some(Request::Declare(id)) if is_done => {
                if let Some(known) = self.publishers.get_mut(&id) {
                    known.is_there = true;
                    self.send_again(id, world.links[self.link].stream(), ledger, &mut world.tally);
                }
                return Ok(());
            }
            Some(Request::Subscribe(id)) if is_done => {
                self.subscriptions.entry(id).and_modify(|known| known.is_there = true);
                return Ok(());
            }
            Some(Request::Unsubscribe(id)) => {
                // Its stream may have been gone by then.
                self.subscriptions.remove(&id);
                return Ok(());
            }
            Some(Request::Declare(id)) => self.publishers.remove(&id).map(|known| known.stream),
            Some(Request::Subscribe(id)) => self.subscriptions.remove(&id).map(|known| known.stream),
            None => None,
        };
        match (stream, code) {
            (Some(stream), ResponseCode::StreamDoesNotExist | ResponseCode::StreamNotAvailable)
                if may_be_missing(&stream, ledger) =>
            {
                Ok(())
            }
            (Some(_), ResponseCode::PreconditionFailed) if ledger.space_is_short => Ok(()),
            (stream, code) => {
                let detail = format!("peer {}: a request for {stream:?} was answered with {code:?}", self.number);
                Err(Failure::new(Check::Protocol, detail))
            }
        }
    }

    fn chunk(
        &mut self,
        (id, first): (u8, u64),
        messages: &[Vec<u8>],
        ledger: &mut Ledger,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        tally.hit("chunks received");
        tally.add("messages delivered", messages.len() as u64);
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return Err(Failure::new(Check::Protocol, format!("a chunk for subscription {id}, which is over")));
        };
        subscription.credit -= 1;
        let Subscription { stream, from, reader, .. } = subscription;
        for (offset, bytes) in (first..).zip(messages).filter(|(offset, _)| offset >= from) {
            let Some(content) = message::decode_stored(bytes, stream, offset) else {
                let detail = format!("stream {stream} has a message of other sections at {offset}: {bytes:02x?}");
                return Err(Failure::new(Check::NoCorruption, detail));
            };
            let message = examine(&content, stream, ledger, tally)?;
            reader.delivered(stream, Some(offset), message, ledger, tally)?;
        }
        Ok(())
    }
}

/// Whether a stream may not be there, or not work, as far as clients know.
fn may_be_missing(stream: &str, ledger: &Ledger) -> bool {
    let object = Object::Queue(stream.to_owned());
    ledger.has_failed(stream) || ledger.was_unmade(&object) || ledger.presence_now(&object) != Presence::Present
}

impl crate::peer::Peer for Peer {
    fn may_go_on(&self, _: &mut World) -> bool {
        let unconfirmed: usize = self.publishers.values().map(|known| known.unconfirmed.len()).sum();
        self.is_open && self.requests.len() < 4 && unconfirmed < 40
    }

    fn operate(&mut self, world: &mut World, ledger: &mut Ledger) -> usize {
        match world.random.below(100) {
            0 if !world.is_gentle => {
                self.reconnect(world);
                1
            }
            // No id is left.
            _ if self.next_id == u8::MAX && !world.is_gentle => {
                self.reconnect(world);
                1
            }
            _ if !self.resuming.is_empty() => self.declare(world, ledger),
            1..=6 => self.declare(world, ledger),
            7..=14 => self.subscribe(world, ledger),
            15..=18 if !world.is_gentle => self.unsubscribe(world),
            19..=49 => self.grant(world),
            _ => self.publish(world, ledger),
        }
    }

    fn listen(&mut self, world: &mut World, ledger: &mut Ledger, at: Stamp) -> Result<(), Failure> {
        for heard in world.links[self.link].stream().heard() {
            match heard {
                Heard::Chunk { subscription, first, messages } => {
                    self.chunk((subscription, first), &messages, ledger, &mut world.tally)?;
                }
                Heard::Event(event) => self.hear(event, world, ledger, at)?,
            }
        }
        Ok(())
    }

    /// Readers of the stream protocol hold nothing.
    fn add_held(&self, _: &mut Holdings) {}

    fn rest(&self, world: &mut World, _: &Shown, ledger: &Ledger) -> Result<(), Failure> {
        let unanswered = |detail: String| Err(Failure::new(Check::Answered, format!("peer {}: {detail}", self.number)));
        for subscription in self.subscriptions.values().filter(|known| known.credit > 0) {
            let Subscription { stream, reader, .. } = subscription;
            let Some((first, next, _)) = streams::extent(world, stream) else { continue };
            if reader.is_behind(stream, (first, next), ledger) {
                return unanswered(format!("{subscription:?}, {first} to {next} are there"));
            }
        }
        let is_answered = self.publishers.values().all(|known| known.unconfirmed.is_empty());
        if is_answered && self.requests.is_empty() && world.links[self.link].is_quiet() {
            return Ok(());
        }
        unanswered(format!("{:?}, requests {:?}", self.publishers, self.requests))
    }
}
