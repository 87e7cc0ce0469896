//! What the clients know: which objects and messages were asked for, confirmed, settled, and when.
//!
//! "When" is a [`Stamp`]: how many changes the disk had seen. One run of a trace so tells what must be there after a
//! power cut at each of its changes. Facts that promise something carry the stamp at which the client learned of
//! them, facts that excuse something the stamp at which the client asked for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::topology::dead_letters_of;

/// Number of changes that the disk had seen.
pub type Stamp = usize;

/// A message by its place in [`Ledger::messages`].
pub type MessageId = u64;

/// A durable object that clients declare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A queue.
    Queue(String),
    /// An exchange.
    Exchange(String),
    /// Exchange, queue, key.
    Binding(String, String, String),
}

/// Whether an object is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Never declared, or its deletion was confirmed.
    Absent,
    /// Asked for, one way or the other.
    Unknown,
    /// Its declaration was confirmed.
    Present,
}

/// What is known of a message in one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The binding that leads there was confirmed before and nobody asked to take it away.
    pub certain: bool,
    /// From here on somebody asked for something that takes it away.
    pub excused: Option<Stamp>,
    /// From here on it is known to be gone for good.
    pub gone: Option<Stamp>,
    /// A client got it from there.
    pub seen: bool,
    /// It came, or is to come, as a dead letter.
    pub origin: Option<Origin>,
}

/// Where a dead letter comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The queue in which it died.
    pub queue: String,
    /// When somebody asked to reject it there.
    pub asked: Stamp,
}

/// A transaction that is to be committed: all of it happens, or nothing.
#[derive(Clone, Debug)]
pub struct Commit {
    /// When that was asked for.
    pub asked: Stamp,
    /// What was published in it.
    pub published: Vec<MessageId>,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Which.
    pub id: MessageId,
    /// Bytes of its body.
    pub length: usize,
    /// What the broker counts for it: of AMQP 1.0, the bare message.
    pub bytes: u64,
    /// Delivery mode 2.
    pub persistent: bool,
    /// Where it was published to.
    pub exchange: String,
    /// Its routing key.
    pub key: String,
    /// The channel that published it, as a number that no other one has.
    pub publisher: u64,
    /// When it was published.
    pub published: Stamp,
    /// When the publisher learned that it is safe.
    pub confirmed: Option<Stamp>,
    /// By queue.
    pub targets: BTreeMap<String, Target>,
}

impl Message {
    /// From here on it may be gone from a queue, and from where it would go if it died there.
    fn excuse(&mut self, queue: &str, at: Stamp) {
        for target in self.at(queue) {
            target.excused = Some(target.excused.map_or(at, |earlier| earlier.min(at)));
        }
    }

    /// As [`Message::excuse`], unless it was excused before.
    fn excuse_if_new(&mut self, queue: &str, at: Stamp) {
        for target in self.at(queue) {
            target.excused.get_or_insert(at);
        }
    }

    /// What is known of it in a queue, and of the dead letter that comes from there and isn't known to have come.
    fn at(&mut self, queue: &str) -> impl Iterator<Item = &mut Target> {
        let has_left = self.targets.get(queue).is_some_and(|target| target.gone.is_some());
        self.targets.iter_mut().filter_map(move |(name, target)| {
            let comes = target.origin.as_ref().is_some_and(|origin| origin.queue == queue) && !has_left;
            (name == queue || comes).then_some(target)
        })
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Messages of transactions whose end was asked for.
    pub commits: Vec<Commit>,
    /// All messages ever published, by id.
    pub messages: Vec<Message>,
    objects: BTreeMap<Object, Vec<(Stamp, Presence)>>,
    /// Queues for which a purge or deletion is under way, by how many: whatever is in them is excused.
    emptying: BTreeMap<String, u32>,
    /// Queues from which messages may go without a word, since a consumer or get doesn't acknowledge: how many.
    draining: BTreeMap<String, u64>,
    /// Queues that anybody ever read from.
    read: BTreeMap<String, Stamp>,
    /// Queues to which messages may have come back that weren't flagged, since nobody had seen them.
    disordered: BTreeSet<String>,
    /// Queues that stopped in this life, since something of theirs couldn't be read.
    failed: BTreeSet<String>,
    /// When somebody learned of something that holds from then on.
    promises: Vec<Stamp>,
    /// The last life ended without a power cut: what was written is there, synced or not.
    pub kept_power: bool,
    /// A large message may find no space for its body's file.
    pub space_is_short: bool,
    publishers: u64,
}

impl Ledger {
    /// A number for a channel that publishes.
    pub fn publisher(&mut self) -> u64 {
        self.publishers += 1;
        self.publishers
    }

    /// These queues have stopped.
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

    /// Whether any queue has stopped that a message was published to.
    #[must_use]
    pub fn may_be_refused(&self, id: MessageId) -> bool {
        self.space_is_short || self.messages[id as usize].targets.keys().any(|queue| self.failed.contains(queue))
    }

    /// Notes what is known of an object.
    pub fn note(&mut self, object: Object, at: Stamp, presence: Presence) {
        if presence == Presence::Unknown {
            self.may_reach(&object);
        }
        self.objects.entry(object).or_default().push((at, presence));
    }

    /// What was published but not yet confirmed may come to the broker after a queue or binding did.
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

    /// What was known at a stamp; nothing known means that nobody asked for it.
    #[must_use]
    pub fn presence(&self, object: &Object, at: Stamp) -> Presence {
        let history = self.objects.get(object).map_or(&[][..], Vec::as_slice);
        history.iter().rev().find(|(when, _)| *when <= at).map_or(Presence::Absent, |(_, presence)| *presence)
    }

    /// What is known now.
    #[must_use]
    pub fn presence_now(&self, object: &Object) -> Presence {
        self.presence(object, Stamp::MAX)
    }

    /// Whether somebody asked to take an object away that was there in this life.
    #[must_use]
    pub fn was_unmade(&self, object: &Object) -> bool {
        let history = self.objects.get(object).map_or(&[][..], Vec::as_slice);
        history
            .iter()
            .map(|(_, presence)| *presence)
            .skip_while(|known| *known != Presence::Present)
            .any(|known| known != Presence::Present)
    }

    /// All objects ever asked for.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.keys()
    }

    /// The names of all queues ever asked for.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.objects().filter_map(|object| match object {
            Object::Queue(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// A message is about to be published. Its targets follow from the bindings as they are known now.
    pub fn publish(
        &mut self,
        publisher: u64,
        exchange: &str,
        key: &str,
        length: usize,
        persistent: bool,
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
        let message =
            Message { id, length, bytes, persistent, exchange, key, publisher, published, confirmed, targets };
        self.messages.push(message);
        id
    }

    /// The publisher learned that a message is safe.
    pub fn confirm(&mut self, id: MessageId, at: Stamp) {
        self.messages[id as usize].confirmed = Some(at);
        self.promises.push(at);
    }

    /// When clients of this life were promised something, in order.
    #[must_use]
    pub fn promises(&self) -> &[Stamp] {
        &self.promises
    }

    /// Somebody asked for the commit of a transaction with these messages.
    pub fn commit(&mut self, published: &[MessageId], asked: Stamp) {
        self.commits.push(Commit { asked, published: published.to_vec() });
    }

    /// A message of a transaction was refused by itself.
    pub fn leaves_commit(&mut self, id: MessageId) {
        self.commits.iter_mut().for_each(|commit| commit.published.retain(|other| *other != id));
    }

    /// It was published in a transaction that was rolled back.
    pub fn never(&mut self, id: MessageId) {
        self.messages[id as usize].targets.values_mut().for_each(|target| target.gone = Some(0));
    }

    /// The publisher learned that a message found no queue. False when there was one.
    pub fn released(&mut self, id: MessageId, at: Stamp) -> bool {
        let message = &mut self.messages[id as usize];
        let found_none = message.targets.values().all(|target| !target.certain || target.excused.is_some());
        for target in message.targets.values_mut() {
            target.gone.get_or_insert(at);
        }
        found_none
    }

    /// Somebody asked to settle a message for good.
    pub fn settle(&mut self, queue: &str, id: MessageId, at: Stamp) {
        if let Some(message) = self.messages.get_mut(id as usize) {
            message.excuse(queue, at);
        }
    }

    /// Somebody asked to reject a message: it may go where dead letters go.
    pub fn reject(&mut self, queue: &str, id: MessageId, at: Stamp) {
        let Some(dead) = dead_letters_of(queue) else { return self.settle(queue, id, at) };
        let is_there = self.presence_now(&Object::Queue(dead.clone())) == Presence::Present;
        let stays = !self.emptying.contains_key(&dead) && !self.emptying.contains_key(queue);
        let Some(message) = self.messages.get_mut(id as usize) else { return };
        let mut certain = is_there && stays;
        if let Some(target) = message.targets.get_mut(queue) {
            // It may be of a queue that was deleted meanwhile.
            certain &= target.excused.is_none();
            target.excused = Some(target.excused.map_or(at, |earlier| earlier.min(at)));
        }
        let origin = Some(Origin { queue: queue.to_owned(), asked: at });
        let new = Target { certain, origin, ..Target::default() };
        let target = message.targets.entry(dead).or_insert_with(|| new.clone());
        // After an earlier attempt, whose move a crash undid.
        if target.gone.is_some() {
            *target = new;
        }
    }

    /// Somebody was told that a message has left a queue for good.
    pub fn settled(&mut self, queue: &str, id: MessageId, at: Stamp) {
        if let Some(target) = self.messages.get_mut(id as usize).and_then(|message| message.targets.get_mut(queue)) {
            target.gone.get_or_insert(at);
            self.promises.push(at);
        }
    }

    /// Somebody asked to purge or delete a queue.
    pub fn begin_emptying(&mut self, queue: &str, at: Stamp) {
        *self.emptying.entry(queue.to_owned()).or_default() += 1;
        self.messages.iter_mut().for_each(|message| message.excuse_if_new(queue, at));
    }

    /// Whoever took messages of a queue without acknowledgement, since this stamp, is gone with what was under way.
    pub fn excuse_all(&mut self, queue: &str, since: Stamp) {
        self.messages.iter_mut().for_each(|message| message.excuse(queue, since));
    }

    /// A reader that had taken more than it was sent is gone: the rest is back, and nothing says so.
    pub fn disorder(&mut self, queue: &str) {
        self.disordered.insert(queue.to_owned());
    }

    /// Whether messages of a queue may come late without a flag.
    #[must_use]
    pub fn is_disordered(&self, queue: &str) -> bool {
        self.disordered.contains(queue)
    }

    /// That was done (`at` is when the client learned of it), or its connection is over.
    /// `asked` is what [`Ledger::begin_emptying`] was told.
    pub fn end_emptying(&mut self, queue: &str, asked: Stamp, at: Option<Stamp>) {
        if let Some(count) = self.emptying.get_mut(queue) {
            *count -= 1;
            if *count == 0 {
                self.emptying.remove(queue);
            }
        }
        let was_read = self.read.contains_key(queue);
        let Some(at) = at else { return };
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

    /// A binding is about to be taken away: what isn't confirmed may pass it or not.
    pub fn begin_unbind(&mut self, exchange: &str, queue: &str, at: Stamp) {
        let open = |message: &&mut Message| message.confirmed.is_none() && message.exchange == exchange;
        for message in self.messages.iter_mut().filter(open) {
            if let Some(target) = message.targets.get_mut(queue) {
                target.excused.get_or_insert(at);
            }
        }
    }

    /// Somebody reads from a queue; without acknowledgements messages go unheard of, `limit` of them at most.
    pub fn begin_reading(&mut self, queue: &str, unheard: u64, at: Stamp) {
        self.read.entry(queue.to_owned()).or_insert(at);
        let draining = self.draining.entry(queue.to_owned()).or_default();
        *draining = draining.saturating_add(unheard);
    }

    /// That ended, and everything that it took was heard of.
    pub fn end_reading(&mut self, queue: &str, unheard: u64) {
        if let Some(draining) = self.draining.get_mut(queue) {
            *draining = draining.saturating_sub(unheard);
        }
    }

    /// Nothing is under way: whatever went was heard of.
    pub fn heard_everything(&mut self) {
        self.draining.clear();
    }

    /// How many messages of a queue may be gone unheard of.
    #[must_use]
    pub fn unheard(&self, queue: &str) -> u64 {
        self.draining.get(queue).copied().unwrap_or(0)
    }

    /// A new life begins: what a client found is what there is, and it is durable.
    pub fn rebase(&mut self, found: &BTreeMap<String, Vec<MessageId>>, present: &dyn Fn(&Object) -> bool) {
        for (object, history) in &mut self.objects {
            let presence = if present(object) { Presence::Present } else { Presence::Absent };
            *history = vec![(0, presence)];
        }
        self.emptying.clear();
        self.draining.clear();
        self.disordered.clear();
        self.failed.clear();
        self.promises.clear();
        self.kept_power = false;
        for message in &mut self.messages {
            message.published = 0;
            for target in message.targets.values_mut() {
                target.excused = None;
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
