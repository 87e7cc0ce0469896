//! The clients' knowledge: which objects and messages were requested, confirmed and settled, and when.
//!
//! Times are [`Stamp`]s, the number of changes that the disk had seen. One run of a trace thereby tells what must exist
//! after a power cut at each of its changes. A fact that promises something has the stamp at which the client learned
//! it; a fact that excuses something has the stamp at which the client requested it.

use std::collections::{BTreeMap, BTreeSet};

use crate::streams::{self, StreamKind, is_stream};
use crate::topology::{dead_letters_of, is_quorum};

/// Number of changes that the disk had seen.
pub type Stamp = usize;

/// A message by its index in [`Ledger::messages`].
pub type MessageId = u64;

/// A durable object that clients declare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A queue.
    Queue(String),
    /// An exchange.
    Exchange(String),
    /// Exchange, queue and key of a binding.
    Binding(String, String, String),
}

/// Whether an object exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Never declared, or its deletion was confirmed.
    Absent,
    /// Its declaration or deletion was requested and isn't confirmed.
    Unknown,
    /// Its declaration was confirmed.
    Present,
}

/// The knowledge about a message in one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The binding that leads there was confirmed before, and its removal wasn't requested.
    pub certain: bool,
    /// From this stamp on a request that removes it was under way.
    pub excused: Option<Stamp>,
    /// From this stamp on it is known to be gone for good.
    pub gone: Option<Stamp>,
    /// A client received it from there.
    pub seen: bool,
    /// How often it had been delivered, as its last receiver of this life was told.
    pub acquired: Option<i64>,
    /// A consumer gave it back with a time of delivery, in milliseconds since the Unix epoch, and was answered.
    pub not_before_ms: u64,
    /// It came, or will come, as a dead letter.
    pub origin: Option<Origin>,
}

/// The origin of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The queue in which it died.
    pub queue: String,
    /// The stamp at which its rejection there was requested.
    pub asked: Stamp,
}

/// A transaction that is to be committed: all of it takes effect, or nothing.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The stamp at which the commit was requested.
    pub asked: Stamp,
    /// The messages that were published in it.
    pub published: Vec<MessageId>,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Bytes of its body.
    pub length: usize,
    /// Bytes that the broker counts for it: for AMQP 1.0, the bare message.
    pub bytes: u64,
    /// Delivery mode 2.
    pub persistent: bool,
    /// The time of delivery that its publisher asked for, in milliseconds since the Unix epoch.
    pub delivery_ms: Option<u64>,
    /// A consumer gave it back with a time of delivery.
    pub is_annotated: bool,
    /// The exchange that it was published to.
    pub exchange: String,
    /// Its routing key.
    pub key: String,
    /// The channel that published it, as a unique number.
    pub publisher: u64,
    /// The stamp at which it was published.
    pub published: Stamp,
    /// The time at which it was published or a little before, in milliseconds since the Unix epoch.
    pub published_ms: u64,
    /// The stamp from which on it may be in a queue: 0, or when the commit of its transaction was requested. `Stamp::MAX` before that,
    /// and if it was rolled back.
    pub visible: Stamp,
    /// The stamp at which the publisher learned that it is safe.
    pub confirmed: Option<Stamp>,
    /// Its targets by queue.
    pub targets: BTreeMap<String, Target>,
}

impl Message {
    /// Whether a queue delivers it at another time than its neighbours.
    #[must_use]
    pub fn waits_in(&self, queue: &str) -> bool {
        is_quorum(queue) && self.delivery_ms.is_some()
    }

    /// Whether it is certain to be in a queue, ready or held by a client. Nothing is said of dead letters.
    #[must_use]
    pub fn is_kept_in(&self, queue: &str) -> bool {
        let stays = |target: &Target| {
            target.certain && target.excused.is_none() && target.gone.is_none() && target.origin.is_none()
        };
        self.confirmed.is_some() && self.targets.get(queue).is_some_and(stays)
    }

    /// Excuses it from this stamp on: it may be gone from a queue, and from the target of its dead letter there.
    fn excuse(&mut self, queue: &str, at: Stamp) {
        for target in self.at(queue) {
            target.excused = Some(target.excused.map_or(at, |earlier| earlier.min(at)));
        }
    }

    /// Like [`Message::excuse`], unless it was excused before.
    fn excuse_if_new(&mut self, queue: &str, at: Stamp) {
        for target in self.at(queue) {
            target.excused.get_or_insert(at);
        }
    }

    /// Its target in a queue, and the target of a dead letter from there that isn't known to have come.
    fn at(&mut self, queue: &str) -> impl Iterator<Item = &mut Target> {
        let has_left = self.targets.get(queue).is_some_and(|target| target.gone.is_some());
        self.targets.iter_mut().filter_map(move |(name, target)| {
            let comes = target.origin.as_ref().is_some_and(|origin| origin.queue == queue) && !has_left;
            (name == queue || comes).then_some(target)
        })
    }
}

/// The clients' knowledge of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Transactions whose end was requested.
    pub commits: Vec<Commit>,
    /// All messages ever published, by id.
    pub messages: Vec<Message>,
    objects: BTreeMap<Object, Vec<(Stamp, Presence)>>,
    /// Queues with the number of purges or deletions under way: any message in them is excused.
    emptying: BTreeMap<String, u32>,
    /// Queues with the number of messages that may be gone unnoticed, since a consumer or get doesn't acknowledge.
    draining: BTreeMap<String, u64>,
    /// Queues with the number of gets without acknowledgement whose client is gone; a queue may carry them out later.
    lost_gets: BTreeMap<String, u64>,
    /// Queues that were ever read from.
    read: BTreeMap<String, Stamp>,
    /// Queues to which messages may have been returned without the redelivered flag, since no client had seen them.
    disordered: BTreeSet<String>,
    /// Queues that stopped in this life, since some of their data couldn't be read.
    failed: BTreeSet<String>,
    /// Stamps at which a client learned of a lasting fact.
    promises: Vec<Stamp>,
    /// The last life ended without a power cut: all writes are there, synced or not.
    pub kept_power: bool,
    /// A large message may find no space for its body file.
    pub space_is_short: bool,
    publishers: u64,
    /// Streams by name.
    pub streams: BTreeMap<String, streams::Book>,
    /// The kind of the streams of every second owner.
    pub stream_kind: StreamKind,
    /// The stamp before the step in which clients received what they hear now.
    pub heard_at: Stamp,
    /// Wall time in milliseconds since the Unix epoch.
    pub now_ms: u64,
}

impl Ledger {
    /// A new number for a channel that publishes.
    pub fn publisher(&mut self) -> u64 {
        self.publishers += 1;
        self.publishers
    }

    /// Notes that these queues have stopped.
    pub fn note_failed(&mut self, failed: &BTreeSet<String>) {
        if failed.len() > self.failed.len() {
            self.failed.clone_from(failed);
        }
    }

    /// Whether a queue has stopped in this life.
    #[must_use]
    pub fn has_failed(&self, queue: &str) -> bool {
        self.failed.contains(queue)
    }

    /// Whether any queue has stopped.
    #[must_use]
    pub fn has_failures(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Whether any queue that a message was published to has stopped.
    #[must_use]
    pub fn may_be_refused(&self, id: MessageId) -> bool {
        self.space_is_short || self.messages[id as usize].targets.keys().any(|queue| self.failed.contains(queue))
    }

    /// Notes the presence of an object.
    pub fn note(&mut self, object: Object, at: Stamp, presence: Presence) {
        if presence == Presence::Unknown {
            self.may_reach(&object);
        }
        self.objects.entry(object).or_default().push((at, presence));
    }

    /// Notes that publishes that aren't confirmed yet may reach a new queue or binding.
    fn may_reach(&mut self, object: &Object) {
        let (from, queue) = match object {
            Object::Queue(name) => ("", name),
            Object::Binding(exchange, queue, _) => (exchange.as_str(), queue),
            Object::Exchange(_) => return,
        };
        for message in self.messages.iter_mut().filter(|message| message.confirmed.is_none()) {
            if message.exchange == from && (!from.is_empty() || message.key == *queue) {
                message.targets.entry(queue.clone()).or_default();
            }
        }
    }

    /// The presence known at a stamp; absent if the object wasn't requested by then.
    #[must_use]
    pub fn presence(&self, object: &Object, at: Stamp) -> Presence {
        let history = self.objects.get(object).map_or(&[][..], Vec::as_slice);
        history.iter().rev().find(|(when, _)| *when <= at).map_or(Presence::Absent, |(_, presence)| *presence)
    }

    /// The presence known now.
    #[must_use]
    pub fn presence_now(&self, object: &Object) -> Presence {
        self.presence(object, Stamp::MAX)
    }

    /// Whether the removal of an object that existed in this life was requested.
    #[must_use]
    pub fn was_unmade(&self, object: &Object) -> bool {
        let history = self.objects.get(object).map_or(&[][..], Vec::as_slice);
        history
            .iter()
            .map(|(_, presence)| *presence)
            .skip_while(|known| *known != Presence::Present)
            .any(|known| known != Presence::Present)
    }

    /// All objects that were ever requested.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.keys()
    }

    /// The names of all queues that were ever requested.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.objects().filter_map(|object| match object {
            Object::Queue(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Notes that a message is about to be published. Its targets follow from the bindings as they are known now.
    pub fn publish(
        &mut self,
        publisher: u64,
        (exchange, key): (&str, &str),
        (length, persistent): (usize, bool),
        at: Stamp,
    ) -> MessageId {
        let id = self.messages.len() as MessageId;
        let mut targets = BTreeMap::new();
        for (object, history) in &self.objects {
            let known = history.last().map_or(Presence::Absent, |(_, presence)| *presence);
            let queue = match object {
                Object::Queue(name) if exchange.is_empty() && name == key => name,
                Object::Binding(from, queue, with) if from == exchange && (with.is_empty() || with == key) => queue,
                _ => continue,
            };
            let queue_known = self.presence_now(&Object::Queue(queue.clone()));
            if known == Presence::Absent {
                continue;
            }
            let certain = known == Presence::Present && queue_known == Presence::Present;
            let target: &mut Target = targets.entry(queue.clone()).or_default();
            target.certain |= certain;
            if self.emptying.contains_key(queue) {
                target.excused = Some(at);
            }
        }
        let (exchange, key) = (exchange.to_owned(), key.to_owned());
        let (published, confirmed) = (at, None);
        let bytes = length as u64;
        let message = Message {
            id,
            length,
            bytes,
            persistent,
            delivery_ms: None,
            is_annotated: false,
            exchange,
            key,
            publisher,
            published,
            published_ms: self.now_ms,
            visible: 0,
            confirmed,
            targets,
        };
        self.messages.push(message);
        id
    }

    /// Notes that the publisher learned that a message is safe.
    pub fn confirm(&mut self, id: MessageId, at: Stamp) {
        self.messages[id as usize].confirmed = Some(at);
        self.promises.push(at);
    }

    /// The stamps, in order, at which clients of this life were promised something.
    #[must_use]
    pub fn promises(&self) -> &[Stamp] {
        &self.promises
    }

    /// Notes that a message is published in a transaction.
    pub fn withhold(&mut self, id: MessageId) {
        self.messages[id as usize].visible = Stamp::MAX;
    }

    /// Notes the request to commit a transaction with these messages.
    pub fn commit(&mut self, published: &[MessageId], asked: Stamp) {
        published.iter().for_each(|id| self.messages[*id as usize].visible = asked);
        self.commits.push(Commit { asked, published: published.to_vec() });
    }

    /// Notes that a message of a transaction was refused by itself.
    pub fn leaves_commit(&mut self, id: MessageId) {
        self.commits.iter_mut().for_each(|commit| commit.published.retain(|other| *other != id));
    }

    /// Notes that a message's transaction was rolled back.
    pub fn never(&mut self, id: MessageId) {
        self.withhold(id);
        self.messages[id as usize].targets.values_mut().for_each(|target| target.gone = Some(0));
    }

    /// Notes that the publisher learned that a message found no queue. False if there was one.
    pub fn released(&mut self, id: MessageId, at: Stamp) -> bool {
        let message = &mut self.messages[id as usize];
        let found_none = message.targets.values().all(|target| !target.certain || target.excused.is_some());
        for target in message.targets.values_mut() {
            target.gone.get_or_insert(at);
        }
        found_none
    }

    /// Notes the request to settle a message for good.
    pub fn settle(&mut self, queue: &str, id: MessageId, at: Stamp) {
        // Readers of a stream take nothing away.
        if let Some(message) = self.messages.get_mut(id as usize).filter(|_| !is_stream(queue)) {
            message.excuse(queue, at);
        }
    }

    /// Notes the request to give a message back with a time of delivery.
    pub fn annotate(&mut self, id: MessageId) {
        if let Some(message) = self.messages.get_mut(id as usize) {
            message.is_annotated = true;
        }
    }

    /// Notes that a client was told that it gave a message back with a time of delivery, in milliseconds since the Unix epoch.
    pub fn delayed(&mut self, queue: &str, id: MessageId, until_ms: u64) {
        let target = self.messages.get_mut(id as usize).and_then(|message| message.targets.get_mut(queue));
        if let Some(target) = target.filter(|_| is_quorum(queue)) {
            target.not_before_ms = target.not_before_ms.max(until_ms);
        }
    }

    /// Notes the request to reject a message: it may move to its dead-letter queue.
    pub fn reject(&mut self, queue: &str, id: MessageId, at: Stamp) {
        let Some(dead) = dead_letters_of(queue) else { return self.settle(queue, id, at) };
        let is_there = self.presence_now(&Object::Queue(dead.clone())) == Presence::Present;
        let stays = !self.emptying.contains_key(&dead) && !self.emptying.contains_key(queue);
        let Some(message) = self.messages.get_mut(id as usize) else { return };
        let mut certain = is_there && stays;
        if let Some(target) = message.targets.get_mut(queue) {
            // It may come from a queue that was deleted meanwhile.
            certain &= target.excused.is_none();
            target.excused = Some(target.excused.map_or(at, |earlier| earlier.min(at)));
        }
        let origin = Some(Origin { queue: queue.to_owned(), asked: at });
        let new = Target { certain, origin, ..Target::default() };
        let target = message.targets.entry(dead).or_insert_with(|| new.clone());
        // There was an earlier attempt, whose move was undone by a crash.
        if target.gone.is_some() {
            *target = new;
        }
    }

    /// Notes that a client was told that a message has left a queue for good.
    pub fn settled(&mut self, queue: &str, id: MessageId, at: Stamp) {
        if is_stream(queue) {
            return;
        }
        if let Some(target) = self.messages.get_mut(id as usize).and_then(|message| message.targets.get_mut(queue)) {
            target.gone.get_or_insert(at);
            self.promises.push(at);
        }
    }

    /// Notes the request to purge or delete a queue.
    pub fn begin_emptying(&mut self, queue: &str, at: Stamp) {
        if is_stream(queue) {
            self.streams.entry(queue.to_owned()).or_default().begin_deletion(at);
        }
        *self.emptying.entry(queue.to_owned()).or_default() += 1;
        self.messages.iter_mut().for_each(|message| message.excuse_if_new(queue, at));
    }

    /// Notes that a reader without acknowledgements, which began at this stamp, is gone with its messages under way.
    pub fn excuse_all(&mut self, queue: &str, since: Stamp) {
        if is_stream(queue) {
            return;
        }
        self.messages.iter_mut().for_each(|message| message.excuse(queue, since));
    }

    /// Notes that a reader is gone that had taken more messages than it was sent: the rest is back without a flag.
    pub fn disorder(&mut self, queue: &str) {
        self.disordered.insert(queue.to_owned());
    }

    /// Whether messages of a queue may come late without a flag.
    #[must_use]
    pub fn is_disordered(&self, queue: &str) -> bool {
        self.disordered.contains(queue)
    }

    /// Notes that the purge or deletion is done (`at` is when the client learned of it), or that its connection is
    /// over. `asked` is the stamp that [`Ledger::begin_emptying`] got.
    pub fn end_emptying(&mut self, queue: &str, asked: Stamp, at: Option<Stamp>) {
        if let Some(count) = self.emptying.get_mut(queue) {
            *count -= 1;
            if *count == 0 {
                self.emptying.remove(queue);
            }
        }
        let was_read = self.read.contains_key(queue);
        let Some(at) = at else { return };
        if is_stream(queue) {
            self.streams.entry(queue.to_owned()).or_default().end_deletion();
        }
        for message in &mut self.messages {
            // With the same stamp it may have been confirmed later.
            let before = message.confirmed.is_some_and(|confirmed| confirmed < asked);
            // A dead letter may come after it was confirmed to its publisher.
            if let Some(target) = message.targets.get_mut(queue).filter(|target| target.origin.is_none())
                && before
                && !was_read
            {
                target.gone.get_or_insert(at);
            }
        }
    }

    /// Notes that a binding is about to be removed: unconfirmed messages may pass it or not.
    pub fn begin_unbind(&mut self, exchange: &str, queue: &str, at: Stamp) {
        let open = |message: &&mut Message| message.confirmed.is_none() && message.exchange == exchange;
        for message in self.messages.iter_mut().filter(open) {
            if let Some(target) = message.targets.get_mut(queue) {
                target.excused.get_or_insert(at);
            }
        }
    }

    /// Notes that a queue is read from. Without acknowledgements, up to `unheard` messages may go unnoticed.
    pub fn begin_reading(&mut self, queue: &str, unheard: u64, at: Stamp) {
        self.read.entry(queue.to_owned()).or_insert(at);
        let draining = self.draining.entry(queue.to_owned()).or_default();
        *draining = draining.saturating_add(if is_stream(queue) { 0 } else { unheard });
    }

    /// Notes that reading ended, and that all messages it took were received.
    pub fn end_reading(&mut self, queue: &str, unheard: u64) {
        if let Some(draining) = self.draining.get_mut(queue) {
            *draining = draining.saturating_sub(unheard);
        }
    }

    /// Notes that the client of a get without acknowledgement is gone before the answer. The queue may carry it out later,
    /// and take a message that was published after that.
    pub fn lose_get(&mut self, queue: &str, asked: Stamp) {
        self.excuse_all(queue, asked);
        self.end_reading(queue, 1);
        *self.lost_gets.entry(queue.to_owned()).or_default() += 1;
    }

    /// Notes that nothing is under way: all messages that left were received.
    pub fn heard_everything(&mut self) {
        self.draining.clear();
    }

    /// Number of messages of a queue that may have left unnoticed.
    #[must_use]
    pub fn unheard(&self, queue: &str) -> u64 {
        let count = |of: &BTreeMap<String, u64>| of.get(queue).copied().unwrap_or(0);
        count(&self.draining).saturating_add(count(&self.lost_gets))
    }

    /// Begins a new life: the messages that a client found are all there are, and they are durable.
    pub fn rebase(&mut self, found: &BTreeMap<String, Vec<MessageId>>, present: &dyn Fn(&Object) -> bool) {
        for (object, history) in &mut self.objects {
            let presence = if present(object) { Presence::Present } else { Presence::Absent };
            *history = vec![(0, presence)];
        }
        self.emptying.clear();
        self.draining.clear();
        self.lost_gets.clear();
        self.disordered.clear();
        self.failed.clear();
        self.promises.clear();
        self.kept_power = false;
        for message in &mut self.messages {
            message.published = 0;
            if message.visible < Stamp::MAX {
                message.visible = 0;
            }
            for target in message.targets.values_mut() {
                target.excused = None;
                target.acquired = None;
                // Times of the last moment before a crash may be lost.
                target.not_before_ms = 0;
                target.gone = Some(0);
                target.certain = false;
                if let Some(origin) = &mut target.origin {
                    origin.asked = 0;
                }
            }
        }
        for (queue, ids) in found {
            for id in ids {
                let message = &mut self.messages[*id as usize];
                message.confirmed = Some(0);
                if let Some(target) = message.targets.get_mut(queue) {
                    target.gone = None;
                    target.certain = true;
                }
            }
        }
    }
}
